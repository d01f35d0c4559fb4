//! The build from pairs that are on a device.

use crate::node::Filling;
use crate::options::{Options, most_of_part, upper_levels};
use crate::parts::{Parts, Shape};
use crate::upper::gap;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Buffer, Device, Error, Result, Stream};
use lanetree_kernels_lane_tree::layout::{
    FORMAT_BITS, Format, HALVES_CHILDREN, NODE_WORDS, Prefixes, TABLE_ENTRIES, exact_children, record_words,
    words_of_buckets,
};
use lanetree_kernels_lane_tree::{
    BUCKET_BITS, BUILD_WARPS, CROWDED_SAMPLES, CutArgs, FOUND_WORDS, NodesArgs, SUMMARY_WORDS, SplitNodes, TableArgs,
    UPPER_WARPS, UpperArgs, calls, plan_words,
};
use lanetree_layout::{AnyKey, KeyWord, Value};
use lanetree_primitives::{DevicePairs, ScanScratch, exclusive_scan};
use lanetree_runtime::Launch;
use lanetree_simt::{Global, GlobalMut, WARP};

/// Warps for parts that are not one node, where there are not fewer parts: enough for all multiprocessors.
const OTHERS_WARPS: usize = 1 << 13;

/// No nodes that are split: parts are of all pairs.
pub(crate) const NOTHING_SPLIT: SplitNodes = SplitNodes { words: Global::null(), count: 0 };

/// Pairs on a device, in parts that are to become nodes.
pub(crate) struct Planned<'a, K: AnyKey, V: Value> {
    pairs: DevicePairs<'a, K, V>,
    filling: Filling,
    split: SplitNodes,
    parts: usize,
    cuts: Buffer<u64>,
    counts: Buffer<u64>,
    plans: Buffer<u32>,
    /// Nodes and buckets before each part and in all; then [`NodesArgs::found`].
    before: Buffer<u64>,
    /// From [`NodesArgs::others`].
    others: Buffer<u32>,
    /// Nodes of all parts, once they are known; until then 0. If they are as many, every part is one node.
    nodes: usize,
}

/// Where nodes are written.
pub(crate) struct Outputs<'a, K: KeyWord> {
    pub(crate) nodes: &'a mut Buffer<u32>,
    pub(crate) records: &'a mut Buffer<u64>,
    pub(crate) ends: &'a mut Buffer<u32>,
    pub(crate) buckets: &'a mut Buffer<u64>,
    pub(crate) upper: &'a mut UpperScratch<K>,
}

impl<'a, K: AnyKey, V: Value> Planned<'a, K, V> {
    /// Plans strictly ascending pairs, at least one, in parts: in the stream's order. If nodes are split, the parts are
    /// theirs.
    pub(crate) fn new(
        stream: &Stream,
        device: &Device,
        pairs: DevicePairs<'a, K, V>,
        filling: Filling,
        split: SplitNodes,
        parts: usize,
    ) -> Result<Self> {
        let mut planned = Self {
            pairs,
            filling,
            split,
            parts,
            cuts: device.alloc(parts + 1)?,
            counts: device.alloc(parts)?,
            plans: device.alloc(parts * plan_words::<K::Bits, V>() as usize)?,
            before: device.alloc(parts + 1 + FOUND_WORDS as usize / 2)?,
            others: device.alloc(parts)?,
            nodes: 0,
        };
        let args = CutArgs {
            keys: pairs.keys.read_on(stream)?.cast::<K::Bits>(),
            len: pairs.len as u64,
            parts: parts as u64,
            reach: filling.reach() as u32,
            reserved: 0,
            cuts: planned.cuts.write_on(stream)?,
            found: planned.found(stream)?,
            split,
            flip: K::FLIP,
        };
        // SAFETY: the buffers have an element per part and one more, and parts are of at least four times the reach.
        unsafe { launch::over(stream, parts as u64 + 1, WARP, THREADS)?.run(calls::cut(&args))? };
        let mut args = planned.args(stream)?;
        args.plans = planned.plans.write_on(stream)?;
        args.counts = planned.counts.write_on(stream)?;
        args.found = planned.found(stream)?;
        args.others = planned.others.write_on(stream)?;
        // SAFETY: the cuts were made for these pairs.
        unsafe {
            planned.over_parts(stream)?.run(calls::count(&args))?;
            planned.over_others(stream)?.run(calls::count_others(&args))?;
        }
        let mut scratch = ScanScratch::new(device, parts)?;
        exclusive_scan(stream, &planned.counts, parts, &mut planned.before, &mut scratch)?;
        Ok(planned)
    }

