//! The launches of a sort.

use super::TICKETS;
use crate::{Error, Result, Stream, Word};
use lanetree_kernels_primitives::radix_sort::{
    Digits, HISTOGRAM_THREADS, HISTOGRAM_TILE, HistogramArgs, HistogramU32, HistogramU64, MAX_PASSES, Offsets,
    OffsetsArgs, OnesweepArgs, OnesweepU32, OnesweepU32U32, OnesweepU32U64, OnesweepU64, OnesweepU64U32,
    OnesweepU64U64, RADIX,
};
use lanetree_simt::{Global, GlobalMut, LaunchShape, same_args};

/// Blocks of the histogram on a multiprocessor.
const HISTOGRAM_BLOCKS: u64 = 4;

/// The buffers between which a sort goes to and fro.
pub(super) struct Arrays<K, V> {
    pub(super) input: (Global<K>, Global<V>),
    /// Where the last pass ends.
    pub(super) output: (GlobalMut<K>, GlobalMut<V>),
    /// Where the last but one does.
    pub(super) spare: (GlobalMut<K>, GlobalMut<V>),
}

impl<K: Word, V: Word> Arrays<K, V> {
    /// The first pass goes to the spare buffers, so an odd number of passes ends there.
    pub(super) fn in_place(
        own: (GlobalMut<K>, GlobalMut<V>),
        spare: (GlobalMut<K>, GlobalMut<V>),
        passes: u32,
    ) -> Self {
        let (output, other) = if passes.is_multiple_of(2) { (own, spare) } else { (spare, own) };
        Self { input: (own.0.as_const(), own.1.as_const()), output, spare: other }
    }
}

/// Where a sort counts.
pub(super) struct Counters {
    /// `[MAX_PASSES + 2][RADIX]`, zeros.
    pub(super) counts: GlobalMut<u64>,
    /// Tickets, and then states for each tile and digit.
    pub(super) states: GlobalMut<u32>,
}

/// A sort whose buffers were checked.
pub(super) struct Sort<'a, K> {
    pub(super) stream: &'a Stream,
    pub(super) len: u64,
    pub(super) digits: Digits,
    pub(super) flip: K,
    pub(super) counters: Counters,
    pub(super) multiprocessors: u32,
    /// The most elements of a launch.
    pub(super) portion: u64,
}

impl<K: Word> Sort<'_, K> {
    /// Sorts keys alone.
    pub(super) fn keys(&self, arrays: &Arrays<K, u32>) -> Result<()> {
        self.run(arrays, false)
    }

    /// Sorts pairs; where there are no input values, the elements' positions are.
    pub(super) fn pairs<V: Word>(&self, arrays: &Arrays<K, V>) -> Result<()> {
        self.run(arrays, true)
    }

    fn run<V: Word>(&self, arrays: &Arrays<K, V>, pairs: bool) -> Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let tile = tile::<K, V>(pairs);
        let tiles = self.len.div_ceil(tile);
        let passes = self.digits.passes();
        self.histogram(arrays.input.0, tiles)?;
        let shape = LaunchShape { blocks: passes, threads: RADIX, dynamic_shared: 0 };
        // SAFETY: the counts are of at least as many passes.
        unsafe { self.stream.launch::<Offsets>(shape, &OffsetsArgs { counts: self.counters.counts }) }?;
        let mut from = arrays.input;
        for pass in 0..passes {
            let to = if (passes - pass) % 2 == 1 { arrays.output } else { arrays.spare };
            let mut args = OnesweepArgs {
                keys: from.0,
                keys_out: to.0,
                values: from.1,
                values_out: to.1,
                len: self.len,
                offsets: self.offsets(pass).as_const(),
                next_offsets: GlobalMut::null(),
                states: self.counters.states.byte_add(4 * TICKETS as u64),
                ticket: self.counters.states.byte_add(4 * u64::from(pass)),
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
                // Two places for the offsets to and from which launches take turns.
                args.next_offsets =
                    if is_last { GlobalMut::null() } else { self.offsets(MAX_PASSES as u32 + launch as u32 % 2) };
                onesweep(self.stream, blocks as u32, pairs, &args)?;
                args.offsets = args.next_offsets.as_const();
            }
            from = (to.0.as_const(), to.1.as_const());
        }
        Ok(())
    }

    /// Row `row` of the counts.
    fn offsets(&self, row: u32) -> GlobalMut<u64> {
        self.counters.counts.byte_add(8 * u64::from(row) * u64::from(RADIX))
    }

    fn histogram(&self, keys: Global<K>, tiles: u64) -> Result<()> {
        let args = HistogramArgs {
            keys,
            len: self.len,
            counts: self.counters.counts,
            states: self.counters.states,
            states_len: TICKETS as u64 + tiles * u64::from(RADIX),
            flip: self.flip,
            passes: self.digits.passes(),
            digits: core::array::from_fn(|pass| self.digits.digit(pass as u32)),
        };
        let most = HISTOGRAM_BLOCKS * u64::from(self.multiprocessors.max(1));
        let blocks = self.len.div_ceil(HISTOGRAM_TILE).min(most).max(self.len.div_ceil(1 << 31));
        let blocks = u32::try_from(blocks).map_err(|_| Error::TooManyElements { elements: self.len as usize })?;
        match K::BITS {
            32 => kernels::histogram_u32(self.stream, blocks, same_args(&args)),
            _ => kernels::histogram_u64(self.stream, blocks, same_args(&args)),
        }
    }
}

