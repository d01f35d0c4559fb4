//! All pairs in order, in windows.

use super::ranges::slots::Gathering;
use super::{FixedIndex, Query, TASK, View};
use core::fmt;
use core::ops::Range;
use lanetree_base::Result;
use lanetree_base::parallel::*;
use lanetree_base::room::{make_room, with_room};
use lanetree_base::staging::{PieceSlot, TakenSlots};
use lanetree_base::uninit::append;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{GatherBatch, GatherRows, Global};

/// Pairs of a window on the host: enough for all threads.
const HOST_WINDOW: usize = 1 << 18;

/// Windows of results in flight at a time.
const GATHERING: usize = 4;

/// Windows of ranges that have as many pairs as one of these.
const LONGER: usize = 16;

/// All pairs of an index as one row, on the device.
pub(super) struct AllRows {
    cursors: Buffer<u64>,
    offsets: Buffer<u64>,
}

impl AllRows {
    pub(super) fn new(index: &impl FixedIndex, device: &Device) -> Result<Self> {
        // Every index's first pair is at this cursor.
        Ok(Self { cursors: device.upload(&[0])?, offsets: device.upload(&[0, index.len()])? })
    }

    /// A window, which begins at a multiple of `part`, for a stream.
    pub(super) fn window(&self, stream: &Stream, pairs: Range<u64>, part: u64) -> Result<GatherRows> {
        let (cursors, offsets) = (self.cursors.read_on(stream)?, self.offsets.read_on(stream)?);
        let parts = (pairs.end - pairs.start).div_ceil(part);
        let skips = Global::null();
        Ok(GatherRows { cursors, skips, offsets, count: 1, first: pairs.start, end: pairs.end, part, parts })
    }
}

/// From which end windows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// Pairs of an index whose ranks are neighbours, a window at a time. A device gathers windows while earlier ones cross the bus and
/// are read.
pub(super) struct Windows<'a, I: FixedIndex> {
    index: &'a I,
    from: From<'a, I>,
    end: End,
    /// The ranks of the pairs that no window was asked for yet. On a device the first window from the front may begin before them.
    ranks: Range<u64>,
    /// Pairs of the current window.
    current: usize,
    is_first: bool,
    /// Pairs of the next window, and the most.
    len: u64,
    most: u64,
}

#[expect(clippy::large_enum_variant, reason = "one of it per call")]
enum From<'a, I: FixedIndex> {
    Host(Vec<I::Key>, Vec<I::Value>),
    Device {
        slots: TakenSlots<'a, Gathering<I::Key, I::Value>>,
        rows: AllRows,
        /// The numbers of the windows on their way, of all windows.
        in_flight: Range<usize>,
        /// Pairs of each of these, and of the current window.
        pairs: [usize; GATHERING],
    },
}

impl<I: FixedIndex> fmt::Debug for Windows<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Windows[ranks {:?} left]", self.ranks)
    }
}

impl<'a, I: FixedIndex> Windows<'a, I> {
    /// Windows of at most `most` pairs each, of the pairs with these ranks. The first one has about `first`; later ones are longer.
    pub(super) fn new(index: &'a I, ranks: Range<u64>, end: End, first: usize, most: usize) -> Result<Self> {
        index.check_not_lost()?;
        let sizes = index.staging().ranges.sizes;
        let from = match index.native() {
            Some(_) => From::Host(Vec::new(), Vec::new()),
            None => {
                let rows = AllRows::new(index, index.device())?;
                let slots = index.staging().ranges.gathering.take();
                From::Device { slots, rows, in_flight: 0..0, pairs: [0; GATHERING] }
            }
        };
        let whole = |pairs: usize| (pairs as u64 / sizes.part).max(1) * sizes.part;
        let most = most.min(LONGER * sizes.window);
        let (len, most) = (whole(first.min(most)), whole(most));
        Ok(Self { index, from, end, ranks, current: 0, is_first: true, len, most })
    }

