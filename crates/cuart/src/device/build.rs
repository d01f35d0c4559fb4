//! Bulk build on a device: leaves from keys of one width that are on the device, and the nodes and the root table above
//! any leaves that are there. The kernels' crate explains the method (`lanetree_kernels_cuart::build`).

mod leaves;
mod scratch;
#[cfg(test)]
pub(super) mod tests;

use crate::leaves::{HostBuffers, LeafBuffers};
use crate::nodes::NodeBuffers;
use crate::parts::Parts;
use crate::region::{LongLeaves, Region};
use crate::update_state::UpdateState;
use crate::{Builder, RootTable, table};
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::build::boundaries::LevelArgs;
use lanetree_kernels_cuart::build::fill::{FillArgs, lanes};
use lanetree_kernels_cuart::build::table::TableArgs;
use lanetree_kernels_cuart::build::{findings, level_len};
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::layout::{Link, LinkType, table_len};
use lanetree_kernels_cuart::{THREADS, TreeRef};
use lanetree_layout::Word;
use lanetree_runtime::Launch;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, LaunchShape};
use scratch::Scratch;

/// From this number of threads on, the threads of a grid-stride kernel take several elements each: enough threads for
/// every multiprocessor.
const MOST_THREADS: u64 = 1 << 19;

/// How many elements of each buffer the leaves of a tree take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) leaf8: usize,
    pub(super) leaf16: usize,
    pub(super) leaf32: usize,
    /// Dynamically sized leaves.
    pub(super) device: usize,
    /// Their units.
    pub(super) units: usize,
    pub(super) ranks8: usize,
    pub(super) order: usize,
}

impl Room {
    pub(super) fn alloc(self, device: &Device) -> Result<LeafBuffers> {
        Ok(LeafBuffers {
            leaf8: Region::full(device.alloc(self.leaf8)?)?,
            leaf16: Region::full(device.alloc(self.leaf16)?)?,
            leaf32: Region::full(device.alloc(self.leaf32)?)?,
            long: LongLeaves::full(device.alloc(self.units)?, self.device as u64)?,
            host: HostBuffers::default(),
            ranks8: device.alloc(self.ranks8)?,
            order: device.alloc(self.order)?,
        })
    }
}

/// Builds a tree above leaves. Returns when it is complete.
///
/// # Errors
/// As [`nodes`].
///
/// # Safety
/// The leaves are on the stream's device, none of them in main memory, their keys ascend strictly by rank, and
/// there are `len` of them by `first` or `leaves.order`; nobody writes them meanwhile.
pub(super) unsafe fn above<V: Word>(
    options: &Builder<V>,
    stream: &Stream,
    leaves: LeafBuffers,
    first: Link,
    len: u64,
) -> Result<Parts> {
    let tree = TreeRef {
        leaf8: leaves.leaf8.buffer.read_on(stream)?.cast(),
        leaf16: leaves.leaf16.buffer.read_on(stream)?.cast(),
        leaf32: leaves.leaf32.buffer.read_on(stream)?.cast(),
        device_leaves: leaves.long.units.read_on(stream)?.cast(),
        order: leaves.order.read_on(stream)?.cast(),
        first: first.bits(),
        len,
        ..no_tree()
    };
    // SAFETY: the caller's promise.
    let built = unsafe { nodes(stream, &tree, &leaves.order, options.table()) }?;
    Ok(Parts {
        device: stream.device().clone(),
        root: built.root,
        len,
        first,
        ordered: true,
        nodes: built.nodes,
        leaves,
        table: built.table,
        table_bytes: built.table_bytes,
        updates: UpdateState::default(),
    })
}

/// A tree without anything.
fn no_tree() -> TreeRef {
    let none = Global::null();
    TreeRef {
        n4: none,
        n16: none,
        n48: none,
        n256: none,
        leaf8: none,
        leaf16: none,
        leaf32: none,
        device_leaves: none,
        table: Global::null(),
        ranks8: Global::null(),
        order: Global::null(),
        root: 0,
        first: 0,
        len: 0,
        table_bytes: 0,
        padding: 0,
    }
}

