//! A planned merge is carried out: first everything that is to be written is prepared, layer by layer from the leaves, in memory
//! of its own, while the tree is only read, but for marks. Then it is written, which allocates nothing.

use super::plan::{LayerPlan, Plan};
use super::sums::Sums;
use crate::layer::{Form, KEPT, Layer, LayerGroups, Ptrs};
use crate::order::{NewOrder, Outcome};
use crate::tree::Tree;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parallel::filled;
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_cubpt::layout::NONE;
use lanetree_kernels_cubpt::{
    FreeArgs, GatherChildrenArgs, GatherPairsArgs, MarkArgs, MemberCountsArgs, MembersArgs, NumbersArgs, PutPiecesArgs,
    calls,
};
use lanetree_layout::Word;
use lanetree_primitives::{ScanScratch, inclusive_max_scan};
use lanetree_runtime::Buffer;

/// Keys, with values in leaves, with children in inner nodes.
struct Elements<K, P> {
    keys: Buffer<K>,
    ptrs: Buffer<P>,
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

/// A layer that has been prepared.
struct Prepared<B, P> {
    layer: Layer,
    elements: Elements<B, P>,
    bounds: Buffer<B>,
}

/// The leaves' layer, and those above.
type Layers<B, V> = (Prepared<B, V>, Vec<Prepared<B, u32>>);

/// All that a merge writes.
pub(crate) struct Work<B, V> {
    layers: Option<Layers<B, V>>,
    order: NewOrder,
    levels: Vec<u64>,
    /// The free node numbers after the merge. Among the new ones, the numbers of leaves come first.
    free: Buffer<u32>,
    gone: Buffer<u32>,
    gone_count: u64,
    free_count: u64,
    may_shrink: bool,
    small: Buffer<u32>,
}

impl<B: Word, V: Word> Work<B, V> {
    /// Prepares a merge of a tree's small leaves, at least one.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room. The tree has changed nothing but its
    /// marks.
    pub(crate) fn prepare(stream: &Stream, device: &Device, tree: &mut Tree, full: u64) -> Result<Self> {
        let plan = Plan::new(stream, device, tree, full)?;
        let own = tree.storage.device();
        // A number for each level that the root may lose, too.
        let room = tree.free_count + plan.freed() + u64::from(tree.height);
        let mut free = own.alloc(room as usize)?;
        free.copy_from_buffer(stream, 0, &tree.free, 0..tree.free_count as usize)?;
        let mut levels = tree.levels.clone();
        for (nodes, layer) in levels.iter_mut().zip(&plan.layers) {
            *nodes = *nodes + layer.pieces.total - layer.members.total;
        }
        let mut free_count = tree.free_count;
        let mut layers = None;
        if let Some((of_leaves, of_inner)) = plan.layers.split_first() {
            let leaves = tree.leaves::<B, V>(stream, device, of_leaves, (&mut free, &mut free_count))?;
            let mut inner: Vec<Prepared<B, u32>> = Vec::new();
            for (below, layer) in plan.layers.iter().zip(of_inner) {
                let written = match inner.last() {
                    Some(below) => (&below.layer, &below.bounds),
                    None => (&leaves.layer, &leaves.bounds),
                };
                inner.push(tree.inner(stream, device, layer, (below, written), (&mut free, &mut free_count))?);
            }
            layers = Some((leaves, inner));
        }
        let gone_count = plan.layers.first().map_or(0, |leaves| leaves.freed.total);
        let mut gone = device.alloc(gone_count as usize)?;
        let first = tree.free_count as usize;
        gone.copy_from_buffer(stream, 0, &free, first..first + gone_count as usize)?;
        let now = tree.order.leaves.len() as u64;
        Ok(Self {
            layers,
            order: NewOrder::new(stream, device, now, now - gone_count)?,
            levels,
            free,
            gone,
            gone_count,
            free_count,
            may_shrink: plan.may_shrink,
            small: own.alloc(0)?,
        })
    }

