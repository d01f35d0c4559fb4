//! What shards' results lack.

use lanetree_simt::{Global, Hint, KeyWord, Simt, kernel_args};

kernel_args! {
    /// What makes shards' results those of the whole index.
    pub struct Amends<W> {
        /// `[shards]`: what is added to a shard's results; null for nothing.
        pub plus: Global<W>,
        /// `[shards]`: what takes the place of results that a shard does not have; null for nothing.
        pub others: Global<W>,
        /// Which shards have one of `others`: a bit each.
        pub have_others: u64,
    }
}

impl<W> Amends<W> {
    /// Results stay as they are.
    pub const fn none() -> Self {
        Self { plus: Global::null(), others: Global::null(), have_others: 0 }
    }
}

impl<W: KeyWord> Amends<W> {
    /// Per thread. The result of a query, given its shard's and whether there is one; and whether there is one then.
    ///
    /// # Safety
    /// The arrays have an element for the shard.
    #[inline(always)]
    pub(crate) unsafe fn apply<S: Simt>(&self, simt: S, shard: u32, mut result: W, is_hit: bool) -> (W, bool) {
        // SAFETY: the caller's contract.
        unsafe {
            if !self.plus.is_null() {
                result = result.wrapping_add(simt.load(self.plus, u64::from(shard), Hint::ReadOnly));
            }
            let has_other = !is_hit && self.have_others >> (shard % 64) & 1 != 0;
            if has_other {
                result = simt.load(self.others, u64::from(shard), Hint::ReadOnly);
            }
            (result, is_hit | has_other)
        }
    }
}
