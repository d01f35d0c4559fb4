//! Ranges and counts in device form.

use super::answer::Answer;
use super::bounds::Bounds;
use super::cases::{Limit, Room};
use super::compare::{Difference, Output};
use super::data::RangeBatch;
use super::harmonia::Subject;
use lanetree::{DeviceRanges, Key, Result, Word};
use lanetree_baselines::oracle::Oracle;
use std::time::Instant;

impl<K: Key, V: Word> Subject<K, V> {
    pub(crate) fn count(&mut self, batch: RangeBatch, limit: Limit) -> Result<Answer> {
        let bounds = self.load_bounds(batch)?;
        let ranges = bounds.starts.len();
        let mut counts = Output::<u64>::new(&self.device, "counts", ranges)?;
        let (limits, of_all) = bounds.limits(limit);
        let on = self.tree.on(&self.stream);
        let start = Instant::now();
        on.limits(limits).limit(of_all).count_range(&bounds.start_buffer, &bounds.end_buffer, &mut counts.buffer)?;
        self.stream.synchronize()?;
        let time = start.elapsed();
        let expected = |i: usize| Some(expected(&self.oracle, &bounds, limit, i).len() as u64);
        let difference = counts.read(self.sabotage())?.differs(&expected, &|i| range_name(&bounds, i));
        Ok(Answer { queries: ranges, time, difference })
    }

    pub(crate) fn range(&mut self, batch: RangeBatch, limit: Limit, room: Room) -> Result<Answer> {
        let bounds = self.load_bounds(batch)?;
        let ranges = bounds.starts.len();
        let rows: Vec<&[(K, V)]> = (0..ranges).map(|i| expected(&self.oracle, &bounds, limit, i)).collect();
        let mut expected_offsets = vec![0_u64];
        for row in &rows {
            expected_offsets.push(expected_offsets[expected_offsets.len() - 1] + row.len() as u64);
        }
        let total = expected_offsets[ranges] as usize;
        let capacity = match room {
            Room::Exact => total,
            Room::Ample => total.max(17 * ranges) + 3,
            Room::Narrow => total.min(16 * ranges),
            Room::Half => total / 2,
            Room::Nothing => 0,
        };
        let offsets = Output::<u64>::new(&self.device, "offsets", ranges + 1)?;
        let keys = Output::<K>::with_guard(&self.device, "keys", capacity, 0)?;
        // The keys' length is the capacity: values beyond it are not to be touched.
        let values = Output::<V>::new(&self.device, "values", capacity)?;
        let mut out = DeviceRanges { offsets: offsets.buffer, keys: keys.buffer, values: values.buffer };
        let (limits, of_all) = bounds.limits(limit);
        let on = self.tree.on(&self.stream);
        let start = Instant::now();
        on.limits(limits).limit(of_all).range(&bounds.start_buffer, &bounds.end_buffer, &mut self.scratch, &mut out)?;
        self.stream.synchronize()?;
        let time = start.elapsed();
        let pairs: Vec<(K, V)> = rows.iter().flat_map(|row| row.iter().copied()).collect();
        let offsets = self.written(&out.offsets, "offsets", ranges + 1)?;
        let query = |i: usize| if i == ranges { "the total".into() } else { range_name(&bounds, i) };
        let owner =
            |at: usize| range_name(&bounds, expected_offsets.partition_point(|&offset| offset <= at as u64) - 1);
        let difference = || -> Result<Option<Difference>> {
            if let Some(difference) = offsets.differs(&|i| Some(expected_offsets[i]), &query) {
                return Ok(Some(difference));
            }
            let filled = total.min(capacity);
            let keys = self.written(&out.keys, "keys", filled)?;
            if let Some(difference) = keys.differs(&|i| Some(pairs[i].0), &owner) {
                return Ok(Some(difference));
            }
            Ok(self.written(&out.values, "values", filled)?.differs(&|i| Some(pairs[i].1), &owner))
        };
        let difference = difference()?;
        Ok(Answer { queries: ranges, time, difference })
    }
}

/// The pairs of one range.
fn expected<'a, K: Key, V: Word>(
    oracle: &'a Oracle<K, V>,
    bounds: &Bounds<K>,
    limit: Limit,
    range: usize,
) -> &'a [(K, V)] {
    oracle.range(bounds.starts[range]..=bounds.ends[range], bounds.limit(limit, range))
}

fn range_name<K: Key>(bounds: &Bounds<K>, range: usize) -> String {
    format!(
        "range {range}, {}..={}, limits[{range}] = {}",
        bounds.starts[range], bounds.ends[range], bounds.limits[range]
    )
}
