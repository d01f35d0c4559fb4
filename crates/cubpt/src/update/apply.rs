//! A planned batch is carried out, layer by layer from the leaves: the members of groups are gathered, changed, and written to
//! the groups' pieces (the paper's stages "batch insert leaf nodes layer" and "batch insert internal nodes layer").

use super::batch::{Changes, Found};
use super::plan::{LayerPlan, Plan, Sums};
use crate::layer::{Elements, Form, Layer};
use crate::order::{Order, last};
use crate::storage::Storage;
use crate::tree::{Tree, build_above, levels_above};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Result, Stream};
use lanetree_kernels_cubpt::layout::NONE;
use lanetree_kernels_cubpt::{
    ChildrenArgs, CountsArgs, DropArgs, FreeArgs, GatherChildrenArgs, GatherPairsArgs, MarkArgs, MemberCountsArgs,
    MembersArgs, NumbersArgs, PutPiecesArgs, ReplaceArgs, calls,
};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{
    Count, MergeRule, MergeScratch, Pairs, PairsMut, ScanScratch, SelectScratch, inclusive_max_scan, merge_pairs,
    select_pairs,
};
use lanetree_runtime::Buffer;

/// Numbers of nodes on their way from the free list into the tree, and back.
struct Pool {
    old: Buffer<u32>,
    /// Those of the old ones that are left.
    left: u64,
    end: u64,
    /// The list afterwards, and how many of its numbers are there.
    new: Buffer<u32>,
    count: u64,
}

/// The members of a layer's groups.
struct Members<B> {
    numbers: Buffer<u32>,
    /// Their keys in their parents.
    bounds: Buffer<B>,
    /// What bounds each group.
    of_groups: Buffer<B>,
    /// The group of each piece.
    of_piece: Buffer<u32>,
}

/// A layer that has been written, for the one above.
struct Written<B> {
    of_piece: Buffer<u32>,
    bounds: Buffer<B>,
    numbers: Buffer<u32>,
}

/// Writes the new values of keys that are there.
///
/// # Errors
/// [`Error::Runtime`](lanetree_frame::Error::Runtime).
pub(super) fn replace<K: Key, V: Word>(
    stream: &Stream,
    storage: &mut Storage,
    changes: &Changes<K, V>,
    found: &Found,
) -> Result<()> {
    if found.replaced == 0 {
        return Ok(());
    }
    let args = ReplaceArgs::<V> {
        leaves: found.leaves.read_on(stream)?,
        slots: found.slots.read_on(stream)?,
        replacements: found.replaces.read_on(stream)?,
        values: changes.values.read_on(stream)?,
        count: changes.len() as u64,
        nodes: storage.nodes_mut(stream)?,
    };
    // SAFETY: the places of pairs, each once.
    Ok(unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::replace(&args)) }?)
}

