//! The launches of a sort.

use super::TICKETS;
use lanetree_base::{Error, KeyWord, Result, Stream, Word};
use lanetree_kernels_primitives::calls::{histogram, offsets, onesweep, small_sort, threads, tile};
use lanetree_kernels_primitives::radix_sort::{
    Digits, HISTOGRAM_THREADS, HISTOGRAM_TILE, HistogramArgs, MAX_PASSES, OffsetsArgs, OnesweepArgs, RADIX, SMALL_SORT,
    SmallSortArgs,
};
use lanetree_runtime::Launch;
use lanetree_simt::{Global, GlobalMut, LaunchShape, WARP};

/// Blocks of the histogram on a multiprocessor.
const HISTOGRAM_BLOCKS: u64 = 4;

/// The buffers between which a sort's passes alternate.
pub(super) struct Arrays<K, V> {
    pub(super) input: (Global<K>, Global<V>),
    /// Where the last pass ends.
    pub(super) output: (GlobalMut<K>, GlobalMut<V>),
    /// Where the last but one does.
    pub(super) spare: (GlobalMut<K>, GlobalMut<V>),
}

impl<K: KeyWord, V: Word> Arrays<K, V> {
    /// The first pass writes to the spare buffers, so an odd number of passes ends there.
    pub(super) fn in_place(
        own: (GlobalMut<K>, GlobalMut<V>),
        spare: (GlobalMut<K>, GlobalMut<V>),
        passes: u32,
    ) -> Self {
        let (output, other) = if passes.is_multiple_of(2) { (own, spare) } else { (spare, own) };
        Self { input: (own.0.as_const(), own.1.as_const()), output, spare: other }
    }

    /// The keys' arrays alone.
    pub(super) fn keys(&self) -> Arrays<K, u32> {
        Arrays {
            input: (self.input.0, Global::null()),
            output: (self.output.0, GlobalMut::null()),
            spare: (self.spare.0, GlobalMut::null()),
        }
    }
}

/// Where a sort counts.
pub(super) struct Counters {
    /// `[MAX_PASSES + 2][RADIX]`, zeros.
    pub(super) counts: GlobalMut<u64>,
    /// Tile counters, followed by states for each tile and digit.
    pub(super) states: GlobalMut<u32>,
}

impl Counters {
    /// Row `row` of the counts.
    fn offsets(&self, row: u32) -> GlobalMut<u64> {
        self.counts.byte_add(8 * u64::from(row) * u64::from(RADIX))
    }
}

/// Whether a sort of `len` elements takes one launch.
pub(crate) fn is_small(len: usize) -> bool {
    len <= SMALL_SORT as usize
}

/// A sort whose buffers were checked.
pub(super) struct Sort<'a, K> {
    pub(super) stream: &'a Stream,
    pub(super) len: u64,
    pub(super) digits: Digits,
    pub(super) flip: K,
    /// The bits by which to sort.
    pub(super) mask: K,
    /// None for few elements, which are not counted.
    pub(super) counters: Option<Counters>,
    pub(super) multiprocessors: u32,
    /// The most elements of a launch.
    pub(super) portion: u64,
}

