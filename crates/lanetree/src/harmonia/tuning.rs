//! Choices that were measured, as data. The measurements are in `docs/performance.md`.

use crate::{Error, Result};
use lanetree_kernels_harmonia::group_widths;

/// The lanes of a warp that serve one query together: the paper's thread group (section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupWidth {
    /// What was measured best for the fanout and the [`BatchOrder`].
    #[default]
    Auto,
    /// This many; [`Error::GroupWidth`] where no kernel has it.
    Lanes(u32),
}

/// What the caller knows of the order of a batch's queries. It changes the speed, never the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchOrder {
    /// Nothing: neighbours in the batch are strangers in the tree.
    #[default]
    Random,
    /// Sorted by their upper bits, or otherwise close: neighbours mostly share their upper nodes.
    Clustered,
    /// Sorted by so many of their most significant bits: how close neighbours are follows from the tree.
    TopBits(u32),
    /// Sorted: neighbours mostly share their leaves.
    Sorted,
}

impl GroupWidth {
    /// The width for a fanout and an order.
    ///
    /// # Errors
    /// [`Error::GroupWidth`].
    pub(crate) fn choose(self, fanout: u32, key_bytes: usize, order: BatchOrder, keys: u64) -> Result<u32> {
        let available = group_widths(fanout);
        match self {
            Self::Lanes(lanes) if available.contains(&lanes) => Ok(lanes),
            Self::Lanes(lanes) => Err(Error::GroupWidth { lanes, fanout, available }),
            Self::Auto => Ok(measured(fanout, key_bytes, order.among(keys))),
        }
    }
}

/// Keys that share their top bits, from which on queries sorted by these are as good as sorted.
const CLOSE: u64 = 64;

impl BatchOrder {
    /// The order that [`BatchOrder::TopBits`] comes to in a tree of so many keys, if they are uniform.
    fn among(self, keys: u64) -> Self {
        match self {
            Self::TopBits(0) => Self::Random,
            Self::TopBits(bits) if keys.checked_shr(bits).unwrap_or(0) <= CLOSE => Self::Sorted,
            Self::TopBits(_) => Self::Clustered,
            order => order,
        }
    }
}

/// Measured on an NVIDIA H200, n = 2^26, 2^26 queries that hit. Random queries want a node read in one
/// access of 16 bytes per lane; the closer the queries, the more of a node is in L1 already, and the
/// more a narrow group saves in instructions.
fn measured(fanout: u32, key_bytes: usize, order: BatchOrder) -> u32 {
    use BatchOrder::{Clustered, Random, Sorted};
    // What these come to is one of the others.
    let order = if let BatchOrder::TopBits(_) = order { Clustered } else { order };
    match (fanout, key_bytes, order) {
        (8, 4, Random) => 2,
        (8, 4, Clustered | Sorted) => 1,
        (8, _, Random) => 4,
        (8, _, Clustered) => 2,
        (8, _, Sorted) => 1,
        (16, 4, Random) => 4,
        (16, 4, Clustered) => 2,
        (16, _, Random) => 8,
        (16, _, Clustered) => 4,
        (16, _, Sorted) => 1,
        (32, _, Random) => 8,
        (32, 4, Clustered) => 4,
        (32, _, _) => 2,
        (64, _, Random) => 8,
        (64, _, _) => 4,
        (128, 4, Random) => 8,
        (128, _, Random) => 16,
        (128, 4, _) => 4,
        (_, _, _) => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_layout::harmonia::FANOUTS;

    #[test]
    fn every_automatic_width_has_a_kernel() {
        for fanout in FANOUTS {
            for key_bytes in [4, 8] {
                let [random, few, many, all] = [0, 16, 22, 64].map(BatchOrder::TopBits);
                for order in [BatchOrder::Random, BatchOrder::Clustered, BatchOrder::Sorted, random, few, many, all] {
                    let width = GroupWidth::Auto.choose(fanout, key_bytes, order, 1 << 26).unwrap();
                    assert!(group_widths(fanout).contains(&width), "{fanout} {key_bytes} {order:?}: {width}");
                }
            }
        }
    }

    #[test]
    fn the_more_bits_queries_are_sorted_by_the_closer_they_are() {
        let among = |bits, keys| BatchOrder::TopBits(bits).among(keys);
        assert_eq!((among(0, 0), among(0, 1 << 26)), (BatchOrder::Random, BatchOrder::Random));
        // Equation 2's bits leave a line of keys: 16.
        assert_eq!((among(16, 1 << 26), among(22, 1 << 26)), (BatchOrder::Clustered, BatchOrder::Sorted));
        assert_eq!((among(16, 1 << 20), among(64, u64::MAX)), (BatchOrder::Sorted, BatchOrder::Sorted));
        let width = |order| GroupWidth::Auto.choose(8, 8, order, 1 << 26).unwrap();
        assert_eq!((width(BatchOrder::TopBits(16)), width(BatchOrder::TopBits(22))), (2, 1));
    }

    #[test]
    fn a_width_without_a_kernel_is_named() {
        let error = GroupWidth::Lanes(3).choose(8, 8, BatchOrder::Random, 1).unwrap_err();
        assert_eq!(error.to_string(), "3 lanes per query at a fanout of 8: there are kernels for [1, 2, 4, 8]");
    }
}
