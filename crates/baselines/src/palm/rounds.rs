//! The two ways of a batch through the tree: [`palm`], and [`pbi`] node by node.

use crate::palm::batch::Entry;
use crate::palm::nodes::Nodes;
use crate::palm::path::{Group, Path};
use crate::palm::worker::{Change, Counts, Found, Worker};
use core::ops::Range;
use core::time::Duration;
use lanetree_base::parallel::*;
use lanetree_layout::Word;
use rayon::ThreadPool;
use std::sync::OnceLock;
use std::time::Instant;

/// Nodes of one task of PBI: enough to hide what a task costs.
const TASK: usize = 64;

/// How long the stages took: of all threads, the one that took longest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) search: Duration,
    pub(super) leaves: Duration,
    pub(super) inner: Duration,
}

/// What a batch left to do above the root, and what it did.
pub(super) struct Outcome<W> {
    /// The root's changes.
    pub(super) top: Vec<Change<W>>,
    pub(super) counts: Counts,
    pub(super) times: Times,
}

/// The time since `start`, which becomes now.
fn lap(start: &mut Instant) -> Duration {
    let now = Instant::now();
    now - core::mem::replace(start, now)
}

/// The entries of a thread.
fn part(len: usize, thread: usize, threads: usize) -> Range<usize> {
    len * thread / threads..len * (thread + 1) / threads
}

/// What a thread shows the others: each cell is set once, when a stage is done. To wait for a cell is all the
/// synchronisation that there is.
struct Shown<W> {
    path: OnceLock<Path>,
    /// Of each level, from the leaves up, what the parents are to be told.
    changes: Vec<OnceLock<Vec<Change<W>>>>,
}

/// Ends the process when a thread panics, since the others would wait for it for ever.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// PALM: each thread of the pool has one part of the batch, and waits only for the threads of the next and previous
/// parts.
///
/// A node belongs to the thread that has its first item: the first group of a leaf, or the first change of an inner node's
/// children. The thread skips leading items whose node belongs to an earlier thread, and takes over what later threads
/// have of its last node. To know the former it looks at the last item of the nearest earlier thread that has any; for the
/// latter, at the items of later threads, up to one of another node.
///
/// Why no thread changes an inner node that another one still searches: say that thread `t` owns node `n`. The thread
/// looked at items until it found one of a node before `n` and one of a node past `n`, its own or another thread's, and it
/// waited for all threads between. Parts are in the order of the keys, so the threads beyond have no key of `n`. A thread
/// shows its path, and later its changes, after it has searched.
pub(super) fn palm<W: Word, V: Word>(
    nodes: &Nodes<W, V>,
    batch: &[Entry<W, V>],
    found: Found<'_, V>,
    pool: &ThreadPool,
) -> Outcome<W> {
    let threads = pool.current_num_threads();
    let cells = || (0..=nodes.depth).map(|_| OnceLock::new()).collect();
    let shown: Vec<Shown<W>> = (0..threads).map(|_| Shown { path: OnceLock::new(), changes: cells() }).collect();
    // Every thread of the pool runs this once, at the same time as the others, so waiting for each other is no deadlock.
    let done = pool.broadcast(|context| {
        let _abort = Abort;
        let me = context.index();
        let mut times = Times::default();
        let mut clock = Instant::now();
        let mut worker = Worker::new(nodes, batch, found);
        let path = Path::find(nodes, batch, part(batch.len(), me, threads), me as u16);
        let path = shown[me].path.get_or_init(|| path);
        times.search = lap(&mut clock);

        let groups = |thread: usize| shown[thread].path.wait().leaves();
        let own = owned(me, path.leaves(), groups, |group| group.node);
        if let Some(last) = own.last() {
            let mut later = (me + 1..threads).flat_map(groups);
            let end = later.find(|group| group.node != last.node).map_or(batch.len() as u32, |group| group.start);
            // SAFETY: leaves that belong to this thread, with all of their entries; see above. Searches read no leaves.
            unsafe { worker.modify_leaves(own, end) };
        }
        let mut below = shown[me].changes[0].get_or_init(|| worker.take_changes());
        times.leaves = lap(&mut clock);

        for level in (0..nodes.depth).rev() {
            let stage = nodes.depth - level;
            let changes = |thread: usize| shown[thread].changes[stage - 1].wait().as_slice();
            let own = owned(me, below, changes, |change| change.place.parent);
            if let Some(last) = own.last().map(|change| change.place.parent) {
                let later = (me + 1..threads).flat_map(changes).take_while(|change| change.place.parent == last);
                let start_of_last = own.iter().rposition(|change| change.place.parent != last).map_or(0, |at| at + 1);
                let (own, of_last) = own.split_at(start_of_last);
                let of_last: Vec<_> = of_last.iter().chain(later).copied().collect();
                // SAFETY: nodes that belong to this thread, with all of their changes; no thread searches them any more.
                unsafe {
                    worker.modify_parents(level, own, |_| path);
                    worker.modify_parents(level, &of_last, |_| path);
                }
            }
            below = shown[me].changes[stage].get_or_init(|| worker.take_changes());
        }
        times.inner = lap(&mut clock);
        (worker.take_counts(), times)
    });
    let mut outcome = Outcome { top: Vec::new(), counts: Counts::default(), times: Times::default() };
    for (counts, times) in done {
        outcome.counts += counts;
        let longest = &mut outcome.times;
        longest.search = longest.search.max(times.search);
        longest.leaves = longest.leaves.max(times.leaves);
        longest.inner = longest.inner.max(times.inner);
    }
    // One thread has the root, so one list at most has anything.
    outcome.top = shown.into_iter().flat_map(|mut shown| shown.changes.pop()?.into_inner()).flatten().collect();
    outcome
}

