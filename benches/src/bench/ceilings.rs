//! What the hardware could do at most, by what was measured of it: copying, and random gathers.

use crate::bench::data::Order;
use lanetree_baselines::device::ceiling::Chunk;

/// The hardware's speed, as far as it was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ceilings {
    /// Bytes read and written per nanosecond.
    pub(crate) copy: Option<f64>,
    /// Chunks, bytes of the table, and 10^9 gathers per second.
    pub(crate) gathers: Vec<(Chunk, u64, f64)>,
}

/// The bytes of the table that stands for a tree of `tree_bytes`: rounded up to a power of two.
pub(crate) fn table_bytes(tree_bytes: u64) -> u64 {
    tree_bytes.next_power_of_two().max(1 << 10)
}

/// A batch of look-ups, as far as its ceiling goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookups {
    pub(crate) order: Order,
    pub(crate) count: u64,
    /// Bytes of a query and its answer.
    pub(crate) query_bytes: u64,
    pub(crate) tree_bytes: u64,
    pub(crate) leaves: u64,
    pub(crate) leaf_bytes: u64,
}

/// The expected number of distinct items, out of `of`, that `count` uniform draws hit.
pub(crate) fn touched(count: f64, of: f64) -> f64 {
    of * -(-count / of.max(1.0)).exp_m1()
}

impl Ceilings {
    /// Gathers of chunks from a table of `bytes`, rounded up to a power of two, if they were measured.
    pub(crate) fn of_gathers(&self, chunk: Chunk, bytes: u64) -> Option<f64> {
        let footprint = table_bytes(bytes);
        let measured = self.gathers.iter().find(|&&(own, table, _)| own == chunk && table == footprint);
        measured.map(|&(_, _, rate)| rate)
    }

    /// The most look-ups, in 10^9 per second, that the hardware could do; defined in the table's footnote.
    pub(crate) fn of_lookups(&self, lookups: &Lookups) -> Option<f64> {
        if lookups.order == Order::Random {
            return self.of_gathers(Chunk::B128, lookups.tree_bytes);
        }
        let count = lookups.count as f64;
        let leaves = touched(count, lookups.leaves as f64);
        let bytes = count * lookups.query_bytes as f64 + leaves * lookups.leaf_bytes as f64;
        self.copy.map(|copy| count * copy / bytes)
    }

    /// The most ranges, in 10^9 per second, that the hardware could do: `count` ranges with `pairs` pairs in all,
    /// anywhere in a tree of `n` pairs. Both bounds are read, an offset is written, and each pair is written. Each
    /// distinct pair is read once, since a pair that several ranges share may come from a cache.
    pub(crate) fn of_ranges(&self, count: u64, pairs: u64, n: u64, pair_bytes: u64) -> Option<f64> {
        let read = touched(pairs as f64, n as f64);
        let bytes = (count * (pair_bytes + size_of::<u64>() as u64)) as f64 + (pairs as f64 + read) * pair_bytes as f64;
        self.copy.map(|copy| count as f64 * copy / bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_that_of_the_order() {
        let ceilings = Ceilings { copy: Some(4000.0), gathers: vec![(Chunk::B128, 1 << 20, 36.0)] };
        let lookups = Lookups {
            order: Order::Random,
            count: 1 << 20,
            query_bytes: 16,
            tree_bytes: (1 << 20) - 5,
            leaves: 1,
            leaf_bytes: 128,
        };
        assert_eq!(ceilings.of_lookups(&lookups), Some(36.0));
        assert_eq!(ceilings.of_lookups(&Lookups { tree_bytes: 1 << 30, ..lookups }), None);
        let sorted = ceilings.of_lookups(&Lookups { order: Order::Sorted, ..lookups }).unwrap();
        assert!((249.0..=250.0).contains(&sorted), "{sorted}");
    }

    #[test]
    fn ranges_that_overlap_share_what_they_read() {
        let ceilings = Ceilings { copy: Some(4000.0), gathers: Vec::new() };
        // Eight times as many pairs come back as there are: nearly all is writing.
        let overlapping = ceilings.of_ranges(1 << 19, 1 << 29, 1 << 26, 16).unwrap();
        let written_alone = 4000.0 / (1024.0 * 16.0);
        assert!((0.87..=0.90).contains(&(overlapping / written_alone)), "{overlapping}");
        // Few ranges share nothing: each pair is read and written.
        let apart = ceilings.of_ranges(1 << 10, 1 << 20, 1 << 30, 16).unwrap();
        assert!((0.49..=0.51).contains(&(apart / written_alone)), "{apart}");
    }
}
