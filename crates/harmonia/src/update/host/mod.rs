//! Updates of a tree in main memory, by all threads (the paper's section 3.2.2 and Algorithm 1).
//!
//! | file | what it is |
//! |---|---|
//! | `locks` | the coarse lock with its count, and the leaves' locks |
//! | `leaf` | inserts and removals inside a leaf |
//! | `values` | batches that only replace values |
//! | `auxiliary` | leaves that are split or merged before the region moves |
//! | `batch` | Algorithm 1 |
//! | `movement` | the new key region after the batch |
//!
//! A batch is applied as a whole or not at all. Two allocations may fail: the memory for the auxiliary nodes, before
//! anything is changed, and the memory for the regions after the batch. The old regions stay until the new ones are
//! allocated and filled, and a journal of the changes in place allows undoing them.

mod auxiliary;
mod batch;
mod leaf;
mod locks;
mod movement;
#[cfg(test)]
mod tests;
mod values;

use super::{UpdatePath, UpdateReport};
use crate::Harmonia;
use crate::build::build_distinct;
use crate::native::View;
use auxiliary::{Auxiliary, LeafState, LeafTable};
use batch::{Done, RunningBatch, Undo};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU32};
use lanetree_frame::Guarded;
use lanetree_frame::NetChange;
use lanetree_frame::fixed::Staging;
use lanetree_frame::parallel::*;
use lanetree_frame::room::collected;
use lanetree_frame::{Error, Result};
use lanetree_kernels_harmonia::layout::Shape;
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;
use leaf::LeafRegion;
use locks::TreeLock;
use movement::{Regions, Settled};

/// Leaves whose ranks a task computes.
const TASK: usize = 1 << 14;

/// How a batch is distributed to threads, and how far a tree may grow. Tests choose other values.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Changes of a task.
    changes: usize,
    /// Leaves that a task moves.
    leaves: u32,
    /// Nodes of a tree.
    nodes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { changes: 1024, leaves: 1024, nodes: u32::MAX }
    }
}

impl Limits {
    /// The new shape of a tree, or the error of one that has too many nodes.
    fn check(&self, old: &Shape, pairs: u64, new: Option<Shape>) -> Result<Shape> {
        let fits = |shape: &Shape| u64::from(shape.inner) + u64::from(shape.leaves) <= u64::from(self.nodes);
        let fill = f64::from(old.per_leaf) / f64::from(old.fanout);
        new.filter(fits).ok_or(Error::TooManyPairs { pairs: pairs as usize, fanout: old.fanout, fill })
    }
}

/// What a batch has done.
pub struct Applied<K, V> {
    pub(super) report: UpdateReport,
    done: Vec<Done<K, V>>,
}

impl<K, V> Applied<K, V> {
    /// What all tasks have done, and whether the key region has to move.
    fn new(done: Vec<Done<K, V>>, restructured: bool) -> Self {
        let mut report = done.iter().fold(UpdateReport::default(), |sum, done| sum.plus(&done.report));
        report.path = match report {
            _ if restructured => UpdatePath::Moved,
            UpdateReport { inserted: 0, replaced: 0, removed: 0, .. } => UpdatePath::Unchanged,
            _ => UpdatePath::InPlace,
        };
        Self { report, done }
    }

    /// The leaves that were changed in place, in ascending order. If the batch's path was [`UpdatePath::InPlace`],
    /// nothing else has changed, except for the ranks.
    ///
    /// # Errors
    /// [`Error::Runtime`] if main memory has no room for them.
    pub(super) fn leaves(&self) -> Result<Vec<u64>> {
        let mut leaves =
            collected(self.done.iter().flat_map(|done| done.in_place.iter().map(|undo| u64::from(undo.leaf))))?;
        leaves.sort_unstable();
        leaves.dedup();
        Ok(leaves)
    }
}

/// Applies changes of distinct keys to a tree in main memory. The changes may come in any order; ascending is fastest.
///
/// # Errors
/// As [`Harmonia::apply`].
pub(super) fn apply<K: Key, V: Word>(
    tree: &mut Harmonia<K, V>,
    changes: &[(K::Bits, NetChange<V>)],
) -> Result<Applied<K::Bits, V>> {
    apply_within(tree, changes, Limits::default())
}

