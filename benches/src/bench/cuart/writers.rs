//! What batches of updates write, so that the last operation of each key can be told from all others.

use crate::bench::cuart::data::Data;
use lanetree::Word;

/// What a run, from 1 on, writes for an operation of its batch: in both halves of a wide value.
pub(crate) fn written<V: Word>(run: u64, query: u64) -> V {
    V::truncate((run << 24 | query).wrapping_mul(1 << 32 | 1))
}

/// For each key of a tree, the last query of a batch that is of it.
pub(crate) struct LastWriters(Vec<u32>);

impl LastWriters {
    /// Of fewer than 2^32 queries.
    pub(crate) fn new(data: &Data, batch: u64, count: usize) -> Self {
        let mut last = vec![u32::MAX; data.len];
        for query in 0..count {
            last[data.query(batch, query) as usize] = query as u32;
        }
        Self(last)
    }

    /// The number of the query, if there is one.
    pub(crate) fn of(&self, key: u64) -> Option<u64> {
        let query = self.0[key as usize];
        (query != u32::MAX).then_some(u64::from(query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_write_the_same() {
        let both = |run, query| (written::<u32>(run, query), written::<u64>(run, query));
        for (run, query) in [(1, 0), (1, 1), (2, 0), (30, (1 << 24) - 1)] {
            let (narrow, wide) = both(run, query);
            assert_eq!((wide as u32, (wide >> 32) as u32), (narrow, narrow));
            assert!(narrow != 0 && narrow != u32::MAX);
        }
        assert_ne!(both(1, 5).0, both(2, 5).0);
    }
}
