//! The kernels, each with its twin for the CPU.

use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parallel::*;
use lanetree_frame::pointers::{optional, optional_mut};
use lanetree_frame::{Buffer, DeviceKind, Result, Stream};
use lanetree_kernels_intervals::layout::{FANOUT, Level, NONE, words};
use lanetree_kernels_intervals::{
    ArrangeArgs, CheckArgs, CountArgs, Intervals, LinkArgs, MarkArgs, MostSpecificArgs, RaiseArgs, StabArgs, TurnArgs,
    calls, innermost, link,
};
use lanetree_layout::{AnyKey, KeyWord, Word};
use lanetree_runtime::Launch;

/// Elements of a task of the CPU's: enough to outweigh its dispatch, and a multiple of 32, so that tasks share no word of a hit
/// mask.
const TASK: usize = 1 << 13;

/// Whether the CPU does the work itself.
fn is_host(stream: &Stream) -> bool {
    stream.device().kind() == DeviceKind::Host
}

/// The elements of a buffer of the host.
fn slice<T: bytemuck::Pod>(buffer: &Buffer<T>) -> &[T] {
    buffer.as_slice().unwrap_or(&[])
}

/// The same, to be written.
fn slice_mut<T: bytemuck::Pod>(buffer: &mut Buffer<T>) -> &mut [T] {
    buffer.as_mut_slice().unwrap_or(&mut [])
}

/// A launch of one thread per element.
fn each(stream: &Stream, count: usize) -> Result<Launch<'_>> {
    launch::over(stream, count as u64, 1, THREADS)
}

/// Lowers `reversed[0]` to the first of `count` intervals whose end is below its start.
pub(crate) fn check<K: AnyKey>(
    stream: &Stream,
    (starts, ends): (&Buffer<K>, &Buffer<K>),
    count: usize,
    reversed: &mut Buffer<u64>,
) -> Result<()> {
    assert!(starts.len() >= count && ends.len() >= count && !reversed.is_empty());
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let intervals = slice(starts)[..count].par_iter().zip(&slice(ends)[..count]);
        let first = intervals.position_first(|(start, end)| end < start);
        slice_mut(reversed)[0] = first.map_or(u64::MAX, |first| first as u64);
        return Ok(());
    }
    let args = CheckArgs {
        starts: starts.read_on(stream)?.cast(),
        ends: ends.read_on(stream)?.cast(),
        count: count as u64,
        reversed: reversed.write_on(stream)?,
        flip: K::FLIP,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::check(&args)) }?)
}

/// Marks where runs begin among the first `count` of sorted keys.
pub(crate) fn mark<K: AnyKey>(stream: &Stream, keys: &Buffer<K>, count: usize, marks: &mut Buffer<u32>) -> Result<()> {
    assert!(keys.len() >= count && marks.len() >= count);
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let keys = &slice(keys)[..count];
        slice_mut(marks)[..count].par_iter_mut().enumerate().for_each(|(i, mark)| {
            *mark = if i > 0 && keys[i - 1] == keys[i] { 0 } else { i as u32 };
        });
        return Ok(());
    }
    let args =
        MarkArgs::<K::Bits> { keys: keys.read_on(stream)?.cast(), count: count as u64, marks: marks.write_on(stream)? };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::mark(&args)) }?)
}

/// Brings `count` intervals, which are in ascending order of their ends, into the reverse of it.
pub(crate) fn turn<K: AnyKey>(
    stream: &Stream,
    (starts, order): (&Buffer<K>, &Buffer<u32>),
    count: usize,
    (out_starts, out_order): (&mut Buffer<K>, &mut Buffer<u32>),
) -> Result<()> {
    assert!(starts.len() >= count && order.len() >= count);
    assert!(out_starts.len() >= count && out_order.len() >= count);
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let (starts, order) = (slice(starts), &slice(order)[..count]);
        let out = slice_mut(out_starts)[..count].par_iter_mut().zip(&mut slice_mut(out_order)[..count]);
        out.enumerate().for_each(|(i, (start, interval))| {
            *interval = order[count - 1 - i];
            *start = starts[*interval as usize];
        });
        return Ok(());
    }
    let args = TurnArgs::<K::Bits> {
        starts: starts.read_on(stream)?.cast(),
        order: order.read_on(stream)?,
        count: count as u64,
        out_starts: out_starts.write_on(stream)?.cast(),
        out_order: out_order.write_on(stream)?,
    };
    // SAFETY: the lengths were checked, and `order` was made by a sort of `count` elements; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::turn(&args)) }?)
}

