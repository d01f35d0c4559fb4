//! Items that are known by their number, and what is done with all of them.

use super::{Loop, ParallelSlice, parts};
use crate::room::{collected, push, with_room};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Items that threads take by their number: the indexed iterators of rayon, and the methods that bear the same names do the
/// same.
///
/// # Safety
/// Each number below [`Parallel::items`] can be taken once, whatever other threads take meanwhile. A part has one item for each
/// number of its range.
pub unsafe trait Parallel: Sync + Sized {
    /// What there is at each number.
    type Item: Send;
    /// The items of a part, in their order. An iterator that is a thread's own, so that the compiler knows that nothing else
    /// changes it: it vectorizes loops over it, but not those over a shared reference.
    type Part: Iterator<Item = Self::Item>;

    /// How many there are.
    fn items(&self) -> usize;

    /// The fewest of a part.
    fn min_len(&self) -> usize {
        1
    }

    /// The items of a range of numbers.
    ///
    /// # Safety
    /// The numbers are below [`Parallel::items`], and are taken once only. The part is not used after these items have moved or
    /// are dropped.
    unsafe fn part(&self, range: Range<usize>) -> Self::Part;

    /// In parts of at least `min_len` items, unless there are fewer in all.
    fn with_min_len(self, min_len: usize) -> MinLen<Self> {
        MinLen { items: self, min_len }
    }

    /// The results of a function for each item.
    fn map<R: Send, F: Fn(Self::Item) -> R + Sync>(self, f: F) -> Map<Self, F> {
        Map { items: self, f }
    }

    /// Copies of what references point to.
    fn copied<'a, T: Copy + Send + Sync + 'a>(self) -> impl Parallel<Item = T>
    where
        Self: Parallel<Item = &'a T>,
    {
        self.map(|item| *item)
    }

    /// Each with its number.
    fn enumerate(self) -> Enumerate<Self> {
        Enumerate(self)
    }

    /// Each with the one that has the same number elsewhere, as far as both have any.
    fn zip<P: IntoParallel>(self, other: P) -> Zip<Self, P::Iter> {
        Zip(self, other.into_par_iter())
    }

    /// Calls a function with each.
    fn for_each(self, f: impl Fn(Self::Item) + Sync) {
        let body = |_: usize, range: Range<usize>| {
            // SAFETY: below the number of items; parts are disjoint, and this one ends here.
            unsafe { self.part(range) }.for_each(&f);
        };
        let len = self.items();
        Loop { len, parts: parts(len, self.min_len()), body: &body }.run();
    }

