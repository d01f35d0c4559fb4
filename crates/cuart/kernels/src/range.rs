//! Ranges gathered: the leaves of spans of ranks, their values and keys, one after another.

use crate::get::value_word;
use crate::layout::Link;
use crate::tree::TreeRef;
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, Word, instance, kernel_args};

kernel_args! {
    /// Arguments of [`Measure`].
    pub struct MeasureArgs {
        /// In and out: spans of ranks, first and end one after another: `[2 * count]`. They may hold anything: both are
        /// clipped to `len`, an end before the first becomes the first, and an end past the limit is moved to the
        /// limit.
        pub spans: GlobalMut<u64>,
        /// Keys of the tree.
        pub len: u64,
        /// Most pairs of a span.
        pub limit: u64,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the pairs of each span; null if not wanted.
        pub lens: GlobalMut<u64>,
    }
}

/// Clips and measures spans, one thread per span; any block.
#[derive(Debug)]
pub struct Measure;

impl Kernel for Measure {
    type Args = MeasureArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a span.
        unsafe {
            // Word by word: the buffer is the caller's, and may begin at any.
            let [first, end] = [0, 1].map(|side| simt.load(args.spans.as_const(), 2 * index + side, Hint::Default));
            let first = if first < args.len { first } else { args.len };
            let end = if end < args.len { end } else { args.len };
            let found = end.saturating_sub(first);
            let len = if found < args.limit { found } else { args.limit };
            simt.store(args.spans, 2 * index, first, Hint::Default);
            simt.store(args.spans, 2 * index + 1, first + len, Hint::Default);
            if !args.lens.is_null() {
                simt.store(args.lens, index, len, Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Expand`].
    pub struct ExpandArgs<V> {
        /// The tree, all of whose leaves are on the device, and whose places tell ranks.
        pub tree: TreeRef,
        /// Spans of ranks, first and end one after another, as [`Measure`] has left them: `[2 * spans]`.
        pub spans: Global<u64>,
        /// Where the pairs of each span go: `[spans + 1]`, the exclusive prefix sums of their lengths and the total.
        pub offsets: Global<u64>,
        /// Spans.
        pub count: u64,
        /// Pairs for which there is room; pairs past it are not written.
        pub capacity: u64,
        /// Out: `[capacity]`, the links of the leaves; null if not wanted.
        pub links: GlobalMut<u64>,
        /// Out: `[capacity]`, the lengths of the keys, zeros past the last pair; null if not wanted.
        pub lens: GlobalMut<u64>,
        /// Out: `[capacity]`, the values.
        pub values: GlobalMut<V>,
    }
}

/// Finds the leaves of spans, one thread for each pair there is room for; any block.
#[derive(Debug)]
pub struct Expand<V>(PhantomData<V>);

impl<V: Word> Kernel for Expand<V> {
    type Args = ExpandArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.capacity {
            return;
        }
        // SAFETY: offsets ascend, and spans are of ranks below the tree's length.
        unsafe {
            let mut len = 0;
            if index < simt.load(args.offsets, args.count, Hint::ReadOnly) {
                let span = last_not_above(simt, args.offsets, args.count, index);
                let within = index - simt.load(args.offsets, span, Hint::ReadOnly);
                let leaf = args.tree.leaf_at(simt, simt.load(args.spans, 2 * span, Hint::ReadOnly) + within);
                len = u64::from(args.tree.leaf_key(simt, leaf).len());
                let value = simt.load(args.tree.address(leaf).cast(), value_word(leaf.kind()), Hint::ReadOnly);
                simt.store(args.values, index, V::truncate(value), Hint::Default);
                if !args.links.is_null() {
                    simt.store(args.links, index, leaf.bits(), Hint::Default);
                }
            }
            if !args.lens.is_null() {
                simt.store(args.lens, index, len, Hint::Default);
            }
        }
    }
}

/// Per thread. The last of the first `count` of ascending numbers that is not above `bound`, which the first one is
/// not.
///
/// # Safety
/// There are `count` numbers, at least one.
#[inline(always)]
unsafe fn last_not_above<S: Simt>(simt: S, numbers: Global<u64>, count: u64, bound: u64) -> u64 {
    let (mut low, mut high) = (0, count);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        // SAFETY: the caller's promise.
        if unsafe { simt.load(numbers, middle, Hint::ReadOnly) } <= bound { low = middle } else { high = middle }
    }
    low
}

kernel_args! {
    /// Arguments of [`CopyKeys`].
    pub struct CopyKeysArgs {
        /// The tree, all of whose leaves are on the device.
        pub tree: TreeRef,
        /// Links of leaves: `[pairs]`.
        pub links: Global<u64>,
        /// Where each one's key goes, in bytes, and their total: `[pairs + 1]`; null if all have `width` bytes.
        pub offsets: Global<u64>,
        /// How many: `[1]`; at most `capacity` of them are copied.
        pub pairs: Global<u64>,
        /// The most pairs.
        pub capacity: u64,
        /// The bytes of every key, at least 1, where there are no offsets.
        pub width: u64,
        /// Out: the keys, one after another: `[words]`.
        pub bytes: GlobalMut<u64>,
        /// Words of 8 bytes for which there is room.
        pub words: u64,
    }
}

/// Copies the keys of leaves, one thread per output word; any block. A word may have bytes of several keys, so words
/// are gathered rather than keys scattered.
#[derive(Debug)]
pub struct CopyKeys;

impl Kernel for CopyKeys {
    type Args = CopyKeysArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let word = simt.global_index();
        if word >= args.words {
            return;
        }
        // SAFETY: offsets ascend; links are of leaves of the tree.
        unsafe {
            let pairs = simt.load(args.pairs, 0, Hint::ReadOnly);
            let pairs = if pairs < args.capacity { pairs } else { args.capacity };
            let start_of = |pair: u64| {
                if args.offsets.is_null() { pair * args.width } else { simt.load(args.offsets, pair, Hint::ReadOnly) }
            };
            let first = 8 * word;
            if pairs == 0 || first >= start_of(pairs) {
                return;
            }
            let mut pair = if args.offsets.is_null() {
                // Never 0; stated for the compiler, which would otherwise check.
                first / if args.width == 0 { 1 } else { args.width }
            } else {
                last_not_above(simt, args.offsets, pairs, first)
            };
            let (mut gathered, mut filled) = (0, 0);
            while filled < 8 && pair < pairs {
                let (start, end) = (start_of(pair), start_of(pair + 1));
                let at = first + filled;
                if at < end {
                    let leaf = Link::from_bits(simt.load(args.links, pair, Hint::ReadOnly));
                    let key = args.tree.leaf_key(simt, leaf);
                    gathered |= key.word(simt, (at - start) as u32) << (8 * filled);
                    let rest = end - at;
                    filled += if rest < 8 - filled { rest } else { 8 - filled };
                }
                pair += 1;
            }
            simt.store(args.bytes, word, gathered, Hint::Default);
        }
    }
}

instance!(cuart_range__expand_u32, cuart_range, Expand<u32>);
instance!(cuart_range__expand_u64, cuart_range, Expand<u64>);
instance!(cuart_range__measure, cuart_range, Measure);
instance!(cuart_range__copy_keys, cuart_range, CopyKeys);
