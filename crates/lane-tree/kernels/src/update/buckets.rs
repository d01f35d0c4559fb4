//! Changes of single buckets, and of two of which one has no room.

use super::bucket::{Bucket, PAIRS};
use super::{APPEND_BYTES, Changes, Effect, append};
use crate::layout::{
    BUCKET_WORDS, Format, MOST_CHUNK_SLOTS, MOST_PLANES, QUANTISER, Quantiser, SEPARATORS, chunk_at, chunk_of,
    has_values_beside, node_at, planes, record_at, record_words, value_at,
};
use crate::search::TreeRef;
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Order, Scope, Simt, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`PlanBuckets`], [`PlanShifts`], [`WriteBuckets`] and [`WriteShifts`].
    pub struct BucketChangesArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// Not 0 if the keys are not sorted after all: then nothing is done.
        pub unsorted: Global<u64>,
        /// A bit for each node of the lowest level: whether it is to be rewritten. [`PlanBuckets`] and [`PlanShifts`] set
        /// them.
        pub marks: GlobalMut<u32>,
        /// Out, of [`PlanBuckets`]: the first operations of buckets that have no room, in any order: `[*full_count]`.
        pub full: GlobalMut<u32>,
        /// In and out, of [`PlanBuckets`]: how many; added to the former value.
        pub full_count: GlobalMut<u64>,
        /// Out, at the first operation of each bucket: what it shifts to a neighbour, as a shift, or 0: `[count]`.
        pub shifts: GlobalMut<u32>,
        /// Out, of [`WriteBuckets`]: the tree's nodes.
        pub nodes: GlobalMut<u32>,
        /// Out, of [`WriteBuckets`]: its records.
        pub records: GlobalMut<u64>,
        /// Out, of [`WriteBuckets`]: its buckets.
        pub buckets: GlobalMut<u64>,
    }
}

/// Most operations of a bucket that is changed alone: one thread does all of them.
const MOST: u32 = 32;

/// What the operations of one bucket do.
struct Group {
    /// The first one, and the one after the last.
    from: u64,
    to: u64,
    node: u32,
    /// The bucket's number, among all and in the node.
    number: u32,
    bucket: u32,
    /// Its pairs, before and after, wrapping.
    len: u32,
    new_len: u32,
    /// Whether it has the node's last pairs.
    is_last: bool,
    /// Whether there is any effect.
    is_changed: bool,
    /// Whether look-ups come to it for all keys that are inserted, and there are not too many of these and of operations.
    is_simple: bool,
}

impl<K: KeyWord, V: Value> Changes<K, V> {
    /// Per thread. The operations of a bucket, if the one at `at` is their first.
    #[inline(always)]
    fn group<S: Simt>(&self, simt: S, at: u64) -> Option<Group> {
        if at >= self.count {
            return None;
        }
        // SAFETY: operations.
        unsafe {
            let bucket_of = |at: u64| simt.load(self.buckets, at, Hint::ReadOnly);
            let (number, mut located) = (bucket_of(at), self.located(simt, at));
            let before = if at > 0 { bucket_of(at - 1) } else { !number };
            let node = self.node(simt, at);
            if before == number {
                return None;
            }
            let len = located.len();
            let mut group = Group {
                from: at,
                to: at + 1,
                node,
                number,
                bucket: located.bucket(),
                len,
                new_len: len,
                is_last: located.is_last(),
                is_changed: false,
                is_simple: true,
            };
            let (mut left, mut inserts) = (MOST, 0);
            loop {
                match located.effect() {
                    Effect::Insert => {
                        group.new_len += 1;
                        inserts += 1;
                        group.is_simple &= located.is_reached();
                    }
                    Effect::Remove => group.new_len = group.new_len.wrapping_sub(1),
                    Effect::None | Effect::Replace => {}
                }
                group.is_changed |= located.effect() != Effect::None;
                if group.to == self.count || bucket_of(group.to) != number {
                    break;
                }
                left -= 1;
                if left == 0 {
                    group.is_simple = false;
                    break;
                }
                located = self.located(simt, group.to);
                group.to += 1;
            }
            // They go in one by one, and what is removed may come last.
            group.is_simple &= len + inserts <= Bucket::<K, V>::PAIRS as u32;
            Some(group)
        }
    }
}

