//! Completes a sort that used only the upper bits of the keys: pairs whose keys agree in those bits are adjacent, in
//! short runs, and are sorted in place (the local sorts of Stehle and Jacobsen's hybrid radix sort, 2017).
//!
//! If keys are random, about as many bits as it takes to number the pairs distinguish all but a few of them. So three
//! passes of eight bits and this one are enough for four million keys of 64 bits. This kernel checks the assumption: it
//! reports a run that is too long, or higher bits that differ although they were assumed equal, and the bits in which
//! keys differ at all, by which to sort again.

use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, GlobalMut, Hint, Kernel, KeyWord, Order, Scope, Shared, Simt, WARP, Word, instance, kernel_args, unroll,
};

/// The longest run that is sorted.
pub const LONGEST_RUN: u32 = 32;

/// Threads of a block of [`LocalSort`].
pub const LOCAL_SORT_THREADS: u32 = 256;

/// Pairs of a thread.
const ITEMS: usize = 2;

/// Pairs that a thread may have to move: its own, and one past the tile.
const PLACES: usize = ITEMS + 1;

/// Pairs of a block.
pub const LOCAL_SORT_TILE: u32 = ITEMS as u32 * LOCAL_SORT_THREADS;

/// Pairs before and after the tile that a block looks at: a run from the tile may end there, and a run that begins
/// before the tile belongs to the previous block.
const HALO: u32 = LONGEST_RUN;

kernel_args! {
    /// Arguments of [`LocalSort`].
    pub struct LocalSortArgs<K, V> {
        /// In and out: `[len]`, sorted by some of the bits in `mask`, and perhaps by all of them.
        pub keys: GlobalMut<K>,
        /// In and out: `[len]`.
        pub values: GlobalMut<V>,
        /// Pairs.
        pub len: u64,
        /// Added to: `[2]`, the [bits](differing_bits) in which ordered words of keys differ; and 1 if the pairs are not sorted.
        pub found: GlobalMut<u64>,
        /// The upper bits of an ordered word, in which the keys of a run agree.
        pub mask: K,
        /// Exclusive-or mask between a key and the word by which it is ordered.
        pub flip: K,
    }
}

/// Sorts the runs of pairs whose keys agree in the bits of a mask, stably, if none of those that are out of order
/// is longer than [`LONGEST_RUN`]. One block of [`LOCAL_SORT_THREADS`] per [`LOCAL_SORT_TILE`] pairs.
///
/// A run belongs to the block in whose tile it begins. Other blocks may see it half sorted, so they look only at the
/// bits of the mask, in which the whole run agrees.
#[derive(Debug)]
pub struct LocalSort<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word> LocalSort<K, V> {
    /// Ordered words: of the halo before the tile, of the tile, of the halo after it.
    const KEYS: Shared<K> = Shared::at(0, HALO + LOCAL_SORT_TILE + HALO);
    /// For each warp, in which bits keys differ.
    const DIFFERING: Shared<K> = Shared::at(Self::KEYS.end(), LOCAL_SORT_THREADS / WARP);
}

/// What a thread makes of a pair.
#[derive(Clone, Copy)]
struct Place {
    /// Its position in the block's keys.
    to: u32,
    /// Whether the pairs cannot be sorted here.
    gives_up: bool,
}

/// The part of the input that is in a block's shared memory.
#[derive(Clone, Copy)]
struct Window<K> {
    keys: Shared<K>,
    mask: K,
    from: u32,
    to: u32,
}

impl<K: KeyWord> Window<K> {
    #[inline(always)]
    fn is_one_run(&self, a: K, b: K) -> bool {
        a.xor(b).and(self.mask) == K::MIN
    }

