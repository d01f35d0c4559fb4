//! Batches in pieces, and the results of each piece.

use super::Lengths;
use crate::uninit::{Uninit, Written};
use bytemuck::Pod;
use lanetree_simt::GlobalMut;

/// Queries that can be split, and written in the form that kernels read.
pub trait Queries: Copy + Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;
    /// The bytes that [`Queries::write`] writes, or slightly more; for several pieces about the sum of theirs. Batches
    /// are split into pieces by it.
    fn bytes(&self) -> usize;
    /// The bytes that [`Queries::write`] writes.
    fn staged_bytes(&self) -> usize {
        self.bytes()
    }
    /// Splits into the first queries and the others.
    fn split(&self, at: usize) -> (Self, Self);
    /// Writes them, from an 8-byte boundary on, into exactly the bytes that they take.
    fn write(&self, to: &mut [u8]);
}

impl<K: Pod + Send + Sync> Queries for &[K] {
    fn count(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        size_of_val(*self)
    }

    fn split(&self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }

    fn write(&self, to: &mut [u8]) {
        to.copy_from_slice(bytemuck::cast_slice(self));
    }
}

/// The bytes of a query's result in each array of results, and how many bit arrays follow these; the hit mask is the
/// first one.
#[derive(Clone, Copy, Debug)]
pub struct Results {
    /// Bytes of an element of each array; 0: there is none.
    pub arrays: [usize; 2],
    /// Arrays of bits, of which the first one is the hit mask.
    pub bits: usize,
    /// Bytes of the device's memory for each query that do not come back: between a piece's kernels, or for what nobody wants.
    pub scratch: usize,
}

impl Results {
    /// Without memory that does not come back.
    pub fn new(arrays: [usize; 2], bits: usize) -> Self {
        Self { arrays, bits, scratch: 0 }
    }

    /// Where each array begins, in bytes, for `count` queries. Whole lines.
    fn offsets(&self, count: usize) -> [usize; 4] {
        let first = line(count * self.arrays[0]);
        let second = first + line(count * self.arrays[1]);
        [0, first, second, second + self.bits_bytes(count)]
    }

    /// Where all of them end.
    pub(super) fn end(&self, count: usize) -> usize {
        self.offsets(count)[2] + self.bits * self.bits_bytes(count)
    }

    fn bits_bytes(&self, count: usize) -> usize {
        line(count.div_ceil(32) * 4)
    }

    /// The arrays of results from an address on.
    pub(super) fn addresses(&self, output: GlobalMut<u8>, count: usize) -> Addresses {
        let offsets = self.offsets(count);
        let at = |offset: usize| output.byte_add(offset as u64);
        let bits = |array: usize| if array < self.bits { at(offsets[2 + array]).cast() } else { GlobalMut::null() };
        let arrays = [at(offsets[0]), at(offsets[1])];
        Addresses { arrays, hits: bits(0), pending: bits(1), scratch: GlobalMut::null() }
    }
}

fn line(bytes: usize) -> usize {
    bytes.next_multiple_of(128)
}

/// Addresses of the arrays of a piece's results; null for bits that are not wanted.
#[derive(Clone, Copy)]
pub struct Addresses {
    /// The arrays.
    pub arrays: [GlobalMut<u8>; 2],
    /// The hit mask; null if there is none.
    pub hits: GlobalMut<u32>,
    /// The second array of bits.
    pub pending: GlobalMut<u32>,
    /// The memory between kernels; null if there is none.
    pub scratch: GlobalMut<u8>,
}

/// A piece's results, in main memory.
pub struct Piece<'a, Q> {
    /// What they are for.
    pub queries: Q,
    /// The number of the first of them in the batch.
    pub first: usize,
    bytes: &'a [u8],
    offsets: [usize; 4],
    results: Results,
}

impl<'a, Q: Queries> Piece<'a, Q> {
    pub(super) fn new(first: usize, queries: Q, bytes: &'a [u8], results: Results) -> Self {
        Self { queries, first, bytes, offsets: results.offsets(queries.count()), results }
    }

