//! Inserts and removals on a device: first all the memory that they may need, then the changes.

use super::batch::UpdateBatch;
use super::change_scratch::ChangeScratch;
use super::engine;
use super::missing::{Missing, find_missing};
use super::{over, root_cell};
use crate::Builder;
use crate::parts::Parts;
use crate::region::{FreeList, LongLeaves, Region};
use bytemuck::Pod;
use lanetree_frame::byte_keys::DeviceKeys;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::layout::{Link, LinkType};
use lanetree_kernels_cuart::update::{InsertArgs, RemoveArgs, RetireArgs, Stock, Supply, TidyArgs};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Launch, Stream};
use lanetree_simt::Global;

/// Grows a buffer to at least `needed` elements, by at least an eighth, and keeps the first `used` elements.
fn enlarge<T: Pod>(stream: &Stream, buffer: &mut Buffer<T>, used: usize, needed: usize) -> Result<()> {
    if needed <= buffer.len() {
        return Ok(());
    }
    let mut larger = buffer.device().alloc(needed.max(used + used / 8))?;
    larger.copy_from_buffer(stream, 0, buffer, 0..used)?;
    // Leaves that were assigned but not needed are never written, but are copied with the others.
    let room = larger.len();
    larger.fill_zero_range(stream, used..room)?;
    // The copied elements come from a buffer that is dropped.
    stream.synchronize()?;
    *buffer = larger;
    Ok(())
}

/// Makes room for `extra` more elements, the free ones among them.
fn reserve<T: Pod>(stream: &Stream, region: &mut Region<T>, extra: usize) -> Result<()> {
    let needed = region.needed(extra);
    enlarge(stream, &mut region.buffer, region.used, needed)
}

/// Makes room for `extra` more units. A device takes none of the free leaves, since these have various sizes.
fn reserve_units(stream: &Stream, leaves: &mut LongLeaves, extra: usize) -> Result<()> {
    enlarge(stream, &mut leaves.units, leaves.used, leaves.used + extra)
}

/// Makes room for `extra` more indexes in the list of free elements, at most for all elements.
fn reserve_free<T: Pod>(stream: &Stream, region: &mut Region<T>, extra: usize) -> Result<()> {
    let FreeList { indexes, len } = &mut region.free;
    let needed = (*len + extra).min(region.buffer.len());
    if needed <= indexes.len() {
        return Ok(());
    }
    let mut larger = indexes.device().alloc(needed.max(indexes.len() * 2).min(region.buffer.len()))?;
    larger.copy_from_buffer(stream, 0, indexes, 0..*len)?;
    stream.synchronize()?;
    *indexes = larger;
    Ok(())
}

/// The elements that a kernel launched next on the stream may take from a region.
fn stock<T: Pod>(stream: &Stream, region: &Region<T>) -> Result<Stock> {
    let FreeList { indexes, len } = &region.free;
    Ok(Stock { used: region.used as u64, free: indexes.read_on(stream)?, free_len: *len as u64 })
}

/// Notes what was taken of a region.
fn take<T: Pod>(region: &mut Region<T>, taken: u64) {
    let taken = taken as usize;
    let again = taken.min(region.free.len);
    region.free.len -= again;
    region.used += taken - again;
}

/// Returns assigned leaves that were not needed to the free list.
fn give_back<T: Pod>(stream: &Stream, region: &mut Region<T>, unused: &Buffer<u64>, count: u64) -> Result<()> {
    let FreeList { indexes, len } = &mut region.free;
    indexes.copy_from_buffer(stream, *len, unused, 0..count as usize)?;
    *len += count as usize;
    Ok(())
}

/// Inserts that have all the memory they need, so that lack of memory cannot stop them half-way.
pub(super) struct Inserts<'o, V: Word> {
    options: &'o Builder<V>,
    /// For keys that are missing; none if no key is.
    turn: Option<Turn>,
}

impl<'o, V: Word> Inserts<'o, V> {
    /// Determines what a batch needs, and makes room for it. Waits for the stream.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for scratch memory made for updates only; [`Error::KeyTooLong`], [`Error::UpdateEngine`]
    /// for keys that the tree or the engine cannot hold; [`Error::Runtime`].
    pub(super) fn plan(
        tree: &mut Parts,
        options: &'o Builder<V>,
        stream: &Stream,
        keys: &DeviceKeys,
        scratch: &mut ChangeScratch,
    ) -> Result<Self> {
        let Some(inserting) = &mut scratch.inserting else {
            return Err(Error::OutputLength { what: "the scratch memory", expected: keys.len(), actual: 0 });
        };
        let missing = find_missing(tree, options, stream, keys, inserting)?;
        let with_long_keys = missing.leaves[3] > 0;
        scratch.engine.check::<V>(tree, with_long_keys)?;
        let turn = match missing.count {
            0 => None,
            _ => Some(Turn::plan(tree, stream, missing)?),
        };
        engine::reserve::<V>(tree, &scratch.engine, with_long_keys)?;
        Ok(Self { options, turn })
    }

