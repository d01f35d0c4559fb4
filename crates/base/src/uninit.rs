//! Results in memory that nobody reads before they are there.

use crate::Result;
use crate::parallel::*;
use crate::room::with_room;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// Elements to be written, whose contents so far nobody reads: of new memory, or of results that are replaced. `'a` is no other
/// memory's, so that [`Written`] speaks of this memory alone.
pub struct Uninit<'a, T> {
    elements: &'a mut [MaybeUninit<T>],
    memory: Brand<'a>,
}

/// Evidence that elements of an [`Uninit`] have been written; by default none.
#[derive(Debug, Default)]
#[must_use]
pub struct Written<'a> {
    len: usize,
    memory: Brand<'a>,
}

/// The fewest bytes that are written past the caches: the caller may well read fewer while they are still in the caches.
const PAST_CACHES: usize = 1 << 18;

/// Elements that are made in the caches, before they are copied past them.
const BLOCK: usize = 512;

/// Elements that a thread writes at a time, if several threads write.
const TASK: usize = 1 << 15;

/// A lifetime that is neither shortened nor extended.
type Brand<'a> = PhantomData<fn(&'a ()) -> &'a ()>;

/// A new vector of `len` elements, all of which `write` writes.
///
/// # Errors
/// Of `write`; [`Error::Runtime`](crate::Error::Runtime) if main memory has no room.
///
/// # Panics
/// If `write` returns evidence of fewer elements.
pub fn made<T>(len: usize, write: impl for<'a> FnOnce(Uninit<'a, T>) -> Result<Written<'a>>) -> Result<Vec<T>> {
    let mut all = with_room(len)?;
    append(&mut all, len, write)?;
    Ok(all)
}

/// Appends `len` elements, all of which `write` writes, to a vector that has room for them.
///
/// # Errors
/// Of `write`. The vector is as it was then.
///
/// # Panics
/// If there is no room; if `write` returns evidence of fewer elements.
pub fn append<T>(
    to: &mut Vec<T>,
    len: usize,
    write: impl for<'a> FnOnce(Uninit<'a, T>) -> Result<Written<'a>>,
) -> Result<()> {
    let elements = &mut to.spare_capacity_mut()[..len];
    let written = write(Uninit { elements, memory: PhantomData })?;
    assert_eq!(written.len, len, "results are written in full");
    // SAFETY: evidence with this lifetime comes from these elements alone, each of which can be written once.
    unsafe { to.set_len(to.len() + len) };
    Ok(())
}

/// Appends elements to two vectors at once, as [`append`].
///
/// # Errors
/// Of `write`. The vectors are as they were then.
///
/// # Panics
/// If there is no room; if `write` returns evidence of fewer elements.
pub fn append_both<A, B>(
    (a, a_len): (&mut Vec<A>, usize),
    (b, b_len): (&mut Vec<B>, usize),
    write: impl for<'a> FnOnce(Uninit<'a, A>, Uninit<'a, B>) -> Result<Written<'a>>,
) -> Result<()> {
    let (of_a, of_b) = (&mut a.spare_capacity_mut()[..a_len], &mut b.spare_capacity_mut()[..b_len]);
    let memory = PhantomData;
    let written = write(Uninit { elements: of_a, memory }, Uninit { elements: of_b, memory })?;
    assert_eq!(written.len, a_len + b_len, "results are written in full");
    // SAFETY: as in `append`; so many are written only if all of both are.
    unsafe {
        a.set_len(a.len() + a_len);
        b.set_len(b.len() + b_len);
    }
    Ok(())
}

/// Has all elements of a slice replaced.
///
/// # Errors
/// Of `write`. Some elements are replaced then.
pub fn replace<T: Copy>(
    elements: &mut [T],
    write: impl for<'a> FnOnce(Uninit<'a, T>) -> Result<Written<'a>>,
) -> Result<()> {
    let len = elements.len();
    // SAFETY: of the same size and alignment. Only whole elements are ever written there.
    let elements = unsafe { &mut *(core::ptr::from_mut(elements) as *mut [MaybeUninit<T>]) };
    let written = write(Uninit { elements, memory: PhantomData })?;
    assert_eq!(written.len, len, "results are written in full");
    Ok(())
}