/// Brings the ends and rows of `count` intervals into an order, and numbers them.
pub(crate) fn arrange<K: AnyKey, V: Word>(
    stream: &Stream,
    (ends, rows): (&Buffer<K>, Option<&Buffer<V>>),
    (order, count): (&Buffer<u32>, usize),
    (out_ends, out_rows): (&mut Buffer<K::Bits>, &mut Buffer<V>),
    positions: &mut Buffer<u32>,
) -> Result<()> {
    assert!(ends.len() >= count && rows.is_none_or(|rows| rows.len() >= count) && order.len() >= count);
    assert!(out_ends.len() >= count && out_rows.len() >= count && positions.len() >= count);
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let (ends, rows, order) = (slice(ends), rows.map(slice), &slice(order)[..count]);
        let out = slice_mut(out_ends)[..count].par_iter_mut().zip(&mut slice_mut(out_rows)[..count]);
        out.zip(&mut slice_mut(positions)[..count]).enumerate().for_each(|(i, ((end, row), position))| {
            let interval = order[i] as usize;
            *end = ends[interval].encode();
            *row = rows.map_or_else(|| V::truncate(interval as u64), |rows| rows[interval]);
            *position = i as u32;
        });
        return Ok(());
    }
    let args = ArrangeArgs::<K::Bits, V> {
        ends: ends.read_on(stream)?.cast(),
        rows: optional(rows, stream)?,
        order: order.read_on(stream)?,
        count: count as u64,
        out_ends: out_ends.write_on(stream)?,
        out_rows: out_rows.write_on(stream)?,
        positions: positions.write_on(stream)?,
        flip: K::FLIP,
    };
    // SAFETY: the lengths were checked, and `order` was made by a sort of `count` elements; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::arrange(&args)) }?)
}

/// Makes the maxima above the ends of `count` intervals, level by level.
pub(crate) fn raise<B: KeyWord>(stream: &Stream, ends: &mut Buffer<B>, count: usize) -> Result<()> {
    assert!(ends.len() as u64 >= words(count as u64));
    let mut level = Level::ends(count as u64);
    while !level.is_top() {
        let above = level.above();
        if is_host(stream) {
            let (below, maxima) = slice_mut(ends).split_at_mut(above.begin as usize);
            let groups = below[level.begin as usize..].par_chunks(FANOUT as usize);
            groups.zip(&mut maxima[..above.len as usize]).for_each(|(group, maximum)| {
                *maximum = group.iter().copied().fold(B::MIN, B::max);
            });
        } else {
            let args = RaiseArgs::above(ends.write_on(stream)?, level);
            // SAFETY: there is room for all levels; the pointer is for this stream.
            unsafe { each(stream, above.len as usize)?.run(calls::raise(&args)) }?;
        }
        level = above;
    }
    Ok(())
}

/// Makes the links of `count` intervals.
pub(crate) fn make_links<B: KeyWord>(
    stream: &Stream,
    ends: &Buffer<B>,
    count: usize,
    links: &mut Buffer<u32>,
) -> Result<()> {
    assert!(ends.len() as u64 >= words(count as u64) && links.len() >= count);
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let ends = slice(ends);
        slice_mut(links)[..count].par_iter_mut().enumerate().for_each(|(i, out)| {
            *out = link(count as u64, i as u32, |at| ends[at as usize]);
        });
        return Ok(());
    }
    let args = LinkArgs { ends: ends.read_on(stream)?, len: count as u64, links: links.write_on(stream)? };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::link(&args)) }?)
}

