//! A thread, and what it can do: [`Simt`] on the CPU.

use super::block::{Block, Counters, Slot, Warp};
use super::fault::{Collective, FaultKind};
use super::global::Operation;
use super::shared::Accessor;
use crate::{Global, GlobalMut, Hint, Order, Scope, Shared, Simt, WARP};
use core::cell::Cell;
use core::panic::Location;
use corosensei::Yielder;
use lanetree_layout::Word;

/// A thread. Lives on the thread's own stack.
pub(super) struct Lane<'a> {
    pub(super) block: &'a Block<'a>,
    pub(super) warp: &'a Warp,
    pub(super) slot: &'a Slot,
    pub(super) thread: u32,
    pub(super) lane: u32,
    yielder: &'a Yielder<(), ()>,
    /// The buffer of its last access.
    pub(super) region: Cell<usize>,
}

/// A thread of an emulated block.
#[derive(Clone, Copy)]
pub struct Emulated<'a>(&'a Lane<'a>);

impl core::fmt::Debug for Emulated<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Emulated[block {}, thread {}]", self.0.block.index.get(), self.0.thread)
    }
}

impl Block<'_> {
    #[inline]
    pub(super) fn count(&self, counter: impl Fn(&Counters) -> &Cell<u64>) {
        let counter = counter(&self.counters);
        counter.set(counter.get() + 1);
    }
}

impl<'a> Lane<'a> {
    pub(super) fn new(block: &'a Block<'a>, yielder: &'a Yielder<(), ()>, thread: u32) -> Self {
        Self {
            block,
            warp: &block.warps[(thread / WARP) as usize],
            slot: &block.slots[thread as usize],
            thread,
            lane: thread % WARP,
            yielder,
            region: Cell::new(0),
        }
    }

    pub(super) fn simt(&'a self) -> Emulated<'a> {
        Emulated(self)
    }

    #[inline]
    pub(super) fn suspend(&self) {
        self.yielder.suspend(());
    }

    /// Ends the block; the thread is unwound from here.
    #[cold]
    pub(super) fn fault(&self, kind: FaultKind) -> ! {
        self.block.fault.set(Some(kind));
        loop {
            self.suspend();
        }
    }

    /// Ends the block because of what another lane of the warp asked for.
    #[cold]
    pub(super) fn fault_of(&self, lane: u32, kind: FaultKind) -> ! {
        self.block.blame(self.thread / WARP * WARP + lane);
        self.fault(kind)
    }

    /// Goes to the end of the queue.
    fn spin(&self) {
        let bit = 1 << self.lane;
        self.warp.runnable.set(self.warp.runnable.get() & !bit);
        self.warp.spinning.set(self.warp.spinning.get() | bit);
        self.suspend();
    }

    /// With a seed, sometimes lets other threads go first: after collectives and before atomics, where threads
    /// interfere.
    #[inline]
    pub(super) fn maybe_pause(&self) {
        if self.block.launch.options.seed != 0 && self.block.random.below(4) == 0 {
            self.spin();
        }
    }

    #[inline]
    fn accessor(&self) -> Accessor {
        Accessor { thread: self.thread, warp_time: self.warp.time.get(), synced: self.slot.synced.get() }
    }

    /// Performs an atomic access to an element of a buffer.
    ///
    /// # Safety
    /// Other threads access the element atomically only.
    #[inline]
    unsafe fn atomic_at<T: Word>(&self, at: GlobalMut<T>, index: u64, operation: (Operation, u64), order: Order) -> T {
        let at = at.as_ptr().wrapping_add(index as usize);
        // SAFETY: the caller's; pointers of arguments carry their buffers' provenance.
        T::truncate(unsafe { self.atomic(at.cast(), T::BYTES, operation, order) })
    }

    pub(super) fn checked<T>(&self, result: Result<T, FaultKind>) -> T {
        result.unwrap_or_else(|kind| self.fault(kind))
    }
}

/// Atomic methods: the operation's name.
macro_rules! read_modify_write {
    ($($method:ident = $operation:ident;)*) => {$(
        #[inline(never)]
        unsafe fn $method<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, _: Scope) -> T {
            // SAFETY: the same contract.
            unsafe { self.0.atomic_at(to, index, (Operation::$operation, value.widen()), order) }
        }
    )*};
}

