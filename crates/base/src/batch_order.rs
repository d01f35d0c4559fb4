//! What is known about the order of a batch.

/// What the caller knows about the order of a batch's queries. It affects the speed, never the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum BatchOrder {
    /// Nothing: neighbours in the batch are far apart in the tree (the default).
    #[default]
    Random,
    /// Sorted by their upper bits, or otherwise clustered: neighbours mostly share their upper nodes.
    Clustered,
    /// Sorted by this many of their most significant bits. How close neighbours are in the tree follows from its size.
    TopBits(u32),
    /// Sorted: neighbours mostly share their leaves.
    Sorted,
}

impl BatchOrder {
    /// What a few evenly spaced queries of a batch say of it: sorted, or nothing. A batch that only seems to be sorted takes a little
    /// longer, and so does a sorted one of very few queries, which is not looked at.
    pub fn of_sample<K: PartialOrd>(queries: &[K]) -> Self {
        const SAMPLE: usize = 64;
        let step = queries.len() / SAMPLE;
        let is_sorted = step >= SAMPLE && queries.iter().step_by(step).is_sorted();
        if is_sorted { Self::Sorted } else { Self::Random }
    }
}

#[cfg(test)]
mod tests {
    use super::BatchOrder;

    #[test]
    fn a_sample_tells_a_sorted_batch_from_others() {
        for len in [1 << 12, (1 << 12) + 1, 100_000] {
            let sorted: Vec<u64> = (0..len).map(|i| i / 3).collect();
            assert_eq!(BatchOrder::of_sample(&sorted), BatchOrder::Sorted, "{len}");
            let mixed: Vec<u64> = sorted.iter().map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
            assert_eq!(BatchOrder::of_sample(&mixed), BatchOrder::Random, "{len}");
        }
        assert_eq!(BatchOrder::of_sample(&[1, 2, 3]), BatchOrder::Random);
        assert_eq!(BatchOrder::of_sample::<u32>(&[]), BatchOrder::Random);
    }
}
