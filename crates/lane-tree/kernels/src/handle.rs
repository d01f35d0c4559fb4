//! A tree as a user's own kernel sees it: [`Handle`], an argument passed by value, and what the kernel does with it, a
//! [`Probe`]. So a join or a filter looks keys up where it has them, and writes only what it keeps.
//!
//! ```
//! use lanetree_kernels_lane_tree::Handle;
//! use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, kernel_args};
//!
//! kernel_args! {
//!     /// Arguments of [`CountHits`].
//!     pub struct CountArgs<K, V> {
//!         /// The tree.
//!         pub tree: Handle<K, V>,
//!         /// Keys: `[count]`.
//!         pub keys: Global<K>,
//!         /// How many.
//!         pub count: u64,
//!         /// Out: `[1]`, increased by the number of keys that are in the tree.
//!         pub hits: GlobalMut<u64>,
//!     }
//! }
//!
//! /// Counts the keys that are in a tree.
//! pub struct CountHits;
//!
//! impl Kernel for CountHits {
//!     type Args = CountArgs<u64, u32>;
//!
//!     #[inline(always)]
//!     unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
//!         // SAFETY: the launch has shared memory for the handle, from its first byte on; there are so many keys.
//!         unsafe {
//!             let probe = args.tree.enter(simt, 0);
//!             let mut row = simt.global_index();
//!             // The same for all lanes of a warp: each takes part in the look-up, with or without a key.
//!             while row - u64::from(simt.lane()) < args.count {
//!                 let key = if row < args.count { simt.load(args.keys, row, Hint::Streaming) } else { 0 };
//!                 let is_hit = probe.get(key).is_some() & (row < args.count);
//!                 let hits = simt.ballot(u32::MAX, is_hit).count_ones();
//!                 if simt.lane() == 0 {
//!                     simt.atomic_add(args.hits, 0, u64::from(hits), Order::Relaxed, Scope::Device);
//!                 }
//!                 row += u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
//!             }
//!         }
//!     }
//! }
//! ```

use crate::layout::bucket_slots;
use crate::queries::{found_at, found_bytes, query_shared};
use crate::search::{TABLE_BYTES, Top, TreeRef};
use crate::values::SharedValues;
use core::cmp::Ordering;
use core::fmt;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{Access, KernelArgs, KeyWord, Simt};

/// A tree of keys `K` and values `V`, which are `()` in a set, for a kernel: a `Copy` struct, to be a field of the kernel's arguments.
///
/// The host has it from the tree, for a launch in one stream. `K` is the word of the tree's keys: a kernel has keys in the
/// caller's form, for `i64` its bits as a `u64`. Such words do not compare as the keys do; what a [`Cursor`] gives, [`CursorKey`],
/// does.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Handle<K, V> {
    tree: TreeRef<K>,
    values: PhantomData<V>,
}

impl<K, V> fmt::Debug for Handle<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle[{} pairs]", self.tree.len)
    }
}

// SAFETY: the tree is arguments, and there is nothing else.
unsafe impl<K: KernelArgs, V: KernelArgs> KernelArgs for Handle<K, V> {
    #[inline(always)]
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.tree.pointers(visit);
    }
}

impl<K: KeyWord, V: Value> Handle<K, V> {
    /// The handle of a tree. Safe, since only using it is unsafe.
    #[inline(always)]
    pub const fn new(tree: TreeRef<K>) -> Self {
        Self { tree, values: PhantomData }
    }

    /// How many pairs the tree has.
    #[inline(always)]
    pub const fn len(&self) -> u64 {
        self.tree.len
    }

    /// Whether it has none.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of shared memory that a block of `threads` threads needs for a [`Probe`]: 8 KiB, 4 bytes per node of the
    /// highest level (at most 64 KiB), and the bytes of a value per thread. A multiple of 8, so that what another
    /// handle needs may come after.
    #[inline(always)]
    pub const fn shared_bytes(&self, threads: u32) -> u32 {
        (TABLE_BYTES + query_shared(self.tree.top_count, threads, found_bytes::<K, V>())).next_multiple_of(8)
    }

    /// Block collective. Copies what is above the nodes to shared memory, from byte `offset` on, a multiple of 8. A kernel
    /// does this once, before its first row: so a launch should have few blocks, and each of them many rows.
    ///
    /// # Safety
    /// * The handle is that of a tree of values `V`, for the stream that the kernel runs in, and the tree was borrowed from
    ///   `handle_on` to the launch.
    /// * All threads of the block are here. Blocks have one dimension and consist of whole warps.
    /// * `offset` is a multiple of 8. The block's shared memory has [`Handle::shared_bytes`] of its number of threads from there on,
    ///   which nothing else uses as long as the probe is used.
    #[inline(always)]
    pub unsafe fn enter<S: Simt>(&self, simt: S, offset: u32) -> Probe<'_, S, K, V> {
        let top = Top::at(offset, self.tree.top_count);
        let found = SharedValues::at(offset + found_at(self.tree.top_count), simt.block_dim());
        // SAFETY: the same contract.
        unsafe { self.tree.load_top(simt, top) };
        Probe { simt, tree: &self.tree, top, found }
    }
}