/// Accesses are never inlined: there are hundreds of kernels, and the emulator is slow anyway.
impl Simt for Emulated<'_> {
    #[inline]
    fn thread_index(self) -> u32 {
        self.0.thread
    }
    #[inline]
    fn block_dim(self) -> u32 {
        self.0.block.launch.shape.threads
    }
    #[inline]
    fn block_index(self) -> u32 {
        self.0.block.index.get()
    }
    #[inline]
    fn grid_dim(self) -> u32 {
        self.0.block.launch.shape.blocks
    }

    #[track_caller]
    fn ballot(self, mask: u32, predicate: bool) -> u32 {
        let location = Location::caller();
        self.0.meet(Collective::Ballot, mask, u64::from(predicate), 0, location) as u32
    }
    #[track_caller]
    fn any(self, mask: u32, predicate: bool) -> bool {
        self.0.meet(Collective::Any, mask, u64::from(predicate), 0, Location::caller()) != 0
    }
    #[track_caller]
    fn all(self, mask: u32, predicate: bool) -> bool {
        self.0.meet(Collective::All, mask, u64::from(predicate), 0, Location::caller()) != 0
    }
    #[track_caller]
    fn shuffle<T: Word>(self, mask: u32, value: T, source: u32) -> T {
        let location = Location::caller();
        T::truncate(self.0.meet(Collective::Shuffle, mask, value.widen(), source, location))
    }
    #[track_caller]
    fn shuffle_xor<T: Word>(self, mask: u32, value: T, lanes: u32) -> T {
        let location = Location::caller();
        T::truncate(self.0.meet(Collective::ShuffleXor, mask, value.widen(), lanes, location))
    }
    #[track_caller]
    fn shuffle_up<T: Word>(self, mask: u32, value: T, delta: u32) -> T {
        let location = Location::caller();
        T::truncate(self.0.meet(Collective::ShuffleUp, mask, value.widen(), delta, location))
    }
    #[track_caller]
    fn shuffle_down<T: Word>(self, mask: u32, value: T, delta: u32) -> T {
        let location = Location::caller();
        T::truncate(self.0.meet(Collective::ShuffleDown, mask, value.widen(), delta, location))
    }
    #[track_caller]
    fn match_any<T: Word>(self, mask: u32, value: T) -> u32 {
        self.0.meet(Collective::MatchAny, mask, value.widen(), 0, Location::caller()) as u32
    }
    #[track_caller]
    fn reduce_add(self, mask: u32, value: u32) -> u32 {
        self.0.meet(Collective::ReduceAdd, mask, u64::from(value), 0, Location::caller()) as u32
    }
    #[track_caller]
    fn reduce_max(self, mask: u32, value: u32) -> u32 {
        self.0.meet(Collective::ReduceMax, mask, u64::from(value), 0, Location::caller()) as u32
    }
    #[track_caller]
    fn reduce_min(self, mask: u32, value: u32) -> u32 {
        self.0.meet(Collective::ReduceMin, mask, u64::from(value), 0, Location::caller()) as u32
    }
    #[track_caller]
    fn sync_warp(self, mask: u32) {
        self.0.meet(Collective::SyncWarp, mask, 0, 0, Location::caller());
    }
    #[track_caller]
    fn barrier(self) {
        self.0.meet_block(Location::caller());
    }

    #[inline(never)]
    unsafe fn shared_load<T: Word>(self, array: Shared<T>, index: u32) -> T {
        self.0.checked(self.0.block.shared.load(array, index, self.0.accessor()))
    }
    #[inline(never)]
    unsafe fn shared_store<T: Word>(self, array: Shared<T>, index: u32, value: T) {
        self.0.checked(self.0.block.shared.store(array, index, value, self.0.accessor()));
    }
    #[inline(never)]
    unsafe fn shared_atomic_add(self, array: Shared<u32>, index: u32, value: u32) -> u32 {
        self.0.maybe_pause();
        self.0.checked(self.0.block.shared.add(array, index, value, self.0.accessor()))
    }

    #[inline(never)]
    #[track_caller]
    unsafe fn load<T: Word>(self, from: Global<T>, index: u64, hint: Hint) -> T {
        let address = from.as_ptr().wrapping_add(index as usize);
        self.0.before_load(address.addr(), T::BYTES, hint, Location::caller());
        // SAFETY: checked to be in a buffer and aligned; volatile, since a kernel with a race must not
        // be undefined on top of it.
        unsafe {
            let weakly = self.0.load_weakly(address.cast(), T::BYTES, hint);
            weakly.map_or_else(|| address.read_volatile(), T::truncate)
        }
    }
    #[inline(never)]
    #[track_caller]
    unsafe fn load_vector<T: Word>(self, from: Global<T>, index: u64, hint: Hint) -> T::Vector {
        let address = from.as_ptr().wrapping_add(index as usize);
        self.0.before_load(address.addr(), 16, hint, Location::caller());
        // SAFETY: as in `load`; a vector is 16 bytes, and as aligned as its words at most.
        let mut vector = unsafe { address.cast::<T::Vector>().read_volatile() };
        let words = bytemuck::bytes_of_mut(&mut vector).chunks_exact_mut(T::BYTES);
        for (word, index) in words.zip(0..) {
            // SAFETY: as above. Its words are read one by one: a vector is not atomic.
            if let Some(value) = unsafe { self.0.load_weakly(address.wrapping_add(index).cast(), T::BYTES, hint) } {
                word.copy_from_slice(&value.to_ne_bytes()[..T::BYTES]);
            }
        }
        vector
    }
    #[inline(never)]
    unsafe fn store<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, _: Hint) {
        let address = to.as_ptr().wrapping_add(index as usize);
        self.0.before_store(address.addr(), T::BYTES);
        // SAFETY: as in `load`, and the buffer is writable.
        unsafe {
            if !self.0.store_weakly(address.cast(), T::BYTES, value.widen()) {
                address.write_volatile(value);
            }
        }
    }
    #[inline(never)]
    unsafe fn store_vector<T: Word>(self, to: GlobalMut<T>, index: u64, value: T::Vector, _: Hint) {
        let address = to.as_ptr().wrapping_add(index as usize);
        self.0.before_store(address.addr(), 16);
        // SAFETY: as in `load_vector`, and the buffer is writable.
        unsafe {
            for (index, word) in value.as_ref().iter().enumerate() {
                if !self.0.store_weakly(address.wrapping_add(index).cast(), T::BYTES, word.widen()) {
                    address.cast::<T::Vector>().write_volatile(value);
                    break;
                }
            }
        }
    }
    #[inline]
    fn prefetch<T: Word>(self, _: Global<T>, _: u64) {}

    #[inline(never)]
    unsafe fn atomic_load<T: Word>(self, from: GlobalMut<T>, index: u64, order: Order, _: Scope) -> T {
        // SAFETY: the same contract.
        unsafe { self.0.atomic_at(from, index, (Operation::Load, 0), order) }
    }
    #[inline(never)]
    unsafe fn atomic_store<T: Word>(self, to: GlobalMut<T>, index: u64, value: T, order: Order, _: Scope) {
        // SAFETY: the same contract.
        unsafe { self.0.atomic_at(to, index, (Operation::Store, value.widen()), order) };
    }
    read_modify_write! {
        atomic_add = Add;
        atomic_max = Max;
        atomic_min = Min;
        atomic_or = Or;
        atomic_exchange = Exchange;
    }
    #[inline(never)]
    unsafe fn atomic_compare_exchange<T: Word>(
        self,
        to: GlobalMut<T>,
        index: u64,
        expected: T,
        new: T,
        order: Order,
        _: Scope,
    ) -> T {
        let operation = (Operation::CompareExchange(expected.widen()), new.widen());
        // SAFETY: the same contract.
        unsafe { self.0.atomic_at(to, index, operation, order) }
    }
    fn fence(self, _: Scope) {
        self.0.fence();
    }
    fn opaque<T: Word>(self, value: T) -> T {
        value
    }

    fn spin_hint(self) {
        self.0.spin();
    }
}
