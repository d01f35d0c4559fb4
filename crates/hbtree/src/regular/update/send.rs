//! What a batch sends to the device before the host has it: the nodes as they are to be (section 5.6).
//!
//! The paper has two methods, and so has this. With both a node is made from the host's, which stays as it is, in pinned memory;
//! a piece of them crosses the bus at once, and a kernel puts each in its place.
//!
//! * *Asynchronous*: all threads make nodes, as many as there is pinned memory for, and when all are there they are sent.
//! * *Synchronized*: each piece is sent as soon as it is made, while others are.
//!
//! The paper's own can be chosen, to be measured:
//!
//! * *Queue*, its synchronized one: a thread makes nodes, and another takes them from a queue and sends them one by one; the
//!   start of a transfer is then what takes the time.
//! * *Whole*, its asynchronous one: nothing is sent before the host has changed its tree, and then all of it.

use super::group::Write;
use super::kept;
use super::plan::Plan;
use crate::line::Line;
use crate::options::UpdateMethod;
use crate::regular::nodes::{last_lines, upper_lines, write_upper};
use crate::regular::{BigLeaves, Regular, RegularInner, RegularOnDevice};
use crate::structure::Parts;
use crate::tuning::{TUNING, Tuning};
use core::mem::take;
use lanetree_frame::parallel::*;
use lanetree_frame::parcel::{Goal, Parcel};
use lanetree_frame::{Device, DeviceKind, Result};
use lanetree_layout::{Key, Word};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

/// Words of 8 bytes of a line.
const LINE: usize = size_of::<Line>() / 8;

/// The fewest nodes of a parcel, unless there are fewer.
const LEAST: usize = 64;

/// Parcels of each thread: one is on its way while the next is filled.
const PARCELS: usize = 2;

/// Nodes in the queue and on their way, at most.
const QUEUE: usize = 16;

impl UpdateMethod {
    /// The method for a batch of `changes` changes.
    fn of(self, changes: usize, tuning: &Tuning) -> Self {
        match self {
            Self::Auto if changes >= tuning.overlapped_from => Self::Synchronized,
            Self::Auto => Self::Asynchronous,
            chosen => chosen,
        }
    }
}

