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
//! Pieces follow one another, in memory and streams of their own ([`slots`](crate::slots)), [`SLOTS`] at a time: no
//! piece waits for another one's look-ups or copies.
//!
//! A sorted batch of which only values are wanted needs neither: see [`DeviceScratch::slices`].

use crate::back::{Back, tiles};
use crate::question::{Queries, Question, Shard, after, numbered};
use crate::route::MOST;
use crate::slots::{BUCKET, Layout, Slot, Table, read, reserve, reserve_pinned, words, write};
use core::ops::Range;
#[allow(unused_imports, reason = "the documentation names it, also on the pages of crates that re-export it")]
use lanetree_frame::Error;
use lanetree_frame::{AnyKey, Buffer, Device, Event, KeyWord, PinnedBuffer, Result, Stream, Word};
use lanetree_kernels_sharded::{CutArgs, MOST_SHARDS, ScatterArgs, ShiftArgs, TILE, calls, place};
use lanetree_primitives::check_order;
use lanetree_runtime::PeerPart;
use lanetree_simt::{Global, GlobalMut, LaunchShape};
use std::sync::{Mutex, PoisonError};

/// Pieces in flight at a time.
const SLOTS: usize = 4;

/// Queries of a piece, a multiple of [`TILE`]: long enough that the few dozen calls of the driver for it take less time than it does.
const PIECE: usize = 1 << 22;

/// Queries of a piece below which it is not divided further for the sake of more devices.
const LEAST: usize = 1 << 18;

/// Room of all buckets of a piece together, in queries.
const ROOM: usize = 1 << 24;

const _: () = assert!(MOST == MOST_SHARDS as usize);
const _: () = assert!(PIECE.is_multiple_of(TILE as usize) && TILE.is_multiple_of(32));
const _: () = assert!(ROOM + MOST_SHARDS as usize * BUCKET < 1 << place::BITS);

/// How batches are divided: as it is by default, but in tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routing {
    /// The most queries of a piece, a multiple of 2048.
    pub(crate) piece: usize,
    /// Pieces in flight, 1 at least.
    pub(crate) slots: usize,
}

impl Default for Routing {
    fn default() -> Self {
        Self { piece: PIECE, slots: SLOTS }
    }
}

/// Memory and streams of batches, kept for the next ones.
pub(crate) struct Router<K: AnyKey, V> {
    kept: Mutex<Vec<DeviceScratch<K, V>>>,
    pub(crate) routing: Routing,
}

impl<K: AnyKey, V> Default for Router<K, V> {
    fn default() -> Self {
        Self { kept: Mutex::default(), routing: Routing::default() }
    }
}

/// Memory and streams that a batch on one device uses.
struct DeviceScratch<K: AnyKey, V> {
    home: Device,
    cuts: Buffer<u64>,
    staged_cuts: PinnedBuffer<u64>,
    /// For setup work before the first piece.
    stream: Stream,
    /// For the check of a sorted batch, beside its look-ups.
    checks: Stream,
    /// Where a batch that is called sorted first descends, and how many queries equal the one before.
    order: Buffer<u64>,
    staged_order: PinnedBuffer<u64>,
    splitters: Table<K::Bits>,
    before: Table<u64>,
    fallback_keys: Table<K::Bits>,
    fallback_values: Table<V>,
    /// `[pieces][shards]`: start of each shard's bucket; of a sorted batch, bucket start minus cut.
    bucket_starts: Buffer<u32>,
    staged_bucket_starts: PinnedBuffer<u32>,
    slots: Vec<Slot>,
    /// The slot of the next piece.
    next: usize,
}

/// A batch in flight.
struct InFlight<'a, K: AnyKey, V: Word> {
    shards: &'a [Shard<'a, K, V>],
    /// The number of each shard's device.
    numbers: &'a [usize],
    devices: &'a [Device],
    stream: &'a Stream,
    queries: Queries<K::Bits>,
    question: &'a Question<'a, K, V>,
    /// Recorded when the call began: all earlier work of the caller's stream.
    submitted: Event,
}

