//! Batches on a device, answered by shards on several.
//!
//! ```text
//!  the batch's device                                     a shard's device
//!  ┌────────────────────┐ 1. a piece to its buckets; the
//!  │ scatter, or shift  │    host reads how many queries
//!  └──┬──────────────┬──┘    each of them has
//!     ▼              └───────── 2. buckets ──────────► ┌──────────┐
//!  ┌──────────┐                                        │ look-ups │
//!  │ look-ups │                                        └────┬─────┘
//!  └──┬───────┘      ┌───────── 3. results ◄────────────────┘
//!     ▼              ▼
//!  ┌────────────────────┐ 4. results to the batch's order,
//!  │ back               │    in the caller's stream
//!  └────────────────────┘
//! ```
//!
//! Pieces go this way one behind the other, in memory and streams of their own ([`slots`](crate::slots)), [`SLOTS`] on each device
//! at a time: no piece waits for another one's look-ups or copies. The first pieces and the last are shorter ([`Routing::shortest`]).
//! The batch's device divides. Every device can take a share ([`Routing::all_divide`]): then the others' pieces are copied to them as
//! they are, divided there, and their results are copied back in the batch's order.
//!
//! A sorted batch of which only values are wanted needs neither: see [`Lane::slices`].

use crate::back::{Back, Marking, tiles};
use crate::question::{Queries, Question, Shard, after, numbered};
use crate::route::MOST;
use crate::slots::{BUCKET, Layout, Slot, Table, read, reserve, reserve_pinned, words, write};
use core::ops::Range;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::{AnyKey, Buffer, Device, Event, KeyWord, PinnedBuffer, Result, Stream, Word};
use lanetree_kernels_sharded::{CutArgs, MOST_SHARDS, ScatterArgs, ShiftArgs, TILE, calls, place};
use lanetree_runtime::PeerPart;
use lanetree_simt::{Global, GlobalMut, LaunchShape};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Pieces that are on their way at a time, on each device that divides.
const SLOTS: usize = 4;

/// Queries of a piece, a multiple of [`TILE`]: long enough that the few dozen calls of the driver for it take less time than it does.
const PIECE: usize = 1 << 22;

/// Queries of the first piece and the last of a long batch.
const SHORTEST: usize = 1 << 20;

/// Queries of a piece below which it is not divided further for the sake of more devices.
const LEAST: usize = 1 << 18;

/// Room of all buckets of a piece together, in queries.
const ROOM: usize = 1 << 24;

const _: () = assert!(MOST == MOST_SHARDS as usize);
const _: () = assert!(PIECE.is_multiple_of(TILE as usize) && TILE.is_multiple_of(32));
const _: () = assert!(ROOM + MOST_SHARDS as usize * BUCKET < 1 << place::BITS);

/// How batches are divided: as it is by default, but in tests and measurements.
#[derive(Clone, Copy, Debug)]
pub struct Routing {
    /// The most queries of a piece, a multiple of 2048.
    pub piece: usize,
    /// Queries of the first piece and the last, a multiple of 2048: the other devices wait for the division of the first one, and
    /// the batch's device for the results of the last one. From there on pieces become twice as long, up to the most.
    pub shortest: usize,
    /// Pieces on their way on each device, 1 at least.
    pub slots: usize,
    /// Whether all devices divide.
    pub all_divide: bool,
    /// Whether places are written for each row of queries, where that takes fewer bytes, not for each query.
    pub in_rows: bool,
}

impl Default for Routing {
    fn default() -> Self {
        Self { piece: PIECE, shortest: SHORTEST, slots: SLOTS, all_divide: false, in_rows: true }
    }
}

/// Memory and streams of batches, kept for the next ones.
pub(crate) struct Router<K: AnyKey, V> {
    lanes: Mutex<Vec<Lane<K, V>>>,
    pub(crate) routing: Routing,
    /// Batches on their way, as far as the host knows.
    active: AtomicUsize,
}

impl<K: AnyKey, V> Default for Router<K, V> {
    fn default() -> Self {
        Self { lanes: Mutex::default(), routing: Routing::default(), active: AtomicUsize::new(0) }
    }
}

