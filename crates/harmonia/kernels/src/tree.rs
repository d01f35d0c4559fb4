//! The tree as a kernel sees it, and the descent.

use crate::layout::{inner_bytes, inner_slot, leaf_offset};
use lanetree_simt::{FULL_MASK, Global, Hint, LaunchBounds, Simt, WARP, Word, kernel_args};

kernel_args! {
    /// A tree on the device: passed to kernels by value.
    pub struct TreeRef<K> {
        /// The inner nodes of the key region: `fanout` slots each.
        pub inner: Global<K>,
        /// The child region: one first child per inner node.
        pub prefix_sum: Global<u32>,
        /// The leaves of the key region, in bytes.
        pub leaves: Global<u8>,
        /// The number of pairs before each leaf, and past the last one: `[leaf_count + 1]`. Null for a tree as built,
        /// in which every leaf except the last has `per_leaf` pairs.
        pub ranks: Global<u64>,
        /// Pairs in the tree.
        pub len: u64,
        /// Inner levels.
        pub height: u32,
        /// The index of the first leaf among all nodes, which is the number of inner nodes.
        pub first_leaf: u32,
        /// Pairs of every leaf but the last.
        pub per_leaf: u32,
        /// Leaves; 0 for an empty tree.
        pub leaf_count: u32,
        /// Exclusive-or mask between stored keys of the caller's type and ordered words
        /// ([`Key::FLIP`](lanetree_layout::Key::FLIP)). Nodes hold ordered words; queries and results are
        /// in the caller's form.
        pub flip: K,
    }
}

impl<K: Word> TreeRef<K> {
    /// Per thread. The numbers of pairs before a leaf, and before the next one.
    ///
    /// # Safety
    /// It is a leaf of the tree.
    #[inline(always)]
    pub(crate) unsafe fn leaf_ranks<S: Simt>(&self, simt: S, leaf: u32) -> (u64, u64) {
        if self.ranks.is_null() {
            let first = u64::from(leaf) * u64::from(self.per_leaf);
            let next = first + u64::from(self.per_leaf);
            return (first, if next < self.len { next } else { self.len });
        }
        // SAFETY: one rank per leaf, and one past the last.
        unsafe {
            (
                simt.load(self.ranks, u64::from(leaf), Hint::ReadOnly),
                simt.load(self.ranks, u64::from(leaf) + 1, Hint::ReadOnly),
            )
        }
    }

    /// Per thread. The number of pairs below a query, given its leaf and the `count` of slots there that are below it.
    ///
    /// # Safety
    /// It is a leaf of the tree.
    #[inline(always)]
    pub(crate) unsafe fn rank<S: Simt>(&self, simt: S, leaf: u32, count: u32) -> u64 {
        // SAFETY: the caller's promise.
        let (first, next) = unsafe { self.leaf_ranks(simt, leaf) };
        // A leaf's repeated last pair counts as below a query above it: hence the bound.
        let rank = first + u64::from(count);
        if rank < next { rank } else { next }
    }

    /// Per thread. The leaf and the slot of the pair that is `pairs` after a slot of a leaf.
    ///
    /// # Safety
    /// `leaf` is a leaf of the tree, and the tree has at least `pairs + 1` pairs from the slot on.
    #[inline(always)]
    pub(crate) unsafe fn advance<S: Simt>(&self, simt: S, leaf: u32, slot: u32, pairs: u64) -> (u32, u32) {
        // SAFETY: the caller's promise; leaves of the tree.
        unsafe {
            let rank = self.leaf_ranks(simt, leaf).0 + u64::from(slot) + pairs;
            if self.ranks.is_null() {
                // An empty tree has 0, and no pairs to go on to; a division by 0 would be a call to panic.
                let per_leaf = u64::from(self.per_leaf.max(1));
                let leaf = rank / per_leaf;
                return (leaf as u32, (rank - leaf * per_leaf) as u32);
            }
            let (mut leaf, mut left) = (leaf, self.leaf_count - leaf);
            while left > 1 {
                let half = left / 2;
                leaf += if simt.load(self.ranks, u64::from(leaf + half), Hint::ReadOnly) <= rank { half } else { 0 };
                left -= half;
            }
            (leaf, (rank - simt.load(self.ranks, u64::from(leaf), Hint::ReadOnly)) as u32)
        }
    }
}

/// Threads of a block, in every kernel of this crate.
pub const THREADS: u32 = 256;

