//! Choices that were measured, as data. The measurements are in `docs/lab` (experiments 1 to 5 and 9).

use lanetree_frame::{BatchOrder, Error, Result};
use lanetree_kernels_harmonia::{group_widths, is_compiled};
use lanetree_runtime::{Device, DeviceKind};

/// Whether this build has the kernels that only the papers' figures need.
///
/// # Errors
/// [`Error::Feature`] with the option that needs them.
pub(crate) fn check_papers(option: impl FnOnce() -> String) -> Result<()> {
    match cfg!(feature = "papers") {
        true => Ok(()),
        false => Err(Error::Feature { option: option(), feature: "papers" }),
    }
}

/// Whether a tree of a fanout can be on a device.
///
/// # Errors
/// [`Error::Feature`].
pub(crate) fn check_fanout(device: &Device, fanout: u32) -> Result<()> {
    // On the host there are no kernels.
    if device.kind() == DeviceKind::Host || is_compiled(fanout) {
        return Ok(());
    }
    check_papers(|| format!("a fanout of {fanout} on a device"))
}

/// The lanes of a warp that serve one query together: the paper's thread group (section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupWidth {
    /// The width that was measured to be fastest for the fanout and the [`BatchOrder`].
    #[default]
    Auto,
    /// This many; [`Error::GroupWidth`] if there is no such kernel.
    Lanes(u32),
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
            Self::Auto => Ok(measured(fanout, key_bytes, Closeness::of(order, keys))),
        }
    }
}

/// How close neighbours in a batch are in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closeness {
    /// Strangers.
    Random,
    /// They share a part of the tree that is larger than L1.
    Region,
    /// They mostly share their upper nodes.
    Clustered,
    /// They mostly share their leaves.
    Sorted,
}

/// Queries sorted by their top bits count as sorted if at most this many keys share these bits: at fanout 8, one lane
/// and two are equally fast there (`look-up-top-bits.txt`, n = 2^23 and 2^26).
const SORTED: u64 = 64;

/// Queries count as clustered up to this many keys (64 KiB of leaves): with more, a node is rarely in L1 already.
const CLUSTERED: u64 = 1 << 12;

impl Closeness {
    /// In a tree of that many keys, supposed to be uniform.
    fn of(order: BatchOrder, keys: u64) -> Self {
        match order {
            BatchOrder::Random | BatchOrder::TopBits(0) => Self::Random,
            BatchOrder::Clustered => Self::Clustered,
            BatchOrder::Sorted => Self::Sorted,
            BatchOrder::TopBits(bits) => match keys.checked_shr(bits).unwrap_or(0) {
                shared if shared <= SORTED => Self::Sorted,
                shared if shared <= CLUSTERED => Self::Clustered,
                _ => Self::Region,
            },
        }
    }
}

/// Measured on an NVIDIA H200, n = 2^26, 2^26 queries that hit. For random queries it is best to read a node in one
/// access of 16 bytes per lane. The closer the queries, the more of a node is in L1 already, and the more instructions
/// a narrow group saves. Child regions were not measured for 4-byte keys, nor clusters of sizes other than 2^10 keys:
/// these use the nearest measurement.
fn measured(fanout: u32, key_bytes: usize, closeness: Closeness) -> u32 {
    use Closeness::{Clustered, Random, Region, Sorted};
    match (fanout, key_bytes, closeness) {
        (8, 4, Random | Region) => 2,
        (8, 4, Clustered | Sorted) => 1,
        (8, _, Random | Region) => 4,
        (8, _, Clustered) => 2,
        (8, _, Sorted) => 1,
        (16, 4, Random | Region) => 4,
        (16, 4, Clustered) => 2,
        (16, _, Random) => 8,
        (16, _, Region | Clustered) => 4,
        (16, _, Sorted) => 1,
        (32, _, Random | Region) => 8,
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
    use lanetree_kernels_harmonia::layout::FANOUTS;

    #[test]
    fn every_automatic_width_has_a_kernel() {
        for fanout in FANOUTS {
            for key_bytes in [4, 8] {
                let top_bits = [0, 8, 16, 22, 64].map(BatchOrder::TopBits);
                for order in [BatchOrder::Random, BatchOrder::Clustered, BatchOrder::Sorted].into_iter().chain(top_bits)
                {
                    let width = GroupWidth::Auto.choose(fanout, key_bytes, order, 1 << 26).unwrap();
                    assert!(group_widths(fanout).contains(&width), "{fanout} {key_bytes} {order:?}: {width}");
                }
            }
        }
    }

    #[test]
    fn the_more_bits_queries_are_sorted_by_the_closer_they_are() {
        let of = |bits, keys| Closeness::of(BatchOrder::TopBits(bits), keys);
        assert_eq!([0, 8, 16, 22, 64].map(|bits| of(bits, 1 << 26)), {
            use Closeness::{Clustered, Random, Region, Sorted};
            // Equation 2's 22 bits leave one line of keys: 16.
            [Random, Region, Clustered, Sorted, Sorted]
        });
        assert_eq!((of(16, 1 << 20), of(64, u64::MAX)), (Closeness::Sorted, Closeness::Sorted));
        let width = |bits| GroupWidth::Auto.choose(8, 8, BatchOrder::TopBits(bits), 1 << 26).unwrap();
        assert_eq!([0, 8, 16, 22].map(width), [4, 4, 2, 1]);
    }

    #[test]
    fn a_width_without_a_kernel_is_named() {
        let error = GroupWidth::Lanes(3).choose(8, 8, BatchOrder::Random, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there are no kernels for 3 lanes per query at a fanout of 8: choose one of [1, 2, 4, 8]"
        );
    }
}