impl Tree {
    /// Carries a plan out. There is room for all nodes that it takes. After an error the tree is lost.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn carry_out<K: Key, V: Word>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        changes: &Changes<K, V>,
        found: &Found,
        full: u64,
    ) -> Result<()> {
        let device = stream.device();
        let empty = device.alloc(0)?;
        let old = core::mem::replace(&mut self.free, empty);
        let reused = plan.taken().min(old.len() as u64);
        let mut pool = Pool {
            left: old.len() as u64,
            count: old.len() as u64 - reused,
            new: device.alloc((old.len() as u64 - reused + plan.freed()) as usize)?,
            old,
            end: self.end,
        };
        pool.new.copy_from_buffer(stream, 0, &pool.old, 0..pool.count as usize)?;
        let mut below: Option<(&LayerPlan, Written<K::Bits>)> = None;
        for layer in &plan.layers {
            let written = match &below {
                None => self.leaves(stream, layer, &mut pool, changes, found)?,
                Some((plan_below, below)) => self.inner::<K>(stream, layer, &mut pool, plan_below, below)?,
            };
            below = Some((layer, written));
        }
        if let (Some(after), Some((layer, written))) = (plan.root_after, below) {
            self.new_root::<K>(stream, after, layer, written, &mut pool, full)?;
        }
        (self.free, self.end) = (pool.new, pool.end);
        Ok(())
    }

    fn members<B: Word>(&mut self, stream: &Stream, layer: &LayerPlan) -> Result<Members<B>> {
        let (device, pieces) = (stream.device(), layer.pieces.total as usize);
        let mut of_piece = device.alloc(pieces)?;
        let Some((parents, _)) = &layer.parents else {
            of_piece.fill_zero(stream)?;
            let (numbers, bounds) = (device.upload(&[self.root])?, device.upload(&[B::MAX])?);
            return Ok(Members { numbers, bounds, of_groups: device.upload(&[B::MAX])?, of_piece });
        };
        let count = layer.members.total as usize;
        let (mut numbers, mut bounds) = (device.alloc(count)?, device.alloc(count)?);
        let mut of_groups = device.alloc(layer.touched.len())?;
        let mut firsts = device.alloc_zeroed(pieces)?;
        let args = MembersArgs::<B> {
            groups: layer.groups(stream)?,
            parents: parents.read_on(stream)?,
            members: numbers.write_on(stream)?,
            member_bounds: bounds.write_on(stream)?,
            bounds: of_groups.write_on(stream)?,
            firsts: firsts.write_on(stream)?,
            nodes: self.storage.nodes_mut(stream)?,
        };
        // SAFETY: groups of the plan, whose parents these are; a place for each member, group and piece.
        unsafe { launch::over(stream, args.groups.count, 1, THREADS)?.run(calls::members(&args)) }?;
        if pieces > 0 {
            inclusive_max_scan(stream, &firsts, pieces, &mut of_piece, &mut ScanScratch::new(device, pieces)?)?;
        }
        Ok(Members { numbers, bounds, of_groups, of_piece })
    }

    /// Marks nodes with their places.
    fn mark(&mut self, stream: &Stream, numbers: &Buffer<u32>) -> Result<()> {
        let args = MarkArgs {
            numbers: numbers.read_on(stream)?,
            count: numbers.len() as u64,
            nodes: self.storage.nodes_mut(stream)?,
        };
        // SAFETY: nodes of the tree, each once.
        Ok(unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::mark(&args)) }?)
    }

    /// The elements of each member, as sums; and the places of touched nodes among the members, if these have other elements.
    fn counts(
        &self,
        stream: &Stream,
        members: &Buffer<u32>,
        after: Option<&Buffer<u32>>,
    ) -> Result<(Sums, Buffer<u32>)> {
        let device = stream.device();
        let mut counts = device.alloc(members.len())?;
        let mut places = device.upload(&vec![NONE; after.map_or(0, Buffer::len)])?;
        let args = MemberCountsArgs {
            nodes: self.storage.nodes(stream)?,
            members: members.read_on(stream)?,
            count: members.len() as u64,
            after: lanetree_frame::pointers::optional(after, stream)?,
            counts: counts.write_on(stream)?,
            places: places.write_on(stream)?,
        };
        // SAFETY: nodes of the tree, marked with places among what they have afterwards.
        unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::member_counts(&args)) }?;
        Ok((Sums::of(stream, &counts)?, places))
    }

    /// Writes a layer's pieces, and gives back the members that are not needed.
    fn write<B: Word, T: bytemuck::Pod, P: Word>(
        &mut self,
        stream: &Stream,
        layer: &LayerPlan,
        pool: &mut Pool,
        Members { numbers: members, of_groups: bounds, of_piece, .. }: Members<B>,
        elements: &Elements<T, P>,
        form: Form<B>,
    ) -> Result<Written<B>> {
        let (device, pieces) = (stream.device(), layer.pieces.total as usize);
        let mut numbers = device.alloc(pieces)?;
        if pieces > 0 {
            let args = NumbersArgs {
                groups: layer.groups(stream)?,
                of_piece: of_piece.read_on(stream)?,
                count: pieces as u64,
                members: members.read_on(stream)?,
                taken: layer.taken.before.read_on(stream)?,
                free: pool.old.read_on(stream)?,
                free_count: pool.left,
                end: pool.end,
                numbers: numbers.write_on(stream)?,
            };
            // SAFETY: pieces of the plan; there are free numbers and new ones for all that it takes.
            unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::numbers(&args)) }?;
        }
        let reused = pool.left.min(layer.taken.total);
        (pool.left, pool.end) = (pool.left - reused, pool.end + layer.taken.total - reused);
        if layer.freed.total > 0 {
            let args = FreeArgs {
                groups: layer.groups(stream)?,
                members: members.read_on(stream)?,
                freed: layer.freed.before.read_on(stream)?,
                at: pool.count,
                free: pool.new.write_on(stream)?,
            };
            // SAFETY: members of the plan's groups, and a place for each that is freed.
            unsafe { launch::over(stream, args.groups.count, 1, THREADS)?.run(calls::free(&args)) }?;
            pool.count += layer.freed.total;
        }
        let layer = Layer {
            elements: copy(stream, &layer.totals.before)?,
            pieces: copy(stream, &layer.pieces.before)?,
            of_piece,
            numbers,
            count: pieces,
        };
        // SAFETY: there is room for the nodes; the elements are those of the groups.
        let bounds = unsafe {
            layer.write(stream, &mut self.storage, elements, form)?;
            layer.above(stream, &elements.keys, form.flip, Some(&bounds))?
        };
        Ok(Written { of_piece: layer.of_piece, bounds, numbers: layer.numbers })
    }

    fn leaves<K: Key, V: Word>(
        &mut self,
        stream: &Stream,
        layer: &LayerPlan,
        pool: &mut Pool,
        changes: &Changes<K, V>,
        found: &Found,
    ) -> Result<Written<K::Bits>> {
        let device = stream.device();
        let members = self.members(stream, layer)?;
        self.mark(stream, &members.numbers)?;
        let (offsets, _) = self.counts(stream, &members.numbers, None)?;
        let pairs = offsets.total as usize;
        let mut elements = Elements { keys: device.alloc::<K>(pairs)?, ptrs: device.alloc::<V>(pairs)? };
        let args = GatherPairsArgs::<K::Bits, V> {
            nodes: self.storage.nodes(stream)?,
            members: members.numbers.read_on(stream)?,
            offsets: offsets.before.read_on(stream)?,
            count: members.numbers.len() as u64,
            flip: K::FLIP,
            keys: elements.keys.write_on(stream)?.cast(),
            values: elements.ptrs.write_on(stream)?,
        };
        let threads = args.count * u64::from(self.storage.node().order);
        // SAFETY: leaves of the tree, and a place for each pair.
        unsafe { launch::over(stream, threads, 1, THREADS)?.run(calls::gather_pairs(&args)) }?;
        let mut kept = pairs;
        if found.removals.total > 0 {
            let mut mask = device.upload(&vec![u32::MAX; pairs.div_ceil(32)])?;
            let args = DropArgs {
                nodes: self.storage.nodes(stream)?,
                leaves: found.leaves.read_on(stream)?,
                slots: found.slots.read_on(stream)?,
                removals: found.removes.read_on(stream)?,
                count: changes.len() as u64,
                offsets: offsets.before.read_on(stream)?,
                kept: mask.write_on(stream)?,
            };
            // SAFETY: each leaf from which a pair is removed is a member, and marked with its place.
            unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::drop_pairs(&args)) }?;
            elements = selected(stream, &elements, pairs, &mask)?;
            kept -= found.removals.total as usize;
        }
        if found.inserts.total > 0 {
            let added = found.inserts.total as usize;
            let of_batch = Pairs { keys: &changes.keys, values: &changes.values, count: changes.len().into() };
            let added_pairs = selected_of(stream, of_batch, &found.insert_mask)?;
            let mut merged = Elements { keys: device.alloc(kept + added)?, ptrs: device.alloc(kept + added)? };
            let first = Pairs { keys: &elements.keys, values: &elements.ptrs, count: kept.into() };
            let second = Pairs { keys: &added_pairs.keys, values: &added_pairs.ptrs, count: added.into() };
            let count = &mut device.alloc(1)?;
            let output = PairsMut { keys: &mut merged.keys, values: &mut merged.ptrs, count };
            let scratch = &mut MergeScratch::new(device, kept + added)?;
            merge_pairs(stream, MergeRule::KeepBoth, first, second, output, scratch)?;
            elements = merged;
        }
        self.write(stream, layer, pool, members, &elements, Form { flip: K::FLIP, is_leaf: true })
    }

    fn inner<K: Key>(
        &mut self,
        stream: &Stream,
        layer: &LayerPlan,
        pool: &mut Pool,
        plan_below: &LayerPlan,
        below: &Written<K::Bits>,
    ) -> Result<Written<K::Bits>> {
        let device = stream.device();
        let (_, starts) = plan_below.parents.as_ref().expect("a layer below the root's");
        let members = self.members::<K::Bits>(stream, layer)?;
        self.mark(stream, &layer.touched)?;
        let (offsets, places) = self.counts(stream, &members.numbers, Some(&layer.after))?;
        let children = offsets.total as usize;
        let mut elements = Elements { keys: device.alloc::<K::Bits>(children)?, ptrs: device.alloc::<u32>(children)? };
        let args = GatherChildrenArgs::<K::Bits> {
            nodes: self.storage.nodes(stream)?,
            members: members.numbers.read_on(stream)?,
            bounds: members.bounds.read_on(stream)?,
            offsets: offsets.before.read_on(stream)?,
            count: members.numbers.len() as u64,
            below: plan_below.groups(stream)?,
            starts: starts.read_on(stream)?,
            keys: elements.keys.write_on(stream)?,
            children: elements.ptrs.write_on(stream)?,
        };
        let threads = args.count * u64::from(self.storage.node().order);
        // SAFETY: inner nodes, marked with their places among the parents below; a place for each child.
        unsafe { launch::over(stream, threads, 1, THREADS)?.run(calls::gather_children(&args)) }?;
        if plan_below.pieces.total > 0 {
            let args = PutPiecesArgs::<K::Bits> {
                below: plan_below.groups(stream)?,
                starts: starts.read_on(stream)?,
                of_piece: below.of_piece.read_on(stream)?,
                bounds: below.bounds.read_on(stream)?,
                numbers: below.numbers.read_on(stream)?,
                count: plan_below.pieces.total,
                places: places.read_on(stream)?,
                offsets: offsets.before.read_on(stream)?,
                keys: elements.keys.write_on(stream)?,
                children: elements.ptrs.write_on(stream)?,
            };
            // SAFETY: pieces of the layer below, and the places that their parents have for them.
            unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::put_pieces(&args)) }?;
        }
        self.write(stream, layer, pool, members, &elements, Form::INNER)
    }

    /// Levels above a root that was split; or the only child of a root in its place.
    fn new_root<K: Key>(
        &mut self,
        stream: &Stream,
        after: u32,
        layer: &LayerPlan,
        written: Written<K::Bits>,
        pool: &mut Pool,
        full: u64,
    ) -> Result<()> {
        if layer.pieces.total > 1 {
            let levels = levels_above(layer.pieces.total, full);
            let elements = Elements { keys: written.bounds, ptrs: written.numbers };
            let count = levels.iter().sum::<u64>();
            let reused = pool.count.min(count);
            let mut numbers = vec![0; reused as usize];
            pool.new.copy_range_to((pool.count - reused) as usize, &mut numbers)?;
            numbers.extend(pool.end as u32..(pool.end + count - reused) as u32);
            (pool.count, pool.end) = (pool.count - reused, pool.end + count - reused);
            let mut shorter = stream.device().alloc(pool.count as usize)?;
            shorter.copy_from_buffer(stream, 0, &pool.new, 0..pool.count as usize)?;
            pool.new = shorter;
            // SAFETY: there is room for the levels; the elements are the pieces of the old root.
            unsafe { build_above(stream, &mut self.storage, elements, &levels, &numbers)? };
            self.root = numbers[numbers.len() - 1];
            self.height += levels.len() as u32;
            return Ok(());
        }
        let mut children = after;
        while self.height > 0 && children == 1 {
            let (device, numbers) = (stream.device(), stream.device().upload(&[self.root])?);
            let (offsets, mut child) = (device.upload(&[0_u64, 1])?, device.alloc(1)?);
            let args = ChildrenArgs {
                nodes: self.storage.nodes(stream)?,
                numbers: numbers.read_on(stream)?,
                count: 1,
                offsets: offsets.read_on(stream)?,
                children: child.write_on(stream)?,
            };
            let threads = u64::from(self.storage.node().order);
            // SAFETY: a node with one child.
            unsafe { launch::over(stream, threads, 1, THREADS)?.run(calls::children(&args)) }?;
            let mut counts = device.alloc(1)?;
            let args = CountsArgs {
                nodes: self.storage.nodes(stream)?,
                numbers: child.read_on(stream)?,
                count: 1,
                counts: counts.write_on(stream)?,
            };
            // SAFETY: a node.
            unsafe { launch::over(stream, 1, 1, THREADS)?.run(calls::counts(&args)) }?;
            // The number of the old root is free.
            let mut longer = device.alloc(pool.count as usize + 1)?;
            longer.copy_from_buffer(stream, 0, &pool.new, 0..pool.count as usize)?;
            longer.copy_range_from(pool.count as usize, &[self.root])?;
            (pool.new, pool.count) = (longer, pool.count + 1);
            (self.root, children) = (child.to_vec()?[0], counts.to_vec()?[0]);
            self.height -= 1;
        }
        Ok(())
    }

    /// The leaves in order, after a batch that moved pairs.
    pub(super) fn put_in_order(&mut self, stream: &Stream) -> Result<()> {
        self.order = Order::of(stream, &mut self.storage, self.root, self.height)?;
        self.len = last(&self.order.ranks)?;
        Ok(())
    }
}