/// What batches on one device use.
struct Lane<K: AnyKey, V> {
    home: Device,
    /// Of each device that divides, by its number: the first is `home`.
    bases: Vec<Base<K, V>>,
    cuts: Buffer<u64>,
    staged_cuts: PinnedBuffer<u64>,
}

/// What pieces on one device use.
struct Base<K: AnyKey, V> {
    device: Device,
    /// For what comes before all pieces.
    stream: Stream,
    splitters: Table<K::Bits>,
    before: Table<u64>,
    keys_beside: Table<K::Bits>,
    values_beside: Table<V>,
    /// `[pieces][shards]`: where each shard's bucket begins, or the way to it from a place in the piece.
    ways: Buffer<u32>,
    staged_ways: PinnedBuffer<u32>,
    slots: Vec<Slot>,
    /// The slot of the next piece.
    next: usize,
}

/// A batch on its way.
struct Way<'a, K: AnyKey, V: Word> {
    shards: &'a [Shard<'a, K, V>],
    /// The number of each shard's device.
    numbers: &'a [usize],
    devices: &'a [Device],
    stream: &'a Stream,
    queries: Queries<K::Bits>,
    question: &'a Question<'a, K, V>,
    /// After what the caller's stream has been given before.
    given: Event,
    marking: Marking,
    /// [`Routing::shortest`].
    shortest: usize,
}

/// A piece of a batch.
struct Piece {
    range: Range<usize>,
    number: usize,
    /// The device that divides it, and its slot there, once it is on its way.
    base: usize,
    slot: usize,
    /// The queries of each shard, if that is known before it is divided.
    sizes: Option<Vec<usize>>,
}

/// Where pieces of at most so many queries are: those at both ends grow from the shortest on by twice from piece to piece. All begin at
/// multiples of a tile, if both lengths are some.
fn cut_in_pieces(count: usize, most: usize, shortest: usize) -> Vec<Range<usize>> {
    let (mut ranges, mut first, mut next) = (Vec::new(), 0, shortest);
    while first < count {
        let left = count - first;
        // What is left for pieces as long as this one and all shorter ones after it.
        let mut len = next.min(most);
        while len > shortest && left < 2 * len {
            len = (len / 2).next_multiple_of(TILE as usize).max(shortest);
        }
        ranges.push(first..count.min(first + len));
        (first, next) = (first + len, len * 2);
    }
    ranges
}

impl<K: AnyKey, V: Word> Router<K, V> {
    /// Answers a batch. Waits for the numbers of queries of the shards; the rest may go on after the return, and later work in
    /// `stream` comes after it.
    ///
    /// # Errors
    /// [`Error::Runtime`] from a device, or if one has no room; [`Error::Lost`]; [`Error::BatchTooLarge`].
    ///
    /// # Safety
    /// `stream` may read the queries and write as many results. All shards' devices and the stream's are of one kind, which
    /// launches kernels; `splitters` ascend, and there is one fewer than shards.
    pub(crate) unsafe fn run(
        &self,
        shards: &[Shard<'_, K, V>],
        splitters: &[K],
        stream: &Stream,
        queries: Queries<K::Bits>,
        question: &Question<'_, K, V>,
    ) -> Result<()> {
        if queries.count == 0 {
            return Ok(());
        }
        if let [shard] = shards
            && shard.device == stream.device()
            && question.wants_all()
        {
            // SAFETY: the caller's contract.
            return unsafe { question.ask(shard, stream, queries.is_sorted, (queries.at, queries.count)) };
        }
        /// Ends the batch, after a panic too.
        struct Active<'a>(&'a AtomicUsize);
        impl Drop for Active<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.active.fetch_add(1, Ordering::Relaxed);
        let _active = Active(&self.active);
        let home = stream.device();
        let (devices, numbers) = numbered(home, shards);
        let mut lane = match self.take(home) {
            Some(lane) => lane,
            None => Lane::new(home)?,
        };
        // A piece for each slot, unless the pieces are too small then.
        let share = queries.count.div_ceil(devices.len() * self.routing.slots).next_multiple_of(TILE as usize);
        let room = (ROOM / shards.len()).next_multiple_of(TILE as usize);
        let piece = if queries.is_spread { share.max(LEAST) } else { queries.count.next_multiple_of(TILE as usize) };
        let piece = piece.min(self.routing.piece).min(room);
        let done = home.event().map_err(Into::into).and_then(|given| {
            given.record(stream)?;
            let (numbers, devices) = (&numbers[..], &devices[..]);
            let marking =
                match self.routing.in_rows && !queries.is_sorted && shards.len() <= place::MOST_IN_ROWS as usize {
                    true => Marking::Rows,
                    false => Marking::Places,
                };
            let shortest = if queries.is_spread { self.routing.shortest.min(piece) } else { piece };
            let way = Way { shards, numbers, devices, stream, queries, question, given, marking, shortest };
            // Where several batches are on their way, each keeps its own device busy. A number only: it may be out of date.
            let divide_elsewhere = || self.routing.all_divide && self.active.load(Ordering::Relaxed) < 2;
            // SAFETY: the caller's contract.
            unsafe { lane.run(&way, splitters, (piece, self.routing.slots), &divide_elsewhere) }
        });
        if done.is_err() {
            // What uses the caller's memory comes before what the caller does next. Without an error `stream` comes after it.
            lane.bases.iter().for_each(Base::quiesce);
        }
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
        done
    }