impl<'a, T> Uninit<'a, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Takes the first elements off.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take_first(&mut self, count: usize) -> Self {
        let (first, others) = core::mem::take(&mut self.elements).split_at_mut(count);
        self.elements = others;
        Self { elements: first, memory: self.memory }
    }

    /// Writes each element, by its number.
    pub fn fill(self, mut element: impl FnMut(usize) -> T) -> Written<'a> {
        self.fill_blocks(|first, block| {
            block.iter_mut().enumerate().for_each(|(i, to)| _ = to.write(element(first + i)))
        })
    }

    /// Writes an element for each bit of a mask.
    ///
    /// # Panics
    /// If there are fewer bits.
    pub fn fill_bits(self, mask: &[u32], mut element: impl FnMut(bool) -> T) -> Written<'a> {
        self.fill_words(mask, |word, _, to| {
            let mut each = |to: &mut [MaybeUninit<T>]| {
                to.iter_mut().enumerate().for_each(|(bit, to)| _ = to.write(element(word >> bit & 1 == 1)));
            };
            match to.as_mut_array::<32>() {
                // A length that the compiler knows.
                Some(to) => each(to),
                None => each(to),
            }
        })
    }

    /// Writes an element for each bit of a mask and the elements of two slices, of which there are as many.
    ///
    /// # Panics
    /// If there are fewer bits or elements.
    pub fn fill_masked<A: Copy, B: Copy>(
        self,
        mask: &[u32],
        (a, b): (&[A], &[B]),
        mut element: impl FnMut(bool, A, B) -> T,
    ) -> Written<'a> {
        self.fill_words(mask, |word, first, to| {
            let (a, b) = (&a[first..first + to.len()], &b[first..first + to.len()]);
            let mut each = |to: &mut [MaybeUninit<T>], a: &[A], b: &[B]| {
                for (bit, ((to, &a), &b)) in to.iter_mut().zip(a).zip(b).enumerate() {
                    to.write(element(word >> bit & 1 == 1, a, b));
                }
            };
            match (to.as_mut_array::<32>(), a.as_array::<32>(), b.as_array::<32>()) {
                // As in `fill_bits`.
                (Some(to), Some(a), Some(b)) => each(to, a, b),
                _ => each(to, a, b),
            }
        })
    }

    /// Has the elements of each word of a mask written: given the word, the number of its first element, and room for them. A loop over
    /// single elements would spend most of its time on where its bit is.
    fn fill_words(self, mask: &[u32], mut write: impl FnMut(u32, usize, &mut [MaybeUninit<T>])) -> Written<'a> {
        self.fill_blocks(|first, block| {
            let words = &mask[first / 32..][..block.len().div_ceil(32)];
            for ((to, &word), number) in block.chunks_mut(32).zip(words).zip(0..) {
                write(word, first + 32 * number, to);
            }
        })
    }

    /// Has blocks written, the first one at a multiple of [`BLOCK`].
    fn fill_blocks(self, mut write: impl FnMut(usize, &mut [MaybeUninit<T>])) -> Written<'a> {
        let len = self.len();
        if size_of_val(self.elements) < PAST_CACHES {
            write(0, self.elements);
            return Written { len, memory: self.memory };
        }
        let mut made = [const { MaybeUninit::<T>::uninit() }; BLOCK];
        for (to, first) in self.elements.chunks_mut(BLOCK).zip((0..).step_by(BLOCK)) {
            let made = &mut made[..to.len()];
            write(first, made);
            copy_past_caches(made, to);
        }
        fence();
        Written { len, memory: self.memory }
    }

    /// Writes each element, by its number, with several threads if there are many.
    pub fn fill_in_parallel(self, element: impl Fn(usize) -> T + Sync) -> Written<'a>
    where
        T: Send,
    {
        if self.len() <= TASK {
            return self.fill(element);
        }
        let Self { elements, memory } = self;
        let tasks = elements
            .par_chunks_mut(TASK)
            .enumerate()
            .map(|(task, elements)| Uninit { elements, memory }.fill(|i| element(task * TASK + i)));
        tasks.reduce(Written::default, Written::and)
    }

    /// Writes a copy of other elements.
    ///
    /// # Panics
    /// If they are more or fewer.
    pub fn copy(self, from: &[T]) -> Written<'a>
    where
        T: Copy,
    {
        // SAFETY: of the same size and alignment, and nothing is written to the elements.
        let elements = unsafe { &*(core::ptr::from_ref(from) as *const [MaybeUninit<T>]) };
        if size_of_val(from) < PAST_CACHES {
            self.elements.copy_from_slice(elements);
        } else {
            copy_past_caches(elements, self.elements);
            fence();
        }
        Written { len: from.len(), memory: self.memory }
    }
}

impl Written<'_> {
    /// Evidence of both. No element is written twice.
    pub fn and(self, other: Self) -> Self {
        Self { len: self.len + other.len, memory: self.memory }
    }
}