    /// Writes what was prepared. After an error the tree is lost.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(crate) fn write(self, stream: &Stream, tree: &mut Tree) -> Result<()> {
        if let Some((leaves, inner)) = &self.layers {
            // SAFETY: the nodes are members of the groups, and the elements are the members'.
            unsafe {
                let Prepared { layer, elements: Elements { keys, ptrs }, .. } = leaves;
                let form = Form { flip: B::MIN, is_leaf: true };
                layer.write(stream, &mut tree.storage, (keys, 0), Ptrs::Listed(ptrs), form, KEPT)?;
                for Prepared { layer, elements: Elements { keys, ptrs }, .. } in inner {
                    layer.write(stream, &mut tree.storage, (keys, 0), Ptrs::Listed(ptrs), Form::<B>::INNER, KEPT)?;
                }
            }
            let changed = leaves.layer.numbers.as_ref().expect("pieces are listed");
            let outcome = Outcome::Merged { changed, gone: (&self.gone, self.gone_count) };
            // SAFETY: the leaves were changed so.
            unsafe { self.order.apply(stream, &mut tree.storage, &mut tree.order, outcome)? };
            tree.order.link(stream, &mut tree.storage)?;
        }
        (tree.levels, tree.free, tree.free_count, tree.small) = (self.levels, self.free, self.free_count, self.small);
        if self.may_shrink {
            tree.take_only_children(stream)?;
        }
        Ok(stream.synchronize()?)
    }
}

impl Tree {
    /// Takes the root's only child in its place, as long as it has a single one.
    fn take_only_children(&mut self, stream: &Stream) -> Result<()> {
        stream.synchronize()?;
        while self.height > 0 {
            let (count, child) = self.storage.first_child(self.root)?;
            if count > 1 {
                break;
            }
            // There is room for a number of each level.
            self.free.copy_range_from(self.free_count as usize, &[self.root])?;
            self.free_count += 1;
            self.root = child;
            self.height -= 1;
            self.levels.pop();
        }
        Ok(())
    }

    fn members<B: Word>(&mut self, stream: &Stream, device: &Device, layer: &LayerPlan) -> Result<Members<B>> {
        let pieces = layer.pieces.total as usize;
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
        device: &Device,
        members: &Buffer<u32>,
        after: Option<&Buffer<u32>>,
    ) -> Result<(Sums, Buffer<u32>)> {
        let mut counts = device.alloc(members.len())?;
        let mut places = device.upload(&filled(NONE, after.map_or(0, Buffer::len))?)?;
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
        Ok((Sums::of(stream, device, &counts)?, places))
    }

