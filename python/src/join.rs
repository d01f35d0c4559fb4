//! Joins of a device's arrays: what look-ups of probes have found, as columns.

use crate::arguments::Asked;
use crate::buffers::{alloc, part, read};
use crate::errors::{raise, raise_runtime};
use crate::memory::Memory;
use crate::types::PyValue;
use crate::words::Words;
use lanetree::bindings::{put_misses, settle_hits, unpack_bits};
use lanetree::primitives::{BuildScratch, KeysMut, SelectScratch, select_numbers};
use lanetree::{AsOf, Buffer, FixedIndex, JoinKind, LaneSet, OnStream, Stream, mask_hits};
use pyo3::prelude::*;

/// The numbers of probes, the values of their matches, and whether there is one.
pub(crate) type Joined = (Memory, Option<Memory>, Option<Memory>);

/// The numbers of the probes whose bit is set, or of all, in ascending order. Waits, to learn how many there are.
pub(crate) fn numbers_of(stream: &Stream, hits: Option<&Buffer<u32>>, count: usize) -> PyResult<Buffer<u64>> {
    let device = stream.device();
    let mut found = device.alloc(count).map_err(raise_runtime)?;
    let mut total = device.alloc(1).map_err(raise_runtime)?;
    let mut scratch = SelectScratch::new(device, count).map_err(raise)?;
    let output = KeysMut { keys: &mut found, count: &mut total };
    select_numbers(stream, count.into(), hits, output, &mut scratch).map_err(raise)?;
    part(stream, found, 0..read(&total)?)
}

/// A byte per bit of a hit mask, with room for the words that kernels write.
pub(crate) fn bytes_of(stream: &Stream, hits: &Buffer<u32>, count: usize) -> PyResult<Memory> {
    let mut bytes = stream.device().alloc(count.next_multiple_of(4)).map_err(raise_runtime)?;
    unpack_bits(stream, hits, count, &mut bytes).map_err(raise)?;
    Ok(Memory::new(Words::from(bytes)))
}

/// What look-ups of probes find, by key or as of them: a hit mask, and the value of each.
pub(crate) fn hits_of<I: FixedIndex>(
    tree: &I,
    probes: &Buffer<I::Key>,
    asof: Option<AsOf>,
    stream: &Stream,
) -> PyResult<(Buffer<u32>, Buffer<I::Value>)> {
    let (device, count) = (stream.device(), probes.len());
    // Values of semi- and anti-joins are not wanted.
    let (mut hits, mut values) = (alloc(device, count.div_ceil(32))?, alloc(device, count)?);
    let on = OnStream::new(tree, stream).miss(I::Value::default());
    match asof {
        None => on.hits(&mut hits).get(probes, &mut values),
        // Their keys are not wanted.
        Some(how) => on.asof(probes, &how, &mut alloc(device, count)?, &mut values, &mut hits),
    }
    .map_err(raise)?;
    Ok((hits, values))
}

/// The rows of a join of probes that have at most one match each, from the value of each and the mask of those that have one.
pub(crate) fn rows_of_hits<V: PyValue>(
    stream: &Stream,
    asked: Asked<'_>,
    (mut hits, count): (Buffer<u32>, usize),
    mut values: Buffer<V>,
) -> PyResult<Joined> {
    if let Some(valid) = asked.valid()? {
        mask_hits(stream, &valid, 0, count, &mut hits).map_err(raise)?;
        put_misses(stream, &hits, count, None, &mut values, V::default()).map_err(raise)?;
    }
    match asked.kind {
        JoinKind::Semi | JoinKind::Anti => {
            if asked.kind == JoinKind::Anti {
                settle_hits(stream, None, count, true, &mut hits).map_err(raise)?;
            }
            Ok((Memory::new(numbers_of(stream, Some(&hits), count)?), None, None))
        }
        JoinKind::Inner => {
            let (left, values) = V::select(stream, (&values, count), &hits)?;
            Ok((Memory::new(left), V::memory(values), None))
        }
        JoinKind::Left => {
            let left = numbers_of(stream, None, count)?;
            let found = bytes_of(stream, &hits, count)?;
            Ok((Memory::new(left), V::memory(values), Some(found)))
        }
    }
}

/// The probes that a join without rows leaves: as many as a buffer begins with.
pub(crate) fn probes_of(stream: &Stream, probes: Buffer<u64>, count: usize, rows: &Buffer<u64>) -> PyResult<Memory> {
    let rows = if count == 0 { 0 } else { read(rows)? };
    Ok(Memory::new(part(stream, probes, 0..rows)?))
}

/// Whether each row of a left join has a match, from the rows' probes and the mask of probes that have one: whether its probe is in
/// the set of those. Joins of other kinds need not tell.
pub(crate) fn found_of(
    stream: &Stream,
    kind: JoinKind,
    (hits, count): (&Buffer<u32>, usize),
    left: &Buffer<u64>,
) -> PyResult<Option<Memory>> {
    if kind != JoinKind::Left {
        return Ok(None);
    }
    let (device, rows) = (stream.device(), left.len());
    let present = numbers_of(stream, Some(hits), count)?;
    let find = || -> lanetree::Result<Buffer<u32>> {
        let mut bits = device.alloc(rows.div_ceil(32))?;
        let mut scratch = BuildScratch::for_sorted(device)?;
        let set = LaneSet::builder().build_sorted_on(stream, &present, present.len(), &mut scratch)?;
        set.on(stream).contains(left, &mut bits)?;
        Ok(bits)
    };
    bytes_of(stream, &find().map_err(raise)?, rows).map(Some)
}
