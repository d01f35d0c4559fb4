//! The bulk build, a level at a time: a warp takes a part of the keys and splits it into nodes, nearly always into one.
//!
//! Parts begin at gaps ([`Cut`]), where the nodes above can tell the keys apart. A first pass counts nodes and buckets
//! ([`Count`], [`CountOthers`]), a second writes them ([`Write`], [`WriteOthers`]), since a part may take more than one node.

use crate::layout::{BITMAP_CHILDREN, bucket_slots, spare_buckets};
use crate::node::{
    From, NodeOutputs, NodePosition, Plan, Source, note_formats, plan, plan_bitmap, plan_words, save, saved, write,
};
use crate::parts::{BUCKET_BITS, SplitNodes, SplitWord, TARGET_WORDS};
use crate::plan_memory::PlanMemory;
use crate::stretch::Filling;
use crate::values;
use core::marker::PhantomData;
use lanetree_layout::Value;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, LaunchBounds, Order, Scope, Simt, WARP, kernel_args, unroll,
};

/// Warps of a block of [`Count`] or [`Write`].
pub const BUILD_WARPS: u32 = 4;

/// Pairs in global memory, from one of them on.
#[derive(Clone, Copy)]
struct Pairs<K, V> {
    keys: Global<K>,
    values: Global<V>,
    from: u64,
    flip: K,
}

impl<K: KeyWord, V: Value> Source<K, V> for Pairs<K, V> {
    #[inline(always)]
    unsafe fn key<S: Simt>(self, simt: S, at: u32) -> K {
        // SAFETY: the caller's.
        unsafe { simt.load(self.keys, self.from + u64::from(at), Hint::ReadOnly) }.xor(self.flip)
    }
    #[inline(always)]
    unsafe fn value<S: Simt>(self, simt: S, at: u32) -> V {
        // SAFETY: the caller's.
        unsafe { values::load(simt, self.values, self.from + u64::from(at), Hint::ReadOnly) }
    }
}

/// Warp collective (all lanes). The position in `1..len` with the largest gap before it, in the middle half of the pairs.
///
/// # Safety
/// The source has `len` pairs, at least two.
#[inline(always)]
unsafe fn widest_gap<S: Simt, K: KeyWord, V: Value, T: Source<K, V>>(simt: S, source: T, len: u32) -> u32 {
    let quarter = len / 4;
    let (mut gap, mut at) = (K::MIN, 0);
    let mut own = if quarter > 0 { quarter } else { 1 } + simt.lane();
    while own < len - quarter {
        // SAFETY: pairs of the source.
        let own_gap = unsafe { source.key(simt, own).wrapping_sub(source.key(simt, own - 1)) };
        if own_gap > gap {
            (gap, at) = (own_gap, own);
        }
        own += WARP;
    }
    let mut step = WARP / 2;
    while step > 0 {
        let other = (simt.shuffle_xor(FULL_MASK, gap, step), simt.shuffle_xor(FULL_MASK, at, step));
        if other.0 > gap || other.0 == gap && other.1 < at {
            (gap, at) = other;
        }
        step /= 2;
    }
    at
}

/// Warp collective (all lanes). Where a part begins that is to begin with the key `wanted`, before `end`: where the gap is large, but not
/// further off than `reach`. `neighbors` are the key before one and the key itself.
#[inline(always)]
pub(crate) fn boundary<S: Simt, K: KeyWord>(
    simt: S,
    (wanted, reach, end): (u64, u32, u64),
    neighbors: impl Fn(u64) -> (K, K),
) -> u64 {
    let mut best = 0;
    let off_of = |round: u32| u64::from(round * WARP + simt.lane());
    // Both rounds' loads overlap.
    const ROUNDS: usize = MOST_REACH as usize * 2 / WARP as usize + 1;
    let mut gaps = [None; ROUNDS];
    unroll!(ROUNDS, round => {
        let at = wanted - u64::from(reach) + off_of(round as u32);
        if off_of(round as u32) <= u64::from(2 * reach) && at < end {
            gaps[round] = Some(neighbors(at));
        }
    });
    unroll!(ROUNDS, round => {
        if let Some((before, key)) = gaps[round] {
            // Nothing may rest on it, but a gap of 0 has no highest bit.
            let gap = key.wrapping_sub(before).significant_bits().max(1) - 1;
            let own = off_of(round as u32);
            let off = own.abs_diff(u64::from(reach)) as u32;
            // Of equal merit, the first.
            let merit = (4 * gap + 256 - off) << 8 | (255 - own as u32);
            best = if merit > best { merit } else { best };
        }
    });
    let best = simt.reduce_max(FULL_MASK, best);
    wanted - u64::from(reach) + u64::from(255 - (best & 255))
}

