//! Batches that only replace values. Nothing moves, so that leaves need neither locks nor states, which for a large tree are many
//! pages that the system would have to clear: two passes over the changes are cheaper, one that reads and one that writes.

use super::batch::{Done, Undo};
use super::leaf::LeafRegion;
use super::{IN_MEMORY, Limits, in_memory};
use crate::Harmonia;
use crate::native::{View, below};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use lanetree_frame::parallel::*;
use lanetree_frame::room::with_room;
use lanetree_frame::{NetChange, Result};
use lanetree_layout::{Key, Word};

/// Changes after which a task asks whether another one does more than to replace values.
const STEP: usize = 64;

/// A value that a task is to write.
struct Replaced<V> {
    leaf: u32,
    /// The leaf's pairs, and which of them.
    len: u16,
    at: u16,
    value: V,
}

/// What all tasks have done.
type AllDone<B, V> = Vec<Done<B, V>>;

/// What a task will have done, and what it has to write for that.
type Found<B, V> = (Done<B, V>, Vec<Replaced<V>>);

/// Replaces values by the changes, of distinct keys, if these do nothing else; what each task has done. `None` if a change would insert or
/// remove a pair: then nothing has changed.
///
/// # Errors
/// [`Runtime`](lanetree_frame::Error::Runtime) if main memory has no room; nothing has changed then, either.
pub(super) fn replace<K: Key, V: Word>(
    tree: &mut Harmonia<K, V>,
    changes: &[(K::Bits, NetChange<V>)],
    limits: Limits,
) -> Result<Option<AllDone<K::Bits, V>>> {
    let ranks = tree.ranks.as_ref().map(in_memory);
    let view = View::<K::Bits, V>::new(&tree.shape, in_memory(&tree.inner), in_memory(&tree.leaves), ranks);
    let more = AtomicBool::new(false);
    let found = changes.par_chunks(limits.changes).try_map_collect(|changes| find(&view, changes, &more))?;
    if more.into_inner() {
        return Ok(None);
    }
    let leaves = LeafRegion::<K::Bits, V>::new(tree.leaves.as_mut_slice().expect(IN_MEMORY), tree.shape.fanout);
    found.par_iter().for_each(|(_, replaced)| {
        for &Replaced { leaf, len, at, value } in replaced {
            // SAFETY: the tree is borrowed mutably, nobody reads it, and no other change has this key.
            unsafe { leaves.replace(leaf, len.into(), at.into(), value) };
        }
    });
    Ok(Some(found.into_iter().map(|found| found.0).collect()))
}

/// The pairs whose values a task's changes replace. Says whether a change does more, and ends soon after one does.
fn find<W: Word, V: Word>(
    view: &View<'_, W, V>,
    changes: &[(W, NetChange<V>)],
    more: &AtomicBool,
) -> Result<Found<W, V>> {
    let mut done = Done { report: Default::default(), in_place: with_room(changes.len())? };
    let mut replaced = with_room(changes.len())?;
    for changes in changes.chunks(STEP) {
        if more.load(Relaxed) {
            break;
        }
        view.for_each_leaf(
            changes.len(),
            |i| changes[i].0,
            |i, leaf, _| {
                let (key, change) = changes[i];
                let (keys, ranks) = (view.leaf_keys(leaf), view.leaf_ranks(leaf));
                // Leaves have at most 128 slots.
                let (len, at) = ((ranks.end - ranks.start) as u16, below(keys, key) as u16);
                match (change, at < len && keys[usize::from(at)] == key) {
                    (NetChange::Put(value) | NetChange::PutIfPresent(value), true) => {
                        replaced.push(Replaced { leaf, len, at, value });
                        done.in_place.push(Undo { leaf, key, value: None });
                        done.report.replaced += 1;
                    }
                    (NetChange::PutIfPresent(_) | NetChange::Remove, false) => done.report.unmatched += 1,
                    (NetChange::Put(_), false) | (NetChange::Remove, true) => more.store(true, Relaxed),
                }
            },
        );
    }
    Ok((done, replaced))
}
