//! GRT, the adaptive radix tree in one untyped buffer that CuART is measured against, over the layout of
//! [`crate::layout::grt`]: look-ups and atomic updates, one thread each.
//!
//! At each node a thread reads the header, and only then knows how large the rest is and where the link is. This is the
//! CuART paper's criticism of GRT (section 3.1), together with comparing a leaf's key byte by byte (section 4.4).
//! Everything else is as good as possible: lanes at nodes of different types take the same path through the code,
//! prefixes are compared word by word, and leaves only once all lanes of a warp have reached theirs.
//!
//! The comparison byte by byte is no part of the layout. So look-ups and updates also exist with a comparison word by
//! word (`WORDS`), which says what of CuART's lead is the comparison's.

mod range;

pub use range::{Range, RangeArgs};

use crate::layout::grt::{
    HERE_OFFSET, Header, LEAF_KEY_OFFSET, LOCKED, NodeType, PREFIX, PREFIX_OFFSET, leaf_stamp_offset, leaf_value_offset,
};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyRef, KeysRef, LaunchBounds, Order, Scope, Simt, WARP, Word,
    first_bytes, first_equal, instance, kernel_args,
};

/// Threads of a block.
pub const THREADS: u32 = 256;

const BOUNDS: LaunchBounds = LaunchBounds { threads: THREADS, blocks: 8 };

kernel_args! {
    /// Arguments of [`Get`].
    pub struct GetArgs<V> {
        /// The tree; null for an empty one.
        pub tree: Global<u8>,
        /// Queries: `[count]`.
        pub queries: KeysRef,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the value of each query's key, or `miss`.
        pub values: GlobalMut<V>,
        /// Out: `[ceil(count / 32)]`, the hit mask: bit `i % 32` of word `i / 32` is set if query `i` was found; null
        /// if not wanted.
        pub hits: GlobalMut<u32>,
        /// The value written to `values` for a key that is not in the tree.
        pub miss: V,
    }
}

/// Looks up a batch of keys, one thread per key; any block of whole warps. `WORDS`: leaves' keys are compared by words of
/// 8 bytes, not byte by byte.
#[derive(Debug)]
pub struct Get<V, const WORDS: bool>(PhantomData<V>);

impl<V: Word, const WORDS: bool> Kernel for Get<V, WORDS> {
    type Args = GetArgs<V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(BOUNDS);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let (mut value, mut found) = (args.miss, false);
        if index < args.count {
            // SAFETY: `index` is a query, and the tree is valid; nobody writes to it meanwhile.
            unsafe {
                let query = args.queries.at(simt, index);
                if let Some(leaf) = find::<S, WORDS>(simt, args.tree, &query) {
                    let at = leaf.byte_add(leaf_value_offset(query.len())).cast::<u64>();
                    (value, found) = (V::truncate(simt.load(at, 0, Hint::ReadOnly)), true);
                }
                simt.store(args.values, index, value, Hint::Streaming);
            }
        }
        // SAFETY: one word per started tile of the batch.
        unsafe { store_bits(simt, args.hits, args.count, found) };
    }
}

kernel_args! {
    /// Arguments of [`Update`].
    pub struct UpdateArgs<V> {
        /// The tree; null for an empty one.
        pub tree: GlobalMut<u8>,
        /// Keys: `[count]`.
        pub queries: KeysRef,
        /// How many.
        pub count: u64,
        /// The keys' new values: `[count]`.
        pub values: Global<V>,
        /// Out: `[ceil(count / 32)]`, the hit mask: bit `i % 32` of word `i / 32` is set if key `i` is in the tree;
        /// null if not wanted.
        pub hits: GlobalMut<u32>,
        /// Number of updates of this tree in all earlier batches, so that stamps ascend from batch to batch.
        pub before: u64,
    }
}

/// Sets the values of keys that are in the tree, one thread per key; any block of whole warps. Of several updates of a
/// key the last one of the batch wins.
///
/// Each thread finds its leaf and writes there by itself, visible to the whole device when it is done: how the
/// CuART paper describes updates of GRT (its section 4.5). CuART's own threads agree on one writer for each leaf
/// before any of them writes. `WORDS` as in [`Get`].
#[derive(Debug)]
pub struct Update<V, const WORDS: bool>(PhantomData<V>);