/// The launch bounds of a descent with `queries` queries in flight per group: 40 registers for four or more queries
/// over nodes of 64 bytes; otherwise ptxas would serialise their loads. Elsewhere ptxas's own choice is as fast or
/// faster. See `docs/performance.md`.
pub(crate) const fn launch_bounds<K: Word>(fanout: u32, queries: usize) -> Option<LaunchBounds> {
    if queries >= 4 && K::BYTES == 8 && inner_bytes::<K>(fanout) <= 64 {
        Some(LaunchBounds { threads: THREADS, blocks: 6 })
    } else {
        None
    }
}

/// Which of the two bounds of equal keys is meant.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before the keys that equal the query: `lower_bound`.
    Lower = 0,
    /// After them: `upper_bound`.
    Upper = 1,
}

/// Slots of a node that each lane of a group of `lanes` compares at a time: as many as a vector load has, if a node has
/// that many slots per lane.
pub const fn slots_at_once<T: Word>(fanout: u32, lanes: u32) -> u32 {
    if fanout / lanes >= T::PER_VECTOR as u32 { T::PER_VECTOR as u32 } else { 1 }
}

/// The vectors (or single words) that one lane reads of a node, `G` lanes side by side.
pub(crate) struct Slots<const F: u32, const G: u32>;

impl<const F: u32, const G: u32> Slots<F, G> {
    /// Words that a lane reads at a time.
    pub(crate) const fn width<T: Word>() -> u32 {
        slots_at_once::<T>(F, G)
    }
    /// How many times it reads.
    pub(crate) const fn steps<T: Word>() -> u32 {
        F / G / Self::width::<T>()
    }
    /// Whether a node is read whole, all loads at once. Otherwise it is read in steps, until every group of the warp
    /// has its slot: these are the comparisons that narrowed groups save (section 4.2). With `STOP` that is so whatever
    /// the number of steps.
    pub(crate) const fn whole<T: Word, const STOP: bool>() -> bool {
        Self::steps::<T>() <= if STOP { 1 } else { 4 }
    }
    /// The first slot that group member `member` reads in a step.
    #[inline(always)]
    pub(crate) fn first<T: Word>(step: u32, member: u32) -> u32 {
        (step * G + member) * Self::width::<T>()
    }
}

/// Per thread. Reads `width` words from `index` on and calls `each` with their position among these.
///
/// # Safety
/// The words lie inside the buffer; with a width of a vector, on a 16-byte boundary.
#[inline(always)]
pub(crate) unsafe fn read_slots<S: Simt, T: Word>(
    simt: S,
    from: Global<T>,
    index: u64,
    width: u32,
    hint: Hint,
    mut each: impl FnMut(u32, T),
) {
    if width == 1 {
        // SAFETY: the caller's promise.
        each(0, unsafe { simt.load(from, index, hint) });
    } else {
        // SAFETY: the caller's promise.
        let vector = unsafe { simt.load_vector(from, index, hint) };
        for (i, &word) in vector.as_ref().iter().enumerate() {
            each(i as u32, word);
        }
    }
}

/// Warp collective (all lanes). The sum of `value` over each group of `G` lanes, in all its lanes.
#[inline(always)]
pub(crate) fn group_sum<S: Simt, const G: u32>(simt: S, mut value: u32) -> u32 {
    let mut lanes = G / 2;
    while lanes > 0 {
        value = value.wrapping_add(simt.shuffle_xor(FULL_MASK, value, lanes));
        lanes /= 2;
    }
    value
}

/// The bits of a ballot that belong to the caller's group, moved to the bottom.
#[inline(always)]
pub(crate) fn group_bits<const G: u32>(ballot: u32, group: u32) -> u32 {
    if G == WARP { ballot } else { (ballot >> (group * G)) & ((1 << G) - 1) }
}

/// Warp collective (all lanes). The children that `Q` queries per group descend to. `top` has the first children of
/// nodes that the caller has at hand, if any; `SLOT` does not ask for them.
///
/// # Safety
/// The nodes are inner nodes of the tree.
#[inline(always)]
pub(crate) unsafe fn children<
    S: Simt,
    K: Word,
    const SLOT: bool,
    const F: u32,
    const G: u32,
    const Q: usize,
    const STOP: bool,
