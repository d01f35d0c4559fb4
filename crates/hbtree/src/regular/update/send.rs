//! What a batch sends to the device before the host has it: the nodes as they are to be (section 5.6).
//!
//! The paper has two methods, and so has this. With both a node is sent as it is to be, made from the host's, which stays as
//! it is.
//!
//! * *Asynchronous*: all threads make the nodes, and when all are there they are sent. If they are most of all, the whole
//!   array is sent.
//! * *Synchronized*: the threads make pieces of the nodes, and put them into a queue. A thread takes them from there and sends
//!   them. The queue is short, so that the memory for pieces is small. The paper's queue has single nodes, and the start of a
//!   transfer is then what takes the time.

use super::group::Write;
use super::plan::Plan;
use crate::line::Line;
use crate::options::UpdateMethod;
use crate::regular::device::{Patch, Target};
use crate::regular::nodes::{last_lines, upper_lines, write_upper};
use crate::regular::{BigLeaves, Regular, RegularInner, RegularOnDevice};
use crate::structure::Parts;
use lanetree_frame::{DeviceKind, Result};
use lanetree_layout::{Key, Word};
use rayon::prelude::*;
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Nodes of a piece: some hundred kilobytes.
const PIECE: usize = 512;

/// Pieces that wait in the queue.
const QUEUE: usize = 8;

/// The smallest batch that [`UpdateMethod::Auto`] sends while it is made. Measured on an H200 and 16 threads (figure
/// `hbtree-updates`, 2^26 pairs): below, both methods are as fast; from here on overlapping is faster, 1.04 times at 2^16
/// and 1.3 times at 2^20. In the paper it is the other way round (figure 14), since its asynchronous method sends all nodes
/// at once and its synchronized one sends each by itself.
const LEAST_SYNCHRONIZED: usize = 1 << 16;

impl UpdateMethod {
    /// Whether pieces are sent while others are made, for a batch of so many changes that rewrites so many nodes.
    fn overlaps(self, changes: usize, nodes: usize) -> bool {
        match self {
            // A single piece overlaps with nothing.
            Self::Auto => changes >= LEAST_SYNCHRONIZED && nodes > PIECE,
            Self::Asynchronous => false,
            Self::Synchronized => true,
        }
    }
}

impl<K: Key, V: Word> Parts<K, V, Regular> {
    /// Sends the device what changes, by a batch of so many changes. Returns a new copy if there is none, or none with room
    /// enough.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime). A copy that was being changed is dropped.
    pub(super) fn send(
        &mut self,
        changes: usize,
        writes: &[Write<'_, K::Bits, V>],
        plan: &Plan<K::Bits, V>,
    ) -> Result<Option<RegularOnDevice<K::Bits>>> {
        let moving: Vec<_> = writes.par_iter().with_min_len(1024).filter(|write| write.moves()).collect();
        let is_the_same = moving.is_empty() && plan.runs.is_empty();
        if self.device.kind() == DeviceKind::Host || self.copy.is_some() && is_the_same {
            return Ok(None);
        }
        let upper = upper_patch(plan);
        let (upper_end, last_end) = (plan.upper_numbers.end as u32, plan.last_numbers.end as u32);
        let (root, height) = (plan.root, plan.height);
        let (inner, leaves) = (&self.inner, &self.leaves);
        let target = |last| Target { inner, upper: &upper, last, upper_end, last_end, root, height };
        // From here on an error drops the copy: part of it may be new.
        let mut copy = match self.copy.take() {
            Some(copy) if copy.has_room_for(upper_end, last_end) => copy,
            copy => {
                // Until there is another one it remains what the host has.
                self.copy = copy;
                return RegularOnDevice::of(&self.device, &target(&patch(inner, leaves, &moving))).map(Some);
            }
        };
        if self.options.update_method.overlaps(changes, moving.len()) {
            copy.patch(&target(&Patch::default()))?;
            synchronize(&mut copy, inner, leaves, &moving)?;
        } else {
            copy.patch(&target(&patch(inner, leaves, &moving)))?;
        }
        self.copy = Some(copy);
        Ok(None)
    }
}

/// Sends the nodes of these writes piece by piece, while others are made.
fn synchronize<B: Word, V: Word>(
    copy: &mut RegularOnDevice<B>,
    inner: &RegularInner<B>,
    leaves: &BigLeaves<B, V>,
    moving: &[&Write<'_, B, V>],
) -> Result<()> {
    let (pieces, queue) = sync_channel(QUEUE);
    thread::scope(|scope| {
        // A thread of its own, which waits for no task of the pool: the pool's threads may all wait for it.
        let sending = scope.spawn(move || queue.into_iter().try_for_each(|piece| copy.patch_last(inner, &piece)));
        // No piece is taken any more after an error: then the others need not be made.
        let _: Result<(), _> = moving.par_chunks(PIECE).try_for_each(|writes| {
            let mut piece = Patch::of(writes.iter().map(|write| write.number), last_lines::<B>());
            let nodes = piece.lines.chunks_mut(last_lines::<B>());
            nodes.zip(writes).for_each(|(node, write)| make(inner, leaves, write, node));
            pieces.send(piece)
        });
        drop(pieces);
        sending.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The nodes of these writes as they are to be, made by all threads.
fn patch<B: Word, V: Word>(inner: &RegularInner<B>, leaves: &BigLeaves<B, V>, moving: &[&Write<'_, B, V>]) -> Patch {
    let mut last = Patch::of(moving.iter().map(|write| write.number), last_lines::<B>());
    let nodes = last.lines.par_chunks_mut(last_lines::<B>()).zip(moving).with_min_len(16);
    nodes.for_each(|(node, write)| make(inner, leaves, write, node));
    last
}

/// Makes the node of a write as it is to be.
fn make<B: Word, V: Word>(
    inner: &RegularInner<B>,
    leaves: &BigLeaves<B, V>,
    write: &Write<'_, B, V>,
    node: &mut [Line],
) {
    node.copy_from_slice(&inner.last[write.number as usize * last_lines::<B>()..][..last_lines::<B>()]);
    write.write_node(leaves.leaf(write.number), node);
}

/// The nodes above the last level as they are to be.
fn upper_patch<B: Word, V: Word>(plan: &Plan<B, V>) -> Patch {
    let stride = upper_lines::<B>();
    let mut upper = Patch::of(plan.upper.keys().copied(), stride);
    for (node, write) in upper.lines.chunks_mut(stride).zip(plan.upper.values()) {
        write_upper(node, &write.entries);
    }
    upper
}
