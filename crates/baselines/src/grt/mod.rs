//! GRT, the adaptive radix tree in one untyped buffer on a device: what the CuART paper starts from and is
//! measured against. The layout is drawn in [`lanetree_kernels_baselines::layout::grt`].

mod map;
mod queries;
mod sorted;

pub use queries::{KeyBuffers, Queries};

use crate::art::Art;
use crate::device::{covering, same_device};
use core::fmt;
use core::marker::PhantomData;
use lanetree_kernels_baselines::grt::{Get, GetArgs, Range, RangeArgs, THREADS, Update, UpdateArgs};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Call, Device, Error, Result, Stream};
use lanetree_simt::{Global, GlobalMut, KeysRef, WARP, entry_by_words};

/// How a leaf's key is compared with a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// Byte by byte, as the CuART paper says of GRT (its section 4.4).
    #[default]
    Bytes,
    /// By words of 8 bytes, as CuART's comparison.
    Words,
}

/// A tree from byte strings, of any length and prefixes of each other, to words, in device memory. It needs a
/// GPU or the emulator; on [`Device::host`] a launch is [`Error::NoKernels`].
///
/// ```
/// use lanetree_baselines::art::Art;
/// use lanetree_baselines::grt::{Grt, KeyBuffers};
/// use lanetree_runtime::Device;
///
/// # fn main() -> lanetree_runtime::Result<()> {
/// let device = Device::emulated();
/// let stream = device.stream()?;
/// let art = Art::new([("car", 1), ("cargo", 2)]);
/// let mut grt = Grt::<u32>::new(&device, &art)?;
///
/// let keys = KeyBuffers::upload(&device, &["cargo", "car", "cargo"])?;
/// grt.update(&stream, keys.queries(), &device.upload(&[7, 8, 9])?, None)?;
/// let keys = KeyBuffers::upload(&device, &["car", "cargo", "carp"])?;
/// let mut values = device.alloc(3)?;
/// grt.get(&stream, keys.queries(), &mut values, None, 0)?;
/// assert_eq!(values.to_vec()?, [8, 9, 0]);
/// # Ok(())
/// # }
/// ```
pub struct Grt<V> {
    buffer: Buffer<u64>,
    len: usize,
    /// Updates of all batches, including updates of keys that are not in the tree.
    updates: u64,
    compare: Compare,
    values: PhantomData<V>,
}

impl<V: Word> Grt<V> {
    /// Maps a tree into a buffer on the device; values that are wider than `V` are cut off. Returns when it is
    /// there.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a key of 4 GiB and more; [`Error::OutOfMemory`].
    pub fn new(device: &Device, art: &Art) -> Result<Self> {
        Self::of_words(device, &map::map::<V>(art)?, art.len())
    }

