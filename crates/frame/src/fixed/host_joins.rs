//! Joins in host form by equal keys and as of a time: a probe has one row at most, or two where as-of look-ups take both of a tie.

use super::asof::Searches;
use super::{AsOf, BitsOf, FixedIndex, HostForm, Query, Ties, View};
use lanetree_base::parallel::*;
use lanetree_base::room::with_room;
use lanetree_base::staging::{Addresses, Results};
use lanetree_base::uninit::{Written, append_both, made};
use lanetree_base::{Found, Join, JoinRows, Matches, Result, no_row};
use lanetree_layout::{AnyKey, KeyWord, Value};
use lanetree_simt::{GetBatch, Near, NeighborBatch, RankBatch};

/// Probes of a task of the CPU's: enough to outweigh its dispatch.
const TASK: usize = 1 << 15;

/// [`HostForm::asof_join_many`].
pub(super) fn asof_join<I: FixedIndex>(
    index: &I,
    probes: &[I::Key],
    how: &AsOf,
    join: &Join<'_>,
) -> Result<JoinRows<I::Value>> {
    if let Some(validity) = join.validity() {
        validity.check(probes.len())?;
    }
    if !how.takes_both() {
        return JoinRows::of_found(find_neighbors(index, probes, &how.searches::<I::Key>()?)?, join);
    }
    let firsts = index.asof_many(probes, &how.ties(Ties::Backward))?;
    let seconds = index.asof_many(probes, &how.ties(Ties::Forward))?;
    let rows = |i: usize| {
        let second = seconds[i].filter(|second| firsts[i].is_some_and(|first| first.0 != second.0));
        [firsts[i], second].map(|pair| pair.map(|(_, value)| value))
    };
    rows_of(probes.len(), rows)?.of_kind(join)
}

/// The value of the neighbour of each of `keys` that searches find, if there is one.
fn find_neighbors<I: FixedIndex>(
    index: &I,
    keys: &[I::Key],
    searches: &Searches<BitsOf<I>>,
) -> Result<Found<I::Value>> {
    let count = keys.len();
    if let Some(tree) = index.native() {
        return Found::in_tasks(count, Vec::new(), |task, found| {
            searches.on_host(tree, &keys[task], |i, pair| pair.into_iter().for_each(|(_, value)| found(i, value)));
        });
    }
    // Nobody wants their keys, which stay on the device.
    let scratch = <I::Key as AnyKey>::Bits::BYTES;
    let results = Results { scratch, ..Results::new([size_of::<I::Value>(), 0], 1) };
    let ask = |queries, count, out: Addresses| {
        let (keys, values, hits) = (out.scratch.cast(), out.arrays[0].cast(), out.hits);
        let (predecessor, miss, near) = (0, no_row(), Near::ANY);
        searches.queries(NeighborBatch { queries, count, keys, values, hits, predecessor, miss, near }, false)
    };
    Found::new(count, Vec::new(), |out, hits| {
        index.stage(keys, out, results, ask, |piece, out| {
            hits.put(piece.first, out.len(), piece.bits(0));
            out.copy(piece.array(0))
        })
    })
}

/// A join of any kind, in the memory of old matches.
pub(super) fn join<I: FixedIndex>(index: &I, probes: &[I::Key], join: &Join<'_>, mut old: Matches) -> Result<Matches> {
    join.validity().map_or(Ok(()), |validity| validity.check(probes.len()))?;
    let rows = core::mem::take(&mut old.rows);
    let found = if join.kind().has_rows() { find_rows(index, probes, rows) } else { find_hits(index, probes) };
    Matches::of_found(found?, join, old)
}

/// The number of the pair of each key that is present, in old memory.
fn find_rows<I: FixedIndex>(index: &I, keys: &[I::Key], old: Vec<u64>) -> Result<Found<u64>> {
    let count = keys.len();
    if let Some(tree) = index.native() {
        return Found::in_tasks(count, old, |task, found| {
            let mut is_present = vec![false; task.len()];
            tree.get(&keys[task.clone()], |i, value| is_present[i] = value.is_some());
            tree.rank(&keys[task], false, |i, rank| {
                if is_present[i] {
                    found(i, rank);
                }
            });
        });
    }
    let results = Results::new([size_of::<u64>(), 0], 1);
    let ask = |queries, count, out: Addresses| {
        // Ranks are at least as wide as values, which are not wanted: ranks take their place.
        let (ranks, hits, miss) = (out.arrays[0].cast(), out.hits, I::Value::default());
        let get = Query::Get(GetBatch { queries, count, values: ranks.cast(), hits, miss });
        [get, Query::Rank(RankBatch { queries, count, ranks, upper: 0 })]
    };
    Found::new(count, old, |out, hits| {
        index.stage(keys, out, results, ask, |piece, out| {
            hits.put(piece.first, out.len(), piece.bits(0));
            let none = vec![(); out.len()];
            let row = |hit, rank, ()| if hit { rank } else { Matches::NO_ROW };
            out.fill_masked(piece.bits(0), (piece.array::<u64>(0), &none), row)
        })
    })
}

/// Which keys are present.
fn find_hits<I: FixedIndex>(index: &I, keys: &[I::Key]) -> Result<Found<u64>> {
    let count = keys.len();
    Found::without_rows(count, |hits| {
        if let Some(tree) = index.native() {
            keys.par_chunks(super::TASK).enumerate().for_each(|(task, keys)| {
                let mut mask = vec![0_u32; keys.len().div_ceil(32)];
                tree.get(keys, |i, value| mask[i / 32] |= u32::from(value.is_some()) << (i % 32));
                hits.put(task * super::TASK, keys.len(), &mask);
            });
            return Ok(());
        }
        made(count, |out| {
            index.stage_hits(keys, out, |piece, out| {
                hits.put(piece.first, out.len(), piece.bits(0));
                out.fill(|_| ())
            })
        })
        .map(drop)
    })
}

/// The rows of each probe, of which there are two at most.
fn rows_of<V: Value>(probes: usize, rows: impl Fn(usize) -> [Option<V>; 2] + Sync) -> Result<JoinRows<V>> {
    let of_task = |task: usize| task * TASK..probes.min((task + 1) * TASK);
    let counts = (0..probes.div_ceil(TASK)).into_par_iter().map(|task| of_task(task).flat_map(&rows).flatten().count());
    let counts = counts.try_collect()?;
    let mut out = JoinRows { offsets: with_room(probes + 1)?, rows: with_room(counts.iter().sum())? };
    out.offsets.push(0);
    append_both((&mut out.offsets, probes), (&mut out.rows, counts.iter().sum()), |mut offsets, mut all| {
        let mut before = 0;
        let tasks = counts.iter().enumerate().map(|(task, &count)| {
            let own = (of_task(task), before, offsets.take_first(of_task(task).len()), all.take_first(count));
            before += count as u64;
            own
        });
        let tasks: Vec<_> = tasks.collect();
        let written = tasks.into_par_iter().map(|(probes, before, offsets, all)| {
            let mut end = before;
            let offsets = offsets.fill(|i| {
                end += rows(probes.start + i).iter().flatten().count() as u64;
                end
            });
            let mut values = probes.flat_map(&rows).flatten();
            offsets.and(all.fill(|_| values.next().expect("as many as were counted")))
        });
        Ok(written.reduce(Written::default, Written::and))
    })?;
    Ok(out)
}
