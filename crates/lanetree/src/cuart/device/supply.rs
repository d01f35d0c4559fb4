//! Room for what inserts make, and the inserts.

use super::update::InsertReport;
use super::{over, root_cell};
use crate::Result;
use crate::byte_keys::DeviceKeys;
use crate::cuart::Cuart;
use crate::cuart::region::Region;
use bytemuck::Pod;
use lanetree_kernels_cuart::update::{InsertArgs, RetireArgs, Stock, Supply, TidyArgs, TreeMut};
use lanetree_launch::cuart::update as launch;
use lanetree_layout::Word;
use lanetree_layout::cuart::{Kind, Link};
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::Global;

/// The place of the leaves of keys of a width, at most 32, among those of fixed sizes.
pub(super) fn leaf_number(width: usize) -> usize {
    Kind::of_key(width).map_or(3, |kind| kind as usize - Kind::Leaf8 as usize)
}

/// Makes room for `extra` more elements beside those that are used, free ones among them.
fn reserve<T: Pod>(device: &Device, stream: &Stream, region: &mut Region<T>, extra: usize) -> Result<()> {
    let needed = region.used + extra.saturating_sub(region.free_len);
    if needed <= region.buffer.len() {
        return Ok(());
    }
    let mut larger = device.alloc(needed.max(region.used + region.used / 8))?;
    larger.copy_from_buffer(stream, 0, &region.buffer, 0..region.used)?;
    // Leaves that are assigned and then not needed are never written, but copied with the others.
    let room = larger.len();
    larger.fill_zero_range(stream, region.used..room)?;
    // The old memory is given back only when nothing reads it any more.
    stream.synchronize()?;
    region.buffer = larger;
    Ok(())
}

/// Makes room for `extra` more indexes in the list of free elements, at most for all elements.
pub(super) fn reserve_free<T: Pod>(
    device: &Device,
    stream: &Stream,
    region: &mut Region<T>,
    extra: usize,
) -> Result<()> {
    let needed = (region.free_len + extra).min(region.buffer.len());
    if needed <= region.free.len() {
        return Ok(());
    }
    let mut larger = device.alloc(needed.max(region.free.len() * 2).min(region.buffer.len()))?;
    larger.copy_from_buffer(stream, 0, &region.free, 0..region.free_len)?;
    stream.synchronize()?;
    region.free = larger;
    Ok(())
}

/// What may be taken of a region.
fn stock<T: Pod>(region: &Region<T>) -> Stock {
    Stock { used: region.used as u64, free: region.free.global(), free_len: region.free_len as u64 }
}

/// Notes what was taken of a region.
fn take<T: Pod>(region: &mut Region<T>, taken: u64) {
    let taken = taken as usize;
    let again = taken.min(region.free_len);
    region.free_len -= again;
    region.used += taken - again;
}

/// Puts assigned leaves that were not needed with those that are free.
fn give_back<T: Pod>(stream: &Stream, region: &mut Region<T>, unused: &Buffer<u64>, count: u64) -> Result<()> {
    region.free.copy_from_buffer(stream, region.free_len, unused, 0..count as usize)?;
    region.free_len += count as usize;
    Ok(())
}