impl<K: Key, V: Word> Parts<K, V, Regular> {
    /// Sends the device what a batch of `changes` changes writes. Returns the new copy, if the device needs another
    /// one. A device that has no copy need not take one: a batch does not need it, so where it fails once more the CPU
    /// goes on alone.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime). A copy that was being changed is dropped, and any copy if the device does more than refuse memory: so
    /// the next batch does not depend on it.
    pub(super) fn send(
        &mut self,
        changes: usize,
        writes: &[Write<'_, K::Bits, V>],
        plan: &Plan<K::Bits, V>,
    ) -> Result<Option<RegularOnDevice<K::Bits>>> {
        if self.options.update_method == UpdateMethod::Whole {
            // When the host has it: see `with_all_sent`.
            return Ok(None);
        }
        let had_copy = self.copy.is_some();
        let error = match self.send_to_copy(changes, writes, plan) {
            Ok(copy) => return Ok(copy),
            Err(error) => error,
        };
        self.note_refusal(&error);
        if had_copy { Err(error) } else { Ok(None) }
    }

    fn send_to_copy(
        &mut self,
        changes: usize,
        writes: &[Write<'_, K::Bits, V>],
        plan: &Plan<K::Bits, V>,
    ) -> Result<Option<RegularOnDevice<K::Bits>>> {
        let moving = kept(writes.len(), |at| Some(&writes[at]).filter(|write| write.moves()))?;
        let is_the_same = moving.is_empty() && plan.runs.is_empty();
        if self.device.kind() == DeviceKind::Host || self.copy.is_some() && is_the_same {
            return Ok(None);
        }
        let (upper_end, last_end) = (plan.upper_numbers.end as u32, plan.last_numbers.end as u32);
        // From here on an error drops the copy: part of it may be new. One that has no room remains what the host has.
        let mut copy = match self.copy.take_if(|copy| copy.has_room_for(upper_end, last_end)) {
            Some(copy) => copy,
            None => RegularOnDevice::upload(&self.device, &self.inner, upper_end, last_end)?,
        };
        let RegularOnDevice { upper, last, parcels, emulated, .. } = &mut copy;
        send_upper(&self.device, parcels, plan, Goal { array: upper, emulated })?;
        let (nodes, goal) = (Nodes { inner: &self.inner, leaves: &self.leaves }, Goal { array: last, emulated });
        match self.options.update_method.of(changes, TUNING.on(&self.device)?) {
            UpdateMethod::Synchronized => nodes.synchronized(&self.device, parcels, &moving, goal)?,
            UpdateMethod::Queue => nodes.queued(&self.device, parcels, &moving, goal)?,
            _ => nodes.asynchronous(&self.device, parcels, &moving, goal)?,
        }
        parcels.iter().try_for_each(Parcel::wait)?;
        (copy.root, copy.height) = (plan.root, plan.height);
        Ok(Some(copy))
    }
}

impl<K: Key, V: Word> Parts<K, V, Regular> {
    /// Does something to the host's tree. With [`UpdateMethod::Whole`] the device has no copy meanwhile, and then gets all nodes;
    /// with others this does nothing more.
    pub(crate) fn with_all_sent<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        if self.options.update_method != UpdateMethod::Whole || self.device.kind() == DeviceKind::Host {
            return change(self);
        }
        // Even if `change` panics, nothing reads what the host no longer has.
        let held = self.copy.take();
        let outcome = change(self);
        let started = Instant::now();
        let (upper_end, last_end) = (self.inner.pool.end, self.inner.last_end);
        let sent = match held.filter(|copy| copy.has_room_for(upper_end, last_end)) {
            Some(mut copy) => copy.take_all(&self.inner).map(|()| copy),
            None => RegularOnDevice::upload(&self.device, &self.inner, upper_end, last_end),
        };
        match sent {
            Ok(copy) => (self.copy, self.no_copy) = (Some(copy), None),
            Err(error) => self.no_copy = Some(error.to_string()),
        }
        self.update_times.device += started.elapsed();
        outcome
    }
}

/// Sends the nodes above the last level as they are to be. There are few.
fn send_upper<B: Word, V: Word>(
    device: &Device,
    parcels: &mut Vec<Parcel>,
    plan: &Plan<B, V>,
    mut goal: Goal<'_, B>,
) -> Result<()> {
    let words = upper_lines::<B>() * LINE;
    let nodes = lanetree_frame::room::collected(plan.upper.iter())?;
    if parcels.is_empty() && !nodes.is_empty() {
        parcels.push(Parcel::new(device)?);
    }
    for nodes in nodes.chunks(Parcel::most(words)) {
        let parcel = &mut parcels[0];
        let write = |i: usize, node: &mut [u64]| write_upper(bytemuck::cast_slice_mut(node), &nodes[i].1.entries);
        parcel.fill(nodes.iter().map(|node| *node.0), words, write)?;
        // SAFETY: the copy has room for all numbers of the plan.
        unsafe { parcel.put(nodes.len(), words, &mut goal)? };
    }
    Ok(())
}

/// What the nodes of the last level are made from.
struct Nodes<'a, B, V> {
    inner: &'a RegularInner<B>,
    leaves: &'a BigLeaves<B, V>,
}