    /// Builds the same tree as [`Grt::new`], directly from `len` ascending keys: by all threads, and with no memory
    /// besides the buffer's.
    ///
    /// # Errors
    /// As [`Grt::new`].
    ///
    /// # Panics
    /// If the keys do not ascend strictly.
    pub fn of_sorted<'k>(
        device: &Device,
        len: usize,
        key: impl Fn(usize) -> &'k [u8] + Sync,
        value: impl Fn(usize) -> u64 + Sync,
    ) -> Result<Self> {
        Self::of_words(device, &sorted::map::<V>(len, &key, &value)?, len)
    }

    fn of_words(device: &Device, words: &[u64], len: usize) -> Result<Self> {
        Ok(Self { buffer: device.upload(words)?, len, updates: 0, compare: Compare::default(), values: PhantomData })
    }

    /// The tree, whose look-ups and updates compare keys in another way from now on.
    #[must_use]
    pub fn comparing(self, compare: Compare) -> Self {
        Self { compare, ..self }
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> u64 {
        self.buffer.bytes() as u64
    }

    /// Looks up `queries`: `values[i]` becomes the value of key `i`, or `miss`; bit `i % 32` of `hits[i / 32]`
    /// says whether there is one. In the stream's order; may return before it is done.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] with fewer values than queries, or without a word of hit mask for every 32 of them;
    /// [`Error::WrongDevice`]; the errors of a launch.
    pub fn get(
        &self,
        stream: &Stream,
        queries: Queries<'_>,
        values: &mut Buffer<V>,
        hits: Option<&mut Buffer<u32>>,
        miss: V,
    ) -> Result<()> {
        at_least("the results of GRT", queries.len(), values.len())?;
        for device in [self.buffer.device(), values.device()] {
            same_device(stream, device)?;
        }
        let hits = self.checked(stream, &queries, hits)?;
        if queries.is_empty() {
            return Ok(());
        }
        let (keys, values) = (queries.keys(stream)?, values.write_on(stream)?);
        // SAFETY: queries are as `Queries` says, results are long enough; all pointers are for this stream.
        unsafe { self.get_raw(stream, keys, queries.len(), values, hits, miss) }
    }

    /// As [`Grt::get`], of `count` queries and into memory that someone else keeps.
    ///
    /// # Errors
    /// The errors of a launch.
    ///
    /// # Safety
    /// There are that many queries, as [`KeysRef`] says, that many values, and a word of hit mask for every 32 of them
    /// unless that is null; all of it is memory of the stream's device, which nothing else uses meanwhile but earlier
    /// work in the stream.
    pub unsafe fn get_raw(
        &self,
        stream: &Stream,
        queries: KeysRef,
        count: usize,
        values: GlobalMut<V>,
        hits: GlobalMut<u32>,
        miss: V,
    ) -> Result<()> {
        let args = GetArgs { tree: self.tree_on(stream)?, queries, count: count as u64, values, hits, miss };
        let shape = covering(stream, "grt", args.count, THREADS)?;
        let entry = match self.compare {
            Compare::Bytes => entry_by_words!(V => Get<V, false>),
            Compare::Words => entry_by_words!(V => Get<V, true>),
        };
        // SAFETY: the tree is valid by construction; the caller's promise for the rest.
        unsafe { stream.call(shape, Call::new(entry, &args)) }
    }

    /// Finds the pairs from `starts[i]` to `ends[i]`, both inclusive, at most `limit` of each range: `lens[i]` becomes
    /// their number, and their values go to `values` from `i * limit` on. In the stream's order; may return before it
    /// is done.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless there are as many ends as starts, a length for each, and room for all values;
    /// [`Error::WrongDevice`]; the errors of a launch.
    pub fn range(
        &self,
        stream: &Stream,
        starts: Queries<'_>,
        ends: Queries<'_>,
        limit: usize,
        values: &mut Buffer<V>,
        lens: &mut Buffer<u64>,
    ) -> Result<()> {
        let count = starts.len();
        if ends.len() != count {
            let action = "the last keys of GRT's ranges";
            return Err(Error::LengthMismatch { action, expected: count, actual: ends.len() });
        }
        at_least("the lengths of GRT's ranges", count, lens.len())?;
        at_least("the values of GRT's ranges", count.saturating_mul(limit), values.len())?;
        for device in [self.buffer.device(), starts.device(), ends.device(), values.device(), lens.device()] {
            same_device(stream, device)?;
        }
        if count == 0 {
            return Ok(());
        }
        let args = RangeArgs {
            tree: self.tree_on(stream)?,
            tree_bytes: if self.is_empty() { 0 } else { self.bytes() },
            starts: starts.keys(stream)?,
            ends: ends.keys(stream)?,
            count: count as u64,
            limit: limit as u64,
            values: values.write_on(stream)?,
            lens: lens.write_on(stream)?,
        };
        let shape = covering(stream, "grt", args.count, THREADS)?;
        // SAFETY: as in `get`; there is room for `limit` values of each range.
        unsafe { stream.call(shape, Call::new(entry_by_words!(V => Range<V>), &args)) }
    }

    /// The tree for kernels of a stream that read it.
    fn tree_on(&self, stream: &Stream) -> Result<Global<u8>> {
        Ok(if self.is_empty() { Global::null() } else { self.buffer.read_on(stream)?.cast() })
    }

    /// Sets the values of keys: the value of key `i`, if the key is in the tree, becomes `values[i]`; of equal keys in
    /// a batch, the last one's stays. Bit `i % 32` of `hits[i / 32]` says whether key `i` is in the tree. In the
    /// stream's order; may return before it is done.
    ///
    /// # Errors
    /// As [`Grt::get`].
    pub fn update(
        &mut self,
        stream: &Stream,
        queries: Queries<'_>,
        values: &Buffer<V>,
        hits: Option<&mut Buffer<u32>>,
    ) -> Result<()> {
        at_least("the new values for GRT", queries.len(), values.len())?;
        for device in [self.buffer.device(), values.device()] {
            same_device(stream, device)?;
        }
        let hits = self.checked(stream, &queries, hits)?;
        if queries.is_empty() {
            return Ok(());
        }
        let args = UpdateArgs {
            tree: if self.is_empty() { GlobalMut::null() } else { self.buffer.write_on(stream)?.cast() },
            queries: queries.keys(stream)?,
            count: queries.len() as u64,
            values: values.read_on(stream)?,
            hits,
            before: self.updates,
        };
        let shape = covering(stream, "grt", args.count, THREADS)?;
        self.updates += args.count;
        let entry = match self.compare {
            Compare::Bytes => entry_by_words!(V => Update<V, false>),
            Compare::Words => entry_by_words!(V => Update<V, true>),
        };
        // SAFETY: as in `get`; stamps are larger than all before.
        unsafe { stream.call(shape, Call::new(entry, &args)) }
    }

    /// The pointer to hit mask, null if they are not wanted; and queries and bits are of the stream's device.
    fn checked(
        &self,
        stream: &Stream,
        queries: &Queries<'_>,
        hits: Option<&mut Buffer<u32>>,
    ) -> Result<GlobalMut<u32>> {
        same_device(stream, queries.device())?;
        let Some(hits) = hits else { return Ok(GlobalMut::null()) };
        at_least("the hit mask of GRT", queries.len().div_ceil(WARP as usize), hits.len())?;
        same_device(stream, hits.device())?;
        hits.write_on(stream)
    }
}

impl<V: Word> fmt::Debug for Grt<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grt<{}>[{} keys on {}]", V::NAME, self.len, self.buffer.device())
    }
}

fn at_least(action: &'static str, expected: usize, actual: usize) -> Result<()> {
    if actual >= expected { Ok(()) } else { Err(Error::LengthMismatch { action, expected, actual }) }
}

#[cfg(test)]
mod tests;
