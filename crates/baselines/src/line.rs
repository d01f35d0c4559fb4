//! A cache line.

use bytemuck::{Pod, Zeroable};

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([u64; LINE / 8]);

impl Line {
    /// A line of these words, and zeros after them.
    #[cfg(test)]
    pub(crate) fn from_words<W: Pod>(words: &[W]) -> Self {
        let mut line = Self([0; LINE / 8]);
        line.slice_mut()[..words.len()].copy_from_slice(words);
        line
    }

    /// The line as `N` words, which fill it.
    #[inline(always)]
    pub(crate) fn words<W: Pod, const N: usize>(&self) -> &[W; N] {
        bytemuck::cast_ref(&self.0)
    }

    /// The line's words.
    #[inline(always)]
    pub(crate) fn slice<W: Pod>(&self) -> &[W] {
        bytemuck::cast_slice(&self.0)
    }

    /// The line's words, to be written.
    pub(crate) fn slice_mut<W: Pod>(&mut self) -> &mut [W] {
        bytemuck::cast_slice_mut(&mut self.0)
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        core::ptr::from_ref(self).cast()
    }
}

// SAFETY: all zeros are a line.
unsafe impl Zeroable for Line {}
// SAFETY: words without padding; any bits are a line.
unsafe impl Pod for Line {}

/// Asks the cache for a line; any address will do.
#[inline(always)]
pub(crate) fn prefetch(line: *const Line) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that reads nothing, at whatever address; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
