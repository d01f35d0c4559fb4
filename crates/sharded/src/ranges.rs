//! Ranges in host form, over several shards.

use crate::parts::Parts;
use crate::range_router::Bounds;
use crate::route::{Route, shard_of};
use bytemuck::Pod;
use core::ops::Range;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::OrderedIndex;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{check_free, collected, push, zeroed};
use lanetree_frame::{AnyKey, Buffer, KeyRange, Ranges, Result, Value};

/// A range that continues in shards past its first one.
#[derive(Clone, Copy, Debug)]
struct Beyond<K> {
    /// Its number in the batch.
    range: usize,
    start: K,
    end: K,
    /// The most pairs still wanted.
    limit: u64,
    /// The shards in which it continues, from the first to the last.
    next: usize,
    last: usize,
}

impl<K: AnyKey> Beyond<K> {
    fn rest(&self) -> KeyRange<K> {
        KeyRange::new(self.start..=self.end).limit(self.limit)
    }
}

/// The batch, partitioned by the shards in which its ranges begin; and the ranges that continue in others, in the batch's order.
struct Plan<K> {
    route: Route,
    beyond: Vec<Beyond<K>>,
}

/// # Errors
/// [`Error::ReversedRange`](lanetree_frame::Error::ReversedRange); [`Error::Runtime`](lanetree_frame::Error::Runtime) if main
/// memory has no room.
fn plan<K: AnyKey>(splitters: &[K], ranges: &[KeyRange<K>]) -> Result<Plan<K>> {
    let begin = |(range, own): (usize, &KeyRange<K>)| own.resolve(range);
    let bounds: Vec<(K, K, u64)> = ranges.par_iter().enumerate().try_map_collect(begin)?;
    let route = Route::new(splitters, ranges.len(), |range| bounds[range].0)?;
    let continues = |(range, &(start, end, limit)): (usize, &(K, K, u64))| {
        let (next, last) = (shard_of(splitters, &start) + 1, shard_of(splitters, &end));
        // An empty range starts past its end.
        (start <= end && next <= last && limit > 0).then_some(Beyond { range, start, end, limit, next, last })
    };
    Ok(Plan { beyond: bounds.par_iter().enumerate().filter_map_collect(continues)?, route })
}

/// Ranges in buffers of the host. A range whose end is below its start is empty.
///
/// # Errors
/// [`Error::Runtime`](lanetree_frame::Error::Runtime) if main memory has no room.
pub(crate) fn on_host<K: AnyKey>(bounds: &Bounds<'_, K>) -> Result<Vec<KeyRange<K>>> {
    let (starts, ends) = (first(bounds.starts, bounds.count), bounds.ends.and_then(Buffer::as_slice));
    let limits = bounds.limits.and_then(Buffer::as_slice);
    let range = |(at, &start): (usize, &K)| {
        let end = ends.map_or(K::MAX, |ends| ends[at]);
        let limit = limits.map_or(u64::MAX, |limits| limits[at]).min(bounds.limit);
        inclusive(start, end, limit)
    };
    starts.par_iter().enumerate().map(range).try_collect()
}

/// The first elements of a buffer of the host.
pub(crate) fn first<T: Pod>(buffer: &Buffer<T>, count: usize) -> &[T] {
    buffer.as_slice().map_or(&[], |elements| &elements[..count])
}

/// A range whose bounds are inclusive; empty if its end is below its start.
pub(crate) fn inclusive<K: AnyKey>(start: K, end: K, limit: u64) -> KeyRange<K> {
    if start <= end { KeyRange::new(start..=end).limit(limit) } else { KeyRange::new(start..=start).limit(0) }
}

