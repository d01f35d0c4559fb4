//! Spans of values, copied one after the other.

use super::TASK;
use super::check;
use super::scan::in_parts;
use core::ops::Range;
use lanetree_base::parallel::*;
use lanetree_base::pointers::{optional, optional_mut};
use lanetree_base::room::zeroed;
use lanetree_base::{Buffer, Device, Error, Result, Stream};
use lanetree_kernels_primitives::THREADS;
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::expand::{BLOCKS, ExpandArgs, LENGTH_BITS, PART, scratch_words, tiles};
use lanetree_layout::Word;
use lanetree_runtime::Launch;
use lanetree_simt::LaunchShape;

/// Scratch memory of [`expand`]: 24 bytes for 1024 spans.
#[derive(Debug)]
pub struct ExpandScratch {
    state: Buffer<u64>,
    multiprocessors: u32,
}

impl ExpandScratch {
    /// Memory on `device` for up to `count` spans, allocated now.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, count: usize) -> Result<Self> {
        let state = device.alloc(words(count).0)?;
        Ok(Self { state, multiprocessors: device.properties()?.multiprocessors })
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.state.bytes()
    }
}

/// Words of scratch memory, and how many of them are zeroed.
fn words(count: usize) -> (usize, usize) {
    let (all, zeroed) = scratch_words(count as u64);
    let words = |words| usize::try_from(words).unwrap_or(usize::MAX);
    (words(all), words(zeroed))
}

/// Where values are: those of span `i` follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Spans<'a> {
    /// For each span the position of its first value, shifted left by `shift`.
    pub begins: &'a Buffer<u64>,
    /// Bits below the positions.
    pub shift: u32,
    /// For each span how many values it has, below 2^40; if there are none, these are the bits below the positions.
    pub lengths: Option<&'a Buffer<u64>>,
    /// How many spans.
    pub count: usize,
}

/// The values that spans are of.
#[derive(Clone, Copy, Debug)]
pub struct SpanValues<'a, V> {
    /// The values of the first positions.
    pub values: &'a Buffer<V>,
    /// The values of the positions past these.
    pub more: Option<&'a Buffer<V>>,
    /// The value at all other positions, such as that of the row of a probe without a match. A span is in one of the three.
    pub miss: V,
}

/// What [`expand`] writes: what is wanted of it.
#[derive(Debug)]
pub struct Expanded<'a, V, N = u64> {
    /// Out: one more than there are spans: the values of span `i` are from `offsets[i]` to `offsets[i + 1]`.
    pub offsets: Option<&'a mut Buffer<u64>>,
    /// Out: `[1]` or more; the first element becomes the number of values, even if that exceeds the capacity.
    pub count: Option<&'a mut Buffer<u64>>,
    /// Out: the values. Its length is the capacity: values past it are not written.
    pub values: Option<&'a mut Buffer<V>>,
    /// Out: for each value the number of its span; they ascend. If these are wanted, their length is the capacity.
    pub numbers: Option<&'a mut Buffer<N>>,
}

