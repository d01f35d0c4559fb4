//! Slices, and pieces of them.

use super::iter::{IntoParallel, Parallel, Place};
use crate::Result;
use crate::room::with_room;
use core::marker::PhantomData;
use core::ops::Range;

/// Loops over slices: the methods of rayon with these names.
pub trait ParallelSlice<T> {
    /// Its elements.
    fn par_iter(&self) -> Iter<'_, T>
    where
        T: Sync;

    /// Its elements, to write.
    fn par_iter_mut(&mut self) -> IterMut<'_, T>
    where
        T: Send;

    /// Pieces of a length, but for the last one, which may be shorter.
    ///
    /// # Panics
    /// If the length is 0.
    fn par_chunks(&self, len: usize) -> Chunks<'_, T>
    where
        T: Sync;

    /// Pieces of a length, to write, but for the last one, which may be shorter.
    ///
    /// # Panics
    /// If the length is 0.
    fn par_chunks_mut(&mut self, len: usize) -> ChunksMut<'_, T>
    where
        T: Send;

    /// Pieces of a length, to write, as far as there are whole ones.
    ///
    /// # Panics
    /// If the length is 0.
    fn par_chunks_exact_mut(&mut self, len: usize) -> ChunksMut<'_, T>
    where
        T: Send;

    /// All windows of `len` adjacent elements, overlapping, from the first element on.
    ///
    /// # Panics
    /// If the number is 0.
    fn par_windows(&self, len: usize) -> Windows<'_, T>
    where
        T: Sync;
}

impl<T> ParallelSlice<T> for [T] {
    fn par_iter(&self) -> Iter<'_, T>
    where
        T: Sync,
    {
        Iter(self)
    }
    fn par_iter_mut(&mut self) -> IterMut<'_, T>
    where
        T: Send,
    {
        IterMut { elements: Place(self.as_mut_ptr()), len: self.len(), _borrow: PhantomData }
    }
    fn par_chunks(&self, len: usize) -> Chunks<'_, T>
    where
        T: Sync,
    {
        assert!(len > 0, "pieces of no elements");
        Chunks { elements: self, len }
    }
    fn par_chunks_mut(&mut self, len: usize) -> ChunksMut<'_, T>
    where
        T: Send,
    {
        assert!(len > 0, "pieces of no elements");
        ChunksMut { elements: self.par_iter_mut(), len }
    }
    fn par_chunks_exact_mut(&mut self, len: usize) -> ChunksMut<'_, T>
    where
        T: Send,
    {
        assert!(len > 0, "pieces of no elements");
        let whole = self.len() - self.len() % len;
        self[..whole].par_chunks_mut(len)
    }
    fn par_windows(&self, len: usize) -> Windows<'_, T>
    where
        T: Sync,
    {
        assert!(len > 0, "pieces of no elements");
        Windows { elements: self, len }
    }
}

/// References to a slice's elements: what [`ParallelSlice::par_iter`] returns.
#[derive(Debug)]
pub struct Iter<'a, T>(&'a [T]);

// SAFETY: each number is an element.
unsafe impl<'a, T: Sync> Parallel for Iter<'a, T> {
    type Item = &'a T;
    type Part = core::slice::Iter<'a, T>;

    fn items(&self) -> usize {
        self.0.len()
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> Self::Part {
        self.0[range].iter()
    }
}

/// Mutable references to a slice's elements: what [`ParallelSlice::par_iter_mut`] returns.
pub struct IterMut<'a, T> {
    elements: Place<T>,
    len: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: a shared reference gives each element to one thread.
unsafe impl<T: Send> Sync for IterMut<'_, T> {}

// SAFETY: each number is an element.
unsafe impl<'a, T: Send> Parallel for IterMut<'a, T> {
    type Item = &'a mut T;
    type Part = core::slice::IterMut<'a, T>;