    /// The elements of an array.
    pub fn array<T: Pod>(&self, array: usize) -> &[T] {
        let (start, count) = (self.offsets[array], self.queries.count());
        if size_of::<T>() == 0 {
            // Of bytes that there are not, nobody can tell how many elements they are. This allocates nothing.
            return Vec::leak(vec![T::zeroed(); count]);
        }
        bytemuck::cast_slice(&self.bytes[start..start + count * size_of::<T>()])
    }

    /// The words of a bit array; none if it was not requested.
    pub fn bits(&self, array: usize) -> &[u32] {
        if array >= self.results.bits {
            return &[];
        }
        let start = self.offsets[2 + array];
        bytemuck::cast_slice(&self.bytes[start..start + self.queries.count().div_ceil(32) * 4])
    }

    /// Writes each query's result, which is made of the elements of the first array, if it was found.
    pub fn found<'o, A: Pod, T>(&self, out: Uninit<'o, Option<T>>, result: impl Fn(A) -> T) -> Written<'o> {
        let count = self.queries.count();
        out.fill_masked(self.bits(0), (self.array::<A>(0), &vec![(); count]), |hit, a, ()| hit.then(|| result(a)))
    }

    /// The same of the elements of both arrays.
    pub fn found_both<'o, A: Pod, B: Pod, T>(
        &self,
        out: Uninit<'o, Option<T>>,
        result: impl Fn(A, B) -> T,
    ) -> Written<'o> {
        let both = (self.array::<A>(0), self.array::<B>(1));
        out.fill_masked(self.bits(0), both, |hit, a, b| hit.then(|| result(a, b)))
    }
}

/// A bit of an array of bits.
#[inline]
pub fn is_set(bits: &[u32], query: usize) -> bool {
    bits[query / 32] >> (query % 32) & 1 == 1
}

/// The rest of a batch; threads take pieces from its front.
pub(super) struct Rest<'a, Q, T> {
    pub(super) queries: Q,
    pub(super) out: Uninit<'a, T>,
    /// The number of the first query.
    pub(super) first: usize,
    /// Short pieces to hand out first.
    pub(super) short: usize,
}

/// A piece's queries, the number of the first one, and where their results go.
pub(super) struct Taken<'a, Q, T> {
    pub(super) queries: Q,
    pub(super) first: usize,
    pub(super) out: Uninit<'a, T>,
}

impl<'a, Q: Queries, T> Rest<'a, Q, T> {
    /// The next piece, for one of that many threads.
    pub(super) fn take(&mut self, threads: usize, lengths: Lengths) -> Option<Taken<'a, Q, T>> {
        let left = self.queries.count();
        if left == 0 {
            return None;
        }
        let even = (left / (2 * threads)).next_multiple_of(32);
        let length = if self.short > 0 { lengths.short } else { even.clamp(lengths.short, lengths.long) };
        self.short = self.short.saturating_sub(1);
        let (queries, more_queries) = self.queries.split(self.fitting(length.min(left), lengths.bytes));
        self.queries = more_queries;
        let first = self.first;
        self.first += queries.count();
        Some(Taken { queries, first, out: self.out.take_first(queries.count()) })
    }

    /// How many queries, of the first `most`, fit into a number of bytes; at least one.
    fn fitting(&self, most: usize, bytes: usize) -> usize {
        let fits = |count: usize| self.queries.split(count).0.bytes() <= bytes;
        if fits(most) {
            return most;
        }
        // `fewest` queries fit (one query may not), and `most` do not.
        let (mut fewest, mut most) = (1, most);
        while most - fewest > 1 {
            let middle = fewest.midpoint(most);
            if fits(middle) {
                fewest = middle;
            } else {
                most = middle;
            }
        }
        fewest
    }

    /// Leaves nothing.
    pub(super) fn give_up(&mut self) {
        self.queries = self.queries.split(0).0;
    }
}