/// A tree as a kernel that has [entered](Handle::enter) searches it.
///
/// Searches are warp collectives of all 32 lanes: each lane has a key of its own, four lanes read a node together. A lane
/// without a key takes part with any, and ignores what it gets. Keys are words in the caller's form, as of [`Handle`].
#[derive(Clone, Copy)]
pub struct Probe<'a, S, K, V: Value> {
    simt: S,
    tree: &'a TreeRef<K>,
    top: Top,
    /// A value per thread: what the lane that finds a key hands over to the lane that asked.
    found: SharedValues<V>,
}

impl<S, K, V: Value> fmt::Debug for Probe<'_, S, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Probe[{} pairs]", self.tree.len)
    }
}

impl<S: Simt, K: KeyWord, V: Value> Probe<'_, S, K, V> {
    /// Warp collective (all lanes). The value of each lane's key, in that lane.
    ///
    /// Reads a bucket of pairs and, above it, a node for each level.
    ///
    /// # Safety
    /// That of [`Handle::enter`].
    #[inline(always)]
    pub unsafe fn get(&self, key: K) -> Option<V> {
        let word = key.xor(self.tree.flip);
        // SAFETY: the same contract.
        let (value, is_hit) = unsafe { self.tree.look_up(self.simt, self.top, self.found, word, V::default()) };
        self.opaque(is_hit).then_some(value)
    }

    /// Warp collective (all lanes). Whether each lane's key is in the tree, in that lane. Otherwise like [`Probe::get`].
    ///
    /// # Safety
    /// That of [`Handle::enter`].
    #[inline(always)]
    pub unsafe fn contains(&self, key: K) -> bool {
        // SAFETY: the same contract.
        unsafe { self.get(key) }.is_some()
    }

    /// Warp collective (all lanes). The first pair whose key is not below each lane's key, in that lane; its rank is the
    /// number of keys below.
    ///
    /// # Safety
    /// That of [`Handle::enter`].
    #[inline(always)]
    pub unsafe fn lower_bound(&self, key: K) -> Cursor<K, V> {
        // SAFETY: the same contract.
        unsafe { self.seek(key, false) }
    }

    /// Warp collective (all lanes). The first pair whose key is above each lane's key, in that lane; its rank is the number
    /// of keys not above.
    ///
    /// # Safety
    /// That of [`Handle::enter`].
    #[inline(always)]
    pub unsafe fn upper_bound(&self, key: K) -> Cursor<K, V> {
        // SAFETY: the same contract.
        unsafe { self.seek(key, true) }
    }

    /// Per thread. Moves a cursor to the next pair, or from the last one past it, where it stays. Reads 16 bytes; along a
    /// bucket of pairs the same 64 serve four times.
    ///
    /// # Safety
    /// That of [`Handle::enter`]; the cursor is of the same tree.
    #[inline(always)]
    pub unsafe fn advance(&self, cursor: &mut Cursor<K, V>) {
        if !cursor.is_at_pair {
            return;
        }
        cursor.rank += 1;
        let is_at_pair = cursor.rank < self.tree.len;
        if is_at_pair {
            let before = cursor.word;
            // SAFETY: there is a larger key after the cursor's.
            unsafe { self.next_that(cursor, |word| word > before) };
        }
        cursor.is_at_pair = self.opaque(is_at_pair);
    }

    /// Per thread. Moves to the next slot whose key is such: slots and buckets that are free repeat the pair before.
    ///
    /// # Safety
    /// That of [`Handle::enter`]; there is such a slot after the cursor's.
    #[inline(always)]
    unsafe fn next_that(&self, cursor: &mut Cursor<K, V>, is_next: impl Fn(K) -> bool) {
        loop {
            cursor.slot += 1;
            // SAFETY: the caller's contract: a node and a slot of the tree.
            unsafe {
                if cursor.slot >= bucket_slots::<K, V>() {
                    (cursor.bucket, cursor.slot) = (cursor.bucket + 1, 0);
                    let walk = self.tree.walk(self.simt, cursor.node, cursor.bucket);
                    if walk.bucket == walk.end {
                        let next = self.tree.next_node(self.simt, walk);
                        (cursor.node, cursor.bucket) = (next.node, next.bucket);
                    }
                }
                self.load(cursor);
            }
            if is_next(cursor.word) {
                break;
            }
        }
    }

    /// Per thread. Loads the pair of the cursor's slot.
    ///
    /// # Safety
    /// That of [`Handle::enter`]; the slot is one of the tree's.
    #[inline(always)]
    unsafe fn load(&self, cursor: &mut Cursor<K, V>) {
        // SAFETY: the same contract.
        (cursor.word, cursor.value) = unsafe { self.tree.pair(self.simt, cursor.bucket, cursor.slot) };
    }

    /// Warp collective (all lanes). As [`Probe::lower_bound`] or, with `upper`, [`Probe::upper_bound`].
    ///
    /// # Safety
    /// That of [`Handle::enter`].
    #[inline(always)]
    unsafe fn seek(&self, key: K, upper: bool) -> Cursor<K, V> {
        let word = key.xor(self.tree.flip);
        let flip = self.tree.flip;
        let mut cursor =
            Cursor { word, value: V::default(), flip, rank: 0, node: 0, bucket: 0, slot: 0, is_at_pair: false };
        // SAFETY: the same contract. If there are more keys than the rank, one of a slot from the position on is next.
        unsafe {
            // The same for all lanes.
            if self.tree.height > 0 {
                let start = self.tree.start(self.simt, self.top, word);
                let mut node = 0;
                let position = self.tree.find::<S, V>(self.simt, start, word, (upper, false), |own| node = own);
                cursor.node = node;
                (cursor.bucket, cursor.slot, cursor.rank) = (position.bucket, position.slot, position.rank);
                let is_at_pair = cursor.rank < self.tree.len;
                if is_at_pair {
                    if position.slot < position.len {
                        self.load(&mut cursor);
                    } else {
                        // In one of the next buckets.
                        cursor.slot = bucket_slots::<K, V>();
                        self.next_that(&mut cursor, |other| other > word || (!upper && other == word));
                    }
                }
                cursor.is_at_pair = self.opaque(is_at_pair);
            }
        }
        cursor
    }

    /// Per thread. What a caller may branch by, before and after collectives of its own: see [`Simt::opaque`].
    #[inline(always)]
    fn opaque(&self, flag: bool) -> bool {
        self.simt.opaque(u32::from(flag)) != 0
    }
}

