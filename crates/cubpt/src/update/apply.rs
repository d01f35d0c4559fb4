//! A planned batch is carried out. First everything that is to be written is prepared, layer by layer from the leaves, in
//! memory of its own: the members of groups are gathered and changed, and their pieces get numbers. The tree is only read, but
//! for marks. Then it is written, which allocates nothing (the paper's stages "batch insert leaf nodes layer", "batch insert
//! internal nodes layer" and "create root node").

use super::batch::{Changes, Found};
use super::plan::{LayerPlan, Plan};
use super::sums::Sums;
use crate::layer::{Elements, Form, Layer};
use crate::order::{Order, OrderScratch};
use crate::storage::Storage;
use crate::tree::{Filled, Tree, layers_above, levels_above};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Result, Stream};
use lanetree_kernels_cubpt::layout::NONE;
use lanetree_kernels_cubpt::{
    ChildrenArgs, CountsArgs, DropArgs, FreeArgs, GatherChildrenArgs, GatherPairsArgs, MarkArgs, MemberCountsArgs,
    MembersArgs, NumbersArgs, PutPiecesArgs, ReplaceArgs, ReplaceGatheredArgs, calls,
};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{
    Count, MergeRule, MergeScratch, Pairs, PairsMut, ScanScratch, SelectScratch, inclusive_max_scan, merge_pairs,
    select_pairs,
};
use lanetree_runtime::Buffer;

