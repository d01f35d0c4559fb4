//! Scans: the first pairs from each key on, up to a limit for each key.

use super::on_stream::bits;
use super::options::Uses;
use super::{BitsOf, FixedIndex, OnStream, TASK, View};
use lanetree_base::Result;
use lanetree_base::parallel::*;
use lanetree_runtime::{Buffer, DeviceKind, Stream};
use lanetree_simt::ScanBatch;

/// An index with a kernel for scans.
pub trait Scans: FixedIndex {
    /// Launches a batch of scans, at least one.
    ///
    /// # Errors
    /// If the index is lost, or the launch fails.
    ///
    /// # Safety
    /// There are as many starts, counts, keys and values as the batch says, for this stream.
    unsafe fn launch_scan(
        &self,
        stream: &Stream,
        tuning: &Self::Tuning,
        batch: ScanBatch<BitsOf<Self>, Self::Value>,
    ) -> Result<()>;
}

impl<I: Scans> OnStream<'_, I> {
    /// Copies the first pairs whose keys are at or above each of `starts`, at most `limit` of each and in ascending
    /// order. The pairs of `starts[i]` are written from `keys[i * limit]` and `values[i * limit]` on, and `counts[i]`
    /// becomes their number. Elements past these are not touched.
    ///
    /// So a scan is a range that has a length instead of an end. One kernel makes a batch of them, without scratch memory.
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn scan(
        &self,
        starts: &Buffer<I::Key>,
        limit: u32,
        keys: &mut Buffer<I::Key>,
        values: &mut Buffer<I::Value>,
        counts: &mut Buffer<u32>,
    ) -> Result<()> {
        self.options.check("scan", Uses::Nothing)?;
        let (count, most) = (starts.len(), limit as usize);
        let pairs = count.saturating_mul(most);
        self.check("the starts' buffer", count, starts)?;
        self.check("the keys' buffer", pairs, keys)?;
        self.check("the values' buffer", pairs, values)?;
        self.check("the counts' buffer", count, counts)?;
        if count == 0 {
            return Ok(());
        }
        if self.stream.device().kind() == DeviceKind::Host {
            let (Some(starts), Some(keys), Some(values), Some(counts)) =
                (starts.as_slice(), keys.as_mut_slice(), values.as_mut_slice(), counts.as_mut_slice())
            else {
                unreachable!("buffers of the host are in main memory")
            };
            counts[..count].fill(0);
            if limit > 0 {
                self.scan_on_host(starts, most, (keys, values), counts);
            }
            return Ok(());
        }
        let batch = ScanBatch {
            starts: bits::<I::Key>(self.stream, starts)?,
            count: count as u64,
            limit: limit.into(),
            keys: keys.write_on(self.stream)?.cast(),
            values: values.write_on(self.stream)?,
            counts: counts.write_on(self.stream)?,
        };
        // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
        unsafe { self.index.launch_scan(self.stream, self.tuning(), batch) }
    }

    fn scan_on_host(
        &self,
        starts: &[I::Key],
        limit: usize,
        (keys, values): (&mut [I::Key], &mut [I::Value]),
        counts: &mut [u32],
    ) {
        let (tree, len) = (self.index.view().expect("a tree on the host is in main memory"), self.index.len());
        let task = TASK.div_ceil(limit);
        starts
            .par_chunks(task)
            .zip(keys.par_chunks_mut(task * limit))
            .zip(values.par_chunks_mut(task * limit))
            .zip(counts.par_chunks_mut(task))
            .for_each(|(((starts, keys), values), counts)| {
                tree.rank(starts, false, |i, rank| {
                    let pairs = (len - rank).min(limit as u64) as usize;
                    let at = i * limit..i * limit + pairs;
                    tree.copy(rank, &mut keys[at.clone()], &mut values[at]);
                    counts[i] = pairs as u32;
                });
            });
    }
}
