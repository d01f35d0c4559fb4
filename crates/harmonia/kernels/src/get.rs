//! Point look-ups.

use crate::layout::{leaf_bytes, leaf_offset, leaf_values_offset};
use crate::tree::{Rounds, Slots, TreeRef, count_below, descend, group_bits, launch_bounds, read_slots, tile_start};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, GetBatch, Hint, Kernel, LaunchBounds, QueryArgs, Simt, WARP, Word};

/// Arguments of [`Get`].
pub type GetArgs<K, V> = QueryArgs<TreeRef<K>, GetBatch<K, V>>;

/// Looks up a batch of keys. One warp per 32 queries; any block of whole warps. With `STOP` every node is read in steps, and
/// no further than the warp's queries need (the paper's section 4.2); without it only nodes of many steps are.
#[derive(Debug)]
pub struct Get<K, V, const SLOT: bool, const F: u32, const G: u32, const Q: usize, const STOP: bool = false>(
    PhantomData<(K, V)>,
);

impl<K: Word, V: Word, const SLOT: bool, const F: u32, const G: u32, const Q: usize, const STOP: bool> Kernel
    for Get<K, V, SLOT, F, G, Q, STOP>
{
    type Args = GetArgs<K, V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = launch_bounds::<K>(F, Q);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tile = tile_start(simt, WARP);
        if tile < args.count {
            // SAFETY: the same contract.
            unsafe { get_tile::<S, K, V, SLOT, F, G, Q, STOP>(simt, args, |_| None, tile) };
        }
    }
}

/// Warp collective (all lanes). Looks up the 32 queries from `tile` on. `top` is that of [`children`](crate::tree::children).
///
/// # Safety
/// As for [`Get`]; `tile` is a multiple of 32 below the number of queries.
#[inline(always)]
pub(crate) unsafe fn get_tile<
    S: Simt,
    K: Word,
    V: Word,
    const SLOT: bool,
    const F: u32,
    const G: u32,
    const Q: usize,
    const STOP: bool,
>(
    simt: S,
    args: &GetArgs<K, V>,
    top: impl Fn(u32) -> Option<u32> + Copy,
    tile: u64,
) {
    let lane = simt.lane();
    let index = tile + u64::from(lane);
    let mut own = K::MIN;
    if index < args.count {
        // SAFETY: `index` is a query.
        own = unsafe { simt.load(args.queries, index, Hint::Streaming) }.xor(args.tree.flip);
    }
    let (mut value, mut found) = (args.miss, false);
    if args.tree.leaf_count > 0 {
        for round in 0..Rounds::<G, Q>::COUNT {
            let keys = Rounds::<G, Q>::deal(simt, own, round);
            // SAFETY: the tree is valid and not empty.
            let leaves = unsafe { descend::<S, K, SLOT, F, G, Q, STOP>(simt, &args.tree, top, keys) };
            // SAFETY: a descent ends at a leaf.
            let hits = unsafe { probe::<S, K, V, F, G, Q, STOP>(simt, &args.tree, keys, leaves) };
            for (j, (hit, hit_value)) in hits.into_iter().enumerate() {
                let (own_hit, own_value) = hand_over::<S, V, G, Q>(simt, hit, hit_value);
                if own_hit && Rounds::<G, Q>::is_own(lane, round, j) {
                    (value, found) = (own_value, true);
                }
            }
        }
    }
    if index < args.count {
        // SAFETY: `index` is a query.
        unsafe { simt.store(args.values, index, value, Hint::Streaming) };
    }
    if !args.hits.is_null() {
        let word = simt.ballot(FULL_MASK, found && index < args.count);
        if lane == 0 {
            // SAFETY: one word per started tile.
            unsafe { simt.store(args.hits, tile / u64::from(WARP), word, Hint::Streaming) };
        }
    }
}

