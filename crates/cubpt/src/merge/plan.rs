//! The plan of a merge: what becomes of each layer, from the leaves upwards. The tree is only read.

use super::sums::{Runs, Sums};
use crate::tree::Tree;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_cubpt::{CHANGED, GroupArgs, GroupsMut, PlannedGroups, SHRUNK, StartArgs, calls};
use lanetree_runtime::Buffer;

/// What becomes of a layer.
pub(super) struct LayerPlan {
    /// Touched nodes, and what they have afterwards.
    pub(super) touched: Buffer<u32>,
    pub(super) after: Buffer<u32>,
    /// Their parents, and where the touched children of each begin; `None` in the root's layer.
    pub(super) parents: Option<(Buffer<u32>, Buffer<u64>)>,
    /// The groups: their parents' places and first slots, and the rest as sums.
    pub(super) of_parents: Buffer<u32>,
    pub(super) slots: Buffer<u32>,
    pub(super) members: Sums,
    pub(super) totals: Sums,
    pub(super) pieces: Sums,
    pub(super) freed: Sums,
}

impl LayerPlan {
    /// The groups for a kernel.
    pub(super) fn groups(&self, stream: &Stream) -> Result<PlannedGroups> {
        Ok(PlannedGroups {
            parents: self.of_parents.read_on(stream)?,
            slots: self.slots.read_on(stream)?,
            members: self.members.before.read_on(stream)?,
            pieces: self.pieces.before.read_on(stream)?,
            count: self.touched.len() as u64,
        })
    }
}

/// The layers that change, from the leaves upwards.
pub(super) struct Plan {
    pub(super) layers: Vec<LayerPlan>,
    /// Whether the root may have a single child then, which takes its place.
    pub(super) may_shrink: bool,
}

/// Touched nodes of a layer.
struct Touched {
    numbers: Buffer<u32>,
    after: Buffer<u32>,
    changed: Buffer<u32>,
    parents: Buffer<u32>,
}

impl Plan {
    /// Plans a merge of the leaves that are too small, at least one.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn new(stream: &Stream, device: &Device, tree: &Tree, full: u64) -> Result<Self> {
        let mut plan = Self { layers: Vec::new(), may_shrink: false };
        if tree.height == 0 {
            return Ok(plan);
        }
        let mut touched = Touched::leaves(stream, device, tree)?;
        for _ in 0..tree.height {
            let (layer, above) = touched.group(stream, device, tree, full)?;
            plan.layers.push(layer);
            if Sums::of(stream, device, &above.changed)?.total == 0 {
                return Ok(plan);
            }
            touched = above;
        }
        // The root alone.
        let [mut after, mut changed] = [[0]; 2];
        touched.after.copy_range_to(0, &mut after)?;
        touched.changed.copy_range_to(0, &mut changed)?;
        if changed[0] & (CHANGED | SHRUNK) != 0 {
            plan.may_shrink = after[0] == 1;
            plan.layers.push(touched.root(device, after[0])?);
        }
        Ok(plan)
    }

    /// Nodes that all layers give back.
    pub(super) fn freed(&self) -> u64 {
        self.layers.iter().map(|layer| layer.freed.total).sum()
    }
}

impl Touched {
    fn leaves(stream: &Stream, device: &Device, tree: &Tree) -> Result<Self> {
        let count = tree.small.len();
        let [mut after, mut changed, mut parents] = [device.alloc(count)?, device.alloc(count)?, device.alloc(count)?];
        let mut numbers = device.alloc(count)?;
        numbers.copy_from_buffer(stream, 0, &tree.small, 0..count)?;
        let args = StartArgs {
            nodes: tree.storage.nodes(stream)?,
            leaves: numbers.read_on(stream)?,
            count: count as u64,
            after: after.write_on(stream)?,
            changed: changed.write_on(stream)?,
            parents: parents.write_on(stream)?,
        };
        // SAFETY: leaves of the tree; a place for each.
        unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::start(&args)) }?;
        Ok(Self { numbers, after, changed, parents })
    }

    /// The groups of a layer below the root's, and the touched nodes of the layer above.
    fn group(self, stream: &Stream, device: &Device, tree: &Tree, full: u64) -> Result<(LayerPlan, Self)> {
        let count = self.numbers.len();
        let Runs { keys: parents, starts } = Runs::of(stream, device, &self.parents)?;
        let words = || device.alloc::<u32>(count);
        let [mut of_parents, mut slots, mut members, mut totals] = [words()?, words()?, words()?, words()?];
        let [mut pieces, mut freed] = [words()?, words()?];
        let of_parent = || device.alloc::<u32>(parents.len());
        let [mut after, mut changed, mut grandparents] = [of_parent()?, of_parent()?, of_parent()?];
        let args = GroupArgs {
            nodes: tree.storage.nodes(stream)?,
            touched: self.numbers.read_on(stream)?,
            after: self.after.read_on(stream)?,
            changed: self.changed.read_on(stream)?,
            parents: parents.read_on(stream)?,
            starts: starts.read_on(stream)?,
            count: parents.len() as u64,
            full,
            groups: GroupsMut {
                parents: of_parents.write_on(stream)?,
                slots: slots.write_on(stream)?,
                members: members.write_on(stream)?,
                totals: totals.write_on(stream)?,
                pieces: pieces.write_on(stream)?,
                freed: freed.write_on(stream)?,
            },
            parents_after: after.write_on(stream)?,
            parents_changed: changed.write_on(stream)?,
            grandparents: grandparents.write_on(stream)?,
        };
        // SAFETY: nodes of the tree; a place for each touched node, and for each parent.
        unsafe { launch::over(stream, parents.len() as u64, 1, THREADS)?.run(calls::group(&args)) }?;
        let mut numbers = device.alloc(parents.len())?;
        numbers.copy_from_buffer(stream, 0, &parents, 0..parents.len())?;
        let above = Self { numbers, after, changed, parents: grandparents };
        let layer = LayerPlan {
            touched: self.numbers,
            after: self.after,
            parents: Some((parents, starts)),
            of_parents,
            slots,
            members: Sums::of(stream, device, &members)?,
            totals: Sums::of(stream, device, &totals)?,
            pieces: Sums::of(stream, device, &pieces)?,
            freed: Sums::of(stream, device, &freed)?,
        };
        Ok((layer, above))
    }

    /// The root's group.
    fn root(self, device: &Device, after: u32) -> Result<LayerPlan> {
        let sums = |count: u32| -> Result<Sums> {
            Ok(Sums { before: device.upload(&[0, u64::from(count)])?, total: count.into() })
        };
        Ok(LayerPlan {
            touched: self.numbers,
            after: self.after,
            parents: None,
            of_parents: device.upload(&[0])?,
            slots: device.upload(&[0])?,
            members: sums(1)?,
            totals: sums(after)?,
            pieces: sums(1)?,
            freed: sums(0)?,
        })
    }
}