/// What there is above leaves.
struct BuiltNodes {
    nodes: NodeBuffers,
    /// The topmost node, or the only leaf; none for an empty tree.
    root: Link,
    table: Buffer<Link>,
    table_bytes: u32,
}

/// Room for this many nodes of each type, from the smallest type on.
fn room_for_nodes(device: &Device, [n4, n16, n48, n256]: [u64; 4]) -> Result<NodeBuffers> {
    Ok(NodeBuffers {
        n4: Region::full(device.alloc(n4 as usize)?)?,
        n16: Region::full(device.alloc(n16 as usize)?)?,
        n48: Region::full(device.alloc(n48 as usize)?)?,
        n256: Region::full(device.alloc(n256 as usize)?)?,
    })
}

/// Builds the nodes and the root table above the leaves of `tree`, whose keys ascend strictly by rank; the tree needs
/// nothing else. Returns when they are complete. Each buffer has as many elements as there are nodes of its kind,
/// ordered by depth and then by keys.
///
/// Scratch memory: at most 41 bytes per key, less with fewer nodes; 29 for random keys of 8 bytes.
///
/// # Errors
/// [`Error::TooManyElements`] from 2^32 keys on; [`Error::Runtime`] if there is no room, and from launches.
///
/// # Safety
/// The leaves are on the stream's device, none of them in main memory, and there are `tree.len` of them by
/// `tree.first` or `tree.order`, which is the memory of `order`; nobody writes them meanwhile.
unsafe fn nodes(stream: &Stream, tree: &TreeRef, order: &Buffer<Link>, table: RootTable) -> Result<BuiltNodes> {
    let device = stream.device();
    let mut built = BuiltNodes {
        nodes: room_for_nodes(device, [0; 4])?,
        root: Link::NONE,
        table: device.alloc(0)?,
        table_bytes: 0,
    };
    let boundaries = u32::try_from(tree.len).map_err(|_| Error::TooManyElements { elements: tree.len as usize })?;
    let boundaries = boundaries.saturating_sub(1);
    let mut scratch = Scratch::new(device, tree, boundaries)?;
    let mut beginnings = [0; 2];
    match tree.len {
        0 => {}
        1 => built.root = leaf(tree, order, 0)?,
        _ => beginnings = build(stream, &mut scratch, &mut built)?,
    }
    built.table_bytes = match table {
        RootTable::Auto => table::worthwhile(|bytes| beginnings[bytes as usize - 2]),
        RootTable::None => 0,
        RootTable::TwoBytes => 2,
        RootTable::ThreeBytes => 3,
    };
    built.table = device.alloc(table_len(built.table_bytes))?;
    built.table.fill_zero(stream)?;
    if built.table_bytes > 0 && tree.len > 0 {
        let args = TableArgs {
            nodes: scratch.args(stream)?,
            table: built.table.write_on(stream)?.cast(),
            bytes: built.table_bytes,
            padding: 0,
        };
        // SAFETY: the leaves are as the caller promises, and the nodes above them are complete; the table has an entry for
        // each beginning.
        unsafe { over(stream, tree.len)?.run(calls::table(&args))? };
    }
    stream.synchronize()?;
    Ok(built)
}

/// The link of the leaf of a rank.
fn leaf(tree: &TreeRef, order: &Buffer<Link>, rank: u64) -> Result<Link> {
    if tree.first != 0 {
        return Ok(Link::from_bits(tree.first).offset(rank));
    }
    let mut leaf = [Link::NONE];
    order.copy_range_to(rank as usize, &mut leaf)?;
    Ok(leaf[0])
}

