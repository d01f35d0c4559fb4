//! A node of the lowest level over sorted pairs: its plan, which says where its buckets begin, and its writing. Builds and batches
//! of changes make nodes by this.

use crate::layout::{
    BITMAP_CHILDREN, BUCKET_WORDS, FIRST_CHILD, Format, HALVES_CHILDREN, MOST_CHUNK_SLOTS, MOST_PLANES, NODE_WORDS,
    QUANTISER, Quantiser, Record, SEPARATORS, SHIFTS, UNUSED_HALF, bucket_slots, chunk_at, chunk_of, chunk_slots,
    exact_children, has_values_beside, node_at, planes, record_at, record_words, value_at,
};
use crate::plan_memory::{PlanMemory, TOGETHER};
use crate::stretch::{BucketCut, Filling, Stretch, put_starts};
use crate::values;
use lanetree_layout::Value;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, KeyWord, Order, Scope, Shared, Simt, WARP, unroll};

/// Sorted pairs from which a node is made: in global or in shared memory.
pub(crate) trait Source<K, V>: Copy {
    /// Per thread. The ordered word of a pair.
    ///
    /// # Safety
    /// There is such a pair.
    unsafe fn key<S: Simt>(self, simt: S, at: u32) -> K;
    /// Per thread. The value of a pair.
    ///
    /// # Safety
    /// There is such a pair.
    unsafe fn value<S: Simt>(self, simt: S, at: u32) -> V;
}

/// Pairs of a source from one of them on.
#[derive(Clone, Copy)]
pub(crate) struct From<T> {
    pub(crate) source: T,
    pub(crate) from: u32,
}

impl<K: KeyWord, V: Value, T: Source<K, V>> Source<K, V> for From<T> {
    #[inline(always)]
    unsafe fn key<S: Simt>(self, simt: S, at: u32) -> K {
        // SAFETY: the caller's.
        unsafe { self.source.key(simt, self.from + at) }
    }
    #[inline(always)]
    unsafe fn value<S: Simt>(self, simt: S, at: u32) -> V {
        // SAFETY: the caller's.
        unsafe { self.source.value(simt, self.from + at) }
    }
}

/// A plan of a node.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) quantiser: Quantiser,
    pub(crate) buckets: u32,
    /// Which of the lane's stretch of the pairs buckets begin with.
    begun: u32,
}

impl Plan {
    /// Of no buckets.
    pub(crate) const NONE: Self = Self { quantiser: Quantiser::EXACT, buckets: 0, begun: 0 };
}

/// Warp collective (all lanes). A plan for one node of at most `most_buckets` buckets with all of `len` pairs, at least one, if
/// such a node exists. Its buckets are filled as the first filling says or, if there would be too many, as the second
/// says.
///
/// # Safety
/// The source has `len` pairs; the memory is the warp's own.
#[inline(always)]
pub(crate) unsafe fn plan<S: Simt, K: KeyWord, V: Value, T: Source<K, V>>(
    simt: S,
    source: T,
    len: u32,
    fillings: (Filling, Option<Filling>),
    most_buckets: u32,
    memory: PlanMemory,
) -> Option<Plan> {
    let slots = bucket_slots::<K, V>();
    // A bitmap, another one whose cells lie elsewhere, halves, and whole keys.
    let (mut attempt, mut shift) = (0, 0);
    while attempt < 4 {
        // Loaded again for each attempt, since most need only one, and others are to have the registers.
        // SAFETY: pairs of the source.
        let (first, last) = unsafe { (source.key(simt, simt.opaque(0)), source.key(simt, simt.opaque(len) - 1)) };
        let (quantiser, children) = match attempt {
            0 | 1 => (Quantiser::bitmap(first, last, shift), BITMAP_CHILDREN),
            2 => (Quantiser::halves(first, last), HALVES_CHILDREN),
            _ => (Quantiser::EXACT, exact_children::<K>()),
        };
        let most = if children < most_buckets { children } else { most_buckets };
        if len > most * slots {
            attempt = if attempt == 0 { 2 } else { attempt + 1 };
            continue;
        }
        // SAFETY: the caller's.
        let cut = unsafe { cut(simt, source, (len, last), quantiser, fillings, most, memory, |_, _| {}) };
        if let BucketCut::Into { buckets, begun } = cut {
            return Some(Plan { quantiser, buckets, begun });
        }
        if attempt == 0 && matches!(cut, BucketCut::Crowded) {
            // SAFETY: the same pairs.
            shift = unsafe { uncrowded_shift(simt, source, len) };
        }
        // If there is no such shift, or cells that lie elsewhere would take as many buckets, another format.
        attempt = match attempt {
            0 if shift > 0 => 1,
            0 => 2,
            attempt => attempt + 1,
        };
    }
    None
}