impl<V: Word, const WORDS: bool> Kernel for Update<V, WORDS> {
    type Args = UpdateArgs<V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(BOUNDS);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let mut found = false;
        if index < args.count {
            // SAFETY: `index` is a key of the batch with its value, and the tree is valid; values and stamps are
            // all that is written, and accessed atomically only.
            unsafe {
                let key = args.queries.at(simt, index);
                let leaf = find::<S, WORDS>(simt, args.tree.as_const(), &key);
                if let Some(leaf) = leaf {
                    let value = simt.load(args.values, index, Hint::Streaming).widen();
                    let leaf = GlobalMut::new(leaf.as_ptr().cast_mut());
                    write(simt, leaf, key.len(), value, args.before + index + 1);
                    found = true;
                }
            }
        }
        // SAFETY: one word per started tile of the batch.
        unsafe { store_bits(simt, args.hits, args.count, found) };
    }
}

/// Per thread. Writes a leaf's value, unless a later update has done so or is about to.
///
/// The leaf has a lock, since a 64-bit value and the stamp that orders its writers do not fit into one atomic access. A
/// thread whose update is older than the leaf's neither waits nor writes; a thread whose update is newer than the
/// holder's waits for the lock. The stamp is stored after the value: this store is the fence, and releases the lock.
///
/// # Safety
/// A leaf of the tree with a key of `len` bytes; its value and its stamp are only accessed atomically meanwhile.
#[inline(always)]
unsafe fn write<S: Simt>(simt: S, leaf: GlobalMut<u8>, len: u32, value: u64, stamp: u64) {
    let value_at = leaf.byte_add(leaf_value_offset(len)).cast::<u64>();
    let stamp_at = leaf.byte_add(leaf_stamp_offset(len)).cast::<u64>();
    // SAFETY: the caller's promise.
    unsafe {
        let mut seen = simt.atomic_load(stamp_at, 0, Order::Relaxed, Scope::Device);
        while seen & !LOCKED < stamp {
            if seen & LOCKED != 0 {
                simt.spin_hint();
                seen = simt.atomic_load(stamp_at, 0, Order::Relaxed, Scope::Device);
                continue;
            }
            let locked = stamp | LOCKED;
            let former = simt.atomic_compare_exchange(stamp_at, 0, seen, locked, Order::Acquire, Scope::Device);
            if former == seen {
                simt.atomic_store(value_at, 0, value, Order::Relaxed, Scope::Device);
                simt.atomic_store(stamp_at, 0, stamp, Order::Release, Scope::Device);
                return;
            }
            seen = former;
        }
    }
}

/// Per thread. The leaf of a key, if it is in the tree.
///
/// # Safety
/// The tree is null or valid, and the query one of the batch.
#[inline(always)]
unsafe fn find<S: Simt, const WORDS: bool>(simt: S, tree: Global<u8>, query: &KeyRef) -> Option<Global<u8>> {
    if tree.is_null() {
        return None;
    }
    let len = query.len();
    let (mut at, mut depth) = (tree, 0);
    // SAFETY: the caller's promise: links lead to nodes and leaves, which begin with a header.
    unsafe {
        let header = loop {
            let header = Header::from_bits(simt.load(at.cast::<u64>(), 0, Hint::ReadOnly));
            let prefix = simt.load(at.byte_add(PREFIX_OFFSET).cast::<u64>(), 0, Hint::ReadOnly);
            if header.kind() == NodeType::LEAF {
                break header;
            }
            // No more than the longest key's bytes.
            let end = depth + header.len();
            if end > len || !begins_with(simt, query, depth, header, prefix) {
                return None;
            }
            let link = if end == len {
                simt.load(at.byte_add(HERE_OFFSET).cast::<u64>(), 0, Hint::ReadOnly)
            } else {
                child(simt, at, header, query.byte(simt, end))
            };
            if link == 0 {
                return None;
            }
            (at, depth) = (tree.byte_add(link), end + 1);
        };
        if header.len() != len {
            return None;
        }
        let equal = if WORDS { words_equal(simt, at, query) } else { bytes_equal(simt, at, query) };
        equal.then_some(at)
    }
}