    /// Plans parts that are no node by the first plan; `cuts` has where they begin among the pairs, and `others` their numbers, in any order.
    /// In the stream's order.
    pub(crate) fn of_others(
        stream: &Stream,
        device: &Device,
        pairs: DevicePairs<'a, K, V>,
        filling: Filling,
        (parts, cuts, others): (usize, Buffer<u64>, Buffer<u32>),
    ) -> Result<Self> {
        let mut planned = Self {
            pairs,
            filling,
            split: NOTHING_SPLIT,
            parts,
            cuts,
            counts: device.alloc(parts)?,
            // None is one node yet.
            plans: device.alloc_zeroed(parts * plan_words::<K::Bits, V>() as usize)?,
            before: device.alloc(parts + 1 + FOUND_WORDS as usize / 2)?,
            others,
            nodes: 0,
        };
        // The second of the words that were found is their number.
        planned.before.copy_range_from(parts + 1, &[(parts as u64) << 32])?;
        let mut args = planned.args(stream)?;
        args.plans = planned.plans.write_on(stream)?;
        args.counts = planned.counts.write_on(stream)?;
        args.found = planned.found(stream)?;
        args.others = planned.others.write_on(stream)?;
        // SAFETY: the caller's parts, all of which are listed.
        unsafe { planned.over_others(stream)?.run(calls::count_others(&args))? };
        let mut scratch = ScanScratch::new(device, parts)?;
        exclusive_scan(stream, &planned.counts, parts, &mut planned.before, &mut scratch)?;
        Ok(planned)
    }

    fn over_parts<'s>(&self, stream: &'s Stream) -> Result<Launch<'s>> {
        launch::over(stream, self.parts as u64, WARP, BUILD_WARPS * WARP)
    }

    /// Few parts are not one node, and a warp takes one after the other.
    fn over_others<'s>(&self, stream: &'s Stream) -> Result<Launch<'s>> {
        launch::over(stream, self.parts.min(OTHERS_WARPS) as u64, WARP, BUILD_WARPS * WARP)
    }

    /// Where [`NodesArgs::found`] is.
    fn found(&mut self, stream: &Stream) -> Result<GlobalMut<u32>> {
        let after = size_of::<u64>() * (self.parts + 1);
        Ok(self.before.write_on(stream)?.cast::<u32>().byte_add(after as u64))
    }

    /// What both passes have in common.
    fn args(&self, stream: &Stream) -> Result<NodesArgs<K::Bits, V>> {
        Ok(NodesArgs {
            keys: self.pairs.keys.read_on(stream)?.cast::<K::Bits>(),
            values: self.pairs.values.read_on(stream)?,
            cuts: self.cuts.read_on(stream)?,
            parts: self.parts as u64,
            split: self.split,
            filling: self.filling.bucket,
            reserved: 0,
            plans: GlobalMut::null(),
            counts: GlobalMut::null(),
            found: GlobalMut::null(),
            others: GlobalMut::null(),
            before: self.before.read_on(stream)?,
            targets: Global::null(),
            nodes: GlobalMut::null(),
            records: GlobalMut::null(),
            ends: GlobalMut::null(),
            buckets: GlobalMut::null(),
            firsts: GlobalMut::null(),
            lasts: GlobalMut::null(),
            formats: GlobalMut::null(),
            flip: K::FLIP,
        })
    }

    /// Nodes and buckets of all parts; `None` if the pairs do not ascend strictly. Waits for the stream.
    pub(crate) fn total(&mut self) -> Result<Option<(usize, u64)>> {
        let mut found = [0; 2];
        self.before.copy_range_to(self.parts, &mut found)?;
        let [total, words] = found;
        self.nodes = (total >> BUCKET_BITS) as usize;
        // The first of the words that were found says whether keys were out of order.
        Ok((words as u32 == 0).then_some((self.nodes, total & ((1 << BUCKET_BITS) - 1))))
    }

    /// Nodes and buckets before each part, and in all.
    pub(crate) fn before(&self) -> &Buffer<u64> {
        &self.before
    }

    /// Nodes and buckets of each part.
    pub(crate) fn counts(&self) -> &Buffer<u64> {
        &self.counts
    }

    /// The first pair of each part, and how many there are.
    pub(crate) fn cuts(&self) -> &Buffer<u64> {
        &self.cuts
    }

    /// Writes the nodes, with their records and buckets, where `targets` says, or one after the other.
    ///
    /// # Safety
    /// There is room for them.
    pub(crate) unsafe fn write(
        &mut self,
        stream: &Stream,
        targets: Option<&Buffer<u64>>,
        outputs: Outputs<'_, K::Bits>,
    ) -> Result<()> {
        let mut args = self.args(stream)?;
        // The plans are only read.
        args.plans = self.plans.write_on(stream)?;
        if let Some(targets) = targets {
            args.targets = targets.read_on(stream)?;
        }
        args.nodes = outputs.nodes.write_on(stream)?;
        args.records = outputs.records.write_on(stream)?;
        args.ends = outputs.ends.write_on(stream)?;
        args.buckets = outputs.buckets.write_on(stream)?;
        args.firsts = outputs.upper.firsts.write_on(stream)?;
        args.lasts = outputs.upper.lasts.write_on(stream)?;
        args.formats = outputs.upper.formats.write_on(stream)?;
        // SAFETY: the caller's.
        unsafe {
            self.over_parts(stream)?.run(calls::write(&args))?;
            if self.nodes != self.parts {
                args.found = self.found(stream)?;
                args.others = self.others.write_on(stream)?;
                self.over_others(stream)?.run(calls::write_others(&args))?;
            }
        }
        Ok(())
    }
}

