//! Batches on a device, answered by shards on several.
//!
//! ```text
//!  the batch's device                                     a shard's device
//!  ┌────────────────────┐ 1. how many queries each piece
//!  │ count, or cut      │    has for each shard: the host
//!  └────────────────────┘    reads these numbers, once
//!  ┌────────────────────┐ 2. a piece to its buckets
//!  │ scatter, or shift  │
//!  └──┬──────────────┬──┘
//!     ▼              └───────── 3. buckets ──────────► ┌──────────┐
//!  ┌──────────┐                                        │ look-ups │
//!  │ look-ups │                                        └────┬─────┘
//!  └──┬───────┘      ┌───────── 4. results ◄────────────────┘
//!     ▼              ▼
//!  ┌────────────────────┐ 5. results to the batch's order,
//!  │ back               │    in the caller's stream
//!  └────────────────────┘
//! ```
//!
//! Pieces go this way one behind the other, in memory of their own ([`slots`](crate::slots)), [`SLOTS`] at a time. All that orders
//! them is that buffers remember their streams.

use crate::route::MOST;
use crate::slots::{BUCKET, Column, Found, Plan, Room, Shape, Slot, read, reserve, with_spare, words, write};
use core::ops::Range;
#[cfg(doc)]
use lanetree_frame::Error;
use lanetree_frame::launch;
use lanetree_frame::{AnyKey, Buffer, Device, KeyWord, Launches, PinnedBuffer, Result, Stream, Word};
use lanetree_kernels_sharded::{
    BackArgs, CountArgs, CutArgs, MOST_SHARDS, ScatterArgs, ShiftArgs, THREADS, TILE, calls, place,
};
use lanetree_runtime::PeerPart;
use lanetree_simt::{Global, GlobalMut, LaunchShape};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Pieces that are on their way at a time.
const SLOTS: usize = 4;

/// Queries of a piece, a multiple of [`TILE`]: long enough that the few dozen calls of the driver for it take less time than it does.
const PIECE: usize = 1 << 22;

const _: () = assert!(MOST == MOST_SHARDS as usize);
const _: () = assert!(PIECE.is_multiple_of(TILE as usize) && TILE.is_multiple_of(32));
const _: () = assert!(PIECE + MOST_SHARDS as usize * BUCKET < 1 << place::BITS);

/// A shard, for a router.
pub(crate) struct Shard<'a, K: AnyKey, V: Word> {
    pub(crate) device: &'a Device,
    pub(crate) launches: &'a dyn Launches<K, V>,
}

/// All of them, in the order of their keys.
pub(crate) type Shards<'i, K, V> = Vec<Shard<'i, K, V>>;

/// What is asked of a batch, and where the results go, in memory that the caller's stream may write; null where they are not wanted.
pub(crate) enum Question<'a, K: AnyKey, V> {
    Get {
        values: GlobalMut<V>,
        hits: GlobalMut<u32>,
        miss: V,
    },
    Rank {
        ranks: GlobalMut<u64>,
        upper: bool,
        /// The pairs before each shard.
        before: &'a [u64],
    },
    /// The pair at or below (`upper`), or at or above.
    Neighbor {
        keys: GlobalMut<K::Bits>,
        values: GlobalMut<V>,
        hits: GlobalMut<u32>,
        miss: V,
        upper: bool,
        /// The pair that a shard's queries find where the shard has none.
        beside: &'a [Option<(K, V)>],
    },
}

/// Memory and streams of batches, kept for the next ones.
pub(crate) struct Router<K: AnyKey, V> {
    lanes: Mutex<Vec<Lane<K, V>>>,
    /// The most queries of a piece: the constant, but in tests.
    pub(crate) piece: usize,
}

impl<K: AnyKey, V> Default for Router<K, V> {
    fn default() -> Self {
        Self { lanes: Mutex::default(), piece: PIECE }
    }
}

/// What a batch on one device uses.
struct Lane<K: AnyKey, V> {
    home: Device,
    /// For what divides batches: one after another.
    divide: Stream,
    /// For copies to other devices.
    send: Stream,
    /// For copies from other devices.
    receive: Stream,
    /// For look-ups of shards on this device.
    look_up: Stream,
    splitters: Table<K::Bits>,
    before: Table<u64>,
    keys_beside: Table<K::Bits>,
    values_beside: Table<V>,
    /// `[pieces][shards]`.
    sizes: Buffer<u32>,
    staged_sizes: PinnedBuffer<u32>,
    cuts: Buffer<u64>,
    staged_cuts: PinnedBuffer<u64>,
    /// `[pieces][shards]`.
    ways: Buffer<u32>,
    staged_ways: PinnedBuffer<u32>,
    slots: Vec<Slot>,
    /// The slot of the next piece.
    next: usize,
}