/// Per thread. Whether a query continues, from `depth` on, with the part of a node's prefix that the node holds; the
/// prefix is no longer than the rest of the query.
///
/// # Safety
/// The query is one of the batch.
#[inline(always)]
unsafe fn begins_with<S: Simt>(simt: S, query: &KeyRef, depth: u32, header: Header, prefix: u64) -> bool {
    let len = header.len().min(PREFIX as u32);
    // SAFETY: the caller's promise.
    unsafe {
        len == 0
            || (query.word(simt, depth) ^ prefix) & first_bytes(len) == 0
                && (len <= 8 || (query.word(simt, depth + 8) ^ header.prefix_rest()) & first_bytes(len - 8) == 0)
    }
}

/// Per thread. The link to a node's child for a byte, or 0.
///
/// Lanes of a warp are at nodes of different types. They all take the same path through the code, rather than the warp
/// one path after another: they read a word that says where the link is (or is the link), then the link.
///
/// # Safety
/// A node of the tree, and its header.
#[inline(always)]
unsafe fn child<S: Simt>(simt: S, node: Global<u8>, header: Header, byte: u32) -> u64 {
    let kind = header.kind();
    let at = node.byte_add(kind.probe_offset(byte)).cast::<u64>();
    // SAFETY: the words lie in the node.
    unsafe {
        let word = simt.load(at, 0, Hint::ReadOnly);
        if kind == NodeType::N256 {
            return word;
        }
        let slot = if kind == NodeType::N48 {
            // 0 becomes more than any count.
            ((word >> (8 * (byte & 7)) & 0xff) as u32).wrapping_sub(1)
        } else {
            let second = if kind == NodeType::N16 { simt.load(at, 1, Hint::ReadOnly) } else { 0 };
            match first_equal(word, byte) {
                8 => 8 + first_equal(second, byte),
                slot => slot,
            }
        };
        // The zeros after the keys equal a byte 0, and are not counted.
        if slot >= header.count() {
            return 0;
        }
        simt.load(node.byte_add(kind.links_offset()).cast::<u64>(), u64::from(slot), Hint::ReadOnly)
    }
}

/// Per thread. Whether a leaf's key, which is as long as the query, is the query: byte by byte.
///
/// # Safety
/// A leaf of the tree, and the query is one of the batch.
#[inline(always)]
unsafe fn bytes_equal<S: Simt>(simt: S, leaf: Global<u8>, query: &KeyRef) -> bool {
    let key = leaf.byte_add(LEAF_KEY_OFFSET).cast::<u32>();
    let mut at = 0;
    while at < query.len() {
        // SAFETY: the byte lies in the key, which whole words hold.
        let (byte, expected) =
            unsafe { (simt.load(key, u64::from(at / 4), Hint::ReadOnly) >> (at % 4 * 8) & 0xff, query.byte(simt, at)) };
        if byte != expected {
            return false;
        }
        at += 1;
    }
    true
}

/// Per thread. As [`bytes_equal`], 8 bytes at a time.
///
/// # Safety
/// As for [`bytes_equal`].
#[inline(always)]
unsafe fn words_equal<S: Simt>(simt: S, leaf: Global<u8>, query: &KeyRef) -> bool {
    let key = leaf.byte_add(LEAF_KEY_OFFSET).cast::<u64>();
    let mut at = 0;
    while at < query.len() {
        // SAFETY: the word lies in the key, which zeros fill up to whole words, as they do the query's.
        if unsafe { simt.load(key, u64::from(at / 8), Hint::ReadOnly) != query.word(simt, at) } {
            return false;
        }
        at += 8;
    }
    true
}

/// Warp collective (all lanes). Stores one bit per thread, at its index in the grid, if `bits` is not null.
///
/// # Safety
/// `bits` is null, or has a word for every 32 of `count`.
#[inline(always)]
unsafe fn store_bits<S: Simt>(simt: S, bits: GlobalMut<u32>, count: u64, bit: bool) {
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

instance!(grt__get_u32, grt, Get<u32, false>);
instance!(grt__get_u64, grt, Get<u64, false>);
instance!(grt__get_words_u32, grt, Get<u32, true>);
instance!(grt__get_words_u64, grt, Get<u64, true>);
instance!(grt__update_u32, grt, Update<u32, false>);
instance!(grt__update_u64, grt, Update<u64, false>);
instance!(grt__update_words_u32, grt, Update<u32, true>);
instance!(grt__update_words_u64, grt, Update<u64, true>);