    /// The results of a function for each part, in the order of the parts. How many parts there are depends on the number of
    /// threads.
    fn parts<R: Send>(self, of_part: impl Fn(PartIter<'_, Self>) -> R + Sync) -> Vec<R> {
        let len = self.items();
        let parts = parts(len, self.min_len());
        let mut all = Vec::<R>::with_capacity(parts);
        let to = Place(all.as_mut_ptr());
        let body = |part: usize, range: Range<usize>| {
            let start = range.start;
            // SAFETY: below the number of items; parts are disjoint, and this one's lifetime ends here.
            let made = of_part(PartIter { start, items: unsafe { self.part(range) }, borrow: PhantomData });
            // SAFETY: within the capacity; each part writes its own.
            unsafe { to.at(part).write(made) };
        };
        Loop { len, parts, body: &body }.run();
        // SAFETY: all parts are written. After a panic none counts.
        unsafe { all.set_len(parts) };
        all
    }

    /// As [`Parallel::parts`], for parts that are vectors: one with all of their elements.
    ///
    /// # Errors
    /// That of the first part that fails; [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for all.
    fn flat_parts<T: Send>(
        self,
        of_part: impl Fn(PartIter<'_, Self>) -> crate::Result<Vec<T>> + Sync,
    ) -> crate::Result<Vec<T>> {
        let mut parts = self.parts(of_part).into_iter().collect::<crate::Result<Vec<_>>>()?;
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        let mut all = with_room(parts.iter().map(Vec::len).sum())?;
        let to = Place(all.as_mut_ptr());
        let mut len = 0;
        let begin = |part: Vec<T>| {
            len += part.len();
            (len - part.len(), part)
        };
        let moves: Vec<_> = parts.into_iter().map(begin).collect();
        // In parallel: most of the time goes into the pages of new memory.
        moves.into_par_iter().for_each(|(start, mut part)| {
            // SAFETY: the part's elements move to a place of their own within the capacity, and it forgets them.
            unsafe {
                core::ptr::copy_nonoverlapping(part.as_ptr(), to.at(start), part.len());
                part.set_len(0);
            }
        });
        // SAFETY: `len` items have been moved there.
        unsafe { all.set_len(len) };
        Ok(all)
    }

    /// All, in their order: for few. [`Parallel::try_collect`] is for as many as a batch or an index has.
    fn collect(self) -> Vec<Self::Item> {
        let mut all = Vec::new();
        self.collect_into_vec(&mut all);
        all
    }

    /// All, in their order.
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for them.
    fn try_collect(self) -> crate::Result<Vec<Self::Item>> {
        let mut all = with_room(self.items())?;
        self.write_into(&mut all);
        Ok(all)
    }

    /// [`Parallel::collect`] in place of what is in a vector.
    fn collect_into_vec(self, all: &mut Vec<Self::Item>) {
        all.clear();
        all.reserve(self.items());
        self.write_into(all);
    }

    /// The results of a function for each item, which may fail.
    ///
    /// # Errors
    /// As [`Parallel::try_collect`]; and one of the function's.
    fn try_map_collect<T: Send>(self, f: impl Fn(Self::Item) -> crate::Result<T> + Sync) -> crate::Result<Vec<T>> {
        self.flat_parts(|items| {
            let mut all = with_room(items.size_hint().0)?;
            for item in items {
                push(&mut all, f(item)?)?;
            }
            Ok(all)
        })
    }

    /// All, in their order, into an empty vector that has room for them.
    #[doc(hidden)]
    fn write_into(self, all: &mut Vec<Self::Item>) {
        let len = self.items();
        assert!(all.is_empty() && all.capacity() >= len);
        let to = Place(all.as_mut_ptr());
        let body = |_: usize, range: Range<usize>| {
            // SAFETY: within the capacity.
            let mut at = unsafe { to.at(range.start) };
            // SAFETY: below the number of items; parts are disjoint, and this one ends here.
            unsafe { self.part(range) }.for_each(|item| {
                // SAFETY: there is room for each item of the part, and nobody else writes there.
                unsafe {
                    at.write(item);
                    at = at.add(1);
                }
            });
        };
        Loop { len, parts: parts(len, self.min_len()), body: &body }.run();
        // SAFETY: all have been written. After a panic none counts.
        unsafe { all.set_len(len) };
    }

    /// Both sides of pairs.
    ///
    /// # Errors
    /// As [`Parallel::try_collect`].
    fn try_unzip<A: Send, B: Send>(self) -> crate::Result<(Vec<A>, Vec<B>)>
    where
        Self: Parallel<Item = (A, B)>,
    {
        let len = self.items();
        let (mut left, mut right) = (with_room::<A>(len)?, with_room::<B>(len)?);
        let (left_room, right_room) = (&mut left.spare_capacity_mut()[..len], &mut right.spare_capacity_mut()[..len]);
        left_room.par_iter_mut().zip(right_room).zip(self).for_each(|((to_left, to_right), (a, b))| {
            to_left.write(a);
            to_right.write(b);
        });
        // SAFETY: all have been written. After a panic none counts.
        unsafe {
            left.set_len(len);
            right.set_len(len);
        }
        Ok((left, right))
    }

    /// The results of a function that are `Some`, in the order of the items.
    ///
    /// # Errors
    /// As [`Parallel::try_collect`].
    fn filter_map_collect<T: Send>(self, f: impl Fn(Self::Item) -> Option<T> + Sync) -> crate::Result<Vec<T>> {
        self.flat_parts(|items| collected(items.filter_map(&f)))
    }

    /// The items for which a function returns `true`, in their order.
    ///
    /// # Errors
    /// As [`Parallel::try_collect`].
    fn filter_collect(self, f: impl Fn(&Self::Item) -> bool + Sync) -> crate::Result<Vec<Self::Item>> {
        self.flat_parts(|items| collected(items.filter(&f)))
    }

    /// The elements of all results of a function, in the order of the items.
    ///
    /// # Errors
    /// As [`Parallel::try_collect`].
    fn flat_map_collect<I: IntoIterator<Item: Send>>(
        self,
        f: impl Fn(Self::Item) -> I + Sync,
    ) -> crate::Result<Vec<I::Item>> {
        self.flat_parts(|items| collected(items.flat_map(&f)))
    }

    /// All combined, in their order, where `identity` does not change what it is combined with.
    fn reduce(
        self,
        identity: impl Fn() -> Self::Item + Sync,
        op: impl Fn(Self::Item, Self::Item) -> Self::Item + Sync,
    ) -> Self::Item {
        self.parts(|items| items.fold(identity(), &op)).into_iter().fold(identity(), &op)
    }

    /// The sum of numbers.
    fn sum<S: Send + core::iter::Sum<Self::Item> + core::iter::Sum<S>>(self) -> S {
        self.parts(|items| items.sum::<S>()).into_iter().sum()
    }

    /// The number of items for which a function returns `true`.
    fn count_if(self, f: impl Fn(&Self::Item) -> bool + Sync) -> usize {
        self.parts(|items| items.filter(&f).count()).into_iter().sum()
    }

    /// The largest.
    fn max(self) -> Option<Self::Item>
    where
        Self::Item: Ord,
    {
        self.parts(|items| items.max()).into_iter().flatten().max()
    }

    /// The first result of a function that is `Some`. The function may be called with later items, too.
    fn find_map_first<R: Send>(self, f: impl Fn(Self::Item) -> Option<R> + Sync) -> Option<R> {
        // Where the first part begins that has found something; others that begin later need not search.
        let first = AtomicUsize::new(usize::MAX);
        let found = self.parts(|mut items| {
            let start = items.start;
            // A number only: the threads hand one another nothing by it.
            if first.load(Ordering::Relaxed) < start {
                return None;
            }
            items.find_map(&f).inspect(|_| _ = first.fetch_min(start, Ordering::Relaxed))
        });
        found.into_iter().flatten().next()
    }

    /// The first item for which a function returns `true`. The function may be called with later items, too.
    fn find_first(self, f: impl Fn(&Self::Item) -> bool + Sync) -> Option<Self::Item> {
        self.find_map_first(|item| f(&item).then_some(item))
    }

    /// The number of the first item for which a function returns `true`. The function may be called with later items, too.
    fn position_first(self, f: impl Fn(Self::Item) -> bool + Sync) -> Option<usize> {
        self.enumerate().find_map_first(|(index, item)| f(item).then_some(index))
    }

    /// Whether a function returns `true` for any item. It need not be called with all.
    fn any(self, f: impl Fn(Self::Item) -> bool + Sync) -> bool {
        self.find_map_first(|item| f(item).then_some(())).is_some()
    }

    /// Whether a function returns `true` for all items. It need not be called with all.
    fn all(self, f: impl Fn(Self::Item) -> bool + Sync) -> bool {
        !self.any(|item| !f(item))
    }

    /// Calls a function with each, unless it fails.
    ///
    /// # Errors
    /// That of the first item for which it fails. It may be called with later ones, too.
    fn try_for_each<E: Send>(self, f: impl Fn(Self::Item) -> Result<(), E> + Sync) -> Result<(), E> {
        self.find_map_first(|item| f(item).err()).map_or(Ok(()), Err)
    }
}

/// What can be made [`Parallel`].
pub trait IntoParallel {
    /// What there is at each number.
    type Item: Send;
    /// As which.
    type Iter: Parallel<Item = Self::Item>;

    /// Makes it so.
    fn into_par_iter(self) -> Self::Iter;
}

impl<P: Parallel> IntoParallel for P {
    type Item = P::Item;
    type Iter = P;

    fn into_par_iter(self) -> P {
        self
    }
}

/// Where threads write different elements.
#[derive(Clone, Copy)]
pub(super) struct Place<T>(pub(super) *mut T);

// SAFETY: only an address. Who writes there says why.
unsafe impl<T: Send> Send for Place<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Place<T> {}

impl<T> Place<T> {
    /// The address of an element.
    ///
    /// # Safety
    /// It is within the allocation.
    #[inline]
    pub(super) unsafe fn at(&self, index: usize) -> *mut T {
        // SAFETY: the caller's contract.
        unsafe { self.0.add(index) }
    }
}

/// The items of a part, in their order.
pub struct PartIter<'a, P: Parallel> {
    /// The number of the first one.
    start: usize,
    items: P::Part,
    borrow: PhantomData<&'a P>,
}

impl<P: Parallel> Iterator for PartIter<'_, P> {
    type Item = P::Item;

