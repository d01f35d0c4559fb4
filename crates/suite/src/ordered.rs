//! Any [`OrderedIndex`], put through cases.

use crate::host::{self, DomainOf, KeysOf, rows, wide, widened};
use crate::model::Range;
use crate::{Change, Counts, Family, Form, Neighbor, Numbered, Pairs, Side, Subject, contract};
use core::marker::PhantomData;
use lanetree::{
    BatchOf, Device, DeviceForm, Domain, Error, IndexBuilder, KeyOf, Op, OrderedIndex, RangesOf, Result, Stream, Word,
};
use lanetree_frame::fixed::{DeviceRanges, FixedIndex, OnStream, RangeScratch};

/// Pairs of an index, with values of its own width.
type PairsOf<I> = Vec<(KeyOf<I>, <I as OrderedIndex>::Value)>;

/// Calls that an index has beside those of [`OrderedIndex`], most of them in device form. `None` from a call: the index
/// has none such, and the host form is used. Every method has such a default.
pub trait Hooks<I: OrderedIndex<Domain: Domain<Key: Numbered>>>: Sized {
    /// What the calls need beside the index, such as scratch memory; any number chooses options.
    ///
    /// # Errors
    /// The index's own, here and below.
    fn start(index: &I, options: u8) -> Result<Self>;

    /// Whether the index answers in device form now, if it has that form.
    fn takes_buffers(&self, _index: &I) -> bool {
        true
    }

    /// Applies a batch of at least one operation in device form.
    fn apply(
        &mut self,
        _index: &mut I,
        _stream: &Stream,
        _change: Change,
        _ops: &[Op<KeyOf<I>, I::Value>],
    ) -> Option<Result<Counts>> {
        None
    }

    /// [`Subject::neighbor`] in device form.
    fn neighbor(
        &self,
        _index: &I,
        _stream: &Stream,
        _keys: &[KeyOf<I>],
        _side: Side,
    ) -> Option<Result<Vec<Option<(KeyOf<I>, I::Value)>>>> {
        None
    }

    /// [`Subject::range`] in device form.
    fn range(&self, _index: &I, _stream: &Stream, _ranges: &[Range<KeyOf<I>>]) -> Option<Result<Vec<PairsOf<I>>>> {
        None
    }

    /// [`Subject::count`] in device form.
    fn count(&self, _index: &I, _stream: &Stream, _ranges: &[Range<KeyOf<I>>]) -> Option<Result<Vec<u64>>> {
        None
    }

    /// [`Subject::prefix`].
    fn prefix(&self, _index: &I, _prefixes: &[KeyOf<I>]) -> Option<Result<RangesOf<I>>> {
        None
    }

    /// [`Subject::relocate`].
    ///
    /// # Errors
    /// The index's own.
    fn relocate(index: I) -> Result<I> {
        Ok(index)
    }

    /// [`Subject::may_refuse`], beside [`Error::NotCompact`], which any index may give after an insert or a removal.
    fn may_refuse(&self, _index: &I, _error: &Error) -> bool {
        false
    }
}

/// The hooks of an index that has only the calls of [`OrderedIndex`].
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<I: OrderedIndex<Domain: Domain<Key: Numbered>>> Hooks<I> for Plain {
    fn start(_: &I, _: u8) -> Result<Self> {
        Ok(Self)
    }
}

/// The hooks of any [`FixedIndex`]: the device form of neighbours and ranges.
#[derive(Clone, Copy, Debug)]
pub struct Fixed;

impl<I: FixedIndex<Key: Numbered>> Hooks<I> for Fixed {
    fn start(_: &I, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn neighbor(
        &self,
        index: &I,
        stream: &Stream,
        keys: &[<I as FixedIndex>::Key],
        side: Side,
    ) -> Option<Result<Vec<Option<(<I as FixedIndex>::Key, <I as FixedIndex>::Value)>>>> {
        Some(fixed_neighbor(index, stream, keys, side))
    }

    fn range(
        &self,
        index: &I,
        stream: &Stream,
        ranges: &[Range<<I as FixedIndex>::Key>],
    ) -> Option<Result<Vec<PairsOf<I>>>> {
        fixed_range(index, stream, ranges)
    }

    fn count(&self, index: &I, stream: &Stream, ranges: &[Range<<I as FixedIndex>::Key>]) -> Option<Result<Vec<u64>>> {
        fixed_count(index, stream, ranges)
    }
}

/// Families of builders.
#[derive(Debug)]
pub struct Ordered<B, H> {
    name: &'static str,
    builders: Vec<B>,
    hooks: PhantomData<fn() -> H>,
}

/// The family of these builders, with hooks `H`: [`Plain`], [`Fixed`] or an index's own.
///
/// # Panics
/// Without builders.
pub fn ordered<H, B: IndexBuilder>(name: &'static str, builders: impl IntoIterator<Item = B>) -> Ordered<B, H> {
    let builders: Vec<B> = builders.into_iter().collect();
    assert!(!builders.is_empty(), "{name}: give at least one builder");
    Ordered { name, builders, hooks: PhantomData }
}

impl<B, H> Ordered<B, H> {
    /// The index's builders.
    pub fn builders(&self) -> &[B] {
        &self.builders
    }