/// [`apply`] within other limits.
fn apply_within<K: Key, V: Word>(
    tree: &mut Harmonia<K, V>,
    changes: &[(K::Bits, NetChange<V>)],
    limits: Limits,
) -> Result<Applied<K::Bits, V>> {
    if i32::try_from(changes.len()).is_err() {
        return Err(Error::TooManyOperations { operations: changes.len() });
    }
    if tree.shape.leaves == 0 {
        return Ok(Applied { report: fill_empty(tree, changes, limits)?, done: Vec::new() });
    }
    if let Some(done) = values::replace(tree, changes, limits)? {
        return Ok(Applied::new(done, false));
    }
    let mut auxiliary = Auxiliary::new(tree.shape.leaves, changes.len())?;
    let (states, chains) = auxiliary.parts();
    let (done, restructured) = carry_out(tree, changes, states, chains, limits);
    let applied = Applied::new(done, restructured);
    let settled = match applied.report {
        UpdateReport { path: UpdatePath::Moved, .. } => move_regions(tree, changes, states, chains, limits),
        report if report.inserted + report.removed > 0 => move_ranks(tree, states),
        _ => Ok(()),
    };
    match settled {
        Ok(()) => Ok(applied),
        Err(error) => {
            undo(tree, states, chains, applied.done);
            Err(error)
        }
    }
}

/// Builds a tree from an empty one.
fn fill_empty<K: Key, V: Word>(
    tree: &mut Harmonia<K, V>,
    changes: &[(K::Bits, NetChange<V>)],
    limits: Limits,
) -> Result<UpdateReport> {
    let put = |&(key, change): &(K::Bits, NetChange<V>)| match change {
        NetChange::Put(value) => Some((key, value)),
        NetChange::PutIfPresent(_) | NetChange::Remove => None,
    };
    let mut pairs = changes.par_iter().filter_map_collect(put)?;
    sort_by_first(&mut pairs)?;
    let inserted = pairs.len() as u64;
    let mut report = UpdateReport { inserted, unmatched: changes.len() as u64 - inserted, ..Default::default() };
    if inserted > 0 {
        let shape = limits.check(&tree.shape, inserted, tree.shape.with_len(inserted))?;
        *tree = build_distinct(&tree.device, shape, |i| pairs[i])?;
        report.path = UpdatePath::Rebuilt;
    }
    Ok(report)
}

/// Algorithm 1 for all changes; and whether the key region has to move after them.
fn carry_out<K: Key, V: Word>(
    tree: &mut Harmonia<K, V>,
    changes: &[(K::Bits, NetChange<V>)],
    states: &[LeafState],
    chains: &[AtomicU32],
    limits: Limits,
) -> (Vec<Done<K::Bits, V>>, bool) {
    let Harmonia { shape, inner, prefix_sum, leaves, ranks, .. } = tree;
    let batch = RunningBatch {
        changes,
        inner: View::<K::Bits, V>::new(shape, in_memory(inner), &[], None),
        prefix_sum: in_memory(prefix_sum),
        leaves: LeafRegion::new(leaves.as_mut_slice().expect(IN_MEMORY), shape.fanout),
        table: LeafTable { shape, ranks: ranks.as_ref().map(in_memory), states, chains },
        lock: TreeLock::default(),
        restructured: AtomicBool::new(false),
    };
    let done = batch.run(limits.changes);
    (done, batch.restructured.into_inner())
}