    #[inline]
    fn next(&mut self) -> Option<P::Item> {
        self.items.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
    #[inline]
    fn fold<B, F: FnMut(B, P::Item) -> B>(self, init: B, f: F) -> B {
        self.items.fold(init, f)
    }
}

/// The items of a loop, in parts of a least length: what [`Parallel::with_min_len`] returns.
#[derive(Debug)]
pub struct MinLen<P> {
    items: P,
    min_len: usize,
}

// SAFETY: an item keeps its number.
unsafe impl<P: Parallel> Parallel for MinLen<P> {
    type Item = P::Item;
    type Part = P::Part;

    fn items(&self) -> usize {
        self.items.items()
    }
    fn min_len(&self) -> usize {
        self.min_len
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> P::Part {
        // SAFETY: the caller's contract.
        unsafe { self.items.part(range) }
    }
}

/// The items of a loop after a function: what [`Parallel::map`] returns.
#[derive(Debug)]
pub struct Map<P, F> {
    items: P,
    f: F,
}

// SAFETY: an item keeps its number.
unsafe impl<P: Parallel, R: Send, F: Fn(P::Item) -> R + Sync> Parallel for Map<P, F> {
    type Item = R;
    type Part = MapPart<P::Part, F>;

    fn items(&self) -> usize {
        self.items.items()
    }
    fn min_len(&self) -> usize {
        self.items.min_len()
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> Self::Part {
        // SAFETY: the caller's contract.
        MapPart { items: unsafe { self.items.part(range) }, f: &raw const self.f }
    }
}

/// A part of the results of a function.
pub struct MapPart<I, F> {
    items: I,
    /// The function of the [`Map`], which outlives its parts by the contract of [`Parallel::part`]: a reference would give all
    /// parts a lifetime.
    f: *const F,
}

impl<I: Iterator, R, F: Fn(I::Item) -> R> Iterator for MapPart<I, F> {
    type Item = R;

