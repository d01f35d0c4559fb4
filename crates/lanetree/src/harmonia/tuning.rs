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
    /// Sorted: neighbours mostly share their leaves.
    Sorted,
}

impl GroupWidth {
    /// The width for a fanout and an order.
    ///
    /// # Errors
    /// [`Error::GroupWidth`].
    pub(crate) fn choose(self, fanout: u32, key_bytes: usize, order: BatchOrder) -> Result<u32> {
        let available = group_widths(fanout);
        match self {
            Self::Lanes(lanes) if available.contains(&lanes) => Ok(lanes),
            Self::Lanes(lanes) => Err(Error::GroupWidth { lanes, fanout, available }),
            Self::Auto => Ok(measured(fanout, key_bytes, order)),
        }
    }
}

/// Measured on an NVIDIA H200, n = 2^26, 2^26 queries that hit. Random queries want a node read in one
/// access of 16 bytes per lane; the closer the queries, the more of a node is in L1 already, and the
/// more a narrow group saves in instructions.
fn measured(fanout: u32, key_bytes: usize, order: BatchOrder) -> u32 {
    use BatchOrder::{Clustered, Random, Sorted};
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
                for order in [BatchOrder::Random, BatchOrder::Clustered, BatchOrder::Sorted] {
                    let width = GroupWidth::Auto.choose(fanout, key_bytes, order).unwrap();
                    assert!(group_widths(fanout).contains(&width), "{fanout} {key_bytes} {order:?}: {width}");
                }
            }
        }
    }

    #[test]
    fn a_width_without_a_kernel_is_named() {
        let error = GroupWidth::Lanes(3).choose(8, 8, BatchOrder::Random).unwrap_err();
        assert_eq!(error.to_string(), "3 lanes per query at a fanout of 8: there are kernels for [1, 2, 4, 8]");
    }
}