/// A small array on a device, and what it holds.
struct Table<T> {
    here: Vec<T>,
    there: Buffer<T>,
}

impl<T: bytemuck::Pod + PartialEq> Table<T> {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self { here: Vec::new(), there: device.alloc(0)? })
    }

    /// The array with these elements. Waits for work that uses others.
    fn hold(&mut self, elements: impl Iterator<Item = T>) -> Result<&Buffer<T>> {
        let elements: Vec<T> = elements.collect();
        if self.here != elements {
            self.here.clear();
            self.there = self.there.device().clone().upload(&elements)?;
            self.here = elements;
        }
        Ok(&self.there)
    }
}

/// [`reserve`], of pinned memory.
fn reserve_pinned<T: bytemuck::Pod>(buffer: &mut PinnedBuffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        *buffer = buffer.device().clone().pinned(with_spare(len))?;
    }
    Ok(())
}

/// The pointer `count` elements further on; null stays null.
fn after<T>(pointer: GlobalMut<T>, count: usize) -> GlobalMut<T> {
    if pointer.is_null() { pointer } else { pointer.byte_add((count * size_of::<T>()) as u64) }
}

impl<K: AnyKey, V: Word> Question<'_, K, V> {
    fn shape(&self) -> Shape {
        let key = K::Bits::BYTES;
        match self {
            Self::Get { hits, .. } => Shape { columns: [V::BYTES, 0], has_hits: !hits.is_null() },
            Self::Rank { .. } => Shape { columns: [8, 0], has_hits: false },
            Self::Neighbor { .. } => Shape { columns: [V::BYTES, key], has_hits: true },
        }
    }

    /// Whether it wants every result that a look-up writes in any case.
    fn wants_all(&self) -> bool {
        !matches!(self, Self::Get { values, .. } if values.is_null())
    }

    /// The same, of a shard's bucket of a piece, at an element of the columns.
    fn of_bucket(&self, stream: &Stream, found: &mut Found, first: usize) -> Result<Self> {
        let [column, second] = &mut found.columns;
        let hits = match self.shape().has_hits {
            true => after(found.hits.write_on(stream)?, first / 32),
            false => GlobalMut::null(),
        };
        Ok(match *self {
            Self::Get { miss, .. } => Self::Get { values: write(column, stream, first)?, hits, miss },
            Self::Rank { upper, before, .. } => Self::Rank { ranks: write(column, stream, first)?, upper, before },
            Self::Neighbor { miss, upper, beside, .. } => {
                let (keys, values) = (write(second, stream, first)?, write(column, stream, first)?);
                Self::Neighbor { keys, values, hits, miss, upper, beside }
            }
        })
    }

    /// Asks one shard, of its own pairs alone.
    ///
    /// # Safety
    /// There are `count` queries at the address, which the stream may read, and as much room for results.
    pub(crate) unsafe fn ask(
        &self,
        shard: &Shard<'_, K, V>,
        stream: &Stream,
        is_sorted: bool,
        (queries, count): (Global<K::Bits>, usize),
    ) -> Result<()> {
        let queries = queries.cast();
        // SAFETY: the caller's contract.
        unsafe {
            match *self {
                Self::Get { values, hits, miss } => {
                    shard.launches.get(stream, is_sorted, queries, count, values, hits, miss)
                }
                Self::Rank { ranks, upper, .. } => shard.launches.rank(stream, queries, count, ranks, upper),
                Self::Neighbor { keys, values, hits, miss, upper, .. } => {
                    shard.launches.neighbor(stream, queries, count, (keys.cast(), values, hits), miss, upper)
                }
            }
        }
    }
}

