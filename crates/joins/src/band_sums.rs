//! The band join.

use crate::check;
use lanetree::lane_tree::shape_for_rows;
use lanetree::{Buffer, Key, LaneTree, Result, Stream, Value};
use lanetree_kernels_joins::{BandSumsArgs, MOST_THREADS, calls};

/// A band of keys for each row, on the device.
#[derive(Clone, Copy, Debug)]
pub struct Bands<'a, K> {
    /// The lowest key of each.
    pub lows: &'a Buffer<K>,
    /// The first key past each; a band whose end is not above its lowest key is empty.
    pub ends: &'a Buffer<K>,
}

/// What a row gets, on the device.
#[derive(Debug)]
pub struct Sums<'a, K> {
    /// Out: the sum of the values of each row's pairs, wrapping.
    pub sums: &'a mut Buffer<u64>,
    /// Out: the key of the last of these pairs; not changed for a row that has none.
    pub last_keys: &'a mut Buffer<K>,
}

/// Sums the values of the first `limit` pairs in each row's band, or counts the keys of a [set](lanetree::LaneSet::as_tree). Allocates nothing, waits for nothing, and may return before
/// it is done.
///
/// # Errors
/// As [`semi_join`](crate::semi_join()).
pub fn band_sums<K: Key, V: Value>(
    stream: &Stream,
    index: &LaneTree<K, V>,
    bands: Bands<'_, K>,
    limit: u64,
    out: Sums<'_, K>,
) -> Result<()> {
    let count = bands.lows.len();
    check("the buffer of the bands' ends", count, bands.ends)?;
    check("the sums' buffer", count, out.sums)?;
    check("the buffer of the last keys", count, out.last_keys)?;
    let args = BandSumsArgs {
        index: index.handle_on(stream)?,
        lows: bands.lows.read_on(stream)?.cast::<K::Bits>(),
        ends: bands.ends.read_on(stream)?.cast(),
        count: count as u64,
        limit,
        sums: out.sums.write_on(stream)?,
        last_keys: out.last_keys.write_on(stream)?.cast(),
    };
    let shape = shape_for_rows(stream, args.count, MOST_THREADS, |threads| args.index.shared_bytes(threads))?;
    // SAFETY: as in `semi_join`.
    Ok(unsafe { stream.call(shape, calls::band_sums(&args)) }?)
}
