//! Memory as weak as a GPU's: stores that arrive late and out of order, and loads that see older values.
//!
//! Stores of all threads, plain and atomic, are queued and written in a random order, with two exceptions: stores of
//! one thread to one word keep the order of the program, and a thread's release is written after its earlier stores.
//! The value before each write of the launch is kept, so that a load may return it, unless the thread must see a newer
//! one: because of an acquire, a fence, a collective or a barrier, or because it has already read or written a newer
//! value there. Read-modify-write operations use the newest value, and are written at once.
//!
//! Writes are numbered as they reach memory. For each word a thread knows the newest write that it has seen there, and
//! threads that meet at a collective or barrier join what they know. An acquire adds one number, up to which the thread
//! sees all writes of all threads. That is more than the release published, so some outcomes that a GPU allows do not
//! appear; every outcome that appears is allowed.

use super::operation::{Operation, apply};
use super::random::Random;
use super::{MemoryModel, Options};
use crate::Order;
use core::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of a write; 0 before all of them.
type Time = u64;

/// A thread of the launch: its block and its index there.
pub(super) type Owner = (u32, u32);

/// Former values of a word that are kept.
const KEPT: usize = 8;

/// If more stores than this are queued, over all threads, some are written each time.
const MOST_WAITING: usize = 256;

/// The memory of a launch with weak memory.
pub(super) struct WeakMemory(Mutex<State>);

/// What a thread must see of memory. Kept from one access to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View {
    /// It sees all writes up to this one.
    sees: Time,
    /// What it would see if its relaxed reads had been acquires: a fence makes them so.
    read: Time,
    /// What its relaxed stores release, because of the fence before them.
    fenced: Time,
}

/// A store that is not written yet.
struct Waiting {
    owner: Owner,
    at: *mut u8,
    bytes: usize,
    value: u64,
    release: Release,
}

/// What a store releases.
#[derive(Clone, Copy)]
enum Release {
    /// Writes up to this one: 0 for none.
    UpTo(Time),
    /// All before it.
    All,
}

/// A value that a word of 4 bytes has had since a write.
#[derive(Clone, Copy)]
struct Former {
    since: Time,
    value: u32,
    /// A thread that acquires it sees all writes up to this one.
    released: Time,
}

struct State {
    random: Random,
    model: MemoryModel,
    /// The last write.
    now: Time,
    waiting: Vec<Waiting>,
    history: HashMap<usize, Vec<Former>>,
    /// The newest write of each word that a thread has read, made, or learned of from others.
    seen: HashMap<Owner, Seen>,
}

/// Indexed by word; shared by the threads that have met, until one of them learns more.
type Seen = Rc<HashMap<usize, Time>>;

// SAFETY: the pointers are into the launch's buffers, which outlive it, and the counted references point to each other
// only from here; a launch of this kind has one worker.
unsafe impl Send for State {}