impl<K: AnyKey, V: Word> Router<K, V> {
    /// Answers a batch. Waits for the numbers of queries of the shards; the rest may go on after the return, and later work in
    /// `stream` comes after it.
    ///
    /// # Errors
    /// [`Error::Runtime`] from a device, or if one has no room; [`Error::Lost`]; [`Error::BatchTooLarge`].
    ///
    /// # Safety
    /// `stream` may read `count` queries and write as many results. All shards' devices and the stream's are of one kind, which
    /// launches kernels; `splitters` ascend, and there is one fewer than shards.
    pub(crate) unsafe fn run(
        &self,
        shards: &[Shard<'_, K, V>],
        splitters: &[K],
        stream: &Stream,
        (queries, count): (Global<K::Bits>, usize),
        is_sorted: bool,
        question: &Question<'_, K, V>,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        if let [shard] = shards
            && shard.device == stream.device()
            && question.wants_all()
        {
            // SAFETY: the caller's contract.
            return unsafe { question.ask(shard, stream, is_sorted, (queries, count)) };
        }
        let mut lane = match self.take(stream.device()) {
            Some(lane) => lane,
            None => Lane::new(stream.device())?,
        };
        // SAFETY: the caller's contract.
        let done = unsafe { lane.run(shards, splitters, stream, (queries, count), is_sorted, question, self.piece) };
        if done.is_err() {
            // What reads the queries comes before what the caller does next. Without an error it comes before results.
            let _ = lane.divide.synchronize();
        }
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
        done
    }

    fn take(&self, home: &Device) -> Option<Lane<K, V>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lanes.iter().position(|lane| lane.home == *home)?;
        Some(lanes.swap_remove(at))
    }

    /// Bytes of device memory and of pinned memory that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Lane::bytes).sum()
    }
}

impl<K: AnyKey, V: Word> Lane<K, V> {
    fn new(home: &Device) -> Result<Self> {
        Ok(Self {
            home: home.clone(),
            divide: home.stream()?,
            send: home.stream()?,
            receive: home.stream()?,
            look_up: home.stream()?,
            splitters: Table::new(home)?,
            before: Table::new(home)?,
            keys_beside: Table::new(home)?,
            values_beside: Table::new(home)?,
            sizes: home.alloc(0)?,
            staged_sizes: home.pinned(0)?,
            cuts: home.alloc(0)?,
            staged_cuts: home.pinned(0)?,
            ways: home.alloc(0)?,
            staged_ways: home.pinned(0)?,
            slots: Vec::new(),
            next: 0,
        })
    }

    fn bytes(&self) -> usize {
        let tables = self.splitters.there.bytes()
            + self.before.there.bytes()
            + self.keys_beside.there.bytes()
            + self.values_beside.there.bytes();
        let counts = self.sizes.bytes() + self.cuts.bytes() + self.ways.bytes();
        // Each of the last three has as much pinned memory.
        tables + 2 * counts + self.slots.iter().map(Slot::bytes).sum::<usize>()
    }

