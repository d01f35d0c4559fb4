//! Host batches, divided by the devices: each takes a part of the batch over its own bus, sends the queries to their shards, and
//! brings the results back the same way.

use crate::route::first;
use crate::router::{Question, Shard, Shards};
use crate::sharded::Sharded;
#[cfg(doc)]
use lanetree_frame::Error;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{make_room, zeroed};
use lanetree_frame::staging::{Addresses, Piece, PinnedBatch, Results, Route};
use lanetree_frame::{AnyKey, KeyWord, NeighborsOf, OrderedIndex, PinnedBuffer, Result, Stream};
use lanetree_simt::Global;

/// A piece of a batch, and the shard that has answered it if it was one alone.
type Answered<'p, 'k, K> = (&'p Piece<'p, &'k [K]>, Option<usize>);

/// The value of each key; `None` if the devices don't divide such a batch.
///
/// # Errors
/// As [`OrderedIndex::get_many`].
pub(crate) fn get_many<K: AnyKey, I: OrderedIndex<Domain = K>>(
    index: &Sharded<I>,
    keys: &[K],
) -> Result<Option<Vec<Option<I::Value>>>> {
    let Some(shards) = divided(index, keys)? else { return Ok(None) };
    let mut out = filled(None, keys.len())?;
    let results = Results { arrays: [I::Value::BYTES, 0], bits: 1 };
    let question = |out: Addresses| Question::Get { values: out.arrays[0].cast(), hits: out.hits, miss: I::Value::MIN };
    send(index, &shards, keys, &mut out, results, question, |(piece, _), out| {
        let values = piece.array::<I::Value>(0);
        piece.place(out, |i| values[i]);
    })?;
    Ok(Some(out))
}

/// The rank of each key; otherwise like [`get_many`].
///
/// # Errors
/// As [`get_many`].
pub(crate) fn rank_many<K: AnyKey, I: OrderedIndex<Domain = K>>(
    index: &Sharded<I>,
    keys: &[K],
    upper: bool,
) -> Result<Option<Vec<u64>>> {
    let Some(shards) = divided(index, keys)? else { return Ok(None) };
    let (mut out, before) = (zeroed(keys.len())?, index.before());
    let before = &before[..shards.len()];
    let results = Results { arrays: [8, 0], bits: 0 };
    let question = |out: Addresses| Question::Rank { ranks: out.arrays[0].cast(), upper, before };
    send(index, &shards, keys, &mut out, results, question, |(piece, shard), out| {
        let before = shard.map_or(0, |shard| before[shard]);
        out.iter_mut().zip(piece.array::<u64>(0)).for_each(|(out, rank)| *out = rank + before);
    })?;
    Ok(Some(out))
}

/// The pair next to each key; otherwise like [`get_many`].
///
/// # Errors
/// As [`get_many`].
pub(crate) fn neighbor_many<K: AnyKey, I: OrderedIndex<Domain = K>>(
    index: &Sharded<I>,
    keys: &[K],
    upper: bool,
) -> Result<Option<NeighborsOf<Sharded<I>>>> {
    let Some(shards) = divided(index, keys)? else { return Ok(None) };
    let (mut out, beside) = (filled(None, keys.len())?, index.beside(upper)?);
    let results = Results { arrays: [I::Value::BYTES, K::Bits::BYTES], bits: 1 };
    let question = |out: Addresses| {
        let ([values, keys], hits) = (out.arrays, out.hits);
        let (values, keys, miss) = (values.cast(), keys.cast(), I::Value::MIN);
        Question::Neighbor { keys, values, hits, miss, upper, beside: &beside }
    };
    send(index, &shards, keys, &mut out, results, question, |(piece, shard), out| {
        let (values, keys) = (piece.array::<I::Value>(0), piece.array::<K::Bits>(1));
        // Results are in the caller's form.
        piece.place(out, |i| (K::decode(keys[i].xor(K::FLIP)), values[i]));
        if let Some(pair) = shard.and_then(|shard| beside[shard]) {
            out.iter_mut().for_each(|out| *out = out.or(Some(pair)));
        }
    })?;
    Ok(Some(out))
}

/// Threads that send each device's part of a pinned batch. While one waits for the numbers of queries of its piece's shards, the
/// bus has the pieces of the others.
const PINNED_THREADS: usize = 3;

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// The value of each key, or `miss`, from pinned memory to pinned memory: each device's bus carries a part of the batch in both
    /// directions at once, and the CPU copies nothing. Bit `i % 32` of `hits[i / 32]` (the hit mask) says whether key `i` is
    /// present. Returns when the results are complete. The memory may be pinned for any of the devices.
    ///
    /// # Errors
    /// [`Error::OutputLength`]; those of [`OrderedIndex::get_many`].
    pub fn get_many_pinned(
        &self,
        keys: &PinnedBuffer<K>,
        values: &mut PinnedBuffer<I::Value>,
        mut hits: Option<&mut PinnedBuffer<u32>>,
        miss: I::Value,
    ) -> Result<()> {
        let batch = PinnedBatch { queries: keys, width: 1, values: &mut *values, hits: hits.as_deref_mut() };
        batch.check()?;
        let Some(shards) = self.routed()? else {
            let found = self.get_many(keys)?;
            PinnedBatch { queries: keys, width: 1, values, hits }.fill(found, miss);
            return Ok(());
        };
        // Nobody else uses the results any more, nor writes the keys.
        let count = keys[..].len();
        let _ = (values.first_mut(), hits.as_mut().map(|hits| hits.first_mut().is_some()));
        let (ways, values, hits) = (&self.ways().ways, &*values, hits.as_deref());
        let parts = ways.len() * PINNED_THREADS;
        let part = |number: usize| {
            (number * count / parts / 32 * 32)..match number + 1 {
                next if next == parts => count,
                next => next * count / parts / 32 * 32,
            }
        };
        (0..parts).into_par_iter().try_for_each(|number| {
            let (way, range) = (&ways[number / PINNED_THREADS], part(number));
            if range.is_empty() {
                return Ok(());
            }
            // SAFETY: the parts of the results don't overlap, since they begin at multiples of 32; each is gone when this closure
            // has returned, before the caller has the buffers back.
            let (keys, mut values, mut hits) = unsafe {
                let words = range.start / 32..range.end.div_ceil(32);
                let hits = hits.map(|hits| hits.part_for(&way.device, words)).transpose()?;
                (keys.part_for(&way.device, range.clone())?, values.part_for(&way.device, range)?, hits)
            };
            let batch = PinnedBatch { queries: &keys, width: 1, values: &mut values, hits: hits.as_mut() };
            way.pinned.send(&way.device, batch, &|stream, queries, count, values, hits| {
                let (batch, question) = ((queries.cast(), count), Question::Get { values, hits, miss });
                // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.router().run(&shards, self.splitters(), stream, batch, false, &question) }
            })
        })
    }
}