fn copy(stream: &Stream, sums: &Buffer<u64>) -> Result<Buffer<u64>> {
    let mut copy = stream.device().alloc(sums.len())?;
    copy.copy_from_buffer(stream, 0, sums, 0..sums.len())?;
    Ok(copy)
}

/// The pairs whose bits are set, among the first `count`.
fn selected<K: Key, V: Word>(
    stream: &Stream,
    elements: &Elements<K, V>,
    count: usize,
    mask: &Buffer<u32>,
) -> Result<Elements<K, V>> {
    let count = Count::Host(count);
    selected_of(stream, Pairs { keys: &elements.keys, values: &elements.ptrs, count }, mask)
}

fn selected_of<K: Key, V: Word>(stream: &Stream, pairs: Pairs<'_, K, V>, mask: &Buffer<u32>) -> Result<Elements<K, V>> {
    let (device, most) = (stream.device(), pairs.count.at_most());
    let mut selected = Elements { keys: device.alloc(most)?, ptrs: device.alloc(most)? };
    let count = &mut device.alloc(1)?;
    let output = PairsMut { keys: &mut selected.keys, values: &mut selected.ptrs, count };
    select_pairs(stream, pairs, mask, output, &mut SelectScratch::new(device, most)?)?;
    Ok(selected)
}
