//! Copies of results that are not read soon.

use bytemuck::Pod;

/// The fewest bytes that bypass the caches: the caller may well read fewer bytes while they are still in the caches.
#[cfg(any(target_arch = "x86_64", test))]
const PAST_CACHES: usize = 1 << 18;

/// Copies one slice to another of the same length.
///
/// A large slice is written with non-temporal stores if the processor has them: such a store does not read the line
/// that it overwrites, and the lines of the staging memory stay in the caches, where the bus finds them.
///
/// # Panics
/// Where the lengths differ.
pub(super) fn copy_past_caches<T: Pod>(from: &[T], to: &mut [T]) {
    #[cfg(target_arch = "x86_64")]
    if size_of_val(from) >= PAST_CACHES {
        return stream(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
    }
    to.copy_from_slice(from);
}

/// Copies with non-temporal stores.
#[cfg(target_arch = "x86_64")]
fn stream(from: &[u8], to: &mut [u8]) {
    use core::arch::x86_64::{__m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128};

    /// Distance in bytes from a load to its prefetch.
    const AHEAD: usize = 1024;
    /// Bytes of a cache line, which four stores fill together.
    const LINE: usize = 64;

    assert_eq!(from.len(), to.len(), "the slices differ in length");
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let (first, from) = from.split_at(head);
    let (to_first, to) = to.split_at_mut(head);
    to_first.copy_from_slice(first);
    let (lines, last) = from.as_chunks::<LINE>();
    let (to_lines, to_last) = to.as_chunks_mut::<LINE>();
    for (line, to) in lines.iter().zip(to_lines) {
        let (line, to) = (line.as_ptr().cast::<__m128i>(), to.as_mut_ptr().cast::<__m128i>());
        // SAFETY: x86-64 has SSE2; both pointers are to 64 bytes, and the second is aligned to 64. A prefetched address
        // need not exist.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.cast::<i8>().wrapping_add(AHEAD));
            let quarters: [__m128i; 4] = core::array::from_fn(|i| _mm_loadu_si128(line.add(i)));
            for (i, quarter) in quarters.into_iter().enumerate() {
                _mm_stream_si128(to.add(i), quarter);
            }
        }
    }
    to_last.copy_from_slice(last);
    // SAFETY: as above. Other threads may read what was written once this function has returned.
    unsafe { _mm_sfence() };
}

#[cfg(test)]
mod tests {
    use super::{PAST_CACHES, copy_past_caches};

    #[test]
    fn copies_of_every_length_and_alignment() {
        let from: Vec<u32> = (0..PAST_CACHES as u32 / 2).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
        for (start, length) in
            (0..20).flat_map(|start| [0, 1, 17, PAST_CACHES / 4, PAST_CACHES / 4 + 37].map(|n| (start, n)))
        {
            let mut to = vec![7; length + 40];
            copy_past_caches(&from[start..start + length], &mut to[20 - start..20 - start + length]);
            assert_eq!(to[20 - start..20 - start + length], from[start..start + length]);
            assert!(to[..20 - start].iter().chain(&to[20 - start + length..]).all(|&word| word == 7));
        }
    }
}
