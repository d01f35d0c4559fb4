//! The build from pairs that are on a device.

use crate::node::Filling;
use crate::options::Options;
use crate::parts::{Parts, Shape};
use crate::upper::table_shifts;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Buffer, Device, Error, Result, Stream};
use lanetree_kernels_lane_tree::layout::{
    FORMAT_BITS, Format, HALVES_CHILDREN, LINE_WORDS, NODE_WORDS, RECORD_WORDS, TOP_BUCKETS, exact_children,
};
use lanetree_kernels_lane_tree::{
    BUILD_WARPS, CutArgs, LINE_BITS, NodesArgs, PLAN_WORDS, TableArgs, UPPER_WARPS, UpperArgs, calls,
};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{DevicePairs, ScanScratch, exclusive_scan};
use lanetree_simt::{Global, GlobalMut, WARP};

/// A tree over strictly ascending pairs, at least one, that are on a device which runs kernels. Its memory comes from `device`.
/// Waits for the stream.
///
/// # Errors
/// [`Error::TooManyLeaves`]; [`Error::Runtime`] where the device has no room.
pub(crate) fn build_on<K: Key, V: Word>(
    stream: &Stream,
    device: &Device,
    options: Options,
    (keys, values, len): DevicePairs<'_, K, V>,
) -> Result<Parts<K::Bits>> {
    let filling = Filling::new::<K::Bits, V>(options.fill);
    let parts = filling.parts(len);
    let mut cuts = device.alloc::<u64>(parts + 1)?;
    let mut counts = device.alloc::<u64>(parts)?;
    let mut plans = device.alloc::<u32>(parts * PLAN_WORDS as usize)?;
    let mut before = device.alloc::<u64>(parts + 1)?;
    let mut formats = device.alloc_zeroed::<u32>(3)?;
    let args = CutArgs {
        keys: keys.read_on(stream)?.cast::<K::Bits>(),
        len: len as u64,
        parts: parts as u64,
        reach: filling.reach() as u32,
        reserved: 0,
        cuts: cuts.write_on(stream)?,
        flip: K::FLIP,
    };
    // SAFETY: the buffers have so many elements, and parts are of at least four times the reach.
    unsafe { launch::over(stream, parts as u64 + 1, WARP, THREADS)?.run(calls::cut(&args))? };
    let mut args = NodesArgs {
        keys: args.keys,
        values: values.read_on(stream)?,
        cuts: cuts.read_on(stream)?,
        parts: parts as u64,
        filling: filling.line,
        reserved: 0,
        plans: plans.write_on(stream)?,
        counts: counts.write_on(stream)?,
        before: Global::null(),
        nodes: GlobalMut::null(),
        records: GlobalMut::null(),
        lines: GlobalMut::null(),
        firsts: GlobalMut::null(),
        lasts: GlobalMut::null(),
        formats: GlobalMut::null(),
        flip: K::FLIP,
    };
    let over_parts = || launch::over(stream, parts as u64, WARP, BUILD_WARPS * WARP);
    // SAFETY: the cuts are those of the pairs.
    unsafe { over_parts()?.run(calls::count(&args))? };
    exclusive_scan(stream, &counts, parts, &mut before, &mut ScanScratch::new(device, parts)?)?;
    let total = read(&before, parts)?;
    let (leaf_nodes, line_count) = ((total >> LINE_BITS) as usize, total & ((1 << LINE_BITS) - 1));
    let Ok(lines) = u32::try_from(line_count) else {
        return Err(Error::TooManyLeaves { pairs: len as u64, most: u64::from(u32::MAX) });
    };
    let most = most_upper::<K::Bits>(leaf_nodes, options.table_nodes as usize);
    let nodes = (leaf_nodes + most) * NODE_WORDS as usize;
    let mut built = Parts {
        shape: Shape { len: len as u64, lines, leaf_nodes: leaf_nodes as u32, height: 1, ..Shape::default() },
        lines: device.alloc(lines as usize * LINE_WORDS as usize)?,
        nodes: device.alloc(nodes)?,
        records: device.alloc(leaf_nodes * RECORD_WORDS as usize)?,
        firsts: device.alloc(most)?,
        prefixes: device.alloc(0)?,
        table: device.alloc(TOP_BUCKETS as usize)?,
    };
    let (mut firsts, mut lasts) = (device.alloc::<K::Bits>(leaf_nodes)?, device.alloc::<K::Bits>(leaf_nodes)?);
    args.before = before.read_on(stream)?;
    args.nodes = built.nodes.write_on(stream)?;
    args.records = built.records.write_on(stream)?;
    args.lines = built.lines.write_on(stream)?;
    (args.firsts, args.lasts) = (firsts.write_on(stream)?, lasts.write_on(stream)?);
    args.formats = formats.write_on(stream)?;
    // SAFETY: there is room for the nodes and lines that were counted.
    unsafe { over_parts()?.run(calls::write(&args))? };
    upper(stream, device, options, &mut built, (firsts, lasts), &mut formats)?;
    Ok(built)
}