    fn take(&self, home: &Device) -> Option<Lane<K, V>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lanes.iter().position(|lane| lane.home == *home)?;
        Some(lanes.swap_remove(at))
    }
}

impl<K: AnyKey, V: Word> Base<K, V> {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            stream: device.stream()?,
            splitters: Table::new(device)?,
            before: Table::new(device)?,
            keys_beside: Table::new(device)?,
            values_beside: Table::new(device)?,
            ways: device.alloc(0)?,
            staged_ways: device.pinned(0)?,
            slots: Vec::new(),
            next: 0,
        })
    }

    fn quiesce(&self) {
        let _ = self.stream.synchronize();
        self.slots.iter().for_each(Slot::quiesce);
    }

    /// Slots, at least `count`, for batches on a device.
    fn make_slots(&mut self, count: usize, home: &Device) -> Result<()> {
        while self.slots.len() < count {
            self.slots.push(Slot::new(&self.device, home)?);
        }
        Ok(())
    }

    /// Sends what a question needs on this device.
    fn hold(&mut self, splitters: &[K], question: &Question<'_, K, V>) -> Result<()> {
        self.splitters.hold(splitters.iter().map(|key| key.encode()))?;
        match question {
            Question::Get { .. } | Question::Contains { .. } => {}
            Question::Rank { before, .. } => self.before.hold(before.iter().copied())?,
            Question::Neighbor { beside, .. } => {
                // Results are in the caller's form.
                let key = |pair: &Option<(K, V)>| pair.map_or(K::Bits::MIN, |(key, _)| key.encode().xor(K::FLIP));
                self.keys_beside.hold(beside.iter().map(key))?;
                self.values_beside.hold(beside.iter().map(|pair| pair.map_or(V::MIN, |(_, value)| value)))?;
            }
        }
        Ok(())
    }

    /// Sends where each bucket of pieces on this device begins; or, of a sorted batch, which has cuts, the way there from a place in
    /// the piece.
    fn upload_ways(&mut self, layout: &Layout, pieces: &[Piece], cuts: &[usize]) -> Result<()> {
        let shards = layout.starts.len();
        let all = pieces.len() * shards;
        reserve(&mut self.ways, all)?;
        reserve_pinned(&mut self.staged_ways, all)?;
        let ways = &mut self.staged_ways[..all];
        for (ways, piece) in ways.chunks_mut(shards).zip(pieces) {
            for (shard, (way, &start)) in ways.iter_mut().zip(&layout.starts).enumerate() {
                let from = cuts.get(shard).map_or(0, |&cut| cut.saturating_sub(piece.range.start));
                *way = (start as u32).wrapping_sub(from as u32);
            }
        }
        Ok(self.ways.upload_async(&self.stream, 0, &self.staged_ways, 0..all)?)
    }
}

impl<K: AnyKey, V: Word> Lane<K, V> {
    fn new(home: &Device) -> Result<Self> {
        let (cuts, staged_cuts) = (home.alloc(0)?, home.pinned(0)?);
        Ok(Self { home: home.clone(), bases: vec![Base::new(home)?], cuts, staged_cuts })
    }

