//! How many elements an input has.

use lanetree_simt::{Global, Hint, Simt, kernel_args};

kernel_args! {
    /// A number of elements that the host knows, or that an earlier kernel has left on the device.
    pub struct Count {
        /// The number, or the most that it may be where `device` is given.
        pub most: u64,
        /// `[1]`: the number; a larger one counts as `most`. Null: the number is `most`.
        pub device: Global<u64>,
    }
}

impl Count {
    /// A number that the host knows.
    pub const fn host(count: u64) -> Self {
        Self { most: count, device: Global::null() }
    }

    /// Per thread. The number.
    ///
    /// # Safety
    /// `device` is null or points to a number that nobody writes while the kernel runs.
    #[inline(always)]
    pub(crate) unsafe fn get<S: Simt>(self, simt: S) -> u64 {
        if self.device.is_null() {
            return self.most;
        }
        // SAFETY: the caller's.
        unsafe { simt.load(self.device, 0, Hint::ReadOnly) }.min(self.most)
    }
}