/// Warp collective (all lanes). Passes the result of a group's lane to the lane that owns the query.
#[inline(always)]
fn hand_over<S: Simt, V: Word, const G: u32, const Q: usize>(simt: S, hit: bool, value: V) -> (bool, V) {
    if G == 1 {
        return (hit, value);
    }
    let server = Rounds::<G, Q>::server(simt.lane());
    let bits = group_bits::<G>(simt.ballot(FULL_MASK, hit), server);
    // A miss shuffles from any lane of the warp. Rustc's LLVM turns the second variant into a selection, which is
    // faster (the first loses 8 % at fanout 16); rust-cuda's LLVM turns it into a branch (the first gains 5 %).
    let holder = match bits {
        _ if cfg!(feature = "cuda_std") => (bits | 1 << (G - 1)).trailing_zeros(),
        0 => 0,
        _ => bits.trailing_zeros(),
    };
    (bits != 0, simt.shuffle(FULL_MASK, value, server * G + holder))
}

/// Warp collective (all lanes). Searches each leaf for its query. If a group's query is present, one of its lanes
/// returns true and the value.
///
/// # Safety
/// The leaves are leaves of the tree.
#[inline(always)]
unsafe fn probe<S: Simt, K: Word, V: Word, const F: u32, const G: u32, const Q: usize, const STOP: bool>(
    simt: S,
    tree: &TreeRef<K>,
    keys: [K; Q],
    leaves: [u32; Q],
) -> [(bool, V); Q] {
    let member = simt.lane() % G;
    if !Slots::<F, G>::whole::<K, STOP>() {
        // In a wide leaf the slots are counted in steps, and then one lane looks at one slot.
        // SAFETY: the caller's promise.
        let counts = unsafe { count_below::<S, K, V, F, G, Q, STOP>(simt, tree, keys, leaves) };
        return core::array::from_fn(|j| {
            if member != 0 || counts[j] == F {
                return (false, V::MIN);
            }
            let slot = u64::from(counts[j]);
            let at = tree.leaves.byte_add(leaf_offset::<K, V>(F, leaves[j])).cast::<K>();
            // SAFETY: `slot < F`.
            if unsafe { simt.load(at, slot, Hint::ReadOnly) } != keys[j] {
                return (false, V::MIN);
            }
            let values = tree.leaves.byte_add(leaf_values_offset::<K, V>(F, leaves[j])).cast::<V>();
            // SAFETY: `slot < F`.
            (true, unsafe { simt.load(values, slot, Hint::ReadOnly) })
        });
    }
    // A leaf of one line: its values are loaded with its keys, before it is known whether one is needed.
    let width = Slots::<F, G>::width::<K>();
    let steps = Slots::<F, G>::steps::<K>();
    let together = steps == 1 && leaf_bytes::<K, V>(F) <= 128;
    // A leaf that its group reads in one access is not read again, so L1 is left to the inner nodes. A lane that reads
    // its leaf in steps finds the later parts in L1.
    let hint = if steps == 1 { Hint::EvictFirst } else { Hint::ReadOnly };
    core::array::from_fn(|j| {
        let key_at = tree.leaves.byte_add(leaf_offset::<K, V>(F, leaves[j])).cast::<K>();
        let value_at = tree.leaves.byte_add(leaf_values_offset::<K, V>(F, leaves[j])).cast::<V>();
        let (mut hit, mut hit_slot, mut value) = (false, 0, V::MIN);
        for step in 0..steps {
            let first = Slots::<F, G>::first::<K>(step, member);
            // SAFETY: the slots lie inside the leaf, which is aligned to at least 32 bytes.
            unsafe {
                read_slots(simt, key_at, u64::from(first), width, hint, |i, word| {
                    if word == keys[j] {
                        (hit, hit_slot) = (true, first + i);
                    }
                });
            }
            if together && width == Slots::<F, G>::width::<V>() {
                // SAFETY: as above; the values begin on a 16-byte boundary too.
                unsafe {
                    read_slots(simt, value_at, u64::from(first), width, hint, |i, word| {
                        if hit && hit_slot == first + i {
                            value = word;
                        }
                    });
                }
            }
        }
        if !(together && width == Slots::<F, G>::width::<V>()) && hit {
            // SAFETY: the slot lies inside the leaf.
            value = unsafe { simt.load(value_at, u64::from(hit_slot), hint) };
        }
        (hit, value)
    })
}