    /// Makes leaves for keys that have none, and then writes all values. Returns how many keys were inserted; the writes may still be
    /// in flight.
    ///
    /// Keys may be deferred: if all keys under a node were removed, no leaf gives its path, and if the node does not
    /// hold the whole path either, nothing says whether a key belongs there. Then the tree is rebuilt without such
    /// nodes, and takes the deferred keys. This cannot be known in advance, so it may fail for lack of memory.
    pub(super) fn carry_out(
        self,
        tree: &mut Parts,
        stream: &Stream,
        batch: &mut UpdateBatch<'_, V>,
        scratch: &mut ChangeScratch,
    ) -> Result<u64> {
        let mut inserted = 0;
        let mut inserts = self;
        while let (Some(turn), Some(inserting)) = (inserts.turn.take(), &scratch.inserting) {
            let picks = turn.missing.picks(stream, inserting)?;
            let (made, put_off) = turn.carry_out(tree, stream, batch, picks)?;
            inserted += made;
            if put_off > 0 {
                *tree = tree.rebuilt(inserts.options)?;
                inserts = Self::plan(tree, inserts.options, stream, batch.keys, scratch)?;
            }
        }
        let begun = engine::begin(tree, stream, batch, &mut scratch.engine)?;
        engine::finish(tree, stream, batch, begun, &mut scratch.engine)?;
        Ok(inserted)
    }
}

/// Inserts of missing keys, and the memory that they need.
struct Turn {
    missing: Missing,
    /// If all keys have one type of leaf, each key gets a leaf assigned, whether it will be needed or not.
    assigned: Option<LinkType>,
    unused: Buffer<u64>,
    taken: Buffer<u64>,
    root: Buffer<u64>,
    retired: Buffer<u64>,
    touched: Buffer<u64>,
    counts: Buffer<u64>,
}

impl Turn {
    /// Makes room for one leaf per missing key, and for the nodes above them.
    ///
    /// The number of nodes that they need is not known in advance. But a node grows only once it is full, so the number
    /// of each type is bounded by the number of nodes of the next smaller type and the number of new children.
    fn plan(tree: &mut Parts, stream: &Stream, missing: Missing) -> Result<Self> {
        let Missing { count, leaves: needed, .. } = missing;
        let device = tree.device.clone();
        let (nodes, leaves) = (&mut tree.nodes, &mut tree.leaves);
        let n16 = count.min(nodes.n4.used + count / 3 + 1);
        let n48 = count.min(nodes.n16.used + count / 12 + 1);
        let n256 = count.min(nodes.n48.used + count / 32 + 1);
        reserve(stream, &mut nodes.n4, count)?;
        reserve(stream, &mut nodes.n16, n16)?;
        reserve(stream, &mut nodes.n48, n48)?;
        reserve(stream, &mut nodes.n256, n256)?;
        reserve(stream, &mut leaves.leaf8, needed[0] as usize)?;
        reserve(stream, &mut leaves.leaf16, needed[1] as usize)?;
        reserve(stream, &mut leaves.leaf32, needed[2] as usize)?;
        reserve_units(stream, &mut leaves.long, needed[3] as usize)?;
        reserve_free(stream, &mut nodes.n4, n16)?;
        reserve_free(stream, &mut nodes.n16, n48)?;
        reserve_free(stream, &mut nodes.n48, n256)?;
        let kinds = [LinkType::Leaf8, LinkType::Leaf16, LinkType::Leaf32];
        let assigned = (0..3).find(|&number| needed[number] == count as u64).map(|number| kinds[number]);
        match assigned {
            Some(LinkType::Leaf8) => reserve_free(stream, &mut leaves.leaf8, count)?,
            Some(LinkType::Leaf16) => reserve_free(stream, &mut leaves.leaf16, count)?,
            Some(_) => reserve_free(stream, &mut leaves.leaf32, count)?,
            None => {}
        }
        Ok(Self {
            missing,
            assigned,
            unused: device.alloc(if assigned.is_some() { count } else { 0 })?,
            taken: device.alloc_zeroed(Supply::COUNTERS * Supply::STRIDE)?,
            root: root_cell(&device, tree.root)?,
            retired: device.alloc(count)?,
            touched: device.alloc(count)?,
            counts: device.alloc_zeroed(3)?,
        })
    }

