//! Any [`Mirror`]: an index on the host and its copy on a device, put through cases as one.

use crate::host::{self, DomainOf, KeysOf};
use crate::operations::{narrow, value_of};
use crate::ordered::{ask, ordered};
use crate::{Answer, Change, Counts, Family, Form, Hooks, Numbered, Ordered, OrderedSubject, Pairs, Question, Subject};
use lanetree::{Device, DeviceKind, Domain, Error, IndexBuilder, KeyOf, Mirror, Mirrored, Op, Result, Stream};
use std::sync::Arc;

/// Pairs of an index of these builders and its copy.
#[derive(Debug)]
pub struct MirroredFamily<B, H>(Ordered<B, H>);

/// The pairs of these builders, with hooks `H` for the copy.
///
/// # Panics
/// Without builders.
pub fn mirrored<H, B: IndexBuilder>(name: &'static str, builders: Vec<B>) -> MirroredFamily<B, H> {
    MirroredFamily(ordered(name, builders))
}

impl<B, H> Family for MirroredFamily<B, H>
where
    B: IndexBuilder<Index: Mirror<Domain: Domain<Key: Numbered>>>,
    H: Hooks<B::Index>,
{
    type Subject = MirroredSubject<B::Index, H>;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn ways(&self) -> u8 {
        self.0.ways()
    }

    fn build(&self, device: &Device, options: u8, pairs: &[(KeyOf<B::Index>, u64)]) -> Result<Self::Subject> {
        let index = self.0.index(&Device::host(), options, pairs)?;
        let in_order = true;
        Ok(MirroredSubject::Pair(Pair { in_order, ..Pair::new(index, device, options / self.ways())? }))
    }
}

/// An index and its copy; taken apart, the copy alone.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one of it per case")]
pub enum MirroredSubject<I: Mirror, H>
where
    I::Domain: Domain<Key: Numbered>,
{
    /// Both.
    Pair(Pair<I, H>),
    /// The copy, which goes on by itself.
    Alone(OrderedSubject<I, H>),
}

/// An index and its copy, and a version of the copy that somebody keeps.
#[derive(Debug)]
pub struct Pair<I: Mirror, H> {
    pair: Mirrored<I>,
    hooks: H,
    /// Of the copy's device.
    stream: Stream,
    /// Whether no keys were inserted or removed since it was built or brought back into order.
    in_order: bool,
    /// With what it holds.
    kept: Option<(Arc<I>, Pairs<KeyOf<I>>)>,
}

impl<I: Mirror<Domain: Domain<Key: Numbered>>, H: Hooks<I>> Pair<I, H> {
    fn new(index: I, device: &Device, options: u8) -> Result<Self> {
        let pair = Mirrored::new(index, device)?;
        let hooks = H::start(pair.device_index(), options)?;
        Ok(Self { pair, hooks, stream: device.stream()?, in_order: false, kept: None })
    }

    fn apply(&mut self, change: Change, ops: &[Op<KeyOf<I>, u64>]) -> Result<Counts> {
        let ops: Vec<Op<KeyOf<I>, I::Value>> = ops.iter().map(narrow).collect();
        let keys: KeysOf<I> = ops.iter().map(|op| op.key().clone()).collect();
        let (keys, values) = (DomainOf::<I>::batch(&keys), ops.iter().map(value_of).collect::<Vec<_>>());
        let done = match change {
            Change::Insert => self.pair.insert_many(keys, &values),
            Change::Update => self.pair.update_many(keys, &values),
            Change::Remove => self.pair.remove_many(keys),
            Change::Mixed(_) => self.pair.apply(&ops),
        };
        // Where nothing is said, something may have been done.
        self.in_order &= done.as_ref().is_ok_and(|done| done.update.inserted + done.update.removed == 0);
        Ok(done?.update.into())
    }
}

impl<I: Mirror<Domain: Domain<Key: Numbered>>, H: Hooks<I>> MirroredSubject<I, H> {
    fn copy(&self) -> &I {
        match self {
            Self::Pair(pair) => pair.pair.device_index(),
            Self::Alone(subject) => subject.index(),
        }
    }
}

impl<I: Mirror<Domain: Domain<Key: Numbered>>, H: Hooks<I>> Subject for MirroredSubject<I, H> {
    type Key = KeyOf<I>;

    fn size(&self) -> u64 {
        self.copy().len()
    }

    fn pairs(&mut self) -> Result<Pairs<KeyOf<I>>> {
        let copied = host::pairs(self.copy())?;
        if let Self::Pair(Pair { pair, kept, .. }) = self {
            assert_eq!(host::pairs(pair.host_index())?, copied, "the host's index and its copy");
            if let Some((version, expected)) = kept {
                assert_eq!(&host::pairs(&**version)?, expected, "a version that was kept");
            }
        }
        Ok(copied)
    }

    fn apply(&mut self, change: Change, ops: &[Op<KeyOf<I>, u64>], form: Form) -> Result<Counts> {
        match self {
            Self::Pair(pair) => pair.apply(change, ops),
            Self::Alone(subject) => subject.apply(change, ops, form),
        }
    }

    fn ask(&self, question: &Question<KeyOf<I>>, form: Form) -> Option<Result<Answer<KeyOf<I>>>> {
        match self {
            Self::Pair(Pair { pair, hooks, stream, .. }) => ask(&**pair.device_index(), hooks, stream, question, form),
            Self::Alone(subject) => subject.ask(question, form),
        }
    }

    fn restore_order(&mut self) -> Result<()> {
        match self {
            Self::Pair(Pair { pair, in_order, .. }) => {
                pair.restore_order()?;
                *in_order = true;
                Ok(())
            }
            Self::Alone(subject) => subject.restore_order(),
        }
    }

    fn compact(&mut self) -> Result<()> {
        match self {
            Self::Pair(_) => Ok(()),
            Self::Alone(subject) => subject.compact(),
        }
    }

    /// At first somebody keeps the copy as it is; the next time the pair is taken apart, and the copy goes on. Then it comes to
    /// the host, and gets a copy itself.
    fn relocate(self) -> Result<Self> {
        Ok(match self {
            Self::Pair(pair) if pair.kept.is_none() => {
                let version = pair.pair.device_index().clone();
                let pairs = host::pairs(&*version)?;
                Self::Pair(Pair { kept: Some((version, pairs)), ..pair })
            }
            Self::Pair(Pair { pair, kept, .. }) => {
                drop(kept);
                let (_, copy) = pair.into_indexes();
                Self::Alone(OrderedSubject::of(Arc::into_inner(copy).expect("nobody else has it"), 0)?)
            }
            Self::Alone(subject) => {
                let device = subject.device().clone();
                let subject = subject.relocate()?;
                match subject.device().kind() {
                    DeviceKind::Host => Self::Pair(Pair::new(subject.into_index(), &device, 0)?),
                    _ => Self::Alone(subject),
                }
            }
        })
    }

    fn may_refuse(&self, error: &Error) -> bool {
        match self {
            Self::Pair(Pair { pair, hooks, in_order, .. }) => {
                matches!(error, Error::NotCompact { .. }) && !in_order || hooks.may_refuse(pair.device_index(), error)
            }
            Self::Alone(subject) => subject.may_refuse(error),
        }
    }

    fn device(&self) -> &Device {
        self.copy().device()
    }

    fn settle(&mut self) -> Result<bool> {
        let Self::Pair(Pair { pair, .. }) = self else { return Ok(false) };
        // In sync: the batch has failed on the host, and neither has it.
        let changed = !pair.is_in_sync();
        pair.synchronize()?;
        Ok(changed)
    }
}
