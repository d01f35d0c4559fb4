//! Leaves in host memory, read by the device across the bus.

use crate::layout::{LINE, slots, values_offset};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Finish`].
    pub struct FinishArgs<K, V> {
        /// The leaves' lines, in host memory that the device can reach.
        pub lines: Global<u8>,
        /// The leaf of each query: `[count]`, ascending, so that few pages are in use at a time.
        pub leaves: Global<u32>,
        /// The place of each query in `queries`: `[count]`.
        pub places: Global<u32>,
        /// Queries, in the caller's form.
        pub queries: Global<K>,
        /// How many leaves and places.
        pub count: u64,
        /// Exclusive-or mask between queries and ordered words.
        pub flip: K,
        /// After each `2^group` leaves there is a line that is no leaf; 32: nowhere.
        pub group: u32,
        /// Out: the value of each query's key, or `miss`, at the query's place.
        pub values: GlobalMut<V>,
        /// In: zeros. Out: the hit mask, by places. Queries for the largest word are not hits: an empty slot holds it too,
        /// so the host answers them.
        pub hits: GlobalMut<u32>,
        /// The value of a key that is not there.
        pub miss: V,
    }
}

impl<K: Word, V: Word> FinishArgs<K, V> {
    /// The line of a leaf.
    #[inline(always)]
    fn line(&self, leaf: u32) -> Global<u8> {
        let leaf = u64::from(leaf);
        self.lines.byte_add((leaf + (leaf >> self.group)) * LINE as u64)
    }
}

/// Searches the leaf of each query: a warp for each 32 of them in turn, and a group of lanes per line; any number of blocks
/// of whole warps.
///
/// A line is read by a group of lanes with 16 bytes each, so that it crosses the bus in one transaction. Few blocks are
/// enough to keep the bus busy, and they should be few: the warps go through the leaves side by side, so fewer of them
/// touch fewer pages at a time, and leave the multiprocessors to other kernels.
#[derive(Debug)]
pub struct Finish<K, V>(PhantomData<(K, V)>);

/// Lanes that read a line: 16 bytes each.
const LANES: u32 = (LINE / 16) as u32;

impl<K: Word, V: Word> Kernel for Finish<K, V> {
    type Args = FinishArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let warps = u64::from(simt.grid_dim()) * u64::from(simt.block_dim() / WARP);
        let mut tile = simt.global_index() / u64::from(WARP);
        while tile * u64::from(WARP) < args.count {
            // SAFETY: the same contract; the tile is below the count.
            unsafe { search_tile(simt, args, tile * u64::from(WARP)) };
            tile += warps;
        }
    }
}

/// Warp collective (all lanes). Searches the leaves of the 32 queries from `first` on.
///
/// # Safety
/// As for [`Finish`]; `first` is below the count.
#[inline(always)]
unsafe fn search_tile<S: Simt, K: Word, V: Word>(simt: S, args: &FinishArgs<K, V>, first: u64) {
    let index = first + u64::from(simt.lane());
    let (group, member) = (simt.lane() / LANES, simt.lane() % LANES);
    let (mut own, mut leaf, mut place) = (K::MIN, 0, 0);
    if index < args.count {
        // SAFETY: the place of a leaf, and that of its query.
        unsafe {
            leaf = simt.load(args.leaves, index, Hint::Streaming);
            place = simt.load(args.places, index, Hint::Streaming);
            own = simt.load(args.queries, u64::from(place), Hint::ReadOnly).xor(args.flip);
        }
    }
    let key_at = member * K::PER_VECTOR as u32;
    let reads = key_at < const { slots::<K, V>() };
    // All lines are under way before the first is searched.
    let lines: [K::Vector; LANES as usize] = core::array::from_fn(|round| {
        let of = simt.shuffle(FULL_MASK, leaf, group * LANES + round as u32);
        if reads {
            // SAFETY: a line of the tree; its keys, and maybe what follows them.
            unsafe { simt.load_vector(args.line(of).cast::<K>(), u64::from(key_at), Hint::EvictFirst) }
        } else {
            K::Vector::default()
        }
    });
    let (mut slot, mut is_hit) = (0, false);
    for (round, keys) in lines.iter().enumerate() {
        let key = simt.shuffle(FULL_MASK, own, group * LANES + round as u32);
        // The slot of the key among those that this lane has read; past the last slot if it is in none.
        let mut at = WARP;
        for (i, &word) in keys.as_ref().iter().enumerate() {
            let slot = key_at + i as u32;
            if word == key && word != K::MAX && slot < const { slots::<K, V>() } {
                at = slot;
            }
        }
        let found = simt.ballot(FULL_MASK, at < WARP) >> (group * LANES) & (u32::MAX >> (WARP - LANES));
        let finder = group * LANES + if found == 0 { 0 } else { lanetree_simt::lowest_one(u64::from(found)) };
        let at = simt.shuffle(FULL_MASK, at, finder);
        if member == round as u32 {
            (slot, is_hit) = (at, found != 0);
        }
    }
    let index = simt.opaque(index);
    if index < args.count {
        let mut value = args.miss;
        // SAFETY: the value of a slot that holds a pair; the place of a query, and a bit for each.
        unsafe {
            if is_hit {
                let values = args.line(leaf).byte_add(const { values_offset::<K, V>() } as u64);
                value = simt.load(values.cast::<V>(), u64::from(slot), Hint::EvictFirst);
                let (word, bit) = (u64::from(place / WARP), 1 << (place % WARP));
                simt.atomic_or(args.hits, word, bit, Order::Relaxed, Scope::Device);
            }
            simt.store(args.values, u64::from(place), value, Hint::Default);
        }
    }
}