/// Copies elements to memory that nobody reads soon. Other threads may read it after a [`fence`].
///
/// Many bytes are written with non-temporal stores if the processor has them: such a store does not read the line that it
/// overwrites, and the lines of the staging memory stay in the caches, where the bus finds them.
///
/// # Panics
/// Where the lengths differ.
fn copy_past_caches<T>(from: &[MaybeUninit<T>], to: &mut [MaybeUninit<T>]) {
    assert_eq!(from.len(), to.len(), "the slices differ in length");
    let left = (size_of_val(from), from.as_ptr().cast::<u8>(), to.as_mut_ptr().cast::<u8>());
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let left = match left {
        // SAFETY: that many bytes at both addresses.
        (bytes, from, to) if bytes >= STREAMED => unsafe { stream(bytes, from, to) },
        few => few,
    };
    let (bytes, from, to) = left;
    // SAFETY: that many bytes are left, and the slices do not overlap.
    unsafe { to.copy_from_nonoverlapping(from, bytes) };
}

/// Completes non-temporal stores: other threads may read what was written.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: x86-64 has SSE.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}

/// The fewest bytes of a copy past the caches.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STREAMED: usize = 1 << 12;

/// Copies all bytes but the last few with non-temporal stores. Returns what is left to copy.
///
/// # Safety
/// That many bytes can be read at `from`, and written at `to`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn stream(bytes: usize, from: *const u8, to: *mut u8) -> (usize, *const u8, *mut u8) {
    /// Bytes of a cache line, which four stores fill together.
    const LINE: usize = 64;

    let head = to.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE;
    // SAFETY: within the bytes of the caller's contract. By assembly, since elements may have padding, which is no value that a
    // variable could hold. A prefetched address need not exist.
    unsafe {
        to.copy_from_nonoverlapping(from, head);
        let (from, to) = (from.add(head), to.add(head));
        let end = from.add(lines * LINE);
        if lines > 0 {
            core::arch::asm!(
                "2:",
                "prefetcht0 [{from} + 1024]",
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                "movntdq [{to}], {a}",
                "movntdq [{to} + 16], {b}",
                "movntdq [{to} + 32], {c}",
                "movntdq [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "cmp {from}, {end}",
                "jne 2b",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                end = in(reg) end,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
        (bytes - head - lines * LINE, end, to.add(lines * LINE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::out_of_memory;

    #[test]
    fn copies_of_every_length_and_alignment() {
        let from: Vec<u32> = (0..PAST_CACHES as u32 / 2).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
        for (start, length) in
            (0..20).flat_map(|start| [0, 1, 17, 1031, PAST_CACHES / 4, PAST_CACHES / 4 + 37].map(|n| (start, n)))
        {
            let mut to = vec![7; length + 40];
            replace(&mut to[20 - start..20 - start + length], |out| Ok(out.copy(&from[start..start + length])))
                .unwrap();
            assert_eq!(to[20 - start..20 - start + length], from[start..start + length]);
            assert!(to[..20 - start].iter().chain(&to[20 - start + length..]).all(|&word| word == 7));
        }
    }

    #[test]
    fn elements_with_padding_are_written_in_parts() {
        for len in [0, 1, 511, 512, 513, 3 * BLOCK + 5, 50_000] {
            let element = |i: usize| (i % 5 > 1).then_some((i as u64, i as u8));
            let all = made(len, |mut out| {
                let first = out.take_first(len / 3);
                let second = out.take_first(len / 7);
                let third = out.fill(|i| element(len / 3 + len / 7 + i));
                Ok(first.fill(element).and(second.fill(|i| element(len / 3 + i))).and(third))
            });
            assert!(all.unwrap().into_iter().eq((0..len).map(element)), "{len}");
        }
    }

    #[test]
    fn elements_of_masks_are_those_of_their_bits() {
        for len in [0, 1, 31, 32, 33, 3 * BLOCK + 5, 50_000] {
            let mask: Vec<u32> = (0..len as u32).step_by(32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
            let from: Vec<u64> = (0..len as u64).map(|i| i * i).collect();
            let bit = |i: usize| mask[i / 32] >> (i % 32) & 1 == 1;
            let all =
                made(len, |out| Ok(out.fill_masked(&mask, (&from, &vec![(); len]), |hit, a, ()| hit.then_some(a))));
            assert!(all.unwrap().into_iter().eq((0..len).map(|i| bit(i).then_some((i * i) as u64))), "{len}");
            let all = made(len, |out| Ok(out.fill_bits(&mask, |hit| hit)));
            assert!(all.unwrap().into_iter().eq((0..len).map(bit)), "{len}");
        }
    }

    #[test]
    fn a_failure_leaves_a_vector_as_it_was() {
        let mut all = Vec::with_capacity(9);
        all.push(7);
        let failed = append(&mut all, 8, |out| {
            let _ = out.fill(|i| i);
            Err(out_of_memory(8))
        });
        assert!(failed.is_err() && all == [7]);
        append(&mut all, 2, |out| Ok(out.fill(|i| i))).unwrap();
        assert_eq!(all, [7, 0, 1]);
    }

    #[test]
    #[should_panic(expected = "written in full")]
    fn missing_elements_are_noticed() {
        drop(made::<u8>(3, |_| Ok(Written::default())));
    }
}
