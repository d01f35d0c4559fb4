//! The card's ceilings: copying, and gathering random chunks of a table.

use super::{THREADS, covering, same_device, same_length};
use lanetree_kernels_baselines::ceiling::{self as kernels, CopyArgs, CopyWords, Fill, GatherArgs, IN_FLIGHT};
use lanetree_runtime::{Buffer, Call, Error, Result, Stream};
use lanetree_simt::{GlobalMut, LaunchShape};

/// Blocks of the kernels that go over their memory in strides: enough to fill any card several times.
const STRIDING_BLOCKS: u64 = 1 << 13;

/// The chunks that there are kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    /// 32 bytes: a sector.
    B32,
    /// 64 bytes: what DRAM is read in.
    B64,
    /// 128 bytes: a line of the caches.
    B128,
}

impl Chunk {
    /// All of them, the smallest first.
    pub const ALL: [Self; 3] = [Self::B32, Self::B64, Self::B128];

    /// Its bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }

    /// Threads that load one chunk together.
    const fn lanes(self) -> u64 {
        self.bytes() as u64 / 16
    }
}

/// One run of a gather: which chunks each of its threads reads follows from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathers {
    /// What is gathered.
    pub chunk: Chunk,
    /// Bytes of the table, from its start, that it is gathered from: a power of two, at least a chunk.
    pub footprint: u64,
    /// Chunks to gather: a multiple of 8.
    pub count: u64,
    /// Distinguishes runs: no run finds another's chunks in the cache.
    pub seed: u64,
}

impl Gathers {
    /// Threads that it takes, each with one word of output.
    pub fn threads(&self) -> usize {
        (self.count / IN_FLIGHT * self.chunk.lanes()) as usize
    }

    /// What a thread must have written: the sum of the words that it has read. Never 0.
    pub fn expected(&self, thread: usize) -> u64 {
        kernels::expected(&self.args(GlobalMut::null(), GlobalMut::null()), self.chunk.bytes(), thread as u64)
    }

    fn args(&self, table: GlobalMut<u64>, out: GlobalMut<u64>) -> GatherArgs {
        GatherArgs { table, chunks: self.footprint / u64::from(self.chunk.bytes()), seed: self.seed, out }
    }
}

/// A table of words, each of which holds its index.
#[derive(Debug)]
pub struct Table {
    words: Buffer<u64>,
}

impl Table {
    /// Allocates and fills `bytes` bytes, in the stream's order; may return before they are filled.
    ///
    /// # Errors
    /// If the device has no room; the errors of a launch.
    pub fn new(stream: &Stream, bytes: u64) -> Result<Self> {
        let mut words: Buffer<u64> = stream.device().alloc((bytes / 8) as usize)?;
        let count = words.len() as u64;
        let args = GatherArgs { table: words.write_on(stream)?, chunks: count, seed: 0, out: GlobalMut::null() };
        let shape = striding(stream, "ceiling__fill", count)?;
        // SAFETY: the table has these words, and its pointer is for this stream.
        unsafe { stream.launch::<Fill>(shape, &args)? };
        Ok(Self { words })
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.words.bytes() as u64
    }

    /// Gathers: `out[t]` becomes [`Gathers::expected`] of thread `t`. In the stream's order; may return
    /// before it is done.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] for a footprint beyond the table or of
    /// no power of two, a count that is no multiple of 8, and an output that has not exactly
    /// [`Gathers::threads`] words;
    /// [`Error::WrongDevice`]; the errors of a launch.
    pub fn gather(&mut self, stream: &Stream, gathers: &Gathers, out: &mut Buffer<u64>) -> Result<()> {
        let (footprint, chunk) = (gathers.footprint, u64::from(gathers.chunk.bytes()));
        if !footprint.is_power_of_two() || !(chunk..=self.bytes()).contains(&footprint) {
            let action = "gathering from a power of two of bytes, no more than the table has";
            return Err(Error::LengthMismatch { action, expected: self.words.bytes(), actual: footprint as usize });
        }
        let whole = gathers.count.next_multiple_of(IN_FLIGHT);
        same_length("gathering eight chunks a thread", whole as usize, gathers.count as usize)?;
        same_length("the results of a gather", gathers.threads(), out.len())?;
        same_device(stream, self.words.device())?;
        same_device(stream, out.device())?;
        let threads = gathers.threads() as u64;
        if threads == 0 {
            return Ok(());
        }
        // Every thread writes a word, so the blocks must divide the threads.
        let block = 1 << threads.trailing_zeros().min(THREADS.ilog2());
        let shape = covering(stream, "ceiling__gather", threads, block)?;
        let args = gathers.args(self.words.write_on(stream)?, out.write_on(stream)?);
        let call = match gathers.chunk {
            Chunk::B32 => Call::of::<kernels::Gather<32>>(&args),
            Chunk::B64 => Call::of::<kernels::Gather<64>>(&args),
            Chunk::B128 => Call::of::<kernels::Gather<128>>(&args),
        };
        // SAFETY: the chunks are a part of the table, and there is a word of output for each thread; both pointers are
        // for this stream.
        unsafe { stream.call(shape, call) }
    }

