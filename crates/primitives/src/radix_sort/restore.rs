//! Moving keys by one digit and what was computed for them back: for batches of queries that are answered in the order of the digit.

use super::launch::tile_of_keys;
use super::{MAX_PORTION, RadixSortScratch, is_small, require};
use crate::radix_sort::launch::Arrays;
use core::ops::Range;
use lanetree_base::{AnyKey, Result, Stream, Word};
use lanetree_kernels_primitives::calls::{restore, threads};
use lanetree_kernels_primitives::radix_sort::{DIGIT_BITS, Digits, RestoreArgs};
use lanetree_runtime::Launch;
use lanetree_simt::{Global, GlobalMut, LaunchShape};

/// An array in the order of sorted keys, and where it goes in the order of the keys themselves; nulls if there is none.
#[derive(Clone, Copy, Debug)]
pub struct Restored<T> {
    /// In the order of the sorted keys.
    pub sorted: Global<T>,
    /// Out: in the order of the keys.
    pub out: GlobalMut<T>,
}

impl<T> Restored<T> {
    /// No array.
    pub const NONE: Self = Self { sorted: Global::null(), out: GlobalMut::null() };
}

/// Keys that were moved by one digit.
#[derive(Debug)]
pub struct Moved<K: AnyKey> {
    keys: Global<K::Bits>,
    len: usize,
    bits: Range<u32>,
}

/// Whether so many keys can be moved by one digit and back.
pub fn can_be_moved(len: u64) -> bool {
    len <= MAX_PORTION && !is_small(len as usize)
}

impl<K: AnyKey> RadixSortScratch<K> {
    /// Moves keys into the order of at most 8 of their bits, stably.
    ///
    /// # Errors
    /// [`Error::OutputLength`](lanetree_base::Error::OutputLength) for too little scratch memory;
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) from the launches.
    ///
    /// # Safety
    /// There are as many keys, and as much room for the sorted ones; the stream may read and write them. They
    /// [can be moved](can_be_moved).
    pub unsafe fn move_keys(
        &mut self,
        stream: &Stream,
        keys: Global<K::Bits>,
        len: usize,
        bits: Range<u32>,
        sorted: GlobalMut<K::Bits>,
    ) -> Result<Moved<K>> {
        debug_assert!(bits.len() as u32 <= DIGIT_BITS && can_be_moved(len as u64), "{bits:?} {len}");
        self.require(stream, len, false, false)?;
        let none = (GlobalMut::null(), GlobalMut::null());
        let arrays = Arrays { input: (keys, Global::null()), output: (sorted, none.1), spare: none };
        // SAFETY: the caller's promise; one pass needs no spare buffers.
        unsafe { self.run(stream, len, bits.clone(), MAX_PORTION, &arrays, false)? };
        Ok(Moved { keys, len, bits })
    }

    /// Puts arrays that were made of the moved keys into the order of the keys.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) from the launch.
    ///
    /// # Safety
    /// This memory moved these keys last, which are still the same; the arrays have an element for each, or of bits a word for each 32,
    /// and the stream may read and write them.
    pub unsafe fn restore<V: Word>(
        &mut self,
        stream: &Stream,
        moved: &Moved<K>,
        values: Restored<V>,
        others: Restored<K::Bits>,
        bits: Restored<u32>,
    ) -> Result<()> {
        require(stream, "the radix sort's scratch memory", 0, &self.states)?;
        let args = RestoreArgs {
            keys: moved.keys,
            len: moved.len as u64,
            offsets: self.counts.read_on(stream)?,
            states: self.states.read_on(stream)?.skip(super::TICKETS as u64),
            digit: Digits::of(moved.bits.clone()).digit(0),
            flip: K::FLIP,
            values: values.sorted,
            values_out: values.out,
            others: others.sorted,
            others_out: others.out,
            bits: bits.sorted,
            bits_out: bits.out,
        };
        let blocks = args.len.div_ceil(tile_of_keys::<K::Bits>()) as u32;
        let shape = LaunchShape { blocks, threads: threads::<K::Bits, u32>(false), dynamic_shared: 0 };
        // SAFETY: the caller's promise; the states and offsets are those of a pass in one launch over the same keys.
        Ok(unsafe { Launch::new(stream, shape).run(restore(&args)) }?)
    }
}