/// Copies the values of spans one after the other, and writes the number of each value's span, and where those of each span begin: the
/// rows of a join. One pass over the spans; a long span takes no longer than many short ones. There are fewer than 2^62 values. In the
/// stream's order; may return before it is done.
///
/// ```
/// use lanetree::Device;
/// use lanetree::primitives::{ExpandScratch, Expanded, SpanValues, Spans, expand};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::host();
/// let (stream, values) = (device.stream()?, device.upload(&[10_u32, 11, 12, 13])?);
/// let (begins, lengths) = (device.upload(&[2, 0, 1])?, device.upload(&[2, 0, 3])?);
/// let (mut offsets, mut copied, mut numbers) = (device.alloc(4)?, device.alloc(5)?, device.alloc::<u32>(5)?);
/// let spans = Spans { begins: &begins, shift: 0, lengths: Some(&lengths), count: 3 };
/// let out = Expanded {
///     offsets: Some(&mut offsets),
///     count: None,
///     values: Some(&mut copied),
///     numbers: Some(&mut numbers),
/// };
/// let mut scratch = ExpandScratch::new(&device, 3)?;
/// expand(&stream, spans, SpanValues { values: &values, more: None, miss: 0 }, out, &mut scratch)?;
/// assert_eq!((offsets.to_vec()?, numbers.to_vec()?), (vec![0, 2, 2, 5], vec![0, 0, 2, 2, 2]));
/// assert_eq!(copied.to_vec()?, [12, 13, 11, 12, 13]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::OutputLength`] for a buffer that is too small, but not for too small a capacity; [`Error::BatchTooLarge`] from 2^41 spans
/// on, and for more spans than numbers of 32 bits; [`Error::Runtime`] for a buffer of another device than the stream's, and from the
/// launch.
pub fn expand<V: Word, N: Word>(
    stream: &Stream,
    spans: Spans<'_>,
    values: SpanValues<'_, V>,
    out: Expanded<'_, V, N>,
    scratch: &mut ExpandScratch,
) -> Result<()> {
    let count = spans.count;
    let capacity = match (&out.numbers, &out.values) {
        (Some(numbers), _) => numbers.len(),
        (None, values) => values.as_ref().map_or(0, |values| values.len()),
    };
    check::buffer(stream, "the begins' buffer", count, spans.begins)?;
    spans.lengths.map_or(Ok(()), |lengths| check::buffer(stream, "the lengths' buffer", count, lengths))?;
    check::buffer(stream, "the values' buffer", 0, values.values)?;
    values.more.map_or(Ok(()), |more| check::buffer(stream, "the values' buffer", 0, more))?;
    if let Some(offsets) = &out.offsets {
        check::buffer(stream, "the offsets' buffer", count.saturating_add(1), offsets)?;
    }
    if let Some(count) = &out.count {
        check::buffer(stream, "the count's buffer", 1, count)?;
    }
    if let Some(values) = &out.values {
        check::buffer(stream, "the copied values' buffer", capacity, values)?;
    }
    if let Some(numbers) = &out.numbers {
        check::buffer(stream, "the numbers' buffer", capacity, numbers)?;
    }
    let tiles = tiles(count as u64);
    if tiles >= 1 << 31 || out.numbers.is_some() && count as u64 > N::MAX.widen() {
        return Err(Error::BatchTooLarge { queries: count });
    }
    if check::is_host(stream) {
        return on_host(spans, values, out, capacity);
    }
    let (words, zeroed) = words(count);
    check::buffer(stream, "the scratch memory", words, &scratch.state)?;
    scratch.state.fill_zero_range(stream, 0..zeroed)?;
    let begins = spans.begins.read_on(stream)?;
    let args = ExpandArgs {
        begins,
        lengths: spans.lengths.map_or(Ok(begins), |lengths| lengths.read_on(stream))?,
        count: count as u64,
        mask: spans.mask(),
        shift: spans.shift,
        is_narrow: u32::from(N::BITS == 32),
        values: values.values.read_on(stream)?,
        values_len: values.values.len() as u64,
        more: optional(values.more, stream)?,
        more_len: values.more.map_or(0, Buffer::len) as u64,
        capacity: capacity as u64,
        state: scratch.state.write_on(stream)?,
        offsets: optional_mut(out.offsets, stream)?,
        total: optional_mut(out.count, stream)?,
        out_values: optional_mut(out.values, stream)?,
        numbers: optional_mut(out.numbers, stream)?.cast(),
        miss: values.miss,
    };
    // One for each tile, and for each part of the rows if all are of one tile, but no more than are there at a time.
    let most = u64::from(scratch.multiprocessors.max(1)) * u64::from(BLOCKS);
    let blocks = tiles.max((capacity as u64).div_ceil(PART)).min(most);
    let shape = LaunchShape { blocks: blocks as u32, threads: THREADS, dynamic_shared: 0 };
    // SAFETY: all buffers were found to be long enough, and the scratch memory was zeroed; every pointer is for this stream.
    Ok(unsafe { Launch::new(stream, shape).run(calls::expand(&args)) }?)
}

impl Spans<'_> {
    /// The bits of a length that count.
    fn mask(&self) -> u64 {
        let bits = if self.lengths.is_some() { LENGTH_BITS } else { self.shift.min(LENGTH_BITS) };
        (1 << bits) - 1
    }
}