/// Warp collective (all lanes). As [`plan`], if the first attempt succeeds, as it nearly always does. Each lane looks at keys, in
/// ascending order of their rounds; after the last one at that again.
///
/// # Safety
/// As for [`plan`].
#[inline(always)]
pub(crate) unsafe fn plan_bitmap<S: Simt, K: KeyWord, V: Value, T: Source<K, V>>(
    simt: S,
    source: T,
    len: u32,
    filling: Filling,
    memory: PlanMemory,
    mut look: impl FnMut(u32, K),
) -> Option<Plan> {
    // SAFETY: pairs of the source; the caller's.
    unsafe {
        let last = source.key(simt, len - 1);
        if len > BITMAP_CHILDREN * bucket_slots::<K, V>() {
            let mut from = 0;
            while from < len {
                let at = from + simt.lane();
                look(at, if at < len { source.key(simt, at) } else { last });
                from += WARP;
            }
            return None;
        }
        let quantiser = Quantiser::bitmap(source.key(simt, 0), last, 0);
        match cut(simt, source, (len, last), quantiser, (filling, None), BITMAP_CHILDREN, memory, look) {
            BucketCut::Into { buckets, begun } => Some(Plan { quantiser, buckets, begun }),
            _ => None,
        }
    }
}

/// Warp collective (all lanes). Cuts `len` pairs, of which this is the last key, into buckets that this quantiser tells apart.
///
/// # Safety
/// The source has `len` pairs, at least one, and no more than a node can hold; the memory is the warp's own.
#[expect(clippy::too_many_arguments, reason = "what plans have in common")]
#[inline(always)]
unsafe fn cut<S: Simt, K: KeyWord, V: Value, T: Source<K, V>>(
    simt: S,
    source: T,
    (len, last): (u32, K),
    quantiser: Quantiser,
    (filling, otherwise): (Filling, Option<Filling>),
    most: u32,
    memory: PlanMemory,
    mut look: impl FnMut(u32, K),
) -> BucketCut {
    let lane = simt.lane();
    let mut carry = u32::MAX;
    let mut round = 0;
    // Up to the round of the end, which is a beginning too, and one more.
    while round * WARP <= len + WARP {
        // Their loads overlap.
        let mut keys = [K::MIN; TOGETHER];
        unroll!(TOGETHER, i => {
            let at = (round + i as u32) * WARP + lane;
            // SAFETY: a pair of the source.
            keys[i] = if at < len { unsafe { source.key(simt, at) } } else { last };
        });
        // Each of the first lanes stores a round's, at once: nothing is to come between the votes.
        let mut own = 0;
        unroll!(TOGETHER, i => {
            let at = (round + i as u32) * WARP + lane;
            look(at, keys[i]);
            let quantised = quantiser.quantise(keys[i]);
            // The first lane gets the last one's, for the next round.
            let rotated = simt.shuffle(FULL_MASK, quantised, (lane + WARP - 1) % WARP);
            let before = if lane == 0 { carry } else { rotated };
            carry = rotated;
            let differs = (quantised != before) | (quantiser.0 == Quantiser::EXACT.0);
            let begins = simt.ballot(FULL_MASK, (at < len) & differs | (at == len));
            own = if lane == i as u32 { begins } else { own };
        });
        if lane < TOGETHER as u32 {
            // SAFETY: a word for each round; the warp meets before it is read.
            unsafe { simt.shared_store(memory.begins, round + lane, own) };
        }
        round += TOGETHER as u32;
    }
    simt.sync_warp(FULL_MASK);
    // SAFETY: the beginnings of the pairs and their end are in the memory.
    let stretch = unsafe { Stretch::of(simt, len, bucket_slots::<K, V>(), memory) };
    let (mut filling, mut otherwise) = (filling, otherwise);
    loop {
        let cut = stretch.cut(simt, filling, most);
        match (&cut, otherwise) {
            (BucketCut::TooMany, Some(other)) => (filling, otherwise) = (other, None),
            _ => return cut,
        }
    }
}