    /// Makes the leaves, and returns how many keys were inserted, and how many deferred. Waits for the stream.
    fn carry_out<V: Word>(
        mut self,
        tree: &mut Parts,
        stream: &Stream,
        batch: &UpdateBatch<'_, V>,
        picks: Global<u32>,
    ) -> Result<(u64, u64)> {
        let (assigned, unused) = (self.assigned, &mut self.unused);
        let (nodes, leaves) = (&tree.nodes, &tree.leaves);
        let supply = Supply {
            taken: self.taken.write_on(stream)?,
            n4: stock(stream, &nodes.n4)?,
            n16: stock(stream, &nodes.n16)?,
            n48: stock(stream, &nodes.n48)?,
            n256: stock(stream, &nodes.n256)?,
            leaf8: stock(stream, &leaves.leaf8)?,
            leaf16: stock(stream, &leaves.leaf16)?,
            leaf32: stock(stream, &leaves.leaf32)?,
            units: leaves.long.used as u64,
            assigned: assigned.map_or(0, |kind| kind as u64),
            unused: unused.write_on(stream)?,
            retired: self.retired.write_on(stream)?,
            touched: self.touched.write_on(stream)?,
        };
        let count = self.missing.count;
        let args = InsertArgs {
            tree: tree.tree_mut(stream)?,
            root: self.root.write_on(stream)?,
            queries: batch.queries,
            picks,
            count: count as u64,
            supply,
        };
        // SAFETY: the tree is valid and without leaves in main memory; that many picks of the batch's queries, and room
        // for all nodes and leaves that they may take, as planned; the counters are zeros, and the root's lock is free.
        unsafe { over(stream, count)?.run(calls::insert(&args))? };
        let tidy = TidyArgs { tree: args.tree, touched: self.touched.read_on(stream)?, count: count as u64 };
        // SAFETY: the nodes whose children the inserts have left unsorted, each once.
        unsafe { over(stream, count)?.run(calls::tidy(&tidy))? };
        stream.synchronize()?;
        let (mut words, mut after) = ([0; Supply::COUNTERS * Supply::STRIDE], [0; 2]);
        self.taken.copy_to(&mut words)?;
        self.root.copy_to(&mut after)?;
        let mut made: [u64; Supply::COUNTERS] = core::array::from_fn(|counter| words[counter * Supply::STRIDE]);
        if let Some(kind) = assigned {
            made[kind as usize - 1] = count as u64;
        }

        tree.root = Link::from_bits(after[0]);
        let (nodes, leaves) = (&mut tree.nodes, &mut tree.leaves);
        let of = |kind: LinkType| made[kind as usize - 1];
        take(&mut nodes.n4, of(LinkType::N4));
        take(&mut nodes.n16, of(LinkType::N16));
        take(&mut nodes.n48, of(LinkType::N48));
        take(&mut nodes.n256, of(LinkType::N256));
        take(&mut leaves.leaf8, of(LinkType::Leaf8));
        take(&mut leaves.leaf16, of(LinkType::Leaf16));
        take(&mut leaves.leaf32, of(LinkType::Leaf32));
        leaves.long.used += of(LinkType::DeviceLeaf) as usize;
        leaves.long.count += made[Supply::DEVICE_LEAVES];
        let left = made[Supply::UNUSED];
        match assigned {
            _ if left == 0 => {}
            Some(LinkType::Leaf8) => give_back(stream, &mut leaves.leaf8, &self.unused, left)?,
            Some(LinkType::Leaf16) => give_back(stream, &mut leaves.leaf16, &self.unused, left)?,
            _ => give_back(stream, &mut leaves.leaf32, &self.unused, left)?,
        }
        let inserted =
            of(LinkType::Leaf8) + of(LinkType::Leaf16) + of(LinkType::Leaf32) + made[Supply::DEVICE_LEAVES] - left;
        tree.len += inserted;
        if inserted > 0 {
            tree.forget_order();
        }
        // Each growth takes a node of the next larger type, and nothing else does.
        let grown = of(LinkType::N16) + of(LinkType::N48) + of(LinkType::N256);
        if grown > 0 {
            self.retire(tree, stream)?;
        }
        Ok((inserted, made[Supply::PUT_OFF]))
    }