fn on_host<V: Word, N: Word>(
    spans: Spans<'_>,
    values: SpanValues<'_, V>,
    out: Expanded<'_, V, N>,
    capacity: usize,
) -> Result<()> {
    let (count, mask) = (spans.count, spans.mask());
    let begins = &spans.begins.as_slice().unwrap_or(&[])[..count];
    let lengths = &spans.lengths.unwrap_or(spans.begins).as_slice().unwrap_or(&[])[..count];
    let mut own;
    let offsets = match out.offsets.and_then(Buffer::as_mut_slice) {
        Some(offsets) => &mut offsets[..=count],
        None => {
            own = zeroed(count.saturating_add(1))?;
            &mut own[..]
        }
    };
    let total = |lengths: &[u64]| lengths.iter().map(|length| length & mask).sum::<u64>();
    let scan = |before: u64, lengths: &[u64], offsets: &mut [u64]| {
        let mut sum = before;
        for (offset, length) in offsets.iter_mut().zip(lengths) {
            *offset = sum;
            sum += length & mask;
        }
        sum
    };
    let all = in_parts(lengths, &mut offsets[..count], total, |a, b| a + b, scan);
    offsets[count] = all;
    if let Some(count) = out.count.and_then(Buffer::as_mut_slice).and_then(|count| count.first_mut()) {
        *count = all;
    }
    let (offsets, rows) = (&*offsets, usize::try_from(all).unwrap_or(usize::MAX).min(capacity));
    let [first, more] =
        [Some(values.values), values.more].map(|values| values.and_then(Buffer::as_slice).unwrap_or(&[]));
    if let Some(copied) = out.values.and_then(Buffer::as_mut_slice) {
        copied[..rows].par_chunks_mut(TASK).enumerate().for_each(|(task, copied)| {
            each_run(offsets, task * TASK, copied.len(), |at, span, within| {
                let position = (begins[span] >> spans.shift) as usize + within;
                let past = position.wrapping_sub(first.len());
                let copied = &mut copied[at];
                match run_of(first, position, copied.len()).or_else(|| run_of(more, past, copied.len())) {
                    Some(run) => copied.copy_from_slice(run),
                    None => copied.fill(values.miss),
                }
            });
        });
    }
    if let Some(numbers) = out.numbers.and_then(Buffer::as_mut_slice) {
        numbers[..rows].par_chunks_mut(TASK).enumerate().for_each(|(task, numbers)| {
            each_run(offsets, task * TASK, numbers.len(), |at, span, _| numbers[at].fill(N::truncate(span as u64)));
        });
    }
    Ok(())
}

fn run_of<V>(values: &[V], from: usize, len: usize) -> Option<&[V]> {
    values.get(from..from.checked_add(len)?)
}