    fn items(&self) -> usize {
        self.len
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> Self::Part {
        // SAFETY: the caller's contract: within the borrowed slice, and nobody else takes these elements.
        unsafe { core::slice::from_raw_parts_mut(self.elements.at(range.start), range.len()) }.iter_mut()
    }
}

/// Chunks of a slice: what [`ParallelSlice::par_chunks`] returns.
#[derive(Debug)]
pub struct Chunks<'a, T> {
    elements: &'a [T],
    len: usize,
}

// SAFETY: each number is a piece.
unsafe impl<'a, T: Sync> Parallel for Chunks<'a, T> {
    type Item = &'a [T];
    type Part = core::slice::Chunks<'a, T>;

    fn items(&self) -> usize {
        self.elements.len().div_ceil(self.len)
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> Self::Part {
        self.elements[elements(range, self.len, self.elements.len())].chunks(self.len)
    }
}

/// Mutable chunks of a slice: what [`ParallelSlice::par_chunks_mut`] returns.
pub struct ChunksMut<'a, T> {
    elements: IterMut<'a, T>,
    len: usize,
}

// SAFETY: each number is a piece, apart from the others.
unsafe impl<'a, T: Send> Parallel for ChunksMut<'a, T> {
    type Item = &'a mut [T];
    type Part = core::slice::ChunksMut<'a, T>;

    fn items(&self) -> usize {
        self.elements.len.div_ceil(self.len)
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> Self::Part {
        // SAFETY: the caller's contract: nobody else takes these pieces, so nobody takes their elements.
        let elements = unsafe { self.elements.part(elements(range, self.len, self.elements.len)) };
        elements.into_slice().chunks_mut(self.len)
    }
}

/// The elements of pieces of `len` elements each, out of `all`.
fn elements(pieces: Range<usize>, len: usize, all: usize) -> Range<usize> {
    // Not past the end, where a product of the length could overflow.
    let end = if pieces.end == all.div_ceil(len) { all } else { pieces.end * len };
    pieces.start * len..end
}

/// Overlapping windows of a slice: what [`ParallelSlice::par_windows`] returns.
#[derive(Debug)]
pub struct Windows<'a, T> {
    elements: &'a [T],
    len: usize,
}

// SAFETY: each number is a piece.
unsafe impl<'a, T: Sync> Parallel for Windows<'a, T> {
    type Item = &'a [T];
    type Part = core::slice::Windows<'a, T>;

    fn items(&self) -> usize {
        (self.elements.len() + 1).saturating_sub(self.len)
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> Self::Part {
        self.elements[range.start..range.end + self.len - 1].windows(self.len)
    }
}

impl<'a, T: Sync> IntoParallel for &'a [T] {
    type Item = &'a T;
    type Iter = Iter<'a, T>;

    fn into_par_iter(self) -> Iter<'a, T> {
        self.par_iter()
    }
}

impl<'a, T: Sync> IntoParallel for &'a Vec<T> {
    type Item = &'a T;
    type Iter = Iter<'a, T>;

    fn into_par_iter(self) -> Iter<'a, T> {
        self.par_iter()
    }
}

impl<'a, T: Send> IntoParallel for &'a mut [T] {
    type Item = &'a mut T;
    type Iter = IterMut<'a, T>;

    fn into_par_iter(self) -> IterMut<'a, T> {
        self.par_iter_mut()
    }
}

/// Elements that a thread fills at a time: fewer take less time than to wake it.
const FILL: usize = 1 << 15;

/// So many copies of a value. Several threads write many of them, since the pages of new memory take most of the time.
///
/// # Errors
/// As [`with_room`](crate::room::with_room).
pub fn filled<T: Copy + Send + Sync>(value: T, len: usize) -> Result<Vec<T>> {
    let mut all = with_room(len)?;
    all.spare_capacity_mut()[..len].par_chunks_mut(FILL).for_each(|part| {
        for to in part {
            to.write(value);
        }
    });
    // SAFETY: all have been written.
    unsafe { all.set_len(len) };
    Ok(all)
}