impl<B: Word, V: Word> Nodes<'_, B, V> {
    /// Fills a parcel with the nodes of these writes.
    fn fill(&self, parcel: &mut Parcel, writes: &[&Write<'_, B, V>]) -> Result<()> {
        let make = |i: usize, node: &mut [u64]| self.make(writes[i], bytemuck::cast_slice_mut(node));
        parcel.fill(writes.iter().map(|write| write.number), last_words::<B>(), make)
    }

    /// Sends each parcel when it is full.
    fn synchronized(
        &self,
        device: &Device,
        parcels: &mut Vec<Parcel>,
        moving: &[&Write<'_, B, V>],
        goal: Goal<'_, B>,
    ) -> Result<()> {
        let tasks = moving.par_chunks(nodes_of_parcel::<B>(moving.len()));
        while parcels.len() < tasks.items().min(PARCELS * threads()) {
            parcels.push(Parcel::new(device)?);
        }
        // Those that nobody fills: the one that was sent first comes next.
        let idle = Mutex::new((VecDeque::from(take(parcels)), goal));
        let lock = || idle.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = tasks.try_for_each(|writes| {
            let mut parcel = lock().0.pop_front().expect("there are more parcels than threads, or one for each task");
            let filled = self.fill(&mut parcel, writes);
            let (idle, goal) = &mut *lock();
            // SAFETY: as in `send_upper`.
            let put = filled.and_then(|()| unsafe { parcel.put(writes.len(), last_words::<B>(), goal) });
            idle.push_back(parcel);
            put
        });
        *parcels = idle.into_inner().unwrap_or_else(PoisonError::into_inner).0.into();
        sent
    }

    /// Makes one node after another, while another thread sends each by itself.
    fn queued(
        &self,
        device: &Device,
        parcels: &mut Vec<Parcel>,
        moving: &[&Write<'_, B, V>],
        mut goal: Goal<'_, B>,
    ) -> Result<()> {
        while parcels.len() < moving.len().min(QUEUE) {
            parcels.push(Parcel::new(device)?);
        }
        let (give_back, idle) = mpsc::channel();
        take(parcels).into_iter().for_each(|parcel| give_back.send(parcel).expect("this thread receives them"));
        let (put, queue) = mpsc::channel::<Parcel>();
        let outcome = thread::scope(|scope| {
            let give_back = give_back.clone();
            let sending = scope.spawn(move || {
                let mut outcome = Ok(());
                for parcel in queue {
                    if outcome.is_ok() {
                        // SAFETY: as in `send_upper`.
                        outcome = unsafe { parcel.put(1, last_words::<B>(), &mut goal) };
                    }
                    give_back.send(parcel).expect("the other thread keeps the end that receives them");
                }
                outcome
            });
            let made = moving.iter().try_for_each(|write| {
                let mut parcel = idle.recv().expect("this thread has a sender as well");
                self.fill(&mut parcel, std::slice::from_ref(write))?;
                put.send(parcel).expect("the other thread receives until there is no sender");
                Ok(())
            });
            drop(put);
            let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            made.and(sent)
        });
        drop(give_back);
        parcels.extend(idle);
        outcome
    }

    /// Fills as many parcels as there are, and then sends them, until there is nothing left.
    fn asynchronous(
        &self,
        device: &Device,
        parcels: &mut Vec<Parcel>,
        moving: &[&Write<'_, B, V>],
        mut goal: Goal<'_, B>,
    ) -> Result<()> {
        let (nodes, most) = (nodes_of_parcel::<B>(moving.len()), PARCELS * threads());
        for writes in moving.chunks(nodes * most) {
            while parcels.len() < writes.len().div_ceil(nodes) {
                parcels.push(Parcel::new(device)?);
            }
            let filling = parcels.par_iter_mut().zip(writes.par_chunks(nodes));
            filling.map(|(parcel, writes)| self.fill(parcel, writes)).reduce(|| Ok(()), Result::and)?;
            for (parcel, writes) in parcels.iter_mut().zip(writes.chunks(nodes)) {
                // SAFETY: as in `send_upper`.
                unsafe { parcel.put(writes.len(), last_words::<B>(), &mut goal)? };
            }
        }
        Ok(())
    }

    /// Makes the node of a write as it is to be.
    fn make(&self, write: &Write<'_, B, V>, node: &mut [Line]) {
        node.copy_from_slice(&self.inner.last[write.number as usize * last_lines::<B>()..][..last_lines::<B>()]);
        write.write_node(self.leaves.leaf(write.number), node);
    }
}

/// Words of 8 bytes of a node of the last level.
fn last_words<B: Word>() -> usize {
    last_lines::<B>() * LINE
}

/// Nodes of the last level in each parcel, out of `nodes` in all: so few that every thread has some parcels to fill.
fn nodes_of_parcel<B: Word>(nodes: usize) -> usize {
    let most = Parcel::most(last_words::<B>());
    nodes.div_ceil(2 * PARCELS * threads()).clamp(LEAST.min(most), most)
}