    /// Per thread. The place of the pair `at`, whose key is `key`.
    ///
    /// # Safety
    /// The window's keys are stored since a barrier, and `at` is one of them.
    #[inline(always)]
    unsafe fn place<S: Simt>(&self, simt: S, at: u32, key: K) -> Place {
        // SAFETY: indexes between the window's bounds.
        let load = |at: u32| unsafe { simt.shared_load(self.keys, at) };
        let (mut start, mut end) = (at, at + 1);
        while start > self.from && at - start < LONGEST_RUN && self.is_one_run(load(start - 1), key) {
            start -= 1;
        }
        while end < self.to && end - start <= LONGEST_RUN && self.is_one_run(load(end), key) {
            end += 1;
        }
        let is_own = (HALO..HALO + LOCAL_SORT_TILE).contains(&start);
        let is_short = end - start <= LONGEST_RUN;
        let mut to = at;
        if is_own && is_short && end - start > 1 {
            to = start;
            let mut other = start;
            while other < end {
                let its_key = load(other);
                to += u32::from(its_key < key || its_key == key && other < at);
                other += 1;
            }
        }
        let mut gives_up = false;
        if at < HALO + LOCAL_SORT_TILE && at + 1 < self.to {
            let next = load(at + 1);
            gives_up = next < key && !(is_short && self.is_one_run(next, key));
        }
        Place { to, gives_up }
    }
}

/// The bits of a word in a word of 64 bits: of one of 128 bits, each is set for two.
pub fn differing_bits<K: KeyWord>(word: K) -> u64 {
    let [low, high] = word.parts();
    if K::BITS < 128 {
        return low;
    }
    let mut pairs = [low, high].map(|part| (part | part >> 1) & (u64::MAX / 3));
    // The bits at even places, moved together.
    for (i, mask) in (0..).zip([u64::MAX / 5, u64::MAX / 17, u64::MAX / 257, u64::MAX / 65537, u64::MAX >> 32]) {
        pairs = pairs.map(|part| (part | part >> (1_u32 << i)) & mask);
    }
    pairs[0] | pairs[1] << 32
}

/// Per thread. Reads a key, or each half of one of 128 bits, atomically.
///
/// # Safety
/// As [`Simt::atomic_load`].
#[inline(always)]
unsafe fn atomic_load<S: Simt, K: KeyWord>(simt: S, from: GlobalMut<K>, index: u64) -> K {
    let wide = |index: u64| {
        // SAFETY: the caller's.
        unsafe { simt.atomic_load(from.cast::<u64>(), index, Order::Relaxed, Scope::Device) }
    };
    match K::BITS {
        // SAFETY: the caller's.
        32 => K::truncate(u64::from(unsafe {
            simt.atomic_load(from.cast::<u32>(), index, Order::Relaxed, Scope::Device)
        })),
        64 => K::truncate(wide(index)),
        _ => K::from_parts([wide(2 * index), wide(2 * index + 1)]),
    }
}

/// Per thread. Writes a key, or each half of one of 128 bits, atomically.
///
/// # Safety
/// As [`Simt::atomic_store`].
#[inline(always)]
unsafe fn atomic_store<S: Simt, K: KeyWord>(simt: S, to: GlobalMut<K>, index: u64, key: K) {
    let [low, high] = key.parts();
    // SAFETY: the caller's.
    unsafe {
        let store = |index: u64, part: u64| {
            simt.atomic_store(to.cast::<u64>(), index, part, Order::Relaxed, Scope::Device);
        };
        match K::BITS {
            32 => simt.atomic_store(to.cast::<u32>(), index, key.low(), Order::Relaxed, Scope::Device),
            64 => store(index, low),
            _ => {
                store(2 * index, low);
                store(2 * index + 1, high);
            }
        }
    }
}