/// The launches themselves, without type parameters: kernels are compiled with this crate, not with the
/// crates that name a sort's types.
mod kernels {
    use super::*;

    macro_rules! launches {
        ($($function:ident, $kernel:ty, $args:ty, $threads:expr;)*) => {$(
            #[inline(never)]
            pub(super) fn $function(stream: &Stream, blocks: u32, args: &$args) -> Result<()> {
                let shape = LaunchShape { blocks, threads: $threads, dynamic_shared: 0 };
                // SAFETY: the callers of this module's parent check the buffers' lengths and that they are of
                // the stream's device; dropping one waits.
                Ok(unsafe { stream.launch::<$kernel>(shape, args) }?)
            }
        )*};
    }
    launches! {
        histogram_u32, HistogramU32, HistogramArgs<u32>, HISTOGRAM_THREADS;
        histogram_u64, HistogramU64, HistogramArgs<u64>, HISTOGRAM_THREADS;
        u32_keys, OnesweepU32, OnesweepArgs<u32, u32>, OnesweepU32::THREADS;
        u64_keys, OnesweepU64, OnesweepArgs<u64, u32>, OnesweepU64::THREADS;
        u32_u32, OnesweepU32U32, OnesweepArgs<u32, u32>, OnesweepU32U32::THREADS;
        u32_u64, OnesweepU32U64, OnesweepArgs<u32, u64>, OnesweepU32U64::THREADS;
        u64_u32, OnesweepU64U32, OnesweepArgs<u64, u32>, OnesweepU64U32::THREADS;
        u64_u64, OnesweepU64U64, OnesweepArgs<u64, u64>, OnesweepU64U64::THREADS;
    }
}

/// Launches a pass, or a portion of it. Sorts of keys alone have values of 32 bits, which do not matter.
fn onesweep<K: Word, V: Word>(stream: &Stream, blocks: u32, pairs: bool, args: &OnesweepArgs<K, V>) -> Result<()> {
    match (K::BITS, pairs, V::BITS) {
        (32, false, _) => kernels::u32_keys(stream, blocks, same_args(args)),
        (_, false, _) => kernels::u64_keys(stream, blocks, same_args(args)),
        (32, true, 32) => kernels::u32_u32(stream, blocks, same_args(args)),
        (32, true, _) => kernels::u32_u64(stream, blocks, same_args(args)),
        (_, true, 32) => kernels::u64_u32(stream, blocks, same_args(args)),
        (_, true, _) => kernels::u64_u64(stream, blocks, same_args(args)),
    }
}

/// Elements of a block of the kernel that [`onesweep`] launches.
pub(super) fn tile<K: Word, V: Word>(pairs: bool) -> u64 {
    u64::from(match (K::BITS, pairs, V::BITS) {
        (32, false, _) => OnesweepU32::TILE,
        (_, false, _) => OnesweepU64::TILE,
        (32, true, 32) => OnesweepU32U32::TILE,
        (32, true, _) => OnesweepU32U64::TILE,
        (_, true, 32) => OnesweepU64U32::TILE,
        (_, true, _) => OnesweepU64U64::TILE,
    })
}

/// The fewest elements of a block, with or without values.
pub(super) fn smallest_tile<K: Word, V: Word>() -> u64 {
    tile::<K, V>(false).min(tile::<K, V>(true))
}
