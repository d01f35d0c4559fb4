//! Lines of the CPU's caches.

use bytemuck::{Pod, Zeroable};

/// A cache line: 64 bytes at a multiple of 64.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Line([u64; Line::BYTES / 8]);

// SAFETY: all zeros are a line.
unsafe impl Zeroable for Line {}
// SAFETY: words without padding; any bits are a line.
unsafe impl Pod for Line {}

impl Line {
    /// Bytes of a line.
    pub const BYTES: usize = 64;

    /// All bits set.
    pub const ONES: Self = Self([u64::MAX; Self::BYTES / 8]);

    /// The line as `N` words, which fill it.
    #[inline(always)]
    pub fn array<W: Pod, const N: usize>(&self) -> &[W; N] {
        bytemuck::cast_ref(&self.0)
    }

    /// The line's words.
    #[inline(always)]
    pub fn words<W: Pod>(&self) -> &[W] {
        bytemuck::cast_slice(&self.0)
    }

    /// The line's words, to be written.
    #[inline(always)]
    pub fn words_mut<W: Pod>(&mut self) -> &mut [W] {
        bytemuck::cast_slice_mut(&mut self.0)
    }

    /// The address of its first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        core::ptr::from_ref(self).cast()
    }
}

/// Asks the caches for a line. Any address will do: it is a hint, which reads nothing, and does nothing on processors other
/// than x86-64.
#[inline(always)]
pub fn prefetch(line: *const Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, at whatever address; SSE is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_many_words_as_fill_it() {
        let mut line = Line::ONES;
        line.words_mut::<u32>()[15] = 7;
        assert_eq!(line.array::<u64, 8>()[..7], [u64::MAX; 7]);
        assert_eq!((line.words::<u32>()[14], line.words::<u32>()[15]), (u32::MAX, 7));
        assert_eq!((align_of::<Line>(), size_of::<Line>()), (Line::BYTES, Line::BYTES));
        prefetch(core::ptr::null());
    }
}
