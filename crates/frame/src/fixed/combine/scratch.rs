//! The memory in which two sets of pairs are combined, and the steps.

use crate::fixed::pairs::{SortedPairs, check_ascending};
use crate::fixed::{FixedIndex, OnStream};
use lanetree_base::error::same_device;
use lanetree_base::parallel::*;
use lanetree_base::{BatchOrder, DeviceKind, Error, Result};
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives as primitives;
use lanetree_primitives::{
    BuildScratch, DevicePairs, Keys, MergeRule, MergeScratch, Pairs, PairsMut, SelectScratch, check_pairs,
};
use lanetree_runtime::{Buffer, Device, Stream};

/// Scratch memory of unions, intersections and differences in device form, reusable for the next one. Empty at first: a call
/// that finds too little allocates what it needs, on the device that it was made for, and leaves it here.
///
/// In pairs, for *n* pairs of an index and *m* of another one: a union keeps 2(*n* + *m*), a difference 2*n* + *m*, or 2.5*n*
/// where *m* is several times as large, an intersection 2.5 times the smaller number. With a batch, a union keeps 2*n* + *m*, a
/// difference 2*n*, an intersection 1.5*m*; and once a batch has had a key twice, unions and intersections keep *m* more.
#[derive(Debug)]
pub struct CombineScratch<K: AnyKey, V: Value> {
    /// The other index's pairs.
    second: Room<K, V>,
    batch: BuildScratch<K, V>,
    work: Work<K, V>,
}

/// How many times as large as an index another one must be for its keys to be looked up there, rather than merged with all of
/// the other's: a look-up per key takes about as long as copying and merging a few.
const LARGER: u64 = 4;

/// Keys and values.
type Room<K, V> = Held<(Buffer<K>, Buffer<V>)>;

/// The working memory of a combination, apart from the second side's pairs.
#[derive(Debug)]
struct Work<K, V> {
    device: Device,
    /// The pairs of the index that is copied.
    first: Room<K, V>,
    /// Values that a look-up finds, and its hit mask.
    found: Held<(Buffer<V>, Buffer<u32>)>,
    merge: Held<MergeScratch>,
    select: Held<SelectScratch>,
    result: Room<K, V>,
    /// How many pairs the result has.
    count: Buffer<u64>,
}

/// Memory that is allocated again where more is needed.
#[derive(Debug)]
struct Held<T> {
    /// Elements that it is for.
    len: usize,
    memory: Option<T>,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { len: 0, memory: None }
    }
}

impl<T> Held<T> {
    /// That for `len` elements, which `make` allocates if there is less. What there was is free by then.
    fn reserve(&mut self, len: usize, make: impl FnOnce() -> Result<T>) -> Result<&mut T> {
        let memory = match self.memory.take() {
            Some(memory) if self.len >= len => memory,
            less => {
                drop(less);
                self.len = len;
                make()?
            }
        };
        Ok(self.memory.insert(memory))
    }
}

fn room<K: AnyKey, V: Value>(device: &Device, len: usize) -> Result<(Buffer<K>, Buffer<V>)> {
    Ok((device.alloc(len)?, device.alloc(len)?))
}