/// The items of a thread without the leading ones whose node an earlier thread owns. Waits for earlier threads, but not if
/// there are no items.
fn owned<'a, T>(me: usize, own: &'a [T], of: impl Fn(usize) -> &'a [T], node: impl Fn(&T) -> u32) -> &'a [T] {
    if own.is_empty() {
        return own;
    }
    match (0..me).rev().find_map(|thread| of(thread).last()) {
        Some(last) => &own[own.iter().take_while(|item| node(item) == node(last)).count()..],
        None => own,
    }
}

/// PBI: tasks of whole nodes, a thread for each node, and a barrier after each level.
pub(super) fn pbi<W: Word, V: Word>(
    nodes: &Nodes<W, V>,
    batch: &[Entry<W, V>],
    found: Found<'_, V>,
    pool: &ThreadPool,
) -> Outcome<W> {
    pool.install(|| {
        let mut times = Times::default();
        let mut clock = Instant::now();
        let threads = pool.current_num_threads();
        let find = |thread: usize| Path::find(nodes, batch, part(batch.len(), thread, threads), thread as u16);
        let paths: Vec<Path> = (0..threads).into_par_iter().map(find).collect();
        let mut groups: Vec<Group> = Vec::new();
        for path in &paths {
            let leaves = path.leaves();
            let continued = groups.last().zip(leaves.first()).is_some_and(|(last, first)| last.node == first.node);
            groups.extend_from_slice(&leaves[usize::from(continued)..]);
        }
        times.search = lap(&mut clock);

        let new_worker = || Worker::new(nodes, batch, found);
        let parts = groups.par_chunks(TASK).enumerate().parts(|tasks| {
            let mut worker = new_worker();
            for (task, own) in tasks {
                let end = groups.get((task + 1) * TASK).map_or(batch.len() as u32, |next| next.start);
                // SAFETY: each leaf has one group, which has all of its entries, and each group is in one task.
                unsafe { worker.modify_leaves(own, end) };
            }
            (worker.take_changes(), worker.take_counts())
        });
        let (changes, counts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let mut total = Counts::default();
        counts.into_iter().for_each(|counts| total += counts);
        let mut changes = changes.concat();
        times.leaves = lap(&mut clock);

        for level in (0..nodes.depth).rev() {
            let families: Vec<&[Change<W>]> = changes.chunk_by(|a, b| a.place.parent == b.place.parent).collect();
            let parts = families.par_iter().with_min_len(TASK).parts(|families| {
                let mut worker = new_worker();
                for family in families {
                    // SAFETY: each parent has one family of changes, which is in one part. Searches are over.
                    unsafe { worker.modify_parents(level, family, |part| &paths[part as usize]) };
                }
                worker.take_changes()
            });
            changes = parts.concat();
        }
        times.inner = lap(&mut clock);
        Outcome { top: changes, counts: total, times }
    })
}