impl WeakMemory {
    pub(super) fn new(options: &Options) -> Self {
        Self(Mutex::new(State {
            random: Random::new(options.seed, u64::MAX / 3),
            model: options.memory,
            now: 0,
            waiting: Vec::new(),
            history: HashMap::new(),
            seen: HashMap::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A plain load of 4 or 8 bytes.
    ///
    /// # Safety
    /// As [`WeakMemory::atomic`].
    pub(super) unsafe fn load(&self, owner: Owner, view: &mut View, at: *mut u8, bytes: usize) -> u64 {
        // SAFETY: the caller's.
        unsafe { self.state().load(owner, view, at, bytes, false) }
    }

    /// A plain store of 4 or 8 bytes.
    ///
    /// # Safety
    /// As [`WeakMemory::atomic`].
    pub(super) unsafe fn store(&self, owner: Owner, at: *mut u8, bytes: usize, value: u64) {
        let mut state = self.state();
        state.waiting.push(Waiting { owner, at, bytes, value, release: Release::UpTo(0) });
        // SAFETY: the caller's.
        unsafe { state.write_some() };
    }

    /// An atomic access to 4 or 8 bytes; returns the former value.
    ///
    /// # Safety
    /// The element lies in a buffer of the launch, which is writable unless this is a load, and stays until
    /// [`WeakMemory::finish`].
    pub(super) unsafe fn atomic(
        &self,
        owner: Owner,
        view: &mut View,
        (at, bytes): (*mut u8, usize),
        (operation, value): (Operation, u64),
        order: Order,
    ) -> u64 {
        let mut state = self.state();
        let acquires = operation.acquires(order) && state.acquires();
        let releases = operation.releases(order) && state.releases();
        // SAFETY: the caller's.
        unsafe {
            if operation == Operation::Load {
                return state.load(owner, view, at, bytes, acquires);
            }
            if releases {
                state.write_all(|waiting| waiting.owner == owner);
            }
            let release = if releases { Release::All } else { Release::UpTo(view.fenced) };
            if operation == Operation::Store {
                state.waiting.push(Waiting { owner, at, bytes, value, release });
                state.write_some();
                return 0;
            }
            state.write_all(|waiting| waiting.owner == owner && overlaps(waiting, at, bytes));
            state.write_some();
            let former = read(at, bytes);
            let (since, released) = state.newest(at, bytes);
            view.learn(released, acquires);
            if since > 0 {
                words(at, bytes).for_each(|word| state.meets(owner, word, since));
            }
            let new = apply(operation, former, value, bytes);
            if new != former || !matches!(operation, Operation::CompareExchange(_)) {
                // It continues the release sequence that it has read from.
                state.write(&Waiting { owner, at, bytes, value: new, release }, released);
            }
            former
        }
    }

    /// A fence of a thread.
    pub(super) fn fence(&self, owner: Owner, view: &mut View) {
        let mut state = self.state();
        if state.releases() {
            // SAFETY: stores that were checked, into buffers that are there.
            unsafe { state.write_all(|waiting| waiting.owner == owner) };
            view.fenced = state.now;
        }
        if state.acquires() {
            view.sees = view.sees.max(view.read);
        }
    }

    /// Threads meet: their stores are written, and each sees what any of them has written or read.
    pub(super) fn meet<'v>(&self, threads: impl Iterator<Item = (Owner, &'v Cell<View>)> + Clone) {
        let mut state = self.state();
        let (mut sees, mut joined) = (0, Seen::default());
        for (owner, view) in threads.clone() {
            // SAFETY: as in `fence`.
            unsafe { state.write_all(|waiting| waiting.owner == owner) };
            sees = view.get().sees.max(sees);
            let Some(own) = state.seen.get(&owner).filter(|own| !Rc::ptr_eq(own, &joined)) else { continue };
            if joined.is_empty() {
                joined = Rc::clone(own);
                continue;
            }
            let all = Rc::make_mut(&mut joined);
            for (&word, &time) in own.iter() {
                let known = all.entry(word).or_default();
                *known = time.max(*known);
            }
        }
        for (owner, view) in threads {
            view.set(View { sees, ..view.get() });
            state.seen.insert(owner, Rc::clone(&joined));
        }
    }

    /// Writes what is left.
    pub(super) fn finish(&self) {
        // SAFETY: as in `fence`.
        unsafe { self.state().write_all(|_| true) };
    }
}

impl View {
    fn learn(&mut self, released: Time, acquires: bool) {
        let learnt = if acquires { &mut self.sees } else { &mut self.read };
        *learnt = released.max(*learnt);
    }
}

impl State {
    fn acquires(&self) -> bool {
        self.model != MemoryModel::WeakWithoutAcquires
    }

    fn releases(&self) -> bool {
        self.model != MemoryModel::WeakWithoutReleases
    }

    /// # Safety
    /// As [`WeakMemory::atomic`].
    unsafe fn load(&mut self, owner: Owner, view: &mut View, at: *mut u8, bytes: usize, acquires: bool) -> u64 {
        // SAFETY: the caller's.
        unsafe {
            self.write_some();
            // A thread sees what it has stored itself.
            let mut own = self.waiting.iter().filter(|it| it.owner == owner && overlaps(it, at, bytes)).rev();
            if let Some(last) = own.next() {
                if (last.at, last.bytes) == (at, bytes) {
                    return last.value;
                }
                self.write_all(|it| it.owner == owner && overlaps(it, at, bytes));
            }
            let seen = self.seen.get(&owner);
            let known = words(at, bytes).filter_map(|word| seen?.get(&word).copied()).fold(view.sees, Time::max);
            // The value after one of the writes that the thread may still see, or the current one.
            let newer = |since: Time| since > known;
            let mut times = vec![known];
            for word in words(at, bytes) {
                let former = self.history.get(&word).into_iter().flatten();
                times.extend(former.map(|former| former.since).filter(|&since| newer(since)));
            }
            let stale = self.random.below(2) == 0;
            let time = if stale { times[self.random.below(times.len() as u32) as usize] } else { self.now };
            let (mut value, mut released) = (read(at, bytes), 0);
            for (half, word) in words(at, bytes).enumerate() {
                let Some(history) = self.history.get(&word) else { continue };
                let passed = history.iter().rev().find(|former| former.since <= time);
                let Some(former) = passed.or(history.first()).copied() else { continue };
                value = value & !(u64::from(u32::MAX) << (32 * half)) | u64::from(former.value) << (32 * half);
                released = former.released.max(released);
                if former.since > 0 {
                    self.meets(owner, word, former.since);
                }
            }
            view.learn(released, acquires);
            value
        }
    }

    /// The newest write of an element, and what it releases.
    fn newest(&self, at: *mut u8, bytes: usize) -> (Time, Time) {
        let last = words(at, bytes).filter_map(|word| self.history.get(&word)?.last());
        last.fold((0, 0), |(since, released), it| (it.since.max(since), it.released.max(released)))
    }

    /// Notes that a thread knows a write of a word.
    fn meets(&mut self, owner: Owner, word: usize, time: Time) {
        let seen = self.seen.entry(owner).or_default();
        if seen.get(&word).is_none_or(|&known| known < time) {
            Rc::make_mut(seen).insert(word, time);
        }
    }

    /// Writes some of the queued stores, chosen at random.
    ///
    /// # Safety
    /// Their buffers are there.
    unsafe fn write_some(&mut self) {
        while self.waiting.len() > MOST_WAITING || (!self.waiting.is_empty() && self.random.below(4) == 0) {
            let any = self.random.below(self.waiting.len() as u32) as usize;
            let Waiting { owner, at, bytes, .. } = self.waiting[any];
            // The first of the thread's stores that touch the same words; not those that this one overlaps in turn.
            let mut first = any;
            let (mut at, mut bytes) = (at, bytes);
            while let Some(earlier) =
                self.waiting[..first].iter().position(|it| it.owner == owner && overlaps(it, at, bytes))
            {
                first = earlier;
                (at, bytes) = (self.waiting[first].at, self.waiting[first].bytes);
            }
            let store = self.waiting.remove(first);
            // SAFETY: the caller's.
            unsafe { self.write(&store, 0) };
        }
    }

    /// Writes all queued stores that are selected, in the order in which they came.
    ///
    /// # Safety
    /// Their buffers are there.
    unsafe fn write_all(&mut self, meant: impl Fn(&Waiting) -> bool) {
        let (meant, rest) = core::mem::take(&mut self.waiting).into_iter().partition(meant);
        self.waiting = rest;
        let meant: Vec<Waiting> = meant;
        for store in &meant {
            // SAFETY: the caller's.
            unsafe { self.write(store, 0) };
        }
    }

    /// # Safety
    /// The store's buffer is there.
    unsafe fn write(&mut self, store: &Waiting, goes_on: Time) {
        let Waiting { owner, at, bytes, value, release } = *store;
        // SAFETY: the caller's; the store was checked to be in a writable buffer, and aligned.
        unsafe {
            self.now += 1;
            let released = match release {
                Release::UpTo(time) => time.max(goes_on),
                Release::All => self.now,
            };
            for half in 0..bytes / 4 {
                let word = at.cast::<u32>().add(half);
                let history = self
                    .history
                    .entry(word.addr())
                    .or_insert_with(|| Vec::from([Former { since: 0, value: word.read_volatile(), released: 0 }]));
                let value = (value >> (32 * half)) as u32;
                history.push(Former { since: self.now, value, released });
                if history.len() > KEPT {
                    history.remove(0);
                }
                word.write_volatile(value);
                self.meets(owner, word.addr(), self.now);
            }
        }
    }
}

/// The addresses of an element's words of 4 bytes.
fn words(at: *mut u8, bytes: usize) -> impl Iterator<Item = usize> {
    (at.addr()..at.addr() + bytes).step_by(4)
}

fn overlaps(waiting: &Waiting, at: *mut u8, bytes: usize) -> bool {
    waiting.at.addr() < at.addr() + bytes && at.addr() < waiting.at.addr() + waiting.bytes
}

/// What is in memory.
///
/// # Safety
/// The element lies in a buffer, and is aligned.
unsafe fn read(at: *mut u8, bytes: usize) -> u64 {
    // SAFETY: the caller's.
    unsafe { if bytes == 4 { at.cast::<u32>().read_volatile().into() } else { at.cast::<u64>().read_volatile() } }
}