impl<K: AnyKey, V: Value> CombineScratch<K, V> {
    /// Scratch memory for combinations on this device: little at first; each call makes it as large as it needs.
    ///
    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device) -> Result<Self> {
        let work = Work {
            device: device.clone(),
            first: Held::default(),
            found: Held::default(),
            merge: Held::default(),
            select: Held::default(),
            result: Held::default(),
            count: device.alloc(1)?,
        };
        Ok(Self { second: Held::default(), batch: BuildScratch::for_sorted(device)?, work })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let Work { first, found, merge, select, result, count, .. } = &self.work;
        let pairs = [&self.second, first, result].into_iter().flat_map(|room| &room.memory);
        pairs.map(|(keys, values)| keys.bytes() + values.bytes()).sum::<usize>()
            + found.memory.as_ref().map_or(0, |(values, hits)| values.bytes() + hits.bytes())
            + merge.memory.as_ref().map_or(0, MergeScratch::bytes)
            + select.memory.as_ref().map_or(0, SelectScratch::bytes)
            + count.bytes()
            + self.batch.bytes()
    }

    /// # Errors
    /// [`Runtime`](lanetree_base::Error::Runtime) if it is another device's than the stream's.
    pub(super) fn check(&self, stream: &Stream) -> Result<()> {
        same_device(stream.device(), &self.work.device, "the scratch memory")
    }

    /// Makes the union's pairs, and returns how many there are.
    pub(super) fn unite<I: FixedIndex<Key = K, Value = V>>(
        &mut self,
        stream: &Stream,
        index: &I,
        other: &impl FixedIndex<Key = K, Value = V>,
    ) -> Result<usize> {
        let pairs = copied(&mut self.second, &self.work.device, stream, other)?;
        self.work.unite(stream, index, pairs)
    }

    /// The same with the pairs of a batch.
    pub(super) fn unite_batch(
        &mut self,
        stream: &Stream,
        index: &impl FixedIndex<Key = K, Value = V>,
        batch: DevicePairs<'_, K, V>,
    ) -> Result<usize> {
        check_pairs(stream, batch.keys, batch.values, batch.len)?;
        let Self { batch: scratch, work, .. } = self;
        if stream.device().kind() == DeviceKind::Host {
            let (keys, values) = distinct(batch)?;
            return work.unite(stream, index, DevicePairs { keys: &keys, values: &values, len: keys.len() });
        }
        scratch.sorted(stream, batch, |pairs| work.unite(stream, index, pairs))
    }

    /// Makes the intersection's pairs, with the index's values.
    pub(super) fn intersect<I: FixedIndex<Key = K, Value = V>>(
        &mut self,
        stream: &Stream,
        index: &I,
        other: &impl FixedIndex<Key = K, Value = V>,
    ) -> Result<usize> {
        let Self { second, work, .. } = self;
        // The smaller side's keys are looked up in the other.
        if other.len() < index.len() {
            let DevicePairs { keys, len, .. } = copied(second, &work.device, stream, other)?;
            return work.select_found(stream, index, (keys, len));
        }
        work.select_own(stream, index, other)
    }

    /// The same with the keys of a batch; `build` is given the pairs.
    pub(super) fn intersect_batch<R>(
        &mut self,
        stream: &Stream,
        index: &impl FixedIndex<Key = K, Value = V>,
        keys: (&Buffer<K>, usize),
        build: impl FnOnce(DevicePairs<'_, K, V>) -> Result<R>,
    ) -> Result<R> {
        let equal = self.ascending(stream, keys)?;
        let Self { batch, work, .. } = self;
        let len = work.select_found(stream, index, keys)?;
        let pairs = work.result(len);
        if equal == 0 {
            return build(pairs);
        }
        // What is found for a key that the batch has twice is there twice, too.
        if stream.device().kind() == DeviceKind::Host {
            let (keys, values) = distinct(pairs)?;
            return build(DevicePairs { keys: &keys, values: &values, len: keys.len() });
        }
        batch.sorted(stream, pairs, build)
    }

    /// Makes the difference's pairs.
    pub(super) fn subtract<I: FixedIndex<Key = K, Value = V>>(
        &mut self,
        stream: &Stream,
        index: &I,
        other: &impl FixedIndex<Key = K, Value = V>,
    ) -> Result<usize> {
        if other.len() / LARGER > index.len() {
            return self.work.select_others(stream, index, other);
        }
        let DevicePairs { keys, len, .. } = copied(&mut self.second, &self.work.device, stream, other)?;
        self.work.subtract(stream, index, (keys, len))
    }

    /// The same with the keys of a batch.
    pub(super) fn subtract_batch(
        &mut self,
        stream: &Stream,
        index: &impl FixedIndex<Key = K, Value = V>,
        (keys, len): (&Buffer<K>, usize),
    ) -> Result<usize> {
        self.ascending(stream, (keys, len))?;
        self.work.subtract(stream, index, (keys, len))
    }

    /// How many keys of a batch equal the one before.
    fn ascending(&mut self, stream: &Stream, (keys, len): (&Buffer<K>, usize)) -> Result<usize> {
        same_device(stream.device(), keys.device(), "the keys' buffer")?;
        let Some(keys) = on_host(keys, len)? else { return self.batch.ascending(stream, keys, len) };
        check_ascending(keys)?;
        Ok(keys.par_windows(2).count_if(|pair| pair[0] == pair[1]))
    }

    /// The first `len` pairs of what was made.
    pub(super) fn result(&self, len: usize) -> DevicePairs<'_, K, V> {
        self.work.result(len)
    }

    /// All but what was made is freed.
    pub(super) fn into_result(self) -> (Buffer<K>, Buffer<V>) {
        self.work.result.memory.expect("something was made")
    }
}

