//! Loops of the CPU's, on all threads of the current rayon pool.
//!
//! rayon's own iterators are compiled anew, with their splitting, stealing and joining, for every chain and every type of
//! word: two thirds of the functions of a program that names many indexes. Here one loop, which is compiled once, hands out
//! parts of a range of numbers, by a dynamic call per part. [`Parallel`] is a thin layer above it with the names of rayon's
//! iterators, for items that are known by their number; what is compiled for a chain is the loop over a part.
//!
//! What a loop returns does not depend on the number of threads. If a call panics, the loop panics with the same payload,
//! once no other part runs any more.
//!
//! In a [forked](lanetree_runtime::is_forked) process the calling thread does all parts, since it has no others.

mod iter;
mod slice;
mod sort;
#[cfg(test)]
mod tests;

pub use iter::{IntoParallel, Parallel, PartIter};
pub use slice::{ParallelSlice, filled};
pub use sort::{sort_by_first, sort_by_word, sort_unstable_by};

use core::ops::Range;
use lanetree_runtime::is_forked;
pub use lanetree_runtime::threads;

/// Parts for each thread, so that those that end first have something to take over.
const PARTS: usize = 8;

/// The number of parts of a loop over `len` items, if each part has at least `min_len`.
fn parts(len: usize, min_len: usize) -> usize {
    // Before the threads are counted: that takes longer than a small batch.
    match len / min_len.max(1) {
        0 => len.min(1),
        1 => 1,
        most => match threads() {
            1 => 1,
            threads => most.min(PARTS * threads),
        },
    }
}

/// A loop over `0..len`, in parts: `body` is called with the number of each part, and its range.
struct Loop<'a> {
    len: usize,
    parts: usize,
    body: &'a (dyn Fn(usize, Range<usize>) + Sync),
}

impl Loop<'_> {
    /// Returns when all parts are done.
    ///
    /// # Panics
    /// As `body`.
    #[inline(never)]
    fn run(&self) {
        if self.parts > 0 {
            self.split(0..self.parts);
        }
    }

    fn split(&self, parts: Range<usize>) {
        if parts.len() == 1 {
            return (self.body)(parts.start, self.start(parts.start)..self.start(parts.end));
        }
        let middle = parts.start.midpoint(parts.end);
        // Not in a forked process, where there is one part.
        rayon::join(|| self.split(parts.start..middle), || self.split(middle..parts.end));
    }

    /// Where a part begins, as evenly as possible.
    fn start(&self, part: usize) -> usize {
        self.len / self.parts * part + part.min(self.len % self.parts)
    }
}

/// Does both, at the same time if there is a thread for it.
///
/// # Panics
/// As the one that panics.
pub fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    /// Compiled once.
    fn both(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        match is_forked() {
            true => (a(), b()),
            false => rayon::join(a, b),
        };
    }
    let (mut a, mut b) = (Some(a), Some(b));
    let (mut of_a, mut of_b) = (None, None);
    both(&mut || of_a = a.take().map(|a| a()), &mut || of_b = b.take().map(|b| b()));
    of_a.zip(of_b).expect("both have been called")
}

/// Does both, at the same time if there is a thread for it: `here` on the calling thread, so it may be bound to that.
///
/// # Panics
/// As the one that panics, once the other has returned.
pub fn beside<A: Send>(there: impl FnOnce() -> A + Send, here: impl FnOnce()) -> A {
    /// Compiled once.
    fn both(there: &mut (dyn FnMut() + Send), here: &mut dyn FnMut()) {
        match is_forked() {
            true => (there(), here()).0,
            false => rayon::in_place_scope(|scope| {
                scope.spawn(|_| there());
                here();
            }),
        }
    }
    let (mut there, mut here, mut of_there) = (Some(there), Some(here), None);
    both(&mut || of_there = there.take().map(|there| there()), &mut || here.take().into_iter().for_each(|here| here()));
    of_there.expect("it has been called")
}