impl<K: KeyWord> Sort<'_, K> {
    /// Sorts keys alone.
    ///
    /// # Safety
    /// As [`Sort::pairs`].
    pub(super) unsafe fn keys(&self, arrays: &Arrays<K, u32>) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.run(arrays, false) }
    }

    /// Sorts pairs; without input values, the values are the elements' positions.
    ///
    /// # Safety
    /// The arrays have the sort's elements each, of which the spare ones only matter with two passes or more, and the
    /// sort's stream may read the input and write the others; so it may the counters, which are for as many elements.
    pub(super) unsafe fn pairs<V: Word>(&self, arrays: &Arrays<K, V>) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.run(arrays, true) }
    }

    /// # Safety
    /// As [`Sort::pairs`].
    unsafe fn run<V: Word>(&self, arrays: &Arrays<K, V>, pairs: bool) -> Result<()> {
        let Some(counters) = &self.counters else {
            // SAFETY: the caller's contract.
            return unsafe { self.small(arrays, pairs) };
        };
        let tile = tile::<K, V>(pairs);
        let tiles = self.len.div_ceil(tile);
        let passes = self.digits.passes();
        // SAFETY: the caller's contract.
        unsafe {
            self.histogram(counters, arrays.input.0, tiles)?;
            self.launch(passes, RADIX).run(offsets(&OffsetsArgs { counts: counters.counts }))?;
        }
        let mut from = arrays.input;
        for pass in 0..passes {
            let to = if (passes - pass) % 2 == 1 { arrays.output } else { arrays.spare };
            let mut args = OnesweepArgs {
                keys: from.0,
                keys_out: to.0,
                values: from.1,
                values_out: to.1,
                len: self.len,
                offsets: counters.offsets(pass).as_const(),
                next_offsets: GlobalMut::null(),
                states: counters.states.byte_add(4 * TICKETS as u64),
                ticket: counters.states.byte_add(4 * u64::from(pass)),
                first_tile: 0,
                parity: pass % 2,
                digit: self.digits.digit(pass),
                flip: self.flip,
            };
            let per_launch = (self.portion / tile).max(1);
            for (launch, first) in (0..tiles).step_by(per_launch as usize).enumerate() {
                args.first_tile = first as u32;
                let blocks = (tiles - first).min(per_launch);
                let is_last = first + blocks == tiles;
                // Two slots for the offsets; launches alternate between them.
                args.next_offsets =
                    if is_last { GlobalMut::null() } else { counters.offsets(MAX_PASSES as u32 + launch as u32 % 2) };
                // SAFETY: the caller's contract. Positions come from the histogram of the same keys, which nobody else
                // writes meanwhile: so they lie inside the outputs.
                unsafe { self.launch(blocks as u32, threads::<K, V>(pairs)).run(onesweep(pairs, &args))? };
                args.offsets = args.next_offsets.as_const();
            }
            from = (to.0.as_const(), to.1.as_const());
        }
        Ok(())
    }

    /// Sorts in one launch.
    ///
    /// # Safety
    /// As [`Sort::pairs`]; [few](is_small) elements.
    unsafe fn small<V: Word>(&self, arrays: &Arrays<K, V>, pairs: bool) -> Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let len = self.len as u32;
        let args = SmallSortArgs {
            keys: arrays.input.0,
            keys_out: arrays.output.0,
            values: arrays.input.1,
            values_out: arrays.output.1,
            len,
            flip: self.flip,
            mask: self.mask,
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { self.launch(1, len.next_multiple_of(WARP)).run(small_sort(pairs, &args)) }?)
    }

    /// # Safety
    /// As [`Sort::pairs`].
    unsafe fn histogram(&self, counters: &Counters, keys: Global<K>, tiles: u64) -> Result<()> {
        let args = HistogramArgs {
            keys,
            len: self.len,
            counts: counters.counts,
            states: counters.states,
            states_len: TICKETS as u64 + tiles * u64::from(RADIX),
            flip: self.flip,
            passes: self.digits.passes(),
            digits: core::array::from_fn(|pass| self.digits.digit(pass as u32)),
        };
        let most = HISTOGRAM_BLOCKS * u64::from(self.multiprocessors.max(1));
        let blocks = self.len.div_ceil(HISTOGRAM_TILE).min(most).max(self.len.div_ceil(1 << 31));
        let blocks = u32::try_from(blocks).map_err(|_| Error::TooManyElements { elements: self.len as usize })?;
        // SAFETY: the caller's contract.
        Ok(unsafe { self.launch(blocks, HISTOGRAM_THREADS).run(histogram(&args)) }?)
    }

    fn launch(&self, blocks: u32, threads: u32) -> Launch<'_> {
        Launch::new(self.stream, LaunchShape { blocks, threads, dynamic_shared: 0 })
    }
}

/// The fewest elements of a block, with or without values.
pub(super) fn smallest_tile<K: KeyWord, V: Word>() -> u64 {
    tile::<K, V>(false).min(tile::<K, V>(true))
}

/// The elements of a block of a pass over keys alone.
pub(super) fn tile_of_keys<K: KeyWord>() -> u64 {
    tile::<K, u32>(false)
}