    fn builder(&self, options: u8) -> &B {
        &self.builders[usize::from(options) % self.builders.len()]
    }
}

impl<B, H> Family for Ordered<B, H>
where
    B: IndexBuilder<Index: OrderedIndex<Domain: Domain<Key: Numbered>>>,
    H: Hooks<B::Index>,
{
    type Subject = OrderedSubject<B::Index, H>;

    fn name(&self) -> &str {
        self.name
    }

    fn ways(&self) -> u8 {
        u8::try_from(self.builders.len()).expect("fewer than 256 builders")
    }

    fn build(&self, device: &Device, options: u8, pairs: &[(KeyOf<B::Index>, u64)]) -> Result<Self::Subject> {
        let keys = pairs.iter().map(|pair| pair.0.clone()).collect();
        let values: Vec<_> = pairs.iter().map(|pair| Word::truncate(pair.1)).collect();
        let index = self.builder(options).build(device, DomainOf::<B::Index>::batch(&keys), &values)?;
        let hooks = H::start(&index, options / self.ways())?;
        Ok(OrderedSubject { stream: device.stream()?, index, hooks, in_order: true })
    }

    fn contract(&self, device: &Device, options: u8) -> Result<(), String> {
        contract::contract(self.builder(options), device)
    }
}

/// An index, and what its calls take.
#[derive(Debug)]
pub struct OrderedSubject<I, H> {
    index: I,
    hooks: H,
    stream: Stream,
    /// Whether no keys were inserted or removed since it was built or brought back into order.
    in_order: bool,
}

impl<I: OrderedIndex<Domain: Domain<Key: Numbered>>, H: Hooks<I>> OrderedSubject<I, H> {
    /// The index.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// Goes on with an index that was built elsewhere; any number chooses options.
    ///
    /// # Errors
    /// The index's own.
    pub fn of(index: I, options: u8) -> Result<Self> {
        let (stream, hooks) = (index.device().stream()?, H::start(&index, options)?);
        Ok(Self { index, hooks, stream, in_order: false })
    }

    /// The index's device form, if the call is to be in it.
    fn device_form(&self, form: Form) -> Option<&dyn DeviceForm<DomainOf<I>, I::Value>> {
        if self.in_buffers(form) { self.index.device_form() } else { None }
    }

    fn in_buffers(&self, form: Form) -> bool {
        form == Form::Device && self.hooks.takes_buffers(&self.index)
    }

    fn upload(&self, keys: &[KeyOf<I>]) -> Result<<DomainOf<I> as Domain>::Buffer> {
        DomainOf::<I>::upload(self.index.device(), DomainOf::<I>::batch(&host::keys::<I>(keys)))
    }

    fn apply_any(&mut self, change: Change, ops: &[Op<KeyOf<I>, u64>], form: Form) -> Result<Counts> {
        let narrow: Vec<Op<KeyOf<I>, I::Value>> = ops.iter().map(narrow).collect();
        if self.in_buffers(form) && !ops.is_empty() {
            let Self { index, hooks, stream, .. } = self;
            if let Some(done) = hooks.apply(index, stream, change, &narrow) {
                return done;
            }
        }
        let keys: KeysOf<I> = ops.iter().map(|op| key_of(op).clone()).collect();
        let (keys, values): (BatchOf<'_, I>, Vec<_>) =
            (DomainOf::<I>::batch(&keys), narrow.iter().map(value_of).collect());
        let report = match change {
            Change::Insert => self.index.insert_many(keys, &values)?,
            Change::Update => self.index.update_many(keys, &values)?,
            Change::Remove => self.index.remove_many(keys)?,
            Change::Mixed(_) => self.index.apply(&narrow)?,
        };
        Ok(report.into())
    }
}

impl<I: OrderedIndex<Domain: Domain<Key: Numbered>>, H: Hooks<I>> Subject for OrderedSubject<I, H> {
    type Key = KeyOf<I>;

    fn size(&self) -> u64 {
        self.index.len()
    }

    fn pairs(&mut self) -> Result<Pairs<KeyOf<I>>> {
        host::pairs(&self.index)
    }

