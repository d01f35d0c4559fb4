//! Accesses to global memory, as faults report them.

use core::fmt;

/// How a thread touched global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalAccess {
    /// Whether it read or wrote, and whether atomically.
    pub kind: GlobalAccessKind,
    /// Bytes accessed: 4, 8 or 16.
    pub bytes: u32,
}

/// Whether an access to global memory reads or writes, and whether atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalAccessKind {
    /// [`Simt::load`](crate::Simt::load), [`Simt::load_vector`](crate::Simt::load_vector).
    Read = 0,
    /// [`Simt::store`](crate::Simt::store), [`Simt::store_vector`](crate::Simt::store_vector).
    Write = 1,
    /// [`Simt::atomic_load`](crate::Simt::atomic_load).
    AtomicRead = 2,
    /// [`Simt::atomic_store`](crate::Simt::atomic_store), and read-modify-write operations.
    AtomicWrite = 3,
}

impl GlobalAccessKind {
    #[inline]
    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Self::AtomicRead | Self::AtomicWrite)
    }

    #[inline]
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::AtomicWrite)
    }
}

impl GlobalAccess {
    /// Whether two accesses, at least one of which writes, need no order between them: both are atomic, and to each
    /// other.
    #[inline]
    pub(super) fn agrees(self, other: Self) -> bool {
        self.kind.is_atomic() && other.kind.is_atomic() && self.bytes == other.bytes
    }
}

/// An access that another one races with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The block of the thread.
    pub block: u32,
    /// The thread's index in its block.
    pub thread: u32,
    /// What it did.
    pub access: GlobalAccess,
}

impl fmt::Display for GlobalAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            GlobalAccessKind::Read => "read",
            GlobalAccessKind::Write => "write",
            GlobalAccessKind::AtomicRead => "atomic read",
            GlobalAccessKind::AtomicWrite => "atomic write",
        };
        write!(f, "{kind} of {} bytes", self.bytes)
    }
}

impl fmt::Display for Earlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} by block {}, thread {}", self.access, self.block, self.thread)
    }
}
