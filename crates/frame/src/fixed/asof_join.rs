//! As-of joins: the rows of as-of look-ups, of which a probe may have two.

use super::{AsOf, FixedIndex, HostForm, Ties};
use lanetree_base::parallel::*;
use lanetree_base::room::with_room;
use lanetree_base::uninit::{Written, append_both};
use lanetree_base::{Join, JoinRows, Result};
use lanetree_layout::Value;

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
        return JoinRows::of_found(index.find_neighbors(probes, &how.searches::<I::Key>()?)?, join);
    }
    let firsts = index.asof_many(probes, &how.ties(Ties::Backward))?;
    let seconds = index.asof_many(probes, &how.ties(Ties::Forward))?;
    let rows = |i: usize| {
        let second = seconds[i].filter(|second| firsts[i].is_some_and(|first| first.0 != second.0));
        [firsts[i], second].map(|pair| pair.map(|(_, value)| value))
    };
    rows_of(probes.len(), rows)?.of_kind(join)
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
