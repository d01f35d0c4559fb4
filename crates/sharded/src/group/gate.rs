//! Changes in which no member writes before all are ready.

use super::Group;
use core::cell::Cell;
use lanetree_frame::room::out_of_memory;
use lanetree_frame::{Error, Result};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

impl<I: Send + Sync> Group<I> {
    /// Applies each member's part of a change. Members say when they are ready to write, and none with a part writes before all of
    /// them are ready: if one finds no memory or an invalid batch, all are unchanged.
    ///
    /// # Errors
    /// That of the first member that was not ready, or [`Error::Runtime`] if there is no room for a thread: all are unchanged.
    /// [`Error::Lost`] if a member fails as it writes, and others may have written.
    pub(crate) fn change_when_ready<T: Send>(
        &mut self,
        has_part: impl Fn(usize) -> bool,
        apply: impl Fn(usize, &mut I, &dyn Fn() -> Result<()>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let is_lost = self.is_lost;
        self.members.change(|members| {
            let count = members.len();
            let gate = Gate::new((0..count).filter(|&number| has_part(number)).count());
            let (gate, apply) = (&gate, &apply);
            let run = move |number: usize, member: &mut I| {
                let at_gate = gate.enter();
                let done = apply(number, member, &|| at_gate.wait());
                at_gate.has_failed.set(done.is_err());
                (done, at_gate.state.get())
            };
            let mut done: Vec<Option<(Result<T>, State)>> = (0..count).map(|_| None).collect();
            std::thread::scope(|scope| {
                // Each on a thread of its own: they wait for each other.
                for ((number, member), done) in members.iter_mut().enumerate().zip(&mut done) {
                    if !has_part(number) {
                        *done = Some((apply(number, member, &|| Ok(())), State::Planning));
                        continue;
                    }
                    let run = move || *done = Some(run(number, member));
                    if std::thread::Builder::new().spawn_scoped(scope, run).is_err() {
                        gate.enter().has_failed.set(true);
                    }
                }
            });
            let no_thread = || (Err(out_of_memory(1 << 21)), State::Planning);
            let done: Vec<_> = done.into_iter().map(|done| done.unwrap_or_else(no_thread)).collect();
            let has_written = done.iter().any(|(done, state)| done.is_ok() && *state == State::Writing);
            // Errors of members that were ready come last: they only say that another member was not.
            let (held, first): (Vec<_>, Vec<_>) = done.into_iter().partition(|(_, state)| *state == State::Held);
            match first.into_iter().chain(held).map(|(done, _)| done).collect::<Result<Vec<_>>>() {
                Ok(reports) => Ok(Ok(reports)),
                Err(error) if members.iter().any(is_lost) => Err(error),
                Err(error) if has_written => {
                    Err(Error::Lost { reason: format!("{error}; another shard has written its part of the batch") })
                }
                Err(error) => Ok(Err(error)),
            }
        })?
    }
}

/// Where members wait until all are ready to write.
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

struct GateState {
    /// Members that are neither ready nor done.
    missing: usize,
    has_failed: bool,
}

/// The progress of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Also the state of a member that has nothing to write.
    Planning,
    /// It is ready. If it stays so, another member was not.
    Held,
    Writing,
}

/// A member at the gate. Others don't wait for a member that has failed or has nothing to write.
struct AtGate<'g> {
    gate: &'g Gate,
    state: Cell<State>,
    /// True unless it has returned without an error: a panic is a failure.
    has_failed: Cell<bool>,
}

impl Gate {
    fn new(missing: usize) -> Self {
        Self { state: Mutex::new(GateState { missing, has_failed: false }), changed: Condvar::new() }
    }

    fn enter(&self) -> AtGate<'_> {
        AtGate { gate: self, state: Cell::new(State::Planning), has_failed: Cell::new(true) }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AtGate<'_> {
    /// Says that this member is ready, and waits for the others.
    ///
    /// # Errors
    /// If another member was not ready. The change returns that member's error instead.
    fn wait(&self) -> Result<()> {
        self.state.set(State::Held);
        let mut state = self.gate.lock();
        state.missing -= 1;
        self.gate.changed.notify_all();
        while state.missing > 0 && !state.has_failed {
            state = self.gate.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.has_failed {
            self.state.set(State::Writing);
            return Ok(());
        }
        Err(Error::Lost { reason: "another shard was not ready".into() })
    }
}

impl Drop for AtGate<'_> {
    fn drop(&mut self) {
        if self.state.get() == State::Planning {
            let mut state = self.gate.lock();
            state.missing -= 1;
            state.has_failed |= self.has_failed.get();
            self.gate.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn failed() -> Error {
        out_of_memory(7)
    }

    /// Members that fail before they are ready, or write, or have nothing to do.
    #[test]
    fn members_write_when_all_are_ready() -> Result<()> {
        for failing in [None, Some(0), Some(2), Some(3)] {
            let mut group = Group::new(vec![0_u32; 5], |_| false);
            let written = AtomicUsize::new(0);
            let apply = |number: usize, member: &mut u32, ready: &dyn Fn() -> Result<()>| {
                // Member 1 has no part, and member 4 finds out that there is nothing to change.
                if number == 1 || number == 4 {
                    return Ok(number);
                }
                if failing == Some(number) {
                    std::thread::sleep(core::time::Duration::from_millis(20));
                    return Err(failed());
                }
                ready()?;
                *member += 1;
                written.fetch_add(1, Ordering::Relaxed);
                Ok(number)
            };
            let done = group.change_when_ready(|number| number != 1, apply);
            let written = written.into_inner();
            match failing {
                None => assert_eq!((done?, written, group.get()?), (vec![0, 1, 2, 3, 4], 3, &[1, 0, 1, 1, 0][..])),
                Some(_) => {
                    let error = done.expect_err("a member failed");
                    assert!(matches!(error, Error::Runtime(_)), "not that of those that were held: {error}");
                    assert_eq!((written, group.get()?), (0, &[0; 5][..]));
                }
            }
        }
        Ok(())
    }

    /// One that fails as it writes leaves the others with what they have written: all are lost, unless it is the only one.
    #[test]
    fn a_member_that_fails_while_others_write_loses_all() -> Result<()> {
        for has_part in [|_| true, |number| number == 1] {
            let mut group = Group::new(vec![0_u32; 3], |_| false);
            let apply = |number: usize, member: &mut u32, ready: &dyn Fn() -> Result<()>| {
                if !has_part(number) {
                    return Ok(());
                }
                ready()?;
                if number == 1 {
                    return Err(failed());
                }
                *member += 1;
                Ok(())
            };
            let error = group.change_when_ready(has_part, apply).expect_err("a member failed");
            let is_lost = matches!(error, Error::Lost { .. });
            assert_eq!((is_lost, group.is_lost()), (has_part(0), has_part(0)), "{error}");
        }
        Ok(())
    }
}
