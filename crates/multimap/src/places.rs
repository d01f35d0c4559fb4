//! The kernels over places, each with its twin for the CPU.

use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parallel::*;
use lanetree_frame::pointers::{optional, optional_mut};
use lanetree_frame::{Buffer, DeviceKind, Result, Stream};
use lanetree_kernels_multimap::layout;
use lanetree_kernels_multimap::{CountArgs, FirstArgs, PackArgs, SpanArgs, calls};
use lanetree_layout::Word;
use lanetree_primitives::SpanValues;
use lanetree_runtime::Launch;
use lanetree_simt::{Global, GlobalMut};

/// Elements of a task of the CPU's: enough to outweigh its dispatch, and a multiple of 32, so that tasks share no word of a
/// hit mask.
pub(crate) const TASK: usize = 1 << 15;

/// Whether the CPU does the work itself.
pub(crate) fn is_host(stream: &Stream) -> bool {
    stream.device().kind() == DeviceKind::Host
}

/// The elements of a buffer of the host.
pub(crate) fn slice<T: bytemuck::Pod>(buffer: &Buffer<T>) -> &[T] {
    buffer.as_slice().unwrap_or(&[])
}

/// The same, to be written.
pub(crate) fn slice_mut<T: bytemuck::Pod>(buffer: &mut Buffer<T>) -> &mut [T] {
    buffer.as_mut_slice().unwrap_or(&mut [])
}

/// A launch of one thread per element.
pub(crate) fn each(stream: &Stream, count: usize) -> Result<Launch<'_>> {
    launch::over(stream, count as u64, 1, THREADS)
}

/// Makes places of `count + 1` offsets, for values from `base` on, and lowers `too_many[0]` to the first key that has more than
/// `most` values.
pub(crate) fn pack(
    stream: &Stream,
    offsets: &Buffer<u64>,
    count: usize,
    (base, most): (u64, u64),
    places: &mut Buffer<u64>,
    too_many: &mut Buffer<u64>,
) -> Result<()> {
    assert!(offsets.len() > count && places.len() >= count && !too_many.is_empty());
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let (offsets, first) = (&slice(offsets)[..=count], &mut slice_mut(too_many)[0]);
        let places = slice_mut(places)[..count].par_iter_mut();
        places.enumerate().for_each(|(i, place)| {
            *place = layout::place(base + offsets[i], offsets[i + 1] - offsets[i]);
        });
        let found = offsets.par_windows(2).position_first(|pair| pair[1] - pair[0] > most);
        *first = found.map_or(u64::MAX, |found| found as u64).min(*first);
        return Ok(());
    }
    let args = PackArgs {
        offsets: offsets.read_on(stream)?,
        count: count as u64,
        base,
        most,
        places: places.write_on(stream)?,
        too_many: too_many.write_on(stream)?,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::pack(&args)) }?)
}

/// Reads the number of values from each of `count` places.
pub(crate) fn count_values(
    stream: &Stream,
    places: &Buffer<u64>,
    count: usize,
    counts: &mut Buffer<u64>,
) -> Result<()> {
    assert!(places.len() >= count && counts.len() >= count);
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let counts = slice_mut(counts)[..count].par_iter_mut();
        counts.zip(slice(places)).for_each(|(count, &place)| *count = layout::count(place));
        return Ok(());
    }
    let args = CountArgs { places: places.read_on(stream)?, count: count as u64, counts: counts.write_on(stream)? };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::count_values(&args)) }?)
}

/// The places of the first and last keys of ranges.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) firsts: &'a Buffer<u64>,
    pub(crate) lasts: &'a Buffer<u64>,
    /// The most pairs of each range.
    pub(crate) limits: Option<&'a Buffer<u64>>,
    /// The most pairs of any.
    pub(crate) limit: u64,
    pub(crate) count: usize,
}

impl<'a> Ends<'a> {
    /// Of ranges without limits.
    pub(crate) fn of(firsts: &'a Buffer<u64>, lasts: &'a Buffer<u64>, count: usize) -> Self {
        Self { firsts, lasts, limits: None, limit: u64::MAX, count }
    }
}

