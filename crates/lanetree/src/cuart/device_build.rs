//! Bulk build on a device: leaves from sorted keys of one width that are there, and the nodes and the root
//! table above any leaves that are there. The kernels' crate says how (`lanetree_kernels_cuart::build`).

mod keys;
mod scratch;
#[cfg(test)]
mod tests;
mod tree;

pub use keys::FixedKeys;
pub use tree::{DeviceTree, Fetched};

use super::{RootTable, table};
use crate::error::same_device;
use crate::{Error, Result};
use lanetree_kernels_cuart::build::boundaries::LevelArgs;
use lanetree_kernels_cuart::build::fill::{FillArgs, lanes};
use lanetree_kernels_cuart::build::leaves::LeavesArgs;
use lanetree_kernels_cuart::build::table::TableArgs;
use lanetree_kernels_cuart::build::{findings, level_len};
use lanetree_kernels_cuart::{THREADS, TreeRef};
use lanetree_launch::{Launch, cuart::build as launch};
use lanetree_layout::Word;
use lanetree_layout::cuart::{Kind, Leaf8, Leaf16, Leaf32, Link, MAX_FIXED, N4, N16, N48, N256, table_len};
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, LaunchShape};
use scratch::Scratch;

/// Threads from which on those of a kernel that goes on a grid's width apart take several elements each:
/// enough for every multiprocessor.
const MOST_THREADS: u64 = 1 << 19;

/// The leaves of keys of one width: in one of the buffers, with their rank as their index.
pub(super) struct FixedLeaves {
    pub(super) leaf8: Buffer<Leaf8>,
    pub(super) leaf16: Buffer<Leaf16>,
    pub(super) leaf32: Buffer<Leaf32>,
    /// The link of the first one; there is one without keys too.
    pub(super) first: Link,
}

impl FixedLeaves {
    /// Room for so many leaves of keys of a width up to [`MAX_FIXED`].
    fn new(device: &Device, width: usize, len: usize) -> Result<Self> {
        let kind = Kind::of_key(width).unwrap_or(Kind::Leaf32);
        let len_of = |own: Kind| if own == kind { len } else { 0 };
        Ok(Self {
            leaf8: device.alloc(len_of(Kind::Leaf8))?,
            leaf16: device.alloc(len_of(Kind::Leaf16))?,
            leaf32: device.alloc(len_of(Kind::Leaf32))?,
            first: Link::new(kind, width, 0),
        })
    }

    /// A tree of so many leaves, which has no nodes yet.
    pub(super) fn tree(&self, len: usize) -> TreeRef {
        TreeRef {
            leaf8: self.leaf8.global().cast(),
            leaf16: self.leaf16.global().cast(),
            leaf32: self.leaf32.global().cast(),
            first: self.first.bits(),
            len: len as u64,
            ..no_tree()
        }
    }
}

