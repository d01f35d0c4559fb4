//! Choices that were measured, as data, by the card that they were measured on. The measurements are in `docs/lab` (experiments 1 to 5 and 9).

use lanetree_frame::{BatchOrder, ByCard, Error, Result};
use lanetree_kernels_harmonia::{group_widths, is_compiled};
use lanetree_runtime::{Device, DeviceKind};

/// Whether a tree of a fanout can be on a device.
///
/// # Errors
/// [`Error::Feature`].
pub(crate) fn check_fanout(device: &Device, fanout: u32) -> Result<()> {
    // On the host there are no kernels.
    if device.kind() == DeviceKind::Host || is_compiled(fanout) {
        return Ok(());
    }
    match cfg!(feature = "papers") {
        true => Ok(()),
        false => Err(Error::Feature { option: format!("a fanout of {fanout} on a device"), feature: "papers" }),
    }
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
    /// The width for a fanout and an order, on a card.
    ///
    /// # Errors
    /// [`Error::GroupWidth`].
    pub(crate) fn choose(
        self,
        measured: &Measured,
        (fanout, key_bytes): (u32, usize),
        order: BatchOrder,
        keys: u64,
    ) -> Result<u32> {
        let available = group_widths(fanout);
        match self {
            Self::Lanes(lanes) if available.contains(&lanes) => Ok(lanes),
            Self::Lanes(lanes) => Err(Error::GroupWidth { lanes, fanout, available }),
            Self::Auto => Ok(measured.width(fanout, key_bytes, measured.closeness(order, keys))),
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

/// The key's bytes and the widths by [`Closeness`], of a fanout.
type Row = (u32, usize, [u32; 4]);

/// What is fastest on a card.
pub(crate) struct Measured {
    /// Lanes per query by fanout, bytes of a key, and closeness.
    widths: [Row; 10],
    /// Queries that are sorted by their top bits count as sorted if at most this many keys share these bits.
    sorted: u64,
    /// They count as clustered up to this many keys.
    clustered: u64,
    /// Sorted queries per leaf from which on it is worth copying whole leaves to shared memory.
    pub(crate) dense: u64,
}

pub(crate) const MEASURED: ByCard<Measured> = ByCard(&[((9, 0), H200)]);

/// An NVIDIA H200, n = 2^26, 2^26 queries that hit. For random queries it is best to read a node in one access of 16 bytes per
/// lane. The closer the queries, the more of a node is in L1 already, and the more instructions a narrow group saves. Child
/// regions were not measured for 4-byte keys, nor clusters of sizes other than 2^10 keys: these have the nearest measurement.
const H200: Measured = Measured {
    widths: [
        (8, 4, [2, 2, 1, 1]),
        (8, 8, [4, 4, 2, 1]),
        (16, 4, [4, 4, 2, 1]),
        (16, 8, [8, 4, 4, 1]),
        (32, 4, [8, 8, 4, 2]),
        (32, 8, [8, 8, 2, 2]),
        (64, 4, [8, 4, 4, 4]),
        (64, 8, [8, 4, 4, 4]),
        (128, 4, [8, 4, 4, 4]),
        (128, 8, [16, 8, 8, 8]),
    ],
    // At fanout 8, one lane and two are equally fast there (`look-up-top-bits.txt`, n = 2^23 and 2^26).
    sorted: 64,
    // 64 KiB of leaves: with more, a node is rarely in L1 already.
    clustered: 1 << 12,
    // With one per leaf it is faster to look each up by itself.
    dense: 2,
};

impl Measured {
    /// Of a batch, in a tree of that many keys, supposed to be uniform.
    fn closeness(&self, order: BatchOrder, keys: u64) -> Closeness {
        match order {
            BatchOrder::Random | BatchOrder::TopBits(0) => Closeness::Random,
            BatchOrder::Clustered => Closeness::Clustered,
            BatchOrder::Sorted => Closeness::Sorted,
            BatchOrder::TopBits(bits) => match keys.checked_shr(bits).unwrap_or(0) {
                shared if shared <= self.sorted => Closeness::Sorted,
                shared if shared <= self.clustered => Closeness::Clustered,
                _ => Closeness::Region,
            },
        }
    }

    /// The lanes per query.
    fn width(&self, fanout: u32, key_bytes: usize, closeness: Closeness) -> u32 {
        let row = self.widths.iter().find(|row| (row.0, row.1) == (fanout, key_bytes));
        // Every fanout that is compiled has its rows, as a test checks.
        row.map_or(8, |row| row.2[closeness as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_kernels_harmonia::layout::FANOUTS;

    #[test]
    fn every_automatic_width_has_a_kernel() {
        for (fanout, (_, measured)) in
            FANOUTS.into_iter().flat_map(|fanout| MEASURED.0.iter().map(move |card| (fanout, card)))
        {
            for key_bytes in [4, 8] {
                assert!(measured.widths.iter().any(|row| (row.0, row.1) == (fanout, key_bytes)));
                let top_bits = [0, 8, 16, 22, 64].map(BatchOrder::TopBits);
                for order in [BatchOrder::Random, BatchOrder::Clustered, BatchOrder::Sorted].into_iter().chain(top_bits)
                {
                    let width = GroupWidth::Auto.choose(measured, (fanout, key_bytes), order, 1 << 26).unwrap();
                    assert!(group_widths(fanout).contains(&width), "{fanout} {key_bytes} {order:?}: {width}");
                }
            }
        }
    }

    #[test]
    fn the_more_bits_queries_are_sorted_by_the_closer_they_are() {
        let of = |bits, keys| H200.closeness(BatchOrder::TopBits(bits), keys);
        assert_eq!([0, 8, 16, 22, 64].map(|bits| of(bits, 1 << 26)), {
            use Closeness::{Clustered, Random, Region, Sorted};
            // Equation 2's 22 bits leave one line of keys: 16.
            [Random, Region, Clustered, Sorted, Sorted]
        });
        assert_eq!((of(16, 1 << 20), of(64, u64::MAX)), (Closeness::Sorted, Closeness::Sorted));
        let width = |bits| GroupWidth::Auto.choose(&H200, (8, 8), BatchOrder::TopBits(bits), 1 << 26).unwrap();
        assert_eq!([0, 8, 16, 22].map(width), [4, 4, 2, 1]);
    }

    #[test]
    fn a_width_without_a_kernel_is_named() {
        let error = GroupWidth::Lanes(3).choose(&H200, (8, 8), BatchOrder::Random, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there are no kernels for 3 lanes per query at a fanout of 8: choose one of [1, 2, 4, 8]"
        );
    }
}