/// Warp collective (all lanes). One of [`SHIFTS`] ways to lay out a bitmap's cells in which none has more keys than a bucket has
/// slots;
/// 0 if there is none but perhaps the first: the same in all lanes.
///
/// # Safety
/// The source has `len` pairs, at least one.
#[inline(always)]
unsafe fn uncrowded_shift<S: Simt, K: KeyWord, V: Value, T: Source<K, V>>(simt: S, source: T, len: u32) -> u32 {
    let slots = bucket_slots::<K, V>();
    // SAFETY: pairs of the source.
    let (first, last) = unsafe { (source.key(simt, simt.opaque(0)), source.key(simt, simt.opaque(len) - 1)) };
    let mut before = 0;
    // A way for each lane.
    while before < SHIFTS {
        // The first way of all has been tried. All others have cells of one size.
        let shifted = Quantiser::bitmap(first, last, (before + simt.lane()).max(1));
        let mut is_open = true;
        let mut round = 0;
        while round < len && simt.any(FULL_MASK, is_open) {
            // SAFETY: pairs of the source.
            let ends = |at: u32| unsafe { (source.key(simt, at), source.key(simt, at + slots)) };
            let at = round + simt.lane();
            // Keys of which one more than a bucket has slots must not all be in one cell.
            let mut is_near = false;
            if at + slots < len {
                let (from, to) = ends(at);
                is_near = shifted.may_share(from, to);
            }
            let mut near = simt.ballot(FULL_MASK, simt.opaque(u32::from(is_near)) != 0);
            while near != 0 {
                let (from, to) = ends(round + near.trailing_zeros());
                is_open &= shifted.quantise(from) != shifted.quantise(to);
                near &= near - 1;
            }
            round += WARP;
        }
        let open = simt.ballot(FULL_MASK, is_open);
        if open != 0 {
            return (before + open.trailing_zeros()).max(1);
        }
        before += WARP;
    }
    0
}

/// Where a node goes.
#[derive(Clone, Copy)]
pub(crate) struct NodeOutputs {
    pub(crate) nodes: GlobalMut<u32>,
    pub(crate) records: GlobalMut<u64>,
    /// Of nodes that have other buckets than before.
    pub(crate) ends: GlobalMut<u32>,
    pub(crate) buckets: GlobalMut<u64>,
}

/// A node's position among others.
#[derive(Clone, Copy)]
pub(crate) struct NodePosition {
    pub(crate) number: u32,
    pub(crate) first_bucket: u32,
    pub(crate) rank: u64,
    pub(crate) buckets: u32,
    /// Whether it has other buckets than before, or was not there.
    pub(crate) is_new: bool,
}