/// A piece of a batch.
struct Piece {
    range: Range<usize>,
    number: usize,
    slot: usize,
    /// The queries of each shard, if that is known before it is divided.
    sizes: Option<Vec<usize>>,
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
        let home = stream.device();
        let (devices, numbers) = numbered(home, shards);
        let mut scratch = match self.take(home) {
            Some(scratch) => scratch,
            None => DeviceScratch::new(home)?,
        };
        // A piece for each slot, unless the pieces are too small then.
        let share = queries.count.div_ceil(self.routing.slots).next_multiple_of(TILE as usize);
        let room = (ROOM / shards.len()).next_multiple_of(TILE as usize);
        let piece = if queries.is_spread { share.max(LEAST) } else { queries.count.next_multiple_of(TILE as usize) };
        let piece = piece.min(self.routing.piece).min(room);
        let mut run = |is_sorted: bool| {
            let submitted = home.event()?;
            submitted.record(stream)?;
            let (numbers, devices, queries) = (&numbers[..], &devices[..], Queries { is_sorted, ..queries });
            let batch = InFlight { shards, numbers, devices, stream, queries, question, submitted };
            // SAFETY: the caller's contract.
            unsafe { scratch.run(&batch, splitters, (piece, self.routing.slots)) }
        };
        // Of a batch that is not sorted as was said, queries were asked of other shards than theirs.
        let done = run(queries.is_sorted).and_then(|is_right| if is_right { Ok(()) } else { run(false).map(drop) });
        if done.is_err() {
            // What uses the caller's memory comes before what the caller does next. Without an error `stream` comes after it.
            scratch.quiesce();
        }
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        done
    }

    fn take(&self, home: &Device) -> Option<DeviceScratch<K, V>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|scratch| scratch.home == *home)?;
        Some(kept.swap_remove(at))
    }
}

impl<K: AnyKey, V: Word> DeviceScratch<K, V> {
    fn new(home: &Device) -> Result<Self> {
        Ok(Self {
            home: home.clone(),
            cuts: home.alloc(0)?,
            staged_cuts: home.pinned(0)?,
            stream: home.stream()?,
            checks: home.stream()?,
            order: home.alloc(2)?,
            staged_order: home.pinned(2)?,
            splitters: Table::new(home)?,
            before: Table::new(home)?,
            fallback_keys: Table::new(home)?,
            fallback_values: Table::new(home)?,
            bucket_starts: home.alloc(0)?,
            staged_bucket_starts: home.pinned(0)?,
            slots: Vec::new(),
            next: 0,
        })
    }

    fn quiesce(&self) {
        let _ = self.stream.synchronize();
        let _ = self.checks.synchronize();
        self.slots.iter().for_each(Slot::quiesce);
    }

    /// Slots, at least `count`.
    fn make_slots(&mut self, count: usize) -> Result<()> {
        while self.slots.len() < count {
            self.slots.push(Slot::new(&self.home)?);
        }
        Ok(())
    }

    /// Sends what a question needs.
    fn hold(&mut self, splitters: &[K], question: &Question<'_, K, V>) -> Result<()> {
        self.splitters.hold(splitters.iter().map(|key| key.encode()))?;
        match question {
            Question::Get { .. } | Question::Contains { .. } => {}
            Question::Rank { before, .. } => self.before.hold(before.iter().copied())?,
            Question::Neighbor { fallbacks, .. } => {
                // Results are in the caller's form.
                let key = |pair: &Option<(K, V)>| pair.map_or(K::Bits::MIN, |(key, _)| key.encode().xor(K::FLIP));
                self.fallback_keys.hold(fallbacks.iter().map(key))?;
                self.fallback_values.hold(fallbacks.iter().map(|pair| pair.map_or(V::MIN, |(_, value)| value)))?;
            }
        }
        Ok(())
    }