    fn apply(&mut self, change: Change, ops: &[Op<KeyOf<I>, u64>], form: Form) -> Result<Counts> {
        let before = self.index.len();
        let done = self.apply_any(change, ops, form);
        // Where nothing is said, something may have been done.
        let some = |count: Option<u64>| count != Some(0);
        self.in_order &= match (&done, change) {
            (Ok(_), Change::Update) => true,
            (Ok(counts), Change::Insert) => !some(counts.inserted),
            (Ok(counts), Change::Remove) => !some(counts.removed),
            (Ok(counts), Change::Mixed(_)) => !some(counts.inserted) && !some(counts.removed),
            (Err(_), _) => false,
        };
        debug_assert!(!self.in_order || self.index.len() == before, "the number of pairs has changed");
        done
    }

    fn get(&self, keys: &[KeyOf<I>], form: Form) -> Result<Vec<Option<u64>>> {
        let Some(on) = self.device_form(form) else { return host::get(&self.index, keys) };
        let (device, queries) = (self.index.device(), self.upload(keys)?);
        let (mut values, mut mask) = (device.alloc::<I::Value>(keys.len())?, device.alloc(keys.len().div_ceil(32))?);
        on.get(&self.stream, &queries, &mut values, Some(&mut mask), I::Value::MAX)?;
        self.stream.synchronize()?;
        Ok(hits(values.to_vec()?.into_iter().map(Word::widen), &mask.to_vec()?))
    }

    fn rank(&self, keys: &[KeyOf<I>], side: Side, form: Form) -> Result<Vec<u64>> {
        let Some(on) = self.device_form(form) else { return host::rank(&self.index, keys, side) };
        let (queries, mut ranks) = (self.upload(keys)?, self.index.device().alloc(keys.len())?);
        match side {
            Side::Lower => on.lower_bound(&self.stream, &queries, &mut ranks)?,
            Side::Upper => on.upper_bound(&self.stream, &queries, &mut ranks)?,
        }
        self.stream.synchronize()?;
        Ok(ranks.to_vec()?)
    }

    fn neighbor(&self, keys: &[KeyOf<I>], side: Side, form: Form) -> Result<Vec<Neighbor<KeyOf<I>>>> {
        if self.in_buffers(form)
            && let Some(found) = self.hooks.neighbor(&self.index, &self.stream, keys, side)
        {
            return Ok(wide(found?));
        }
        host::neighbor(&self.index, keys, side)
    }

    fn range(&self, ranges: &[Range<KeyOf<I>>], form: Form) -> Result<Vec<Pairs<KeyOf<I>>>> {
        if self.in_buffers(form)
            && let Some(found) = self.hooks.range(&self.index, &self.stream, ranges)
        {
            return Ok(found?.into_iter().map(widened).collect());
        }
        host::range(&self.index, ranges)
    }

    fn count(&self, ranges: &[Range<KeyOf<I>>], form: Form) -> Result<Vec<u64>> {
        if self.in_buffers(form)
            && let Some(counts) = self.hooks.count(&self.index, &self.stream, ranges)
        {
            return counts;
        }
        host::count(&self.index, ranges)
    }

    fn prefix(&self, prefixes: &[KeyOf<I>]) -> Option<Result<Vec<Pairs<KeyOf<I>>>>> {
        let found = self.hooks.prefix(&self.index, prefixes)?;
        Some(found.map(|found| rows::<I>(&found)))
    }

    fn restore_order(&mut self) -> Result<()> {
        self.index.restore_order()?;
        self.in_order = true;
        Ok(())
    }

    fn relocate(self) -> Result<Self> {
        // A copy is in order if the original is.
        Ok(Self { in_order: self.in_order, ..Self::of(H::relocate(self.index)?, 0)? })
    }

    fn may_refuse(&self, error: &Error) -> bool {
        matches!(error, Error::NotCompact { .. }) && !self.in_order || self.hooks.may_refuse(&self.index, error)
    }

    fn device(&self) -> &Device {
        self.index.device()
    }

