//! Point look-ups.

use crate::layout::{Leaf8, Leaf16, Leaf32, Link, LinkType};
use crate::query::Query;
use crate::tree::{THREADS, TreeRef};
use core::marker::PhantomData;
use core::mem::offset_of;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeysRef, LaunchBounds, Simt, WARP, Word, instance, kernel_args,
};

kernel_args! {
    /// Arguments of [`Get`].
    pub struct GetArgs<V> {
        /// The tree.
        pub tree: TreeRef,
        /// Queries: `[count]`.
        pub queries: KeysRef,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the value of each query's key, or `miss`; where the bit in `pending` is set, the index of
        /// a leaf in main memory instead.
        pub values: GlobalMut<V>,
        /// Out: `[ceil(count / 32)]`, the hit mask: bit `i % 32` of word `i / 32` is set if query `i` was found; null
        /// if not wanted.
        pub hits: GlobalMut<u32>,
        /// Out: as `hits`; set if a leaf in main memory must be compared (section 3.2.3 of the paper); null if the
        /// tree has no such leaves.
        pub pending: GlobalMut<u32>,
        /// The value written to `values` for a key that is not in the tree.
        pub miss: V,
    }
}

/// Looks up a batch of keys, one thread per key; any block of whole warps. `WORDS` are the 8-byte words of the tree's
/// longest key, 1, 2 or 4; 0 where it has keys of more than 32 bytes.
#[derive(Debug)]
pub struct Get<V, const WORDS: usize>(PhantomData<V>);

impl<V: Word, const WORDS: usize> Kernel for Get<V, WORDS> {
    type Args = GetArgs<V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 6 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let (mut value, mut found, mut pending) = (args.miss, false, false);
        if index < args.count {
            // SAFETY: `index` is a query, and the tree is valid.
            unsafe {
                let query = Query::<WORDS>::load(simt, &args.queries, index);
                let leaf = descend(simt, &args.tree, &query, Hint::ReadOnly);
                if leaf.kind() == LinkType::HostLeaf {
                    (value, pending) = (V::truncate(leaf.index()), true);
                } else if let Some(wide) = leaf_value(simt, &args.tree, &query, leaf) {
                    (value, found) = (V::truncate(wide), true);
                }
                simt.store(args.values, index, value, Hint::Streaming);
            }
        }
        // SAFETY: one word per started tile of the batch.
        unsafe {
            store_bits(simt, args.hits, args.count, found);
            store_bits(simt, args.pending, args.count, pending);
        }
    }
}

/// Warp collective (all lanes). Stores one bit per thread, at its index in the grid, if `bits` is not null.
///
/// # Safety
/// `bits` is null, or has a word for every 32 of `count`.
#[inline(always)]
pub(crate) unsafe fn store_bits<S: Simt>(simt: S, bits: GlobalMut<u32>, count: u64, bit: bool) {
    if bits.is_null() {
        return;
    }
    let word = simt.ballot(FULL_MASK, bit);
    let index = simt.global_index();
    if simt.lane() == 0 && index < count {
        // SAFETY: the caller's promise.
        unsafe { simt.store(bits, index / u64::from(WARP), word, Hint::Streaming) };
    }
}

/// Per thread. The leaf where the search for a query ends, if its key has the query's length as far as the link says;
/// otherwise none. No prefix is compared on the way, since the leaf holds the whole key.
///
/// # Safety
/// The tree is valid, and the hint holds for what is above the leaves.
#[inline(always)]
pub(crate) unsafe fn descend<S: Simt, const WORDS: usize>(
    simt: S,
    tree: &TreeRef,
    query: &Query<WORDS>,
    hint: Hint,
) -> Link {
    let len = query.len();
    // SAFETY: the caller's promise; a byte is read where the query has it.
    unsafe {
        let (mut link, mut from) = tree.start(simt, query.head(simt), len, hint);
        while link.kind().is_node() {
            let depth = tree.depth(simt, link, from, hint);
            if depth > len {
                return Link::NONE;
            }
            if depth == len {
                link = tree.here(simt, link, hint);
                break;
            }
            link = tree.child(simt, link, query.byte(simt, depth), hint);
            from = depth + 1;
        }
        if link.span() == (if len < Link::LONG { len } else { Link::LONG }) { link } else { Link::NONE }
    }
}

