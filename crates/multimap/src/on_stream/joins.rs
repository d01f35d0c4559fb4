//! Equi-joins in device form.

use super::{OnStream, Scratch, offsets_only, values_only};
use core::marker::PhantomData;
use lanetree_frame::fixed::{self, Uses};
use lanetree_frame::join_steps::{DeviceValidity, check_validity, put_misses, settle_hits};
use lanetree_frame::{Buffer, Device, JoinKind, Result};
use lanetree_kernels_multimap::layout::place;
use lanetree_layout::{AnyKey, Word};
use lanetree_primitives::Expanded;

/// Scratch memory of joins in device form: 17 bytes per probe, reusable for the next batch.
#[derive(Debug)]
pub struct JoinScratch<V> {
    lookups: Scratch,
    /// Of semi- and anti-joins.
    keys: fixed::JoinScratch,
    hits: Buffer<u32>,
    /// Whether the last join was a semi- or an anti-join.
    is_of_probes: bool,
    values: PhantomData<V>,
}

impl<V: Word> JoinScratch<V> {
    /// Enough for `probes` probes. Returns when it is complete.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize) -> Result<Self> {
        Ok(Self {
            lookups: Scratch::new(device, probes)?,
            keys: fixed::JoinScratch::new(device, probes)?,
            hits: device.alloc(probes.div_ceil(32))?,
            is_of_probes: false,
            values: PhantomData,
        })
    }

    /// The hit mask of the last join's probes: bit `i % 32` of element `i / 32` says whether probe `i` has a match; after an
    /// anti-join, whether it has none.
    pub fn hits(&self) -> &Buffer<u32> {
        if self.is_of_probes { self.keys.hits() } else { &self.hits }
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.lookups.bytes() + self.keys.bytes() + self.hits.bytes()
    }
}

/// The rows of a join on the device, as [`JoinRows`](lanetree_frame::JoinRows) on the host. Elements past them are not changed.
/// Probes' numbers have 4 bytes or 8 (`u32`, `u64`).
#[derive(Debug)]
pub struct DeviceJoin<V, N = u64> {
    /// Out: `[1]` or more; the first element becomes the number of rows, even if that exceeds the capacity. It can be the
    /// [`Count`](lanetree_primitives::Count) of what comes next in the stream if it does not.
    pub count: Buffer<u64>,
    /// Out: one more than there are probes: the rows of probe `i` are from `offsets[i]` to `offsets[i + 1]`. Semi- and anti-joins do
    /// not use it.
    pub offsets: Buffer<u64>,
    /// Out: for each row the number of its probe; they ascend. Its length is the capacity: rows beyond it are not written. Semi- and
    /// anti-joins need room for every probe.
    pub probes: Buffer<N>,
    /// Out: for each row the value, such as a row number; as long. Semi- and anti-joins do not use it.
    pub rows: Buffer<V>,
}

impl<V: Word> DeviceJoin<V> {
    /// Room for `probes` probes with `capacity` rows in all.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, probes: usize, capacity: usize) -> Result<Self> {
        Self::with_room(device, probes, capacity)
    }

    /// Room for semi- and anti-joins of `probes` probes.
    ///
    /// # Errors
    /// As [`DeviceJoin::new`].
    pub fn of_probes(device: &Device, probes: usize) -> Result<Self> {
        Self::with_room_of_probes(device, probes)
    }
}

impl<V: Word> DeviceJoin<V, u32> {
    /// As [`DeviceJoin::new`], for probes' numbers of 4 bytes: joins of up to 2^32 - 1 probes.
    ///
    /// # Errors
    /// As [`DeviceJoin::new`].
    pub fn narrow(device: &Device, probes: usize, capacity: usize) -> Result<Self> {
        Self::with_room(device, probes, capacity)
    }

    /// As [`DeviceJoin::of_probes`], for probes' numbers of 4 bytes.
    ///
    /// # Errors
    /// As [`DeviceJoin::new`].
    pub fn narrow_of_probes(device: &Device, probes: usize) -> Result<Self> {
        Self::with_room_of_probes(device, probes)
    }
}

impl<V: Word, N: Word> DeviceJoin<V, N> {
    fn with_room(device: &Device, probes: usize, capacity: usize) -> Result<Self> {
        Ok(Self {
            count: device.alloc(1)?,
            offsets: device.alloc(probes.saturating_add(1))?,
            probes: device.alloc(capacity)?,
            rows: device.alloc(capacity)?,
        })
    }

    fn with_room_of_probes(device: &Device, probes: usize) -> Result<Self> {
        let none = || device.alloc(0);
        Ok(Self { count: device.alloc(1)?, offsets: none()?, probes: device.alloc(probes)?, rows: device.alloc(0)? })
    }
}