/// Replaces the tree's regions by new ones, with the leaves that were changed in place, and the others as the auxiliary
/// nodes give them.
fn move_regions<K: Key, V: Word>(
    tree: &mut Harmonia<K, V>,
    changes: &[(K::Bits, NetChange<V>)],
    states: &[LeafState],
    chains: &[AtomicU32],
    limits: Limits,
) -> Result<()> {
    let ranks = tree.ranks.as_ref().map(in_memory);
    let settled = Settled {
        device: &tree.device,
        changes,
        view: View::<K::Bits, V>::new(&tree.shape, &[], in_memory(&tree.leaves), None),
        leaves: in_memory(&tree.leaves),
        table: LeafTable { shape: &tree.shape, ranks, states, chains },
        limits,
    };
    let Regions { shape, inner, prefix_sum, leaves, ranks } = settled.moved()?;
    let (device, words) = (tree.device.clone(), PhantomData);
    *tree = Harmonia {
        device,
        shape,
        inner,
        prefix_sum,
        leaves,
        ranks,
        lens: None,
        staging: Staging::default(),
        changes: Default::default(),
        whole: Guarded::default(),
        words,
    };
    Ok(())
}

/// Brings the ranks and the length up to date where leaves have changed in place only.
fn move_ranks<K: Key, V: Word>(tree: &mut Harmonia<K, V>, states: &[LeafState]) -> Result<()> {
    let shape = &mut tree.shape;
    if tree.ranks.is_none() {
        let mut ranks = tree.device.alloc::<u64>(states.len() + 1)?;
        let per_leaf = u64::from(shape.per_leaf);
        let all = ranks.as_mut_slice().expect(IN_MEMORY).par_iter_mut().enumerate();
        all.for_each(|(leaf, rank)| *rank = shape.len.min(leaf as u64 * per_leaf));
        tree.ranks = Some(ranks);
    }
    let ranks = tree.ranks.as_mut().and_then(Buffer::as_mut_slice).expect(IN_MEMORY);
    let growth = |states: &[LeafState]| states.iter().map(|state| i64::from(state.growth())).sum();
    let mut grown: Vec<i64> = states.par_chunks(TASK).map(growth).collect();
    let mut before = 0;
    for sum in &mut grown {
        before += core::mem::replace(sum, before);
    }
    let tasks = ranks.par_chunks_mut(TASK).zip(states.par_chunks(TASK)).zip(grown);
    tasks.for_each(|((ranks, states), mut grown)| {
        for (rank, state) in ranks.iter_mut().zip(states) {
            *rank = rank.wrapping_add_signed(grown);
            grown += i64::from(state.growth());
        }
    });
    shape.len = shape.len.wrapping_add_signed(before);
    ranks[states.len()] = shape.len;
    Ok(())
}

/// Undoes what was changed in place.
fn undo<K: Key, V: Word>(
    tree: &mut Harmonia<K, V>,
    states: &[LeafState],
    chains: &[AtomicU32],
    done: Vec<Done<K::Bits, V>>,
) {
    let Harmonia { shape, leaves, ranks, .. } = tree;
    let table = LeafTable { shape, ranks: ranks.as_ref().map(in_memory), states, chains };
    let region = LeafRegion::<K::Bits, V>::new(leaves.as_mut_slice().expect(IN_MEMORY), shape.fanout);
    // Without the auxiliary nodes a leaf has what its slots hold.
    for undo in done.iter().flat_map(|done| &done.in_place) {
        let growth = table.len(undo.leaf) as i64 - table.before(undo.leaf) as i64;
        states[undo.leaf as usize].unsplit(growth as i32);
    }
    // Removals first: a leaf never gets more pairs than it had then.
    for again in [false, true] {
        for Undo { leaf, key, value } in done.iter().flat_map(|done| &done.in_place) {
            // SAFETY: the tree is borrowed mutably, and this the only thread.
            let mut slots = unsafe { region.slots(*leaf) };
            let len = table.len(*leaf);
            let (at, found) = slots.find(len, *key);
            match *value {
                None if !again => {
                    slots.remove(len, at);
                    states[*leaf as usize].grow(-1);
                }
                Some(value) if again && found => slots.replace(len, at, value),
                Some(value) if again => {
                    slots.insert(len, at, *key, value);
                    states[*leaf as usize].grow(1);
                }
                _ => {}
            }
        }
    }
}

const IN_MEMORY: &str = "a tree on the host is in main memory";

fn in_memory<T: Word>(buffer: &Buffer<T>) -> &[T] {
    buffer.as_slice().expect(IN_MEMORY)
}
