//! Atomic operations: what each does to an element, and what it orders.

use super::access::GlobalAccessKind;
use crate::Order;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What an atomic access does to an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Load,
    Store,
    Add,
    Max,
    Min,
    Or,
    Exchange,
    /// The element is expected to be this.
    CompareExchange(u64),
}

impl Operation {
    pub(super) fn kind(self) -> GlobalAccessKind {
        if self == Self::Load { GlobalAccessKind::AtomicRead } else { GlobalAccessKind::AtomicWrite }
    }

    /// Whether an access with this order releases what came before it.
    pub(super) fn releases(self, order: Order) -> bool {
        self != Self::Load && matches!(order, Order::Release | Order::AcquireRelease)
    }

    /// Whether it acquires what was released.
    pub(super) fn acquires(self, order: Order) -> bool {
        self != Self::Store && matches!(order, Order::Acquire | Order::AcquireRelease)
    }
}

/// What an element of 4 or 8 bytes becomes.
pub(super) fn apply(operation: Operation, former: u64, value: u64, bytes: usize) -> u64 {
    let new = match operation {
        Operation::Load => former,
        Operation::Store | Operation::Exchange => value,
        Operation::Add => former.wrapping_add(value),
        Operation::Max => former.max(value),
        Operation::Min => former.min(value),
        Operation::Or => former | value,
        Operation::CompareExchange(expected) => {
            if former == expected {
                value
            } else {
                former
            }
        }
    };
    if bytes == 4 { new & u64::from(u32::MAX) } else { new }
}

/// Performs an operation of one width. One memory order serves all: the emulator looks for weaker ones but does not
/// rely on them.
macro_rules! perform {
    ($name:ident, $atomic:ty, $value:ty) => {
        pub(super) fn $name(element: &$atomic, operation: Operation, value: $value) -> $value {
            let order = Ordering::AcqRel;
            match operation {
                Operation::Load => element.load(Ordering::Acquire),
                Operation::Store => {
                    element.store(value, Ordering::Release);
                    0
                }
                Operation::Add => element.fetch_add(value, order),
                Operation::Max => element.fetch_max(value, order),
                Operation::Min => element.fetch_min(value, order),
                Operation::Or => element.fetch_or(value, order),
                Operation::Exchange => element.swap(value, order),
                Operation::CompareExchange(expected) => {
                    let result = element.compare_exchange(expected as $value, value, order, Ordering::Acquire);
                    let (Ok(former) | Err(former)) = result;
                    former
                }
            }
        }
    };
}
perform!(perform_narrow, AtomicU32, u32);
perform!(perform_wide, AtomicU64, u64);
