//! Batches of changes. Their operations are sorted, and find their nodes and places ([`Search`]). What a node needs is
//! planned while the tree is only read ([`PlanNodes`]); then each node is laid out anew in its own lines ([`WriteNodes`]). If a
//! node has no room, all pairs move to a new tree ([`MovePairs`], [`MoveInserts`]).

use crate::layout::{
    BITMAP_CHILDREN, FIRST_CHILD, LINE_WORDS, NODE_WORDS, RECORD_WORDS, SHIFTS, chunk_slots, line_slots, pairs_of,
};
use crate::node::{Filling, NodeOutputs, NodePlace, PlanMemory, Source, note_formats, plan, write};
use crate::queries::for_each_tile;
use crate::search::{Position, TABLE_BYTES, TreeRef, own};
use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, LaunchBounds, Order, Scope, Shared, Simt, WARP, Word, kernel_args,
    unroll,
};

/// Kinds of operations.
const INSERT: u32 = 0;
/// See [`INSERT`].
const UPDATE: u32 = 1;
/// See [`INSERT`].
const REMOVE: u32 = 2;

/// What an operation does to its node.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Effect {
    /// Nothing.
    None = 0,
    /// A new pair.
    Insert = 1,
    /// A new value.
    Replace = 2,
    /// One pair fewer.
    Remove = 3,
}

/// Bits of a place below its effect: a position in a node, counted in pairs.
const PLACE_BITS: u32 = 30;
/// A removal in [`SearchArgs::counts`]; an insert is 1.
const ONE_REMOVED: u64 = 1 << 32;

kernel_args! {
    /// Arguments of [`Search`].
    pub struct SearchArgs<K> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The operations' keys, sorted, in the caller's form: `[count]`.
        pub keys: Global<K>,
        /// What those of each key do together, at the last one: 0 to insert, 1 to update, 2 to remove; another number at
        /// the others: `[count]`. Null for a batch of inserts.
        pub kinds: Global<u32>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, nodes of the lowest level.
        pub nodes: GlobalMut<u32>,
        /// Out: `[count]`, places in these, below effects.
        pub places: GlobalMut<u32>,
        /// Out: `[count]`, 1 for an insert and 2^32 for a removal, else 0.
        pub counts: GlobalMut<u64>,
        /// In and out: how many keys were inserted, replaced, removed, and left unchanged, and how many have no room in their
        /// node; added to the former values.
        pub tally: GlobalMut<u64>,
        /// Not 0 if the keys are not sorted after all: then nothing has an effect.
        pub unsorted: Global<u64>,
    }
}

/// What became of a block's operations: as [`SearchArgs::tally`].
const TALLY: u32 = 5;

/// Most threads of a block of [`Search`].
pub const SEARCH_THREADS: u32 = 640;

/// Finds the node, the place and the effect of each operation; launched as [`Rank`](crate::Rank), in blocks of at most
/// [`SEARCH_THREADS`].
#[derive(Debug)]
pub struct Search<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Search<K, V> {
    type Args = SearchArgs<K>;
    const STATIC_SHARED: u32 = TABLE_BYTES;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: SEARCH_THREADS, blocks: 1 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tree = &args.tree;
        let mut tally = [0_u32; TALLY as usize];
        // SAFETY: there are as many operations; the tree is valid.
        unsafe {
            let is_sorted = simt.load(args.unsorted, 0, Hint::ReadOnly) == 0;
            for_each_tile(simt, tree, args.keys, args.count, |at, word| {
                let (mut number, mut position) = (0, Position { line: 0, slot: 0, len: 0, before: 0, rank: 0 });
                let mut is_reached = false;
                if tree.height > 0 {
                    (number, position) = tree.find_in_node::<S, V>(simt, word, false);
                    // Look-ups do not ask how far a key is from others; they must come to the same node.
                    is_reached = own(simt, tree.descend::<S, false>(simt, word)) == number;
                }
                if at < args.count {
                    let is_there =
                        position.slot < position.len && tree.pair::<S, V>(simt, position.line, position.slot).0 == word;
                    let (mut kind, mut is_last) = (INSERT, true);
                    if !args.kinds.is_null() {
                        kind = simt.load(args.kinds, at, Hint::ReadOnly);
                        is_last = kind <= REMOVE;
                    } else if at + 1 < args.count {
                        is_last = simt.load(args.keys, at + 1, Hint::ReadOnly).xor(tree.flip) != word;
                    }
                    is_last &= is_sorted;
                    let effect = match (kind, is_there) {
                        _ if !is_last => Effect::None,
                        (INSERT, false) => Effect::Insert,
                        (INSERT | UPDATE, true) => Effect::Replace,
                        (REMOVE, true) => Effect::Remove,
                        _ => Effect::None,
                    };
                    let count = match effect {
                        Effect::Insert => 1,
                        Effect::Remove => ONE_REMOVED,
                        Effect::None | Effect::Replace => 0,
                    };
                    let place = (effect as u32) << PLACE_BITS | position.before;
                    // Where keys are not in order, all are in the same node, which then is not touched.
                    simt.store(args.nodes, at, if is_sorted { number } else { 0 }, Hint::Default);
                    simt.store(args.places, at, place, Hint::Default);
                    simt.store(args.counts, at, count, Hint::Default);
                    tally[0] += u32::from(effect == Effect::Insert);
                    tally[1] += u32::from(effect == Effect::Replace);
                    tally[2] += u32::from(effect == Effect::Remove);
                    tally[3] += u32::from(effect == Effect::None && is_last);
                    tally[4] += u32::from(effect == Effect::Insert && !is_reached);
                }
            });
            unroll!(TALLY as usize, class => {
                let sum = simt.reduce_add(FULL_MASK, tally[class]);
                if simt.lane() == 0 && sum > 0 {
                    simt.atomic_add(args.tally, class as u64, u64::from(sum), Order::Relaxed, Scope::Device);
                }
            });
        }
    }
}