impl<K: KeyWord, V: Word> Kernel for LocalSort<K, V> {
    type Args = LocalSortArgs<K, V>;
    const STATIC_SHARED: u32 = Self::DIFFERING.end();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let thread = simt.thread_index();
        let first = u64::from(simt.block_index()) * u64::from(LOCAL_SORT_TILE);
        let left = args.len - first;
        let after = if left < u64::from(LOCAL_SORT_TILE + HALO) { left as u32 } else { LOCAL_SORT_TILE + HALO };
        let from = if first == 0 { HALO } else { 0 };
        let window = Window { keys: Self::KEYS, mask: args.mask, from, to: HALO + after };
        // The thread's pairs in the block's keys: the tile's pairs, and for a few threads one past them.
        let own = |item: usize| HALO + item as u32 * LOCAL_SORT_THREADS + thread;
        let is_there = |item: usize| own(item) < window.to;
        let index = |at: u32| first + u64::from(at) - u64::from(HALO);
        // Other blocks may be sorting the pairs of the halos, hence atomic. The halves of a key of 128 bits may then
        // come from two keys, which agree in the bits of the mask.
        let load = |at: u32| {
            // SAFETY: a pair of the input.
            unsafe { atomic_load(simt, args.keys, index(at)) }.xor(args.flip)
        };
        let mut keys = [K::MIN; PLACES];
        unroll!(PLACES, item => {
            if is_there(item) {
                keys[item] = load(own(item));
            }
        });
        if thread < HALO && first > 0 {
            // SAFETY: each thread has its own.
            unsafe { simt.shared_store(Self::KEYS, thread, load(thread)) };
        }
        unroll!(PLACES, item => {
            if is_there(item) {
                // SAFETY: each thread has its own.
                unsafe { simt.shared_store(Self::KEYS, own(item), keys[item]) };
            }
        });
        simt.barrier();

        let mut places = [Place { to: 0, gives_up: false }; PLACES];
        let mut differing = K::MIN;
        unroll!(PLACES, item => {
            if is_there(item) {
                // SAFETY: stored before the barrier.
                places[item] = unsafe { window.place(simt, own(item), keys[item]) };
                if own(item) > window.from {
                    // SAFETY: as above. Neighbours suffice: where no two differ in a bit nobody does.
                    let other = unsafe { simt.shared_load(Self::KEYS, own(item) - 1) };
                    differing = differing.or(other.xor(keys[item]));
                }
            }
        });
        let moves = |item: usize| is_there(item) && places[item].to != own(item);
        let mut values = [V::MIN; PLACES];
        unroll!(PLACES, item => {
            if moves(item) {
                // SAFETY: a pair of a run that is the block's.
                values[item] = unsafe { simt.load(args.values.as_const(), index(own(item)), Hint::Default) };
            }
        });
        let mut gives_up = false;
        unroll!(PLACES, item => {
            gives_up |= places[item].gives_up;
        });
        if gives_up {
            // SAFETY: two words, accessed atomically only.
            unsafe { simt.atomic_max(args.found, 1, 1, Order::Relaxed, Scope::Device) };
        }
        for lanes in [16, 8, 4, 2, 1] {
            differing = differing.or(simt.shuffle_xor(FULL_MASK, differing, lanes));
        }
        if simt.lane() == 0 {
            // SAFETY: one element per warp.
            unsafe { simt.shared_store(Self::DIFFERING, simt.warp(), differing) };
        }
        // All reads of pairs of the block's runs are done.
        simt.barrier();
        unroll!(PLACES, item => {
            if moves(item) {
                let to = index(places[item].to);
                // SAFETY: the places of a run's pairs are the run's, each once.
                unsafe {
                    atomic_store(simt, args.keys, to, keys[item].xor(args.flip));
                    simt.store(args.values, to, values[item], Hint::Default);
                }
            }
        });
        if thread == 0 {
            let mut differing = K::MIN;
            for warp in 0..LOCAL_SORT_THREADS / WARP {
                // SAFETY: stored before the barrier.
                differing = differing.or(unsafe { simt.shared_load(Self::DIFFERING, warp) });
            }
            let differing = differing_bits(differing);
            // SAFETY: two words, accessed atomically only.
            unsafe {
                // Most blocks have nothing new to report, and thousands of atomics on one word would be slow.
                if differing & !simt.atomic_load(args.found, 0, Order::Relaxed, Scope::Device) != 0 {
                    simt.atomic_or(args.found, 0, differing, Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

macro_rules! instances {
    ($($key:ident, $value:ident;)*) => {
        pastey::paste! {
            $(instance!([<primitives_sort_ $key _ $value __local_sort>], [<primitives_sort_ $key _ $value>], LocalSort<$key, $value>);)*
        }
    };
}
instances!(u32, u32; u32, u64; u64, u32; u64, u64; u128, u32; u128, u64;);
