//! Any [`OrderedIndex`], put through cases.

use crate::host::{self, DomainOf, KeysOf};
use crate::lent::Lender;
use crate::memory::hits;
use crate::operations::{narrow, value_of};
use crate::{Answer, Change, Counts, Family, Form, Hooks, Numbered, Pairs, Question, Side, Subject, contract};
use core::marker::PhantomData;
use lanetree::{
    BatchOf, Device, DeviceForm, Domain, Error, IndexBuilder, KeyOf, KeyWord, Op, OrderedIndex, Result, Stream, Word,
};

/// Families of builders.
#[derive(Debug)]
pub struct Ordered<B, H> {
    name: &'static str,
    builders: Vec<B>,
    hooks: PhantomData<fn() -> H>,
}

/// The family of these builders, with hooks `H`: [`Plain`](crate::Plain), [`Fixed`](crate::Fixed) or an index's own.
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

impl<B: IndexBuilder, H> Ordered<B, H> {
    /// Builds an index over pairs.
    ///
    /// # Errors
    /// The index's own.
    pub(crate) fn index(&self, device: &Device, options: u8, pairs: &[(KeyOf<B::Index>, u64)]) -> Result<B::Index> {
        let keys = pairs.iter().map(|pair| pair.0.clone()).collect();
        let values: Vec<_> = pairs.iter().map(|pair| KeyWord::truncate(pair.1)).collect();
        self.builder(options).build(device, DomainOf::<B::Index>::batch(&keys), &values)
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
        let index = self.index(device, options, pairs)?;
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

    pub(crate) fn into_index(self) -> I {
        self.index
    }

    /// Goes on with an index that was built elsewhere; any number chooses options.
    ///
    /// # Errors
    /// The index's own.
    pub fn of(index: I, options: u8) -> Result<Self> {
        let (stream, hooks) = (index.device().stream()?, H::start(&index, options)?);
        Ok(Self { index, hooks, stream, in_order: false })
    }

    fn apply_any(&mut self, change: Change, ops: &[Op<KeyOf<I>, u64>], form: Form) -> Result<Counts> {
        let narrow: Vec<Op<KeyOf<I>, I::Value>> = ops.iter().map(narrow).collect();
        let Self { index, hooks, stream, .. } = self;
        if form == Form::Device
            && hooks.takes_buffers(index)
            && !ops.is_empty()
            && let Some(done) = hooks.apply(index, stream, change, &narrow)
        {
            return done;
        }
        let keys: KeysOf<I> = ops.iter().map(|op| op.key().clone()).collect();
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

    fn ask(&self, question: &Question<KeyOf<I>>, form: Form) -> Option<Result<Answer<KeyOf<I>>>> {
        ask(&self.index, &self.hooks, &self.stream, question, form)
    }

    fn restore_order(&mut self) -> Result<()> {
        self.index.restore_order()?;
        self.in_order = true;
        Ok(())
    }

    fn compact(&mut self) -> Result<()> {
        let size = |index: &I| index.bytes() + index.host_bytes();
        let before = size(&self.index);
        let freed = self.index.compact()?;
        let less = before.saturating_sub(size(&self.index));
        assert!(freed >= less, "{freed} bytes are said to be free, and {less} are");
        self.in_order = true;
        Ok(())
    }

    fn check_structure(&self) {
        self.hooks.check_structure(&self.index);
    }

    fn needs_device(&self) -> bool {
        self.hooks.needs_device(&self.index)
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

/// Asks an index by its own calls, by its device form if it is asked in that, or by the calls that every index has.
pub(crate) fn ask<I, H: Hooks<I>>(
    index: &I,
    hooks: &H,
    stream: &Stream,
    question: &Question<KeyOf<I>>,
    form: Form,
) -> Option<Result<Answer<KeyOf<I>>>>
where
    I: OrderedIndex<Domain: Domain<Key: Numbered>>,
{
    let form = if hooks.takes_buffers(index) { form } else { Form::Host };
    if let Some(answer) = hooks.ask(index, stream, question, form) {
        return Some(answer);
    }
    match (form, index.device_form(), question) {
        (Form::Device, Some(on), Question::Get(keys)) => Some(get_on::<I>(index.device(), on, stream, keys)),
        (Form::Device, Some(on), Question::Rank(keys, side)) => {
            let lender = Lender::new(index.device());
            let rank = || {
                let (queries, mut ranks) = (upload::<I>(&lender, index.device(), keys)?, lender.alloc(keys.len())?);
                match side {
                    Side::Lower => on.lower_bound(stream, &queries, &mut ranks)?,
                    Side::Upper => on.upper_bound(stream, &queries, &mut ranks)?,
                }
                stream.synchronize()?;
                Ok(Answer::Numbers(ranks.to_vec()?))
            };
            Some(rank())
        }
        _ => host::ask(index, question),
    }
}

fn get_on<I: OrderedIndex<Domain: Domain<Key: Numbered>>>(
    device: &Device,
    on: &dyn DeviceForm<DomainOf<I>, I::Value>,
    stream: &Stream,
    keys: &[KeyOf<I>],
) -> Result<Answer<KeyOf<I>>> {
    let lender = Lender::new(device);
    let (queries, len) = (upload::<I>(&lender, device, keys)?, keys.len());
    let (mut values, mut mask) = (lender.alloc::<I::Value>(len)?, lender.alloc(len.div_ceil(32))?);
    on.get(stream, &queries, &mut values, Some(&mut mask), I::Value::MAX)?;
    stream.synchronize()?;
    Ok(Answer::Values(hits(values.to_vec()?.into_iter().map(Word::widen), &mask.to_vec()?)))
}

/// Keys of a fixed size in a lender's memory.
fn upload<I: OrderedIndex<Domain: Domain<Key: Numbered>>>(
    lender: &Lender,
    device: &Device,
    keys: &[KeyOf<I>],
) -> Result<<DomainOf<I> as Domain>::Buffer> {
    if let Some(lent) = KeyOf::<I>::lent(lender, keys) {
        return Ok(*lent?.downcast().expect("keys of a fixed size are in buffers of keys"));
    }
    DomainOf::<I>::upload(device, DomainOf::<I>::batch(&host::keys::<I>(keys)))
}