/// A tree without anything.
pub(super) fn no_tree() -> TreeRef {
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

/// Builds the leaves of the first `len` keys, which must ascend strictly. Waits for the stream.
///
/// # Errors
/// [`Error::NotSorted`] or [`Error::NotDistinct`] with the first key that does not ascend;
/// [`Error::OutputLength`] for buffers that are too small; [`Error::KeyTooLong`] for keys wider than 32 bytes;
/// [`Error::Runtime`] for buffers of another device than the stream's, and where there is no room.
pub(super) fn leaves<V: Word>(
    stream: &Stream,
    keys: &FixedKeys<'_>,
    values: &Buffer<V>,
    len: usize,
) -> Result<FixedLeaves> {
    let (width, device) = (keys.width(), stream.device());
    keys.check(stream, len)?;
    if values.len() < len {
        return Err(Error::OutputLength { what: "the values", expected: len, found: values.len() });
    }
    same_device(device, values.device(), "the values")?;
    if width > MAX_FIXED && len > 0 {
        return Err(Error::KeyTooLong { index: 0, len: width, max: MAX_FIXED });
    }
    let mut leaves = FixedLeaves::new(device, width, len)?;
    if len == 0 {
        return Ok(leaves);
    }
    let mut found = device.upload(&[u64::MAX; 2])?;
    let args = LeavesArgs {
        values: values.global(),
        leaves: match leaves.first.kind() {
            Kind::Leaf8 => leaves.leaf8.global_mut().cast(),
            Kind::Leaf16 => leaves.leaf16.global_mut().cast(),
            _ => leaves.leaf32.global_mut().cast(),
        },
        findings: found.global_mut(),
        count: len as u64,
        ..keys.args()
    };
    launch::leaves(&args, over(stream, len as u64)?)?;
    stream.synchronize()?;
    let mut first = [0; 2];
    found.copy_to(&mut first)?;
    let [descent, equal] = first.map(|index| usize::try_from(index).ok().filter(|&index| index < len));
    match (descent, equal) {
        (Some(index), equal) if equal.is_none_or(|equal| index < equal) => {
            Err(Error::NotSorted { index, previous: keys.show(index - 1)?, key: keys.show(index)? })
        }
        (_, Some(index)) => Err(Error::NotDistinct { index, key: keys.show(index)? }),
        (_, None) => Ok(leaves),
    }
}

/// What there is above leaves.
pub(super) struct BuiltNodes {
    pub(super) n4: Buffer<N4>,
    pub(super) n16: Buffer<N16>,
    pub(super) n48: Buffer<N48>,
    pub(super) n256: Buffer<N256>,
    /// The topmost node, or the only leaf; none of an empty tree.
    pub(super) root: Link,
    pub(super) table: Buffer<Link>,
    pub(super) table_bytes: u32,
}

/// Builds the nodes and the root table above the leaves of `tree`, whose keys ascend strictly by rank; it
/// need have nothing else. Returns when they are complete. Each buffer has as many elements as there are nodes
/// of its kind, ordered by depth and then by keys.
///
/// Scratch memory: at most 41 bytes a key, less with fewer nodes; 29 for random keys of 8 bytes.
///
/// # Errors
/// [`Error::TooManyElements`] from 2^32 keys on; [`Error::Runtime`] where there is no room, and from launches.
///
/// # Safety
/// The leaves are on the stream's device, none of them in main memory, and there are `tree.len` of them by
/// `tree.first` or `tree.order`, which is the memory of `order`; nobody writes them meanwhile.
pub(super) unsafe fn nodes(
    stream: &Stream,
    tree: &TreeRef,
    order: &Buffer<Link>,
    table: RootTable,
) -> Result<BuiltNodes> {
    let device = stream.device();
    let mut built = BuiltNodes {
        n4: device.alloc(0)?,
        n16: device.alloc(0)?,
        n48: device.alloc(0)?,
        n256: device.alloc(0)?,
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
            nodes: scratch.args(),
            table: built.table.global_mut().cast(),
            bytes: built.table_bytes,
            padding: 0,
        };
        launch::table(&args, over(stream, tree.len)?)?;
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

/// Builds nodes above at least two leaves. The result are the numbers of beginnings of 2 and of 3 bytes.
fn build(stream: &Stream, scratch: &mut Scratch, built: &mut BuiltNodes) -> Result<[u64; 2]> {
    let (device, boundaries) = (stream.device(), scratch.boundaries());
    let args = scratch.args();
    launch::boundaries(&args, over(stream, level_len(boundaries, 0).min(MOST_THREADS))?)?;
    let (mut level, mut from) = (1, level_len(boundaries, 0));
    while level_len(boundaries, level) > 32 {
        let (from_len, len) = (level_len(boundaries, level), level_len(boundaries, level + 1));
        let args = LevelArgs { minima: args.minima, from, from_len, len };
        launch::level(&args, over(stream, len * 32)?)?;
        from += from_len;
        level += 1;
    }
    launch::intervals(&args, over(stream, level_len(boundaries, 0).min(MOST_THREADS))?)?;
    let found = scratch.findings(stream)?;
    let word = |index: u64| found[index as usize];
    let beginnings = [word(findings::BEGINNINGS), word(findings::BEGINNINGS + 1)];
    let nodes = word(findings::NODES) as u32;

    scratch.sort(stream, word(findings::DEEPEST) as u32)?;
    scratch.make_room(device, nodes)?;
    let args = scratch.args();
    launch::number(&args, false, over(stream, boundaries.into())?)?;
    scratch.sum(stream, blocks(boundaries))?;
    launch::number(&args, true, over(stream, boundaries.into())?)?;
    launch::place(&args, false, over(stream, nodes.into())?)?;
    scratch.sum(stream, scratch::KINDS * blocks(nodes))?;
    launch::place(&args, true, over(stream, nodes.into())?)?;
    let found = scratch.findings(stream)?;
    let count = |kind: u64| found[(findings::KINDS + kind) as usize];
    built.root = Link::from_bits(found[findings::ROOT as usize]);
    built.n4 = device.alloc(count(0) as usize)?;
    built.n16 = device.alloc(count(1) as usize)?;
    built.n48 = device.alloc(count(2) as usize)?;
    built.n256 = device.alloc(count(3) as usize)?;
    let mut from = 0;
    for (kind, out, count) in [
        (Kind::N4, built.n4.global_mut().cast(), count(0)),
        (Kind::N16, built.n16.global_mut().cast(), count(1)),
        (Kind::N48, built.n48.global_mut().cast(), count(2)),
        (Kind::N256, built.n256.global_mut().cast(), count(3)),
    ] {
        if count > 0 {
            let args = FillArgs { nodes: args, out, from, count };
            launch::fill(kind, &args, over(stream, count * u64::from(lanes(kind)))?)?;
        }
        from += count;
    }
    Ok(beginnings)
}

/// Blocks over so many elements.
fn blocks(elements: u32) -> usize {
    elements.div_ceil(THREADS) as usize
}

/// A launch of so many threads.
///
/// # Errors
/// [`Error::BatchTooLarge`].
fn over(stream: &Stream, threads: u64) -> Result<Launch<'_>> {
    let too_large = || Error::BatchTooLarge { queries: threads as usize };
    let shape = LaunchShape::covering(threads, THREADS).ok_or_else(too_large)?;
    // SAFETY: the callers, all in this module, have checked the caller's buffers or pass their promise on; all
    // others are made here, long enough, and when they are dropped, their memory goes to nobody else before the
    // kernel is done.
    Ok(unsafe { Launch::new(stream, shape) })
}