impl<K: AnyKey, V: Value> Work<K, V> {
    fn result(&self, len: usize) -> DevicePairs<'_, K, V> {
        let (keys, values) = self.result.memory.as_ref().expect("something was made");
        DevicePairs { keys, values, len }
    }

    /// The pairs of an index and of a second side, which replace the index's own.
    fn unite(
        &mut self,
        stream: &Stream,
        index: &impl FixedIndex<Key = K, Value = V>,
        DevicePairs { keys, values, len }: DevicePairs<'_, K, V>,
    ) -> Result<usize> {
        let Self { device, first, merge, result, count, .. } = self;
        let own = copied(first, device, stream, index)?;
        let all = own.len.saturating_add(len);
        let (result_keys, result_values) = result.reserve(all, || room(device, all))?;
        let first = Pairs { keys: own.keys, values: own.values, count: own.len.into() };
        let second = Pairs { keys, values, count: len.into() };
        let output = PairsMut { keys: result_keys, values: result_values, count };
        let scratch = merge.reserve(all, || MergeScratch::new(device, all))?;
        primitives::merge(stream, MergeRule::SecondReplacesFirst, first, second, output, scratch)?;
        number(count)
    }

    /// An index's pairs without those that have these keys.
    fn subtract(
        &mut self,
        stream: &Stream,
        index: &impl FixedIndex<Key = K, Value = V>,
        (keys, len): (&Buffer<K>, usize),
    ) -> Result<usize> {
        let Self { device, first, merge, result, count, .. } = self;
        let own = copied(first, device, stream, index)?;
        let all = own.len.saturating_add(len);
        let (result_keys, result_values) = result.reserve(own.len, || room(device, own.len))?;
        let first = Pairs { keys: own.keys, values: own.values, count: own.len.into() };
        let second = Keys { keys, count: len.into() };
        let output = PairsMut { keys: result_keys, values: result_values, count };
        let scratch = merge.reserve(all, || MergeScratch::new(device, all))?;
        primitives::subtract(stream, first, second, output, scratch)?;
        number(count)
    }

    /// The index's pairs that have these keys, which ascend.
    fn select_found(
        &mut self,
        stream: &Stream,
        index: &impl FixedIndex<Key = K, Value = V>,
        (keys, len): (&Buffer<K>, usize),
    ) -> Result<usize> {
        let Self { device, found, select, result, count, .. } = self;
        let (values, hits) = look_up(found, device, stream, index, (keys, len))?;
        let pairs = Pairs { keys, values, count: len.into() };
        selected(stream, device, pairs, hits, (select, result, count))
    }

    /// The index's pairs whose keys another one has.
    fn select_own<I: FixedIndex<Key = K, Value = V>>(
        &mut self,
        stream: &Stream,
        index: &I,
        other: &impl FixedIndex<Key = K, Value = V>,
    ) -> Result<usize> {
        let Self { device, first, found, select, result, count, .. } = self;
        let DevicePairs { keys, values, len } = copied(first, device, stream, index)?;
        let (_, hits) = look_up(found, device, stream, other, (keys, len))?;
        let pairs = Pairs { keys, values, count: len.into() };
        selected(stream, device, pairs, hits, (select, result, count))
    }

    /// The index's pairs whose keys another one does not have.
    fn select_others<I: FixedIndex<Key = K, Value = V>>(
        &mut self,
        stream: &Stream,
        index: &I,
        other: &impl FixedIndex<Key = K, Value = V>,
    ) -> Result<usize> {
        let Self { device, first, found, select, result, count, .. } = self;
        let DevicePairs { keys, values, len } = copied(first, device, stream, index)?;
        let (_, hits) = look_up(found, device, stream, other, (keys, len))?;
        let pairs = Pairs { keys, values, count: len.into() };
        let all = result.reserve(len, || room(device, len))?;
        let scratch = select.reserve(len, || SelectScratch::new(device, len))?;
        let output = PairsMut { keys: &mut all.0, values: &mut all.1, count };
        primitives::partition(stream, pairs, hits, output, scratch)?;
        // They come after those that both have, and go to where the copies were, which are few.
        let rest = number(count)?..len;
        let (keys, values) = first.reserve(len, || room(device, len))?;
        keys.copy_from_buffer(stream, 0, &all.0, rest.clone())?;
        values.copy_from_buffer(stream, 0, &all.1, rest.clone())?;
        core::mem::swap(first, result);
        Ok(rest.len())
    }
}

