//! Batches of changes (section 3.2.2).

mod host;
mod plan;
mod scratch;
mod write;

pub use scratch::UpdateScratch;

use crate::tree::{Tree, full};
use crate::{Cubpt, merge};
use lanetree_frame::{Batch, DeviceKind, Op, Result, Stream, UpdatePath, UpdateReport, fold};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;
use plan::Found;
use write::Work;

impl<K: Key, V: Word> Cubpt<K, V> {
    /// Applies a batch of operations in buffers: [`Batch`] says what they consist of. The effect is that of one operation
    /// after another.
    ///
    /// The batch is sorted, searched and planned while the tree is only read; then the nodes are written, layer by layer
    /// from the leaves, by several threads per node or a thread per key ([`Mapping`](crate::Mapping)). Leaves that removals make too small (below a quarter of the fanout) are merged at the
    /// beginning of the next batch, or by [`Cubpt::merge_small`].
    ///
    /// Keys with random upper bits are the fastest, since a few of these bits are enough to sort them. The scratch memory
    /// remembers from batch to batch whether they are random.
    ///
    /// ```
    /// use lanetree::cubpt::UpdateScratch;
    /// use lanetree::{Batch, Cubpt, Device, OpKind, Pool};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Pool::new(&Device::emulated()).device();
    /// let mut tree = Cubpt::build(&device, &[1_u64, 3], &[10_u32, 30])?;
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
    /// # Errors
    /// [`TooManyOperations`](lanetree_frame::Error::TooManyOperations), [`OutputLength`](lanetree_frame::Error::OutputLength)
    /// for buffers or scratch memory that are too small, [`TooManyLeaves`](lanetree_frame::Error::TooManyLeaves),
    /// [`UnknownKinds`](lanetree_frame::Error::UnknownKinds), [`Runtime`](lanetree_frame::Error::Runtime) for buffers of
    /// another device or if there is no room: the tree holds what it did. [`Lost`](lanetree_frame::Error::Lost) if the device
    /// failed while nodes were written: the tree is lost, and every later call says so.
    /// [`NoUpdates`](lanetree_frame::Error::NoUpdates) on the host, whose batches are slices ([`Cubpt::apply`]).
    pub fn apply_on(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<UpdateReport> {
        self.tree.check()?;
        scratch.sort.begin_batch(&self.device, stream, batch)?;
        if batch.count == 0 {
            return Ok(UpdateReport::default());
        }
        self.merge_small(stream, scratch)?;
        let full = self.full();
        let tree = self.tree.get()?;
        let found = Found::search(stream, scratch, tree, batch, full)?;
        let Found { inserted, replaced, removed, unmatched, .. } = found;
        let report = |path| UpdateReport { inserted, replaced, removed, unmatched, path };
        let len = tree.len + inserted - removed;
        if inserted + removed == 0 {
            if replaced == 0 {
                return Ok(report(UpdatePath::Unchanged));
            }
            self.tree.change(|tree| write::replace(stream, scratch, batch.values, tree, &found))?;
            return Ok(report(UpdatePath::InPlace));
        }
        if len == 0 {
            self.tree.replace(Tree::build::<K, V>(&self.device, (self.fanout, self.fill, self.mapping), &[], &[])?);
            return Ok(report(UpdatePath::Rebuilt));
        }
        let small = (&found.small, found.small_count);
        let plan = plan::plan(stream, scratch, tree, found.leaves, full)?;
        let work = Work::prepare(stream, scratch, self.tree.get_mut()?, plan, small, (full, len))?;
        stream.synchronize()?;
        self.tree.change(|tree| work.write(stream, scratch, batch.values, tree, len))?;
        Ok(report(UpdatePath::Moved))
    }

    /// Merges the leaves that the last batch has made too small, and the nodes above them, as the next batch would do first.
    /// The tree holds the same pairs afterwards. Returns when it is done.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_frame::Error::Runtime) if there is no room: the tree is as it was. [`Lost`](lanetree_frame::Error::Lost)
    /// if the device failed while nodes were written.
    pub fn merge_small(&mut self, stream: &Stream, scratch: &mut UpdateScratch<K>) -> Result<()> {
        let (full, tree) = (self.full(), self.tree.get_mut()?);
        if tree.small.is_empty() {
            return Ok(());
        }
        let work = merge::Work::<K::Bits, V>::prepare(stream, &scratch.device(), tree, full)?;
        stream.synchronize()?;
        self.tree.change(|tree| work.write(stream, tree))
    }

    /// Keys of a node that is split.
    fn full(&self) -> u64 {
        full(self.fanout, self.fill).max(u64::from(self.fanout).div_ceil(2))
    }

    /// Applies operations: all updates in host form end here.
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.tree.check()?;
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