impl<K: KeyWord, V: Value> Bucket<K, V> {
    /// Does the operations of a group. `value` is what one of them brings: the plan has an instance for all values, and reads none.
    ///
    /// # Safety
    /// The operations are this bucket's, and simple.
    #[inline(always)]
    unsafe fn change<S: Simt>(
        &mut self,
        simt: S,
        changes: &Changes<K, V>,
        flip: K,
        group: &Group,
        value: impl Fn(u64) -> V,
    ) {
        let mut own = group.from;
        while own < group.to {
            // SAFETY: operations.
            unsafe {
                let (located, key) = (changes.located(simt, own), changes.key(simt, own, flip));
                match located.effect() {
                    Effect::Replace => self.replace(key, value(own)),
                    Effect::Remove => self.remove(self.below(key)),
                    Effect::Insert => self.insert(key, value(own)),
                    Effect::None => {}
                }
            }
            own += 1;
        }
    }
}

/// What a bucket shifts to a neighbour, in a word that is not 0.
#[derive(Clone, Copy)]
struct Shift(u32);

impl Shift {
    /// So many pairs, the last ones to the bucket after it or the first ones to the one before, which has `len`; the cell in which
    /// the second of the two buckets began, and the one in which it does now.
    #[inline(always)]
    fn new(to_next: bool, (pairs, len): (u32, u32), (old, new): (u32, u32)) -> Self {
        Self(old | new << 9 | pairs << 18 | (len - 1) << 22 | u32::from(to_next) << 30 | 1 << 31)
    }

    #[inline(always)]
    fn is_to_next(self) -> bool {
        self.0 >> 30 & 1 != 0
    }

    #[inline(always)]
    fn pairs(self) -> u32 {
        self.0 >> 18 & 15
    }

    /// The pairs of the other bucket.
    #[inline(always)]
    fn len(self) -> u32 {
        (self.0 >> 22 & 15) + 1
    }

    #[inline(always)]
    fn cells(self) -> (u32, u32) {
        (self.0 & 511, self.0 >> 9 & 511)
    }
}

/// Per thread. The cell of a bitmap's set bit with this number.
///
/// # Safety
/// The node has such a bit.
#[inline(always)]
unsafe fn cell_of_bit<S: Simt>(simt: S, nodes: Global<u32>, node: u32, mut number: u32) -> u32 {
    let mut word = 0;
    while word < SEPARATORS {
        // SAFETY: a word of the node.
        let mut bits = unsafe { simt.load(nodes, node_at(node) + u64::from(word), Hint::ReadOnly) };
        let count = bits.count_ones();
        if number < count {
            while number > 0 {
                bits &= bits.wrapping_sub(1);
                number -= 1;
            }
            return word * 32 + bits.trailing_zeros();
        }
        number -= count;
        word += 1;
    }
    0
}

