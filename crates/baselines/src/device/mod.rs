//! Baselines that run on a device: the kernels of `lanetree-kernels-baselines` with their memory. They
//! need a GPU or the emulator; on [`Device::host`](lanetree_runtime::Device::host) a launch is
//! [`Error::NoKernels`].

pub mod ceiling;
mod pointer_btree;

pub use pointer_btree::{Fanout, InFlight, PointerBTree};

use lanetree_kernels_baselines::binary_search::{self as kernels, BinarySearchArgs, IN_FLIGHT};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, Error, Result, Stream};
use lanetree_simt::LaunchShape;

/// Threads of a block.
const THREADS: u32 = 256;

/// Binary search over a sorted array in device memory, a thread per two queries.
#[derive(Debug)]
pub struct BinarySearch<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
}

impl<K: Word, V: Word> BinarySearch<K, V> {
    /// Uploads strictly ascending keys and their values; in any other order look-ups miss keys.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if there are more or fewer values than keys; [`Error::OutOfMemory`].
    pub fn new(device: &Device, keys: &[K], values: &[V]) -> Result<Self> {
        same_length("pairing keys and values for a binary search", keys.len(), values.len())?;
        Ok(Self { keys: device.upload(keys)?, values: device.upload(values)? })
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> u64 {
        (self.keys.bytes() + self.values.bytes()) as u64
    }

    /// Looks up `queries`: `out[i]` becomes the value of key `queries[i]`, or `miss`. In the stream's
    /// order; may return before it is done.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `out` is as long as `queries`; [`Error::WrongDevice`]; the errors
    /// of a launch.
    pub fn get(&self, stream: &Stream, queries: &Buffer<K>, out: &mut Buffer<V>, miss: V) -> Result<()> {
        same_length("the results of a binary search", queries.len(), out.len())?;
        for device in [self.keys.device(), queries.device(), out.device()] {
            same_device(stream, device)?;
        }
        if queries.is_empty() {
            return Ok(());
        }
        let args = BinarySearchArgs {
            keys: self.keys.read_on(stream)?,
            values: self.values.read_on(stream)?,
            len: self.keys.len() as u64,
            queries: queries.read_on(stream)?,
            count: queries.len() as u64,
            out: out.write_on(stream)?,
            miss,
        };
        let shape = covering(stream, "binary_search", queries.len().div_ceil(IN_FLIGHT) as u64, THREADS)?;
        // SAFETY: keys and values are of the same length, and so are queries and results; all pointers are for this
        // stream.
        unsafe { stream.call(shape, kernels::search(&args)) }
    }
}

/// The shape of a launch over that many threads, in blocks of `block`.
pub(crate) fn covering(stream: &Stream, kernel: &'static str, threads: u64, block: u32) -> Result<LaunchShape> {
    LaunchShape::covering(threads, block).ok_or_else(|| Error::Launch {
        kernel,
        shape: LaunchShape { blocks: u32::MAX, threads: block, dynamic_shared: 0 },
        reason: format!("{threads} threads are more than a grid has on {}", stream.device()),
    })
}

fn same_length(action: &'static str, expected: usize, actual: usize) -> Result<()> {
    if expected == actual { Ok(()) } else { Err(Error::LengthMismatch { action, expected, actual }) }
}

pub(crate) fn same_device(stream: &Stream, device: &Device) -> Result<()> {
    if stream.device() == device {
        return Ok(());
    }
    let (expected, actual) = (stream.device().to_string(), device.to_string());
    Err(Error::WrongDevice { action: "launching a baseline", expected, actual })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds_what_is_there<K: Word, V: Word>() {
        let device = Device::emulated();
        let stream = device.stream().unwrap();
        for len in [0_u64, 1, 2, 3, 100, 1000] {
            let keys: Vec<K> = (0..len).map(|i| K::truncate(i * 5 + 2)).collect();
            let values: Vec<V> = (0..len).map(V::truncate).collect();
            let search = BinarySearch::new(&device, &keys, &values).unwrap();
            // An odd number, so that a thread has one query only.
            let queries: Vec<K> = (0..777).map(|i| K::truncate(i * 7 % (len * 5 + 9))).collect();
            let expected: Vec<V> =
                queries.iter().map(|&query| keys.binary_search(&query).map_or(V::MAX, |rank| values[rank])).collect();
            let mut out = device.alloc(queries.len()).unwrap();
            search.get(&stream, &device.upload(&queries).unwrap(), &mut out, V::MAX).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(out.to_vec().unwrap(), expected, "{len} keys {}, values {}", K::NAME, V::NAME);
        }
    }

    #[test]
    fn binary_search_finds_what_is_there_over_all_words() {
        finds_what_is_there::<u32, u32>();
        finds_what_is_there::<u32, u64>();
        finds_what_is_there::<u64, u32>();
        finds_what_is_there::<u64, u64>();
    }

    #[test]
    fn bad_calls_are_errors() {
        let host = Device::host();
        let error = BinarySearch::new(&host, &[1_u32, 2], &[1_u32]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 2, actual: 1, .. }), "{error}");
        let search = BinarySearch::new(&host, &[1_u32], &[1_u32]).unwrap();
        let (queries, stream) = (host.upload(&[1_u32]).unwrap(), host.stream().unwrap());
        let error = search.get(&stream, &queries, &mut host.alloc(2).unwrap(), 0).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 1, actual: 2, .. }), "{error}");
        let error = search.get(&stream, &queries, &mut host.alloc(1).unwrap(), 0).unwrap_err();
        assert!(matches!(error, Error::NoKernels { .. }), "{error}");
        let elsewhere = Device::emulated();
        let error = search.get(&elsewhere.stream().unwrap(), &queries, &mut host.alloc(1).unwrap(), 0).unwrap_err();
        assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
    }
}
