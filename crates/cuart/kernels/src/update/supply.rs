//! Where inserts take nodes and leaves from.

use crate::layout::LinkType;
use lanetree_simt::{Global, GlobalMut, Hint, Order, Scope, Simt, kernel_args};

kernel_args! {
    /// Where new nodes and leaves of a type come from: free ones first, then unused ones.
    pub struct Stock {
        /// Elements used before.
        pub used: u64,
        /// Free indexes: `[free_len]`, the last one first.
        pub free: Global<u64>,
        /// How many.
        pub free_len: u64,
    }
}

kernel_args! {
    /// Where new nodes and leaves come from.
    pub struct Supply {
        /// Counters, zeros before, [`Supply::STRIDE`] words apart, so that they are not all in one part of the cache:
        /// how many of each type were taken, from N4 on (of dynamically sized leaves, units); then dynamically sized
        /// leaves made, leaves left over, and operations deferred.
        pub taken: GlobalMut<u64>,
        /// Nodes of up to 4 children.
        pub n4: Stock,
        /// Nodes of up to 16 children.
        pub n16: Stock,
        /// Nodes of up to 48 children.
        pub n48: Stock,
        /// Nodes of up to 256 children.
        pub n256: Stock,
        /// Leaves of keys of up to 8 bytes.
        pub leaf8: Stock,
        /// Leaves of keys of up to 16 bytes.
        pub leaf16: Stock,
        /// Leaves of keys of up to 32 bytes.
        pub leaf32: Stock,
        /// Units of dynamically sized leaves used before.
        pub units: u64,
        /// The number of the leaf type, if all keys need the same type: each thread then has a leaf assigned. 0 if keys
        /// need leaves of several types, or dynamically sized ones.
        pub assigned: u64,
        /// Out: `[count]`, the first of them the indexes of assigned leaves that were not needed.
        pub unused: GlobalMut<u64>,
        /// Out: `[count]`, links of nodes that were copied into larger ones, and zeros.
        pub retired: GlobalMut<u64>,
        /// Out: `[count]`, links of nodes of up to 16 children whose children are out of order, and zeros.
        pub touched: GlobalMut<u64>,
    }
}

/// Counters after the counters of the types: of the dynamically sized leaves on the device, and so on.
pub(super) const DEVICE_LEAVES: u64 = 8;
pub(super) const UNUSED: u64 = 9;
pub(super) const PUT_OFF: u64 = 10;

impl Supply {
    /// Counters in `taken`.
    pub const COUNTERS: usize = 11;
    /// Words from one counter to the next.
    pub const STRIDE: usize = 16;
    /// Which of them counts the dynamically sized leaves that were made.
    pub const DEVICE_LEAVES: usize = DEVICE_LEAVES as usize;
    /// Which of them counts the assigned leaves that were not needed.
    pub const UNUSED: usize = UNUSED as usize;
    /// Which of them counts the operations that were deferred.
    pub const PUT_OFF: usize = PUT_OFF as usize;

    /// Per thread. Adds to a counter.
    #[inline(always)]
    pub(super) unsafe fn count<S: Simt>(&self, simt: S, counter: u64, by: u64) -> u64 {
        // SAFETY: one of the counters.
        unsafe { simt.atomic_add(self.taken, counter * Self::STRIDE as u64, by, Order::Relaxed, Scope::Device) }
    }

    /// Per thread. Takes an element of a kind.
    ///
    /// # Safety
    /// There is room for another one.
    #[inline(always)]
    pub(super) unsafe fn take<S: Simt>(&self, simt: S, kind: LinkType) -> u64 {
        // SAFETY: one of the counters, and the caller's promise.
        unsafe {
            let place = self.count(simt, kind as u64 - 1, 1);
            self.element(simt, kind, place)
        }
    }

    /// Per thread. The element of a kind that is taken as the `place`-th.
    ///
    /// # Safety
    /// The kind's buffer has an element for the place.
    #[inline(always)]
    pub(super) unsafe fn element<S: Simt>(&self, simt: S, kind: LinkType, place: u64) -> u64 {
        // By a chain of comparisons, as for addresses: with a `match`, the arguments would move to local memory.
        let mut stock = self.leaf32;
        for (known, own) in [
            (LinkType::Leaf16, self.leaf16),
            (LinkType::Leaf8, self.leaf8),
            (LinkType::N256, self.n256),
            (LinkType::N48, self.n48),
            (LinkType::N16, self.n16),
            (LinkType::N4, self.n4),
        ] {
            let is_known = kind as u32 <= known as u32;
            stock = Stock {
                used: if is_known { own.used } else { stock.used },
                free: if is_known { own.free } else { stock.free },
                free_len: if is_known { own.free_len } else { stock.free_len },
            };
        }
        if place < stock.free_len {
            // SAFETY: one that is free.
            return unsafe { simt.load(stock.free, stock.free_len - 1 - place, Hint::ReadOnly) };
        }
        stock.used + place - stock.free_len
    }
}