kernel_args! {
    /// A sorted batch whose operations have found their nodes, and the nodes that they touch.
    pub struct Changes<K, V> {
        /// The operations' keys, sorted, in the caller's form: `[count]`.
        pub keys: Global<K>,
        /// The index in the batch of each.
        pub order: Global<u32>,
        /// The batch's values, in its order.
        pub values: Global<V>,
        /// Nodes, from [`Search`].
        pub nodes: Global<u32>,
        /// Places, from [`Search`].
        pub places: Global<u32>,
        /// Sums of [`SearchArgs::counts`] before each operation, and the total: `[count + 1]`.
        pub before: Global<u64>,
        /// How many operations.
        pub count: u64,
    }
}

impl<K: Word, V: Word> Changes<K, V> {
    /// Per thread. The new pairs less the removed ones of all operations before one, wrapping.
    ///
    /// # Safety
    /// An operation, or the end.
    #[inline(always)]
    unsafe fn growth<S: Simt>(&self, simt: S, at: u64) -> u64 {
        // SAFETY: the caller's.
        let counts = unsafe { simt.load(self.before, at, Hint::ReadOnly) };
        (counts & (ONE_REMOVED - 1)).wrapping_sub(counts >> 32)
    }

    /// Per thread. The first operation from `from` to `to` for which something does not hold that holds for all before it.
    #[inline(always)]
    fn first_not(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> u64 {
        let (mut base, mut left) = (from, to - from);
        while left > 0 {
            let half = left / 2;
            (base, left) = if holds(base + half) { (base + half + 1, left - half - 1) } else { (base, half) };
        }
        base
    }

    /// Per thread. The first operation of a node, or of those after it.
    ///
    /// # Safety
    /// The operations are sorted.
    #[inline(always)]
    unsafe fn of_node<S: Simt>(&self, simt: S, node: u32) -> u64 {
        // SAFETY: an operation.
        Self::first_not(0, self.count, |at| unsafe { simt.load(self.nodes, at, Hint::ReadOnly) } < node)
    }

    /// Per thread. What becomes of a key's pair by the operations from `from` to `to`: the first operation after those of its
    /// key, and the one that removes or replaces it, if there is one.
    ///
    /// # Safety
    /// They are those of the key's node.
    #[inline(always)]
    unsafe fn fate<S: Simt>(&self, simt: S, key: K, flip: K, from: u64, to: u64) -> (u64, Effect) {
        // SAFETY: operations.
        unsafe {
            let key_of = |at: u64| simt.load(self.keys, at, Hint::ReadOnly).xor(flip);
            let after = Self::first_not(from, to, |at| key_of(at) <= key);
            let mut effect = Effect::None;
            if after > from && key_of(after - 1) == key {
                effect = match simt.load(self.places, after - 1, Hint::ReadOnly) >> PLACE_BITS {
                    2 => Effect::Replace,
                    3 => Effect::Remove,
                    _ => Effect::None,
                };
            }
            (after, effect)
        }
    }

    /// Per thread. The value that an operation brings.
    ///
    /// # Safety
    /// There is such an operation.
    #[inline(always)]
    unsafe fn value<S: Simt>(&self, simt: S, at: u64) -> V {
        // SAFETY: the order holds indices of the batch.
        unsafe { simt.load(self.values, u64::from(simt.load(self.order, at, Hint::ReadOnly)), Hint::ReadOnly) }
    }
}

/// Most pairs of a node.
const fn node_pairs<K: Word, V: Word>() -> u32 {
    BITMAP_CHILDREN * line_slots::<K, V>()
}

/// Pairs of a node in shared memory.
struct Staged<K, V> {
    keys: Shared<K>,
    values: Shared<V>,
}

impl<K, V> Clone for Staged<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for Staged<K, V> {}

impl<K: Word, V: Word> Staged<K, V> {
    /// Bytes of a warp's.
    const BYTES: u32 = node_pairs::<K, V>() * (K::BYTES + V::BYTES) as u32;

