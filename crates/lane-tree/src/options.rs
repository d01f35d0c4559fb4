//! What a tree is built with.

use core::iter::successors;
use lanetree_frame::{Device, Error, Result};
use lanetree_kernels_lane_tree::TABLE_BYTES;
use lanetree_kernels_lane_tree::layout::{FORMAT_BITS, HALVES_CHILDREN, exact_children};
use lanetree_layout::KeyWord;
use lanetree_runtime::Properties;

/// Where buckets have no room, they get memory for one spare bucket in this many: all are copied there. A build in main memory, which is
/// not taken before it is used, has as many.
pub(crate) const MORE: u64 = 4;

/// Most nodes that the table can lead to.
pub(crate) const TABLE_NODES: u32 = 16384;

/// Levels that a tree has at most: a word has the formats of as many.
const MOST_LEVELS: u32 = u32::BITS / FORMAT_BITS;

/// Threads of a block that has two trees' tables in its shared memory, at least; each thread also has a value in shared
/// memory for each table. A block with one table has the same number of threads, with 128 bytes each, which is the most
/// that a kernel needs. With fewer threads, latency would show.
const LEAST_THREADS: u32 = 256;

/// What a tree is built with, and rebuilt with after changes.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Options {
    pub(crate) fill: f64,
    pub(crate) table_nodes: u32,
}

impl Options {
    /// The options of a tree with `pairs` pairs and `leaf_nodes` nodes of the lowest level on a device: the table is no
    /// larger than fits there, and no smaller than the most levels need.
    ///
    /// # Errors
    /// [`Error::TooManyLeaves`] if there is no such table; [`Error::Runtime`] from the device.
    pub(crate) fn on<K: KeyWord>(self, device: &Device, pairs: u64, leaf_nodes: usize) -> Result<Self> {
        let most = most_table_nodes(shared_bytes_per_block(&device.properties()?));
        let least = upper_levels::<K>(leaf_nodes).nth(MOST_LEVELS as usize - 2).unwrap_or(leaf_nodes);
        if least > most as usize {
            let of_first = u64::from(most) * u64::from(exact_children::<K>()).pow(MOST_LEVELS - 2);
            let most = of_first / most_of_part::<K>() as u64 * u64::from(HALVES_CHILDREN);
            return Err(Error::TooManyLeaves { pairs, most });
        }
        Ok(Self { table_nodes: self.table_nodes.clamp(least as u32, most), ..self })
    }
}

/// Shared memory that a block can have; on the host, which runs no kernels, any.
pub(crate) fn shared_bytes_per_block(properties: &Properties) -> u32 {
    match properties.shared_bytes_per_block {
        0 => u32::MAX,
        most => most,
    }
}

/// Most nodes that a table leads to where a block can have so much shared memory: two tables fit, so that a kernel can probe two trees.
fn most_table_nodes(shared_bytes_per_block: u32) -> u32 {
    let prefixes = (shared_bytes_per_block / 2).saturating_sub(TABLE_BYTES + LEAST_THREADS * size_of::<u64>() as u32);
    // What comes after the table begins at a multiple of 16 bytes.
    (prefixes / 16 * 4).clamp(1, TABLE_NODES)
}

/// The most nodes of each level above `leaf_nodes` of the lowest.
pub(crate) fn upper_levels<K: KeyWord>(leaf_nodes: usize) -> impl Iterator<Item = usize> {
    let first = leaf_nodes.div_ceil(HALVES_CHILDREN as usize) * most_of_part::<K>();
    successors(Some(first), |nodes| Some(nodes.div_ceil(exact_children::<K>() as usize)))
}

/// The most nodes of a part of the first level above the lowest: two, or exact nodes for each of its halves.
pub(crate) fn most_of_part<K: KeyWord>() -> usize {
    2 * (HALVES_CHILDREN as usize).div_ceil(2 * exact_children::<K>() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_kernels_lane_tree::SORTED_BYTES;
    use lanetree_runtime::Card;

    #[test]
    fn a_table_is_as_large_as_the_card_allows() {
        let options = Options { fill: 1.0, table_nodes: TABLE_NODES };
        let on = |card| options.on::<u64>(&Device::emulated_as(card), 1, 1).unwrap().table_nodes;
        // On these, speed was measured.
        assert_eq!([Card::A100, Card::H100, Card::B200].map(on), [TABLE_NODES; 3]);
        assert_eq!([Card::RTX_3090, Card::RTX_4090, Card::RTX_5090].map(on), [10112; 3]);
        assert_eq!(on(Card::SMALLEST), 5632);
        for card in Card::ALL {
            let tables = 2 * (TABLE_BYTES + 4 * on(card) + LEAST_THREADS * 8);
            let one = TABLE_BYTES + 4 * on(card) + LEAST_THREADS * SORTED_BYTES;
            assert!(tables.max(one) <= card.shared_bytes_per_block, "{card:?}");
            let few = Options { table_nodes: 3, ..options };
            assert_eq!(few.on::<u64>(&Device::emulated_as(card), 1, 1).unwrap().table_nodes, 3);
        }
        assert_eq!(options.on::<u64>(&Device::host(), 1, 1).unwrap().table_nodes, TABLE_NODES);
    }

    #[test]
    fn a_table_is_as_large_as_the_most_levels_need() {
        let options = Options { fill: 1.0, table_nodes: 1 };
        let on = |nodes| options.on::<u128>(&Device::host(), 9, nodes).map(|options| options.table_nodes);
        assert_eq!(on(1 << 13).unwrap(), 1);
        assert_eq!(on(1 << 20).unwrap(), 71);
        let Err(Error::TooManyLeaves { pairs: 9, most }) = on(1 << 30) else { panic!("{:?}", on(1 << 30)) };
        assert!(on(most as usize).is_ok() && on(most as usize + 29).is_err(), "{most}");
    }
}