/// All pairs of an index, copied.
fn copied<'r, K: AnyKey, V: Value>(
    room_of: &'r mut Room<K, V>,
    device: &Device,
    stream: &Stream,
    index: &impl FixedIndex<Key = K, Value = V>,
) -> Result<DevicePairs<'r, K, V>> {
    let len = index.len() as usize;
    let (keys, values) = room_of.reserve(len, || room(device, len))?;
    OnStream::new(index, stream).pairs(keys, values)?;
    Ok(DevicePairs { keys, values, len })
}

/// The values of ascending keys in an index, and the hit mask.
fn look_up<'r, I: FixedIndex>(
    found: &'r mut Held<(Buffer<I::Value>, Buffer<u32>)>,
    device: &Device,
    stream: &Stream,
    index: &I,
    (keys, len): (&Buffer<I::Key>, usize),
) -> Result<(&'r Buffer<I::Value>, &'r Buffer<u32>)> {
    let (values, hits) = found.reserve(len, || Ok((device.alloc(len)?, device.alloc(len.div_ceil(32))?)))?;
    let on = OnStream::new(index, stream).order(BatchOrder::Sorted);
    on.get_first(len, keys, values, Some(hits), I::Value::default())?;
    Ok((values, hits))
}

/// Writes the pairs whose bit is set to the result, and returns how many there are.
fn selected<K: AnyKey, V: Value>(
    stream: &Stream,
    device: &Device,
    pairs: Pairs<'_, K, V>,
    hits: &Buffer<u32>,
    (select, result, count): (&mut Held<SelectScratch>, &mut Room<K, V>, &mut Buffer<u64>),
) -> Result<usize> {
    let len = pairs.count.at_most();
    let (keys, values) = result.reserve(len, || room(device, len))?;
    let scratch = select.reserve(len, || SelectScratch::new(device, len))?;
    primitives::select(stream, pairs, hits, PairsMut { keys, values, count }, scratch)?;
    number(count)
}

/// A number from a device. Waits for what writes it.
fn number(count: &Buffer<u64>) -> Result<usize> {
    let mut number = [0];
    count.copy_range_to(0, &mut number)?;
    Ok(number[0] as usize)
}

/// The first `len` keys of a buffer, if it is the host that works on them.
fn on_host<K: AnyKey>(keys: &Buffer<K>, len: usize) -> Result<Option<&[K]>> {
    if keys.device().kind() != DeviceKind::Host {
        return Ok(None);
    }
    let short = Error::OutputLength { what: "the keys' buffer", expected: len, actual: keys.len() };
    Ok(Some(keys.as_slice().and_then(|keys| keys.get(..len)).ok_or(short)?))
}

/// The pairs of a batch on the host, each key once: the last one of each.
fn distinct<K: AnyKey, V: Value>(pairs: DevicePairs<'_, K, V>) -> Result<(Buffer<K>, Buffer<V>)> {
    let DevicePairs { keys, values, len } = pairs;
    let device = keys.device();
    let short = |what, actual| Error::OutputLength { what, expected: len, actual };
    let words = keys.as_slice().and_then(|keys| keys.get(..len)).ok_or(short("the keys' buffer", keys.len()))?;
    let values =
        values.as_slice().and_then(|values| values.get(..len)).ok_or(short("the values' buffer", values.len()))?;
    let pairs = SortedPairs::from_sorted(words, values)?;
    let keys = pairs.keys.par_iter().map(|&word| K::decode(word)).try_collect()?;
    Ok((device.upload(&keys)?, device.upload(&pairs.values)?))
}