>(
    simt: S,
    tree: &TreeRef<K>,
    top: impl Fn(u32) -> Option<u32> + Copy,
    keys: [K; Q],
    nodes: [u32; Q],
) -> [u32; Q] {
    let member = simt.lane() % G;
    let width = Slots::<F, G>::width::<K>();
    let steps = Slots::<F, G>::steps::<K>();
    let mut parts = [0_u32; Q];
    for j in 0..Q {
        if !SLOT && member == 0 {
            parts[j] = match top(nodes[j]) {
                Some(first) => first,
                // SAFETY: the array has an entry for every inner node.
                None => unsafe { simt.load(tree.prefix_sum, u64::from(nodes[j]), Hint::ReadOnly) },
            };
        }
        if Slots::<F, G>::whole::<K, STOP>() {
            for step in 0..steps {
                let slot = Slots::<F, G>::first::<K>(step, member);
                let index = inner_slot(F, nodes[j], slot);
                // SAFETY: the slots lie inside the node; nodes are aligned to at least 32 bytes and
                // the width divides the slot.
                unsafe {
                    read_slots(simt, tree.inner, index, width, Hint::ReadOnly, |i, word| {
                        if slot + i == F - 1 {
                            parts[j] += if SLOT { word.low() } else { 0 };
                        } else {
                            parts[j] += u32::from(word < keys[j]);
                        }
                    });
                }
            }
        } else {
            if SLOT && member == 0 {
                // SAFETY: the last slot of the node.
                parts[j] = unsafe { simt.load(tree.inner, inner_slot(F, nodes[j], F - 1), Hint::ReadOnly) }.low();
            }
            for step in 0..steps {
                let slot = Slots::<F, G>::first::<K>(step, member);
                let mut passed = true;
                // SAFETY: as above.
                unsafe {
                    read_slots(simt, tree.inner, inner_slot(F, nodes[j], slot), width, Hint::ReadOnly, |i, word| {
                        let below = word < keys[j] && slot + i != F - 1;
                        parts[j] += u32::from(below);
                        passed &= below;
                    });
                }
                if no_group_goes_on::<S, G>(simt, passed) {
                    break;
                }
            }
        }
    }
    for part in &mut parts {
        *part = group_sum::<S, G>(simt, *part);
    }
    parts
}

/// Warp collective (all lanes). Whether every group of the warp has found a key at or above its query: `passed` is
/// false in some lane of each group.
#[inline(always)]
fn no_group_goes_on<S: Simt, const G: u32>(simt: S, passed: bool) -> bool {
    let found = simt.ballot(FULL_MASK, !passed);
    let group = simt.lane() / G;
    simt.all(FULL_MASK, group_bits::<G>(found, group) != 0)
}

/// Warp collective (all lanes). Descends for `Q` queries per group; the leaves they reach, numbered
/// from 0, in all lanes of the group.
///
/// # Safety
/// The tree is valid and not empty.
#[inline(always)]
pub(crate) unsafe fn descend<
    S: Simt,
    K: Word,
    const SLOT: bool,
    const F: u32,
    const G: u32,
    const Q: usize,
    const STOP: bool,
>(
    simt: S,
    tree: &TreeRef<K>,
    top: impl Fn(u32) -> Option<u32> + Copy,
    keys: [K; Q],
) -> [u32; Q] {
    // SAFETY: the caller's promise.
    let nodes = unsafe { descend_levels::<S, K, SLOT, F, G, Q, STOP>(simt, tree, top, keys, tree.height) };
    nodes.map(|node| node - tree.first_leaf)
}

/// Warp collective (all lanes). The nodes that `Q` queries per group reach some levels below the root, in
/// all lanes of the group.
///
/// # Safety
/// The tree is valid and not empty, and has as many inner levels.
#[inline(always)]
pub(crate) unsafe fn descend_levels<
    S: Simt,
    K: Word,
    const SLOT: bool,
    const F: u32,
    const G: u32,
    const Q: usize,
    const STOP: bool,
>(
    simt: S,
    tree: &TreeRef<K>,
    top: impl Fn(u32) -> Option<u32> + Copy,
    keys: [K; Q],
    levels: u32,
) -> [u32; Q] {
    let mut nodes = [0; Q];
    for _ in 0..levels {
        // SAFETY: the root is node 0, and children of inner nodes above the last level are inner nodes.
        nodes = unsafe { children::<S, K, SLOT, F, G, Q, STOP>(simt, tree, top, keys, nodes) };
    }
    nodes
}

/// Warp collective (all lanes). How many of each leaf's `F` slots are below the query, in all lanes of
/// the group.
///
/// # Safety
/// The leaves are leaves of the tree.
#[inline(always)]
pub(crate) unsafe fn count_below<
    S: Simt,
    K: Word,
    V: Word,
    const F: u32,
    const G: u32,
    const Q: usize,
    const STOP: bool,