    fn is_lost(&self) -> Option<bool> {
        Some(self.index.is_lost())
    }
}

/// The neighbours of keys in device form.
///
/// # Errors
/// The index's own.
pub(crate) fn fixed_neighbor<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    keys: &[I::Key],
    side: Side,
) -> Result<Vec<Option<(I::Key, I::Value)>>> {
    let (device, on) = (index.device(), OnStream::new(index, stream));
    let (queries, len) = (device.upload(keys)?, keys.len());
    let (mut keys, mut values) = (device.alloc::<I::Key>(len)?, device.alloc::<I::Value>(len)?);
    let mut mask = device.alloc(len.div_ceil(32))?;
    match side {
        Side::Upper => on.predecessor(&queries, &mut keys, &mut values, Some(&mut mask), I::Value::MAX)?,
        Side::Lower => on.successor(&queries, &mut keys, &mut values, Some(&mut mask), I::Value::MAX)?,
    }
    stream.synchronize()?;
    Ok(hits(keys.to_vec()?.into_iter().zip(values.to_vec()?), &mask.to_vec()?))
}

/// The pairs of ranges in device form; `None` unless all include both their bounds.
pub(crate) fn fixed_range<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    ranges: &[Range<I::Key>],
) -> Option<Result<Vec<Vec<(I::Key, I::Value)>>>> {
    let find = |Inclusive { starts, ends, limits }| {
        let (device, count) = (index.device(), ranges.len());
        let (starts, ends, limits) = (device.upload(&starts)?, device.upload(&ends)?, device.upload(&limits)?);
        let mut scratch = RangeScratch::new(device, count)?;
        // First without room for pairs, which tells how many there are.
        let mut out = DeviceRanges::new(device, count, 0)?;
        for _ in 0..2 {
            let on = OnStream::new(index, stream);
            on.range(&starts, &ends, Some(&limits), u64::MAX, &mut scratch, &mut out)?;
            stream.synchronize()?;
            let pairs = out.offsets.to_vec()?[count] as usize;
            if pairs > out.keys.len() {
                out = DeviceRanges::new(device, count, pairs)?;
            }
        }
        let (offsets, keys, values) = (out.offsets.to_vec()?, out.keys.to_vec()?, out.values.to_vec()?);
        let row = |ends: &[u64]| {
            let row = ends[0] as usize..ends[1] as usize;
            keys[row.clone()].iter().copied().zip(values[row].iter().copied()).collect()
        };
        Ok(offsets.windows(2).map(row).collect())
    };
    inclusive(ranges).map(find)
}

/// The numbers of pairs of ranges in device form; `None` unless all include both their bounds.
pub(crate) fn fixed_count<I: FixedIndex>(
    index: &I,
    stream: &Stream,
    ranges: &[Range<I::Key>],
) -> Option<Result<Vec<u64>>> {
    let count = |Inclusive { starts, ends, limits }| {
        let device = index.device();
        let (starts, ends, limits) = (device.upload(&starts)?, device.upload(&ends)?, device.upload(&limits)?);
        let mut counts = device.alloc(ranges.len())?;
        OnStream::new(index, stream).count(&starts, &ends, Some(&limits), u64::MAX, &mut counts)?;
        stream.synchronize()?;
        Ok(counts.to_vec()?)
    };
    inclusive(ranges).map(count)
}

/// Bounds of a batch of ranges as the device form takes them.
struct Inclusive<K> {
    starts: Vec<K>,
    ends: Vec<K>,
    limits: Vec<u64>,
}

/// The bounds of ranges that all include both.
fn inclusive<K: Copy>(ranges: &[Range<K>]) -> Option<Inclusive<K>> {
    let mut batch = Inclusive { starts: Vec::new(), ends: Vec::new(), limits: Vec::new() };
    for &(start, end, limit) in ranges {
        let (core::ops::Bound::Included(start), core::ops::Bound::Included(end)) = (start, end) else { return None };
        batch.starts.push(start);
        batch.ends.push(end);
        batch.limits.push(limit.unwrap_or(u64::MAX));
    }
    Some(batch)
}

/// Those results whose bits in a hit mask are set.
fn hits<T>(values: impl Iterator<Item = T>, mask: &[u32]) -> Vec<Option<T>> {
    let hit = |(i, value): (usize, T)| (mask[i / 32] >> (i % 32) & 1 == 1).then_some(value);
    values.enumerate().map(hit).collect()
}

/// The same operation with a value of its width.
pub(crate) fn narrow<K: Clone, V: Word>(op: &Op<K, u64>) -> Op<K, V> {
    match op {
        Op::Insert(key, value) => Op::Insert(key.clone(), V::truncate(*value)),
        Op::Update(key, value) => Op::Update(key.clone(), V::truncate(*value)),
        Op::Remove(key) => Op::Remove(key.clone()),
    }
}

pub(crate) fn key_of<K, V>(op: &Op<K, V>) -> &K {
    match op {
        Op::Insert(key, _) | Op::Update(key, _) | Op::Remove(key) => key,
    }
}

/// Keys and values of operations.
pub(crate) fn columns<K: Clone, V: Word, Keys: FromIterator<K>>(ops: &[Op<K, u64>]) -> (Keys, Vec<V>) {
    let value = |op| V::truncate(value_of(op));
    (ops.iter().map(|op| key_of(op).clone()).collect(), ops.iter().map(value).collect())
}

/// An operation's value; that of a removal does not matter.
pub(crate) fn value_of<K, V: Word>(op: &Op<K, V>) -> V {
    match op {
        Op::Insert(_, value) | Op::Update(_, value) => *value,
        Op::Remove(_) => V::MIN,
    }
}