    /// Goes on to the next window; false past the last one.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let Self { index, end, ranks, most, .. } = self;
        let (index, is_first) = (*index, core::mem::take(&mut self.is_first));
        self.current = 0;
        let longer = |len: &mut u64| core::mem::replace(len, (*most).min(*len * 8));
        match &mut self.from {
            From::Host(keys, values) => {
                let pairs = take(ranks, *end, longer(&mut self.len), 1);
                let len = (pairs.end - pairs.start) as usize;
                make_room(keys, len.saturating_sub(keys.len()))?;
                make_room(values, len.saturating_sub(values.len()))?;
                keys.resize(len, bytemuck::Zeroable::zeroed());
                values.resize(len, bytemuck::Zeroable::zeroed());
                index.check_not_lost()?;
                let view = index.native().expect("an index on the host is in main memory");
                let tasks = keys.par_chunks_mut(TASK).zip(values.par_chunks_mut(TASK));
                tasks.enumerate().for_each(|(task, (keys, values))| {
                    view.copy(pairs.start + (task * TASK) as u64, keys, values);
                });
                self.current = len;
            }
            From::Device { slots, rows, in_flight, pairs: of_windows } => {
                let part = index.staging().ranges.sizes.part;
                // The first one is alone: the caller may not want more.
                while !ranks.is_empty() && in_flight.len() < if is_first { 1 } else { GATHERING } {
                    let wanted = take(ranks, *end, longer(&mut self.len), part);
                    // A window begins where a part does.
                    let pairs = wanted.start / part * part..wanted.end;
                    let len = (pairs.end - pairs.start) as usize;
                    let number = in_flight.end % GATHERING;
                    slots.reserve(number + 1, || Gathering::new(index.device()))?;
                    let to = &mut slots[number];
                    to.reserve(index.device(), len, len)?;
                    of_windows[number] = (wanted.end - wanted.start) as usize;
                    let (keys, values) = (to.keys.write_on(&to.stream)?.cast(), to.values.write_on(&to.stream)?);
                    let rows = rows.window(&to.stream, pairs.clone(), part)?;
                    let query = Query::gather(GatherBatch { rows, keys, values }, len);
                    // SAFETY: the row is of all pairs, and there is room for the window's pairs; the pointers are for the stream.
                    unsafe { index.launch(&to.stream, &I::Tuning::default(), &query)? };
                    let wanted = (wanted.start - pairs.start) as usize..len;
                    to.download(wanted.clone(), wanted)?;
                    in_flight.end += 1;
                }
                if let Some(oldest) = in_flight.next() {
                    slots[oldest % GATHERING].synchronize()?;
                    self.current = of_windows[oldest % GATHERING];
                }
            }
        }
        Ok(self.current > 0)
    }

    /// The current window.
    pub(super) fn pairs(&mut self) -> (&[I::Key], &[I::Value]) {
        match &mut self.from {
            From::Host(keys, values) => (&keys[..self.current], &values[..self.current]),
            From::Device { slots, in_flight, .. } => {
                if self.current == 0 {
                    return (&[], &[]);
                }
                let slot = &slots[(in_flight.start - 1) % GATHERING];
                (&slot.staged_keys[..self.current], &slot.staged_values[..self.current])
            }
        }
    }
}

/// Windows for a caller who wants all pairs.
fn windows<I: FixedIndex>(index: &I) -> Result<Windows<'_, I>> {
    let most = if index.native().is_some() { HOST_WINDOW } else { usize::MAX };
    Windows::new(index, 0..index.len(), End::Front, most, most)
}

/// Takes at most `len` ranks from an end; one that is taken from the back begins at a multiple of `part`, of which `len` is a
/// multiple, or where all begin. Takes one at least.
fn take(ranks: &mut Range<u64>, end: End, len: u64, part: u64) -> Range<u64> {
    match end {
        End::Front => {
            // As many as there are in whole parts.
            let next = (ranks.start / part * part).saturating_add(len).min(ranks.end);
            let taken = ranks.start..next;
            ranks.start = next;
            taken
        }
        End::Back => {
            let first = ranks.end.saturating_sub(len).next_multiple_of(part).max(ranks.start);
            let taken = first..ranks.end;
            ranks.end = first;
            taken
        }
    }
}

/// Keys and values apart.
pub type Columns<I> = (Vec<<I as FixedIndex>::Key>, Vec<<I as FixedIndex>::Value>);

/// All pairs of an index in ascending order of their keys, in main memory: keys and values apart.
///
/// # Errors
/// [`Error::Lost`](lanetree_base::Error::Lost); [`Error::Runtime`](lanetree_base::Error::Runtime) from the device, and where main
/// memory has no room.
pub fn copied<I: FixedIndex>(index: &I) -> Result<Columns<I>> {
    let mut windows = windows(index)?;
    let (mut keys, mut values) = (with_room(index.len() as usize)?, with_room(index.len() as usize)?);
    while windows.advance()? {
        let (new_keys, new_values) = windows.pairs();
        append(&mut keys, new_keys.len(), |out| Ok(out.fill_in_parallel(|at| new_keys[at])))?;
        append(&mut values, new_values.len(), |out| Ok(out.fill_in_parallel(|at| new_values[at])))?;
    }
    Ok((keys, values))
}

/// Calls a function with all pairs of an index in ascending order of their keys, a window at a time: its keys, and their values. On
/// a device the next windows are on their way meanwhile, so the pairs take no more memory than some windows.
///
/// # Errors
/// [`Error::Lost`](lanetree_base::Error::Lost); [`Error::Runtime`](lanetree_base::Error::Runtime) from the device, and
/// if there is no memory for the windows; the first error of the function, which ends the iteration.
pub fn each_window<I: FixedIndex, E: core::convert::From<lanetree_base::Error>>(
    index: &I,
    mut f: impl FnMut(&[I::Key], &[I::Value]) -> Result<(), E>,
) -> Result<(), E> {
    let mut windows = windows(index)?;
    while windows.advance()? {
        let (keys, values) = windows.pairs();
        f(keys, values)?;
    }
    Ok(())
}

/// The same as pairs.
pub(super) fn copied_pairs<I: FixedIndex>(index: &I) -> Result<Vec<(I::Key, I::Value)>> {
    let mut windows = windows(index)?;
    let mut pairs = with_room(index.len() as usize)?;
    while windows.advance()? {
        let (keys, values) = windows.pairs();
        append(&mut pairs, keys.len(), |out| Ok(out.fill_in_parallel(|at| (keys[at], values[at]))))?;
    }
    Ok(pairs)
}
