//! The vocabulary of Lanetree's kernels.
//!
//! A kernel is a plain Rust function, generic over [`Simt`]: the one trait that names what a GPU thread can do beyond
//! arithmetic. It has three implementations:
//!
//! * `nvptx`, one PTX instruction each, for rustc's `nvptx64-nvidia-cuda` target;
//! * the same name, built on rust-cuda's `cuda_std`, with the feature `cuda_std`;
//! * [`emulator`], any CPU, with the feature `emulator`: slow, and it checks what a GPU does not.
//!
//! Grids and blocks are one-dimensional.
#![cfg_attr(
    target_os = "cuda",
    expect(internal_features, reason = "NVVM intrinsics by name: LLVM knows that these are convergent")
)]
#![cfg_attr(any(target_os = "cuda", not(feature = "emulator")), no_std)]
#![cfg_attr(
    all(target_os = "cuda", not(feature = "cuda_std")),
    feature(asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx)
)]
#![cfg_attr(all(target_os = "cuda", feature = "cuda_std"), feature(asm_experimental_arch, link_llvm_intrinsics))]

mod aggregate;
mod bits;
#[cfg(all(feature = "emulator", not(target_os = "cuda")))]
pub mod emulator;
mod kernel;
mod keys;
mod memory;
mod near;
#[cfg(target_os = "cuda")]
pub mod nvptx;
mod queries;
#[cfg(not(target_os = "cuda"))]
mod report;
mod rows;
mod unroll;

pub use aggregate::{AggregateBatch, AggregatePart, Fold, combine_all};
pub use bits::{highest_one, lowest_one, shl_clamped};
#[cfg(not(target_os = "cuda"))]
pub use kernel::{Call, Entry, Instance, Module};
pub use kernel::{Kernel, LaunchBounds, LaunchShape};
pub use keys::{KeyRef, KeysRef, first_bytes, first_equal};
pub use lanetree_layout::{Access, KernelArgs, KeyWord, Word, kernel_args};
pub use memory::{Global, GlobalMut, Hint, Order, Scope, Shared};
pub use near::{Near, NearArrays, Verdict};
pub use queries::{AllPairs, GatherBatch, GetBatch, LocateBatch, NeighborBatch, QueryArgs, RankBatch, ScanBatch};
#[cfg(not(target_os = "cuda"))]
pub use report::LaunchReport;
pub use rows::{GatherRows, RowPart, WarpRows, last_where};
pub use unroll::unroll;

/// Lanes of a warp.
pub const WARP: u32 = 32;

/// The mask of all 32 lanes of a warp.
pub const FULL_MASK: u32 = u32::MAX;

/// What one GPU thread can do: the only way in which a kernel touches memory or other threads.
///
/// A value of this type *is* the calling thread. Every method says who calls it, which lanes take
/// part and where the result is:
///
/// * *Per thread* methods may be called by any thread at any time.
/// * *Warp collectives* take a `mask` of lanes. Every lane named in `mask` must call the same
///   collective with the same `mask`; the caller must be in it; the call returns once all have
///   arrived. It also orders memory accesses among these lanes, as `__syncwarp` does.
/// * *Block collectives* must be reached by every thread of the block.
///
/// The emulator reports a violation as a [fault](emulator::Fault); on hardware it is undefined.
pub trait Simt: Copy {
    // ---- Indexes: per thread ---------------------------------------------------------------

    /// The thread's index in its block, in `0..block_dim`.
    fn thread_index(self) -> u32;
    /// Threads of a block.
    fn block_dim(self) -> u32;
    /// The block's index in the grid, in `0..grid_dim`.
    fn block_index(self) -> u32;
    /// Blocks of the grid.
    fn grid_dim(self) -> u32;

    /// The thread's lane in its warp, in `0..32`.
    #[inline(always)]
    fn lane(self) -> u32 {
        self.thread_index() % WARP
    }
    /// The warp's index in its block.
    #[inline(always)]
    fn warp(self) -> u32 {
        self.thread_index() / WARP
    }
    /// The thread's index in the grid.
    #[inline(always)]
    fn global_index(self) -> u64 {
        u64::from(self.block_index()) * u64::from(self.block_dim()) + u64::from(self.thread_index())
    }
    /// The mask of the lanes below the caller's.
    #[inline(always)]
    fn lanes_below(self) -> u32 {
        (1 << self.lane()) - 1
    }

    // ---- Warp collectives ------------------------------------------------------------------

