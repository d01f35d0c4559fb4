//! Atomics with exactly the order and scope that was asked for: `core::sync::atomic`'s ordered
//! operations have system scope, which costs more and says less.

use crate::{Order, Scope, Word};
use core::arch::asm;

/// One `atom` instruction; `$kind` is its type letter (`u`: numbers, `b`: bits).
macro_rules! atom {
    ($address:expr, $($operand:expr),+; $modifier:literal, $operation:literal, $kind:literal) => {{
        if T::BITS == 32 {
            let former: u32;
            atom!(@asm former, reg32, $address, concat!("atom.", $modifier, ".global.", $operation, ".", $kind, "32"), $($operand.low()),+);
            T::from_halves(former, 0)
        } else {
            let former: u64;
            atom!(@asm former, reg64, $address, concat!("atom.", $modifier, ".global.", $operation, ".", $kind, "64"), $($operand.widen()),+);
            T::truncate(former)
        }
    }};
    (@asm $former:ident, $class:ident, $address:expr, $instruction:expr, $value:expr) => {
        asm!(concat!($instruction, " {0}, [{1}], {2};"),
            out($class) $former, in(reg64) $address, in($class) $value, options(nostack))
    };
    (@asm $former:ident, $class:ident, $address:expr, $instruction:expr, $expected:expr, $new:expr) => {
        asm!(concat!($instruction, " {0}, [{1}], {2}, {3};"),
            out($class) $former, in(reg64) $address, in($class) $expected, in($class) $new, options(nostack))
    };
}

/// The same for every order and scope; the match disappears where both are constants.
macro_rules! read_modify_write {
    ($(#[$doc:meta])* $name:ident($($operand:ident),+), $operation:literal, $kind:literal) => {
        $(#[$doc])*
        /// # Safety
        /// As the method of [`Simt`](crate::Simt).
        #[inline(always)]
        pub(super) unsafe fn $name<T: Word>(address: *mut T, $($operand: T,)+ order: Order, scope: Scope) -> T {
            // SAFETY: the caller's promise covers the one access.
            unsafe {
                match (order, scope) {
                    (Order::Relaxed, Scope::Block) => atom!(address, $($operand),+; "relaxed.cta", $operation, $kind),
                    (Order::Acquire, Scope::Block) => atom!(address, $($operand),+; "acquire.cta", $operation, $kind),
                    (Order::Release, Scope::Block) => atom!(address, $($operand),+; "release.cta", $operation, $kind),
                    (Order::AcquireRelease, Scope::Block) => atom!(address, $($operand),+; "acq_rel.cta", $operation, $kind),
                    (Order::Relaxed, Scope::Device) => atom!(address, $($operand),+; "relaxed.gpu", $operation, $kind),
                    (Order::Acquire, Scope::Device) => atom!(address, $($operand),+; "acquire.gpu", $operation, $kind),
                    (Order::Release, Scope::Device) => atom!(address, $($operand),+; "release.gpu", $operation, $kind),
                    (Order::AcquireRelease, Scope::Device) => atom!(address, $($operand),+; "acq_rel.gpu", $operation, $kind),
                }
            }
        }
    };
}

read_modify_write!(add(value), "add", "u");
read_modify_write!(max(value), "max", "u");
read_modify_write!(min(value), "min", "u");
read_modify_write!(or(value), "or", "b");
read_modify_write!(exchange(value), "exch", "b");
read_modify_write!(compare_exchange(expected, new), "cas", "b");

macro_rules! load_ordered {
    ($address:expr, $modifier:literal) => {{
        if T::BITS == 32 {
            let value: u32;
            asm!(concat!("ld.", $modifier, ".global.b32 {0}, [{1}];"), out(reg32) value, in(reg64) $address, options(nostack));
            T::from_halves(value, 0)
        } else {
            let value: u64;
            asm!(concat!("ld.", $modifier, ".global.b64 {0}, [{1}];"), out(reg64) value, in(reg64) $address, options(nostack));
            T::truncate(value)
        }
    }};
}

/// # Safety
/// As [`Simt::atomic_load`](crate::Simt::atomic_load).
#[inline(always)]
pub(super) unsafe fn load<T: Word>(address: *const T, order: Order, scope: Scope) -> T {
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        match (order, scope) {
            (Order::Relaxed | Order::Release, Scope::Block) => load_ordered!(address, "relaxed.cta"),
            (Order::Relaxed | Order::Release, Scope::Device) => load_ordered!(address, "relaxed.gpu"),
            (Order::Acquire | Order::AcquireRelease, Scope::Block) => load_ordered!(address, "acquire.cta"),
            (Order::Acquire | Order::AcquireRelease, Scope::Device) => load_ordered!(address, "acquire.gpu"),
        }
    }
}

macro_rules! store_ordered {
    ($address:expr, $value:expr, $modifier:literal) => {{
        if T::BITS == 32 {
            asm!(concat!("st.", $modifier, ".global.b32 [{0}], {1};"), in(reg64) $address, in(reg32) $value.low(), options(nostack));
        } else {
            asm!(concat!("st.", $modifier, ".global.b64 [{0}], {1};"), in(reg64) $address, in(reg64) $value.widen(), options(nostack));
        }
    }};
}

/// # Safety
/// As [`Simt::atomic_store`](crate::Simt::atomic_store).
#[inline(always)]
pub(super) unsafe fn store<T: Word>(address: *mut T, value: T, order: Order, scope: Scope) {
    // SAFETY: the caller's promise covers the one access.
    unsafe {
        match (order, scope) {
            (Order::Relaxed | Order::Acquire, Scope::Block) => store_ordered!(address, value, "relaxed.cta"),
            (Order::Relaxed | Order::Acquire, Scope::Device) => store_ordered!(address, value, "relaxed.gpu"),
            (Order::Release | Order::AcquireRelease, Scope::Block) => store_ordered!(address, value, "release.cta"),
            (Order::Release | Order::AcquireRelease, Scope::Device) => store_ordered!(address, value, "release.gpu"),
        }
    }
}

#[inline(always)]
pub(super) fn fence(scope: Scope) {
    // SAFETY: a fence touches no memory itself; without `nomem` the compiler moves nothing across it.
    unsafe {
        match scope {
            Scope::Block => asm!("fence.acq_rel.cta;", options(nostack)),
            Scope::Device => asm!("fence.acq_rel.gpu;", options(nostack)),
        }
    }
}