kernel_args! {
    /// Arguments of [`Cut`].
    pub struct CutArgs<K> {
        /// Keys, strictly ascending, in the caller's form: `[len]`.
        pub keys: Global<K>,
        /// How many.
        pub len: u64,
        /// Parts, at least one, of at least four times `reach` keys.
        pub parts: u64,
        /// How far off the boundary of a part may be, at most [`MOST_REACH`].
        pub reach: u32,
        /// 0, so that there is no padding.
        pub reserved: u32,
        /// Out: `[parts + 1]`, the first key of each part, and `len`.
        pub cuts: GlobalMut<u64>,
        /// Out: zeros, for [`NodesArgs::found`].
        pub found: GlobalMut<u32>,
        /// The nodes that have the parts; without them, all parts are of all pairs.
        pub split: SplitNodes,
        /// Exclusive-or mask between the caller's keys and ordered words.
        pub flip: K,
    }
}

/// The farthest that a part's boundary may be from where it would be if all were equal: two rounds of a warp.
pub const MOST_REACH: u32 = 31;

/// Chooses where parts begin: at large gaps near equal distances. One warp per part, the last one too many.
#[derive(Debug)]
pub struct Cut<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Cut<K> {
    type Args = CutArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let part = simt.global_index() / u64::from(WARP);
        if part > args.parts {
            return;
        }
        // The parts among which this one is, their pairs, and where these begin.
        let (mut own_part, mut parts, mut first, mut len) = (part, args.parts, 0, args.len);
        if args.split.count > 0 && part < args.parts {
            let split = &args.split;
            // SAFETY: nodes that are split, and the end.
            unsafe {
                let index = split.upto(simt, SplitWord::Parts, part) - 1;
                let range = |word| (split.get(simt, index, word), split.get(simt, index + 1, word));
                let ((first_part, next_part), (first_pair, next_pair)) =
                    (range(SplitWord::Parts), range(SplitWord::Pairs));
                (own_part, parts) = (part - first_part, next_part - first_part);
                (first, len) = (first_pair, next_pair - first_pair);
            }
        }
        let mut cut = if part == args.parts { args.len } else { first };
        if own_part > 0 && part < args.parts {
            let wanted = first + own_part * (len / parts.max(1));
            // SAFETY: both are keys, since a part has more than `reach`.
            let key = |at: u64| unsafe { simt.load(args.keys, at, Hint::ReadOnly) }.xor(args.flip);
            cut = boundary(simt, (wanted, args.reach, first + len), |at| (key(at - 1), key(at)));
        }
        if simt.lane() == 0 {
            // SAFETY: one element per warp.
            unsafe {
                simt.store(args.cuts, part, cut, Hint::Default);
                if part == args.parts {
                    simt.store(args.found, DISORDER, 0, Hint::Default);
                    simt.store(args.found, OTHERS, 0, Hint::Default);
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Count`] and [`Write`].
    pub struct NodesArgs<K, V> {
        /// Keys, strictly ascending, in the caller's form.
        pub keys: Global<K>,
        /// A value for each.
        pub values: Global<V>,
        /// The first key of each part, and the number of keys: `[parts + 1]`.
        pub cuts: Global<u64>,
        /// Parts.
        pub parts: u64,
        /// The nodes that have the parts; without them, all parts are of all pairs.
        pub split: SplitNodes,
        /// Pairs that a bucket is to have, in units of 1/256.
        pub filling: u32,
        /// 0, so that there is no padding.
        pub reserved: u32,
        /// Out, of [`Count`] and [`CountOthers`], and read by [`Write`]: `[parts]`, [`plan_words`] each, the plan of each part
        /// that is one node, as it is saved, or with 0 buckets for parts of several nodes.
        pub plans: GlobalMut<u32>,
        /// Out, of [`Count`] and [`CountOthers`]: `[parts]`, the nodes of each part, above [`BUCKET_BITS`] bits with their buckets.
        pub counts: GlobalMut<u64>,
        /// In and out, of [`Count`], from zeros: `[FOUND_WORDS]`. The first becomes 1 if a key is not above the one before: then
        /// [`CountOthers`] does nothing, and nothing must be written. The second counts `others`.
        pub found: GlobalMut<u32>,
        /// Out, of [`Count`]: `[parts]`, the parts that it leaves to [`CountOthers`], in any order.
        pub others: GlobalMut<u32>,
        /// Of [`Write`]: `[parts]`, the sums of the counts before each part.
        pub before: Global<u64>,
        /// Of [`Write`], for parts that lie among other nodes: `[parts]`, [`TARGET_WORDS`] each: the number of the part's first node
        /// << [`BUCKET_BITS`] and its first bucket; the rank of its first pair. Otherwise null.
        pub targets: Global<u64>,
        /// Out, of [`Write`].
        pub nodes: GlobalMut<u32>,
        /// Out, of [`Write`].
        pub records: GlobalMut<u64>,
        /// Out, of [`Write`]: the bucket after the last one of each node.
        pub ends: GlobalMut<u32>,
        /// Out, of [`Write`].
        pub buckets: GlobalMut<u64>,
        /// Out, of [`Write`]: the first key of each node.
        pub firsts: GlobalMut<K>,
        /// Out, of [`Write`]: the last key of each node.
        pub lasts: GlobalMut<K>,
        /// Out: the formats of all nodes.
        pub formats: GlobalMut<u32>,
        /// Exclusive-or mask between the caller's keys and ordered words.
        pub flip: K,
    }
}

/// Words of [`NodesArgs::found`].
pub const FOUND_WORDS: u32 = 2;
/// The word that says whether the keys do not ascend.
const DISORDER: u64 = 0;
/// The word that counts other parts.
pub(crate) const OTHERS: u64 = 1;

/// Plans each part as one node, and counts the buckets: a warp per part; blocks of [`BUILD_WARPS`] warps. The few parts that are
/// more, or a node of another format, are left to [`CountOthers`].
#[derive(Debug)]
pub struct Count<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Count<K, V> {
    type Args = NodesArgs<K, V>;
    const STATIC_SHARED: u32 = BUILD_WARPS * PlanMemory::bytes(bucket_slots::<K, V>());
    const LAUNCH_BOUNDS: Option<LaunchBounds> =
        Some(LaunchBounds { threads: BUILD_WARPS * WARP, blocks: if K::BITS == 128 { 6 } else { 8 } });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let part = simt.global_index() / u64::from(WARP);
        if part >= args.parts {
            return;
        }
        let slots = bucket_slots::<K, V>();
        let (lane, memory) = (simt.lane(), PlanMemory::at(simt.warp() * PlanMemory::bytes(slots), slots));
        // SAFETY: a part of the keys, and its plan.
        unsafe {
            let (pairs, len) = part_of(simt, args, part);
            // The key before the part's first one; of the first key of all, any.
            let mut carry = pairs.key(simt, 0);
            if pairs.from > 0 {
                carry = Pairs { from: pairs.from - 1, ..pairs }.key(simt, 0);
            }
            let mut ascends = true;
            let plan = plan_bitmap(simt, pairs, len, Filling::new(args.filling), memory, |at, key| {
                let rotated = simt.shuffle(FULL_MASK, key, (lane + WARP - 1) % WARP);
                let before = if lane == 0 { carry } else { rotated };
                carry = rotated;
                ascends &= before < key || at >= len || at == 0 && pairs.from == 0;
            });
            if simt.any(FULL_MASK, !ascends) && lane == 0 {
                simt.atomic_or(args.found, DISORDER, 1, Order::Relaxed, Scope::Device);
            }
            let at = part * u64::from(plan_words::<K, V>());
            match plan {
                Some(plan) => {
                    save::<S, K, V>(simt, plan, (args.plans, at));
                    if lane == 0 {
                        let count = 1 << BUCKET_BITS | u64::from(buckets_of(args, plan));
                        simt.store(args.counts, part, count, Hint::Default);
                    }
                }
                None if lane == 0 => {
                    simt.store(args.plans, at + 1, 0, Hint::Default);
                    // If keys do not ascend, nobody counts them.
                    simt.store(args.counts, part, 0, Hint::Default);
                    let to = simt.atomic_add(args.found, OTHERS, 1, Order::Relaxed, Scope::Device);
                    simt.store(args.others, u64::from(to), part as u32, Hint::Default);
                }
                None => (),
            }
        }
    }
}

/// Counts the nodes and buckets of the parts that [`Count`] left, which are few: launched as [`WriteOthers`].
#[derive(Debug)]
pub struct CountOthers<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for CountOthers<K, V> {
    type Args = NodesArgs<K, V>;
    const STATIC_SHARED: u32 = BUILD_WARPS * PlanMemory::bytes(bucket_slots::<K, V>());

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe {
            if simt.load(args.found.as_const(), DISORDER, Hint::ReadOnly) == 0 {
                split_others(simt, args, false);
            }
        }
    }
}

/// Writes the node of each part that is one, with its record and buckets: launched as [`Count`].
#[derive(Debug)]
pub struct Write<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for Write<K, V> {
    type Args = NodesArgs<K, V>;
    const STATIC_SHARED: u32 = BUILD_WARPS * PlanMemory::bytes(bucket_slots::<K, V>());
    const LAUNCH_BOUNDS: Option<LaunchBounds> =
        Some(LaunchBounds { threads: BUILD_WARPS * WARP, blocks: if K::BITS == 128 { 6 } else { 10 } });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let part = simt.global_index() / u64::from(WARP);
        if part >= args.parts {
            return;
        }
        let slots = bucket_slots::<K, V>();
        let memory = PlanMemory::at(simt.warp() * PlanMemory::bytes(slots), slots);
        // SAFETY: a part of the keys, and its plan.
        unsafe {
            let (pairs, len) = part_of(simt, args, part);
            let plan = saved::<S, K, V>(simt, (args.plans.as_const(), part * u64::from(plan_words::<K, V>())));
            if plan.buckets == 0 {
                return;
            }
            let target = target(simt, args, part, pairs.from);
            write_node(simt, args, (pairs, len), plan, target, memory);
            if simt.lane() == 0 {
                note_formats(simt, args.formats, plan.quantiser.format() as u32);
            }
        }
    }
}

/// Writes the nodes of the other parts that are more than one, which are few: any number of warps, in blocks of [`BUILD_WARPS`].
#[derive(Debug)]
pub struct WriteOthers<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Value> Kernel for WriteOthers<K, V> {
    type Args = NodesArgs<K, V>;
    const STATIC_SHARED: u32 = BUILD_WARPS * PlanMemory::bytes(bucket_slots::<K, V>());

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { split_others(simt, args, true) };
    }
}

/// Warp collective (all lanes). [`split`]s the warp's share of the other parts, as far as they have no plan.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn split_others<S: Simt, K: KeyWord, V: Value>(simt: S, args: &NodesArgs<K, V>, writes: bool) {
    // SAFETY: parts, and the plans of their nodes.
    unsafe {
        let others = simt.load(args.found.as_const(), OTHERS, Hint::ReadOnly);
        let warps = simt.grid_dim() * BUILD_WARPS;
        let mut index = (simt.global_index() / u64::from(WARP)) as u32;
        // The same for all lanes, and the compiler knows it.
        while simt.any(FULL_MASK, index < others) {
            let part = u64::from(simt.load(args.others.as_const(), u64::from(index), Hint::ReadOnly));
            let buckets_at = part * u64::from(plan_words::<K, V>()) + 1;
            if simt.load(args.plans.as_const(), buckets_at, Hint::Default) == 0 {
                split(simt, args, part, writes);
                // The next part has the same shared memory.
                simt.sync_warp(FULL_MASK);
            }
            index += warps;
        }
    }
}

/// Per thread. A part's pairs, and how many there are.
///
/// # Safety
/// There is such a part.
#[inline(always)]
unsafe fn part_of<S: Simt, K: KeyWord, V: Value>(simt: S, args: &NodesArgs<K, V>, part: u64) -> (Pairs<K, V>, u32) {
    // SAFETY: the caller's.
    unsafe {
        let from = simt.load(args.cuts, part, Hint::ReadOnly);
        let len = (simt.load(args.cuts, part + 1, Hint::ReadOnly) - from) as u32;
        (Pairs { keys: args.keys, values: args.values, from, flip: args.flip }, len)
    }
}

/// Where the next node of a part goes.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) number: u32,
    pub(crate) bucket: u32,
    pub(crate) rank: u64,
}

/// Per thread. Where the first node of a part goes, whose first pair this is.
///
/// # Safety
/// There is such a part.
#[inline(always)]
unsafe fn target<S: Simt, K: KeyWord, V: Value>(simt: S, args: &NodesArgs<K, V>, part: u64, from: u64) -> Target {
    // SAFETY: the caller's.
    unsafe {
        if args.targets.is_null() {
            let before = simt.load(args.before, part, Hint::ReadOnly);
            return Target { number: (before >> BUCKET_BITS) as u32, bucket: before as u32, rank: from };
        }
        let at = part * u64::from(TARGET_WORDS);
        let start = simt.load(args.targets, at, Hint::ReadOnly);
        let rank = simt.load(args.targets, at + 1, Hint::ReadOnly);
        Target { number: (start >> BUCKET_BITS) as u32, bucket: start as u32, rank }
    }
}

/// How many buckets a node gets.
#[inline(always)]
pub(crate) fn buckets_of<K: KeyWord, V: Value>(args: &NodesArgs<K, V>, plan: Plan) -> u32 {
    plan.buckets + spare_buckets(args.filling == bucket_slots::<K, V>() * 256, plan.buckets)
}

/// Warp collective (all lanes). Writes a node by its plan, which is in the memory.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
pub(crate) unsafe fn write_node<S: Simt, K: KeyWord, V: Value, T: Source<K, V>>(
    simt: S,
    args: &NodesArgs<K, V>,
    (source, len): (T, u32),
    plan: Plan,
    Target { number, bucket, rank }: Target,
    memory: PlanMemory,
) {
    let outputs = NodeOutputs { nodes: args.nodes, records: args.records, ends: args.ends, buckets: args.buckets };
    let position = NodePosition { number, first_bucket: bucket, rank, buckets: buckets_of(args, plan), is_new: true };
    // SAFETY: the caller's.
    unsafe {
        write(simt, source, len, plan, position, outputs, memory);
        if simt.lane() == 0 {
            let (first, last) = (source.key(simt, 0), source.key(simt, len - 1));
            simt.store(args.firsts, u64::from(number), first, Hint::Default);
            simt.store(args.lasts, u64::from(number), last, Hint::Default);
        }
    }
}

/// Warp collective (all lanes). Splits a part into as few nodes as possible, and counts them; or writes the nodes of a
/// part that is more than one node.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn split<S: Simt, K: KeyWord, V: Value>(simt: S, args: &NodesArgs<K, V>, part: u64, writes: bool) {
    let slots = bucket_slots::<K, V>();
    let memory = PlanMemory::at(simt.warp() * PlanMemory::bytes(slots), slots);
    // SAFETY: parts of the keys.
    unsafe {
        let at = part * u64::from(plan_words::<K, V>());
        let (pairs, len) = part_of(simt, args, part);
        let mut target = match writes {
            true => target(simt, args, part, pairs.from),
            false => Target { number: 0, bucket: 0, rank: 0 },
        };
        let (mut start, mut formats) = (0, 0);
        while start < len {
            let source = From { source: pairs, from: start };
            let mut own = len - start;
            loop {
                let filling = Filling::new(args.filling);
                if let Some(plan) = plan(simt, source, own, (filling, None), BITMAP_CHILDREN, memory) {
                    if writes {
                        write_node(simt, args, (source, own), plan, target, memory);
                    }
                    if !writes && own == len {
                        save::<S, K, V>(simt, plan, (args.plans, at));
                    }
                    formats |= plan.quantiser.format() as u32;
                    target.number += 1;
                    target.bucket += buckets_of(args, plan);
                    target.rank += u64::from(own);
                    break;
                }
                own = widest_gap(simt, source, own);
            }
            start += own;
        }
        if simt.lane() == 0 {
            if writes {
                note_formats(simt, args.formats, formats);
            } else {
                let count = u64::from(target.number) << BUCKET_BITS | u64::from(target.bucket);
                simt.store(args.counts, part, count, Hint::Default);
            }
        }
    }
}