/// Per thread. Whether a bucket that has no room can shift pairs to a neighbour, and which. Neighbours are not changed by
/// others: a bucket gives to the next one only if no other operations are in that, and to the one before only if, in addition,
/// none are in the one before that.
///
/// # Safety
/// The bucket is the group's, with its changes.
#[inline(always)]
unsafe fn shift<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    tree: &TreeRef<K>,
    changes: &Changes<K, V>,
    group: &Group,
    bucket: &Bucket<K, V>,
) -> Option<Shift> {
    let slots = Bucket::<K, V>::SLOTS as u32;
    // SAFETY: the node of the group, and the operations next to the group's.
    unsafe {
        let at = node_at(group.node) + u64::from(QUANTISER);
        let quantiser = Quantiser(simt.load(tree.nodes, at, Hint::ReadOnly));
        if quantiser.format() != Format::Bitmap {
            return None;
        }
        let record = tree.record::<S, V>(simt, group.node);
        // Bit `i`: another bucket may begin with pair `i`.
        let (mut begins, mut before, mut is_in_reach) = (0_u32, u32::MAX, true);
        unroll!(PAIRS, slot => {
            if slot < Bucket::<K, V>::PAIRS && (slot as u32) < bucket.len {
                let cell = quantiser.quantise(bucket.keys[slot]);
                is_in_reach &= cell == quantiser.quantise_any(bucket.keys[slot], record.first);
                begins |= u32::from(cell != before) << slot;
                before = cell;
            }
        });
        if !is_in_reach {
            return None;
        }
        let bucket_beside = |at: u64| {
            if changes.node(simt, at) == group.node { Some(changes.located(simt, at).bucket()) } else { None }
        };
        let next = if group.to < changes.count { bucket_beside(group.to) } else { None };
        if !group.is_last && next.is_none_or(|next| next >= group.bucket + 2) {
            // As few as go.
            let len = record.len(group.bucket + 1);
            let room = slots - len;
            let most = if room < bucket.len { room } else { bucket.len - 1 };
            let mut pairs = bucket.len - slots;
            while pairs <= most {
                let start = bucket.len - pairs;
                if begins >> start & 1 != 0 {
                    let old = cell_of_bit(simt, tree.nodes, group.node, group.bucket);
                    return Some(Shift::new(true, (pairs, len), (old, quantiser.quantise(bucket.pair(start).0))));
                }
                pairs += 1;
            }
        }
        let last = if group.from > 0 { bucket_beside(group.from - 1) } else { None };
        if group.bucket > 0 && last.is_none_or(|last| last + 3 <= group.bucket) {
            let len = record.len(group.bucket - 1);
            let room = slots - len;
            let most = if room < bucket.len { room } else { bucket.len - 1 };
            let mut pairs = bucket.len - slots;
            while pairs <= most {
                if begins >> pairs & 1 != 0 {
                    let old = cell_of_bit(simt, tree.nodes, group.node, group.bucket - 1);
                    return Some(Shift::new(false, (pairs, len), (old, quantiser.quantise(bucket.pair(pairs).0))));
                }
                pairs += 1;
            }
        }
        None
    }
}

/// Lists the buckets that have no room, and marks the nodes of those that need more than a neighbour can take: a thread per
/// operation.
#[derive(Debug)]
pub struct PlanBuckets<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for PlanBuckets<K, V> {
    type Args = BucketChangesArgs<K, V>;
    const STATIC_SHARED: u32 = APPEND_BYTES;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let at = simt.global_index();
        // SAFETY: a bit for each node, and an element for each operation.
        unsafe {
            let mut is_full = false;
            if simt.load(args.unsorted, 0, Hint::ReadOnly) == 0
                && let Some(group) = args.changes.group(simt, at)
            {
                let slots = Bucket::<K, V>::SLOTS as u32;
                is_full = group.is_simple && slots < group.new_len && group.new_len <= slots + slots / 2;
                let has_room = group.is_simple && 0 < group.new_len && group.new_len <= slots;
                if !has_room && !is_full {
                    mark(simt, args.marks, group.node);
                }
                simt.store(args.shifts, at, 0, Hint::Default);
            }
            if let Some(to) = append(simt, is_full, args.full_count) {
                simt.store(args.full, to, at as u32, Hint::Default);
            }
        }
    }
}

/// Finds out what buckets that have no room shift to a neighbour, and marks the nodes of those that cannot: any number of threads.
#[derive(Debug)]
pub struct PlanShifts<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for PlanShifts<K, V> {
    type Args = BucketChangesArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, changes) = (&args.tree, &args.changes);
        // SAFETY: buckets that were listed.
        unsafe {
            let count = simt.load(args.full_count.as_const(), 0, Hint::ReadOnly);
            let mut index = simt.global_index();
            while index < count {
                let at = u64::from(simt.load(args.full.as_const(), index, Hint::ReadOnly));
                if let Some(group) = changes.group(simt, at) {
                    let mut bucket = Bucket::load(simt, tree.buckets, group.number, group.len);
                    bucket.change(simt, changes, tree.flip, &group, |_| V::default());
                    match shift(simt, tree, changes, &group, &bucket) {
                        Some(shift) => simt.store(args.shifts, at, shift.0, Hint::Default),
                        None => mark(simt, args.marks, group.node),
                    }
                }
                index += u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
            }
        }
    }
}