/// The number of buckets of a tree.
///
/// # Errors
/// [`Error::TooManyLeaves`].
pub(crate) fn bucket_count(buckets: u64, pairs: u64) -> Result<u32> {
    u32::try_from(buckets).map_err(|_| Error::TooManyLeaves { pairs, most: u64::from(u32::MAX) })
}

/// A tree over strictly ascending pairs, at least one, that are on a device which runs kernels; `None` if they turn out not to ascend
/// so. Its memory comes from `device`. Waits for the stream.
///
/// # Errors
/// [`Error::TooManyLeaves`]; [`Error::Runtime`] where the device has no room.
pub(crate) fn build_on<K: AnyKey, V: Value>(
    stream: &Stream,
    device: &Device,
    options: Options,
    pairs: DevicePairs<'_, K, V>,
) -> Result<Option<Parts<K::Bits>>> {
    let filling = Filling::new::<K::Bits, V>(options.fill);
    let len = pairs.len;
    let mut planned = Planned::new(stream, device, pairs, filling, NOTHING_SPLIT, filling.parts(len))?;
    let Some((leaf_nodes, buckets)) = planned.total()? else { return Ok(None) };
    let buckets = bucket_count(buckets, len as u64)?;
    let options = options.on::<K::Bits>(device, len as u64, leaf_nodes)?;
    let mut upper = UpperScratch::new(device, leaf_nodes, options)?;
    let mut built =
        room::<_, V>(device, options, leaf_nodes, buckets.saturating_add(filling.reserved(buckets)) as usize)?;
    built.shape = Shape { len: len as u64, buckets, leaf_nodes: leaf_nodes as u32, ..Shape::default() };
    let Parts { nodes, records, ends, buckets, .. } = &mut built;
    let outputs = Outputs { nodes, records, ends, buckets, upper: &mut upper };
    // SAFETY: there is room for the nodes and buckets that were counted.
    unsafe { planned.write(stream, None, outputs)? };
    make_upper(stream, options, &mut built, &mut upper)?;
    Ok(Some(built))
}