    #[inline(always)]
    fn at(offset: u32) -> Self {
        // The wider ones first, which need the stricter alignment.
        let pairs = node_pairs::<K, V>();
        if K::BITS >= V::BITS {
            let keys = Shared::at(offset, pairs);
            Self { keys, values: Shared::at(keys.end(), pairs) }
        } else {
            let values = Shared::at(offset, pairs);
            Self { keys: Shared::at(values.end(), pairs), values }
        }
    }
}

impl<K: Word, V: Word> Source<K, V> for Staged<K, V> {
    #[inline(always)]
    unsafe fn key<S: Simt>(self, simt: S, at: u32) -> K {
        // SAFETY: the caller's.
        unsafe { simt.shared_load(self.keys, at) }
    }
    #[inline(always)]
    unsafe fn value<S: Simt>(self, simt: S, at: u32) -> V {
        // SAFETY: the caller's.
        unsafe { simt.shared_load(self.values, at) }
    }
}

impl<K: Word> TreeRef<K> {
    /// Per thread. The first line of a node of the lowest level, and how many it has.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    unsafe fn lines_of<S: Simt>(&self, simt: S, number: u32) -> (u32, u32) {
        // SAFETY: nodes.
        unsafe {
            let first = self.first_line(simt, number);
            let is_last = number + 1 == self.leaf_nodes;
            let end = if is_last { self.line_count } else { self.first_line(simt, number + 1) };
            (first, end - first)
        }
    }

    /// Per thread. The first line of a node of the lowest level.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    unsafe fn first_line<S: Simt>(&self, simt: S, number: u32) -> u32 {
        let at = u64::from(number) * u64::from(NODE_WORDS) + u64::from(FIRST_CHILD);
        // SAFETY: a node.
        unsafe { simt.load(self.nodes, at, Hint::Default) }
    }

    /// Per thread. The rank of a node of the lowest level, or of the end.
    ///
    /// # Safety
    /// There is such a node.
    #[inline(always)]
    unsafe fn rank_of<S: Simt>(&self, simt: S, number: u32) -> u64 {
        if number == self.leaf_nodes {
            return self.len;
        }
        let at = u64::from(number) * u64::from(RECORD_WORDS);
        // SAFETY: records have the first key and the rank in their first words.
        unsafe {
            match K::BITS {
                64 => simt.load(self.records, at + 1, Hint::Default),
                _ => simt.load(self.records, at, Hint::Default) >> 32,
            }
        }
    }

    /// Warp collective (all lanes). Calls `each` with the place and the pair of every pair of a node, each in one lane.
    ///
    /// # Safety
    /// There is such a node, with so many pairs.
    #[inline(always)]
    unsafe fn for_each_pair<S: Simt, V: Word>(
        &self,
        simt: S,
        (first, lines): (u32, u32),
        len: u32,
        mut each: impl FnMut(u32, K, V),
    ) {
        let slots = chunk_slots::<K, V>();
        let (mut chunk, mut at) = (0, 0);
        let mut before = K::MIN;
        while at < len && chunk < lines * (LINE_WORDS / 2) {
            let own = chunk + simt.lane();
            let is_own = own < lines * (LINE_WORDS / 2);
            let mut pairs = [(K::MIN, V::MIN); 2];
            if is_own {
                let from = u64::from(first) * u64::from(LINE_WORDS) + u64::from(own) * 2;
                // SAFETY: a line of the node.
                pairs = pairs_of::<K, V>(unsafe { simt.load_vector(self.lines, from, Hint::NoAllocate) });
            }
            let last = if slots == 2 { pairs[1].0 } else { pairs[0].0 };
            let left = simt.shuffle_up(FULL_MASK, last, 1);
            let left = if simt.lane() == 0 { before } else { left };
            // Free slots repeat what is before them.
            let is_first = own == 0;
            let new = [is_own && (is_first || pairs[0].0 > left), slots == 2 && is_own && pairs[1].0 > pairs[0].0];
            let masks = new.map(|new| simt.ballot(FULL_MASK, new));
            let below = simt.lanes_below();
            let place = at + (masks[0] & below).count_ones() + (masks[1] & below).count_ones();
            if new[0] {
                each(place, pairs[0].0, pairs[0].1);
            }
            if new[1] {
                each(place + u32::from(new[0]), pairs[1].0, pairs[1].1);
            }
            at += masks[0].count_ones() + masks[1].count_ones();
            before = simt.shuffle(FULL_MASK, last, WARP - 1);
            chunk += WARP;
        }
    }
}