    /// Uploads the start of each bucket of each piece; of a sorted batch, which has cuts, bucket start minus cut.
    fn upload_bucket_starts(&mut self, layout: &Layout, pieces: &[Piece], cuts: &[usize]) -> Result<()> {
        let shards = layout.starts.len();
        let all = pieces.len() * shards;
        reserve(&mut self.bucket_starts, all)?;
        reserve_pinned(&mut self.staged_bucket_starts, all)?;
        let bucket_starts = &mut self.staged_bucket_starts[..all];
        for (of_piece, piece) in bucket_starts.chunks_mut(shards).zip(pieces) {
            for (shard, (to, &start)) in of_piece.iter_mut().zip(&layout.starts).enumerate() {
                let from = cuts.get(shard).map_or(0, |&cut| cut.saturating_sub(piece.range.start));
                *to = (start as u32).wrapping_sub(from as u32);
            }
        }
        Ok(self.bucket_starts.upload_async(&self.stream, 0, &self.staged_bucket_starts, 0..all)?)
    }

    /// Whether the results are right: not if queries do not ascend that are called sorted.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn run(
        &mut self,
        batch: &InFlight<'_, K, V>,
        splitters: &[K],
        (piece, slots): (usize, usize),
    ) -> Result<bool> {
        let queries = batch.queries;
        self.hold(splitters, batch.question)?;
        // SAFETY: the caller's contract.
        unsafe {
            if !queries.is_sorted {
                self.pieces(batch, &[], (piece, slots))?;
                return Ok(true);
            }
            let cuts = self.cut(batch, splitters.len())?;
            self.checks.wait(&batch.submitted)?;
            self.staged_order.copy_from_slice(&[u64::MAX, 0]);
            self.order.upload_async(&self.checks, 0, &self.staged_order, 0..2)?;
            check_order::<K>(&self.checks, queries.at, queries.count, &mut self.order)?;
            self.order.download_async(&self.checks, 0..1, &mut self.staged_order, 0)?;
            if let Question::Get { values, hits, miss } = *batch.question
                && !values.is_null()
                && hits.is_null()
                && (queries.is_spread || batch.devices.len() == 1)
            {
                self.slices(batch, &cuts, (values, miss), (piece, slots))?;
            } else {
                self.pieces(batch, &cuts, (piece, slots))?;
            }
        }
        self.checks.synchronize()?;
        Ok(self.staged_order[0] >= queries.count as u64)
    }

    /// Answers a batch piece by piece; one that is sorted has cuts.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn pieces(
        &mut self,
        batch: &InFlight<'_, K, V>,
        cuts: &[usize],
        (piece, slots): (usize, usize),
    ) -> Result<()> {
        let queries = batch.queries;
        let sizes = |range: &Range<usize>| {
            let part = |cuts: &[usize]| cuts[1].min(range.end).saturating_sub(cuts[0].max(range.start));
            queries.is_sorted.then(|| cuts.windows(2).map(part).collect())
        };
        let mut pieces: Vec<Piece> = (0..queries.count)
            .step_by(piece)
            .map(|first| first..queries.count.min(first + piece))
            .enumerate()
            .map(|(number, range)| Piece { sizes: sizes(&range), range, number, slot: 0 })
            .collect();
        let layout = Layout::new(piece.min(queries.count), batch.numbers);
        self.upload_bucket_starts(&layout, &pieces, cuts)?;
        // Divided well before the host asks how; results go back as late as the slots allow, since the caller's stream takes them
        // in the order of the pieces.
        for number in 0..pieces.len() + slots {
            let before = |behind: usize| number.checked_sub(behind).filter(|&number| number < pieces.len());
            let (done, divided) = (before(slots), before(slots / 2));
            // SAFETY: the caller's contract; each slot is that of its piece until its results are back.
            unsafe {
                if let Some(piece) = done.map(|done| &pieces[done]) {
                    let part = (piece.range.start, piece.range.len());
                    self.back(batch, &self.slots[piece.slot], part, layout.remote)?;
                }
                if let Some(piece) = pieces.get_mut(number) {
                    piece.slot = self.next % slots;
                    self.next = piece.slot + 1;
                    self.make_slots(self.next)?;
                    self.divide(batch, piece, &layout)?;
                }
                if let Some(piece) = divided.map(|divided| &pieces[divided]) {
                    self.look_up(batch, piece, &layout)?;
                }
            }
        }
        Ok(())
    }

    /// Where each shard's part of a sorted batch begins, and the last one's end.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn cut(&mut self, batch: &InFlight<'_, K, V>, splits: usize) -> Result<Vec<usize>> {
        let queries = batch.queries;
        let mut cuts = vec![0];
        if splits > 0 {
            reserve(&mut self.cuts, splits)?;
            reserve_pinned(&mut self.staged_cuts, splits)?;
            let stream = &self.stream;
            stream.wait(&batch.submitted)?;
            let args = CutArgs {
                queries: queries.at,
                count: queries.count as u64,
                splitters: self.splitters.there.read_on(stream)?,
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
        batch: &InFlight<'_, K, V>,
        cuts: &[usize],
        (values, miss): (GlobalMut<V>, V),
        (piece, slots): (usize, usize),
    ) -> Result<()> {
        let (key, shape) = (K::Bits::BYTES, batch.question.shape());
        let at = |first: usize| batch.queries.at.byte_add((first * key) as u64);
        let part = |shard: usize| cuts[shard]..cuts[shard + 1];
        // What the caller's stream was given before is done: the cuts come after it. Every device's first piece before any one's second.
        let mut remote: Vec<(usize, Range<usize>, usize)> = Vec::new();
        for shard in (0..batch.shards.len()).filter(|&shard| batch.numbers[shard] != 0) {
            let pieces = part(shard).step_by(piece).enumerate();
            remote.extend(pieces.map(|(number, first)| (number, first..part(shard).end.min(first + piece), shard)));
        }
        remote.sort_by_key(|&(number, ..)| number);
        self.make_slots(slots.min(remote.len()))?;
        let mut used = vec![vec![false; batch.devices.len()]; slots];
        for (number, range, shard) in remote {
            let (slot, device) = (number % slots, batch.numbers[shard]);
            used[slot][device] = true;
            let slot = &mut self.slots[slot];
            slot.remote_slot((device, &batch.devices[device]), range.len(), key, shape)?;
            let (send, Some(remote)) = (&slot.send, &mut slot.remote_slots[device]) else { continue };
            // SAFETY: the queries of the part, and its place among the results, where nothing else writes.
            unsafe {
                remote.keys.copy_from_address(&remote.stream, at(range.start).cast(), range.len() * key, send)?;
                let queries = (read(&remote.keys, &remote.stream, 0)?, range.len());
                let question = Question::Get {
                    values: write(&mut remote.found.columns[0], &remote.stream, 0)?,
                    hits: GlobalMut::null(),
                    miss,
                };
                question.ask(&batch.shards[shard], &remote.stream, true, queries)?;
                let (to, bytes) = (after(values, range.start).cast(), range.len() * V::BYTES);
                remote.found.columns[0].copy_to_address(&remote.stream, bytes, to, &self.home)?;
            }
        }
        for shard in (0..batch.shards.len()).filter(|&shard| batch.numbers[shard] == 0) {
            let part = part(shard);
            if !part.is_empty() {
                let question = Question::Get { values: after(values, part.start), hits: GlobalMut::null(), miss };
                // SAFETY: the caller's contract.
                unsafe { question.ask(&batch.shards[shard], batch.stream, true, (at(part.start), part.len()))? };
            }
        }
        for (slot, used) in self.slots.iter().zip(&used) {
            // SAFETY: streams of one device.
            unsafe { batch.stream.wait_for_copies(&slot.send, GlobalMut::<u8>::null())? };
            for remote in
                slot.remote_slots.iter().zip(used).filter_map(|(remote, &used)| remote.as_ref().filter(|_| used))
            {
                // SAFETY: the results are in memory of the stream's device.
                unsafe { batch.stream.wait_for_copies(&remote.stream, values)? };
            }
        }
        Ok(())
    }

    /// Puts a piece into its slot's buckets.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn divide(&mut self, batch: &InFlight<'_, K, V>, piece: &Piece, layout: &Layout) -> Result<()> {
        let (key, shards, count) = (K::Bits::BYTES, batch.shards.len(), piece.range.len());
        let slot = &mut self.slots[piece.slot];
        reserve(&mut slot.keys, words(layout.end, key))?;
        reserve(&mut slot.places, count)?;
        let stream = &slot.work;
        let queries = batch.queries.at.byte_add((piece.range.start * key) as u64);
        stream.wait(&batch.submitted)?;
        slot.next.copy_from_buffer(
            stream,
            0,
            &self.bucket_starts,
            piece.number * shards..(piece.number + 1) * shards,
        )?;
        let (keys, places) = (write(&mut slot.keys, stream, 0)?, slot.places.write_on(stream)?);
        let next = slot.next.write_on(stream)?;
        let (tiles, count) = (tiles(stream, count)?, count as u64);
        // SAFETY: the caller's contract; each bucket has room for the whole piece, and those of a sorted one for the parts.
        unsafe {
            if piece.sizes.is_some() {
                let (first, cuts, bucket_starts) =
                    (piece.range.start as u64, self.cuts.read_on(stream)?, next.as_const());
                let shards = shards as u32;
                let args = ShiftArgs { queries, count, first, cuts, bucket_starts, keys, places, shards, padding: 0 };
                return Ok(tiles.run(calls::shift(&args))?);
            }
            let (splitters, flip, shards) = (self.splitters.there.read_on(stream)?, K::FLIP, shards as u32);
            let args = ScatterArgs { queries, count, splitters, next, keys, places, shards, padding: 0, flip };
            tiles.run(calls::scatter(&args))?;
        }
        Ok(slot.next.download_async(stream, 0..shards, &mut slot.staged_next, 0)?)
    }

    /// Has a piece's buckets looked up, and the results brought to the batch's device. Waits until it is divided.
    ///
    /// # Safety
    /// As [`Router::run`]; the piece was divided.
    unsafe fn look_up(&mut self, batch: &InFlight<'_, K, V>, piece: &Piece, layout: &Layout) -> Result<()> {
        let (question, is_sorted) = (batch.question, batch.queries.is_sorted);
        let (shape, key, all) = (question.shape(), K::Bits::BYTES, batch.shards.len());
        let slot = &mut self.slots[piece.slot];
        let sizes = match &piece.sizes {
            Some(sizes) => sizes.clone(),
            None => {
                // It has nothing else to do yet.
                slot.work.synchronize()?;
                let ends = &slot.staged_next[..all];
                ends.iter().zip(&layout.starts).map(|(&end, &start)| end as usize - start).collect()
            }
        };
        let of = |device: usize| (0..all).filter(move |&shard| batch.numbers[shard] == device);
        let of = |device: usize| of(device).filter(|&shard| sizes[shard] > 0);
        let end = |from: usize, shards: &mut dyn Iterator<Item = usize>| {
            shards.map(|shard| layout.starts[shard] + sizes[shard] - from).max().unwrap_or(0)
        };
        let others = || 1..batch.devices.len();
        slot.local.reserve(end(0, &mut of(0)), shape)?;
        slot.remote.reserve(end(layout.remote, &mut others().flat_map(&of)), shape)?;
        // Where each bucket is on its shard's device.
        let mut places = vec![0; all];
        // Buckets of other devices first: their copies overlap with the look-ups on this one.
        for device in others() {
            let mut len = 0;
            for shard in of(device) {
                places[shard] = len;
                len += sizes[shard].next_multiple_of(BUCKET);
            }
            if len == 0 {
                continue;
            }
            slot.remote_slot((device, &batch.devices[device]), len, key, shape)?;
            let Some(remote) = &mut slot.remote_slots[device] else { continue };
            let parts: Vec<PeerPart<'_, u64>> = of(device)
                .map(|shard| PeerPart {
                    from: &slot.keys,
                    range: words(layout.starts[shard], key)..words(layout.starts[shard] + sizes[shard], key),
                    stream: &slot.send,
                    at: words(places[shard], key),
                })
                .collect();
            remote.keys.copy_from_peers(&remote.stream, &parts)?;
            for shard in of(device) {
                let queries = (read(&remote.keys, &remote.stream, places[shard])?, sizes[shard]);
                let question = question.of_bucket(&remote.stream, &mut remote.found, places[shard])?;
                // SAFETY: the bucket's queries and room.
                unsafe { question.ask(&batch.shards[shard], &remote.stream, is_sorted, queries)? };
            }
        }
        let of_shard = |shard: usize| Some((slot.remote_slots.get(batch.numbers[shard])?.as_ref()?, places[shard]));
        let remotes = || others().flat_map(&of).filter_map(|shard| Some((of_shard(shard)?, shard)));
        for (number, (column, bytes)) in slot.remote.columns.iter_mut().zip(shape.columns).enumerate() {
            let parts: Vec<PeerPart<'_, u64>> = remotes()
                .map(|((remote, place), shard)| PeerPart {
                    from: &remote.found.columns[number],
                    range: words(place, bytes)..words(place + sizes[shard], bytes),
                    stream: &remote.stream,
                    at: words(layout.starts[shard] - layout.remote, bytes),
                })
                .collect();
            column.copy_from_peers(&slot.send, &parts)?;
        }
        if shape.has_hits {
            let parts: Vec<PeerPart<'_, u32>> = remotes()
                .map(|((remote, place), shard)| PeerPart {
                    from: &remote.found.hits,
                    range: place / 32..(place + sizes[shard]).div_ceil(32),
                    stream: &remote.stream,
                    at: (layout.starts[shard] - layout.remote) / 32,
                })
                .collect();
            slot.remote.hits.copy_from_peers(&slot.send, &parts)?;
        }
        for shard in of(0) {
            let first = layout.starts[shard];
            let queries = (read(&slot.keys, &slot.work, first)?, sizes[shard]);
            let question = question.of_bucket(&slot.work, &mut slot.local, first)?;
            // SAFETY: the bucket's queries and room.
            unsafe { question.ask(&batch.shards[shard], &slot.work, is_sorted, queries)? };
        }
        Ok(())
    }

    /// Puts a piece's results into the batch's order, in the caller's stream, from an element of the outputs on.
    ///
    /// # Safety
    /// As [`Router::run`]; the piece was looked up, with the results of shards on other devices from the place `remote` on.
    unsafe fn back(
        &self,
        batch: &InFlight<'_, K, V>,
        slot: &Slot,
        (first, count): (usize, usize),
        remote: usize,
    ) -> Result<()> {
        let (stream, question) = (batch.stream, batch.question);
        let places = slot.places.read_on(stream)?;
        let (local_hits, remote_hits) = match question.shape().has_hits {
            true => (slot.local.hits.read_on(stream)?, slot.remote.hits.read_on(stream)?),
            false => (Global::null(), Global::null()),
        };
        let back = Back { stream, places, count, remote, local_hits, remote_hits };
        let column = |number: usize| (&slot.local.columns[number], &slot.remote.columns[number]);
        // SAFETY: the columns are of these types, by the shape; the caller's contract.
        unsafe {
            match *question {
                Question::Get { values, hits, .. } => {
                    let out = (after(values, first), after(hits, first / 32));
                    back.column::<V>(column(0), Global::null(), (Global::null(), [0; 2]), out, false)
                }
                Question::Contains { hits } => {
                    let out = (GlobalMut::null(), after(hits, first / 32));
                    back.column::<V>(column(0), Global::null(), (Global::null(), [0; 2]), out, false)
                }
                Question::Rank { ranks, .. } => {
                    let plus = self.before.there.read_on(stream)?;
                    let out = (after(ranks, first), GlobalMut::null());
                    back.column::<u64>(column(0), plus, (Global::null(), [0; 2]), out, false)
                }
                Question::Neighbor { keys, values, hits, fallbacks, .. } => {
                    let mut have = [0; 2];
                    for (shard, _) in fallbacks.iter().enumerate().filter(|(_, pair)| pair.is_some()) {
                        have[shard / 32] |= 1 << (shard % 32);
                    }
                    let other_keys = self.fallback_keys.there.read_on(stream)?;
                    let other_values = self.fallback_values.there.read_on(stream)?;
                    let (hits, is_set) = (after(hits, first / 32), values.is_null());
                    let out = (after(keys, first), if is_set { hits } else { GlobalMut::null() });
                    back.column::<K::Bits>(column(1), Global::null(), (other_keys, have), out, true)?;
                    if is_set {
                        return Ok(());
                    }
                    let out = (after(values, first), hits);
                    back.column::<V>(column(0), Global::null(), (other_values, have), out, false)
                }
            }
        }
    }
}