/// A number from a device.
fn read<T: bytemuck::Pod + Default>(from: &Buffer<T>, at: usize) -> Result<T> {
    let mut one = [T::default()];
    from.copy_range_to(at, &mut one)?;
    Ok(one[0])
}

/// The most nodes that levels above so many have; or, if the table leads to these, how many these are: there is room for
/// their first keys.
fn most_upper<K: Word>(leaf_nodes: usize, table_nodes: usize) -> usize {
    if leaf_nodes <= table_nodes {
        return leaf_nodes;
    }
    let exact = exact_children::<K>() as usize;
    // A part is two nodes, or exact nodes for each of its halves.
    let mut nodes = leaf_nodes.div_ceil(HALVES_CHILDREN as usize) * 2 * (HALVES_CHILDREN as usize).div_ceil(2 * exact);
    let mut all = nodes;
    while nodes > table_nodes {
        nodes = nodes.div_ceil(exact);
        all += nodes;
    }
    all
}

/// Makes the levels above the lowest, whose first and last keys these are, and the table.
fn upper<K: Word>(
    stream: &Stream,
    device: &Device,
    options: Options,
    built: &mut Parts<K>,
    (leaf_firsts, leaf_lasts): (Buffer<K>, Buffer<K>),
    formats: &mut Buffer<u32>,
) -> Result<()> {
    let exact = exact_children::<K>() as usize;
    let mut shape = built.shape;
    let (mut count, mut lasts) = (shape.leaf_nodes as usize, leaf_lasts);
    let mut exact_levels = 0;
    // The bytes of first keys, of all levels above the lowest, before those of a node with this number.
    let bytes_before = |number: u32| u64::from(number - shape.leaf_nodes) * K::BYTES as u64;
    while count > options.table_nodes as usize {
        let is_first = shape.height == 1;
        let part = if is_first { HALVES_CHILDREN as usize } else { exact };
        let parts = count.div_ceil(part);
        let over_parts = || launch::over(stream, parts as u64, WARP, UPPER_WARPS * WARP);
        // A part of an exact level is one node.
        let counted = if is_first { parts } else { 0 };
        let mut counts = device.alloc::<u32>(counted)?;
        let mut before = device.alloc::<u64>(counted + 1)?;
        let mut args = UpperArgs {
            firsts: match is_first {
                true => leaf_firsts.read_on(stream)?,
                false => built.firsts.read_on(stream)?.byte_add(bytes_before(shape.top_first)),
            },
            lasts: lasts.read_on(stream)?,
            children: count as u64,
            first_child: shape.top_first,
            first_number: shape.top_first + count as u32,
            part: part as u32,
            reserved: 0,
            counts: counts.write_on(stream)?,
            before: Global::null(),
            nodes: GlobalMut::null(),
            own_firsts: GlobalMut::null(),
            own_lasts: GlobalMut::null(),
            // What exact levels note is known.
            formats: formats.write_on(stream)?.byte_add(if is_first { 4 } else { 8 }),
        };
        count = parts;
        if is_first {
            // SAFETY: there are so many children and parts.
            unsafe { over_parts()?.run(calls::count_upper(&args))? };
            exclusive_scan(stream, &counts, parts, &mut before, &mut ScanScratch::new(device, parts)?)?;
            count = read(&before, parts)? as usize;
            args.before = before.read_on(stream)?;
        } else {
            exact_levels |= (Format::Exact as u32) << (FORMAT_BITS * shape.height);
        }
        let mut own_lasts = device.alloc::<K>(count)?;
        args.nodes = built.nodes.write_on(stream)?;
        args.own_firsts = built.firsts.write_on(stream)?.byte_add(bytes_before(args.first_number));
        args.own_lasts = own_lasts.write_on(stream)?;
        // SAFETY: there is room for the nodes, of which there are as many as were counted.
        unsafe { over_parts()?.run(calls::write_upper(&args))? };
        (shape.top_first, lasts) = (args.first_number, own_lasts);
        shape.height += 1;
    }
    if shape.height == 1 {
        built.firsts.copy_from_buffer(stream, 0, &leaf_firsts, 0..count)?;
    }
    shape.top_count = count as u32;
    let start = shape.top_start();
    let [first, last] = [read(&built.firsts, start)?, read(&built.firsts, start + count - 1)?];
    shape.origin = first;
    (shape.prefix_shift, shape.bucket_shift) = table_shifts(first, last);
    built.prefixes = device.alloc(count)?;
    let args = TableArgs {
        firsts: built.firsts.read_on(stream)?.byte_add((start * K::BYTES) as u64),
        count: shape.top_count,
        prefix_shift: shape.prefix_shift,
        bucket_shift: shape.bucket_shift,
        reserved: 0,
        table: built.table.write_on(stream)?,
        prefixes: built.prefixes.write_on(stream)?,
    };
    let threads = shape.top_count.max(TOP_BUCKETS);
    // SAFETY: there are so many nodes, and the table has its buckets.
    unsafe { launch::over(stream, u64::from(threads), 1, THREADS)?.run(calls::table(&args))? };
    let found = formats.to_vec()?;
    shape.formats = found[0] | found[1] << FORMAT_BITS | exact_levels;
    stream.synchronize()?;
    built.shape = shape;
    Ok(())
}