    #[inline]
    fn next(&mut self) -> Option<R> {
        // SAFETY: see the field.
        self.items.next().map(unsafe { &*self.f })
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
    #[inline]
    fn fold<B, G: FnMut(B, R) -> B>(self, init: B, g: G) -> B {
        // SAFETY: see the field.
        self.items.map(unsafe { &*self.f }).fold(init, g)
    }
}

/// The items of a loop with their numbers: what [`Parallel::enumerate`] returns.
#[derive(Debug)]
pub struct Enumerate<P>(P);

// SAFETY: an item keeps its number.
unsafe impl<P: Parallel> Parallel for Enumerate<P> {
    type Item = (usize, P::Item);
    type Part = core::iter::Zip<Range<usize>, P::Part>;

    fn items(&self) -> usize {
        self.0.items()
    }
    fn min_len(&self) -> usize {
        self.0.min_len()
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> Self::Part {
        // SAFETY: the caller's contract.
        range.clone().zip(unsafe { self.0.part(range) })
    }
}

/// The items of two loops in pairs: what [`Parallel::zip`] returns.
#[derive(Debug)]
pub struct Zip<A, B>(A, B);

// SAFETY: an item's number is the same in both.
unsafe impl<A: Parallel, B: Parallel> Parallel for Zip<A, B> {
    type Item = (A::Item, B::Item);
    type Part = core::iter::Zip<A::Part, B::Part>;

    fn items(&self) -> usize {
        self.0.items().min(self.1.items())
    }
    fn min_len(&self) -> usize {
        self.0.min_len().max(self.1.min_len())
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> Self::Part {
        // SAFETY: the caller's contract.
        unsafe { self.0.part(range.clone()).zip(self.1.part(range)) }
    }
}

/// The elements of a vector, by value. What nobody takes is not dropped: after a panic, or past the end of a
/// [`zip`](Parallel::zip).
#[derive(Debug)]
pub struct Owned<T>(Vec<ManuallyDrop<T>>);

// SAFETY: a shared reference gives each element to one thread.
unsafe impl<T: Send> Sync for Owned<T> {}

// SAFETY: each number is an element.
unsafe impl<T: Send> Parallel for Owned<T> {
    type Item = T;
    type Part = OwnedPart<T>;

    fn items(&self) -> usize {
        self.0.len()
    }
    #[inline]
    unsafe fn part(&self, range: Range<usize>) -> OwnedPart<T> {
        OwnedPart { elements: self.0.as_ptr().cast(), range }
    }
}

/// A part of a vector's elements, by value.
pub struct OwnedPart<T> {
    elements: *const T,
    range: Range<usize>,
}

impl<T> Iterator for OwnedPart<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        // SAFETY: the contract of `Parallel::part`: within the vector, which is there, and nobody reads or drops it again.
        self.range.next().map(|index| unsafe { self.elements.add(index).read() })
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl<T: Send> IntoParallel for Vec<T> {
    type Item = T;
    type Iter = Owned<T>;

    fn into_par_iter(self) -> Owned<T> {
        let mut own = ManuallyDrop::new(self);
        // SAFETY: a vector's parts, which nobody else owns any more; `ManuallyDrop` has its content's layout.
        Owned(unsafe { Vec::from_raw_parts(own.as_mut_ptr().cast(), own.len(), own.capacity()) })
    }
}

/// The numbers of a range, which are no more than a `usize` can count.
#[derive(Debug)]
pub struct Numbers<N>(Range<N>);

/// Implements the traits for a type of number.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        // SAFETY: numbers, which have no owner.
        unsafe impl Parallel for Numbers<$number> {
            type Item = $number;
            type Part = Range<$number>;

            fn items(&self) -> usize {
                self.0.end.saturating_sub(self.0.start) as usize
            }
            #[inline]
            unsafe fn part(&self, range: Range<usize>) -> Range<$number> {
                self.0.start + range.start as $number..self.0.start + range.end as $number
            }
        }

        impl IntoParallel for Range<$number> {
            type Item = $number;
            type Iter = Numbers<$number>;

            fn into_par_iter(self) -> Numbers<$number> {
                Numbers(self)
            }
        }
    )*};
}

numbers!(usize, u64, u32);