    /// Puts nodes that were copied into larger ones on the free lists of their types.
    fn retire(&mut self, tree: &mut Parts, stream: &Stream) -> Result<()> {
        let (nodes, count) = (&mut tree.nodes, self.missing.count);
        let lists = [&mut nodes.n4.free, &mut nodes.n16.free, &mut nodes.n48.free];
        let free_len = [lists[0].len, lists[1].len, lists[2].len].map(|len| len as u64);
        let [n4, n16, n48] = lists.map(|list| list.indexes.write_on(stream));
        let args = RetireArgs {
            retired: self.retired.read_on(stream)?,
            count: count as u64,
            free: [n4?, n16?, n48?],
            free_len,
            counts: self.counts.write_on(stream)?,
        };
        // SAFETY: as many links as keys, and room in the lists for all nodes that may have grown, as planned.
        unsafe { over(stream, count)?.run(calls::retire(&args))? };
        stream.synchronize()?;
        let mut by_kind = [0; 3];
        self.counts.copy_to(&mut by_kind)?;
        for (list, count) in [&mut nodes.n4.free, &mut nodes.n16.free, &mut nodes.n48.free].into_iter().zip(by_kind) {
            list.len += count as usize;
        }
        Ok(())
    }
}

/// Makes room for this many more free leaves: no more can be removed than there are.
fn reserve_free_leaves(tree: &mut Parts, stream: &Stream, count: usize) -> Result<()> {
    let leaves = &mut tree.leaves;
    reserve_free(stream, &mut leaves.leaf8, count)?;
    reserve_free(stream, &mut leaves.leaf16, count)?;
    reserve_free(stream, &mut leaves.leaf32, count)
}

/// Removals that have all the memory they need, so that lack of memory cannot stop them half-way.
pub(super) struct Removals {
    count: usize,
    /// The root when `cell` was made.
    root: Link,
    cell: Buffer<u64>,
    removed: Buffer<u64>,
}

impl Removals {
    /// Makes room for that many more free leaves.
    pub(super) fn plan(tree: &mut Parts, stream: &Stream, count: usize) -> Result<Self> {
        reserve_free_leaves(tree, stream, count)?;
        let (root, cell) = (tree.root, root_cell(&tree.device, tree.root)?);
        Ok(Self { count, root, cell, removed: tree.device.alloc_zeroed(4)? })
    }

    /// Removes the keys, and returns how many were present. Returns when it is done.
    ///
    /// Inserts of other keys may happen between the plan and this call: they leave no more leaves free than before,
    /// unless they have rebuilt the tree.
    pub(super) fn carry_out(self, tree: &mut Parts, stream: &Stream, keys: &DeviceKeys) -> Result<u64> {
        // SAFETY: removals of the tree, as planned.
        self.carry_out_by(tree, stream, keys, |launch, args| unsafe { launch.run(calls::remove(args)) })
    }

    /// As [`Removals::carry_out`], by a kernel that `run` launches over the keys, and that removes at most all of them.
    pub(super) fn carry_out_by(
        mut self,
        tree: &mut Parts,
        stream: &Stream,
        keys: &DeviceKeys,
        run: impl FnOnce(Launch<'_>, &RemoveArgs) -> lanetree_runtime::Result<()>,
    ) -> Result<u64> {
        reserve_free_leaves(tree, stream, self.count)?;
        if self.root != tree.root {
            self.cell.copy_from(&[tree.root.bits(), 0])?;
        }
        let tree_mut = tree.tree_mut(stream)?;
        let leaves = &mut tree.leaves;
        let lists = [&mut leaves.leaf8.free, &mut leaves.leaf16.free, &mut leaves.leaf32.free];
        let free_len = [lists[0].len, lists[1].len, lists[2].len].map(|len| len as u64);
        let [leaf8, leaf16, leaf32] = lists.map(|list| list.indexes.write_on(stream));
        let args = RemoveArgs {
            tree: tree_mut,
            root: self.cell.write_on(stream)?,
            queries: keys.keys_ref(stream)?,
            count: self.count as u64,
            free: [leaf8?, leaf16?, leaf32?],
            free_len,
            removed: self.removed.write_on(stream)?,
        };
        // The tree is valid and without leaves in main memory; that many queries, and room in the lists for all leaves
        // that they may remove, as planned; the counters are zeros.
        run(over(stream, self.count)?, &args)?;
        stream.synchronize()?;
        let (mut counts, mut after) = ([0; 4], [0; 2]);
        self.removed.copy_to(&mut counts)?;
        self.cell.copy_to(&mut after)?;
        tree.root = Link::from_bits(after[0]);
        let leaves = &mut tree.leaves;
        let lists = [&mut leaves.leaf8.free, &mut leaves.leaf16.free, &mut leaves.leaf32.free];
        for (list, &count) in lists.into_iter().zip(&counts) {
            list.len += count as usize;
        }
        leaves.long.count -= counts[3];
        let removed = counts.iter().sum();
        tree.len -= removed;
        if removed > 0 {
            tree.forget_order();
        }
        Ok(removed)
    }
}