    /// Warp collective. Bit *l* of the result, the same in all lanes of `mask`, is lane *l*'s
    /// `predicate`; bits of lanes outside `mask` are 0.
    fn ballot(self, mask: u32, predicate: bool) -> u32;

    /// Warp collective. Whether some lane of `mask` has a true `predicate`; the same in all lanes.
    #[inline(always)]
    fn any(self, mask: u32, predicate: bool) -> bool {
        self.ballot(mask, predicate) != 0
    }
    /// Warp collective. Whether every lane of `mask` has a true `predicate`; the same in all lanes.
    #[inline(always)]
    fn all(self, mask: u32, predicate: bool) -> bool {
        self.ballot(mask, predicate) == mask
    }

    /// Warp collective. Each lane gets the `value` of lane `source` (0..32), which must be in `mask`.
    fn shuffle<T: KeyWord>(self, mask: u32, value: T, source: u32) -> T;
    /// Warp collective. Each lane gets the `value` of lane `own ^ lanes`, which must be in `mask`.
    fn shuffle_xor<T: KeyWord>(self, mask: u32, value: T, lanes: u32) -> T;
    /// Warp collective. Each lane gets the `value` of lane `own - delta` (`delta` below 32), or its own if there is
    /// none; that lane must be in `mask`.
    fn shuffle_up<T: KeyWord>(self, mask: u32, value: T, delta: u32) -> T;
    /// Warp collective. Each lane gets the `value` of lane `own + delta` (`delta` below 32), or its own if there is
    /// none; that lane must be in `mask`.
    fn shuffle_down<T: KeyWord>(self, mask: u32, value: T, delta: u32) -> T;

    /// Warp collective. Each lane gets the mask of those lanes of `mask` whose `value` equals its own.
    fn match_any<T: Word>(self, mask: u32, value: T) -> u32;

    /// Warp collective. Each lane gets the mask of those lanes of `mask` whose `value` equals its own in
    /// the `bits` low bits, 1 to 32. On hardware this takes one vote per bit. For few bits that is less than
    /// [`Simt::match_any`], which takes one step per distinct value.
    #[inline(always)]
    fn match_low_bits(self, mask: u32, value: u32, bits: u32) -> u32 {
        self.match_any(mask, value & u32::MAX >> (32 - bits))
    }

    /// Warp collective. The sum of the `value`s of all lanes of `mask`, wrapping; in all of them.
    fn reduce_add(self, mask: u32, value: u32) -> u32;
    /// Warp collective. The largest `value` of the lanes of `mask`; in all of them.
    fn reduce_max(self, mask: u32, value: u32) -> u32;
    /// Warp collective. The smallest `value` of the lanes of `mask`; in all of them.
    fn reduce_min(self, mask: u32, value: u32) -> u32;

    /// Warp collective. Returns when all lanes of `mask` have called it, and orders their accesses
    /// to memory.
    fn sync_warp(self, mask: u32);

    // ---- Block collective ------------------------------------------------------------------

    /// Block collective. Returns when every thread of the block has called it, and orders their
    /// accesses to shared and global memory.
    fn barrier(self);

    // ---- Shared memory: per thread -----------------------------------------------------------

    /// Per thread. Reads element `index` of a shared array.
    ///
    /// # Safety
    /// `index < array.len()`, the array lies inside the block's shared memory, some thread has
    /// written the element, and no other thread writes it without a barrier or collective between.
    unsafe fn shared_load<T: KeyWord>(self, array: Shared<T>, index: u32) -> T;

    /// Per thread. Writes element `index` of a shared array.
    ///
    /// # Safety
    /// As [`Simt::shared_load`]; no other thread reads or writes the element without a barrier or
    /// collective between.
    unsafe fn shared_store<T: KeyWord>(self, array: Shared<T>, index: u32, value: T);

    /// Per thread. Adds to element `index` of a shared array, atomically in the block, relaxed;
    /// returns what was there before.
    ///
    /// # Safety
    /// As [`Simt::shared_load`], but other threads may access the element atomically meanwhile.
    unsafe fn shared_atomic_add(self, array: Shared<u32>, index: u32, value: u32) -> u32;

    // ---- Global memory: per thread -----------------------------------------------------------

