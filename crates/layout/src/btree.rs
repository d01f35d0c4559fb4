//! What B+trees built level by level have in common: how many nodes they have, and the layout of their leaves.

use crate::{Word, kernel_args};

/// The smallest and largest fanouts that have kernels; the powers of two in between have kernels too.
pub const FANOUTS: [u32; 5] = [8, 16, 32, 64, 128];

/// Alignment of the regions in bytes: a line of L1 and L2.
pub const ALIGNMENT: usize = 128;

/// Most inner levels that a tree may have: 2^32 leaves at the smallest number of children per node, 8.
pub const MAX_HEIGHT: u32 = 11;

/// Bytes of a leaf.
#[inline(always)]
pub const fn leaf_bytes<K: Word, V: Word>(fanout: u32) -> u64 {
    fanout as u64 * (K::BYTES + V::BYTES) as u64
}

/// Byte offset of a leaf in the leaf region; its keys begin there.
#[inline(always)]
pub const fn leaf_offset<K: Word, V: Word>(fanout: u32, leaf: u32) -> u64 {
    leaf as u64 * leaf_bytes::<K, V>(fanout)
}

/// Byte offset of a leaf's values in the leaf region.
#[inline(always)]
pub const fn leaf_values_offset<K: Word, V: Word>(fanout: u32, leaf: u32) -> u64 {
    leaf_offset::<K, V>(fanout, leaf) + fanout as u64 * K::BYTES as u64
}

/// The geometry of a tree: how many nodes lie where.
///
/// In a tree as built, every leaf except the last holds [`Shape::per_leaf`] pairs, and every inner node except the last
/// of its level has [`Shape::children`] children. Updates do not change these two numbers, but may make nodes that
/// differ from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pairs in the tree.
    pub len: u64,
    /// Slots of a node.
    pub fanout: u32,
    /// Pairs of a leaf, in `1..=fanout`.
    pub per_leaf: u32,
    /// Children of an inner node, in `2..=fanout`.
    pub children: u32,
    /// Levels of inner nodes: 0 if the root is a leaf, or if there are no pairs.
    pub height: u32,
    /// Inner nodes, which is also the index of the first leaf.
    pub inner: u32,
    /// Leaves.
    pub leaves: u32,
    /// Nodes of each inner level, the root's level first.
    pub level_nodes: [u32; MAX_HEIGHT as usize],
}

impl Shape {
    /// The geometry of `len` pairs in nodes of `fanout` slots, leaves filled to `fill` (0 < fill ≤ 1) with
    /// at least one pair each, and full inner nodes: no update adds children to one. `None` where that is
    /// more than 2^32 - 1 nodes.
    pub fn bulk(len: u64, fanout: u32, fill: f64) -> Option<Self> {
        let filled = libm_ceil(f64::from(fanout) * fill);
        let (per_leaf, children) = (filled.clamp(1, fanout), fanout);
        let level_nodes = [0; MAX_HEIGHT as usize];
        Self { len: 0, fanout, per_leaf, children, height: 0, inner: 0, leaves: 0, level_nodes }.with_len(len)
    }

    /// The geometry of another number of pairs, with nodes filled as these. `None` where that is more
    /// than 2^32 - 1 nodes.
    pub fn with_len(&self, len: u64) -> Option<Self> {
        let leaves = u32::try_from(len.div_ceil(u64::from(self.per_leaf))).ok()?;
        self.with_leaves(len, leaves)
    }

    /// The geometry of `len` pairs in `leaves` leaves, however full each is, with inner nodes filled as
    /// these. `None` where that is more than 2^32 - 1 nodes.
    pub fn with_leaves(&self, len: u64, leaves: u32) -> Option<Self> {
        // Levels from the leaves up, then turned around.
        let mut level_nodes = [0; MAX_HEIGHT as usize];
        let mut height = 0;
        let mut nodes = leaves;
        let mut inner = 0_u32;
        while nodes > 1 {
            nodes = nodes.div_ceil(self.children);
            level_nodes[height as usize] = nodes;
            inner = inner.checked_add(nodes)?;
            height += 1;
        }
        inner.checked_add(leaves)?;
        level_nodes[..height as usize].reverse();
        Some(Self { len, height, inner, leaves, level_nodes, ..*self })
    }

    /// Index of the first node of an inner level; of the first leaf for `level == height`.
    pub fn level_first(&self, level: u32) -> u32 {
        self.level_nodes[..level as usize].iter().sum()
    }

    /// Pairs of a leaf.
    #[inline(always)]
    pub fn leaf_len(&self, leaf: u32) -> u32 {
        let before = u64::from(leaf) * u64::from(self.per_leaf);
        let left = self.len.saturating_sub(before);
        if left < u64::from(self.per_leaf) { left as u32 } else { self.per_leaf }
    }

    /// Keys (an inner node is `fanout` of them) in the inner nodes' part of the key region.
    pub fn inner_slots(&self) -> u64 {
        u64::from(self.inner) * u64::from(self.fanout)
    }