    /// # Safety
    /// As [`Router::run`].
    #[expect(clippy::too_many_arguments, reason = "as of its only caller")]
    unsafe fn run(
        &mut self,
        shards: &[Shard<'_, K, V>],
        splitters: &[K],
        stream: &Stream,
        (queries, count): (Global<K::Bits>, usize),
        is_sorted: bool,
        question: &Question<'_, K, V>,
        piece: usize,
    ) -> Result<()> {
        let given = self.home.event()?;
        given.record(stream)?;
        self.divide.wait(&given)?;
        let mut devices = vec![&self.home];
        let numbers: Vec<usize> = (shards.iter())
            .map(|shard| {
                let known = devices.iter().position(|device| *device == shard.device);
                known.unwrap_or_else(|| {
                    devices.push(shard.device);
                    devices.len() - 1
                })
            })
            .collect();
        let devices: Vec<Device> = devices.into_iter().cloned().collect();
        let pieces: Vec<Range<usize>> =
            (0..count).step_by(piece).map(|start| start..count.min(start + piece)).collect();
        // SAFETY: the caller's contract.
        let (sizes, cuts) = unsafe {
            if is_sorted {
                self.cut(splitters, (queries, count), &pieces)?
            } else {
                (self.count(splitters, (queries, count), (piece, pieces.len()))?, Vec::new())
            }
        };
        let plans: Vec<Plan> = sizes.chunks(shards.len()).map(|sizes| Plan::new(sizes, &numbers)).collect();
        self.upload_ways(&plans, &pieces, &cuts, shards.len())?;
        // Room for all pieces, before the first of them is on its way: to get more waits for all that uses the old memory.
        let (room, shape) = (Room::new(&plans, devices.len()), question.shape());
        // Short batches come in many lanes, and each of them needs little.
        let slots = if pieces.len() > 1 { SLOTS } else { 2 };
        for piece in 0..pieces.len().min(slots) {
            let at = (self.next + piece) % slots;
            while self.slots.len() <= at {
                self.slots.push(Slot::new(&self.home)?);
            }
            self.slots[at].reserve(&devices, &room, K::Bits::BYTES, shape)?;
        }
        // Results go back as late as the slots allow: what waits for a stream waits for all that it has been given by then, and a
        // piece that uses a slot again is to wait for the results that the slot had, not for those of the pieces since then. (They
        // still wait for the copies of those pieces, which were given to `receive` before.)
        let mut looked_up = VecDeque::with_capacity(slots);
        for (number, (range, plan)) in pieces.iter().zip(&plans).enumerate() {
            let from = queries.byte_add((range.start * K::Bits::BYTES) as u64);
            let slot = self.next % slots;
            self.next = (slot + 1) % slots;
            // SAFETY: the caller's contract; the plans were made of the queries, and each slot is that of its piece.
            unsafe {
                if looked_up.len() == slots
                    && let Some((slot, range, plan)) = looked_up.pop_front()
                {
                    self.back(slot, stream, range, plan, question)?;
                }
                self.divide_piece(slot, (from, range.clone()), (plan, number), is_sorted)?;
                self.look_up(slot, (shards, &numbers), plan, is_sorted, question)?;
            }
            looked_up.push_back((slot, range, plan));
        }
        for (slot, range, plan) in looked_up {
            // SAFETY: as above.
            unsafe { self.back(slot, stream, range, plan, question)? };
        }
        Ok(())
    }

    /// The queries of each piece and shard.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn count(
        &mut self,
        splitters: &[K],
        (queries, count): (Global<K::Bits>, usize),
        (piece, pieces): (usize, usize),
    ) -> Result<Vec<usize>> {
        let (shards, stream) = (splitters.len() + 1, &self.divide);
        let all = pieces * shards;
        if shards == 1 {
            return Ok((0..pieces).map(|at| piece.min(count - at * piece)).collect());
        }
        reserve(&mut self.sizes, all)?;
        reserve_pinned(&mut self.staged_sizes, all)?;
        self.sizes.fill_zero_range(stream, 0..all)?;
        let splitters = self.splitters.hold(splitters.iter().map(|key| key.encode()))?;
        let args = CountArgs {
            queries,
            count: count as u64,
            splitters: splitters.read_on(stream)?,
            sizes: self.sizes.write_on(stream)?,
            piece: (piece as u64 / TILE) as u32,
            shards: shards as u32,
            flip: K::FLIP,
        };
        // SAFETY: the caller's contract; there is a number for each piece and shard.
        unsafe { tiles(stream, count)?.run(calls::count(&args))? };
        self.sizes.download_async(stream, 0..all, &mut self.staged_sizes, 0)?;
        stream.synchronize()?;
        Ok(self.staged_sizes[..all].iter().map(|&size| size as usize).collect())
    }

