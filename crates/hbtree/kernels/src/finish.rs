//! Leaves in host memory, read by the device across the bus.

use crate::layout::{LINE, slots, values_offset};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Simt, WARP, Word, kernel_args};

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
        /// Out: `[count]`, the value of each query's key, or `miss`, in the order of `places`.
        pub values: GlobalMut<V>,
        /// Out: the hit mask, in the same order. Queries for the largest word are not hits: an empty slot holds it too, so
        /// the host answers them.
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

/// Searches the leaf of each query: one thread per query, groups of lanes per line; any block of whole warps.
///
/// A line is read by a group of lanes with 16 bytes each, so that it crosses the bus in one transaction.
#[derive(Debug)]
pub struct Finish<K, V>(PhantomData<(K, V)>);

/// Lanes that read a line: 16 bytes each.
const LANES: u32 = (LINE / 16) as u32;

impl<K: Word, V: Word> Kernel for Finish<K, V> {
    type Args = FinishArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let (group, member) = (simt.lane() / LANES, simt.lane() % LANES);
        let (mut own, mut leaf) = (K::MIN, 0);
        if index < args.count {
            // SAFETY: the place of a leaf, and that of its query.
            unsafe {
                leaf = simt.load(args.leaves, index, Hint::Streaming);
                let place = simt.load(args.places, index, Hint::Streaming);
                own = simt.load(args.queries, u64::from(place), Hint::ReadOnly).xor(args.flip);
            }
        }
        let (mut slot, mut is_hit) = (0, false);
        for round in 0..LANES {
            let source = group * LANES + round;
            let (key, of) = (simt.shuffle(FULL_MASK, own, source), simt.shuffle(FULL_MASK, leaf, source));
            // The slot of the key among those that this lane has read; past the last slot if it is in none.
            let mut at = WARP;
            let first = member * K::PER_VECTOR as u32;
            if first < const { slots::<K, V>() } {
                // SAFETY: a line of the tree; its keys, and maybe what follows them.
                let keys = unsafe { simt.load_vector(args.line(of).cast::<K>(), u64::from(first), Hint::ReadOnly) };
                for (i, &word) in keys.as_ref().iter().enumerate() {
                    let slot = first + i as u32;
                    if word == key && word != K::MAX && slot < const { slots::<K, V>() } {
                        at = slot;
                    }
                }
            }
            let found = simt.ballot(FULL_MASK, at < WARP) >> (group * LANES) & (u32::MAX >> (WARP - LANES));
            let finder = group * LANES + if found == 0 { 0 } else { lanetree_simt::lowest_one(u64::from(found)) };
            let at = simt.shuffle(FULL_MASK, at, finder);
            if member == round {
                (slot, is_hit) = (at, found != 0);
            }
        }
        let index = simt.opaque(index);
        let hit = simt.opaque(u32::from(is_hit)) != 0 && index < args.count;
        let mut value = args.miss;
        if hit {
            let values = args.line(leaf).byte_add(const { values_offset::<K, V>() } as u64);
            // SAFETY: the value of a slot that holds a pair.
            value = unsafe { simt.load(values.cast::<V>(), u64::from(slot), Hint::ReadOnly) };
        }
        let mask = simt.ballot(FULL_MASK, hit);
        let index = simt.opaque(index);
        if index < args.count {
            // SAFETY: the place of a query; one word for each 32 of them.
            unsafe {
                simt.store(args.values, index, value, Hint::Streaming);
                if simt.lane() == 0 {
                    simt.store(args.hits, index / u64::from(WARP), mask, Hint::Streaming);
                }
            }
        }
    }
}