/// Makes leaves for keys that have none, and tells how many keys were put off: `count` picks of the batch, which need so many leaves of each size at
/// most, and units of dynamically sized ones. Waits for the stream.
///
/// `prepare` makes what else has to be there before anything is changed.
///
/// How many nodes they need is not known before; but each grows only once it is full, so each kind's number is
/// bounded by how many of the smaller kind there are and how many children come in.
///
/// Keys may be put off: where all keys under a node were removed, no leaf tells its path, and where the node does
/// not have all of it either, nothing says whether a key goes that way. The tree is built anew without such nodes
/// then, and takes the rest.
pub(super) fn insert<V: Word>(
    tree: &mut Cuart<V>,
    stream: &Stream,
    keys: &DeviceKeys,
    picks: Global<u32>,
    count: usize,
    needed: [u64; 4],
    prepare: impl FnOnce(&mut Cuart<V>) -> Result<()>,
) -> Result<(InsertReport, u64)> {
    let device = tree.device.clone();
    let (nodes, leaves) = (&mut tree.nodes, &mut tree.leaves);
    let n16 = count.min(nodes.n4.used + count / 3 + 1);
    let n48 = count.min(nodes.n16.used + count / 12 + 1);
    let n256 = count.min(nodes.n48.used + count / 32 + 1);
    reserve(&device, stream, &mut nodes.n4, count)?;
    reserve(&device, stream, &mut nodes.n16, n16)?;
    reserve(&device, stream, &mut nodes.n48, n48)?;
    reserve(&device, stream, &mut nodes.n256, n256)?;
    reserve(&device, stream, &mut leaves.leaf8, needed[0] as usize)?;
    reserve(&device, stream, &mut leaves.leaf16, needed[1] as usize)?;
    reserve(&device, stream, &mut leaves.leaf32, needed[2] as usize)?;
    reserve(&device, stream, &mut leaves.device, needed[3] as usize)?;
    reserve_free(&device, stream, &mut nodes.n4, n16)?;
    reserve_free(&device, stream, &mut nodes.n16, n48)?;
    reserve_free(&device, stream, &mut nodes.n48, n256)?;
    // Keys of one kind of leaves have them assigned: one each, whether it will be needed or not.
    let kinds = [Kind::Leaf8, Kind::Leaf16, Kind::Leaf32];
    let assigned = (0..3).find(|&number| needed[number] == count as u64).map(|number| kinds[number]);
    match assigned {
        Some(Kind::Leaf8) => reserve_free(&device, stream, &mut leaves.leaf8, count)?,
        Some(Kind::Leaf16) => reserve_free(&device, stream, &mut leaves.leaf16, count)?,
        Some(_) => reserve_free(&device, stream, &mut leaves.leaf32, count)?,
        None => {}
    }
    let mut unused = device.alloc::<u64>(if assigned.is_some() { count } else { 0 })?;
    let mut taken = device.alloc_zeroed::<u64>(Supply::COUNTERS * Supply::STRIDE)?;
    let mut root = root_cell(&device, tree.root)?;
    let mut retired = device.alloc::<u64>(count)?;
    let mut touched = device.alloc::<u64>(count)?;
    let mut counts = device.alloc_zeroed::<u64>(3)?;

    prepare(tree)?;
    let (nodes, leaves) = (&tree.nodes, &tree.leaves);
    let supply = Supply {
        taken: taken.global_mut(),
        n4: stock(&nodes.n4),
        n16: stock(&nodes.n16),
        n48: stock(&nodes.n48),
        n256: stock(&nodes.n256),
        leaf8: stock(&leaves.leaf8),
        leaf16: stock(&leaves.leaf16),
        leaf32: stock(&leaves.leaf32),
        units: leaves.device.used as u64,
        assigned: assigned.map_or(0, |kind| kind as u64),
        unused: unused.global_mut(),
        retired: retired.global_mut(),
        touched: touched.global_mut(),
    };
    let args = InsertArgs {
        tree: TreeMut::new(tree.tree_ref()),
        root: root.global_mut(),
        queries: keys.keys_ref(),
        picks,
        count: count as u64,
        supply,
    };
    let made = carry_out(&args, stream, (&taken, &root), &touched);
    let (mut made, root) = made.map_err(|error| tree.lose(error))?;
    if let Some(kind) = assigned {
        made[kind as usize - 1] = count as u64;
    }

    tree.root = root;
    let (nodes, leaves) = (&mut tree.nodes, &mut tree.leaves);
    let of = |kind: Kind| made[kind as usize - 1];
    take(&mut nodes.n4, of(Kind::N4));
    take(&mut nodes.n16, of(Kind::N16));
    take(&mut nodes.n48, of(Kind::N48));
    take(&mut nodes.n256, of(Kind::N256));
    take(&mut leaves.leaf8, of(Kind::Leaf8));
    take(&mut leaves.leaf16, of(Kind::Leaf16));
    take(&mut leaves.leaf32, of(Kind::Leaf32));
    leaves.device.used += of(Kind::DeviceLeaf) as usize;
    leaves.device_count += made[Supply::DEVICE_LEAVES];
    let left = made[Supply::UNUSED];
    let given_back = match assigned {
        _ if left == 0 => Ok(()),
        Some(Kind::Leaf8) => give_back(stream, &mut leaves.leaf8, &unused, left),
        Some(Kind::Leaf16) => give_back(stream, &mut leaves.leaf16, &unused, left),
        _ => give_back(stream, &mut leaves.leaf32, &unused, left),
    };
    given_back.map_err(|error| tree.lose(error))?;
    let inserted = of(Kind::Leaf8) + of(Kind::Leaf16) + of(Kind::Leaf32) + made[Supply::DEVICE_LEAVES] - left;
    tree.len += inserted;
    if inserted > 0 {
        tree.forget_order();
    }
    // Each growth takes a node of a larger kind, and nothing else does.
    let grown = of(Kind::N16) + of(Kind::N48) + of(Kind::N256);
    if grown > 0 {
        retire(tree, stream, (&retired, count as u64), &mut counts).map_err(|error| tree.lose(error))?;
    }
    Ok((InsertReport { inserted, grown }, made[Supply::PUT_OFF]))
}

/// Launches the inserts and the ordering of nodes, and tells the counters and the root when they are done.
fn carry_out(
    args: &InsertArgs,
    stream: &Stream,
    (taken, root): (&Buffer<u64>, &Buffer<u64>),
    touched: &Buffer<u64>,
) -> Result<([u64; Supply::COUNTERS], Link)> {
    launch::insert(args, over(stream, args.count as usize)?)?;
    let tidy = TidyArgs { tree: args.tree, touched: touched.global(), count: args.count };
    launch::tidy(&tidy, over(stream, args.count as usize)?)?;
    stream.synchronize()?;
    let (mut words, mut after) = ([0; Supply::COUNTERS * Supply::STRIDE], [0; 2]);
    taken.copy_to(&mut words)?;
    let made = core::array::from_fn(|counter| words[counter * Supply::STRIDE]);
    root.copy_to(&mut after)?;
    Ok((made, Link::from_bits(after[0])))
}

/// Puts nodes that were copied into larger ones on the lists of their kinds.
fn retire<V: Word>(
    tree: &mut Cuart<V>,
    stream: &Stream,
    (retired, count): (&Buffer<u64>, u64),
    counts: &mut Buffer<u64>,
) -> Result<()> {
    let nodes = &mut tree.nodes;
    let free_len = [nodes.n4.free_len, nodes.n16.free_len, nodes.n48.free_len].map(|len| len as u64);
    let free = [&mut nodes.n4.free, &mut nodes.n16.free, &mut nodes.n48.free].map(Buffer::global_mut);
    let args = RetireArgs { retired: retired.global(), count, free, free_len, counts: counts.global_mut() };
    launch::retire(&args, over(stream, count as usize)?)?;
    stream.synchronize()?;
    let mut by_kind = [0; 3];
    counts.copy_to(&mut by_kind)?;
    nodes.n4.free_len += by_kind[0] as usize;
    nodes.n16.free_len += by_kind[1] as usize;
    nodes.n48.free_len += by_kind[2] as usize;
    Ok(())
}