/// The number of pairs of each range.
///
/// # Errors
/// As [`OrderedIndex::count_range_many`].
pub(crate) fn count_range_many<K: AnyKey, I: Send + Sync>(
    Parts { group, splitters, .. }: &Parts<K, I>,
    ranges: &[KeyRange<K>],
    count: impl Fn(&I, &[KeyRange<K>]) -> Result<Vec<u64>> + Sync,
) -> Result<Vec<u64>> {
    group.get()?;
    let Plan { route, beyond } = plan(splitters, ranges)?;
    let parts = route.split(ranges)?;
    let counts = group.ask(|shard, index| {
        let of = |ranges: &[KeyRange<K>]| if ranges.is_empty() { Ok(Vec::new()) } else { count(index, ranges) };
        let later = collected(beyond.iter().filter(|beyond| (beyond.next..=beyond.last).contains(&shard)))?;
        let rest = of(&collected(later.iter().map(|beyond| beyond.rest()))?)?;
        Ok((of(&parts[shard])?, collected(later.into_iter().zip(rest))?))
    })?;
    let (first, later): (Vec<_>, Vec<_>) = counts.into_iter().unzip();
    let mut counts = route.merge(first)?;
    for (beyond, more) in later.into_iter().flatten() {
        let count = &mut counts[beyond.range];
        *count = (*count + more).min(beyond.limit);
    }
    Ok(counts)
}

/// Pairs of a range in a shard past its first one.
#[derive(Clone, Copy, Debug)]
struct Later {
    range: usize,
    shard: usize,
    /// The element of [`Answers::rest`] that has them, and the row in it.
    answer: usize,
    row: usize,
}

/// The pairs of each range.
///
/// # Errors
/// As [`OrderedIndex::range_many`].
pub(crate) fn range_many<K: AnyKey, V: Value, I: Send + Sync>(
    Parts { group, splitters, .. }: &Parts<K, I>,
    ranges: &[KeyRange<K>],
    range: impl Fn(&I, &[KeyRange<K>]) -> Result<Ranges<K, V>> + Sync,
) -> Result<Ranges<K, V>> {
    group.get()?;
    // Shards without ranges are not called.
    let range_of = |index: &I, ranges: &[KeyRange<K>]| {
        if ranges.is_empty() { Ok(Ranges::default()) } else { range(index, ranges) }
    };
    let Plan { route, beyond } = plan(splitters, ranges)?;
    let parts = route.split(ranges)?;
    // All shards of a range without limit are asked at once.
    let has_limit = |beyond: &&Beyond<K>| beyond.limit != u64::MAX;
    let all = collected(beyond.iter().filter(|beyond| !has_limit(beyond)))?;
    let mut limited = collected(beyond.iter().filter(has_limit).copied())?;
    let answers = group.ask(|shard, index| {
        let own = range_of(index, &parts[shard])?;
        let rest = collected(all.iter().filter(|beyond| (beyond.next..=beyond.last).contains(&shard)))?;
        let rows = range_of(index, &collected(rest.iter().map(|beyond| beyond.rest()))?)?;
        Ok((own, collected(rest.iter().map(|beyond| beyond.range))?, rows))
    })?;
    let mut answers = Answers::new(&route, answers)?;
    // A range with a limit continues in the next shard only if it needs more pairs: few do, and mostly one shard further.
    limited.iter_mut().for_each(|beyond| beyond.limit -= answers.lens[beyond.range]);
    for shard in 1..=splitters.len() {
        let wants = |beyond: &&mut Beyond<K>| beyond.limit > 0 && (beyond.next..=beyond.last).contains(&shard);
        let now = collected(limited.iter_mut().filter(wants))?;
        let rows = range_of(&group.get()?[shard], &collected(now.iter().map(|beyond| beyond.rest()))?)?;
        let found = now.into_iter().zip(rows.iter()).map(|(beyond, (keys, _))| {
            beyond.limit -= keys.len() as u64;
            beyond.range
        });
        let found = collected(found)?;
        answers.add(shard, &found, rows)?;
    }
    answers.rows()
}

/// Each shard's rows of its part of a batch, in the batch's order.
#[cfg(feature = "multimap")]
pub(crate) fn merge<K: Pod + Default + Send + Sync, V: Value>(
    route: &Route,
    rows: Vec<Ranges<K, V>>,
) -> Result<Ranges<K, V>> {
    Answers::new(route, rows.into_iter().map(|rows| (rows, Vec::new(), Ranges::default())).collect())?.rows()
}