    /// The queries of each piece and shard, of a sorted batch, and where each shard's part begins and ends.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn cut(
        &mut self,
        splitters: &[K],
        (queries, count): (Global<K::Bits>, usize),
        pieces: &[Range<usize>],
    ) -> Result<(Vec<usize>, Vec<usize>)> {
        let (splits, stream) = (splitters.len(), &self.divide);
        let mut cuts = vec![0];
        if splits > 0 {
            reserve(&mut self.cuts, splits)?;
            reserve_pinned(&mut self.staged_cuts, splits)?;
            let splitters = self.splitters.hold(splitters.iter().map(|key| key.encode()))?;
            let args = CutArgs {
                queries,
                count: count as u64,
                splitters: splitters.read_on(stream)?,
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
        cuts.push(count);
        let of = |piece: &Range<usize>| {
            let sizes = cuts.windows(2).map(|part| {
                let (from, to) = (part[0].max(piece.start), part[1].min(piece.end));
                to.saturating_sub(from)
            });
            sizes.collect::<Vec<_>>()
        };
        Ok((pieces.iter().flat_map(of).collect(), cuts))
    }

    /// Sends where each bucket begins; or, of a sorted batch, which has cuts, the way there from a place in the piece.
    fn upload_ways(&mut self, plans: &[Plan], pieces: &[Range<usize>], cuts: &[usize], shards: usize) -> Result<()> {
        let all = plans.len() * shards;
        reserve(&mut self.ways, all)?;
        reserve_pinned(&mut self.staged_ways, all)?;
        let mut ways = self.staged_ways.iter_mut();
        for (plan, piece) in plans.iter().zip(pieces) {
            for (shard, &start) in plan.starts.iter().enumerate() {
                let from = cuts.get(shard).map_or(0, |&cut| cut.saturating_sub(piece.start));
                if let Some(way) = ways.next() {
                    *way = (start as u32).wrapping_sub(from as u32);
                }
            }
        }
        Ok(self.ways.upload_async(&self.divide, 0, &self.staged_ways, 0..all)?)
    }

    /// Puts a piece into its slot's buckets.
    ///
    /// # Safety
    /// As [`Router::run`]; the queries are the piece's, the plan is of them, and the slot has room.
    unsafe fn divide_piece(
        &mut self,
        slot: usize,
        (queries, range): (Global<K::Bits>, Range<usize>),
        (plan, number): (&Plan, usize),
        is_sorted: bool,
    ) -> Result<()> {
        let (slot, stream) = (&mut self.slots[slot], &self.divide);
        let (keys, places) = (write(&mut slot.keys, stream, 0)?, slot.places.write_on(stream)?);
        let shards = plan.sizes.len();
        let ways = after(self.ways.write_on(stream)?, number * shards);
        let (count, shards, splitters) = (range.len() as u64, shards as u32, &self.splitters.there);
        // SAFETY: the caller's contract; the buckets have room for the queries that were counted, or for the parts that were cut.
        unsafe {
            if is_sorted {
                let args = ShiftArgs {
                    queries,
                    count,
                    first: range.start as u64,
                    cuts: self.cuts.read_on(stream)?,
                    ways: ways.as_const(),
                    keys,
                    places,
                    shards,
                    padding: 0,
                };
                Ok(tiles(stream, range.len())?.run(calls::shift(&args))?)
            } else {
                let splitters = splitters.read_on(stream)?;
                let flip = K::FLIP;
                let args =
                    ScatterArgs { queries, count, splitters, next: ways, keys, places, shards, padding: 0, flip };
                Ok(tiles(stream, range.len())?.run(calls::scatter(&args))?)
            }
        }
    }

    /// Has a piece's buckets looked up, and the results brought to the batch's device.
    ///
    /// # Safety
    /// The slot has the piece that the plan is of.
    unsafe fn look_up(
        &mut self,
        slot: usize,
        (shards, numbers): (&[Shard<'_, K, V>], &[usize]),
        plan: &Plan,
        is_sorted: bool,
        question: &Question<'_, K, V>,
    ) -> Result<()> {
        let (shape, key) = (question.shape(), K::Bits::BYTES);
        let slot = &mut self.slots[slot];
        let of = |device: usize| {
            let own = move |shard: &usize| numbers[*shard] == device && plan.sizes[*shard] > 0;
            (0..shards.len()).filter(own)
        };
        // Those far away first: the copies go on during the look-ups here.
        for region in plan.regions.iter().filter(|region| region.device != 0) {
            let Some(abroad) = &mut slot.abroad[region.device] else { continue };
            let range = words(region.range.start, key)..words(region.range.end, key);
            let part = PeerPart { from: &slot.keys, range, stream: &self.send, at: 0 };
            abroad.keys.copy_from_peers(&abroad.stream, &[part])?;
            for shard in of(region.device) {
                let first = plan.starts[shard] - region.range.start;
                let queries = (read(&abroad.keys, &abroad.stream, first)?, plan.sizes[shard]);
                let question = question.of_bucket(&abroad.stream, &mut abroad.found, first)?;
                // SAFETY: the bucket's queries and room.
                unsafe { question.ask(&shards[shard], &abroad.stream, is_sorted, queries)? };
            }
        }
        for shard in of(0) {
            let first = plan.starts[shard];
            let queries = (read(&slot.keys, &self.look_up, first)?, plan.sizes[shard]);
            let question = question.of_bucket(&self.look_up, &mut slot.near, first)?;
            // SAFETY: the bucket's queries and room.
            unsafe { question.ask(&shards[shard], &self.look_up, is_sorted, queries)? };
        }
        let far = || {
            let regions = plan.regions.iter().filter(|region| region.device != 0);
            regions.filter_map(|region| Some((slot.abroad[region.device].as_ref()?, &region.range)))
        };
        for (number, (column, bytes)) in slot.far.columns.iter_mut().zip(shape.columns).enumerate() {
            let parts: Vec<PeerPart<'_, u64>> = far()
                .map(|(abroad, range)| PeerPart {
                    from: &abroad.found.columns[number],
                    range: 0..words(range.len(), bytes),
                    stream: &abroad.stream,
                    at: words(range.start - plan.near, bytes),
                })
                .collect();
            column.copy_from_peers(&self.receive, &parts)?;
        }
        if shape.has_hits {
            let parts: Vec<PeerPart<'_, u32>> = far()
                .map(|(abroad, range)| PeerPart {
                    from: &abroad.found.hits,
                    range: 0..range.len() / 32,
                    stream: &abroad.stream,
                    at: (range.start - plan.near) / 32,
                })
                .collect();
            slot.far.hits.copy_from_peers(&self.receive, &parts)?;
        }
        Ok(())
    }

    /// Puts a piece's results into the batch's order.
    ///
    /// # Safety
    /// As [`Router::run`]; the slot has the results of the piece that the plan is of.
    unsafe fn back(
        &mut self,
        slot: usize,
        stream: &Stream,
        range: &Range<usize>,
        plan: &Plan,
        question: &Question<'_, K, V>,
    ) -> Result<()> {
        let slot = &self.slots[slot];
        let places = slot.places.read_on(stream)?;
        let (count, near) = (range.len(), plan.near);
        let (near_hits, far_hits) = match question.shape().has_hits {
            true => (slot.near.hits.read_on(stream)?, slot.far.hits.read_on(stream)?),
            false => (Global::null(), Global::null()),
        };
        let way = Way { stream, places, count, near, near_hits, far_hits };
        let column = |number: usize| (&slot.near.columns[number], &slot.far.columns[number]);
        // SAFETY: the columns are of these types, by the shape, and the slot has all results; the outputs are the caller's.
        unsafe {
            match *question {
                Question::Get { values, hits, .. } => {
                    let out = (after(values, range.start), after(hits, range.start / 32));
                    way.column::<V>(column(0), Global::null(), (Global::null(), [0; 2]), out)
                }
                Question::Rank { ranks, before, .. } => {
                    let plus = self.before.hold(before.iter().copied())?.read_on(stream)?;
                    let out = (after(ranks, range.start), GlobalMut::null());
                    way.column::<u64>(column(0), plus, (Global::null(), [0; 2]), out)
                }
                Question::Neighbor { keys, values, hits, beside, .. } => {
                    let mut have = [0; 2];
                    for (shard, _) in beside.iter().enumerate().filter(|(_, pair)| pair.is_some()) {
                        have[shard / 32] |= 1 << (shard % 32);
                    }
                    // Results are in the caller's form.
                    let key = |pair: &Option<(K, V)>| pair.map_or(K::Bits::MIN, |(key, _)| key.encode().xor(K::FLIP));
                    let value = |pair: &Option<(K, V)>| pair.map_or(V::MIN, |(_, value)| value);
                    let other_keys = self.keys_beside.hold(beside.iter().map(key))?.read_on(stream)?;
                    let other_values = self.values_beside.hold(beside.iter().map(value))?.read_on(stream)?;
                    let out = (after(keys, range.start), GlobalMut::null());
                    way.column::<K::Bits>(column(1), Global::null(), (other_keys, have), out)?;
                    let out = (after(values, range.start), after(hits, range.start / 32));
                    way.column::<V>(column(0), Global::null(), (other_values, have), out)
                }
            }
        }
    }
}

/// The way back of a piece's results.
struct Way<'a> {
    stream: &'a Stream,
    places: Global<u32>,
    count: usize,
    near: usize,
    near_hits: Global<u32>,
    far_hits: Global<u32>,
}

impl Way<'_> {
    /// # Safety
    /// The columns have the results, and there is room for them.
    unsafe fn column<W: KeyWord>(
        &self,
        (near, far): (&Column, &Column),
        plus: Global<W>,
        (others, have_others): (Global<W>, [u32; 2]),
        (out, out_hits): (GlobalMut<W>, GlobalMut<u32>),
    ) -> Result<()> {
        let args = BackArgs {
            places: self.places,
            count: self.count as u64,
            near_results: read(near, self.stream, 0)?,
            far_results: read(far, self.stream, 0)?,
            near_hits: self.near_hits,
            far_hits: self.far_hits,
            plus,
            others,
            out,
            out_hits,
            have_others,
            near: self.near as u32,
            padding: 0,
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(self.stream, self.count)?.run(calls::back(&args)) }?)
    }
}

/// A launch of a block for each tile of queries.
fn tiles(stream: &Stream, count: usize) -> Result<lanetree_runtime::Launch<'_>> {
    launch::over(stream, (count as u64).div_ceil(TILE), THREADS, THREADS)
}