kernel_args! {
    /// Arguments of [`PlanNodes`] and [`WriteNodes`].
    pub struct NodeChangesArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// The nodes that it touches, in ascending order: `[*touched_count]`.
        pub touched: Global<u32>,
        /// How many.
        pub touched_count: Global<u64>,
        /// The first operation of each, and the end: `[*touched_count + 1]`.
        pub first_changes: Global<u64>,
        /// Not 0 if the keys are not sorted after all: then nothing is done.
        pub unsorted: Global<u64>,
        /// The pairs and the lines of each, which [`PlanNodes`] notes, as [`WriteNodes`] changes the nodes beside.
        pub sizes: GlobalMut<u32>,
        /// In and out, of [`PlanNodes`]: how many nodes have no room; added to the former value.
        pub without_room: GlobalMut<u64>,
        /// Out, of [`WriteNodes`]: the tree's nodes.
        pub nodes: GlobalMut<u32>,
        /// Out, of [`WriteNodes`]: its records.
        pub records: GlobalMut<u64>,
        /// Out, of [`WriteNodes`]: its lines.
        pub lines: GlobalMut<u64>,
        /// Out, of [`WriteNodes`]: the formats of all nodes.
        pub formats: GlobalMut<u32>,
    }
}

/// Warps of a block of [`PlanNodes`] or [`WriteNodes`].
pub const CHANGE_WARPS: u32 = 4;

/// Bytes of shared memory of a warp of theirs.
const fn warp_bytes<K: Word, V: Word>() -> u32 {
    Staged::<K, V>::BYTES + PlanMemory::bytes(line_slots::<K, V>())
}

/// Counts the touched nodes that have no room for their changes: a warp per node; blocks of [`CHANGE_WARPS`] warps.
#[derive(Debug)]
pub struct PlanNodes<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for PlanNodes<K, V> {
    type Args = NodeChangesArgs<K, V>;
    const STATIC_SHARED: u32 = CHANGE_WARPS * warp_bytes::<K, V>();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { change(simt, args, false) };
    }
}

/// Lays every touched node out anew, with its changes; all have room. Launched as [`PlanNodes`].
#[derive(Debug)]
pub struct WriteNodes<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for WriteNodes<K, V> {
    type Args = NodeChangesArgs<K, V>;
    const STATIC_SHARED: u32 = CHANGE_WARPS * warp_bytes::<K, V>();

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { change(simt, args, true) };
    }
}

