//! As-of joins: the rows of as-of look-ups, of which a probe may have two.

use super::{AsOf, FixedIndex, HostForm, Ties};
use lanetree_base::parallel::*;
use lanetree_base::room::with_room;
use lanetree_base::uninit::{Written, append_both};
use lanetree_base::{Join, JoinRows, Result};

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
    let takes_both = how.takes_both();
    let firsts = index.asof_many(probes, &if takes_both { how.ties(Ties::Backward) } else { *how })?;
    let seconds = if takes_both { Some(index.asof_many(probes, &how.ties(Ties::Forward))?) } else { None };
    let second = |i: usize, first: Option<(I::Key, I::Value)>| {
        let second = seconds.as_ref().and_then(|seconds| seconds[i]);
        second.filter(|second| first.is_some_and(|first| second.0 != first.0))
    };
    let rows = |i: usize| usize::from(firsts[i].is_some()) + usize::from(second(i, firsts[i]).is_some());
    let counts = (0..probes.len().div_ceil(TASK))
        .into_par_iter()
        .map(|task| (task * TASK..probes.len().min((task + 1) * TASK)).map(rows).sum::<usize>());
    let counts = counts.try_collect()?;
    let mut out = JoinRows { offsets: with_room(probes.len() + 1)?, rows: with_room(counts.iter().sum())? };
    out.offsets.push(0);
    append_both((&mut out.offsets, probes.len()), (&mut out.rows, counts.iter().sum()), |mut offsets, mut all| {
        let mut before = 0;
        let tasks = counts.iter().zip((0..).step_by(TASK)).map(|(&count, first)| {
            let offsets = offsets.take_first(TASK.min(probes.len() - first));
            let task = (first, before, offsets, all.take_first(count));
            before += count as u64;
            task
        });
        let tasks: Vec<_> = tasks.collect();
        let written = tasks.into_par_iter().map(|(first, before, offsets, all)| {
            let mut end = before;
            let of_task = first..first + offsets.len();
            let offsets = offsets.fill(|i| {
                end += rows(first + i) as u64;
                end
            });
            let mut values = of_task.flat_map(|i| [firsts[i], second(i, firsts[i])]).flatten();
            offsets.and(all.fill(|_| values.next().expect("as many as were counted").1))
        });
        Ok(written.reduce(Written::default, Written::and))
    })?;
    out.of_kind(join)
}