/// A pair's key, as a [`Cursor`] gives it. It compares with others, and with words in the caller's form, as the tree orders the keys:
/// also signed ones and floats, whose [`bits`](Self::bits) as unsigned words are ordered otherwise.
///
/// ```
/// use lanetree_kernels_lane_tree::Probe;
/// use lanetree_layout::Word;
/// use lanetree_simt::Simt;
///
/// /// Warp collective (all lanes). The sum of the values whose keys are from `low` to `high`, both inclusive: of a tree of `i64` keys
/// /// also where `low` is negative.
/// ///
/// /// # Safety
/// /// That of `Handle::enter`.
/// unsafe fn sum_between<S: Simt, V: Word>(probe: &Probe<'_, S, u64, V>, low: u64, high: u64) -> u64 {
///     // SAFETY: the caller's contract.
///     let mut cursor = unsafe { probe.lower_bound(low) };
///     let mut sum = 0_u64;
///     while let Some((key, value)) = cursor.key_value() {
///         if key > high {
///             break;
///         }
///         sum = sum.wrapping_add(value.widen());
///         // SAFETY: the caller's contract.
///         unsafe { probe.advance(&mut cursor) };
///     }
///     sum
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CursorKey<K> {
    /// The ordered word.
    word: K,
    flip: K,
}

impl<K: KeyWord> CursorKey<K> {
    /// Per thread. The key in the caller's form, as a buffer of keys holds it.
    #[inline(always)]
    pub fn bits(self) -> K {
        self.word.xor(self.flip)
    }
}

impl<K: KeyWord> PartialEq<K> for CursorKey<K> {
    #[inline(always)]
    fn eq(&self, bits: &K) -> bool {
        self.bits() == *bits
    }
}

impl<K: KeyWord> PartialOrd<K> for CursorKey<K> {
    #[inline(always)]
    fn partial_cmp(&self, bits: &K) -> Option<Ordering> {
        Some(self.word.cmp(&bits.xor(self.flip)))
    }
}

/// A position among the pairs of a tree: a pair, which it has loaded, or the end. One lane's own.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<K, V> {
    /// The pair's key, as an ordered word.
    word: K,
    value: V,
    flip: K,
    rank: u64,
    node: u32,
    bucket: u32,
    slot: u32,
    is_at_pair: bool,
}

impl<K: KeyWord, V: Value> Cursor<K, V> {
    /// Per thread. The pair; `None` past the last one.
    #[inline(always)]
    pub fn key_value(&self) -> Option<(CursorKey<K>, V)> {
        self.is_at_pair.then_some((CursorKey { word: self.word, flip: self.flip }, self.value))
    }

    /// Per thread. The pair's key; `None` past the last one.
    #[inline(always)]
    pub fn key(&self) -> Option<CursorKey<K>> {
        self.key_value().map(|(key, _)| key)
    }

    /// Per thread. How many pairs come before.
    #[inline(always)]
    pub fn rank(&self) -> u64 {
        self.rank
    }
}
