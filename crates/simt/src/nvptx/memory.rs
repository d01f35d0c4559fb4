//! Global and shared memory: one instruction each, with its cache hint.
//!
//! A generic address of global memory is its global address, so pointers go into `ld.global` as they
//! are. Loads from constant memory are `pure, readonly`: LLVM may merge and move them; the others
//! stay in program order.

use crate::{Hint, KeyWord};
use core::arch::{asm, global_asm};

// Dynamic shared memory: the only shared declaration of a module, sized by the launch. A kernel's
// static arrays are its first bytes.
global_asm!(".extern .shared .align 16 .b8 lanetree_shared[];");

/// The 32-bit shared address of a byte offset.
#[inline(always)]
fn shared_address(offset: u32) -> u32 {
    let base: u32;
    // SAFETY: reads a constant.
    unsafe { asm!("mov.u32 {0}, lanetree_shared;", out(reg32) base, options(pure, nomem, nostack)) };
    base + offset
}

macro_rules! load_words {
    ($address:expr, $instruction:literal, $options:tt) => {{
        if T::BITS == 32 {
            let value: u32;
            asm!(concat!($instruction, ".b32 {0}, [{1}];"), out(reg32) value, in(reg64) $address, options $options);
            T::truncate(u64::from(value))
        } else {
            let value: u64;
            asm!(concat!($instruction, ".b64 {0}, [{1}];"), out(reg64) value, in(reg64) $address, options $options);
            T::truncate(value)
        }
    }};
}

/// # Safety
/// As [`Simt::load`](crate::Simt::load).
#[inline(always)]
pub(super) unsafe fn load<T: KeyWord>(address: *const T, hint: Hint) -> T {
    if T::BITS == 128 {
        // SAFETY: the same contract.
        return T::from_parts(unsafe { load_16_bytes(address.cast(), hint) });
    }
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        match hint {
            Hint::Default => load_words!(address, "ld.global", (readonly, nostack)),
            Hint::ReadOnly => load_words!(address, "ld.global.nc", (pure, readonly, nostack)),
            Hint::EvictFirst => {
                load_words!(address, "ld.global.nc.L1::evict_first", (pure, readonly, nostack))
            }
            Hint::Streaming => load_words!(address, "ld.global.cs", (readonly, nostack)),
        }
    }
}

macro_rules! load_vector {
    ($address:expr, $instruction:literal, $options:tt) => {{
        let (low, high): (u64, u64);
        asm!(
            concat!($instruction, ".v2.b64 {{{0}, {1}}}, [{2}];"),
            out(reg64) low, out(reg64) high, in(reg64) $address, options $options
        );
        [low, high]
    }};
}

/// # Safety
/// As [`Simt::load_vector`](crate::Simt::load_vector).
#[inline(always)]
pub(super) unsafe fn load_16_bytes(address: *const u64, hint: Hint) -> [u64; 2] {
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        match hint {
            Hint::Default => load_vector!(address, "ld.global", (readonly, nostack)),
            Hint::ReadOnly => load_vector!(address, "ld.global.nc", (pure, readonly, nostack)),
            Hint::EvictFirst => load_vector!(address, "ld.global.nc.L1::evict_first", (pure, readonly, nostack)),
            Hint::Streaming => load_vector!(address, "ld.global.cs", (readonly, nostack)),
        }
    }
}

macro_rules! store_words {
    ($address:expr, $value:expr, $instruction:literal) => {{
        if T::BITS == 32 {
            asm!(concat!($instruction, ".b32 [{0}], {1};"), in(reg64) $address, in(reg32) $value.low(), options(nostack));
        } else {
            asm!(concat!($instruction, ".b64 [{0}], {1};"), in(reg64) $address, in(reg64) $value.parts()[0], options(nostack));
        }
    }};
}

/// # Safety
/// As [`Simt::store`](crate::Simt::store).
#[inline(always)]
pub(super) unsafe fn store<T: KeyWord>(address: *mut T, value: T, hint: Hint) {
    if T::BITS == 128 {
        // SAFETY: the same contract.
        return unsafe { store_16_bytes(address.cast(), value.parts(), hint) };
    }
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        match hint {
            Hint::Streaming => store_words!(address, value, "st.global.cs"),
            Hint::Default | Hint::ReadOnly | Hint::EvictFirst => store_words!(address, value, "st.global"),
        }
    }
}

