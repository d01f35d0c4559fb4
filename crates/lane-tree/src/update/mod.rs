//! Batches of changes.

mod host;
mod new_buckets;
mod rebuild;
mod scratch;
mod split;

pub use scratch::UpdateScratch;

use super::LaneTree;
use crate::ahead;
use crate::bulk::NOTHING_SPLIT;
use crate::device::over_queries;
use crate::node::Filling;
use crate::options::Options;
use crate::tuning::TUNING;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Batch, Buffer, DeviceKind, Op, Result, Stream, UpdatePath, UpdateReport, fold};
use lanetree_kernels_lane_tree::layout::FORMAT_BITS;
use lanetree_kernels_lane_tree::{
    BUCKET_THREADS, BucketChangesArgs, CHANGE_WARPS, Changes, ListNodesArgs, NodeChangesArgs, RanksArgs,
    SEARCH_THREADS, SearchArgs, calls,
};
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::exclusive_scan;
use lanetree_simt::{Global, GlobalMut, WARP};
use scratch::{FOUND, FULL, Findings, LISTED, SORTED_AT, TALLY};

/// Threads for buckets that have no room: enough for all multiprocessors. How many buckets there are is known only there.
const SHIFT_THREADS: u64 = 1 << 18;

/// Warps that plan nodes, at most: enough for all multiprocessors. How many nodes there are is known only there.
const PLAN_WARPS: u64 = 1 << 13;

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Applies a batch of operations in buffers: [`Batch`] says what they consist of. The effect is that of one operation
    /// after another.
    ///
    /// It needs a device with kernels: without a GPU use `Device::emulated()`. On the host call [`LaneTree::apply`].
    ///
    /// ```
    /// use lanetree::lane_tree::UpdateScratch;
    /// use lanetree::{Batch, Device, LaneTree, OpKind, Pool};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Pool::new(&Device::emulated()).device();
    /// let mut tree = LaneTree::build(&device, &[1_u64, 3], &[10_u32, 30])?;
    /// let mut scratch = UpdateScratch::new(&device, 2)?;
    /// // Insert 2, remove 3.
    /// let (keys, values) = (device.upload(&[2, 3])?, device.upload(&[20, 0])?);
    /// let kinds = device.upload(&[OpKind::INSERT, OpKind::REMOVE])?;
    /// let report = tree.apply_on(&device.stream()?, Batch::of_kinds(&keys, &values, &kinds), &mut scratch)?;
    /// assert_eq!((report.inserted, report.removed), (1, 1));
    /// assert_eq!(tree.get_many(&[1, 2, 3])?, [Some(10), Some(20), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Changes wait for all reads of the tree, in any stream, so these read the tree as it was before the batch. The call
    /// returns when everything is done, so that nobody reads a half-changed tree.
    ///
    /// # How a batch is applied
    /// It is sorted and planned while the tree is only read. Keys with random upper bits are the fastest, since a few of these bits
    /// are enough to sort them; the scratch memory remembers from batch to batch whether they are random. Then:
    ///
    /// * a bucket that has room for its operations is changed where it is;
    /// * a node with a bucket that has none is rewritten, in its own buckets or, if these are too few, in new ones;
    /// * a node that needs more than 64 buckets, or whose keys are so close that it cannot tell them apart, is split into nodes with
    ///   new buckets, filled to the builder's `fill`, at most 0.75. All nodes then move to new memory, but no buckets. That
    ///   takes memory for second nodes, for the pairs of the split nodes, and for new buckets: where there is none, buckets are
    ///   copied to memory for a quarter more.
    ///
    /// Instead the whole tree is rebuilt, as full as split nodes, if
    ///
    /// * more than half of all nodes plus eight would be rewritten;
    /// * more than a fifth of all nodes plus eight would be split; or
    /// * there is no room for new buckets, and more than an eighth of all buckets would belong to no node any more.
    ///
    /// A rebuild merges the old nodes' pairs with the batch, plans new nodes, and writes them in one pass. It takes memory for a second
    /// tree and, beside that, for an eighth of the pairs: those of nodes that need more than one plan. If there are more, the pass is
    /// made a second time, with the memory that the first one counted.
    ///
    /// # Errors
    /// [`TooManyOperations`](lanetree_frame::Error::TooManyOperations), [`OutputLength`](lanetree_frame::Error::OutputLength) for buffers or scratch memory that
    /// are too small, [`TooManyLeaves`](lanetree_frame::Error::TooManyLeaves), [`UnknownKinds`](lanetree_frame::Error::UnknownKinds),
    /// [`Runtime`](lanetree_frame::Error::Runtime) for buffers of another device or if there is no room: the tree holds what it did.
    /// [`Lost`](lanetree_frame::Error::Lost) if the device failed while nodes were written: the tree is lost, and every later call says so.
    /// [`NoUpdates`](lanetree_frame::Error::NoUpdates) on the host, whose batches are slices ([`LaneTree::apply`]).
    pub fn apply_on(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<UpdateReport> {
        self.apply_on_after(stream, batch, scratch, &|| Ok(()))
    }

    /// [`LaneTree::apply_on`], which calls a function when all that the batch needs is there and nothing is changed yet. It is not
    /// called after an error, or where there is nothing to change. If it fails, the tree stays as it was.
    ///
    /// # Errors
    /// As [`LaneTree::apply_on`]; that of the function.
    #[doc(hidden)]
    pub fn apply_on_after(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut UpdateScratch<K>,
        ready: &dyn Fn() -> Result<()>,
    ) -> Result<UpdateReport> {
        self.parts.check()?;
        scratch.sort.begin_batch(&self.device, stream, batch)?;
        if batch.count == 0 {
            return Ok(UpdateReport::default());
        }
        ahead::load(&self.device, || ahead::of_changes::<K, V>(batch.count));
        let found = loop {
            self.plan(stream, batch, scratch)?;
            let words = scratch.notes.read()?;
            if scratch.sort.check(&words[SORTED_AT..])? {
                break Findings::of(&words);
            }
        };
        // A set's key that is there stays as it is.
        if found.inserted + found.removed == 0 && (found.replaced == 0 || !V::IS_SOME) {
            return Ok(found.report(UpdatePath::Unchanged));
        }
        let len = self.parts.get()?.shape.len;
        let new_len = len.wrapping_add(found.growth());
        let leaf_nodes = u64::from(self.parts.get()?.shape.leaf_nodes);
        let tuning = TUNING.on(stream.device())?;
        let is_rebuilt = found.listed > tuning.most_listed(leaf_nodes) || found.split > tuning.most_split(leaf_nodes);
        if len == 0 || new_len == 0 || is_rebuilt {
            self.rebuild(stream, batch, new_len, scratch, ready)?;
            return Ok(found.report(UpdatePath::Rebuilt));
        }
        if found.unreached + found.split == 0 {
            if self.reserve_buckets(stream, found.new_buckets)? {
                self.write(stream, batch, &found, scratch, ready)?;
                return Ok(found.report(UpdatePath::InPlace));
            }
        } else if self.split(stream, batch, &found, scratch, ready)? {
            return Ok(found.report(UpdatePath::Moved));
        }
        self.rebuild(stream, batch, new_len, scratch, ready)?;
        Ok(found.report(UpdatePath::Rebuilt))
    }

    /// Sorts a batch and finds out what it does, which nodes are to be rewritten, and which of these must be split: in the
    /// stream's order.
    fn plan(&self, stream: &Stream, batch: Batch<'_, K, &Buffer<V>>, scratch: &mut UpdateScratch<K>) -> Result<()> {
        let count = batch.count;
        let parts = self.parts.get()?;
        let leaf_nodes = parts.shape.leaf_nodes as usize;
        scratch.notes.clear(&self.device, stream, leaf_nodes)?;
        scratch.lists.reserve(&self.device, count.min(leaf_nodes))?;
        scratch.sort.sort(stream, batch, scratch.notes.buffer(), SORTED_AT)?;
        let folded = match (batch.kinds, scratch.sort.folded()) {
            (Some(_), Some(folded)) => folded.read_on(stream)?,
            _ => Global::null(),
        };
        let args = SearchArgs {
            tree: self.tree_ref(stream)?,
            keys: scratch.sort.sorted().read_on(stream)?.cast::<K::Bits>(),
            kinds: folded,
            count: count as u64,
            nodes: scratch.nodes.write_on(stream)?,
            located: scratch.located.write_on(stream)?,
            buckets: scratch.buckets.write_on(stream)?,
            counts: scratch.counts.write_on(stream)?,
            tally: scratch.notes.at(stream, TALLY)?,
            unsorted: scratch.notes.unsorted(stream)?,
        };
        // SAFETY: the scratch memory is for `count` operations; the tree is borrowed.
        unsafe {
            over_queries(stream, count as u64, SEARCH_THREADS, 0, &args.tree)?.run(calls::search::<_, V>(&args))?
        };
        exclusive_scan(stream, &scratch.counts, count, &mut scratch.before, &mut scratch.scan)?;
        if parts.shape.len > 0 {
            let buckets = self.changes_of_buckets(stream, batch, scratch)?;
            let listed = ListNodesArgs {
                changes: buckets.changes,
                marks: buckets.marks.as_const(),
                listed: scratch.lists.listed.write_on(stream)?,
                spans: scratch.lists.spans.write_on(stream)?,
                listed_count: scratch.notes.at(stream, LISTED)?,
            };
            let mut nodes = self.changes_of_nodes(stream, batch, scratch)?;
            nodes.most_listed = TUNING.on(stream.device())?.most_listed(leaf_nodes as u64);
            let threads = (count as u64).min(SHIFT_THREADS);
            let warps = (count.min(leaf_nodes) as u64).min(PLAN_WARPS);
            // SAFETY: operations, and a bit for each node; there is room for all nodes that have operations.
            unsafe {
                launch::over(stream, count as u64, 1, THREADS)?.run(calls::plan_buckets(&buckets))?;
                launch::over(stream, threads, 1, THREADS)?.run(calls::plan_shifts(&buckets))?;
                launch::over(stream, count as u64, 1, THREADS)?.run(calls::list_nodes(&listed))?;
                launch::over(stream, warps, WARP, CHANGE_WARPS * WARP)?.run(calls::plan_nodes(&nodes))?;
            }
        }
        Ok(())
    }

    /// The batch that is in the scratch memory.
    fn changes(
        stream: &Stream,
        Batch { values, count, .. }: Batch<'_, K, &Buffer<V>>,
        scratch: &UpdateScratch<K>,
    ) -> Result<Changes<K::Bits, V>> {
        Ok(Changes {
            keys: scratch.sort.sorted().read_on(stream)?.cast::<K::Bits>(),
            order: scratch.sort.order().read_on(stream)?,
            values: values.read_on(stream)?,
            nodes: scratch.nodes.read_on(stream)?,
            located: scratch.located.read_on(stream)?,
            buckets: scratch.buckets.read_on(stream)?,
            before: scratch.before.read_on(stream)?,
            count: count as u64,
        })
    }

    /// What becomes of buckets; not yet to be written.
    fn changes_of_buckets(
        &self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<BucketChangesArgs<K::Bits, V>> {
        Ok(BucketChangesArgs {
            tree: self.tree_ref(stream)?,
            changes: Self::changes(stream, batch, scratch)?,
            unsorted: scratch.notes.unsorted(stream)?,
            marks: scratch.notes.marks(stream)?,
            full: scratch.full.write_on(stream)?,
            full_count: scratch.notes.at(stream, FULL)?,
            shifts: scratch.shifts.write_on(stream)?,
            nodes: GlobalMut::null(),
            records: GlobalMut::null(),
            buckets: GlobalMut::null(),
        })
    }

    /// What becomes of nodes that are listed; not yet to be written.
    fn changes_of_nodes(
        &self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<NodeChangesArgs<K::Bits, V>> {
        let changes = Self::changes(stream, batch, scratch)?;
        let UpdateScratch { notes, lists, .. } = scratch;
        Ok(NodeChangesArgs {
            tree: self.tree_ref(stream)?,
            listed: lists.listed.read_on(stream)?,
            listed_count: notes.at(stream, LISTED)?.as_const(),
            most_listed: u64::MAX,
            spans: lists.spans.read_on(stream)?,
            plans: lists.plans.write_on(stream)?,
            counts: notes.at(stream, FOUND)?,
            new_bucket: u64::from(self.parts.get()?.shape.buckets),
            must_split: notes.must_split(stream)?,
            changes,
            nodes: GlobalMut::null(),
            records: GlobalMut::null(),
            ends: GlobalMut::null(),
            buckets: GlobalMut::null(),
            formats: GlobalMut::null(),
        })
    }

    /// Launches the changes of buckets, and of nodes that are listed and not split. Records keep the ranks of before.
    ///
    /// # Safety
    /// All was planned.
    unsafe fn launch_changes(
        stream: &Stream,
        buckets: &BucketChangesArgs<K::Bits, V>,
        nodes: &NodeChangesArgs<K::Bits, V>,
        found: &Findings,
    ) -> Result<()> {
        // SAFETY: the caller's.
        unsafe {
            if found.listed > 0 {
                launch::over(stream, found.listed, WARP, CHANGE_WARPS * WARP)?.run(calls::write_nodes(nodes))?;
            }
            launch::over(stream, buckets.changes.count, 1, BUCKET_THREADS)?.run(calls::write_buckets(buckets))?;
            if found.full > 0 {
                let threads = found.full.min(SHIFT_THREADS);
                launch::over(stream, threads, 1, THREADS)?.run(calls::write_shifts(buckets))?;
            }
        }
        Ok(())
    }

    /// Changes buckets and nodes where they are; some nodes are rewritten in new buckets, for which there is room.
    fn write(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        found: &Findings,
        scratch: &mut UpdateScratch<K>,
        ready: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut buckets = self.changes_of_buckets(stream, batch, scratch)?;
        let mut nodes = self.changes_of_nodes(stream, batch, scratch)?;
        nodes.formats = scratch.notes.formats(stream)?;
        ready()?;
        self.parts.change(|parts| {
            let replicas =
                (parts.nodes.write_on(stream)?, parts.records.write_on(stream)?, parts.buckets.write_on(stream)?);
            (buckets.nodes, buckets.records, buckets.buckets) = replicas;
            (nodes.nodes, nodes.records, nodes.buckets) = replicas;
            nodes.ends = parts.ends.write_on(stream)?;
            let leaf_nodes = parts.shape.leaf_nodes;
            let ranks = RanksArgs {
                changes: buckets.changes,
                split: NOTHING_SPLIT,
                before: Global::null(),
                leaf_nodes: u64::from(leaf_nodes),
                records: buckets.records,
                moves: GlobalMut::null(),
            };
            // SAFETY: the buckets and nodes have room.
            unsafe {
                Self::launch_changes(stream, &buckets, &nodes, found)?;
                launch::over(stream, u64::from(leaf_nodes), 1, THREADS)?.run(calls::ranks(&ranks))?;
            }
            if found.listed > 0 {
                parts.shape.formats |= scratch.notes.read_formats()? & ((1 << FORMAT_BITS) - 1);
            } else {
                stream.synchronize()?;
            }
            parts.shape.len = parts.shape.len.wrapping_add(found.growth());
            found.new_buckets.add_to(&mut parts.shape);
            Ok(())
        })
    }

    /// How full the buckets of split nodes are, and of a tree that is rebuilt: there will be more where these keys went.
    fn split_fill(&self) -> f64 {
        self.options.fill.min(0.75)
    }

    /// [`Self::split_fill`] as pairs per bucket.
    fn split_filling(&self) -> Filling {
        Filling::new::<K::Bits, V>(self.split_fill())
    }

    /// The options of a tree that is rebuilt from one with so many pairs: nobody has filled an empty one.
    fn rebuilt_options(&self, old_len: u64) -> Options {
        let fill = if old_len > 0 { self.split_fill() } else { self.options.fill };
        Options { fill, ..self.options }
    }

    /// Applies operations: all updates in host form end here.
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.parts.check()?;
        if count == 0 {
            return Ok(UpdateReport::default());
        }
        if self.device.kind() != DeviceKind::Host {
            let mut staged = self.changes.stage(&self.device, &self.staging.queries, count, op, UpdateScratch::new)?;
            let report = self.apply_on(&staged.stream, staged.operations.batch(), &mut staged.scratch)?;
            self.changes.keep(staged);
            return Ok(report);
        }
        self.change_on_host(&fold(count, op)?)
    }
}