/// Warp collective (all lanes). Plans a touched node, and writes it.
///
/// # Safety
/// As for the kernels.
#[inline(always)]
unsafe fn change<S: Simt, K: Word, V: Word>(simt: S, args: &NodeChangesArgs<K, V>, writes: bool) {
    let index = simt.global_index() / u64::from(WARP);
    let (tree, changes, lane) = (&args.tree, &args.changes, simt.lane());
    let offset = simt.warp() * warp_bytes::<K, V>();
    let staged = Staged::<K, V>::at(offset);
    let slots = line_slots::<K, V>();
    let memory = PlanMemory::at(offset + Staged::<K, V>::BYTES, slots);
    // SAFETY: nodes of the tree and their operations.
    unsafe {
        let is_sorted = simt.load(args.unsorted, 0, Hint::ReadOnly) == 0;
        if index >= simt.load(args.touched_count, 0, Hint::ReadOnly) || !is_sorted {
            return;
        }
        let number = simt.load(args.touched, index, Hint::ReadOnly);
        let from = simt.load(args.first_changes, index, Hint::ReadOnly);
        let to = simt.load(args.first_changes, index + 1, Hint::ReadOnly);
        let (rank, first_line) = (tree.rank_of(simt, number), tree.first_line(simt, number));
        let (len, room) = if writes {
            let sizes = args.sizes.as_const();
            (simt.load(sizes, index * 2, Hint::ReadOnly), simt.load(sizes, index * 2 + 1, Hint::ReadOnly))
        } else {
            let len = (tree.rank_of(simt, number + 1) - rank) as u32;
            let room = tree.lines_of(simt, number).1;
            if lane == 0 {
                simt.store(args.sizes, index * 2, len, Hint::Default);
                simt.store(args.sizes, index * 2 + 1, room, Hint::Default);
            }
            (len, room)
        };
        let growth_before = changes.growth(simt, from);
        let new_len = u64::from(len).wrapping_add(changes.growth(simt, to)).wrapping_sub(growth_before);
        let mut is_planned = None;
        // One node without room is enough for a new tree. The same for all lanes, whenever each of them looks.
        let without_room =
            if writes { 0 } else { simt.atomic_load(args.without_room, 0, Order::Relaxed, Scope::Device) };
        let room_elsewhere = simt.shuffle(FULL_MASK, without_room, 0) == 0;
        if room_elsewhere && new_len > 0 && new_len <= u64::from(room.min(BITMAP_CHILDREN) * slots) {
            tree.for_each_pair(simt, (first_line, room), len, |place, key, value: V| {
                simt.shared_store(staged.keys, place, key);
                simt.shared_store(staged.values, place, value);
            });
            simt.sync_warp(FULL_MASK);
            // To registers, and to their new places.
            const OWN: usize = 16;
            let rounds = node_pairs::<K, V>() / WARP;
            let mut pairs = [(K::MIN, V::MIN); OWN];
            let mut places = [u32::MAX; OWN];
            unroll!(OWN, round => {
                let at = round as u32 * WARP + lane;
                if (round as u32) < rounds && at < len {
                    let (key, mut value) = (staged.key(simt, at), staged.value(simt, at));
                    let (after, effect) = changes.fate(simt, key, tree.flip, from, to);
                    let growth = changes.growth(simt, after).wrapping_sub(growth_before);
                    if effect == Effect::Replace {
                        value = changes.value(simt, after - 1);
                    }
                    if effect != Effect::Remove {
                        places[round] = at.wrapping_add(growth as u32);
                    }
                    pairs[round] = (key, value);
                }
            });
            simt.sync_warp(FULL_MASK);
            unroll!(OWN, round => {
                if places[round] != u32::MAX {
                    simt.shared_store(staged.keys, places[round], pairs[round].0);
                    simt.shared_store(staged.values, places[round], pairs[round].1);
                }
            });
            let mut at = from + u64::from(lane);
            while at < to {
                let place = simt.load(changes.places, at, Hint::ReadOnly);
                if place >> PLACE_BITS == Effect::Insert as u32 {
                    let growth = changes.growth(simt, at).wrapping_sub(growth_before);
                    let place = (place & ((1 << PLACE_BITS) - 1)).wrapping_add(growth as u32);
                    let key = simt.load(changes.keys, at, Hint::ReadOnly).xor(tree.flip);
                    simt.shared_store(staged.keys, place, key);
                    simt.shared_store(staged.values, place, changes.value(simt, at));
                }
                at += u64::from(WARP);
            }
            simt.sync_warp(FULL_MASK);
            // Evenly over most lines, since some will be shorter than they are to be; if these are too few, into full ones.
            let new_len = new_len as u32;
            let even = (new_len * 272).div_ceil(room.max(1)).max(256);
            if even < slots * 256 {
                is_planned = plan(simt, staged, new_len, Filling::new(even), (room, 1), memory);
            }
            if is_planned.is_none() {
                is_planned = plan(simt, staged, new_len, Filling::new(slots * 256), (room, SHIFTS), memory);
            }
        }
        match is_planned {
            Some(plan) if writes => {
                let outputs = NodeOutputs { nodes: args.nodes, records: args.records, lines: args.lines };
                let place = NodePlace { number, first_line, rank, lines: room, is_new: false };
                write(simt, staged, new_len as u32, plan, place, outputs, memory);
                if lane == 0 {
                    note_formats(simt, args.formats, plan.quantiser.format() as u32);
                }
            }
            Some(_) => {}
            None => {
                if lane == 0 && !writes && room_elsewhere {
                    simt.atomic_add(args.without_room, 0, 1, Order::Relaxed, Scope::Device);
                }
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Ranks`].
    pub struct RanksArgs<K, V> {
        /// The batch.
        pub changes: Changes<K, V>,
        /// Nodes of the lowest level.
        pub leaf_nodes: u32,
        /// 0, so that there is no padding.
        pub reserved: u32,
        /// In and out: the tree's records.
        pub records: GlobalMut<u64>,
    }
}

/// Gives every node its new rank: a thread per node.
#[derive(Debug)]
pub struct Ranks<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for Ranks<K, V> {
    type Args = RanksArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let node = simt.global_index();
        if node >= u64::from(args.leaf_nodes) {
            return;
        }
        // SAFETY: the node's own record; the operations are sorted.
        unsafe {
            let growth = args.changes.growth(simt, args.changes.of_node(simt, node as u32));
            let (word, growth) = match K::BITS {
                64 => (node * u64::from(RECORD_WORDS) + 1, growth),
                _ => (node * u64::from(RECORD_WORDS), growth << 32),
            };
            let rank = simt.load(args.records.as_const(), word, Hint::Default);
            simt.store(args.records, word, rank.wrapping_add(growth), Hint::Default);
        }
    }
}

kernel_args! {
    /// Arguments of [`MovePairs`] and [`MoveInserts`].
    pub struct MoveArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// Out: the keys of all pairs after the batch, ascending, in the caller's form.
        pub keys: GlobalMut<K>,
        /// Out: their values.
        pub values: GlobalMut<V>,
    }
}

/// Copies all pairs that stay, each to its rank after the batch: a warp per node of the lowest level.
#[derive(Debug)]
pub struct MovePairs<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for MovePairs<K, V> {
    type Args = MoveArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, changes) = (&args.tree, &args.changes);
        let node = simt.global_index() / u64::from(WARP);
        if node >= u64::from(tree.leaf_nodes) {
            return;
        }
        // SAFETY: a node of the tree and its operations; there is room for all pairs after the batch.
        unsafe {
            let number = node as u32;
            let (rank, end) = (tree.rank_of(simt, number), tree.rank_of(simt, number + 1));
            let (from, to) = (changes.of_node(simt, number), changes.of_node(simt, number + 1));
            tree.for_each_pair(simt, tree.lines_of(simt, number), (end - rank) as u32, |place, key, value: V| {
                let (after, effect) = changes.fate(simt, key, tree.flip, from, to);
                if effect == Effect::Remove {
                    return;
                }
                let value = if effect == Effect::Replace { changes.value(simt, after - 1) } else { value };
                let to = (rank + u64::from(place)).wrapping_add(changes.growth(simt, after));
                simt.store(args.keys, to, key.xor(tree.flip), Hint::Streaming);
                simt.store(args.values, to, value, Hint::Streaming);
            });
        }
    }
}

/// Writes the pairs that a batch inserts, each to its rank after the batch: a thread per operation.
#[derive(Debug)]
pub struct MoveInserts<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for MoveInserts<K, V> {
    type Args = MoveArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (tree, changes) = (&args.tree, &args.changes);
        let at = simt.global_index();
        if at >= changes.count {
            return;
        }
        // SAFETY: an operation, and its node; there is room for all pairs after the batch.
        unsafe {
            let place = simt.load(changes.places, at, Hint::ReadOnly);
            if place >> PLACE_BITS != Effect::Insert as u32 {
                return;
            }
            let rank = tree.rank_of(simt, simt.load(changes.nodes, at, Hint::ReadOnly));
            let place = u64::from(place & ((1 << PLACE_BITS) - 1));
            let to = (rank + place).wrapping_add(changes.growth(simt, at));
            simt.store(args.keys, to, simt.load(changes.keys, at, Hint::ReadOnly), Hint::Streaming);
            simt.store(args.values, to, changes.value(simt, at), Hint::Streaming);
        }
    }
}
