//! The copying of rows, with its twin for the CPU.

use crate::places::{TASK, each, is_host, slice, slice_mut};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parallel::*;
use lanetree_frame::{Buffer, Result, Stream};
use lanetree_kernels_multimap::layout;
use lanetree_kernels_multimap::{GatherPairsArgs, OUTPUTS, ScanArgs, calls};
use lanetree_layout::{AnyKey, Word};
use lanetree_runtime::Launch;
use lanetree_simt::WARP;

/// Rows of values: where each row's values begin, and the rows' offsets in the output.
#[derive(Clone, Copy)]
pub(crate) struct RowsOf<'a> {
    pub(crate) begins: &'a Buffer<u64>,
    /// Bits below the positions: value spans have some.
    pub(crate) shift: u32,
    /// One more than there are rows.
    pub(crate) offsets: &'a Buffer<u64>,
    pub(crate) rows: usize,
}

impl RowsOf<'_> {
    fn check(&self) {
        assert!(self.begins.len() >= self.rows && self.offsets.len() > self.rows);
    }

    /// On the host: the row of an output, and the position of its value.
    pub(crate) fn row_and_position(&self, at: usize) -> (usize, u64) {
        let (begins, offsets) = (slice(self.begins), &slice(self.offsets)[..=self.rows]);
        let row = offsets.partition_point(|&offset| offset <= at as u64) - 1;
        (row, (begins[row] >> self.shift) + at as u64 - offsets[row])
    }

    /// On the host: how many outputs there are, if there is room for `capacity`.
    fn total(&self, capacity: usize) -> usize {
        usize::try_from(slice(self.offsets)[self.rows]).unwrap_or(usize::MAX).min(capacity)
    }
}

/// The keys of rows, in ascending order, and their value spans: row `i` is from `offsets[i]` to `offsets[i + 1]`.
#[derive(Clone, Copy)]
pub(crate) struct KeysOf<'a, K> {
    pub(crate) offsets: &'a Buffer<u64>,
    pub(crate) keys: &'a Buffer<K>,
    pub(crate) places: &'a Buffer<u64>,
}

/// A launch for at most `outputs` outputs of rows.
pub(crate) fn over_outputs(stream: &Stream, outputs: usize) -> Result<Launch<'_>> {
    launch::over(stream, (outputs as u64).div_ceil(OUTPUTS), WARP, THREADS)
}

/// Copies the pairs of rows to `out`, as far as there is room for keys: there are at least as many values.
pub(crate) fn gather_pairs<K: AnyKey, V: Word>(
    stream: &Stream,
    values: &Buffer<V>,
    rows: RowsOf<'_>,
    keys: KeysOf<'_, K>,
    (out_keys, out_values): (&mut Buffer<K>, &mut Buffer<V>),
) -> Result<()> {
    rows.check();
    let capacity = out_keys.len();
    assert!(rows.shift == 0);
    assert!(keys.offsets.len() > rows.rows && keys.places.len() >= keys.keys.len() && out_values.len() >= capacity);
    if rows.rows == 0 || capacity == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let total = rows.total(capacity);
        let (key_offsets, places) = (slice(keys.offsets), slice(keys.places));
        let (keys, values) = (slice(keys.keys), slice(values));
        let tasks = slice_mut(out_keys)[..total].par_chunks_mut(TASK);
        let tasks = tasks.zip(slice_mut(out_values)[..total].par_chunks_mut(TASK)).enumerate();
        tasks.for_each(|(task, (out_keys, out_values))| {
            for i in 0..out_keys.len() {
                let (row, position) = rows.row_and_position(task * TASK + i);
                let [from, end] = [row, row + 1].map(|row| (key_offsets[row] as usize).min(keys.len()));
                let before = places[from..end].partition_point(|&place| layout::begin(place) <= position);
                if let (Some(&value), true) = (values.get(position as usize), before > 0) {
                    (out_keys[i], out_values[i]) = (keys[from + before - 1], value);
                }
            }
        });
        return Ok(());
    }
    let args = GatherPairsArgs::<K::Bits, V> {
        values: values.read_on(stream)?,
        values_len: values.len() as u64,
        begins: rows.begins.read_on(stream)?,
        offsets: rows.offsets.read_on(stream)?,
        rows: rows.rows as u64,
        capacity: capacity as u64,
        key_offsets: keys.offsets.read_on(stream)?,
        keys: keys.keys.read_on(stream)?.cast(),
        places: keys.places.read_on(stream)?,
        keys_len: keys.keys.len() as u64,
        out_keys: out_keys.write_on(stream)?.cast(),
        out_values: out_values.write_on(stream)?,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { over_outputs(stream, capacity)?.run(calls::gather_pairs(&args)) }?)
}

/// The distinct keys of scans, and their value spans: scan `i` has `counts[i]` of them, from `i * limit` on.
#[derive(Clone, Copy)]
pub(crate) struct KeysOfScans<'a, K> {
    pub(crate) keys: &'a Buffer<K>,
    pub(crate) places: &'a Buffer<u64>,
    pub(crate) counts: &'a Buffer<u32>,
    pub(crate) scans: usize,
    /// At least one.
    pub(crate) limit: u32,
}

/// Copies the pairs of scans to where their keys are among the scans' keys, and counts them.
pub(crate) fn scan_pairs<K: AnyKey, V: Word>(
    stream: &Stream,
    values: &Buffer<V>,
    found: KeysOfScans<'_, K>,
    (out_keys, out_values, counts): (&mut Buffer<K>, &mut Buffer<V>, &mut Buffer<u32>),
) -> Result<()> {
    let (scans, limit) = (found.scans, found.limit as usize);
    let pairs = scans * limit;
    assert!(found.keys.len() >= pairs && found.places.len() >= pairs && found.counts.len() >= scans && limit > 0);
    assert!(out_keys.len() >= pairs && out_values.len() >= pairs && counts.len() >= scans);
    if scans == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let (keys, places, values) = (slice(found.keys), slice(found.places), slice(values));
        let outputs = slice_mut(out_keys)[..pairs].par_chunks_mut(limit);
        let outputs = outputs.zip(slice_mut(out_values)[..pairs].par_chunks_mut(limit)).zip(slice_mut(counts));
        outputs.zip(slice(found.counts)).enumerate().for_each(|(scan, (((out_keys, out_values), pairs), &own))| {
            let own = scan * limit..scan * limit + own as usize;
            let mut at = 0;
            for (&key, &place) in keys[own.clone()].iter().zip(&places[own]) {
                let taken = (layout::count(place) as usize).min(limit - at);
                let first = layout::begin(place) as usize;
                out_keys[at..at + taken].fill(key);
                out_values[at..at + taken].copy_from_slice(&values[first..first + taken]);
                at += taken;
            }
            *pairs = at as u32;
        });
        return Ok(());
    }
    let args = ScanArgs::<K::Bits, V> {
        keys: found.keys.read_on(stream)?.cast(),
        places: found.places.read_on(stream)?,
        key_counts: found.counts.read_on(stream)?,
        count: scans as u64,
        limit: limit as u64,
        values: values.read_on(stream)?,
        len: values.len() as u64,
        out_keys: out_keys.write_on(stream)?.cast(),
        out_values: out_values.write_on(stream)?,
        counts: counts.write_on(stream)?,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, pairs)?.run(calls::scan(&args)) }?)
}
