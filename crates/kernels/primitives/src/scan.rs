//! Exclusive prefix sums of 64-bit counts, in three launches: the sums of tiles, the prefix sums of
//! those, and the tiles again. It reads the counts twice and writes the sums once.

use lanetree_simt::{Access, FULL_MASK, Global, GlobalMut, Hint, Kernel, KernelArgs, Shared, Simt, WARP, instance};

/// Threads of a block, in every kernel of this module.
pub const THREADS: u32 = 256;

/// Counts of a tile: one block of [`TileSums`] and of [`Tiles`].
pub const TILE: u64 = 8 * THREADS as u64;

/// Arguments of the three kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ScanArgs {
    /// `[count]`.
    pub counts: Global<u64>,
    /// How many.
    pub count: u64,
    /// Scratch: `[ceil(count / TILE)]`.
    pub sums: GlobalMut<u64>,
    /// Out: `[count + 1]`, `offsets[i]` the sum of the counts before `i`; the last one, the total.
    pub offsets: GlobalMut<u64>,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl KernelArgs for ScanArgs {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        visit(self.counts.as_ptr().addr(), Access::Read);
        visit(self.sums.as_ptr().addr(), Access::ReadWrite);
        visit(self.offsets.as_ptr().addr(), Access::ReadWrite);
    }
}

const WARPS: u32 = THREADS / WARP;
/// The sum of each warp of the block.
const WARP_SUMS: Shared<u64> = Shared::at(0, WARPS);

/// Block collective. The sum of the values of all threads before the caller's, and of all threads.
///
/// # Safety
/// The block has [`THREADS`] threads.
#[inline(always)]
unsafe fn block_scan<S: Simt>(simt: S, value: u64) -> (u64, u64) {
    let lane = simt.lane();
    let mut inclusive = value;
    let mut delta = 1;
    while delta < WARP {
        let below = simt.shuffle_up(FULL_MASK, inclusive, delta);
        if lane >= delta {
            inclusive += below;
        }
        delta *= 2;
    }
    if lane == WARP - 1 {
        // SAFETY: one element per warp; the barrier below, or the one at the end of the last call,
        // separates it from the reads.
        unsafe { simt.shared_store(WARP_SUMS, simt.warp(), inclusive) };
    }
    simt.barrier();
    let (mut before, mut total) = (0, 0);
    for warp in 0..WARPS {
        // SAFETY: written by each warp's last lane before the barrier.
        let sum = unsafe { simt.shared_load(WARP_SUMS, warp) };
        if warp < simt.warp() {
            before += sum;
        }
        total += sum;
    }
    simt.barrier();
    (before + inclusive - value, total)
}

/// The sum of each tile. One block of [`THREADS`] per tile.
#[derive(Debug)]
pub struct TileSums;

impl Kernel for TileSums {
    type Args = ScanArgs;
    const STATIC_SHARED: u32 = WARP_SUMS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tile = u64::from(simt.block_index());
        let mut sum = 0;
        let mut index = tile * TILE + u64::from(simt.thread_index());
        let end = args.count.min((tile + 1) * TILE);
        while index < end {
            // SAFETY: `index` is a count.
            sum += unsafe { simt.load(args.counts, index, Hint::ReadOnly) };
            index += u64::from(THREADS);
        }
        // SAFETY: the launch has blocks of `THREADS`.
        let (_, total) = unsafe { block_scan(simt, sum) };
        if simt.thread_index() == 0 {
            // SAFETY: one sum per block.
            unsafe { simt.store(args.sums, tile, total, Hint::Default) };
        }
    }
}

/// Turns the sums of tiles into their exclusive prefix sums, in place, and writes the total. One block
/// of [`THREADS`].
#[derive(Debug)]
pub struct SumOffsets;

impl Kernel for SumOffsets {
    type Args = ScanArgs;
    const STATIC_SHARED: u32 = WARP_SUMS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tiles = args.count.div_ceil(TILE);
        let mut carry = 0;
        let mut first = 0;
        while first < tiles {
            let index = first + u64::from(simt.thread_index());
            let mut sum = 0;
            if index < tiles {
                // SAFETY: `index` is a tile.
                sum = unsafe { simt.load(args.sums.as_const(), index, Hint::Default) };
            }
            // SAFETY: the launch has one block of `THREADS`.
            let (before, total) = unsafe { block_scan(simt, sum) };
            if index < tiles {
                // SAFETY: as above; each thread has its own.
                unsafe { simt.store(args.sums, index, carry + before, Hint::Default) };
            }
            carry += total;
            first += u64::from(THREADS);
        }
        if simt.thread_index() == 0 {
            // SAFETY: the last of `count + 1` offsets.
            unsafe { simt.store(args.offsets, args.count, carry, Hint::Default) };
        }
    }
}

/// The prefix sums. One block of [`THREADS`] per tile.
#[derive(Debug)]
pub struct Tiles;

impl Kernel for Tiles {
    type Args = ScanArgs;
    const STATIC_SHARED: u32 = WARP_SUMS.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tile = u64::from(simt.block_index());
        // SAFETY: one sum per block.
        let mut carry = unsafe { simt.load(args.sums.as_const(), tile, Hint::Default) };
        let mut first = tile * TILE;
        let end = args.count.min((tile + 1) * TILE);
        while first < end {
            let index = first + u64::from(simt.thread_index());
            let mut value = 0;
            if index < end {
                // SAFETY: `index` is a count.
                value = unsafe { simt.load(args.counts, index, Hint::ReadOnly) };
            }
            // SAFETY: the launch has blocks of `THREADS`.
            let (before, total) = unsafe { block_scan(simt, value) };
            if index < end {
                // SAFETY: as above.
                unsafe { simt.store(args.offsets, index, carry + before, Hint::Default) };
            }
            carry += total;
            first += u64::from(THREADS);
        }
    }
}

instance!(primitives__scan_tile_sums, "primitives", TileSums);
instance!(primitives__scan_sum_offsets, "primitives", SumOffsets);
instance!(primitives__scan_tiles, "primitives", Tiles);