    /// # Safety
    /// As [`Router::run`].
    unsafe fn run(
        &mut self,
        way: &Way<'_, K, V>,
        splitters: &[K],
        (piece, slots): (usize, usize),
        divide_elsewhere: &dyn Fn() -> bool,
    ) -> Result<()> {
        let (devices, queries, question) = (way.devices, way.queries, way.question);
        let mut cuts = Vec::new();
        if queries.is_sorted {
            self.bases[0].hold(splitters, question)?;
            // SAFETY: the caller's contract.
            cuts = unsafe { self.cut(way, splitters.len())? };
            if let Question::Get { values, hits, miss } = *question
                && !values.is_null()
                && hits.is_null()
                && (queries.is_spread || devices.len() == 1)
            {
                // SAFETY: the caller's contract.
                return unsafe { self.slices(way, &cuts, (values, miss), (piece, slots)) };
            }
        }
        // The parts of a sorted batch are known on its own device.
        let is_shared = queries.is_spread && !queries.is_sorted && queries.count > piece && divide_elsewhere();
        let dividing = if is_shared { devices.len() } else { 1 };
        for (number, device) in devices.iter().enumerate().take(dividing) {
            match self.bases.get(number) {
                Some(base) if base.device == *device => {}
                Some(_) => self.bases[number] = Base::new(device)?,
                None => self.bases.push(Base::new(device)?),
            }
        }
        let sizes = |range: &Range<usize>| {
            let part = |cuts: &[usize]| cuts[1].min(range.end).saturating_sub(cuts[0].max(range.start));
            queries.is_sorted.then(|| cuts.windows(2).map(part).collect())
        };
        let mut pieces: Vec<Piece> = cut_in_pieces(queries.count, piece, way.shortest)
            .into_iter()
            .enumerate()
            .map(|(number, range)| Piece { sizes: sizes(&range), range, number, base: 0, slot: 0 })
            .collect();
        let mut layouts = Vec::with_capacity(dividing);
        for (number, base) in self.bases.iter_mut().enumerate().take(dividing) {
            let layout = Layout::new(piece.min(queries.count), number, way.numbers);
            base.hold(splitters, question)?;
            base.upload_ways(&layout, &pieces, &cuts)?;
            layouts.push(layout);
        }
        // Divided well before the host asks how; results go back as late as the slots allow, since the caller's stream takes them
        // in the order of the pieces.
        let on_way = slots * dividing;
        let ahead = on_way / 2;
        for number in 0..pieces.len() + on_way {
            let before = |behind: usize| number.checked_sub(behind).filter(|&number| number < pieces.len());
            let (done, divided) = (before(on_way), before(ahead));
            // SAFETY: the caller's contract; each slot is that of its piece until its results are back.
            unsafe {
                if let Some(piece) = done.map(|done| &pieces[done]) {
                    self.finish(way, piece, &layouts[piece.base])?;
                }
                if let Some(piece) = pieces.get_mut(number) {
                    piece.base = if divide_elsewhere() { number % dividing } else { 0 };
                    let base = &mut self.bases[piece.base];
                    piece.slot = base.next % on_way;
                    base.next = piece.slot + 1;
                    base.make_slots(base.next, &self.home)?;
                    self.divide(way, piece, &layouts[piece.base])?;
                }
                if let Some(piece) = divided.map(|divided| &pieces[divided]) {
                    self.look_up(way, piece, &layouts[piece.base])?;
                }
            }
        }
        // Results come after these copies in any case; but only what streams of one device wait for is known to be ordered.
        for slot in self.bases[..dividing].iter().skip(1).flat_map(|base| base.slots.iter().take(on_way)) {
            // SAFETY: streams of one device.
            unsafe { way.stream.wait_for_copies(&slot.feed, GlobalMut::<u8>::null())? };
        }
        Ok(())
    }