>(
    simt: S,
    tree: &TreeRef<K>,
    keys: [K; Q],
    leaves: [u32; Q],
) -> [u32; Q] {
    let member = simt.lane() % G;
    let width = Slots::<F, G>::width::<K>();
    let mut parts = [0_u32; Q];
    for j in 0..Q {
        let leaf = tree.leaves.byte_add(leaf_offset::<K, V>(F, leaves[j])).cast::<K>();
        for step in 0..Slots::<F, G>::steps::<K>() {
            let slot = Slots::<F, G>::first::<K>(step, member);
            let mut passed = true;
            // SAFETY: the slots lie inside the leaf, which is aligned to at least 32 bytes.
            unsafe {
                read_slots(simt, leaf, u64::from(slot), width, Hint::ReadOnly, |_, word| {
                    let below = word < keys[j];
                    parts[j] += u32::from(below);
                    passed &= below;
                });
            }
            if !Slots::<F, G>::whole::<K, STOP>() && no_group_goes_on::<S, G>(simt, passed) {
                break;
            }
        }
    }
    for part in &mut parts {
        *part = group_sum::<S, G>(simt, *part);
    }
    parts
}

/// Which queries of a tile a group serves: the tile's queries are distributed to the groups in rounds.
pub(crate) struct Rounds<const G: u32, const Q: usize>;

impl<const G: u32, const Q: usize> Rounds<G, Q> {
    const GROUPS: u32 = WARP / G;
    /// Rounds in which a warp's groups serve its tile.
    pub(crate) const COUNT: u32 = {
        assert!(G.is_power_of_two() && G <= WARP, "a thread group is 1 to 32 lanes");
        assert!(Q >= 1 && (G as usize).is_multiple_of(Q), "queries in flight divide the rounds of a tile");
        G / Q as u32
    };

    /// Warp collective (all lanes). The group's queries of a round, from the lanes that own them.
    #[inline(always)]
    pub(crate) fn deal<S: Simt, K: Word>(simt: S, own: K, round: u32) -> [K; Q] {
        let group = simt.lane() / G;
        core::array::from_fn(|j| {
            if G == 1 {
                own
            } else {
                simt.shuffle(FULL_MASK, own, (round * Q as u32 + j as u32) * Self::GROUPS + group)
            }
        })
    }

    /// The group that serves the caller's own query.
    #[inline(always)]
    pub(crate) fn server(lane: u32) -> u32 {
        lane % Self::GROUPS
    }

    /// Whether the caller's own query is the `j`-th of a round.
    #[inline(always)]
    pub(crate) fn is_own(lane: u32, round: u32, j: usize) -> bool {
        lane / Self::GROUPS == round * Q as u32 + j as u32
    }
}

/// Warp collective (all lanes). Where each lane's own query belongs: a leaf, and the number of its
/// slots below the query.
///
/// # Safety
/// The tree is valid and not empty.
#[inline(always)]
pub(crate) unsafe fn locate<S: Simt, K: Word, V: Word, const SLOT: bool, const F: u32, const G: u32, const Q: usize>(
    simt: S,
    tree: &TreeRef<K>,
    own: K,
) -> (u32, u32) {
    let lane = simt.lane();
    let (mut own_leaf, mut own_count) = (0, 0);
    for round in 0..Rounds::<G, Q>::COUNT {
        let keys = Rounds::<G, Q>::deal(simt, own, round);
        // SAFETY: the caller's promise.
        let leaves = unsafe { descend::<S, K, SLOT, F, G, Q, false>(simt, tree, |_| None, keys) };
        // SAFETY: a descent ends at a leaf.
        let counts = unsafe { count_below::<S, K, V, F, G, Q, false>(simt, tree, keys, leaves) };
        for j in 0..Q {
            let server = Rounds::<G, Q>::server(lane) * G;
            let (leaf, count) = if G == 1 {
                (leaves[j], counts[j])
            } else {
                (simt.shuffle(FULL_MASK, leaves[j], server), simt.shuffle(FULL_MASK, counts[j], server))
            };
            if Rounds::<G, Q>::is_own(lane, round, j) {
                (own_leaf, own_count) = (leaf, count);
            }
        }
    }
    (own_leaf, own_count)
}

/// The first query of the calling warp's tile of `queries` queries.
#[inline(always)]
pub(crate) fn tile_start<S: Simt>(simt: S, queries: u32) -> u64 {
    let warps = simt.block_dim() / WARP;
    (u64::from(simt.block_index()) * u64::from(warps) + u64::from(simt.warp())) * u64::from(queries)
}

/// The word to search for to find a bound: `None` if the bound is the end of the tree.
#[inline(always)]
pub(crate) fn search_word<K: Word>(key: K, side: Side) -> Option<K> {
    match side {
        Side::Lower => Some(key),
        Side::Upper if key == K::MAX => None,
        // No key lies between: the upper bound of a key is the lower bound of its successor.
        Side::Upper => Some(key.wrapping_add(K::truncate(1))),
    }
}