macro_rules! store_vector {
    ($address:expr, $value:expr, $instruction:literal) => {
        asm!(
            concat!($instruction, ".v2.b64 [{0}], {{{1}, {2}}};"),
            in(reg64) $address, in(reg64) $value[0], in(reg64) $value[1], options(nostack)
        )
    };
}

/// # Safety
/// As [`Simt::store_vector`](crate::Simt::store_vector).
#[inline(always)]
pub(super) unsafe fn store_16_bytes(address: *mut u64, value: [u64; 2], hint: Hint) {
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        match hint {
            Hint::Streaming => store_vector!(address, value, "st.global.cs"),
            Hint::Default | Hint::ReadOnly | Hint::EvictFirst => store_vector!(address, value, "st.global"),
        }
    }
}

#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    // SAFETY: a prefetch of any address has no effect but on the cache.
    unsafe { asm!("prefetch.global.L2 [{0}];", in(reg64) address, options(nostack)) };
}

/// 0 for 0, all ones for anything else.
///
/// See [`Simt::opaque`](crate::Simt::opaque): no instruction.
#[inline(always)]
pub(super) fn opaque(value: u32) -> u32 {
    let mut same = value;
    // SAFETY: does nothing.
    unsafe { asm!("/* {0} */", inout(reg32) same, options(pure, nomem, nostack)) };
    same
}

/// What Rust says of a single bit LLVM turns into shifts and a negation, where ptxas finds one selection by
/// a predicate that it has anyway.
#[inline(always)]
pub(super) fn ones_unless_zero(value: u32) -> u32 {
    let ones: u32;
    // SAFETY: arithmetic.
    unsafe {
        asm!(
            "{{ .reg .pred zero; setp.eq.u32 zero, {1}, 0; selp.b32 {0}, 0, -1, zero; }}",
            out(reg32) ones, in(reg32) value, options(pure, nomem, nostack)
        );
    }
    ones
}

#[inline(always)]
pub(super) fn nanosleep() {
    // SAFETY: touches no memory.
    unsafe { asm!("nanosleep.u32 20;", options(nostack)) };
}

/// # Safety
/// As [`Simt::shared_load`](crate::Simt::shared_load).
#[inline(always)]
pub(super) unsafe fn shared_load<T: KeyWord>(offset: u32) -> T {
    let address = shared_address(offset);
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        if T::BITS == 32 {
            let value: u32;
            asm!("ld.shared.b32 {0}, [{1}];", out(reg32) value, in(reg32) address, options(readonly, nostack));
            T::truncate(u64::from(value))
        } else if T::BITS == 64 {
            let value: u64;
            asm!("ld.shared.b64 {0}, [{1}];", out(reg64) value, in(reg32) address, options(readonly, nostack));
            T::truncate(value)
        } else {
            let (low, high): (u64, u64);
            asm!(
                "ld.shared.v2.b64 {{{0}, {1}}}, [{2}];",
                out(reg64) low, out(reg64) high, in(reg32) address, options(readonly, nostack)
            );
            T::from_parts([low, high])
        }
    }
}

/// # Safety
/// As [`Simt::shared_store`](crate::Simt::shared_store).
#[inline(always)]
pub(super) unsafe fn shared_store<T: KeyWord>(offset: u32, value: T) {
    let address = shared_address(offset);
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        if T::BITS == 32 {
            asm!("st.shared.b32 [{0}], {1};", in(reg32) address, in(reg32) value.low(), options(nostack));
        } else if T::BITS == 64 {
            asm!("st.shared.b64 [{0}], {1};", in(reg32) address, in(reg64) value.parts()[0], options(nostack));
        } else {
            let [low, high] = value.parts();
            asm!(
                "st.shared.v2.b64 [{0}], {{{1}, {2}}};",
                in(reg32) address, in(reg64) low, in(reg64) high, options(nostack)
            );
        }
    }
}

/// # Safety
/// As [`Simt::shared_atomic_add`](crate::Simt::shared_atomic_add).
#[inline(always)]
pub(super) unsafe fn shared_atomic_add(offset: u32, value: u32) -> u32 {
    let address = shared_address(offset);
    let former: u32;
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        asm!(
            "atom.relaxed.cta.shared.add.u32 {0}, [{1}], {2};",
            out(reg32) former, in(reg32) address, in(reg32) value, options(nostack)
        );
    }
    former
}
