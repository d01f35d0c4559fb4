//! Joins of probes with an index, by key: which probes match, and with which pair.

use super::{FixedIndex, OnStream, Steps, Uses};
use bytemuck::Pod;
use lanetree_base::join_steps::{check_validity, put_misses, settle_hits};
use lanetree_base::{JoinKind, Matches, Result};
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives as primitives;
use lanetree_primitives::{KeysMut, PairsMut, SelectScratch};
use lanetree_runtime::{Buffer, Device};

/// Scratch memory of joins on a device, reusable for the next one of up to as many probes: 9 bytes for each. (A multi-map has a
/// type of its own of this name, `multimap::JoinScratch`.)
#[derive(Debug)]
pub struct JoinScratch {
    ranks: Buffer<u64>,
    hits: Buffer<u32>,
    select: SelectScratch,
}

impl JoinScratch {
    /// Enough for `probes` probes, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize) -> Result<Self> {
        Ok(Self {
            ranks: device.alloc(probes)?,
            hits: device.alloc(probes.div_ceil(32))?,
            select: SelectScratch::new(device, probes)?,
        })
    }

    /// The hit mask of the last join's probes: bit `i % 32` of element `i / 32` says whether probe `i` has a match; after an
    /// anti-join, whether it has none.
    pub fn hits(&self) -> &Buffer<u32> {
        &self.hits
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.ranks.bytes() + self.hits.bytes() + self.select.bytes()
    }
}

/// The rows of a join on the device. Elements past them are not changed. Probes' numbers have 4 bytes or 8 (`u32`, `u64`).
#[derive(Debug)]
pub struct DeviceMatches<N = u64> {
    /// Out: `[1]` or more; the first element becomes the number of rows, which can be the
    /// [`Count`](lanetree_primitives::Count) of what comes next in the stream.
    pub count: Buffer<u64>,
    /// Out: for each row the number of its probe. They ascend; there is room for every probe.
    pub probes: Buffer<N>,
    /// Out: for each row the number of its pair in the index, which is the number of keys below the pair's, or
    /// [`Matches::NO_ROW`]; as long. Semi- and anti-joins do not use it.
    pub rows: Buffer<u64>,
}

impl DeviceMatches {
    /// Room for the matches of `probes` probes: 16 bytes per probe, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize) -> Result<Self> {
        Self::with_room(device, probes, probes)
    }

    /// Room for the rows of semi- and anti-joins of `probes` probes, which have no rows of the index's side: 8 bytes
    /// per probe.
    ///
    /// # Errors
    /// As [`DeviceMatches::new`].
    pub fn of_probes(device: &Device, probes: usize) -> Result<Self> {
        Self::with_room(device, probes, 0)
    }
}

impl DeviceMatches<u32> {
    /// As [`DeviceMatches::new`], for probes' numbers of 4 bytes: joins of up to 2^32 - 1 probes.
    ///
    /// # Errors
    /// As [`DeviceMatches::new`].
    pub fn narrow(device: &Device, probes: usize) -> Result<Self> {
        Self::with_room(device, probes, probes)
    }

    /// As [`DeviceMatches::of_probes`], for probes' numbers of 4 bytes.
    ///
    /// # Errors
    /// As [`DeviceMatches::new`].
    pub fn narrow_of_probes(device: &Device, probes: usize) -> Result<Self> {
        Self::with_room(device, probes, 0)
    }
}

impl<N: Pod> DeviceMatches<N> {
    fn with_room(device: &Device, probes: usize, rows: usize) -> Result<Self> {
        Ok(Self { count: device.alloc(1)?, probes: device.alloc(probes)?, rows: device.alloc(rows)? })
    }
}

