//! The build: intervals are brought into order, and maxima and links made of their ends.

use crate::layout::{FANOUT, Level};
use crate::search::link;
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Simt, kernel_args};

kernel_args! {
    /// Arguments of [`Check`].
    pub struct CheckArgs<K> {
        /// In the caller's form: `[count]`.
        pub starts: Global<K>,
        /// In the caller's form: `[count]`.
        pub ends: Global<K>,
        /// How many intervals.
        pub count: u64,
        /// In and out: `[1]`, lowered to the first interval whose end is below its start.
        pub reversed: GlobalMut<u64>,
        /// What the caller's form is xored with.
        pub flip: K,
    }
}

/// Looks for intervals that end before they start. One thread per interval; any block.
#[derive(Debug)]
pub struct Check<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Check<K> {
    type Args = CheckArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is an interval; the finding is accessed atomically only.
            unsafe {
                let start = simt.load(args.starts, index, Hint::Streaming).xor(args.flip);
                let end = simt.load(args.ends, index, Hint::Streaming).xor(args.flip);
                if end < start {
                    simt.atomic_min(args.reversed, 0, index, Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Mark`].
    pub struct MarkArgs<K> {
        /// Ascending: `[count]`.
        pub keys: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the position of each key that differs from the one before; 0 for others.
        pub marks: GlobalMut<u32>,
    }
}

/// Marks where runs of equal keys begin: the running maxima of the marks are the beginning of each key's run. One thread per key;
/// any block.
#[derive(Debug)]
pub struct Mark<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Mark<K> {
    type Args = MarkArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a key, and so is the one before, if it is not the first.
            unsafe {
                let mut mark = index as u32;
                if index > 0 {
                    let key = simt.load(args.keys, index, Hint::ReadOnly);
                    mark = if simt.load(args.keys, index - 1, Hint::ReadOnly) == key { 0 } else { mark };
                }
                simt.store(args.marks, index, mark, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Turn`].
    pub struct TurnArgs<K> {
        /// In the caller's form: `[count]`.
        pub starts: Global<K>,
        /// The intervals in ascending order of their ends: `[count]`.
        pub order: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the starts in reverse order.
        pub out_starts: GlobalMut<K>,
        /// Out: `[count]`, the intervals in reverse order.
        pub out_order: GlobalMut<u32>,
    }
}

/// Brings intervals into descending order of their ends, for a stable sort by their starts. One thread per interval; any block.
#[derive(Debug)]
pub struct Turn<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Turn<K> {
    type Args = TurnArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: the order consists of intervals.
            unsafe {
                let interval = simt.load(args.order, args.count - 1 - index, Hint::Streaming);
                let start = simt.load(args.starts, u64::from(interval), Hint::ReadOnly);
                simt.store(args.out_starts, index, start, Hint::Default);
                simt.store(args.out_order, index, interval, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Arrange`].
    pub struct ArrangeArgs<K, V> {
        /// In the caller's form: `[count]`.
        pub ends: Global<K>,
        /// The intervals' rows: `[count]`; null if they are the intervals' numbers.
        pub rows: Global<V>,
        /// The intervals in the order of the index: `[count]`.
        pub order: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, their ends as order-preserving words.
        pub out_ends: GlobalMut<K>,
        /// Out: `[count]`, their rows.
        pub out_rows: GlobalMut<V>,
        /// Out: `[count]`, their positions.
        pub positions: GlobalMut<u32>,
        /// What the caller's form is xored with.
        pub flip: K,
    }
}

/// Brings ends and rows into the order of the index. One thread per interval; any block.
#[derive(Debug)]
pub struct Arrange<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: KeyWord> Kernel for Arrange<K, V> {
    type Args = ArrangeArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: the order consists of intervals.
            unsafe {
                let interval = u64::from(simt.load(args.order, index, Hint::Streaming));
                let end = simt.load(args.ends, interval, Hint::ReadOnly).xor(args.flip);
                simt.store(args.out_ends, index, end, Hint::Default);
                let mut row = V::truncate(interval);
                if !args.rows.is_null() {
                    row = simt.load(args.rows, interval, Hint::ReadOnly);
                }
                simt.store(args.out_rows, index, row, Hint::Default);
                simt.store(args.positions, index, index as u32, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Raise`].
    pub struct RaiseArgs<K> {
        /// In and out: the ends and the maxima above them.
        pub ends: GlobalMut<K>,
        /// Where the level below begins.
        pub begin: u64,
        /// How many words it has; the level that is made comes after it.
        pub len: u64,
    }
}

/// Makes a level of maxima. One thread per word; any block.
#[derive(Debug)]
pub struct Raise<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Raise<K> {
    type Args = RaiseArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let first = index * FANOUT;
        if first < args.len {
            let end = (first + FANOUT).min(args.len);
            let mut largest = K::MIN;
            let mut at = first;
            // SAFETY: words of the level below, which this launch only reads, and one of the level above.
            unsafe {
                while at < end {
                    largest = largest.max(simt.load(args.ends.as_const(), args.begin + at, Hint::Default));
                    at += 1;
                }
                simt.store(args.ends, args.begin + args.len + index, largest, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Link`].
    pub struct LinkArgs<K> {
        /// The ends and the maxima above them.
        pub ends: Global<K>,
        /// How many intervals.
        pub len: u64,
        /// Out: `[len]`.
        pub links: GlobalMut<u32>,
    }
}

/// Makes links. One thread per interval; any block.
#[derive(Debug)]
pub struct Link<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Link<K> {
    type Args = LinkArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.len {
            // SAFETY: the search reads words of the levels.
            let link = link(args.len, index as u32, |at| unsafe { simt.load(args.ends, at, Hint::ReadOnly) });
            // SAFETY: `index` is an interval.
            unsafe { simt.store(args.links, index, link, Hint::Default) };
        }
    }
}

impl<K> RaiseArgs<K> {
    /// The level above one.
    pub const fn above(ends: GlobalMut<K>, below: Level) -> Self {
        Self { ends, begin: below.begin, len: below.len }
    }
}