/// The intervals of an index, in order.
#[derive(Debug)]
pub(crate) struct InOrder<B, V> {
    /// Their ends, and the maxima above.
    pub(crate) ends: Buffer<B>,
    /// Their links.
    pub(crate) links: Buffer<u32>,
    /// Their rows.
    pub(crate) rows: Buffer<V>,
}

impl<B: KeyWord, V: Word> InOrder<B, V> {
    fn argument(&self, stream: &Stream) -> Result<Intervals<B, V>> {
        Ok(Intervals {
            ends: self.ends.read_on(stream)?,
            links: self.links.read_on(stream)?,
            rows: self.rows.read_on(stream)?,
            len: self.rows.len() as u64,
        })
    }

    /// On the host: the last position up to `from` whose end is at or above a word.
    fn innermost(&self, word: B, from: u32) -> Option<usize> {
        let (ends, links) = (slice(&self.ends), slice(&self.links));
        let at = innermost(links.len() as u64, word, from, |at| ends[at as usize], |at| links[at as usize]);
        (at != NONE).then_some(at as usize)
    }

    /// The row of the most specific interval around each point, or `miss`.
    pub(crate) fn most_specific<K: AnyKey<Bits = B>>(
        &self,
        stream: &Stream,
        (points, positions): (&Buffer<K>, &Buffer<u32>),
        (out_rows, hits): (&mut Buffer<V>, Option<&mut Buffer<u32>>),
        miss: V,
    ) -> Result<()> {
        let count = points.len();
        assert!(positions.len() >= count && out_rows.len() >= count);
        assert!(hits.as_ref().is_none_or(|hits| hits.len() >= count.div_ceil(32)));
        if count == 0 {
            return Ok(());
        }
        if is_host(stream) {
            let rows = slice(&self.rows);
            let find = |points: &[K], positions: &[u32], out: &mut [V], mut hits: Option<&mut [u32]>| {
                if let Some(hits) = &mut hits {
                    hits.fill(0);
                }
                for (i, ((point, &from), out)) in points.iter().zip(positions).zip(out).enumerate() {
                    let found = self.innermost(point.encode(), from);
                    *out = found.map_or(miss, |at| rows[at]);
                    if let (Some(hits), Some(_)) = (&mut hits, found) {
                        hits[i / 32] |= 1 << (i % 32);
                    }
                }
            };
            let tasks = slice(points).par_chunks(TASK).zip(slice(positions)[..count].par_chunks(TASK));
            let tasks = tasks.zip(slice_mut(out_rows)[..count].par_chunks_mut(TASK));
            match hits {
                None => tasks.for_each(|((points, from), out)| find(points, from, out, None)),
                Some(hits) => tasks
                    .zip(slice_mut(hits)[..count.div_ceil(32)].par_chunks_mut(TASK / 32))
                    .for_each(|(((points, from), out), hits)| find(points, from, out, Some(hits))),
            }
            return Ok(());
        }
        let args = MostSpecificArgs::<B, V> {
            intervals: self.argument(stream)?,
            points: points.read_on(stream)?.cast(),
            positions: positions.read_on(stream)?,
            count: count as u64,
            out_rows: out_rows.write_on(stream)?,
            hits: optional_mut(hits, stream)?,
            flip: K::FLIP,
            miss,
        };
        // SAFETY: the lengths were checked; the pointers are for this stream.
        Ok(unsafe { each(stream, count)?.run(calls::most_specific(&args)) }?)
    }