/// Builds nodes above at least two leaves. Returns the numbers of distinct prefixes of 2 and of 3 bytes.
fn build(stream: &Stream, scratch: &mut Scratch, built: &mut BuiltNodes) -> Result<[u64; 2]> {
    let (device, boundaries) = (stream.device(), scratch.boundaries());
    let args = scratch.args(stream)?;
    // SAFETY: this and all launches below: the leaves are as the caller of `nodes` promises; the scratch memory is as
    // long as these boundaries and nodes need, which the host has read, and each kernel's input was written before in the
    // stream.
    unsafe { over(stream, level_len(boundaries, 0).min(MOST_THREADS))?.run(calls::boundaries(&args))? };
    let (mut level, mut from) = (1, level_len(boundaries, 0));
    while level_len(boundaries, level) > 32 {
        let (from_len, len) = (level_len(boundaries, level), level_len(boundaries, level + 1));
        let args = LevelArgs { minima: args.minima, from, from_len, len };
        // SAFETY: as above.
        unsafe { over(stream, len * 32)?.run(calls::level(&args))? };
        from += from_len;
        level += 1;
    }
    // SAFETY: as above.
    unsafe { over(stream, level_len(boundaries, 0).min(MOST_THREADS))?.run(calls::intervals(&args))? };
    let found = scratch.findings(stream)?;
    let word = |index: u64| found[index as usize];
    let beginnings = [word(findings::BEGINNINGS), word(findings::BEGINNINGS + 1)];
    let nodes = word(findings::NODES) as u32;

    scratch.sort(stream, word(findings::DEEPEST) as u32)?;
    scratch.make_room(device, nodes)?;
    // SAFETY: as above.
    unsafe { over(stream, boundaries.into())?.run(calls::number(&scratch.args(stream)?, false))? };
    scratch.sum(stream, blocks(boundaries))?;
    // SAFETY: as above.
    unsafe { over(stream, boundaries.into())?.run(calls::number(&scratch.args(stream)?, true))? };
    // SAFETY: as above.
    unsafe { over(stream, nodes.into())?.run(calls::place(&scratch.args(stream)?, false))? };
    scratch.sum(stream, scratch::KINDS * blocks(nodes))?;
    // SAFETY: as above.
    unsafe { over(stream, nodes.into())?.run(calls::place(&scratch.args(stream)?, true))? };
    let found = scratch.findings(stream)?;
    let args = scratch.args(stream)?;
    let count = |kind: u64| found[(findings::KINDS + kind) as usize];
    built.root = Link::from_bits(found[findings::ROOT as usize]);
    built.nodes = room_for_nodes(device, [count(0), count(1), count(2), count(3)])?;
    let (buffers, mut from) = (&mut built.nodes, 0);
    for (kind, out, count) in [
        (LinkType::N4, buffers.n4.buffer.write_on(stream)?.cast(), count(0)),
        (LinkType::N16, buffers.n16.buffer.write_on(stream)?.cast(), count(1)),
        (LinkType::N48, buffers.n48.buffer.write_on(stream)?.cast(), count(2)),
        (LinkType::N256, buffers.n256.buffer.write_on(stream)?.cast(), count(3)),
    ] {
        if count > 0 {
            let args = FillArgs { nodes: args, out, from, count };
            // SAFETY: as above; there is room for all nodes of the kind.
            unsafe { over(stream, count * u64::from(lanes(kind)))?.run(calls::fill(kind, &args))? };
        }
        from += count;
    }
    Ok(beginnings)
}

/// Blocks over that many elements.
fn blocks(elements: u32) -> usize {
    elements.div_ceil(THREADS) as usize
}

/// A launch of that many threads, in whole blocks.
///
/// # Errors
/// [`Error::BatchTooLarge`].
pub(super) fn over(stream: &Stream, threads: u64) -> Result<Launch<'_>> {
    let too_large = || Error::BatchTooLarge { queries: threads as usize };
    let shape = LaunchShape::covering(threads, THREADS).ok_or_else(too_large)?;
    Ok(Launch::new(stream, shape))
}
