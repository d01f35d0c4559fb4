//! Batches of changes.

mod scratch;

pub use scratch::UpdateScratch;

use super::LaneTree;
use crate::build::build;
use crate::bulk::build_on;
use crate::device::over_queries;
use lanetree_frame::fixed::{FixedIndex, SortedPairs};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Buffer, DeviceKind, Op, Result, Stream, UpdatePath, UpdateReport, fold};
use lanetree_kernels_lane_tree::layout::FORMAT_BITS;
use lanetree_kernels_lane_tree::{
    CHANGE_WARPS, Changes, MoveArgs, NodeChangesArgs, RanksArgs, SEARCH_THREADS, SearchArgs, calls,
};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{Count, Keys, PairsMut, UploadedOperations, exclusive_scan, run_lengths};
use lanetree_simt::WARP;
use scratch::{SORTED_AT, TALLY, WITHOUT_ROOM};

impl<K: Key, V: Word> LaneTree<K, V> {
    /// Applies a batch whose operations are on the device. Operation `i` consists of `keys[i]`, `values[i]` (ignored for a
    /// removal) and, unless all are inserts, `kinds[i]`: 0 to insert, 1 to update, 2 to remove, as in [`Op`]. The effect is
    /// as if they were applied one after another.
    ///
    /// The batch is sorted, and every node that it touches is planned, while the tree is only read. If all of these have room,
    /// they are laid out anew, each in its own lines. Else a new tree is built of all pairs, with the builder's options; that
    /// needs memory for a second tree and for the pairs.
    ///
    /// Keys with random upper bits are the fastest, since a few of these bits are enough to sort them. The scratch memory
    /// remembers from batch to batch whether they are random.
    ///
    /// ```
    /// use lanetree::lane_tree::UpdateScratch;
    /// use lanetree::{Device, LaneTree, Pool};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Pool::new(&Device::emulated()).device();
    /// let mut tree = LaneTree::build(&device, &[1_u64, 3], &[10_u32, 30])?;
    /// let mut scratch = UpdateScratch::new(&device, 2)?;
    /// // Insert 2, remove 3.
    /// let (keys, values, kinds) = (device.upload(&[2, 3])?, device.upload(&[20, 0])?, device.upload(&[0, 2])?);
    /// let report = tree.apply_on(&device.stream()?, &keys, &values, Some(&kinds), &mut scratch)?;
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
    /// [`TooManyOperations`](lanetree_frame::Error::TooManyOperations), [`OutputLength`](lanetree_frame::Error::OutputLength) for buffers or scratch memory that
    /// are too small, [`TooManyLeaves`](lanetree_frame::Error::TooManyLeaves), [`UnknownKinds`](lanetree_frame::Error::UnknownKinds),
    /// [`Runtime`](lanetree_frame::Error::Runtime) for buffers of another device or if there is no room: the tree holds what it did.
    /// [`Lost`](lanetree_frame::Error::Lost) if the device failed while nodes were written: the tree is lost, and every later call says so.
    /// [`NoUpdates`](lanetree_frame::Error::NoUpdates) on the host, whose batches are slices ([`LaneTree::apply`]).
    pub fn apply_on(
        &mut self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        kinds: Option<&Buffer<u32>>,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<UpdateReport> {
        self.parts.check()?;
        scratch.sort.check_batch(&self.device, stream, keys, values, kinds)?;
        if keys.is_empty() {
            return Ok(UpdateReport::default());
        }
        let found = loop {
            self.plan(stream, (keys, values, kinds), scratch)?;
            let found = scratch.findings.to_vec()?;
            if scratch.sort.check(&found[SORTED_AT..])? {
                break found;
            }
        };
        let [inserted, replaced, removed, unmatched, unreached] = core::array::from_fn(|i| found[TALLY + i]);
        let report = |path| UpdateReport { inserted, replaced, removed, unmatched, path };
        if inserted + replaced + removed == 0 {
            return Ok(report(UpdatePath::Unchanged));
        }
        if unreached + found[WITHOUT_ROOM] == 0 {
            self.write_nodes(stream, (keys, values), inserted.wrapping_sub(removed), scratch)?;
            return Ok(report(UpdatePath::InPlace));
        }
        self.rebuild(stream, (keys, values), inserted, removed, scratch)?;
        Ok(report(UpdatePath::Rebuilt))
    }

    /// Sorts a batch, and finds out what it does: in the stream's order.
    fn plan(
        &self,
        stream: &Stream,
        (keys, values, kinds): (&Buffer<K>, &Buffer<V>, Option<&Buffer<u32>>),
        scratch: &mut UpdateScratch<K>,
    ) -> Result<()> {
        let count = keys.len();
        let parts = self.parts.get()?;
        scratch.findings.fill_zero(stream)?;
        scratch.sort.sort(stream, keys, kinds, &mut scratch.findings, SORTED_AT)?;
        let folded = match (kinds, scratch.sort.folded()) {
            (Some(_), Some(folded)) => folded.read_on(stream)?,
            _ => lanetree_simt::Global::null(),
        };
        let findings = scratch.findings.write_on(stream)?;
        let unsorted = findings.byte_add((SORTED_AT as u64 + 1) * 8).as_const();
        let args = SearchArgs {
            tree: self.tree_ref(stream)?,
            keys: scratch.sort.sorted().read_on(stream)?.cast::<K::Bits>(),
            kinds: folded,
            count: count as u64,
            nodes: scratch.nodes.write_on(stream)?,
            places: scratch.places.write_on(stream)?,
            counts: scratch.counts.write_on(stream)?,
            tally: findings.byte_add(TALLY as u64 * 8),
            unsorted,
        };
        // SAFETY: the scratch memory is for so many operations; the tree is borrowed.
        unsafe { over_queries(stream, count, (SEARCH_THREADS, 0), &args.tree)?.run(calls::search::<_, V>(&args))? };
        exclusive_scan(stream, &scratch.counts, count, &mut scratch.before, &mut scratch.scan)?;
        if parts.shape.len == 0 {
            // No node has room.
            return Ok(());
        }
        run_lengths(
            stream,
            Keys { keys: &scratch.nodes, count: count.into() },
            PairsMut { keys: &mut scratch.touched, values: &mut scratch.lengths, count: &mut scratch.touched_count },
            &mut scratch.runs,
        )?;
        let touched = Count::Device { count: &scratch.touched_count, at_most: count };
        exclusive_scan(stream, &scratch.lengths, touched, &mut scratch.first_changes, &mut scratch.scan)?;
        let args = self.changes_of_nodes(stream, (keys, values), scratch)?;
        let most = count.min(parts.shape.leaf_nodes as usize) as u64;
        // SAFETY: a warp for each node that may be touched.
        unsafe { launch::over(stream, most, WARP, CHANGE_WARPS * WARP)?.run(calls::plan_nodes(&args))? };
        Ok(())
    }

    /// The batch that is in the scratch memory.
    fn changes(
        stream: &Stream,
        (keys, values): (&Buffer<K>, &Buffer<V>),
        scratch: &UpdateScratch<K>,
    ) -> Result<Changes<K::Bits, V>> {
        Ok(Changes {
            keys: scratch.sort.sorted().read_on(stream)?.cast::<K::Bits>(),
            order: scratch.sort.order().read_on(stream)?,
            values: values.read_on(stream)?,
            nodes: scratch.nodes.read_on(stream)?,
            places: scratch.places.read_on(stream)?,
            before: scratch.before.read_on(stream)?,
            count: keys.len() as u64,
        })
    }

    /// The nodes that the batch touches, to be planned; not yet to be written.
    fn changes_of_nodes(
        &self,
        stream: &Stream,
        batch: (&Buffer<K>, &Buffer<V>),
        scratch: &mut UpdateScratch<K>,
    ) -> Result<NodeChangesArgs<K::Bits, V>> {
        let findings = scratch.findings.write_on(stream)?;
        Ok(NodeChangesArgs {
            tree: self.tree_ref(stream)?,
            touched: scratch.touched.read_on(stream)?,
            touched_count: scratch.touched_count.read_on(stream)?,
            first_changes: scratch.first_changes.read_on(stream)?,
            sizes: scratch.sizes.write_on(stream)?,
            unsorted: findings.byte_add((SORTED_AT as u64 + 1) * 8).as_const(),
            without_room: findings.byte_add(WITHOUT_ROOM as u64 * 8),
            changes: Self::changes(stream, batch, scratch)?,
            nodes: lanetree_simt::GlobalMut::null(),
            records: lanetree_simt::GlobalMut::null(),
            lines: lanetree_simt::GlobalMut::null(),
            formats: lanetree_simt::GlobalMut::null(),
        })
    }

    /// Lays the touched nodes out anew. `growth` is by how many pairs the tree grows, wrapping.
    fn write_nodes(
        &mut self,
        stream: &Stream,
        batch: (&Buffer<K>, &Buffer<V>),
        growth: u64,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<()> {
        let mut args = self.changes_of_nodes(stream, batch, scratch)?;
        let touched = batch.0.len().min(self.parts.get()?.shape.leaf_nodes as usize) as u64;
        let mut formats = self.device.alloc_zeroed::<u32>(1)?;
        args.formats = formats.write_on(stream)?;
        self.parts.change(|parts| {
            args.nodes = parts.nodes.write_on(stream)?;
            args.records = parts.records.write_on(stream)?;
            args.lines = parts.lines.write_on(stream)?;
            let leaf_nodes = parts.shape.leaf_nodes;
            let (changes, records) = (Self::changes(stream, batch, scratch)?, args.records);
            let ranks = RanksArgs { changes, leaf_nodes, reserved: 0, records };
            // SAFETY: all these nodes have room.
            unsafe {
                launch::over(stream, touched, WARP, CHANGE_WARPS * WARP)?.run(calls::write_nodes(&args))?;
                launch::over(stream, u64::from(leaf_nodes), 1, THREADS)?.run(calls::ranks(&ranks))?;
            }
            let written = formats.to_vec()?[0];
            parts.shape.len = parts.shape.len.wrapping_add(growth);
            parts.shape.formats |= written & ((1 << FORMAT_BITS) - 1);
            Ok(())
        })
    }

    /// Replaces the tree by one of all pairs after the batch.
    fn rebuild(
        &mut self,
        stream: &Stream,
        batch: (&Buffer<K>, &Buffer<V>),
        inserted: u64,
        removed: u64,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<()> {
        let shape = self.parts.get()?.shape;
        let len = (shape.len + inserted - removed) as usize;
        if len == 0 {
            self.parts.replace(build::<K, V>(&self.device, &SortedPairs::default(), self.options)?);
            return Ok(());
        }
        let (mut keys, mut values) = (self.device.alloc::<K>(len)?, self.device.alloc::<V>(len)?);
        let args = MoveArgs {
            tree: self.tree_ref(stream)?,
            changes: Self::changes(stream, batch, scratch)?,
            keys: keys.write_on(stream)?.cast::<K::Bits>(),
            values: values.write_on(stream)?,
        };
        // SAFETY: there is room for all pairs after the batch.
        unsafe {
            if shape.leaf_nodes > 0 {
                launch::over(stream, u64::from(shape.leaf_nodes), WARP, THREADS)?.run(calls::move_pairs(&args))?;
            }
            launch::over(stream, batch.0.len() as u64, 1, THREADS)?.run(calls::move_inserts(&args))?;
        }
        self.parts.replace(build_on(stream, &self.device, self.options, (&keys, &values, len))?);
        Ok(())
    }

    /// Applies operations: all updates in host form end here.
    pub(super) fn change(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.parts.check()?;
        if count == 0 {
            return Ok(UpdateReport::default());
        }
        if self.device.kind() != DeviceKind::Host {
            let device = self.device.clone();
            let mut scratch = UpdateScratch::new(&device, count)?;
            let UploadedOperations { keys, values, kinds } = UploadedOperations::new(&device, count, op)?;
            return self.apply_on(&device.stream()?, &keys, &values, kinds.as_ref(), &mut scratch);
        }
        let old = self.sorted_pairs()?;
        let (pairs, report) = SortedPairs::merge((&old.keys, &old.values), &fold(count, op))?;
        if report.path != UpdatePath::Unchanged {
            self.parts.replace(build::<K, V>(&self.device, &pairs, self.options)?);
        }
        Ok(report)
    }
    /// All pairs, in main memory.
    pub(super) fn sorted_pairs(&self) -> Result<SortedPairs<K::Bits, V>> {
        let len = self.parts.get()?.shape.len as usize;
        if len == 0 {
            return Ok(SortedPairs::default());
        }
        if let Some(view) = self.native() {
            let (mut keys, mut values) = (vec![K::decode(K::Bits::MIN); len], vec![V::MIN; len]);
            lanetree_frame::fixed::View::copy(&view, 0, &mut keys, &mut values);
            return Ok(SortedPairs { keys: keys.into_iter().map(Key::encode).collect(), values });
        }
        // One range from the first slot on.
        let stream = self.device.stream()?;
        let (cursors, offsets) = (self.device.upload(&[0_u64])?, self.device.upload(&[0, len as u64])?);
        let (mut keys, mut values) = (self.device.alloc::<K::Bits>(len)?, self.device.alloc::<V>(len)?);
        // SAFETY: the first slot is a cursor, and there is room for all pairs.
        unsafe {
            let pairs = (keys.write_on(&stream)?, values.write_on(&stream)?);
            self.launch_gather(&stream, 1, len, (cursors.read_on(&stream)?, offsets.read_on(&stream)?), pairs, len)?;
        }
        let keys = keys.to_vec()?.into_iter().map(|key| key.xor(K::FLIP)).collect();
        Ok(SortedPairs { keys, values: values.to_vec()? })
    }
}