    /// Bytes of the leaves' part of the key region.
    pub fn leaf_region_bytes<K: Word, V: Word>(&self) -> u64 {
        u64::from(self.leaves) * leaf_bytes::<K, V>(self.fanout)
    }
}

kernel_args! {
    /// How pairs lie in the leaves of a tree built in bulk: the part of its [`Shape`] that a kernel needs.
    #[derive(PartialEq, Eq)]
    pub struct Filling {
        /// Pairs.
        pub len: u64,
        /// `ceil(2^64 / per_leaf)`, by which a multiplication divides by `per_leaf`; 0 for 1 pairs per leaf.
        pub reciprocal: u64,
        /// Slots of a leaf.
        pub fanout: u32,
        /// Pairs of every leaf but the last.
        pub per_leaf: u32,
        /// Leaves.
        pub leaf_count: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

impl Filling {
    /// The leaf and the slot of a rank below `2^56`.
    #[inline(always)]
    pub fn place(&self, rank: u64) -> (u32, u32) {
        // Exact: the reciprocal is too large by less than `per_leaf <= 2^7` in 2^64, which a rank below
        // 2^56 times that does not carry into the high word.
        let leaf =
            if self.reciprocal == 0 { rank } else { ((u128::from(rank) * u128::from(self.reciprocal)) >> 64) as u64 };
        (leaf as u32, (rank - leaf * u64::from(self.per_leaf)) as u32)
    }
}

impl Shape {
    /// How its pairs lie in its leaves.
    pub fn filling(&self) -> Filling {
        let reciprocal = if self.per_leaf == 1 { 0 } else { u64::MAX / u64::from(self.per_leaf) + 1 };
        let Self { len, fanout, per_leaf, leaves: leaf_count, .. } = *self;
        Filling { len, reciprocal, fanout, per_leaf, leaf_count, padding: 0 }
    }
}

/// `ceil` of a small non-negative number: `f64::ceil` is not in `core`.
fn libm_ceil(x: f64) -> u32 {
    let floor = x as u32;
    if f64::from(floor) < x { floor + 1 } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_shapes_count_their_nodes() {
        let empty = Shape::bulk(0, 8, 1.0).unwrap();
        assert_eq!((empty.height, empty.inner, empty.leaves), (0, 0, 0));

        let one = Shape::bulk(1, 8, 1.0).unwrap();
        assert_eq!((one.height, one.inner, one.leaves, one.leaf_len(0)), (0, 0, 1, 1));

        // 65 pairs: 9 leaves, 2 nodes above them, a root.
        let shape = Shape::bulk(65, 8, 1.0).unwrap();
        assert_eq!((shape.height, shape.inner, shape.leaves), (2, 3, 9));
        assert_eq!((shape.level_first(0), shape.level_first(1), shape.level_first(2)), (0, 1, 3));
        assert_eq!((shape.leaf_len(7), shape.leaf_len(8)), (8, 1));
    }

    #[test]
    fn any_fill_leaves_a_tree() {
        let thin = Shape::bulk(1000, 16, 1e-9).unwrap();
        assert_eq!((thin.per_leaf, thin.children, thin.leaves), (1, 16, 1000));
        assert_eq!(thin.height, 3);
        let half = Shape::bulk(1000, 16, 0.5).unwrap();
        assert_eq!((half.per_leaf, half.children), (8, 16));
    }

    #[test]
    fn the_largest_card_is_addressed() {
        // 141 GB of 16-byte pairs: 2^33 of them need 2^30 leaves of 8.
        let shape = Shape::bulk(1 << 33, 8, 1.0).unwrap();
        assert_eq!(shape.leaves, 1 << 30);
        assert_eq!(leaf_offset::<u64, u64>(8, shape.leaves - 1), ((1 << 30) - 1) * 128);
        assert_eq!(Shape::bulk(1 << 40, 8, 1.0), None, "node indexes are 32 bits wide");
    }

    #[test]
    fn a_filling_places_ranks_as_division_does() {
        for (fanout, fill) in [(8, 1.0), (8, 0.8), (8, 0.01), (16, 0.7), (64, 0.6), (128, 1.0), (128, 0.99)] {
            let filling = Shape::bulk(1 << 30, fanout, fill).unwrap().filling();
            let per_leaf = u64::from(filling.per_leaf);
            let near = |x: u64| [x - 1, x, x + 1];
            for rank in [0, 1, 2]
                .into_iter()
                .chain([per_leaf, 1000 * per_leaf, (1 << 29) / per_leaf * per_leaf].into_iter().flat_map(near))
            {
                let expected = ((rank / per_leaf) as u32, (rank % per_leaf) as u32);
                assert_eq!(filling.place(rank), expected, "{rank} of {per_leaf} to a leaf");
            }
        }
    }

    #[test]
    fn leaves_are_whole_sectors() {
        for fanout in FANOUTS {
            assert_eq!(leaf_bytes::<u32, u64>(fanout) % 32, 0);
            assert_eq!(leaf_bytes::<u64, u32>(fanout) % 32, 0);
        }
        assert_eq!(leaf_bytes::<u64, u64>(8), 128);
        assert_eq!(leaf_bytes::<u32, u32>(16), 128);
    }
}