/// Warp collective (all lanes). Writes a node by its plan, its record and all its buckets; those that it does not need repeat
/// its last pair.
///
/// # Safety
/// The plan was made for the source; the memory is the warp's own; the outputs have room.
#[inline(always)]
pub(crate) unsafe fn write<S: Simt, K: KeyWord, V: Value, T: Source<K, V>>(
    simt: S,
    source: T,
    len: u32,
    plan: Plan,
    position: NodePosition,
    outputs: NodeOutputs,
    memory: PlanMemory,
) {
    let Plan { quantiser, buckets, .. } = plan;
    let NodePosition { number, first_bucket, rank, buckets: room, is_new } = position;
    let (lane, slots, slots_of_bucket) = (simt.lane(), chunk_slots::<K, V>(), bucket_slots::<K, V>());
    // SAFETY: pairs of the source; the buckets' starts; elements of the node and its buckets.
    unsafe {
        put_starts(simt, plan.begun, (buckets, len), memory);
        // Several at a time, so that their loads overlap.
        const ROUNDS: usize = 4;
        let chunks = room * (BUCKET_WORDS / 2);
        let mut round = 0;
        while round < chunks {
            let mut words = [[0; 2]; ROUNDS];
            // Those that are not in the words.
            let mut values = [V::default(); ROUNDS];
            unroll!(ROUNDS, i => {
                let chunk = round + i as u32 * WARP + lane;
                let bucket = chunk / (BUCKET_WORDS / 2);
                let (mut at, mut last) = (len - 1, len - 1);
                if bucket < buckets {
                    at = simt.shared_load(memory.starts, bucket) + chunk % (BUCKET_WORDS / 2) * slots;
                    last = simt.shared_load(memory.starts, bucket + 1) - 1;
                }
                // Free slots repeat the pair before them.
                let at = if at < last { at } else { last };
                let mut pairs = [(source.key(simt, at), source.value(simt, at)); MOST_CHUNK_SLOTS];
                unroll!(MOST_CHUNK_SLOTS, slot => {
                    if 0 < slot && (slot as u32) < slots {
                        let own = at + slot as u32;
                        pairs[slot] = match own <= last {
                            true => (source.key(simt, own), source.value(simt, own)),
                            false => pairs[slot.saturating_sub(1)],
                        };
                    }
                });
                words[i] = chunk_of(pairs);
                values[i] = pairs[0].1;
            });
            unroll!(ROUNDS, i => {
                let chunk = round + i as u32 * WARP + lane;
                if chunk < chunks {
                    let to = u64::from(first_bucket) * u64::from(BUCKET_WORDS / 2) + u64::from(chunk);
                    simt.store_vector(outputs.buckets, chunk_at::<K, V>(to), words[i], Hint::Default);
                    if has_values_beside::<K, V>() {
                        let (bucket, slot) = (first_bucket + chunk / slots_of_bucket, chunk % slots_of_bucket);
                        let to = value_at::<K, V>(bucket, slot);
                        values::store(simt, outputs.buckets.cast::<V>(), to, values[i], Hint::Default);
                    }
                }
            });
            round += ROUNDS as u32 * WARP;
        }
        let planes = planes_of::<S, K, V>(simt, buckets, memory);
        let record = Record { first: source.key(simt, 0), rank, planes }.words::<V>();
        if lane == 0 {
            if is_new {
                simt.store(outputs.ends, u64::from(number), first_bucket + room, Hint::Default);
            }
            let to = record_at::<K, V>(number);
            simt.store_vector(outputs.records, to, [record[0], record[1]], Hint::Default);
            simt.store_vector(outputs.records, to + 2, [record[2], record[3]], Hint::Default);
            if record_words::<K, V>() == 6 {
                simt.store_vector(outputs.records, to + 4, [record[4], record[5]], Hint::Default);
            }
        }
        let first_of = |bucket: u32| source.key(simt, simt.shared_load(memory.starts, bucket));
        let word = node_word(simt, quantiser, first_bucket, buckets, first_of, memory.node);
        if lane < NODE_WORDS && (is_new || lane != FIRST_CHILD) {
            let to = node_at(number) + u64::from(lane);
            simt.store(outputs.nodes, to, word, Hint::Default);
        }
        simt.sync_warp(FULL_MASK);
    }
}

/// Warp collective (all lanes). The planes of the plan in the memory, which has `buckets` buckets.
///
/// # Safety
/// It is in the memory.
#[inline(always)]
unsafe fn planes_of<S: Simt, K: KeyWord, V: Value>(simt: S, buckets: u32, memory: PlanMemory) -> [u64; MOST_PLANES] {
    let lane = simt.lane();
    // A lane has two buckets.
    let beyond = |bucket: u32| {
        if bucket >= buckets {
            return 0;
        }
        // SAFETY: the starts of the buckets, and the end.
        unsafe { simt.shared_load(memory.starts, bucket + 1) - simt.shared_load(memory.starts, bucket) - 1 }
    };
    let (low, high) = (beyond(lane), beyond(lane + WARP));
    let plane = |bit: u32| {
        let high = simt.ballot(FULL_MASK, high >> bit & 1 != 0);
        let low = simt.ballot(FULL_MASK, low >> bit & 1 != 0);
        u64::from(high) << 32 | u64::from(low)
    };
    let has_fourth = planes::<K, V>() > 3;
    [plane(0), plane(1), plane(2), if has_fourth { plane(3) } else { 0 }]
}

/// Words of a plan that a kernel leaves to another, an even number: its quantiser, its buckets, and for each lane, or for two if
/// their stretches are short, which of its pairs buckets begin with.
pub const fn plan_words<K: KeyWord, V: Value>() -> u32 {
    2 + if has_short_stretches::<K, V>() { WARP / 2 } else { WARP }
}

/// Whether a lane has at most 16 pairs of a node.
const fn has_short_stretches<K: KeyWord, V: Value>() -> bool {
    bucket_slots::<K, V>() * BITMAP_CHILDREN <= WARP * 16
}