/// Per thread. Sets a node's bit.
///
/// # Safety
/// There is such a node.
#[inline(always)]
pub(super) unsafe fn mark<S: Simt>(simt: S, marks: GlobalMut<u32>, node: u32) {
    // SAFETY: the caller's.
    unsafe { simt.atomic_or(marks, u64::from(node / 32), 1 << (node % 32), Order::Relaxed, Scope::Device) };
}

/// Per thread. Whether a node's bit is set.
///
/// # Safety
/// There is such a node.
#[inline(always)]
pub(super) unsafe fn is_marked<S: Simt>(simt: S, marks: Global<u32>, node: u32) -> bool {
    // SAFETY: the caller's.
    unsafe { simt.load(marks, u64::from(node / 32), Hint::ReadOnly) >> (node % 32) & 1 != 0 }
}

/// Threads of a block of [`WriteBuckets`].
pub const BUCKET_THREADS: u32 = 128;

/// Changes the buckets of nodes that are not marked, but those that shift pairs to neighbours: a thread per operation, in blocks of
/// [`BUCKET_THREADS`].
#[derive(Debug)]
pub struct WriteBuckets<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for WriteBuckets<K, V> {
    type Args = BucketChangesArgs<K, V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> =
        Some(LaunchBounds { threads: BUCKET_THREADS, blocks: if K::BITS == 64 { 8 } else { 6 } });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let Some(group) = args.changes.group(simt, simt.global_index()) else { return };
        // SAFETY: a bucket of the tree, which only this thread changes; operations.
        unsafe {
            let number = group.number;
            // Before it is known whether it is needed, since that takes as long.
            let mut bucket = Bucket::<K, V>::load(simt, args.buckets.as_const(), number, group.len);
            let is_other = simt.load(args.shifts.as_const(), group.from, Hint::ReadOnly) != 0;
            if is_other || !group.is_changed || is_marked(simt, args.marks.as_const(), group.node) {
                return;
            }
            bucket.change(simt, &args.changes, args.tree.flip, &group, |own| args.changes.value(simt, own));
            finish(simt, args, &group, &mut bucket);
        }
    }
}

/// Changes the buckets that shift pairs to a neighbour, and these: launched as [`PlanShifts`].
#[derive(Debug)]
pub struct WriteShifts<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for WriteShifts<K, V> {
    type Args = BucketChangesArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let changes = &args.changes;
        // SAFETY: a bucket of the tree and its neighbour, which only this thread changes; operations.
        unsafe {
            let count = simt.load(args.full_count.as_const(), 0, Hint::ReadOnly);
            let mut index = simt.global_index();
            while index < count {
                let at = u64::from(simt.load(args.full.as_const(), index, Hint::ReadOnly));
                let shift = Shift(simt.load(args.shifts.as_const(), at, Hint::ReadOnly));
                if let Some(group) = changes.group(simt, at)
                    && shift.0 != 0
                    && !is_marked(simt, args.marks.as_const(), group.node)
                {
                    let mut bucket = Bucket::<K, V>::load(simt, args.buckets.as_const(), group.number, group.len);
                    bucket.change(simt, changes, args.tree.flip, &group, |own| changes.value(simt, own));
                    hand_over(simt, args, &group, &mut bucket, shift);
                    finish(simt, args, &group, &mut bucket);
                }
                index += u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
            }
        }
    }
}

