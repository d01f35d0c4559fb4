//! The kernels of removals.

use crate::contents::offsets_of;
use crate::gather::{RowsOf, over_outputs};
use crate::places::each;
use lanetree_frame::{Buffer, Result, Stream};
use lanetree_kernels_multimap::{
    CompactArgs, CountKeptArgs, KeepArgs, MarkKeysArgs, MatchArgs, RemovePairsArgs, calls, layout,
};
use lanetree_layout::Word;

/// Takes all values from the keys of a batch: `counts` becomes 0 at the rank of each that has a place.
pub(crate) fn mark_keys(
    stream: &Stream,
    (places, ranks): (&Buffer<u64>, &Buffer<u64>),
    count: usize,
    counts: &mut Buffer<u64>,
    keys: usize,
) -> Result<()> {
    assert!(places.len() >= count && ranks.len() >= count && counts.len() >= keys);
    if count == 0 {
        return Ok(());
    }
    let args = MarkKeysArgs {
        places: places.read_on(stream)?,
        ranks: ranks.read_on(stream)?,
        count: count as u64,
        counts: counts.write_on(stream)?,
        keys: keys as u64,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::mark_keys(&args)) }?)
}

/// Flags the first `count` counts that are not 0.
pub(crate) fn keep(stream: &Stream, counts: &Buffer<u64>, count: usize) -> Result<Buffer<u32>> {
    assert!(counts.len() >= count);
    let mut flags = stream.device().alloc(count.div_ceil(32))?;
    if count == 0 {
        return Ok(flags);
    }
    let args = KeepArgs { counts: counts.read_on(stream)?, count: count as u64, flags: flags.write_on(stream)? };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    unsafe { each(stream, count)?.run(calls::keep(&args)) }?;
    Ok(flags)
}

/// A batch of pairs on the device: see [`Wanted`](crate::wanted::Wanted).
pub(crate) struct WantedValues<V> {
    pub(crate) offsets: Buffer<u64>,
    pub(crate) values: Buffer<V>,
    pub(crate) times: Buffer<u64>,
    pub(crate) rows: Buffer<u64>,
}

/// Values that equal wanted ones: which, where, and the flags of those that do.
pub(crate) struct Matches {
    pub(crate) wanted: Buffer<u64>,
    pub(crate) positions: Buffer<u64>,
    pub(crate) hits: Buffer<u32>,
}

/// Compares the `total` values of rows, which have places, with those that are wanted of each.
pub(crate) fn match_values<V: Word>(
    stream: &Stream,
    values: &Buffer<V>,
    rows: RowsOf<'_>,
    total: usize,
    wanted: &WantedValues<V>,
) -> Result<Matches> {
    assert!(rows.shift == layout::COUNT_BITS && rows.begins.len() >= rows.rows && rows.offsets.len() > rows.rows);
    assert!(wanted.offsets.len() > rows.rows);
    let device = stream.device();
    let mut found = Matches {
        wanted: device.alloc(total)?,
        positions: device.alloc(total)?,
        hits: device.alloc(total.div_ceil(32))?,
    };
    if total == 0 || rows.rows == 0 {
        return Ok(found);
    }
    let args = MatchArgs {
        places: rows.begins.read_on(stream)?,
        offsets: rows.offsets.read_on(stream)?,
        rows: rows.rows as u64,
        values: values.read_on(stream)?,
        len: values.len() as u64,
        wanted_offsets: wanted.offsets.read_on(stream)?,
        wanted: wanted.values.read_on(stream)?,
        wanted_len: wanted.values.len() as u64,
        total: total as u64,
        matches: found.wanted.write_on(stream)?,
        positions: found.positions.write_on(stream)?,
        hits: found.hits.write_on(stream)?,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    unsafe { over_outputs(stream, total)?.run(calls::match_values(&args)) }?;
    Ok(found)
}

/// Of `count` matches in ascending order, removes the first ones of each wanted value: flags them in `removed`, and counts
/// them down in `counts`, which is by the ranks of keys.
pub(crate) fn remove_pairs<V: Word>(
    stream: &Stream,
    (matches, positions, count): (&Buffer<u64>, &Buffer<u64>, usize),
    wanted: &WantedValues<V>,
    ranks: &Buffer<u64>,
    (counts, keys): (&mut Buffer<u64>, usize),
    (removed, len): (&mut Buffer<u32>, usize),
) -> Result<()> {
    assert!(matches.len() >= count && positions.len() >= count && counts.len() >= keys);
    assert!(wanted.times.len() == wanted.values.len() && wanted.rows.len() == wanted.values.len());
    assert!(removed.len() >= len.div_ceil(32));
    if count == 0 {
        return Ok(());
    }
    let args = RemovePairsArgs {
        matches: matches.read_on(stream)?,
        positions: positions.read_on(stream)?,
        count: count as u64,
        times: wanted.times.read_on(stream)?,
        rows: wanted.rows.read_on(stream)?,
        wanted_len: wanted.values.len() as u64,
        ranks: ranks.read_on(stream)?,
        counts: counts.write_on(stream)?,
        keys: keys as u64,
        removed: removed.write_on(stream)?,
        len: len as u64,
    };
    // SAFETY: the lengths were checked, and rows are numbers of keys, each of which has a rank; the pointers are for this
    // stream.
    Ok(unsafe { each(stream, count)?.run(calls::remove_pairs(&args)) }?)
}

/// The values, of the first `len`, whose bit in `removed` is not set, in a buffer with the positions that a map of this
/// number of values has; and how many values they are. Waits for the stream.
pub(crate) fn compact<V: Word>(
    stream: &Stream,
    (values, len): (&Buffer<V>, usize),
    removed: &Buffer<u32>,
    positions: impl FnOnce(usize) -> usize,
) -> Result<(Buffer<V>, u64)> {
    let device = stream.device();
    let words = len.div_ceil(32);
    assert!(removed.len() >= words);
    let mut counts = device.alloc::<u32>(words)?;
    if words > 0 {
        count_kept(stream, removed, len, &mut counts)?;
    }
    let before = offsets_of(stream, &counts, words)?;
    let kept = crate::contents::read(&before, words)? as usize;
    let mut out = device.alloc(positions(kept))?;
    if kept == 0 {
        return Ok((out, 0));
    }
    let args = CompactArgs {
        removed: removed.read_on(stream)?,
        before: before.read_on(stream)?,
        values: values.read_on(stream)?,
        len: len as u64,
        out: out.write_on(stream)?,
        out_len: kept as u64,
    };
    // SAFETY: the lengths were checked, and there is a sum for each word; the pointers are for this stream.
    unsafe { each(stream, len)?.run(calls::compact(&args)) }?;
    Ok((out, kept as u64))
}

/// Counts the values of each word that stay.
fn count_kept(stream: &Stream, removed: &Buffer<u32>, len: usize, counts: &mut Buffer<u32>) -> Result<()> {
    let args = CountKeptArgs { removed: removed.read_on(stream)?, len: len as u64, counts: counts.write_on(stream)? };
    // SAFETY: the caller has a bit for each value, and a count for each word; the pointers are for this stream.
    Ok(unsafe { each(stream, len.div_ceil(32))?.run(calls::count_kept(&args)) }?)
}