/// Finds the values of ranges: where they begin, if that is wanted, and how many there are.
pub(crate) fn spans(
    stream: &Stream,
    Ends { firsts, lasts, limits, limit, count }: Ends<'_>,
    begins: Option<&mut Buffer<u64>>,
    counts: &mut Buffer<u64>,
) -> Result<()> {
    assert!(firsts.len() >= count && lasts.len() >= count && counts.len() >= count);
    assert!(limits.is_none_or(|limits| limits.len() >= count));
    assert!(begins.as_ref().is_none_or(|begins| begins.len() >= count));
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let (firsts, lasts) = (slice(firsts), slice(lasts));
        let limits = limits.map(slice);
        slice_mut(counts)[..count].par_iter_mut().enumerate().for_each(|(i, count)| {
            let end = layout::begin(lasts[i]) + layout::count(lasts[i]);
            let own = limits.map_or(u64::MAX, |limits| limits[i]);
            *count = end.saturating_sub(layout::begin(firsts[i])).min(limit).min(own);
        });
        if let Some(begins) = begins {
            let begins = slice_mut(begins)[..count].par_iter_mut();
            begins.zip(firsts).for_each(|(begin, &first)| *begin = layout::begin(first));
        }
        return Ok(());
    }
    let args = SpanArgs {
        firsts: firsts.read_on(stream)?,
        lasts: lasts.read_on(stream)?,
        limits: optional(limits, stream)?,
        limit,
        count: count as u64,
        begins: optional_mut(begins, stream)?,
        counts: counts.write_on(stream)?,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::spans(&args)) }?)
}

/// Which of a key's values is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    First,
    Last,
}

/// Reads the first or the last value of each of `count` places, or `miss`.
pub(crate) fn one_value<V: Word>(
    stream: &Stream,
    places: &Buffer<u64>,
    count: usize,
    (values, which): (SpanValues<'_, V>, Which),
    (out_values, hits): (&mut Buffer<V>, Option<&mut Buffer<u32>>),
) -> Result<()> {
    let miss = values.miss;
    assert!(places.len() >= count && out_values.len() >= count);
    assert!(hits.as_ref().is_none_or(|hits| hits.len() >= count.div_ceil(32)));
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let (places, more) = (&slice(places)[..count], values.more.map_or(&[][..], slice));
        let values = slice(values.values);
        let at = |position: u64| match (position as usize).checked_sub(values.len()) {
            None => values.get(position as usize).copied(),
            Some(past) => more.get(past).copied(),
        };
        let value = |place: u64| match layout::count(place) {
            0 => None,
            _ if which == Which::First => at(layout::begin(place)),
            count => at(layout::begin(place) + count - 1),
        };
        let out_values = slice_mut(out_values)[..count].par_iter_mut();
        out_values.zip(places).for_each(|(out, &place)| *out = value(place).unwrap_or(miss));
        if let Some(hits) = hits {
            let words = slice_mut(hits)[..count.div_ceil(32)].par_iter_mut().zip(places.par_chunks(32));
            words.for_each(|(word, places)| {
                let bit = |(i, &place): (usize, &u64)| u32::from(value(place).is_some()) << i;
                *word = places.iter().enumerate().map(bit).sum();
            });
        }
        return Ok(());
    }
    let (places, out) = (places.read_on(stream)?, (out_values.write_on(stream)?, optional_mut(hits, stream)?));
    // SAFETY: the lengths were checked; the pointers are for this stream.
    unsafe { launch_one_value(stream, places, count, (values.values, which), out, miss) }
}

/// The kernel of [`one_value`], for at least one place.
///
/// # Safety
/// The stream may read `count` places, and write as many values, and their hit mask unless that is null.
pub(crate) unsafe fn launch_one_value<V: Word>(
    stream: &Stream,
    places: Global<u64>,
    count: usize,
    (values, which): (&Buffer<V>, Which),
    (out_values, hits): (GlobalMut<V>, GlobalMut<u32>),
    miss: V,
) -> Result<()> {
    let args = FirstArgs {
        places,
        count: count as u64,
        values: values.read_on(stream)?,
        len: values.len() as u64,
        is_last: (which == Which::Last).into(),
        out_values,
        hits,
        miss,
    };
    // SAFETY: the caller's contract; positions are checked.
    Ok(unsafe { each(stream, count)?.run(calls::first(&args)) }?)
}
