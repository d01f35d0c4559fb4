//! The array on a device: what the frame makes every query of.

use super::SortedArray;
use super::native::View;
use lanetree_frame::aggregate_steps::fold_values;
use lanetree_frame::fixed::{FixedIndex, Query, Staging, check_pairs};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parallel::*;
use lanetree_frame::{Buffer, Device, Op, Result, Stream, UpdateReport};
use lanetree_kernels_sorted::{ArrayRef, GATHER_WIDTHS, IN_FLIGHT, calls};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Launch;
use lanetree_simt::QueryArgs;

impl<K: Key, V: Word> SortedArray<K, V> {
    /// What a kernel in a stream needs to know of the array.
    fn array(&self, stream: &Stream) -> Result<ArrayRef<K::Bits, V>> {
        let (keys, values) = (self.keys.read_on(stream)?, self.values.read_on(stream)?);
        Ok(ArrayRef { keys, values, len: self.keys.len() as u64, flip: K::FLIP })
    }
}

/// A launch for a batch of queries.
fn over_queries(stream: &Stream, count: u64) -> Result<Launch<'_>> {
    launch::over(stream, count.div_ceil(IN_FLIGHT as u64), 1, THREADS)
}

// SAFETY: the array has one pair per key, in order, and as many as its length says; a batch changes both together, or fails.
unsafe impl<K: Key, V: Word> FixedIndex for SortedArray<K, V> {
    type Key = K;
    type Value = V;
    const NAME: &'static str = "sorted";
    type Tuning = ();
    type View<'a> = View<'a, K, V>;
    // A cursor is a rank.

    fn device(&self) -> &Device {
        &self.device
    }

    fn len(&self) -> u64 {
        self.stats().len
    }

    fn bytes(&self) -> u64 {
        self.stats().bytes()
    }

    fn pairs(&self) -> Result<Vec<(K, V)>> {
        let keys = self.keys.to_vec()?.into_par_iter().map(K::decode);
        keys.zip(self.values.to_vec()?).try_collect()
    }

    fn apply_each(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.change(count, op)
    }

    fn staging(&self) -> &Staging<K, V> {
        &self.staging
    }

    fn check_not_lost(&self) -> Result<()> {
        Ok(())
    }

    fn view(&self) -> Option<View<'_, K, V>> {
        Some(View { keys: self.keys.as_slice()?, values: self.values.as_slice()? })
    }

    unsafe fn launch(&self, stream: &Stream, (): &(), query: &Query<K::Bits, V>) -> Result<()> {
        let tree = self.array(stream)?;
        // SAFETY: the caller's contract; the array is valid, and borrowed.
        Ok(unsafe {
            match *query {
                Query::Get(batch) => over_queries(stream, batch.count)?.run(calls::get(&QueryArgs { tree, batch })),
                Query::Rank(batch) => over_queries(stream, batch.count)?.run(calls::rank(&QueryArgs { tree, batch })),
                Query::Neighbor(batch) => {
                    over_queries(stream, batch.count)?.run(calls::neighbor(&QueryArgs { tree, batch }))
                }
                Query::Locate(batch) => {
                    launch::over(stream, batch.count, 1, THREADS)?.run(calls::locate(&QueryArgs { tree, batch }))
                }
                Query::Gather(batch, mean) => {
                    let args = QueryArgs { tree, batch };
                    let (width, call) = match mean <= 2 * u64::from(GATHER_WIDTHS[0]) {
                        true => (GATHER_WIDTHS[0], calls::gather_narrow(&args)),
                        false => (GATHER_WIDTHS[1], calls::gather_wide(&args)),
                    };
                    launch::over(stream, batch.rows.groups(), width, THREADS)?.run(call)
                }
                Query::Aggregate(batch) => return fold_values(stream, tree.values, batch),
            }
        }?)
    }

    unsafe fn build_like(&self, stream: &Stream, pairs: (&Buffer<K>, &Buffer<V>), len: usize) -> Result<Self> {
        check_pairs(stream, pairs.0, pairs.1, len)?;
        if let (Some(keys), Some(values)) = (pairs.0.as_slice(), pairs.1.as_slice()) {
            return Self::builder().build_sorted(stream.device(), &keys[..len], &values[..len]);
        }
        // Through main memory, as changes are.
        let (keys, values) = (pairs.0.to_vec()?, pairs.1.to_vec()?);
        Self::builder().build_sorted(stream.device(), &keys[..len], &values[..len])
    }
}