    /// The rows of all intervals up to each position that end at or above each lowest point, from the probe's offset on, as far as
    /// there is room.
    pub(crate) fn stab<K: AnyKey<Bits = B>>(
        &self,
        stream: &Stream,
        (lows, positions): (&Buffer<K>, &Buffer<u32>),
        offsets: &Buffer<u64>,
        out_rows: &mut Buffer<V>,
    ) -> Result<()> {
        let count = lows.len();
        assert!(positions.len() >= count && offsets.len() > count);
        if count == 0 || out_rows.is_empty() {
            return Ok(());
        }
        if is_host(stream) {
            self.stab_on_host(slice(lows), slice(positions), slice(offsets), slice_mut(out_rows));
            return Ok(());
        }
        let args = StabArgs::<B, V> {
            intervals: self.argument(stream)?,
            lows: lows.read_on(stream)?.cast(),
            positions: positions.read_on(stream)?,
            offsets: offsets.read_on(stream)?,
            count: count as u64,
            capacity: out_rows.len() as u64,
            out_rows: out_rows.write_on(stream)?,
            flip: K::FLIP,
        };
        // SAFETY: the lengths were checked; the pointers are for this stream.
        Ok(unsafe { each(stream, count)?.run(calls::stab(&args)) }?)
    }

    fn stab_on_host<K: AnyKey<Bits = B>>(&self, lows: &[K], positions: &[u32], offsets: &[u64], mut out: &mut [V]) {
        let rows = slice(&self.rows);
        // Each task's probes with the part of the output that is theirs.
        let mut tasks = Vec::with_capacity(lows.len().div_ceil(TASK));
        let mut before = 0;
        for (task, lows) in lows.chunks(TASK).enumerate() {
            let first = task * TASK;
            let end = usize::try_from(offsets[first + lows.len()]).unwrap_or(usize::MAX);
            let own;
            let len = (end - before).min(out.len());
            (own, out) = core::mem::take(&mut out).split_at_mut(len);
            tasks.push((lows, &positions[first..], &offsets[first..], own));
            before = end;
        }
        tasks.into_par_iter().for_each(|(lows, positions, offsets, mut out)| {
            for ((low, &from), pair) in lows.iter().zip(positions).zip(offsets.windows(2)) {
                let own;
                let len = usize::try_from(pair[1] - pair[0]).unwrap_or(usize::MAX).min(out.len());
                (own, out) = core::mem::take(&mut out).split_at_mut(len);
                let mut from = from;
                for row in own {
                    let Some(at) = self.innermost(low.encode(), from) else { break };
                    *row = rows[at];
                    from = (at as u32).wrapping_sub(1);
                }
            }
        });
    }
}

/// The lowest and the highest point of each probe.
pub(crate) type Probes<'a, K> = (&'a Buffer<K>, &'a Buffer<K>);

/// Counts intervals: those that have started at the highest point of each of `count` probes, less those that have ended below the
/// lowest one. Probes are points if they have no bounds.
pub(crate) fn count_open<K: AnyKey>(
    stream: &Stream,
    probes: Option<Probes<'_, K>>,
    (positions, ended): (&Buffer<u32>, &Buffer<u32>),
    count: usize,
    counts: &mut Buffer<u64>,
) -> Result<()> {
    assert!(probes.is_none_or(|(lows, highs)| lows.len() >= count && highs.len() >= count));
    assert!(positions.len() >= count && ended.len() >= count && counts.len() >= count);
    if count == 0 {
        return Ok(());
    }
    if is_host(stream) {
        let (positions, ended) = (slice(positions), slice(ended));
        let probes = probes.map(|(lows, highs)| (slice(lows), slice(highs)));
        slice_mut(counts)[..count].par_iter_mut().enumerate().for_each(|(i, count)| {
            let is_reversed = probes.is_some_and(|(lows, highs)| highs[i] < lows[i]);
            let found = positions[i].wrapping_add(1).wrapping_sub(ended[i]);
            *count = if is_reversed { 0 } else { found.into() };
        });
        return Ok(());
    }
    let (lows, highs) = probes.unzip();
    let args = CountArgs::<K::Bits> {
        lows: optional(lows, stream)?.cast(),
        highs: optional(highs, stream)?.cast(),
        positions: positions.read_on(stream)?,
        ended: ended.read_on(stream)?,
        count: count as u64,
        counts: counts.write_on(stream)?,
        flip: K::FLIP,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    Ok(unsafe { each(stream, count)?.run(calls::count(&args)) }?)
}
