//! Point look-ups.

use crate::query::Query;
use crate::tree::{THREADS, TreeRef};
use core::marker::PhantomData;
use core::mem::offset_of;
use lanetree_layout::cuart::{Kind, Leaf8, Leaf16, Leaf32, Link};
use lanetree_simt::{
    Access, FULL_MASK, Global, GlobalMut, Hint, Kernel, KernelArgs, KeysRef, LaunchBounds, Simt, WARP, Word, instance,
};

/// Arguments of [`Get`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
    /// Out: `[ceil(count / 32)]`, bit `i % 32` of word `i / 32` set where query `i` was found; null if not
    /// wanted.
    pub found: GlobalMut<u32>,
    /// Out: as `found`, set where a leaf in main memory is to be compared (section 3.2.3 of the paper); null
    /// where the tree has none.
    pub pending: GlobalMut<u32>,
    /// What stands in `values` for a key that is not in the tree.
    pub miss: V,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl<V: Word> KernelArgs for GetArgs<V> {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.tree.pointers(visit);
        self.queries.pointers(visit);
        visit(self.values.as_ptr().addr(), Access::ReadWrite);
        visit(self.found.as_ptr().addr(), Access::ReadWrite);
        visit(self.pending.as_ptr().addr(), Access::ReadWrite);
    }
}

/// Looks up a batch of keys, a thread for each; any block of whole warps. `WORDS` are the 8-byte words of the
/// tree's longest key, 1, 2 or 4; 0 where it has keys of more than 32 bytes.
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
                let leaf = descend(simt, &args.tree, &query);
                if leaf.kind() == Kind::HostLeaf {
                    (value, pending) = (V::truncate(leaf.index()), true);
                } else if let Some(wide) = leaf_value(simt, &args.tree, &query, leaf) {
                    (value, found) = (V::truncate(wide), true);
                }
                simt.store(args.values, index, value, Hint::Streaming);
            }
        }
        // SAFETY: one word per started tile of the batch.
        unsafe {
            store_bits(simt, args.found, args.count, found);
            store_bits(simt, args.pending, args.count, pending);
        }
    }
}

/// Warp collective (all lanes). Stores a bit of each thread, by its index in the grid, where it is wanted.
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

/// Per thread. The leaf where the search for a query ends, if its key has the query's length as far as the link
/// tells; otherwise none. No prefix is compared on the way: the leaf holds the whole key.
///
/// # Safety
/// The tree is valid.
#[inline(always)]
pub(crate) unsafe fn descend<S: Simt, const WORDS: usize>(simt: S, tree: &TreeRef, query: &Query<WORDS>) -> Link {
    let len = query.len();
    // SAFETY: the caller's promise; a byte is read where the query has it.
    unsafe {
        let (mut link, mut from) = tree.start(simt, query.head(simt), len);
        while link.kind().is_node() {
            let depth = tree.depth(simt, link, from);
            if depth > len {
                return Link::NONE;
            }
            if depth == len {
                link = tree.here(simt, link);
                break;
            }
            link = tree.child(simt, link, query.byte(simt, depth));
            from = depth + 1;
        }
        if link.span() == (if len < Link::LONG { len } else { Link::LONG }) { link } else { Link::NONE }
    }
}

/// Per thread. The value of a leaf on the device, if its key is the query, of which it has the length as far as
/// the link tells; `None` also for no leaf.
///
/// # Safety
/// The link is none or of a leaf of the tree.
#[inline(always)]
pub(crate) unsafe fn leaf_value<S: Simt, const WORDS: usize>(
    simt: S,
    tree: &TreeRef,
    query: &Query<WORDS>,
    leaf: Link,
) -> Option<u64> {
    if leaf.is_none() {
        return None;
    }
    let at = tree.address(leaf).cast::<u64>();
    // SAFETY: the words lie in the leaf, on 16-byte boundaries; the leaves of a tree are those of its words.
    unsafe {
        let pair = |index: u64| simt.load_vector(at, index, Hint::NoAllocate);
        let first = pair(0);
        let kind = leaf.kind();
        if WORDS == 1 || kind == Kind::Leaf8 {
            return (first[0] == query.word(simt, 0)).then_some(first[1]);
        }
        if kind == Kind::DeviceLeaf {
            return (WORDS == 0 && device_leaf_equals(simt, at, first[1], query)).then_some(first[0]);
        }
        let wide = WORDS != 2 && kind == Kind::Leaf32;
        let value_at = if wide { offset_of!(Leaf32, value) } else { offset_of!(Leaf16, value) } as u64 / 8;
        let value = simt.load(at, value_at, Hint::NoAllocate);
        let second = if wide { pair(2) } else { [0; 2] };
        let equal = first[0] == query.word(simt, 0) && first[1] == query.word(simt, 1);
        let equal = equal && (!wide || second[0] == query.word(simt, 2) && second[1] == query.word(simt, 3));
        equal.then_some(value)
    }
}

const _: () = assert!(offset_of!(Leaf8, value) == 8, "a leaf of 8 is one vector");

/// Per thread. Whether the key of a dynamically sized leaf of `len` bytes is the query, word by word.
///
/// # Safety
/// A leaf of the tree.
#[inline(always)]
unsafe fn device_leaf_equals<S: Simt, const WORDS: usize>(
    simt: S,
    leaf: Global<u64>,
    len: u64,
    query: &Query<WORDS>,
) -> bool {
    if len != u64::from(query.len()) {
        return false;
    }
    let words = len.div_ceil(8);
    let mut word = 0;
    // SAFETY: the leaf's key begins behind its header of three words, and zeros fill its last word.
    while word < words && unsafe { simt.load(leaf, 3 + word, Hint::NoAllocate) == query.word(simt, word as usize) } {
        word += 1;
    }
    word == words
}

macro_rules! instances {
    ($($words:literal),*) => { pastey::paste! { $(
        instance!([<cuart__get_w $words _u32>], "cuart", Get<u32, $words>);
        instance!([<cuart__get_w $words _u64>], "cuart", Get<u64, $words>);
    )* } };
}
instances!(0, 1, 2, 4);
