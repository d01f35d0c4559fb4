//! Slots of pieces, kept for the next batches.

use crate::Result;
use crate::parallel::*;
use crate::uninit::Written;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// What one piece at a time has: a stream, and memory at both ends of the bus.
pub trait PieceSlot {
    /// Waits for everything that the slot's stream was given.
    ///
    /// # Errors
    /// Of the device.
    fn synchronize(&mut self) -> Result<()>;

    /// Bytes of device memory and of pinned memory.
    fn bytes(&self) -> usize;

    /// Whether the memory is worth keeping.
    fn is_kept(&self) -> bool {
        true
    }
}

/// The slots of finished batches. A batch takes those of an earlier one, or makes its own.
pub struct SlotPool<S> {
    idle: Mutex<Vec<Vec<S>>>,
}

impl<S> Default for SlotPool<S> {
    fn default() -> Self {
        Self { idle: Mutex::default() }
    }
}

impl<S: PieceSlot> fmt::Debug for SlotPool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotPool[{} bytes]", self.bytes())
    }
}

impl<S: PieceSlot> SlotPool<S> {
    /// Bytes of device memory and of pinned memory of finished batches.
    pub fn bytes(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().map(S::bytes).sum()
    }

    /// Slots for a thread, or for a batch. There may be none yet.
    pub fn take(&self) -> TakenSlots<'_, S> {
        let slots = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        TakenSlots { pool: self, slots, is_idle: false }
    }
}

/// Slots in use. They are returned idle, even after an error or a panic.
#[derive(Debug)]
pub struct TakenSlots<'a, S: PieceSlot> {
    pool: &'a SlotPool<S>,
    slots: Vec<S>,
    /// Whether all pieces have been waited for.
    is_idle: bool,
}

impl<S: PieceSlot> TakenSlots<'_, S> {
    /// Makes slots until there are `count`.
    ///
    /// # Errors
    /// Of `new`.
    pub fn reserve(&mut self, count: usize, new: impl Fn() -> Result<S>) -> Result<()> {
        while self.slots.len() < count {
            self.slots.push(new()?);
        }
        Ok(())
    }

    /// Returns the slots, all of whose pieces have been waited for.
    pub fn give_back_idle(mut self) {
        self.is_idle = true;
    }
}

impl<S: PieceSlot> Deref for TakenSlots<'_, S> {
    type Target = [S];

    fn deref(&self) -> &[S] {
        &self.slots
    }
}

impl<S: PieceSlot> DerefMut for TakenSlots<'_, S> {
    fn deref_mut(&mut self) -> &mut [S] {
        &mut self.slots
    }
}

impl<S: PieceSlot> Drop for TakenSlots<'_, S> {
    fn drop(&mut self) {
        let mut slots = core::mem::take(&mut self.slots);
        if !self.is_idle {
            // Pieces still in flight no longer have an owner.
            slots.iter_mut().for_each(|slot| drop(slot.synchronize()));
        }
        slots.retain(S::is_kept);
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
    }
}

/// Pieces in flight at a time, per thread.
pub const SLOTS: usize = 2;

/// What threads do with the pieces of a batch, each through its own slots.
pub struct Work<'w, S, P> {
    /// The next piece, for any thread.
    pub take: &'w (dyn Fn() -> Option<P> + Sync),
    /// Makes a slot.
    pub new: &'w (dyn Fn() -> Result<S> + Sync),
    /// Puts a piece on its way.
    pub begin: &'w (dyn Fn(&mut S, &P) -> Result<()> + Sync),
    /// Called after an error: the other threads need not go on.
    pub give_up: &'w (dyn Fn() + Sync),
}

impl<S: PieceSlot + Send, P> Work<'_, S, P> {
    /// Has several threads do it; `finish` is called once a piece has come back.
    ///
    /// # Errors
    /// Of the functions.
    pub fn run<'o>(
        &self,
        threads: usize,
        pool: &SlotPool<S>,
        finish: impl Fn(&mut S, P) -> Result<Written<'o>> + Sync,
    ) -> Result<Written<'o>> {
        let work = || {
            let mut slots = pool.take();
            let outcome = self.run_here(&mut slots, &finish);
            match outcome {
                Ok(_) => slots.give_back_idle(),
                Err(_) => (self.give_up)(),
            }
            outcome
        };
        if threads <= 1 {
            return work();
        }
        (0..threads).into_par_iter().map(|_| work()).reduce(|| Ok(Written::default()), |a, b| Ok(a?.and(b?)))
    }

    /// The work of one thread: takes pieces while there are any, and keeps its slots busy with them.
    fn run_here<'o>(
        &self,
        slots: &mut TakenSlots<'_, S>,
        finish: impl Fn(&mut S, P) -> Result<Written<'o>>,
    ) -> Result<Written<'o>> {
        let mut written = Written::default();
        let mut in_flight = VecDeque::with_capacity(SLOTS);
        let mut next = 0;
        while let Some(piece) = (self.take)() {
            slots.reserve(next + 1, self.new)?;
            if in_flight.len() == SLOTS
                && let Some((slot, piece)) = in_flight.pop_front()
            {
                let slot: usize = slot;
                slots[slot].synchronize()?;
                written = written.and(finish(&mut slots[slot], piece)?);
            }
            (self.begin)(&mut slots[next], &piece)?;
            in_flight.push_back((next, piece));
            next = (next + 1) % SLOTS;
        }
        for (slot, piece) in in_flight {
            slots[slot].synchronize()?;
            written = written.and(finish(&mut slots[slot], piece)?);
        }
        Ok(written)
    }
}