/// Memory for a tree of `leaf_nodes` nodes of the lowest level and `buckets` buckets.
pub(crate) fn room<K: KeyWord, V: Value>(
    device: &Device,
    options: Options,
    leaf_nodes: usize,
    buckets: usize,
) -> Result<Parts<K>> {
    let table_nodes = options.table_nodes as usize;
    let most = most_upper::<K>(leaf_nodes, table_nodes);
    Ok(Parts {
        shape: Shape::default(),
        buckets: device.alloc(words_of_buckets::<K, V>(buckets as u64) as usize)?,
        nodes: device.alloc((leaf_nodes + most) * NODE_WORDS as usize)?,
        records: device.alloc(leaf_nodes * record_words::<K, V>() as usize)?,
        ends: device.alloc(leaf_nodes)?,
        firsts: device.alloc(most)?,
        prefixes: device.alloc(most.min(table_nodes))?,
        table: device.alloc(TABLE_ENTRIES as usize)?,
        rank_steps: Vec::new(),
        weights: None,
    })
}

/// Memory to make the levels above the lowest with.
#[derive(Debug)]
pub(crate) struct UpperScratch<K> {
    /// The first key of each node of the lowest level.
    pub(crate) firsts: Buffer<K>,
    /// The last key of each.
    pub(crate) lasts: Buffer<K>,
    /// The formats that were noted: of the lowest level, of the next, and of others.
    pub(crate) formats: Buffer<u32>,
    /// From [`TableArgs::summary`].
    summary: Buffer<u64>,
    counts: Buffer<u32>,
    before: Buffer<u64>,
    scan: ScanScratch,
    /// The last keys of the nodes of a level, and of the next.
    own_lasts: [Buffer<K>; 2],
}

impl<K: KeyWord> UpperScratch<K> {
    /// For a tree of `leaf_nodes` nodes of the lowest level.
    pub(crate) fn new(device: &Device, leaf_nodes: usize, options: Options) -> Result<Self> {
        let has_levels = leaf_nodes > options.table_nodes as usize;
        let parts = if has_levels { leaf_nodes.div_ceil(HALVES_CHILDREN as usize) } else { 0 };
        let most = parts * most_of_part::<K>();
        Ok(Self {
            firsts: device.alloc(leaf_nodes)?,
            lasts: device.alloc(leaf_nodes)?,
            formats: device.alloc_zeroed(3)?,
            summary: device.alloc(SUMMARY_WORDS as usize)?,
            counts: device.alloc(parts)?,
            before: device.alloc(parts + 1)?,
            scan: ScanScratch::new(device, parts)?,
            own_lasts: [device.alloc(most)?, device.alloc(most.div_ceil(exact_children::<K>() as usize))?],
        })
    }
}

/// A number from a device.
pub(crate) fn read<T: bytemuck::Pod + Default>(from: &Buffer<T>, at: usize) -> Result<T> {
    let mut one = [T::default()];
    from.copy_range_to(at, &mut one)?;
    Ok(one[0])
}

/// The most nodes that the levels above `leaf_nodes` nodes have; or `leaf_nodes`, if the table leads to these: there is room for
/// their first keys.
fn most_upper<K: KeyWord>(leaf_nodes: usize, table_nodes: usize) -> usize {
    if leaf_nodes <= table_nodes {
        return leaf_nodes;
    }
    let mut all = 0;
    for nodes in upper_levels::<K>(leaf_nodes) {
        all += nodes;
        if nodes <= table_nodes {
            break;
        }
    }
    all
}