impl<I: FixedIndex> OnStream<'_, I> {
    /// Joins `probes` with the index: for each probe whose key is present, in the order of the probes, its number and that
    /// of its pair. A look-up, a ranking, and a selection, one after another on the stream. Uses [`kind`](Self::kind), of
    /// which [`JoinKind`] says what rows there are, and [`valid`](Self::valid). In a left join, the row of a probe without a match is
    /// [`Matches::NO_ROW`], and [`JoinScratch::hits`] says which these are.
    ///
    /// ```
    /// use lanetree::{Device, DeviceMatches, JoinKind, JoinScratch, LaneTree};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let index = LaneTree::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;
    /// let (stream, probes) = (device.stream()?, device.upload(&[30_u64, 15, 10])?);
    /// let mut scratch = JoinScratch::new(&device, 3)?;
    /// let mut out = DeviceMatches::new(&device, 3)?;
    /// index.on(&stream).kind(JoinKind::Left).join(&probes, &mut scratch, &mut out)?;
    /// assert_eq!((out.probes.to_vec()?, out.rows.to_vec()?), (vec![0, 1, 2], vec![2, u64::MAX, 0]));
    /// assert_eq!((out.count.to_vec()?, scratch.hits().to_vec()?), (vec![3], vec![0b101]));
    /// // The first probe is null.
    /// let valid = device.upload(&[0b110])?;
    /// index.on(&stream).kind(JoinKind::Anti).valid(&valid, 0).join(&probes, &mut scratch, &mut out)?;
    /// assert_eq!((out.count.to_vec()?, out.probes.to_vec()?[..2].to_vec()), (vec![2], vec![0, 1]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OutputLength`](lanetree_base::Error::OutputLength) for a buffer or scratch memory that is too small,
    /// [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge), also for more probes than numbers have; [`UnusedOption`](lanetree_base::Error::UnusedOption);
    /// [`Lost`](lanetree_base::Error::Lost); [`Runtime`](lanetree_base::Error::Runtime) for buffers of another device, and from the
    /// launch.
    pub fn join<N: AnyKey<Bits = N> + Word>(
        &self,
        probes: &Buffer<I::Key>,
        scratch: &mut JoinScratch,
        out: &mut DeviceMatches<N>,
    ) -> Result<()> {
        join(self, probes, scratch, out)
    }

    /// The rows of a semi- or an anti-join: the numbers of probes.
    #[doc(hidden)]
    pub fn join_probes<N: AnyKey<Bits = N> + Word>(
        &self,
        probes: &Buffer<I::Key>,
        scratch: &mut JoinScratch,
        count: &mut Buffer<u64>,
        out: &mut Buffer<N>,
    ) -> Result<()> {
        join_probes(self, probes, scratch, count, out)
    }
}

/// [`OnStream::join`].
#[doc(hidden)]
pub fn join<S: Steps, N: AnyKey<Bits = N> + Word>(
    on: &S,
    probes: &Buffer<S::Key>,
    scratch: &mut JoinScratch,
    out: &mut DeviceMatches<N>,
) -> Result<()> {
    let kind = on.options().kind;
    if !kind.has_rows() {
        return join_probes(on, probes, scratch, &mut out.count, &mut out.probes);
    }
    let count = probes.len();
    on.check("the buffer of the rows", count, &out.rows)?;
    find_probes(on, probes, scratch, &out.count, &out.probes)?;
    let (stream, JoinScratch { ranks, hits, select }) = (on.stream(), scratch);
    if kind == JoinKind::Inner {
        let output = PairsMut { keys: &mut out.probes, values: &mut out.rows, count: &mut out.count };
        return primitives::select_numbered(stream, (ranks, count.into()), hits, output, select);
    }
    let output = KeysMut { keys: &mut out.probes, count: &mut out.count };
    primitives::select_numbers(stream, count.into(), None, output, select)?;
    out.rows.copy_from_buffer(stream, 0, ranks, 0..count)?;
    put_misses(stream, hits, count, None, &mut out.rows, Matches::NO_ROW)
}

fn join_probes<S: Steps, N: AnyKey<Bits = N> + Word>(
    on: &S,
    probes: &Buffer<S::Key>,
    scratch: &mut JoinScratch,
    count: &mut Buffer<u64>,
    out: &mut Buffer<N>,
) -> Result<()> {
    find_probes(on, probes, scratch, count, out)?;
    let (output, hits) = (KeysMut { keys: out, count }, Some(&scratch.hits));
    primitives::select_numbers(on.stream(), probes.len().into(), hits, output, &mut scratch.select)
}

/// Checks what all joins are made of, and finds which probes are present, and the number of each one's pair unless no rows are
/// wanted.
fn find_probes<S: Steps, N: Pod>(
    on: &S,
    probes: &Buffer<S::Key>,
    scratch: &mut JoinScratch,
    rows: &Buffer<u64>,
    numbers: &Buffer<N>,
) -> Result<()> {
    on.options().check("join", Uses::Join)?;
    let (count, stream, kind, valid) = (probes.len(), on.stream(), on.options().kind, on.options().valid);
    on.check("the probes' buffer", count, probes)?;
    on.check("the count's buffer", 1, rows)?;
    on.check("the buffer of the probes' numbers", count, numbers)?;
    on.check("the scratch memory", count, &scratch.ranks)?;
    check_validity(stream, valid, count)?;
    on.find_first(count, probes, &mut scratch.hits, &mut scratch.ranks, kind.has_rows())?;
    settle_hits(stream, valid, count, kind == JoinKind::Anti, &mut scratch.hits)
}