/// Numbers of nodes on their way from the free list into the tree, and back.
struct Pool {
    /// Those of the tree's list that are left.
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

/// A layer that has been prepared, for the one above.
struct Prepared<B, T, P> {
    layer: Layer,
    elements: Elements<T, P>,
    bounds: Buffer<B>,
}

/// Memory for a node's number, the sums of its children, a child, and how many keys that has.
type Child = (Buffer<u32>, Buffer<u64>, Buffer<u32>, Buffer<u32>);

/// All that a batch writes.
pub(super) struct Work<K: Key, V> {
    leaves: (Layer, Elements<K, V>),
    inner: Vec<Filled<K::Bits>>,
    root: u32,
    /// Whether the root may have a single child, which then takes its place.
    may_shrink: bool,
    child: Child,
    levels: Vec<u64>,
    end: u64,
    free: Buffer<u32>,
    free_count: u64,
    scratch: OrderScratch,
}

/// Writes the new values of keys that are there; leaves that are laid out anew have them already.
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
    /// Prepares what a plan writes. There is room for all nodes that it takes.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room. The tree has changed nothing but its
    /// marks.
    pub(super) fn prepare<K: Key, V: Word>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        changes: &Changes<K, V>,
        found: &Found,
        full: u64,
    ) -> Result<Work<K, V>> {
        let device = stream.device();
        let count = self.free_count - plan.taken().min(self.free_count);
        // A number for each level that the root may lose, too.
        let room = count + plan.freed() + u64::from(self.height);
        let mut pool = Pool { left: self.free_count, end: self.end, new: device.alloc(room as usize)?, count };
        pool.new.copy_from_buffer(stream, 0, &self.free, 0..count as usize)?;
        let mut levels = self.levels.clone();
        for (nodes, layer) in levels.iter_mut().zip(&plan.layers) {
            *nodes = *nodes + layer.pieces.total - layer.members.total;
        }
        let (of_leaves, of_inner) = plan.layers.split_first().expect("a batch that moves pairs changes leaves");
        let Prepared { layer, elements, bounds } = self.leaves(stream, of_leaves, &mut pool, changes, found)?;
        let mut below = (of_leaves, copy(stream, &layer.numbers)?, bounds);
        let (leaves, mut inner) = ((layer, elements), Vec::<Filled<K::Bits>>::new());
        for plan in of_inner {
            let of_piece = &inner.last().map_or(&leaves.0, |below| &below.0).of_piece;
            let Prepared { layer, elements, bounds } =
                self.inner::<K>(stream, plan, &mut pool, (below.0, of_piece, &below.1, &below.2))?;
            below = (plan, copy(stream, &layer.numbers)?, bounds);
            inner.push((layer, elements));
        }
        let mut root = self.root;
        if plan.root_after.is_some() && below.0.pieces.total > 1 {
            let above = levels_above(below.0.pieces.total, full);
            let count = above.iter().sum::<u64>();
            let reused = pool.count.min(count);
            let mut numbers = vec![0; reused as usize];
            pool.new.copy_range_to((pool.count - reused) as usize, &mut numbers)?;
            numbers.extend(pool.end as u32..(pool.end + count - reused) as u32);
            (pool.count, pool.end) = (pool.count - reused, pool.end + count - reused);
            root = numbers[numbers.len() - 1];
            // SAFETY: the elements are the pieces of the old root.
            inner.extend(unsafe { layers_above(stream, Elements { keys: below.2, ptrs: below.1 }, &above, &numbers)? });
            levels.extend(above);
        }
        Ok(Work {
            leaves,
            inner,
            root,
            may_shrink: plan.root_after == Some(1),
            child: (device.alloc(1)?, device.upload(&[0, 1])?, device.alloc(1)?, device.alloc(1)?),
            scratch: OrderScratch::new(device, &levels)?,
            levels,
            end: pool.end,
            free: pool.new,
            free_count: pool.count,
        })
    }

    /// Writes what was prepared; the tree has `len` pairs then. After an error it is lost.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn carry_out<K: Key, V: Word>(&mut self, stream: &Stream, len: u64, work: Work<K, V>) -> Result<()> {
        let (leaves, elements) = &work.leaves;
        // SAFETY: there is room for the nodes of the plan; the elements are those of its groups.
        unsafe {
            leaves.write(stream, &mut self.storage, elements, Form { flip: K::FLIP, is_leaf: true })?;
            for (layer, elements) in &work.inner {
                layer.write(stream, &mut self.storage, elements, Form::<K::Bits>::INNER)?;
            }
        }
        (self.root, self.height, self.levels) = (work.root, work.levels.len() as u32 - 1, work.levels);
        (self.end, self.free, self.free_count, self.len) = (work.end, work.free, work.free_count, len);
        if work.may_shrink {
            self.take_only_children(stream, work.child)?;
        }
        self.order = Order::of(stream, &mut self.storage, self.root, self.height, work.scratch)?;
        Ok(())
    }

    /// Takes the root's only child in its place, as long as it has a single one.
    fn take_only_children(&mut self, stream: &Stream, (mut number, sums, mut child, mut count): Child) -> Result<()> {
        let mut children = 1;
        while self.height > 0 && children == 1 {
            number.copy_range_from(0, &[self.root])?;
            let args = ChildrenArgs {
                nodes: self.storage.nodes(stream)?,
                numbers: number.read_on(stream)?,
                count: 1,
                offsets: sums.read_on(stream)?,
                children: child.write_on(stream)?,
            };
            let threads = u64::from(self.storage.node().order);
            // SAFETY: a node with one child.
            unsafe { launch::over(stream, threads, 1, THREADS)?.run(calls::children(&args)) }?;
            let args = CountsArgs {
                nodes: self.storage.nodes(stream)?,
                numbers: child.read_on(stream)?,
                count: 1,
                counts: count.write_on(stream)?,
            };
            // SAFETY: a node.
            unsafe { launch::over(stream, 1, 1, THREADS)?.run(calls::counts(&args)) }?;
            // There is room for a number of each level.
            self.free.copy_range_from(self.free_count as usize, &[self.root])?;
            self.free_count += 1;
            let (mut only, mut keys) = ([0], [0]);
            child.copy_to(&mut only)?;
            count.copy_to(&mut keys)?;
            (self.root, children) = (only[0], keys[0]);
            self.height -= 1;
            self.levels.pop();
        }
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

    /// Gives a layer's pieces their numbers, and gives back the members that are not needed.
    fn number<B: Word, T: bytemuck::Pod, P: Word>(
        &self,
        stream: &Stream,
        layer: &LayerPlan,
        pool: &mut Pool,
        Members { numbers: members, of_groups: bounds, of_piece, .. }: Members<B>,
        elements: Elements<T, P>,
        flip: B,
    ) -> Result<Prepared<B, T, P>> {
        let (device, pieces) = (stream.device(), layer.pieces.total as usize);
        let mut numbers = device.alloc(pieces)?;
        if pieces > 0 {
            let args = NumbersArgs {
                groups: layer.groups(stream)?,
                of_piece: of_piece.read_on(stream)?,
                count: pieces as u64,
                members: members.read_on(stream)?,
                taken: layer.taken.before.read_on(stream)?,
                free: self.free.read_on(stream)?,
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
        // SAFETY: the elements are those of the groups, each of which has a bound.
        let bounds = unsafe { layer.above(stream, &elements.keys, flip, Some(&bounds))? };
        Ok(Prepared { layer, elements, bounds })
    }

    fn leaves<K: Key, V: Word>(
        &mut self,
        stream: &Stream,
        layer: &LayerPlan,
        pool: &mut Pool,
        changes: &Changes<K, V>,
        found: &Found,
    ) -> Result<Prepared<K::Bits, K, V>> {
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
        if found.replaced > 0 {
            let args = ReplaceGatheredArgs::<V> {
                nodes: self.storage.nodes(stream)?,
                leaves: found.leaves.read_on(stream)?,
                slots: found.slots.read_on(stream)?,
                replacements: found.replaces.read_on(stream)?,
                values: changes.values.read_on(stream)?,
                count: changes.len() as u64,
                offsets: offsets.before.read_on(stream)?,
                gathered: elements.ptrs.write_on(stream)?,
            };
            // SAFETY: leaves of changes are marked with their places, if they are members.
            unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::replace_gathered(&args)) }?;
        }
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
        self.number(stream, layer, pool, members, elements, K::FLIP)
    }

    fn inner<K: Key>(
        &mut self,
        stream: &Stream,
        layer: &LayerPlan,
        pool: &mut Pool,
        (plan_below, of_piece, numbers, bounds): (&LayerPlan, &Buffer<u32>, &Buffer<u32>, &Buffer<K::Bits>),
    ) -> Result<Prepared<K::Bits, K::Bits, u32>> {
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
                of_piece: of_piece.read_on(stream)?,
                bounds: bounds.read_on(stream)?,
                numbers: numbers.read_on(stream)?,
                count: plan_below.pieces.total,
                places: places.read_on(stream)?,
                offsets: offsets.before.read_on(stream)?,
                keys: elements.keys.write_on(stream)?,
                children: elements.ptrs.write_on(stream)?,
            };
            // SAFETY: pieces of the layer below, and the places that their parents have for them.
            unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::put_pieces(&args)) }?;
        }
        self.number(stream, layer, pool, members, elements, K::Bits::MIN)
    }
}

fn copy<T: bytemuck::Pod>(stream: &Stream, words: &Buffer<T>) -> Result<Buffer<T>> {
    let mut copy = stream.device().alloc(words.len())?;
    copy.copy_from_buffer(stream, 0, words, 0..words.len())?;
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