    /// Per thread. Reads element `index`: 4, 8 or 16 bytes. 16 bytes are one access, but not a single one to other
    /// threads: each half of 8 bytes is.
    ///
    /// # Safety
    /// The element lies inside the buffer; with [`Hint::ReadOnly`] or [`Hint::EvictFirst`] nobody writes it while the
    /// kernel runs; with the other hints nobody writes it without synchronisation.
    unsafe fn load<T: KeyWord>(self, from: Global<T>, index: u64, hint: Hint) -> T;

    /// Per thread. Reads the 16 bytes from element `index` on, which must be a multiple of
    /// [`KeyWord::PER_VECTOR`] elements from a 16-byte boundary: one access.
    ///
    /// # Safety
    /// As [`Simt::load`], for every element of the vector; the address is a multiple of 16.
    unsafe fn load_vector<T: KeyWord>(self, from: Global<T>, index: u64, hint: Hint) -> T::Vector;

    /// Per thread. Writes element `index`. With [`Hint::Streaming`] the line is marked to leave the
    /// caches first; the other hints write as usual.
    ///
    /// # Safety
    /// The element lies inside the buffer, and no other thread accesses it without synchronisation.
    unsafe fn store<T: KeyWord>(self, to: GlobalMut<T>, index: u64, value: T, hint: Hint);

    /// Per thread. Writes 16 bytes from element `index` on, which must be a multiple of
    /// [`KeyWord::PER_VECTOR`] elements from a 16-byte boundary: one access. Hints as [`Simt::store`].
    ///
    /// # Safety
    /// As [`Simt::store`], for every element of the vector; the address is a multiple of 16.
    unsafe fn store_vector<T: KeyWord>(self, to: GlobalMut<T>, index: u64, value: T::Vector, hint: Hint);

    /// Per thread. Prefetches the line of element `index` into L2; returns at once. An address outside every buffer is
    /// ignored.
    fn prefetch<T: KeyWord>(self, from: Global<T>, index: u64);

    // ---- Atomics on global memory: per thread --------------------------------------------------

    /// Per thread. Atomic load. `order` is [`Order::Relaxed`] or [`Order::Acquire`].
    ///
    /// # Safety
    /// The element lies inside the buffer and is only accessed atomically meanwhile, in this width.
    unsafe fn atomic_load<T: Word>(self, from: GlobalMut<T>, index: u64, order: Order, scope: Scope) -> T;
    /// Per thread. Atomic store. `order` is [`Order::Relaxed`] or [`Order::Release`].
    ///
    /// # Safety
    /// As [`Simt::atomic_load`].
    unsafe fn atomic_store<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope);
    /// Per thread. Atomic addition, wrapping; returns the former value.
    ///
    /// # Safety
    /// As [`Simt::atomic_load`].
    unsafe fn atomic_add<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T;
    /// Per thread. Atomic maximum; returns the former value.
    ///
    /// # Safety
    /// As [`Simt::atomic_load`].
    unsafe fn atomic_max<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T;
    /// Per thread. Atomic minimum; returns the former value.
    ///
    /// # Safety
    /// As [`Simt::atomic_load`].
    unsafe fn atomic_min<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T;
    /// Per thread. Atomic bitwise or; returns the former value.
    ///
    /// # Safety
    /// As [`Simt::atomic_load`].
    unsafe fn atomic_or<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T;
    /// Per thread. Atomic exchange; returns the former value.
    ///
    /// # Safety
    /// As [`Simt::atomic_load`].
    unsafe fn atomic_exchange<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T;
    /// Per thread. Writes `new` where the element equals `expected`; returns the former value, which
    /// equals `expected` exactly if the write took place.
    ///
    /// # Safety
    /// As [`Simt::atomic_load`].
    unsafe fn atomic_compare_exchange<T: Word>(
        self,
        to: GlobalMut<T>,
        index: u64,
        expected: T,
        new: T,
        order: Order,
        scope: Scope,
    ) -> T;

    /// Per thread. Orders the thread's accesses before the fence before those after it, as seen by the threads of
    /// `scope`.
    fn fence(self, scope: Scope);

    /// Per thread. Returns the value, but the compiler no longer knows anything about it.
    ///
    /// Pass a value through `opaque` if only some lanes of a warp take a branch that makes it a constant, and code
    /// after a collective branches on it again. Otherwise rustc's jump threading may copy the code between the two
    /// branches, including the collective: unlike LLVM, rustc does not know that all lanes must reach a collective in
    /// one place. The lanes then hang.
    fn opaque<T: KeyWord>(self, value: T) -> T;

    /// Per thread. To be called in every loop that waits for another thread: lets the others run.
    fn spin_hint(self);
}