    /// Copies the table's first words into `to`, which decides how many. In the stream's order; may
    /// return before it is done.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if the table has fewer;
    /// [`Error::WrongDevice`]; the errors of a launch.
    pub fn copy(&self, stream: &Stream, to: &mut Buffer<u64>) -> Result<()> {
        same_length("copying from a table", to.len().min(self.words.len()), to.len())?;
        same_device(stream, self.words.device())?;
        same_device(stream, to.device())?;
        if to.is_empty() {
            return Ok(());
        }
        let words = to.len() as u64;
        let shape = striding(stream, "ceiling__copy", words)?;
        let args = CopyArgs { from: self.words.read_on(stream)?, to: to.write_on(stream)?, words };
        // SAFETY: both buffers have these words, and their pointers are for this stream.
        unsafe { stream.launch::<CopyWords>(shape, &args) }
    }
}

fn striding(stream: &Stream, kernel: &'static str, words: u64) -> Result<LaunchShape> {
    covering(stream, kernel, words.min(STRIDING_BLOCKS * u64::from(THREADS)), THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_runtime::Device;

    #[test]
    fn every_thread_finds_what_it_must() {
        let device = Device::emulated();
        let stream = device.stream().unwrap();
        let mut table = Table::new(&stream, 1 << 14).unwrap();
        for chunk in Chunk::ALL {
            for (count, footprint) in [(8, 1 << 14), (24, 1 << 7), (2048, 1 << 13)] {
                let gathers = Gathers { chunk, footprint, count, seed: 5 };
                let mut out = device.alloc(gathers.threads()).unwrap();
                table.gather(&stream, &gathers, &mut out).unwrap();
                stream.synchronize().unwrap();
                let expected: Vec<u64> = (0..gathers.threads()).map(|thread| gathers.expected(thread)).collect();
                assert_eq!(out.to_vec().unwrap(), expected, "{gathers:?}");
                assert!(!expected.contains(&0), "{gathers:?}: an output that began as zeros would prove nothing");
            }
        }
        let mut copy = device.alloc(1500).unwrap();
        table.copy(&stream, &mut copy).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(copy.to_vec().unwrap(), (0..1500).collect::<Vec<u64>>());
    }

    #[test]
    fn what_the_table_cannot_serve_is_refused() {
        let device = Device::emulated();
        let stream = device.stream().unwrap();
        let mut table = Table::new(&stream, 1 << 10).unwrap();
        let gathers = Gathers { chunk: Chunk::B64, footprint: 1 << 10, count: 8, seed: 0 };
        let cases = [
            (Gathers { footprint: 1 << 11, ..gathers }, 4),
            (Gathers { footprint: 1000, ..gathers }, 4),
            (Gathers { footprint: 16, ..gathers }, 4),
            (Gathers { footprint: 0, ..gathers }, 4),
            (Gathers { count: 7, ..gathers }, 4),
            (gathers, 3),
            (gathers, 5),
        ];
        for (gathers, words) in cases {
            let error = table.gather(&stream, &gathers, &mut device.alloc(words).unwrap()).unwrap_err();
            assert!(matches!(error, Error::LengthMismatch { .. }), "{gathers:?}: {error}");
        }
        let error = table.copy(&stream, &mut device.alloc(129).unwrap()).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 128, actual: 129, .. }), "{error}");
    }
}
