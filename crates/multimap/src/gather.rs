//! The copying of rows, with its twin for the CPU.

use crate::places::{TASK, each, is_host, slice, slice_mut};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parallel::*;
use lanetree_frame::pointers::{optional, optional_mut};
use lanetree_frame::{Buffer, Result, Stream, number_matches};
use lanetree_kernels_multimap::layout::{self, COUNT_BITS};
use lanetree_kernels_multimap::{GatherArgs, GatherPairsArgs, OUTPUTS, ScanArgs, Values, calls};
use lanetree_layout::{AnyKey, Word};
use lanetree_runtime::Launch;
use lanetree_simt::WARP;

/// Rows of values: where each row's values begin, in a buffer of positions or of value spans, and the rows' offsets in
/// the output.
#[derive(Clone, Copy)]
pub(crate) struct RowsOf<'a> {
    pub(crate) begins: &'a Buffer<u64>,
    /// Whether the begins are places.
    pub(crate) are_places: bool,
    /// One more than there are rows.
    pub(crate) offsets: &'a Buffer<u64>,
    pub(crate) rows: usize,
}

impl RowsOf<'_> {
    fn check(&self) {
        assert!(self.begins.len() >= self.rows && self.offsets.len() > self.rows);
    }

    fn shift(&self) -> u32 {
        if self.are_places { COUNT_BITS } else { 0 }
    }

    /// On the host: the row of an output, and the position of its value.
    pub(crate) fn row_and_position(&self, at: usize) -> (usize, u64) {
        let (begins, offsets) = (slice(self.begins), &slice(self.offsets)[..=self.rows]);
        let row = offsets.partition_point(|&offset| offset <= at as u64) - 1;
        (row, (begins[row] >> self.shift()) + at as u64 - offsets[row])
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

/// Copies the values of rows, of two arrays one after the other, to `out` as far as there is room. With `numbers`, the room is theirs,
/// there is as much for values, and the row of each value is written, too.
pub(crate) fn gather_values<V: Word>(
    stream: &Stream,
    values: (&Buffer<V>, Option<&Buffer<V>>),
    rows: RowsOf<'_>,
    (out, numbers): (&mut Buffer<V>, Option<&mut Buffer<u64>>),
) -> Result<()> {
    rows.check();
    let capacity = numbers.as_ref().map_or(out.len(), |numbers| numbers.len());
    assert!(out.len() >= capacity);
    if rows.rows == 0 || capacity == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let (first, second) = (slice(values.0), values.1.map_or(&[][..], slice));
        let total = rows.total(capacity);
        slice_mut(out)[..total].par_chunks_mut(TASK).enumerate().for_each(|(task, out)| {
            each_run(&rows, task * TASK, out.len(), |from, run, position| {
                for (out, position) in out[from..from + run].iter_mut().zip(position as usize..) {
                    let past = position.wrapping_sub(first.len());
                    if let Some(&value) = first.get(position).or_else(|| second.get(past)) {
                        *out = value;
                    }
                }
            });
        });
        return numbers.map_or(Ok(()), |numbers| number_matches(stream, rows.offsets, rows.rows, numbers));
    }
    let args = gather_args(stream, values, rows, capacity, (out, numbers))?;
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { over_outputs(stream, capacity)?.run(calls::gather_values(&args)) }?)
}

fn gather_args<V: Word>(
    stream: &Stream,
    values: (&Buffer<V>, Option<&Buffer<V>>),
    rows: RowsOf<'_>,
    capacity: usize,
    (out, numbers): (&mut Buffer<V>, Option<&mut Buffer<u64>>),
) -> Result<GatherArgs<V>> {
    Ok(GatherArgs {
        values: both(stream, values)?,
        begins: rows.begins.read_on(stream)?,
        offsets: rows.offsets.read_on(stream)?,
        rows: rows.rows as u64,
        capacity: capacity as u64,
        out_values: out.write_on(stream)?,
        out_rows: optional_mut(numbers, stream)?,
        shift: rows.shift(),
        reserved: 0,
    })
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
        rows: gather_args(stream, (values, None), rows, capacity, (out_values, None))?,
        key_offsets: keys.offsets.read_on(stream)?,
        keys: keys.keys.read_on(stream)?.cast(),
        places: keys.places.read_on(stream)?,
        keys_len: keys.keys.len() as u64,
        out_keys: out_keys.write_on(stream)?.cast(),
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

/// On the host: cuts `len` outputs from `start` on into runs of one row, and calls `each` with where a run begins among them,
/// its length, and the position of its first value.
fn each_run(rows: &RowsOf<'_>, start: usize, len: usize, mut each: impl FnMut(usize, usize, u64)) {
    let offsets = slice(rows.offsets);
    let mut from = 0;
    while from < len {
        let (row, position) = rows.row_and_position(start + from);
        let run = (offsets[row + 1] - (start + from) as u64).min((len - from) as u64) as usize;
        each(from, run, position);
        from += run;
    }
}

fn both<V: Word>(stream: &Stream, (first, second): (&Buffer<V>, Option<&Buffer<V>>)) -> Result<Values<V>> {
    Ok(Values {
        first: first.read_on(stream)?,
        first_len: first.len() as u64,
        second: optional(second, stream)?,
        second_len: second.map_or(0, Buffer::len) as u64,
    })
}