impl<K: AnyKey, V: Word> OnStream<'_, K, V> {
    /// Joins `probes` with the map: a row for each value of each probe's key, in the order of the probes, and of a key in the order in
    /// which its values were inserted. Uses [`kind`](Self::kind), of which [`JoinKind`] says what other rows there are,
    /// [`valid`](Self::valid), and [`miss`](Self::miss): the row of a probe without a match in a left join. [`JoinScratch::hits`] says
    /// which probes have one. Up to four steps, one after another on the stream. With room for no rows it counts them.
    ///
    /// ```
    /// use lanetree::multimap::{DeviceJoin, JoinScratch};
    /// use lanetree::{Device, JoinKind, MultiMap};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let orders = MultiMap::build(&device, &[7_u32, 5, 7], &[0_u32, 1, 2])?;
    /// let (stream, customers) = (device.stream()?, device.upload(&[7_u32, 6, 5])?);
    /// let (mut scratch, mut out) = (JoinScratch::new(&device, 3)?, DeviceJoin::new(&device, 3, 4)?);
    /// orders.on(&stream).kind(JoinKind::Left).join(&customers, &mut scratch, &mut out)?;
    /// assert_eq!((out.count.to_vec()?, out.offsets.to_vec()?), (vec![4], vec![0, 2, 3, 4]));
    /// assert_eq!((out.probes.to_vec()?, out.rows.to_vec()?), (vec![0, 0, 1, 2], vec![0, 2, u32::MAX, 1]));
    /// assert_eq!(scratch.hits().to_vec()?, [0b101]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`OnStream::get_all`]; [`BatchTooLarge`](lanetree_frame::Error::BatchTooLarge) also for more probes than numbers have.
    pub fn join<N: AnyKey<Bits = N> + Word>(
        &self,
        probes: &Buffer<K>,
        scratch: &mut JoinScratch<V>,
        out: &mut DeviceJoin<V, N>,
    ) -> Result<()> {
        self.options.check("join", Uses::JoinOfValues)?;
        self.check("the count's buffer", 1, &out.count)?;
        self.check("the buffer of the probes' numbers", 0, &out.probes)?;
        if !self.options.kind.has_rows() {
            scratch.is_of_probes = true;
            let keys = self.keys().kind(self.options.kind);
            let keys = match self.options.valid {
                Some(DeviceValidity { bitmap: valid, offset }) => keys.valid(valid, offset),
                None => keys,
            };
            return keys.join_probes(probes, &mut scratch.keys, &mut out.count, &mut out.probes);
        }
        let DeviceJoin { count, offsets, probes: numbers, rows } = out;
        self.check("the buffer of the rows", numbers.len(), rows)?;
        self.check("the offsets' buffer", probes.len().saturating_add(1), offsets)?;
        self.find_join(probes, scratch)?;
        let out = Expanded { offsets: Some(offsets), count: Some(count), values: Some(rows), numbers: Some(numbers) };
        self.copy_places(probes.len(), &mut scratch.lookups, out)
    }

    /// Finds the value span of each probe.
    fn find_join(&self, probes: &Buffer<K>, scratch: &mut JoinScratch<V>) -> Result<()> {
        let (count, stream) = (probes.len(), self.stream);
        self.check("the scratch memory", count, &scratch.lookups.places)?;
        check_validity(stream, self.options.valid, count)?;
        scratch.is_of_probes = false;
        let (hits, places) = (&mut scratch.hits, &mut scratch.lookups.places);
        // One row past all values.
        let is_left = self.options.kind == JoinKind::Left;
        let miss = if is_left { place(self.contents.positions(), 1) } else { 0 };
        self.keys().hits(&mut *hits).miss(miss).get(probes, places)?;
        if self.options.valid.is_some() {
            settle_hits(stream, self.options.valid, count, false, hits)?;
            put_misses(stream, hits, count, None, places, miss)?;
        }
        Ok(())
    }

    /// Finds where the rows of each probe are, and their offsets.
    pub(crate) fn locate_join(
        &self,
        probes: &Buffer<K>,
        scratch: &mut JoinScratch<V>,
        offsets: &mut Buffer<u64>,
    ) -> Result<()> {
        self.find_join(probes, scratch)?;
        self.copy_places(probes.len(), &mut scratch.lookups, offsets_only(offsets))
    }

    /// Copies the rows of probes that were located.
    pub(crate) fn copy_join(&self, count: usize, scratch: &mut JoinScratch<V>, rows: &mut Buffer<V>) -> Result<()> {
        self.copy_places(count, &mut scratch.lookups, values_only(rows))
    }
}
