//! GRT, the adaptive radix tree in one untyped buffer on a device: what the CuART paper starts from and is
//! measured against. The layout is drawn in [`lanetree_kernels_baselines::layout::grt`].

mod map;
mod queries;

pub use queries::{KeyBuffers, Queries};

use crate::art::Art;
use crate::device::{covering, same_device};
use core::fmt;
use core::marker::PhantomData;
use lanetree_kernels_baselines::grt::{Get, GetArgs, THREADS, Update, UpdateArgs};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Call, Device, Error, Result, Stream};
use lanetree_simt::{Global, GlobalMut, WARP, entry_by_words};

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
    /// Updates of all batches, those of keys that are not in the tree included.
    updates: u64,
    values: PhantomData<V>,
}

impl<V: Word> Grt<V> {
    /// Maps a tree into a buffer on the device; values that are wider than `V` are cut off. Returns when it is
    /// there.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a key of 4 GiB and more; [`Error::OutOfMemory`].
    pub fn new(device: &Device, art: &Art) -> Result<Self> {
        let buffer = device.upload(&map::map::<V>(art)?)?;
        Ok(Self { buffer, len: art.len(), updates: 0, values: PhantomData })
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
        let args = GetArgs {
            tree: if self.is_empty() { Global::null() } else { self.buffer.read_on(stream)?.cast() },
            queries: queries.keys(stream)?,
            count: queries.len() as u64,
            values: values.write_on(stream)?,
            hits,
            miss,
        };
        let shape = covering(stream, "grt", args.count, THREADS)?;
        let call = Call::new(entry_by_words!(V => Get<V>), &args);
        // SAFETY: the tree is valid by construction, queries are as `Queries` says, results are long enough; all
        // pointers are for this stream.
        unsafe { stream.call(shape, call) }
    }

    /// Sets the values of keys: that of key `i`, if it is in the tree, becomes `values[i]`; of equal keys in a
    /// batch, the last one's stays. Bit `i % 32` of `hits[i / 32]` says whether key `i` is in the tree. In the
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
        let call = Call::new(entry_by_words!(V => Update<V>), &args);
        // SAFETY: as in `get`; stamps are larger than all before.
        unsafe { stream.call(shape, call) }
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
