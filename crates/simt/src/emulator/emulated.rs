//! What a thread can do: [`Simt`] on the CPU.

use super::fault::Collective;
use super::lane::Lane;
use super::operation::Operation;
use super::shared::Accessor;
use crate::{Global, GlobalMut, Hint, Order, Scope, Shared, Simt};
use core::panic::Location;
use lanetree_layout::{KeyWord, Word};

/// A thread of an emulated block.
#[derive(Clone, Copy)]
pub struct Emulated<'a>(&'a Lane<'a>);

impl core::fmt::Debug for Emulated<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Emulated[block {}, thread {}]", self.0.block.index.get(), self.0.thread)
    }
}

impl<'a> Emulated<'a> {
    pub(super) fn new(lane: &'a Lane<'a>) -> Self {
        Self(lane)
    }
}

impl Lane<'_> {
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

/// Calls a collective for a word: once more for the high part of one of 128 bits, as hardware does for every 32.
#[inline]
fn parts<T: KeyWord>(value: T, collective: impl Fn(u64) -> u64) -> T {
    let [low, high] = value.parts();
    let low = collective(low);
    T::from_parts([low, if T::BITS == 128 { collective(high) } else { 0 }])
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
    fn shuffle<T: KeyWord>(self, mask: u32, value: T, source: u32) -> T {
        let location = Location::caller();
        parts(value, |part| self.0.meet(Collective::Shuffle, mask, part, source, location))
    }
    #[track_caller]
    fn shuffle_xor<T: KeyWord>(self, mask: u32, value: T, lanes: u32) -> T {
        let location = Location::caller();
        parts(value, |part| self.0.meet(Collective::ShuffleXor, mask, part, lanes, location))
    }
    #[track_caller]
    fn shuffle_up<T: KeyWord>(self, mask: u32, value: T, delta: u32) -> T {
        let location = Location::caller();
        parts(value, |part| self.0.meet(Collective::ShuffleUp, mask, part, delta, location))
    }
    #[track_caller]
    fn shuffle_down<T: KeyWord>(self, mask: u32, value: T, delta: u32) -> T {
        let location = Location::caller();
        parts(value, |part| self.0.meet(Collective::ShuffleDown, mask, part, delta, location))
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
    unsafe fn shared_load<T: KeyWord>(self, array: Shared<T>, index: u32) -> T {
        self.0.checked(self.0.block.shared.load(array, index, self.0.accessor()))
    }
    #[inline(never)]
    unsafe fn shared_store<T: KeyWord>(self, array: Shared<T>, index: u32, value: T) {
        self.0.checked(self.0.block.shared.store(array, index, value, self.0.accessor()));
    }
    #[inline(never)]
    unsafe fn shared_atomic_add(self, array: Shared<u32>, index: u32, value: u32) -> u32 {
        self.0.maybe_pause();
        self.0.checked(self.0.block.shared.add(array, index, value, self.0.accessor()))
    }

    #[inline(never)]
    #[track_caller]
    unsafe fn load<T: KeyWord>(self, from: Global<T>, index: u64, hint: Hint) -> T {
        if T::BITS == 128 {
            // SAFETY: the same contract.
            return T::from_parts(unsafe { self.load_vector(from.cast::<u64>(), 2 * index, hint) });
        }
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
    unsafe fn load_vector<T: KeyWord>(self, from: Global<T>, index: u64, hint: Hint) -> T::Vector {
        if T::BITS == 128 {
            // SAFETY: the same contract.
            return bytemuck::cast(unsafe { self.load_vector(from.cast::<u64>(), 2 * index, hint) });
        }
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
    unsafe fn store<T: KeyWord>(self, to: GlobalMut<T>, index: u64, value: T, hint: Hint) {
        if T::BITS == 128 {
            // SAFETY: the same contract.
            return unsafe { self.store_vector(to.cast::<u64>(), 2 * index, value.parts(), hint) };
        }
        let address = to.as_ptr().wrapping_add(index as usize);
        self.0.before_store(address.addr(), T::BYTES);
        // SAFETY: as in `load`, and the buffer is writable.
        unsafe {
            if !self.0.store_weakly(address.cast(), T::BYTES, value.parts()[0]) {
                address.write_volatile(value);
            }
        }
    }
    #[inline(never)]
    unsafe fn store_vector<T: KeyWord>(self, to: GlobalMut<T>, index: u64, value: T::Vector, hint: Hint) {
        if T::BITS == 128 {
            // SAFETY: the same contract.
            return unsafe { self.store_vector(to.cast::<u64>(), 2 * index, bytemuck::cast(value), hint) };
        }
        let address = to.as_ptr().wrapping_add(index as usize);
        self.0.before_store(address.addr(), 16);
        // SAFETY: as in `load_vector`, and the buffer is writable.
        unsafe {
            for (index, word) in value.as_ref().iter().enumerate() {
                if !self.0.store_weakly(address.wrapping_add(index).cast(), T::BYTES, word.parts()[0]) {
                    address.cast::<T::Vector>().write_volatile(value);
                    break;
                }
            }
        }
    }
    #[inline]
    fn prefetch<T: KeyWord>(self, _: Global<T>, _: u64) {}

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
    fn opaque<T: KeyWord>(self, value: T) -> T {
        value
    }

    fn spin_hint(self) {
        self.0.spin();
    }
}
