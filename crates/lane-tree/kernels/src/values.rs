//! Values in memory, if there are any: of a set nothing is loaded or stored.

use lanetree_layout::Value;
use lanetree_simt::{Global, GlobalMut, Hint, Shared, Simt};

/// Per thread. As [`Simt::load`].
///
/// # Safety
/// As there, if there are values.
#[inline(always)]
pub(crate) unsafe fn load<S: Simt, V: Value>(simt: S, from: Global<V>, at: u64, hint: Hint) -> V {
    if !V::IS_SOME {
        return V::default();
    }
    // SAFETY: the same contract; a value is its word.
    V::of(unsafe { simt.load(from.cast::<V::Word>(), at, hint) })
}

/// Per thread. As [`Simt::store`].
///
/// # Safety
/// As there, if there are values.
#[inline(always)]
pub(crate) unsafe fn store<S: Simt, V: Value>(simt: S, to: GlobalMut<V>, at: u64, value: V, hint: Hint) {
    if V::IS_SOME {
        // SAFETY: the same contract; a value is its word.
        unsafe { simt.store(to.cast::<V::Word>(), at, value.word(), hint) };
    }
}

/// Values in shared memory.
pub(crate) struct SharedValues<V: Value>(Shared<V::Word>);

impl<V: Value> Clone for SharedValues<V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V: Value> Copy for SharedValues<V> {}

impl<V: Value> SharedValues<V> {
    /// So many from a byte offset on, a multiple of a value's bytes.
    #[inline(always)]
    pub(crate) const fn at(offset: u32, len: u32) -> Self {
        Self(Shared::at(offset, if V::IS_SOME { len } else { 0 }))
    }

    /// The first byte past them.
    #[inline(always)]
    pub(crate) const fn end(self) -> u32 {
        self.0.end()
    }

    /// Per thread. As [`Simt::shared_load`].
    ///
    /// # Safety
    /// As there, if there are values.
    #[inline(always)]
    pub(crate) unsafe fn load<S: Simt>(self, simt: S, at: u32) -> V {
        if !V::IS_SOME {
            return V::default();
        }
        // SAFETY: the same contract.
        V::of(unsafe { simt.shared_load(self.0, at) })
    }

    /// Per thread. As [`Simt::shared_store`].
    ///
    /// # Safety
    /// As there, if there are values.
    #[inline(always)]
    pub(crate) unsafe fn store<S: Simt>(self, simt: S, at: u32, value: V) {
        if V::IS_SOME {
            // SAFETY: the same contract.
            unsafe { simt.shared_store(self.0, at, value.word()) };
        }
    }
}
