//! Joins of probes with an index, by key: which probes match, and with which pair.

use super::{FixedIndex, OnStream, Side, TASK, Uses, View, bits};
use lanetree_base::parallel::*;
use lanetree_base::{Matches, Result};
use lanetree_layout::AnyKey;
use lanetree_primitives::{Pairs, PairsMut, SelectScratch, select_pairs};
use lanetree_runtime::{Buffer, Device, DeviceKind};

/// Scratch memory of joins on a device, reusable for the next one of up to as many probes: 17 bytes for each.
#[derive(Debug)]
pub struct JoinScratch {
    /// The numbers of all probes.
    numbers: Buffer<u64>,
    ranks: Buffer<u64>,
    hits: Buffer<u32>,
    select: SelectScratch,
}

impl JoinScratch {
    /// Enough for `probes` probes. Returns when it is complete.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize) -> Result<Self> {
        /// Numbers that the host makes at a time.
        const PIECE: usize = 1 << 16;
        let mut numbers = device.alloc::<u64>(probes)?;
        for start in (0..probes).step_by(PIECE) {
            let piece: Vec<u64> = (start..probes.min(start + PIECE)).map(|number| number as u64).collect();
            numbers.copy_range_from(start, &piece)?;
        }
        Ok(Self {
            numbers,
            ranks: device.alloc(probes)?,
            hits: device.alloc(probes.div_ceil(32))?,
            select: SelectScratch::new(device, probes)?,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.numbers.bytes() + self.ranks.bytes() + self.hits.bytes() + self.select.bytes()
    }
}

/// The matches of a join on the device. Elements past the matches are not changed.
#[derive(Debug)]
pub struct DeviceMatches {
    /// Out: `[1]` or more; the first element becomes the number of matches, which can be the
    /// [`Count`](lanetree_primitives::Count) of what comes next in the stream.
    pub count: Buffer<u64>,
    /// Out: for each match the number of its probe. They ascend; there is room for every probe.
    pub probes: Buffer<u64>,
    /// Out: for each match the number of its pair in the index, which is the number of keys below the pair's; as long.
    pub rows: Buffer<u64>,
}

impl DeviceMatches {
    /// Room for the matches of `probes` probes.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize) -> Result<Self> {
        Ok(Self { count: device.alloc(1)?, probes: device.alloc(probes)?, rows: device.alloc(probes)? })
    }
}

impl<I: FixedIndex> OnStream<'_, I> {
    /// Joins `probes` with the index: for each probe whose key is present, in the order of the probes, its number and that
    /// of its pair. A look-up, a ranking, and a selection, one after another on the stream.
    ///
    /// # Errors
    /// [`OutputLength`](lanetree_base::Error::OutputLength) for a buffer or scratch memory that is too small,
    /// [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge); [`Lost`](lanetree_base::Error::Lost);
    /// [`Runtime`](lanetree_base::Error::Runtime) for buffers of another device, and from the launch.
    pub fn join(&self, probes: &Buffer<I::Key>, scratch: &mut JoinScratch, out: &mut DeviceMatches) -> Result<()> {
        self.options.check("join", Uses::Nothing)?;
        let (count, stream) = (probes.len(), self.stream);
        self.check("the probes' buffer", count, probes)?;
        self.check("the count's buffer", 1, &out.count)?;
        self.check("the buffer of the probes' numbers", count, &out.probes)?;
        self.check("the buffer of the rows", count, &out.rows)?;
        self.check("the scratch memory", count, &scratch.ranks)?;
        self.index.check_tuning(self.tuning())?;
        if stream.device().kind() == DeviceKind::Host {
            return self.join_on_host(probes, out);
        }
        if count > 0 {
            let (queries, hits) = (bits::<I::Key>(stream, probes)?, scratch.hits.write_on(stream)?);
            let ranks = scratch.ranks.write_on(stream)?;
            // SAFETY: the buffers were checked to be long enough; the pointers are for this stream. Ranks are at least as
            // wide as values, which are not wanted: ranks take their place.
            unsafe {
                self.index.launch_get(
                    stream,
                    self.tuning(),
                    queries,
                    count,
                    ranks.cast(),
                    hits,
                    I::Value::default(),
                )?;
                self.index.launch_rank(stream, queries, count, ranks, Side::Lower)?;
            }
        }
        let pairs = Pairs { keys: &scratch.numbers, values: &scratch.ranks, count: count.into() };
        let output = PairsMut { keys: &mut out.probes, values: &mut out.rows, count: &mut out.count };
        select_pairs(stream, pairs, &scratch.hits, output, &mut scratch.select)
    }

    fn join_on_host(&self, probes: &Buffer<I::Key>, out: &mut DeviceMatches) -> Result<()> {
        let index = self.index.view().expect("a tree on the host is in main memory");
        let probes = probes.as_slice().expect("a buffer of the host");
        let mut matches = Matches::default();
        matches.fill(probes.len(), |rows| -> Result<()> {
            rows_of(index, probes, rows);
            Ok(())
        })?;
        let count = matches.len();
        out.count.as_mut_slice().expect("a buffer of the host")[0] = count as u64;
        out.probes.as_mut_slice().expect("a buffer of the host")[..count].copy_from_slice(&matches.probes);
        out.rows.as_mut_slice().expect("a buffer of the host")[..count].copy_from_slice(&matches.rows);
        Ok(())
    }
}

/// The number of each probe's pair, or [`Matches::NO_ROW`], on the host, in parallel.
pub(super) fn rows_of<K: AnyKey, V>(index: impl View<K, V>, probes: &[K], rows: &mut [u64]) {
    probes.par_chunks(TASK).zip(rows.par_chunks_mut(TASK)).for_each(|(probes, rows)| {
        index.get(probes, |i, value| rows[i] = if value.is_some() { 0 } else { Matches::NO_ROW });
        index.rank(probes, false, |i, rank| {
            if rows[i] != Matches::NO_ROW {
                rows[i] = rank;
            }
        });
    });
}