/// Per thread. Writes a bucket, and notes how many pairs it has.
///
/// # Safety
/// Nobody else changes it.
#[inline(always)]
unsafe fn finish<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    args: &BucketChangesArgs<K, V>,
    group: &Group,
    bucket: &mut Bucket<K, V>,
) {
    // SAFETY: the caller's.
    unsafe {
        bucket.store(simt, args.buckets, group.number);
        if group.is_last {
            // Free buckets repeat the last pair.
            let (first_bucket, buckets) = args.tree.buckets_of(simt, group.node);
            let end = first_bucket + buckets;
            let last = (bucket.keys[Bucket::<K, V>::SLOTS - 1], bucket.values[Bucket::<K, V>::SLOTS - 1]);
            const CHUNKS: u64 = BUCKET_WORDS as u64 / 2;
            let mut chunk = u64::from(group.number + 1) * CHUNKS;
            while chunk < u64::from(end) * CHUNKS {
                simt.store_vector(
                    args.buckets,
                    chunk_at::<K, V>(chunk),
                    chunk_of([last; MOST_CHUNK_SLOTS]),
                    Hint::Default,
                );
                if has_values_beside::<K, V>() {
                    let to = value_at::<K, V>((chunk / CHUNKS) as u32, (chunk % CHUNKS) as u32);
                    values::store(simt, args.buckets.cast::<V>(), to, last.1, Hint::Default);
                }
                chunk += 1;
            }
        }
        note_len::<S, K, V>(simt, args.records, (group.node, group.bucket), (group.len, bucket.len));
    }
}

/// Per thread. Shifts pairs of a bucket to its neighbour, and notes in which cell the second of the two begins now.
///
/// # Safety
/// It was planned; nobody else changes the other bucket.
#[inline(always)]
unsafe fn hand_over<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    args: &BucketChangesArgs<K, V>,
    group: &Group,
    bucket: &mut Bucket<K, V>,
    shift: Shift,
) {
    // SAFETY: the caller's.
    unsafe {
        let len = shift.len();
        let (other, other_number) = match shift.is_to_next() {
            true => (group.bucket + 1, group.number + 1),
            false => (group.bucket - 1, group.number - 1),
        };
        let mut beside = Bucket::<K, V>::load(simt, args.buckets.as_const(), other_number, len);
        let mut left = shift.pairs();
        while left > 0 {
            let at = if shift.is_to_next() { bucket.len - 1 } else { 0 };
            let (key, value) = bucket.pair(at);
            beside.insert(key, value);
            bucket.remove(at);
            left -= 1;
        }
        beside.store(simt, args.buckets, other_number);
        note_len::<S, K, V>(simt, args.records, (group.node, other), (len, beside.len));
        // Every bucket has a bit of its own, so that sums change only this one.
        let add = |cell: u32, change: u32| {
            let word = node_at(group.node) + u64::from(cell / 32);
            simt.atomic_add(args.nodes, word, change, Order::Relaxed, Scope::Device);
        };
        let (old, new) = shift.cells();
        add(new, 1 << (new % 32));
        add(old, (1_u32 << (old % 32)).wrapping_neg());
    }
}

/// Per thread. Notes how many pairs a bucket of a node has, before and now.
///
/// # Safety
/// There is such a node; nobody else notes it.
#[inline(always)]
unsafe fn note_len<S: Simt, K: KeyWord, V: Value>(
    simt: S,
    records: GlobalMut<u64>,
    (node, bucket): (u32, u32),
    (old, new): (u32, u32),
) {
    let planes = planes::<K, V>();
    let first = record_at::<K, V>(node) + u64::from(record_words::<K, V>() - planes);
    unroll!(MOST_PLANES, plane => {
        if (plane as u32) < planes && ((old - 1) ^ (new - 1)) >> plane & 1 != 0 {
            // Every bucket has bits of its own, so that sums change only these.
            let bit = 1_u64 << bucket;
            let change = if (new - 1) >> plane & 1 != 0 { bit } else { bit.wrapping_neg() };
            // SAFETY: a word of the record.
            unsafe { simt.atomic_add(records, first + plane as u64, change, Order::Relaxed, Scope::Device) };
        }
    });
}