    /// Gives a layer's pieces their numbers, and gives back the members that are not needed.
    fn number<B: Word, P: Word>(
        &self,
        stream: &Stream,
        device: &Device,
        layer: &LayerPlan,
        (free, free_count): (&mut Buffer<u32>, &mut u64),
        Members { numbers: members, of_groups, of_piece, .. }: Members<B>,
        elements: Elements<B, P>,
    ) -> Result<Prepared<B, P>> {
        let pieces = layer.pieces.total as usize;
        let mut numbers = device.alloc(pieces)?;
        if pieces > 0 {
            let args = NumbersArgs {
                groups: layer.groups(stream)?,
                of_piece: of_piece.read_on(stream)?,
                count: pieces as u64,
                members: members.read_on(stream)?,
                numbers: numbers.write_on(stream)?,
            };
            // SAFETY: pieces of the plan, no more than their groups have members.
            unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::numbers(&args)) }?;
        }
        if layer.freed.total > 0 {
            let args = FreeArgs {
                groups: layer.groups(stream)?,
                members: members.read_on(stream)?,
                freed: layer.freed.before.read_on(stream)?,
                at: *free_count,
                free: free.write_on(stream)?,
            };
            // SAFETY: members of the plan's groups, and a place for each that is freed.
            unsafe { launch::over(stream, args.groups.count, 1, THREADS)?.run(calls::free(&args)) }?;
            *free_count += layer.freed.total;
        }
        let layer = Layer {
            groups: Some(LayerGroups {
                elements: copy(stream, device, &layer.totals.before)?,
                pieces: copy(stream, device, &layer.pieces.before)?,
                of_piece,
            }),
            numbers: Some(numbers),
            first: 0,
            count: pieces as u64,
            total: layer.totals.total,
        };
        let mut bounds = device.alloc(pieces)?;
        // SAFETY: the elements belong to the groups, each of which has a bound; there is room for a bound per piece.
        unsafe { layer.bounds(stream, &elements.keys, B::MIN, Some(&of_groups), &mut bounds)? };
        Ok(Prepared { layer, elements, bounds })
    }

    fn leaves<B: Word, V: Word>(
        &mut self,
        stream: &Stream,
        device: &Device,
        layer: &LayerPlan,
        free: (&mut Buffer<u32>, &mut u64),
    ) -> Result<Prepared<B, V>> {
        let members = self.members(stream, device, layer)?;
        let (offsets, _) = self.counts(stream, device, &members.numbers, None)?;
        let pairs = offsets.total as usize;
        let mut elements = Elements { keys: device.alloc::<B>(pairs)?, ptrs: device.alloc::<V>(pairs)? };
        let args = GatherPairsArgs::<B, V> {
            nodes: self.storage.nodes(stream)?,
            members: members.numbers.read_on(stream)?,
            offsets: offsets.before.read_on(stream)?,
            count: members.numbers.len() as u64,
            keys: elements.keys.write_on(stream)?,
            values: elements.ptrs.write_on(stream)?,
        };
        let order = self.storage.node().order;
        // SAFETY: leaves of the tree, and a place for each pair.
        unsafe { launch::over(stream, args.count, order, THREADS)?.run(calls::gather_pairs(&args)) }?;
        self.number(stream, device, layer, free, members, elements)
    }

    fn inner<B: Word>(
        &mut self,
        stream: &Stream,
        device: &Device,
        layer: &LayerPlan,
        (plan_below, (below, bounds)): (&LayerPlan, (&Layer, &Buffer<B>)),
        free: (&mut Buffer<u32>, &mut u64),
    ) -> Result<Prepared<B, u32>> {
        let (_, starts) = plan_below.parents.as_ref().expect("a layer below the root's");
        let members = self.members::<B>(stream, device, layer)?;
        self.mark(stream, &layer.touched)?;
        let (offsets, places) = self.counts(stream, device, &members.numbers, Some(&layer.after))?;
        let children = offsets.total as usize;
        let mut elements = Elements { keys: device.alloc::<B>(children)?, ptrs: device.alloc::<u32>(children)? };
        let args = GatherChildrenArgs::<B> {
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
        let order = self.storage.node().order;
        // SAFETY: inner nodes, marked with their places among the parents below; a place for each child.
        unsafe { launch::over(stream, args.count, order, THREADS)?.run(calls::gather_children(&args)) }?;
        if let (Some(groups), Some(numbers), true) = (&below.groups, &below.numbers, below.count > 0) {
            let args = PutPiecesArgs::<B> {
                below: plan_below.groups(stream)?,
                starts: starts.read_on(stream)?,
                of_piece: groups.of_piece.read_on(stream)?,
                bounds: bounds.read_on(stream)?,
                numbers: numbers.read_on(stream)?,
                count: below.count,
                places: places.read_on(stream)?,
                offsets: offsets.before.read_on(stream)?,
                member_bounds: members.bounds.read_on(stream)?,
                keys: elements.keys.write_on(stream)?,
                children: elements.ptrs.write_on(stream)?,
            };
            // SAFETY: pieces of the layer below, and the places that their parents have for them.
            unsafe { launch::over(stream, args.count, 1, THREADS)?.run(calls::put_pieces(&args)) }?;
        }
        self.number(stream, device, layer, free, members, elements)
    }
}

fn copy<T: bytemuck::Pod>(stream: &Stream, device: &Device, words: &Buffer<T>) -> Result<Buffer<T>> {
    let mut copy = device.alloc(words.len())?;
    copy.copy_from_buffer(stream, 0, words, 0..words.len())?;
    Ok(copy)
}