/// Warp collective (all lanes). Saves a plan, for [`saved`].
///
/// # Safety
/// There is room for [`plan_words`] at an even index.
#[inline(always)]
pub(crate) unsafe fn save<S: Simt, K: KeyWord, V: Value>(simt: S, plan: Plan, (to, at): (GlobalMut<u32>, u64)) {
    let lane = simt.lane();
    let (mut word, mut begun, mut is_stored) = (lane, plan.begun, true);
    if has_short_stretches::<K, V>() {
        begun |= simt.shuffle_down(FULL_MASK, begun, 1) << 16;
        (word, is_stored) = (lane / 2, lane & 1 == 0);
    }
    // SAFETY: the caller's.
    unsafe {
        if is_stored {
            simt.store(to, at + 2 + u64::from(word), begun, Hint::Default);
        }
        if lane == 0 {
            simt.store(to, at, plan.quantiser.0, Hint::Default);
            simt.store(to, at + 1, plan.buckets, Hint::Default);
        }
    }
}

/// Warp collective (all lanes). A plan that was saved.
///
/// # Safety
/// It was.
#[inline(always)]
pub(crate) unsafe fn saved<S: Simt, K: KeyWord, V: Value>(simt: S, (from, at): (Global<u32>, u64)) -> Plan {
    let lane = simt.lane();
    // SAFETY: words of the plan.
    unsafe {
        let load = |word: u32| simt.load(from, at + u64::from(word), Hint::ReadOnly);
        let begun = match has_short_stretches::<K, V>() {
            true => load(2 + lane / 2) >> (16 * (lane % 2)) & 0xffff,
            false => load(2 + lane),
        };
        Plan { quantiser: Quantiser(load(0)), buckets: load(1), begun }
    }
}

/// Warp collective (all lanes). The lane's word of a node, in the first lanes; `first_of` is the first key of a child, from
/// the second one on.
///
/// # Safety
/// The memory is the warp's own; the children's quantised keys differ.
#[inline(always)]
pub(crate) unsafe fn node_word<S: Simt, K: KeyWord>(
    simt: S,
    quantiser: Quantiser,
    first_child: u32,
    children: u32,
    first_of: impl Fn(u32) -> K,
    memory: Shared<u32>,
) -> u32 {
    let lane = simt.lane();
    let mut word = match lane {
        FIRST_CHILD => first_child,
        QUANTISER => quantiser.0,
        _ => 0,
    };
    // SAFETY: words of the node.
    unsafe {
        match quantiser.format() {
            Format::Bitmap => {
                if lane < NODE_WORDS {
                    simt.shared_store(memory, lane, 0);
                }
                simt.sync_warp(FULL_MASK);
                let mut child = lane + 1;
                while child < children {
                    let cell = quantiser.quantise(first_of(child));
                    // Every child has a bit of its own, so a sum is their union.
                    simt.shared_atomic_add(memory, cell / 32, 1 << (cell % 32));
                    child += WARP;
                }
                simt.sync_warp(FULL_MASK);
                if lane < SEPARATORS {
                    word = simt.shared_load(memory, lane);
                }
            }
            Format::Halves => {
                if lane < SEPARATORS {
                    let half = |child: u32| {
                        if child < children { quantiser.quantise(first_of(child)) } else { UNUSED_HALF }
                    };
                    word = half(2 * lane + 1) | half(2 * lane + 2) << 16;
                }
            }
            Format::Exact => {
                if lane < SEPARATORS {
                    let words = K::BITS / 32;
                    let child = lane / words + 1;
                    // The largest key separates nothing; others are those before a child's first.
                    let separator = if child < children { first_of(child).wrapping_add(K::MAX) } else { K::MAX };
                    // The lane's part of it.
                    word = separator.shr(lane % words * 32).low();
                }
            }
        }
    }
    word
}

/// Per thread. Adds formats to a level's formats. Nearly always the level has them, and nothing is written.
///
/// # Safety
/// There is a word, accessed atomically only.
#[inline(always)]
pub(crate) unsafe fn note_formats<S: Simt>(simt: S, to: GlobalMut<u32>, formats: u32) {
    // SAFETY: the caller's.
    unsafe {
        if formats & !simt.atomic_load(to, 0, Order::Relaxed, Scope::Device) != 0 {
            simt.atomic_or(to, 0, formats, Order::Relaxed, Scope::Device);
        }
    }
}