/// Makes the levels above the lowest, whose first and last keys are in the scratch memory, and the table. The options
/// come from [`Options::on`] for the tree. Allocates nothing. Waits for the stream.
pub(crate) fn make_upper<K: KeyWord>(
    stream: &Stream,
    options: Options,
    built: &mut Parts<K>,
    scratch: &mut UpperScratch<K>,
) -> Result<()> {
    let exact = exact_children::<K>() as usize;
    let mut shape = Shape { height: 1, top_first: 0, ..built.shape };
    let mut count = shape.leaf_nodes as usize;
    let mut exact_levels = 0;
    // The bytes of first keys, of all levels above the lowest, before the first keys of the node with this number.
    let bytes_before = |number: u32| u64::from(number - shape.leaf_nodes) * K::BYTES as u64;
    while count > options.table_nodes as usize {
        let is_first = shape.height == 1;
        let part = if is_first { HALVES_CHILDREN as usize } else { exact };
        let parts = count.div_ceil(part);
        let over_parts = || launch::over(stream, parts as u64, WARP, UPPER_WARPS * WARP);
        // Levels take turns.
        let own = shape.height as usize - 1;
        let mut args = UpperArgs {
            firsts: match is_first {
                true => scratch.firsts.read_on(stream)?,
                false => built.firsts.read_on(stream)?.byte_add(bytes_before(shape.top_first)),
            },
            lasts: if is_first { &scratch.lasts } else { &scratch.own_lasts[(own + 1) % 2] }.read_on(stream)?,
            children: count as u64,
            first_child: shape.top_first,
            first_number: shape.top_first + count as u32,
            part: part as u32,
            reserved: 0,
            counts: scratch.counts.write_on(stream)?,
            before: Global::null(),
            nodes: GlobalMut::null(),
            own_firsts: GlobalMut::null(),
            own_lasts: GlobalMut::null(),
            // What exact levels note is known.
            formats: scratch.formats.write_on(stream)?.byte_add(if is_first { 4 } else { 8 }),
        };
        count = parts;
        if is_first {
            // SAFETY: the arguments' numbers of children and parts are right.
            unsafe { over_parts()?.run(calls::count_upper(&args))? };
            exclusive_scan(stream, &scratch.counts, parts, &mut scratch.before, &mut scratch.scan)?;
            count = read(&scratch.before, parts)? as usize;
            args.before = scratch.before.read_on(stream)?;
        } else {
            exact_levels |= (Format::Exact as u32) << (FORMAT_BITS * shape.height);
        }
        args.nodes = built.nodes.write_on(stream)?;
        args.own_firsts = built.firsts.write_on(stream)?.byte_add(bytes_before(args.first_number));
        args.own_lasts = scratch.own_lasts[own % 2].write_on(stream)?;
        // SAFETY: there is room for the nodes, of which there are as many as were counted.
        unsafe { over_parts()?.run(calls::write_upper(&args))? };
        shape.top_first = args.first_number;
        shape.height += 1;
    }
    if shape.height == 1 {
        built.firsts.copy_from_buffer(stream, 0, &scratch.firsts, 0..count)?;
    }
    shape.top_count = count as u32;
    let firsts = built.firsts.read_on(stream)?.byte_add((shape.top_start() * K::BYTES) as u64);
    let mut args = TableArgs {
        firsts,
        count: shape.top_count,
        reserved: 0,
        split: K::MIN,
        gap: K::MIN,
        formats: scratch.formats.read_on(stream)?,
        table: built.table.write_on(stream)?,
        prefixes: built.prefixes.write_on(stream)?,
        summary: scratch.summary.write_on(stream)?,
    };
    let threads = shape.top_count.max(TABLE_ENTRIES);
    let make = |args: &TableArgs<K>| -> Result<()> {
        // SAFETY: the arguments' number of nodes is right, and the table has its buckets.
        Ok(unsafe { launch::over(stream, u64::from(threads), 1, THREADS)?.run(calls::table(args)) }?)
    };
    make(&args)?;
    let summary = scratch.summary.to_vec()?;
    if summary[5] >= u64::from(CROWDED_SAMPLES) {
        // Without room for them, the table stays as it is, which is right, too.
        let mut firsts = Vec::new();
        if firsts.try_reserve_exact(count).is_ok() {
            firsts.resize(count, K::MIN);
            built.firsts.copy_range_to(shape.top_start(), &mut firsts)?;
            if let Some(found) = gap(&firsts) {
                (args.split, args.gap) = found;
                make(&args)?;
                stream.synchronize()?;
            }
        }
    }
    let [first, last] = [0, 2].map(|at| K::from_parts([summary[at], summary[at + 1]]));
    (shape.prefixes, shape.table_shift) = Prefixes::new(first, last, args.split, args.gap);
    let found = [summary[4] as u32, (summary[4] >> 32) as u32];
    shape.formats =
        (built.shape.formats & ((1 << FORMAT_BITS) - 1)) | found[0] | found[1] << FORMAT_BITS | exact_levels;
    built.shape = shape;
    Ok(())
}
