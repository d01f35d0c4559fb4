//! Ranks, ranges and prefixes of a tree on a device.

use super::subject::Subject;
use crate::compare::{Difference, Output, items_differ};
use core::ops::Bound;
use lanetree::{ByteKeysBuf, ByteRange, DeviceKind, Result, Word};
use std::time::Instant;

/// Most pairs of a range, so that batches of ranges over everything end.
pub(crate) const LIMIT: u64 = 40;

impl<V: Word> Subject<V> {
    /// Ranks queries, and finds the ranges between each two of them and what begins with each.
    pub(crate) fn ranges(&mut self, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        let below = |query: &Vec<u8>| keys.partition_point(|key| key < query) as u64;
        let batch = self.keys(queries)?;
        let start = Instant::now();
        let mut ranks = Output::<u64>::new(&self.device, "ranks", queries.len())?;
        if self.device.kind() != DeviceKind::Host {
            self.tree.on(&self.stream).lower_bound(&batch, &mut ranks.buffer)?;
            self.stream.synchronize()?;
        }
        let packed: ByteKeysBuf = queries.iter().collect();
        let upper = self.tree.upper_bound_many(&packed)?;
        let between = |i: usize| {
            let (a, b) = (&queries[i], &queries[queries.len() - 1 - i]);
            if a <= b { (a, b) } else { (b, a) }
        };
        let range = |i: usize| ByteRange::from(&between(i).0[..]..&between(i).1[..]).limit(LIMIT);
        let found = self.tree.range_many((0..queries.len()).map(range))?;
        let prefixes = self.tree.prefix_many(&packed)?;
        let time = start.elapsed();

        let shown = |i: usize| format!("{:02x?}", queries[i]);
        let mut difference = None;
        if self.device.kind() != DeviceKind::Host {
            let ranks = ranks.read(self.sabotage)?;
            difference = ranks.differs(&|i| Some(below(&queries[i])), &shown);
        }
        let not_above = |i: usize| keys.partition_point(|key| key <= &queries[i]) as u64;
        difference = difference.or(items_differ("upper bounds", &upper, queries.len(), &not_above, &shown));
        type Pairs<V> = Vec<(Vec<u8>, V)>;
        let pairs = |ranges: &lanetree::ByteRanges<V>| -> Vec<Pairs<V>> {
            let pairs = |(keys, values): (lanetree::ByteKeys<'_>, &[V])| {
                keys.iter().map(<[u8]>::to_vec).zip(values.iter().copied()).collect()
            };
            ranges.iter().map(pairs).collect()
        };
        let expected = |i: usize| -> Pairs<V> {
            let (a, b) = between(i);
            if a == b {
                return Vec::new();
            }
            let range = self.model.range::<Vec<u8>, _>((Bound::Included(a), Bound::Excluded(b)));
            range.take(LIMIT as usize).map(|(key, value)| (key.clone(), *value)).collect()
        };
        difference = difference.or(items_differ("ranges", &pairs(&found), queries.len(), &expected, &shown));
        let expected = |i: usize| -> Pairs<V> {
            let from = self.model.range::<Vec<u8>, _>((Bound::Included(&queries[i]), Bound::Unbounded));
            let with = from.take_while(|(key, _)| key.starts_with(&queries[i]));
            with.map(|(key, value)| (key.clone(), *value)).collect()
        };
        difference = difference.or(items_differ("prefixes", &pairs(&prefixes), queries.len(), &expected, &shown));
        self.took_time(time, 4 * queries.len());
        Ok(difference)
    }
}