/// Per thread. The value of a leaf on the device if its key is the query; `None` also if there is no leaf. The lengths
/// are equal as far as the link says.
///
/// # Safety
/// The link is none or of a leaf of the tree, and nobody writes to it.
#[inline(always)]
unsafe fn leaf_value<S: Simt, const WORDS: usize>(
    simt: S,
    tree: &TreeRef,
    query: &Query<WORDS>,
    leaf: Link,
) -> Option<u64> {
    if leaf.is_none() {
        return None;
    }
    let at = tree.address(leaf).cast::<u64>();
    let kind = leaf.kind();
    // SAFETY: the words lie in the leaf, the value's vector on a 16-byte boundary.
    unsafe {
        if WORDS == 1 || kind == LinkType::Leaf8 {
            let [key, value] = simt.load_vector(at, 0, Hint::EvictFirst);
            return (key == query.word(simt, 0)).then_some(value);
        }
        // Loaded before the key is compared, so that it adds no latency.
        let [value, _] = simt.load_vector(at, value_word(kind), Hint::EvictFirst);
        leaf_equals(simt, tree, query, leaf, Hint::EvictFirst).then_some(value)
    }
}

/// Where in a leaf on the device its value is, in words of 8 bytes.
#[inline(always)]
pub(crate) fn value_word(kind: LinkType) -> u64 {
    (match kind {
        LinkType::Leaf8 => offset_of!(Leaf8, value),
        LinkType::Leaf16 => offset_of!(Leaf16, value),
        LinkType::Leaf32 => offset_of!(Leaf32, value),
        _ => 0,
    }) as u64
        / 8
}

/// Per thread. Whether the key of a leaf on the device is the query. The lengths are equal as far as the link says.
///
/// # Safety
/// A link to a leaf of the tree; the hint holds for it.
#[inline(always)]
pub(crate) unsafe fn leaf_equals<S: Simt, const WORDS: usize>(
    simt: S,
    tree: &TreeRef,
    query: &Query<WORDS>,
    leaf: Link,
    hint: Hint,
) -> bool {
    let at = tree.address(leaf).cast::<u64>();
    let kind = leaf.kind();
    // SAFETY: the words lie in the leaf, vectors on 16-byte boundaries; the tree's leaves have the layout for its
    // words.
    unsafe {
        if WORDS == 1 || kind == LinkType::Leaf8 {
            return simt.load(at, 0, hint) == query.word(simt, 0);
        }
        if kind == LinkType::DeviceLeaf {
            return WORDS == 0 && device_leaf_equals(simt, at, query, hint);
        }
        let wide = WORDS != 2 && kind == LinkType::Leaf32;
        let first = simt.load_vector(at, 0, hint);
        let second = if wide { simt.load_vector(at, 2, hint) } else { [0; 2] };
        let equal = first[0] == query.word(simt, 0) && first[1] == query.word(simt, 1);
        equal && (!wide || second[0] == query.word(simt, 2) && second[1] == query.word(simt, 3))
    }
}

/// Per thread. Whether the key of a dynamically sized leaf is the query, word by word.
///
/// # Safety
/// A leaf of the tree; the hint holds for it.
#[inline(always)]
unsafe fn device_leaf_equals<S: Simt, const WORDS: usize>(
    simt: S,
    leaf: Global<u64>,
    query: &Query<WORDS>,
    hint: Hint,
) -> bool {
    // SAFETY: the leaf's header: value, length, rank.
    let len = unsafe { simt.load(leaf, 1, hint) };
    if len != u64::from(query.len()) {
        return false;
    }
    let words = len.div_ceil(8);
    let mut word = 0;
    // SAFETY: the key begins after the header of three words, and zeros fill its last word.
    while word < words && unsafe { simt.load(leaf, 3 + word, hint) == query.word(simt, word as usize) } {
        word += 1;
    }
    word == words
}

macro_rules! instances {
    ($($words:literal),*) => { pastey::paste! { $(
        instance!([<cuart__get_w $words _u32>], cuart, Get<u32, $words>);
        instance!([<cuart__get_w $words _u64>], cuart, Get<u64, $words>);
    )* } };
}
instances!(0, 1, 2, 4);
