//! The hardware's ceilings: how fast the card copies, and how fast it gathers random chunks. A look-up
//! that must touch one random line of a table cannot be faster than a gather of that line.

use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, instance, kernel_args};

/// Gathers in flight of a thread group.
pub const IN_FLIGHT: u64 = 8;

/// Bytes that a lane loads at a time.
const LANE_BYTES: u32 = 16;

kernel_args! {
    /// Arguments of [`Gather`] and [`Fill`].
    pub struct GatherArgs {
        /// The table, `chunks` chunks of the kernel's size, in 8-byte words: word `i` holds `i`.
        pub table: GlobalMut<u64>,
        /// Chunks of the table: a power of two, so that a chunk's number is some bits of a hash.
        pub chunks: u64,
        /// Distinguishes runs, so that no run finds the chunks of another in the cache.
        pub seed: u64,
        /// Out: `[threads of the grid]`, the sum of the words that each thread has loaded, wrapping.
        pub out: GlobalMut<u64>,
    }
}

/// The chunk of a gather: a finaliser of 64-bit integers (the constants are SplitMix64's).
#[inline(always)]
pub fn chunk(seed: u64, gather: u64, chunks: u64) -> u64 {
    let mut x = gather.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) & (chunks - 1)
}

/// The sum that thread `thread` of [`Gather`] must return, for chunks of `bytes` bytes. Never 0 (if the table's words
/// do not add up to 2^64), so a zeroed output shows what was not written.
///
/// A sum, not an exclusive or: a lane's two words differ only in their lowest bit, so each pair would give 1, and the
/// eight of a thread 0, whichever chunks it had read.
pub fn expected(args: &GatherArgs, bytes: u32, thread: u64) -> u64 {
    let lanes = u64::from(bytes / LANE_BYTES);
    (0..IN_FLIGHT).fold(0_u64, |sum, i| {
        let chunk = chunk(args.seed, thread / lanes * IN_FLIGHT + i, args.chunks);
        let word = chunk * u64::from(bytes / 8) + thread % lanes * 2;
        sum.wrapping_add(word).wrapping_add(word + 1)
    })
}

/// Gathers random chunks of `BYTES` bytes, aligned: `BYTES / 16` lanes per chunk, [`IN_FLIGHT`] chunks
/// per group of lanes.
#[derive(Debug)]
pub struct Gather<const BYTES: u32>;

impl<const BYTES: u32> Kernel for Gather<BYTES> {
    type Args = GatherArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let lanes = u64::from(BYTES / LANE_BYTES);
        let thread = simt.global_index();
        let mut sum = 0_u64;
        for i in 0..IN_FLIGHT {
            let chunk = chunk(args.seed, thread / lanes * IN_FLIGHT + i, args.chunks);
            let word = chunk * u64::from(BYTES / 8) + thread % lanes * 2;
            // SAFETY: the chunk lies in the table, and every second word on a 16-byte boundary.
            let [a, b] = unsafe { simt.load_vector(args.table.as_const(), word, Hint::ReadOnly) };
            sum = sum.wrapping_add(a).wrapping_add(b);
        }
        // SAFETY: one word per thread.
        unsafe { simt.store(args.out, thread, sum, Hint::Streaming) };
    }
}

/// Fills the table: word `i` becomes `i`. One thread per word, `chunks` words.
#[derive(Debug)]
pub struct Fill;

impl Kernel for Fill {
    type Args = GatherArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let stride = u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
        let mut word = simt.global_index();
        while word < args.chunks {
            // SAFETY: `word` is a word of the table.
            unsafe { simt.store(args.table, word, word, Hint::Streaming) };
            word += stride;
        }
    }
}

kernel_args! {
    /// Arguments of [`CopyWords`].
    pub struct CopyArgs {
        /// `[words]`.
        pub from: Global<u64>,
        /// Out: `[words]`.
        pub to: GlobalMut<u64>,
        /// 8-byte words.
        pub words: u64,
    }
}

/// Accesses in flight of a thread of [`CopyWords`].
const COPY_IN_FLIGHT: u64 = 4;

/// Copies one word per thread and access; any grid.
#[derive(Debug)]
pub struct CopyWords;

impl Kernel for CopyWords {
    type Args = CopyArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let stride = u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
        let mut first = simt.global_index();
        while first < args.words {
            let words: [u64; COPY_IN_FLIGHT as usize] = core::array::from_fn(|i| {
                let word = first + i as u64 * stride;
                // SAFETY: the word lies in the buffer.
                if word < args.words { unsafe { simt.load(args.from, word, Hint::Streaming) } } else { 0 }
            });
            for (i, value) in words.into_iter().enumerate() {
                let word = first + i as u64 * stride;
                if word < args.words {
                    // SAFETY: the word lies in the buffer.
                    unsafe { simt.store(args.to, word, value, Hint::Streaming) };
                }
            }
            first += COPY_IN_FLIGHT * stride;
        }
    }
}

instance!(ceiling__gather_32, ceiling, Gather<32>);
instance!(ceiling__gather_64, ceiling, Gather<64>);
instance!(ceiling__gather_128, ceiling, Gather<128>);
instance!(ceiling__fill, ceiling, Fill);
instance!(ceiling__copy, ceiling, CopyWords);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gather_must_find_depends_on_its_chunks() {
        let args = |seed| GatherArgs { table: GlobalMut::null(), chunks: 1 << 20, seed, out: GlobalMut::null() };
        for bytes in [32, 64, 128] {
            let of = |seed, thread| expected(&args(seed), bytes, thread);
            assert!((0..1000).all(|thread| of(1, thread) != 0), "{bytes}: nothing written would pass");
            assert!((0..1000).all(|thread| of(1, thread) != of(1, thread + 1)), "{bytes}: of another thread");
            assert!((0..1000).all(|thread| of(1, thread) != of(2, thread)), "{bytes}: of another run");
        }
    }
}