    /// Where each shard's part of a sorted batch begins, and the last one's end.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn cut(&mut self, way: &Way<'_, K, V>, splits: usize) -> Result<Vec<usize>> {
        let (base, queries) = (&mut self.bases[0], way.queries);
        let mut cuts = vec![0];
        if splits > 0 {
            reserve(&mut self.cuts, splits)?;
            reserve_pinned(&mut self.staged_cuts, splits)?;
            let stream = &base.stream;
            stream.wait(&way.given)?;
            let args = CutArgs {
                queries: queries.at,
                count: queries.count as u64,
                splitters: base.splitters.there.read_on(stream)?,
                cuts: self.cuts.write_on(stream)?,
                splits: splits as u32,
                padding: 0,
                flip: K::FLIP,
            };
            let shape = LaunchShape { blocks: 1, threads: MOST_SHARDS, dynamic_shared: 0 };
            // SAFETY: the caller's contract.
            unsafe { lanetree_runtime::Launch::new(stream, shape).run(calls::cut(&args))? };
            self.cuts.download_async(stream, 0..splits, &mut self.staged_cuts, 0)?;
            stream.synchronize()?;
            cuts.extend(self.staged_cuts[..splits].iter().map(|&cut| cut as usize));
        }
        cuts.push(queries.count);
        Ok(cuts)
    }

    /// Values of a sorted batch: the shards' parts lie side by side, so those of shards here are looked up where they are, and those
    /// of others are copied there and back as they are.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn slices(
        &mut self,
        way: &Way<'_, K, V>,
        cuts: &[usize],
        (values, miss): (GlobalMut<V>, V),
        (piece, slots): (usize, usize),
    ) -> Result<()> {
        let (key, shape, base) = (K::Bits::BYTES, way.question.shape(), &mut self.bases[0]);
        let at = |first: usize| way.queries.at.byte_add((first * key) as u64);
        let part = |shard: usize| cuts[shard]..cuts[shard + 1];
        // What the caller's stream was given before is done: the cuts come after it. Every device's first piece before any one's second.
        let mut far: Vec<(usize, Range<usize>, usize)> = Vec::new();
        for shard in (0..way.shards.len()).filter(|&shard| way.numbers[shard] != 0) {
            let pieces = part(shard).step_by(piece).enumerate();
            far.extend(pieces.map(|(number, first)| (number, first..part(shard).end.min(first + piece), shard)));
        }
        far.sort_by_key(|&(number, ..)| number);
        base.make_slots(slots.min(far.len()), &self.home)?;
        let mut used = vec![vec![false; way.devices.len()]; slots];
        for (number, range, shard) in far {
            let (slot, device) = (number % slots, way.numbers[shard]);
            used[slot][device] = true;
            let slot = &mut base.slots[slot];
            slot.abroad((device, &way.devices[device]), range.len(), key, shape)?;
            let (feed, Some(abroad)) = (&slot.feed, &mut slot.abroad[device]) else { continue };
            // SAFETY: the queries of the part, and its place among the results, where nothing else writes.
            unsafe {
                let from = (at(range.start).cast(), range.len() * key);
                abroad.keys.copy_from_address(&abroad.stream, from, feed)?;
                let queries = (read(&abroad.keys, &abroad.stream, 0)?, range.len());
                let question = Question::Get {
                    values: write(&mut abroad.found.columns[0], &abroad.stream, 0)?,
                    hits: GlobalMut::null(),
                    miss,
                };
                question.ask(&way.shards[shard], &abroad.stream, true, queries)?;
                let (to, bytes) = (after(values, range.start).cast(), range.len() * V::BYTES);
                abroad.found.columns[0].copy_to_address(&abroad.stream, bytes, to, &self.home)?;
            }
        }
        for shard in (0..way.shards.len()).filter(|&shard| way.numbers[shard] == 0) {
            let part = part(shard);
            if !part.is_empty() {
                let question = Question::Get { values: after(values, part.start), hits: GlobalMut::null(), miss };
                // SAFETY: the caller's contract.
                unsafe { question.ask(&way.shards[shard], way.stream, true, (at(part.start), part.len()))? };
            }
        }
        for (slot, used) in base.slots.iter().zip(&used) {
            // SAFETY: streams of one device.
            unsafe { way.stream.wait_for_copies(&slot.feed, GlobalMut::<u8>::null())? };
            for abroad in slot.abroad.iter().zip(used).filter_map(|(abroad, &used)| abroad.as_ref().filter(|_| used)) {
                // SAFETY: the results are in memory of the stream's device.
                unsafe { way.stream.wait_for_copies(&abroad.stream, values)? };
            }
        }
        Ok(())
    }

    /// Puts a piece into its slot's buckets.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn divide(&mut self, way: &Way<'_, K, V>, piece: &Piece, layout: &Layout) -> Result<()> {
        let (key, shards, count) = (K::Bits::BYTES, way.shards.len(), piece.range.len());
        let base = &mut self.bases[piece.base];
        let slot = &mut base.slots[piece.slot];
        reserve(&mut slot.keys, words(layout.end, key))?;
        reserve(&mut slot.places, way.marking.words(count, shards))?;
        let stream = &slot.work;
        let mut queries = way.queries.at.byte_add((piece.range.start * key) as u64);
        if piece.base == 0 {
            stream.wait(&way.given)?;
        } else {
            reserve(&mut slot.input, words(count, key))?;
            slot.feed.wait(&way.given)?;
            // SAFETY: queries of the batch, which the caller's stream may read, and so all that waits for it.
            unsafe { slot.input.copy_from_address(stream, (queries.cast(), count * key), &slot.feed)? };
            queries = read(&slot.input, stream, 0)?;
        }
        slot.next.copy_from_buffer(stream, 0, &base.ways, piece.number * shards..(piece.number + 1) * shards)?;
        let (keys, places) = (write(&mut slot.keys, stream, 0)?, slot.places.write_on(stream)?);
        let next = slot.next.write_on(stream)?;
        let (tiles, count) = (tiles(stream, count)?, count as u64);
        // SAFETY: the caller's contract; each bucket has room for the whole piece, and those of a sorted one for the parts.
        unsafe {
            if piece.sizes.is_some() {
                let (first, cuts, ways) = (piece.range.start as u64, self.cuts.read_on(stream)?, next.as_const());
                let shards = shards as u32;
                let args = ShiftArgs { queries, count, first, cuts, ways, keys, places, shards, padding: 0 };
                return Ok(tiles.run(calls::shift(&args))?);
            }
            let (splitters, flip, shards) = (base.splitters.there.read_on(stream)?, K::FLIP, shards as u32);
            let (places, planes, firsts) = match way.marking.firsts(piece.range.len(), way.shards.len()) {
                None => (places, GlobalMut::null(), GlobalMut::null()),
                Some(firsts) => (GlobalMut::null(), places, places.byte_add(firsts)),
            };
            let args =
                ScatterArgs { queries, count, splitters, next, keys, places, planes, firsts, shards, padding: 0, flip };
            tiles.run(calls::scatter(&args))?;
        }
        Ok(slot.next.download_async(stream, 0..shards, &mut slot.staged_next, 0)?)
    }

    /// Has a piece's buckets looked up, and the results brought to the device that divided it; on another device than the batch's,
    /// also put in order and sent to where they are wanted. Waits until it is divided.
    ///
    /// # Safety
    /// As [`Router::run`]; the piece was divided.
    unsafe fn look_up(&mut self, way: &Way<'_, K, V>, piece: &Piece, layout: &Layout) -> Result<()> {
        let (question, is_sorted) = (way.question, way.queries.is_sorted);
        let (shape, key, all) = (question.shape(), K::Bits::BYTES, way.shards.len());
        let slot = &mut self.bases[piece.base].slots[piece.slot];
        let sizes = match &piece.sizes {
            Some(sizes) => sizes.clone(),
            None => {
                // It has nothing else to do yet.
                slot.work.synchronize()?;
                let ends = &slot.staged_next[..all];
                ends.iter().zip(&layout.starts).map(|(&end, &start)| end as usize - start).collect()
            }
        };
        let of = |device: usize| (0..all).filter(move |&shard| way.numbers[shard] == device);
        let of = |device: usize| of(device).filter(|&shard| sizes[shard] > 0);
        let end = |from: usize, shards: &mut dyn Iterator<Item = usize>| {
            shards.map(|shard| layout.starts[shard] + sizes[shard] - from).max().unwrap_or(0)
        };
        let others = || (0..way.devices.len()).filter(|&device| device != piece.base);
        slot.near.reserve(end(0, &mut of(piece.base)), shape)?;
        slot.far.reserve(end(layout.near, &mut others().flat_map(&of)), shape)?;
        // Where each bucket is on its shard's device.
        let mut places = vec![0; all];
        // Those far away first: the copies go on during the look-ups here.
        for device in others() {
            let mut len = 0;
            for shard in of(device) {
                places[shard] = len;
                len += sizes[shard].next_multiple_of(BUCKET);
            }
            if len == 0 {
                continue;
            }
            slot.abroad((device, &way.devices[device]), len, key, shape)?;
            let Some(abroad) = &mut slot.abroad[device] else { continue };
            let parts: Vec<PeerPart<'_, u64>> = of(device)
                .map(|shard| PeerPart {
                    from: &slot.keys,
                    range: words(layout.starts[shard], key)..words(layout.starts[shard] + sizes[shard], key),
                    stream: &slot.send,
                    at: words(places[shard], key),
                })
                .collect();
            abroad.keys.copy_from_peers(&abroad.stream, &parts)?;
            for shard in of(device) {
                let queries = (read(&abroad.keys, &abroad.stream, places[shard])?, sizes[shard]);
                let question = question.of_bucket(&abroad.stream, &mut abroad.found, places[shard])?;
                // SAFETY: the bucket's queries and room.
                unsafe { question.ask(&way.shards[shard], &abroad.stream, is_sorted, queries)? };
            }
        }
        let far = |shard: usize| Some((slot.abroad.get(way.numbers[shard])?.as_ref()?, places[shard]));
        let far = || others().flat_map(&of).filter_map(|shard| Some((far(shard)?, shard)));
        for (number, (column, bytes)) in slot.far.columns.iter_mut().zip(shape.columns).enumerate() {
            let parts: Vec<PeerPart<'_, u64>> = far()
                .map(|((abroad, place), shard)| PeerPart {
                    from: &abroad.found.columns[number],
                    range: words(place, bytes)..words(place + sizes[shard], bytes),
                    stream: &abroad.stream,
                    at: words(layout.starts[shard] - layout.near, bytes),
                })
                .collect();
            column.copy_from_peers(&slot.send, &parts)?;
        }
        if shape.has_hits {
            let parts: Vec<PeerPart<'_, u32>> = far()
                .map(|((abroad, place), shard)| PeerPart {
                    from: &abroad.found.hits,
                    range: place / 32..(place + sizes[shard]).div_ceil(32),
                    stream: &abroad.stream,
                    at: (layout.starts[shard] - layout.near) / 32,
                })
                .collect();
            slot.far.hits.copy_from_peers(&slot.send, &parts)?;
        }
        for shard in of(piece.base) {
            let first = layout.starts[shard];
            let queries = (read(&slot.keys, &slot.work, first)?, sizes[shard]);
            let question = question.of_bucket(&slot.work, &mut slot.near, first)?;
            // SAFETY: the bucket's queries and room.
            unsafe { question.ask(&way.shards[shard], &slot.work, is_sorted, queries)? };
        }
        if piece.base == 0 {
            return Ok(());
        }
        let count = piece.range.len();
        slot.output.reserve(count, shape)?;
        let ordered = question.of_bucket(&slot.work, &mut slot.output, 0)?;
        let (columns, hits) = question.outputs();
        // SAFETY: the slot has all results; the outputs are the caller's, and this piece's part is written by nobody else.
        unsafe {
            let base = &self.bases[piece.base];
            let slot = &base.slots[piece.slot];
            base.back(way, slot, &slot.work, (0, count), layout.near, &ordered)?;
            for (column, (to, bytes)) in slot.output.columns.iter().zip(columns).filter(|(_, (to, _))| !to.is_null()) {
                let to = to.byte_add((piece.range.start * bytes) as u64);
                column.copy_to_address(&slot.work, count * bytes, to, &self.home)?;
            }
            if !hits.is_null() {
                let (to, bytes) = (after(hits, piece.range.start / 32).cast(), count.div_ceil(32) * 4);
                slot.output.hits.copy_to_address(&slot.work, bytes, to, &self.home)?;
            }
        }
        Ok(())
    }

    /// Puts a piece's results into the batch's order, in the caller's stream; or has this stream wait for them.
    ///
    /// # Safety
    /// As [`Router::run`]; the piece was looked up.
    unsafe fn finish(&mut self, way: &Way<'_, K, V>, piece: &Piece, layout: &Layout) -> Result<()> {
        let base = &self.bases[piece.base];
        let slot = &base.slots[piece.slot];
        // SAFETY: the slot has all results; the outputs are the caller's.
        unsafe {
            if piece.base == 0 {
                let part = (piece.range.start, piece.range.len());
                return base.back(way, slot, way.stream, part, layout.near, way.question);
            }
            let (columns, hits) = way.question.outputs();
            let outputs = columns.into_iter().map(|(to, _)| to).chain([hits.cast()]);
            outputs.filter(|to| !to.is_null()).try_for_each(|to| Ok(way.stream.wait_for_copies(&slot.work, to)?))
        }
    }
}