/// Cuts `len` rows from `start` on into runs of one span, and calls `each` with where a run is among them, its span, and the span's rows
/// before it.
fn each_run(offsets: &[u64], start: usize, len: usize, mut each: impl FnMut(Range<usize>, usize, usize)) {
    let mut span = offsets.partition_point(|&offset| offset <= start as u64) - 1;
    let mut from = 0;
    while from < len {
        let end = (offsets[span + 1] - start as u64).min(len as u64) as usize;
        if from < end {
            each(from..end, span, start + from - offsets[span] as usize);
            from = end;
        }
        span += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{devices, is_thorough, message, poisoned, rng, stream, written};
    use super::*;
    use rand::RngExt;

    /// Values of the first array, and of the second one.
    const VALUES: u64 = 300_000;
    const MORE: u64 = 1000;

    /// Spans of these lengths somewhere: in the first array, in the second one or in none.
    fn spans_of(lengths: &[u64]) -> Vec<u64> {
        let mut rng = rng(lengths.len());
        let begin = |&length: &u64| match rng.random_range(0..8) {
            0 => VALUES + MORE,
            1 if length <= MORE => VALUES + rng.random_range(0..=MORE - length),
            2 => VALUES - length,
            _ => rng.random_range(0..=VALUES - length),
        };
        lengths.iter().map(begin).collect()
    }

    /// Expands spans in every way, with room for all rows, some more, some fewer, and none.
    fn check<V: Word, N: Word>(device: &Device, lengths: &[u64]) {
        let (begins, count, stream) = (spans_of(lengths), lengths.len(), stream(device));
        let value = |position: u64| V::truncate(position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
        let miss = V::truncate(u64::MAX - 7);
        let all: Vec<V> = (0..VALUES + MORE).map(value).collect();
        let (first, more) = all.split_at(VALUES as usize);
        let (first, more) = (device.upload(first).unwrap(), device.upload(more).unwrap());
        let (mut offsets, mut rows) = (vec![0_u64], Vec::new());
        for (span, (&begin, &length)) in begins.iter().zip(lengths).enumerate() {
            rows.extend((begin..begin + length).map(|at| (all.get(at as usize).copied().unwrap_or(miss), span)));
            offsets.push(rows.len() as u64);
        }
        let packed: Vec<u64> = begins.iter().zip(lengths).map(|(begin, length)| begin << 28 | length).collect();
        let (packed, begins) = (device.upload(&packed).unwrap(), device.upload(&begins).unwrap());
        let lengths = device.upload(lengths).unwrap();
        let mut scratch = ExpandScratch::new(device, count + 3).unwrap();
        for (way, room) in
            [rows.len(), rows.len() + 5, rows.len() / 2, rows.len() / 3 * 2 + 1, 0].into_iter().enumerate()
        {
            let mut out = (poisoned(device, count + 2), poisoned(device, 1));
            let (mut values, mut numbers) = (poisoned::<V>(device, room), poisoned::<N>(device, room));
            let spans = match way % 2 {
                0 => Spans { begins: &packed, shift: 28, lengths: None, count },
                _ => Spans { begins: &begins, shift: 0, lengths: Some(&lengths), count },
            };
            let of = SpanValues { values: &first, more: Some(&more), miss };
            let expanded = Expanded {
                offsets: Some(&mut out.0),
                count: Some(&mut out.1),
                values: Some(&mut values),
                numbers: Some(&mut numbers),
            };
            expand(&stream, spans, of, expanded, &mut scratch).unwrap();
            let what = format!("{count} spans, {} rows, room for {room} on {device}", rows.len());
            assert!(written(&out.0, count + 1) == offsets, "offsets of {what}");
            assert_eq!(out.1.to_vec().unwrap(), [rows.len() as u64], "{what}");
            let reached = &rows[..rows.len().min(room)];
            let found = written(&values, reached.len());
            assert!(found.iter().eq(reached.iter().map(|row| &row.0)), "values of {what}");
            let found = written(&numbers, reached.len());
            assert!(found.iter().map(|number| number.widen()).eq(reached.iter().map(|row| row.1 as u64)), "{what}");
        }
        // Only values, only numbers, only how many there are.
        let spans = Spans { begins: &packed, shift: 28, lengths: None, count };
        let of = SpanValues { values: &first, more: Some(&more), miss };
        let mut out = (poisoned::<V>(device, rows.len()), poisoned::<N>(device, rows.len()), poisoned(device, 1));
        let none = || Expanded::<V, N> { offsets: None, count: None, values: None, numbers: None };
        expand(&stream, spans, of, Expanded { values: Some(&mut out.0), ..none() }, &mut scratch).unwrap();
        expand(&stream, spans, of, Expanded { numbers: Some(&mut out.1), ..none() }, &mut scratch).unwrap();
        expand(&stream, spans, of, Expanded { count: Some(&mut out.2), ..none() }, &mut scratch).unwrap();
        assert!(out.0.to_vec().unwrap().iter().eq(rows.iter().map(|row| &row.0)), "{count} spans on {device}");
        let found = out.1.to_vec().unwrap();
        assert!(found.iter().map(|number| number.widen()).eq(rows.iter().map(|row| row.1 as u64)), "on {device}");
        assert_eq!(out.2.to_vec().unwrap(), [rows.len() as u64]);
    }

    #[test]
    fn spans_at_the_borders_of_tiles() {
        for device in devices() {
            for count in [0, 1, 3, 31, 33, 1023, 1024, 1025, 2048, 3073] {
                if is_thorough(&device) || count > 1024 {
                    let mut rng = rng(count);
                    let lengths: Vec<u64> = (0..count).map(|_| rng.random_range(0..5)).collect();
                    check::<u32, u64>(&device, &lengths);
                }
            }
        }
    }

    #[test]
    fn numbers_of_32_bits_and_values_of_64() {
        for device in devices() {
            let mut rng = rng(7);
            let lengths: Vec<u64> = (0..4500).map(|_| rng.random_range(0..3_u64) * 4).collect();
            check::<u64, u32>(&device, &lengths);
        }
    }

    /// Of every tile but two all spans are empty.
    #[test]
    fn tiles_without_rows() {
        for device in devices() {
            check::<u32, u32>(&device, &vec![0; 9000]);
            let lengths: Vec<u64> = (0..9000).map(|i| u64::from(i == 2048 || i == 8999)).collect();
            check::<u32, u32>(&device, &lengths);
        }
    }

    /// One span with more rows than a part, among others, alone, and next to another one.
    #[test]
    fn long_spans_are_divided() {
        for device in devices().into_iter().filter(is_thorough) {
            let long = PART + 77;
            let among = |at: usize| (0..4100).map(|i| if i == at { long } else { i as u64 % 3 }).collect::<Vec<u64>>();
            check::<u32, u64>(&device, &among(2047));
            check::<u32, u64>(&device, &among(4099));
            check::<u32, u64>(&device, &[VALUES]);
            check::<u32, u64>(&device, &[0, PART, 0, 2 * PART, 1, PART - 1]);
        }
    }

    /// Two tiles with a list of parts each, and rows beyond 32 bits, of which few have room.
    #[test]
    fn rows_past_32_bits_are_counted() {
        for device in devices() {
            let (count, length) = (3000, 1_u64 << 22);
            let (stream, begins) = (stream(&device), device.upload(&vec![u64::MAX; count]).unwrap());
            let (lengths, values) = (device.upload(&vec![length; count]).unwrap(), device.upload(&[5_u32]).unwrap());
            let spans = Spans { begins: &begins, shift: 0, lengths: Some(&lengths), count };
            let (mut offsets, mut total) = (poisoned(&device, count + 1), poisoned(&device, 1));
            let (mut copied, mut numbers) = (poisoned(&device, 700), poisoned::<u64>(&device, 700));
            let out = Expanded {
                offsets: Some(&mut offsets),
                count: Some(&mut total),
                values: Some(&mut copied),
                numbers: Some(&mut numbers),
            };
            let mut scratch = ExpandScratch::new(&device, count).unwrap();
            expand(&stream, spans, SpanValues { values: &values, more: None, miss: 9 }, out, &mut scratch).unwrap();
            assert_eq!(total.to_vec().unwrap(), [count as u64 * length], "on {device}");
            let offsets = offsets.to_vec().unwrap();
            assert!(offsets.into_iter().zip(0..).all(|(offset, span)| offset == span * length), "on {device}");
            assert_eq!((copied.to_vec().unwrap(), numbers.to_vec().unwrap()), (vec![9; 700], vec![0; 700]));
        }
    }

    #[test]
    fn what_is_too_small_is_named() {
        for device in devices() {
            let (stream, words) = (stream(&device), device.upload(&[0_u64; 3000]).unwrap());
            let values = device.upload(&[1_u32; 3]).unwrap();
            let of = SpanValues { values: &values, more: None, miss: 0 };
            let spans = Spans { begins: &words, shift: 28, lengths: None, count: 3000 };
            let none = || Expanded::<u32> { offsets: None, count: None, values: None, numbers: None };
            let mut scratch = ExpandScratch::new(&device, 3000).unwrap();
            let mut offsets = device.alloc(3000).unwrap();
            let out = Expanded { offsets: Some(&mut offsets), ..none() };
            let text = "the offsets' buffer holds 3000 elements, but 3001 are needed; allocate at least 3001";
            assert_eq!(message(expand(&stream, spans, of, out, &mut scratch)), text);
            let (mut numbers, mut copied) = (device.alloc(5).unwrap(), device.alloc(4).unwrap());
            let out = Expanded { values: Some(&mut copied), numbers: Some(&mut numbers), ..none() };
            let text = "the copied values' buffer holds 4 elements, but 5 are needed; allocate at least 5";
            assert_eq!(message(expand(&stream, spans, of, out, &mut scratch)), text);
            let out = Expanded { numbers: Some(&mut numbers), ..none() };
            let longer = Spans { count: 3001, ..spans };
            let text = "the begins' buffer holds 3000 elements, but 3001 are needed; allocate at least 3001";
            assert_eq!(message(expand(&stream, longer, of, out, &mut scratch)), text);
        }
    }
}
