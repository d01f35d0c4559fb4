//! The hardware: each method is one PTX instruction, or two for a 64-bit shuffle.
//!
//! Memory accesses, atomics and fences are inline assembly ([`memory`], [`atomic`]), the same for both
//! compilers: only so are cache hints, scopes and orders said exactly. Collectives are LLVM's intrinsics
//! ([`collectives`], and the barrier in [`intrinsics`]): LLVM knows these to be convergent, which it does not
//! know of assembly.

mod atomic;
mod collectives;
#[cfg_attr(feature = "cuda_std", path = "intrinsics_cuda_std.rs")]
mod intrinsics;
mod memory;

use crate::{Global, GlobalMut, Hint, KeyWord, Order, Scope, Shared, Simt, Word};
use core::marker::PhantomData;

#[cfg(not(feature = "cuda_std"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the kernel.
    unsafe { core::arch::nvptx::trap() }
}

/// The calling thread of a GPU.
#[derive(Clone, Copy, Debug)]
pub struct Nvptx(PhantomData<*const ()>);

impl Nvptx {
    /// The calling thread. For the entry points that [`instance!`](crate::instance) writes.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "a thread is not a value that one makes up")]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// Leaves a kernel's launch bounds in the PTX as a comment, which `cargo xtask ptx` turns into the
/// directives of the entry: rustc has no attribute for them. For the entry points that
/// [`instance!`](crate::instance) writes.
#[inline(always)]
pub fn launch_bounds<K: crate::Kernel>() {
    if K::LAUNCH_BOUNDS.is_some() {
        // SAFETY: a comment.
        unsafe {
            core::arch::asm!(
                "// launch_bounds {0} {1}",
                const match K::LAUNCH_BOUNDS { Some(bounds) => bounds.threads, None => 0 },
                const match K::LAUNCH_BOUNDS { Some(bounds) => bounds.blocks, None => 0 },
                options(nomem, nostack, preserves_flags)
            );
        }
    }
}

/// Applies a 32-bit shuffle to all 32-bit parts of a word.
#[inline(always)]
fn halves<T: KeyWord>(value: T, shuffle: impl Fn(u32) -> u32) -> T {
    let both = |part: u64| u64::from(shuffle(part as u32)) | u64::from(shuffle((part >> 32) as u32)) << 32;
    let [low, high] = value.parts();
    match T::BITS {
        32 => T::truncate(u64::from(shuffle(value.low()))),
        64 => T::truncate(both(low)),
        _ => T::from_parts([both(low), both(high)]),
    }
}

/// Butterfly reduction. `redux.sync` needs sm_80 and PTX for it would shut out Turing; on the whole
/// warp five shuffles cost little more.
#[inline(always)]
fn reduce(simt: Nvptx, mask: u32, value: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
    let mut total = value;
    if mask == crate::FULL_MASK {
        for step in [16, 8, 4, 2, 1] {
            total = combine(total, simt.shuffle_xor(mask, total, step));
        }
        return total;
    }
    // Some lanes only: each in turn tells the others. Rare, and never in a hot loop.
    let mut first = true;
    let mut left = mask;
    while left != 0 {
        let other = simt.shuffle(mask, value, left.trailing_zeros());
        total = if first { other } else { combine(total, other) };
        first = false;
        left &= left - 1;
    }
    total
}

impl Simt for Nvptx {
    #[inline(always)]
    fn thread_index(self) -> u32 {
        intrinsics::thread_index()
    }
    #[inline(always)]
    fn block_dim(self) -> u32 {
        intrinsics::block_dim()
    }
    #[inline(always)]
    fn block_index(self) -> u32 {
        intrinsics::block_index()
    }
    #[inline(always)]
    fn grid_dim(self) -> u32 {
        intrinsics::grid_dim()
    }
    #[inline(always)]
    fn ballot(self, mask: u32, predicate: bool) -> u32 {
        collectives::ballot(mask, predicate)
    }
    #[inline(always)]
    fn any(self, mask: u32, predicate: bool) -> bool {
        collectives::any(mask, predicate)
    }
    #[inline(always)]
    fn all(self, mask: u32, predicate: bool) -> bool {
        collectives::all(mask, predicate)
    }
    #[inline(always)]
    fn shuffle<T: KeyWord>(self, mask: u32, value: T, source: u32) -> T {
        halves(value, |half| collectives::shuffle(mask, half, source))
    }
    #[inline(always)]
    fn shuffle_xor<T: KeyWord>(self, mask: u32, value: T, lanes: u32) -> T {
        halves(value, |half| collectives::shuffle_xor(mask, half, lanes))
    }
    #[inline(always)]
    fn shuffle_up<T: KeyWord>(self, mask: u32, value: T, delta: u32) -> T {
        halves(value, |half| collectives::shuffle_up(mask, half, delta))
    }
    #[inline(always)]
    fn shuffle_down<T: KeyWord>(self, mask: u32, value: T, delta: u32) -> T {
        halves(value, |half| collectives::shuffle_down(mask, half, delta))
    }
    #[inline(always)]
    fn match_any<T: Word>(self, mask: u32, value: T) -> u32 {
        if T::BITS == 32 {
            collectives::match_any_u32(mask, value.low())
        } else {
            collectives::match_any_u64(mask, value.widen())
        }
    }
    #[inline(always)]
    fn match_low_bits(self, mask: u32, value: u32, bits: u32) -> u32 {
        let mut equal = mask;
        for bit in 0..bits {
            let own = value & 1 << bit;
            // Asked this way round LLVM leaves the condition as it is, and one predicate serves both.
            equal &= self.ballot(mask, own == 0) ^ memory::ones_unless_zero(own);
        }
        equal
    }
    #[inline(always)]
    fn reduce_add(self, mask: u32, value: u32) -> u32 {
        reduce(self, mask, value, u32::wrapping_add)
    }
    #[inline(always)]
    fn reduce_max(self, mask: u32, value: u32) -> u32 {
        reduce(self, mask, value, u32::max)
    }
    #[inline(always)]
    fn reduce_min(self, mask: u32, value: u32) -> u32 {
        reduce(self, mask, value, u32::min)
    }
    #[inline(always)]
    fn sync_warp(self, mask: u32) {
        collectives::sync_warp(mask);
    }
    #[inline(always)]
    fn barrier(self) {
        intrinsics::barrier();
    }
    #[inline(always)]
    unsafe fn shared_load<T: KeyWord>(self, array: Shared<T>, index: u32) -> T {
        // SAFETY: the caller's promise.
        unsafe { memory::shared_load(array.byte_offset(index)) }
    }
    #[inline(always)]
    unsafe fn shared_store<T: KeyWord>(self, array: Shared<T>, index: u32, value: T) {
        // SAFETY: the caller's promise.
        unsafe { memory::shared_store(array.byte_offset(index), value) }
    }
    #[inline(always)]
    unsafe fn shared_atomic_add(self, array: Shared<u32>, index: u32, value: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { memory::shared_atomic_add(array.byte_offset(index), value) }
    }
    #[inline(always)]
    unsafe fn load<T: KeyWord>(self, from: Global<T>, index: u64, hint: Hint) -> T {
        let address = from.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { memory::load(address, hint) }
    }
    #[inline(always)]
    unsafe fn load_vector<T: KeyWord>(self, from: Global<T>, index: u64, hint: Hint) -> T::Vector {
        let address = from.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        bytemuck::cast(unsafe { memory::load_16_bytes(address.cast(), hint) })
    }
    #[inline(always)]
    unsafe fn store<T: KeyWord>(self, to: GlobalMut<T>, index: u64, value: T, hint: Hint) {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { memory::store(address, value, hint) }
    }
    #[inline(always)]
    unsafe fn store_vector<T: KeyWord>(self, to: GlobalMut<T>, index: u64, value: T::Vector, hint: Hint) {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { memory::store_16_bytes(address.cast(), bytemuck::cast(value), hint) }
    }
    #[inline(always)]
    fn prefetch<T: KeyWord>(self, from: Global<T>, index: u64) {
        memory::prefetch(from.as_ptr().wrapping_add(index as usize).cast());
    }
    #[inline(always)]
    unsafe fn atomic_load<T: Word>(self, from: GlobalMut<T>, index: u64, order: Order, scope: Scope) -> T {
        let address = from.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { atomic::load(address, order, scope) }
    }
    #[inline(always)]
    unsafe fn atomic_store<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { atomic::store(address, value, order, scope) }
    }
    #[inline(always)]
    unsafe fn atomic_add<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { atomic::add(address, value, order, scope) }
    }
    #[inline(always)]
    unsafe fn atomic_max<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { atomic::max(address, value, order, scope) }
    }
    #[inline(always)]
    unsafe fn atomic_min<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { atomic::min(address, value, order, scope) }
    }
    #[inline(always)]
    unsafe fn atomic_or<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { atomic::or(address, value, order, scope) }
    }
    #[inline(always)]
    unsafe fn atomic_exchange<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, scope: Scope) -> T {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { atomic::exchange(address, value, order, scope) }
    }
    #[inline(always)]
    unsafe fn atomic_compare_exchange<T: Word>(
        self,
        to: GlobalMut<T>,
        index: u64,
        expected: T,
        new: T,
        order: Order,
        scope: Scope,
    ) -> T {
        let address = to.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's promise.
        unsafe { atomic::compare_exchange(address, expected, new, order, scope) }
    }
    #[inline(always)]
    fn fence(self, scope: Scope) {
        atomic::fence(scope);
    }
    #[inline(always)]
    fn opaque<T: KeyWord>(self, value: T) -> T {
        halves(value, memory::opaque)
    }
    #[inline(always)]
    fn spin_hint(self) {
        memory::nanosleep();
    }
}