impl<K: AnyKey, V: Word> Base<K, V> {
    /// Puts a piece's results into order, from an element of the outputs on.
    ///
    /// # Safety
    /// The slot has so many results of this device's, and of shards elsewhere from the place `near` on; the outputs have room for
    /// them, which the stream may write.
    unsafe fn back(
        &self,
        way: &Way<'_, K, V>,
        slot: &Slot,
        stream: &Stream,
        (first, count): (usize, usize),
        near: usize,
        question: &Question<'_, K, V>,
    ) -> Result<()> {
        let shards = way.shards.len();
        let marks = way.marking.at(slot.places.read_on(stream)?, count, shards);
        let (near_hits, far_hits) = match question.shape().has_hits {
            true => (slot.near.hits.read_on(stream)?, slot.far.hits.read_on(stream)?),
            false => (Global::null(), Global::null()),
        };
        let back = Back { stream, marks, shards, count, near, near_hits, far_hits };
        let column = |number: usize| (&slot.near.columns[number], &slot.far.columns[number]);
        // SAFETY: the columns are of these types, by the shape; the caller's contract.
        unsafe {
            match *question {
                Question::Get { values, hits, .. } => {
                    let out = (after(values, first), after(hits, first / 32));
                    back.column::<V>(column(0), Global::null(), (Global::null(), [0; 2]), out)
                }
                Question::Contains { hits } => {
                    let out = (GlobalMut::null(), after(hits, first / 32));
                    back.column::<V>(column(0), Global::null(), (Global::null(), [0; 2]), out)
                }
                Question::Rank { ranks, .. } => {
                    let plus = self.before.there.read_on(stream)?;
                    let out = (after(ranks, first), GlobalMut::null());
                    back.column::<u64>(column(0), plus, (Global::null(), [0; 2]), out)
                }
                Question::Neighbor { keys, values, hits, beside, .. } => {
                    let mut have = [0; 2];
                    for (shard, _) in beside.iter().enumerate().filter(|(_, pair)| pair.is_some()) {
                        have[shard / 32] |= 1 << (shard % 32);
                    }
                    let other_keys = self.keys_beside.there.read_on(stream)?;
                    let other_values = self.values_beside.there.read_on(stream)?;
                    let (hits, is_set) = (after(hits, first / 32), values.is_null());
                    let out = (after(keys, first), if is_set { hits } else { GlobalMut::null() });
                    back.column::<K::Bits>(column(1), Global::null(), (other_keys, have), out)?;
                    if is_set {
                        return Ok(());
                    }
                    let out = (after(values, first), hits);
                    back.column::<V>(column(0), Global::null(), (other_values, have), out)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_short_at_both_ends() {
        let tile = TILE as usize;
        for count in [1, tile, 5 * tile + 3, 100 * tile - 1, 128 * tile] {
            for (most, shortest) in [(tile, tile), (8 * tile, tile), (8 * tile, 8 * tile), (12 * tile, 3 * tile)] {
                let pieces = cut_in_pieces(count, most, shortest);
                assert!(
                    pieces.iter().all(|piece| piece.start.is_multiple_of(tile) && (1..=most).contains(&piece.len()))
                );
                assert!(pieces.windows(2).all(|two| two[0].end == two[1].start));
                assert_eq!((pieces[0].start, pieces.last().map(|last| last.end)), (0, Some(count)));
                assert!(pieces[0].len() <= shortest && pieces.last().is_some_and(|last| last.len() <= 2 * shortest));
                assert!(pieces.len() <= count.div_ceil(most) + 8, "{count} in {pieces:?}");
            }
        }
    }
}