/// The rows of each shard.
struct Answers<'r, K, V> {
    route: &'r Route,
    /// Rows from the shards in which ranges begin.
    first: Vec<Ranges<K, V>>,
    /// Rows from other shards.
    rest: Vec<Ranges<K, V>>,
    later: Vec<Later>,
    /// The number of pairs of each range so far.
    lens: Vec<u64>,
}

/// A shard's rows of the ranges that begin in it; those that it continues, and their rows.
type Answer<K, V> = (Ranges<K, V>, Vec<usize>, Ranges<K, V>);

impl<'r, K: Pod + Send + Sync, V: Value> Answers<'r, K, V> {
    /// From each shard's rows of the ranges that begin in it, and of those that it continues.
    fn new(route: &'r Route, answers: Vec<Answer<K, V>>) -> Result<Self> {
        let len = |offsets: &[u64]| offsets[1] - offsets[0];
        let lens = |rows: &Ranges<K, V>| rows.offsets.par_windows(2).map(len).try_collect();
        let lens = answers.iter().map(|answer| lens(&answer.0)).collect::<Result<Vec<_>>>()?;
        let lens = route.merge(lens)?;
        let mut all = Self { route, first: Vec::new(), rest: Vec::new(), later: Vec::new(), lens };
        for (shard, (own, ranges, rows)) in answers.into_iter().enumerate() {
            all.first.push(own);
            all.add(shard, &ranges, rows)?;
        }
        Ok(all)
    }

    /// Adds rows of ranges that began in other shards.
    fn add(&mut self, shard: usize, ranges: &[usize], rows: Ranges<K, V>) -> Result<()> {
        for (row, &range) in ranges.iter().enumerate() {
            self.lens[range] += rows.get(row).0.len() as u64;
            push(&mut self.later, Later { range, shard, answer: self.rest.len(), row })?;
        }
        self.rest.push(rows);
        Ok(())
    }

    /// The rows in the batch's order.
    fn rows(mut self) -> Result<Ranges<K, V>> {
        let mut offsets = zeroed(self.lens.len() + 1)?;
        for (range, len) in self.lens.iter().enumerate() {
            offsets[range + 1] = offsets[range] + len;
        }
        let pairs = offsets[self.lens.len()];
        check_free(u128::from(pairs) * (size_of::<K>() + size_of::<V>()) as u128)?;
        let (mut keys, mut values) = (zeroed::<K>(pairs as usize)?, zeroed::<V>(pairs as usize)?);
        self.later.sort_unstable_by_key(|later| (later.range, later.shard));
        let (mut keys_left, mut values_left) = (&mut keys[..], &mut values[..]);
        let task = |block: Range<usize>| {
            let pairs = (offsets[block.end] - offsets[block.start]) as usize;
            let (own_keys, own_values);
            (own_keys, keys_left) = core::mem::take(&mut keys_left).split_at_mut(pairs);
            (own_values, values_left) = core::mem::take(&mut values_left).split_at_mut(pairs);
            (block, own_keys, own_values)
        };
        let tasks: Vec<_> = self.route.blocks().map(task).collect();
        tasks.into_par_iter().for_each(|(block, keys, values)| {
            let mut later = &self.later[self.later.partition_point(|later| later.range < block.start)..];
            let mut to = 0;
            let mut copy = |(from_keys, from_values): (&[K], &[V])| {
                let end = to + from_keys.len();
                keys[to..end].copy_from_slice(from_keys);
                values[to..end].copy_from_slice(from_values);
                to = end;
            };
            self.route.each(block, |range, shard, row| {
                copy(self.first[shard].get(row));
                while let [next, rest @ ..] = later
                    && next.range == range
                {
                    copy(self.rest[next.answer].get(next.row));
                    later = rest;
                }
            });
        });
        Ok(Ranges { offsets, keys, values })
    }
}