/// The shards, if devices divide such a batch.
fn divided<'i, K: AnyKey, I: OrderedIndex<Domain = K>>(
    index: &'i Sharded<I>,
    keys: &[K],
) -> Result<Option<Shards<'i, K, I::Value>>> {
    if keys.len() < index.ways().few.max(1) { Ok(None) } else { index.routed() }
}

fn filled<T: Clone>(item: T, len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    make_room(&mut all, len)?;
    all.resize(len, item);
    Ok(all)
}

/// Sends a batch: a sorted one in a part for each shard, which answers it alone; any other one in a part for each device.
fn send<'q, K: AnyKey, I: OrderedIndex<Domain = K>, T: Send>(
    index: &Sharded<I>,
    shards: &[Shard<'_, K, I::Value>],
    keys: &[K],
    out: &mut [T],
    results: Results,
    question: impl Fn(Addresses) -> Question<'q, K, I::Value> + Sync,
    collect: impl Fn(Answered<'_, '_, K>, &mut [T]) + Sync,
) -> Result<()> {
    let (splitters, ways) = (index.splitters(), index.ways());
    let is_sorted = keys.par_windows(2).all(|two| two[0] <= two[1]);
    let ends: Vec<usize> = match is_sorted {
        true => splitters.iter().map(|splitter| first(keys.len(), |at| keys[at] >= *splitter)).collect(),
        false => (1..ways.ways.len()).map(|way| way * keys.len() / ways.ways.len() / 32 * 32).collect(),
    };
    let (mut parts, mut begin, mut rest) = (Vec::new(), 0, out);
    for (number, end) in ends.into_iter().chain([keys.len()]).enumerate() {
        let part;
        (part, rest) = rest.split_at_mut(end - begin);
        parts.push((number, &keys[begin..end], part));
        begin = end;
    }
    parts.into_par_iter().try_for_each(|(number, keys, out)| {
        if keys.is_empty() {
            return Ok(());
        }
        let shard = is_sorted.then_some(number);
        let way = match shard {
            Some(shard) => ways.to(shards[shard].device),
            None => &ways.ways[number],
        };
        let launch = |stream: &Stream, keys: &[K], input: Global<u64>, out: Addresses| {
            let (batch, question) = ((input.cast(), keys.len()), question(out));
            // SAFETY: the slot's memory is for that many queries, and its pointers are for the stream.
            unsafe {
                match shard {
                    Some(shard) => question.ask(&shards[shard], stream, true, batch),
                    None => index.router().run(shards, splitters, stream, batch, false, &question),
                }
            }
        };
        let collect = |piece: &Piece<'_, &[K]>, out: &mut [T]| collect((piece, shard), out);
        let (device, reads_once) = (&way.device, is_sorted);
        way.staging.send(keys, out, &Route { device, results, reads_once, launch: &launch, collect: &collect })
    })
}
