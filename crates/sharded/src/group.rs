//! Indexes on several devices that change together: all of them, or none.

use crate::route::MAX_SHARDS;
use core::fmt;
use lanetree_frame::fixed::{Query, bits};
use lanetree_frame::parallel::*;
use lanetree_frame::room::with_room;
use lanetree_frame::{
    AnyKey, Buffer, Device, DeviceKind, Error, Guarded, HostBatch, Launches, Op, OrderedIndex, Result, UpdatePath,
    UpdateReport, Word,
};
use lanetree_simt::GetBatch;
use std::borrow::Cow;

#[cfg(feature = "lane-tree")]
mod gate;

/// Indexes that change together. Each is called on a thread of its own, at the same time as the others.
pub(crate) struct Group<I> {
    members: Guarded<Vec<I>>,
    is_lost: fn(&I) -> bool,
}

/// The undo of a change of some keys in one member.
pub(crate) enum Undo<K, V> {
    Ops(Vec<Op<K, V>>),
    /// Turned into operations only if a change fails, since that takes a copy to the host.
    OnDevice(Box<OnDevice<V>>),
}

/// The values of keys, and a bit per key: whether it has one.
pub(crate) struct OnDevice<V> {
    values: Buffer<V>,
    hits: Buffer<u32>,
}

impl<V: Word> OnDevice<V> {
    /// The values that an index has now, for keys on its device. Waits for them.
    ///
    /// # Errors
    /// Those of a look-up.
    fn of<K: AnyKey>(launches: &dyn Launches<K, V>, keys: &Buffer<K>) -> Result<Self> {
        let device = keys.device();
        let stream = device.stream()?;
        let (mut values, mut hits) = (device.alloc(keys.len())?, device.alloc(keys.len().div_ceil(32))?);
        let found = (values.write_on(&stream)?, hits.write_on(&stream)?);
        // SAFETY: the buffers are of these lengths, and their pointers for the stream.
        unsafe {
            let (queries, count) = (bits::<K>(&stream, keys)?, keys.len() as u64);
            let batch = GetBatch { queries, count, values: found.0, hits: found.1, miss: V::MIN };
            launches.launch(&stream, false, &Query::Get(batch))?;
        }
        stream.synchronize()?;
        Ok(Self { values, hits })
    }

    /// The operations that restore these values of the same keys.
    ///
    /// # Errors
    /// [`Error::Runtime`], also if main memory has no room for them.
    fn ops<K: AnyKey>(&self, keys: &[K]) -> Result<Vec<Op<K, V>>> {
        let (values, hits) = (self.values.to_vec()?, self.hits.to_vec()?);
        let back = |at: usize| match hits[at / 32] >> (at % 32) & 1 {
            0 => Op::Remove(keys[at]),
            _ => Op::Insert(keys[at], values[at]),
        };
        (0..keys.len()).into_par_iter().map(back).try_collect()
    }
}

impl<K: AnyKey, V: Word> Undo<K, V> {
    /// The operations, for the same keys.
    ///
    /// # Errors
    /// [`Error::Runtime`], also if main memory has no room for them.
    pub(crate) fn ops(&self, keys: &[K]) -> Result<Cow<'_, [Op<K, V>]>> {
        Ok(match self {
            Self::Ops(ops) => Cow::Borrowed(ops),
            Self::OnDevice(found) => Cow::Owned(found.ops(keys)?),
        })
    }
}

impl<I: Send + Sync> Group<I> {
    /// Builds one member on each device.
    ///
    /// # Errors
    /// [`Error::OptionValue`] for no devices, and for too many; those of `build`.
    pub(crate) fn build(
        devices: &[Device],
        is_lost: fn(&I) -> bool,
        build: impl Fn(usize, &Device) -> Result<I> + Sync,
    ) -> Result<Self> {
        check_devices(devices)?;
        let build = |(member, device): (usize, &Device)| build(member, device);
        Ok(Self::new(devices.par_iter().enumerate().try_map_collect(build)?, is_lost))
    }

    /// A group of these members.
    pub(crate) fn new(members: Vec<I>, is_lost: fn(&I) -> bool) -> Self {
        Self { members: Guarded::new(members), is_lost }
    }

    /// The members.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn get(&self) -> Result<&[I]> {
        self.members.get().map(Vec::as_slice)
    }

    /// The members, for calls that leave their pairs as they are.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn get_mut(&mut self) -> Result<&mut [I]> {
        self.members.get_mut().map(Vec::as_mut_slice)
    }

    /// The members, lost or not.
    pub(crate) fn known(&self) -> &[I] {
        self.members.known()
    }

    /// Whether the contents of any member are unknown.
    pub(crate) fn is_lost(&self) -> bool {
        self.members.check().is_err()
    }

    /// Calls all members at the same time.
    ///
    /// # Errors
    /// [`Error::Lost`]; that of the first member that fails.
    pub(crate) fn ask<T: Send>(&self, call: impl Fn(usize, &I) -> Result<T> + Sync) -> Result<Vec<T>> {
        self.get()?.par_iter().enumerate().try_map_collect(|(number, member)| call(number, member))
    }

    /// Applies each member's part of a change. If a member fails and is not lost, it is unchanged, and the others undo theirs.
    ///
    /// # Errors
    /// That of the first member that fails: all are unchanged. [`Error::Lost`] if a member is lost, or fails again as it undoes its
    /// part.
    pub(crate) fn change<T: Send>(
        &mut self,
        apply: impl Fn(usize, &mut I) -> Result<T> + Sync,
        undo: impl Fn(usize, &mut I) -> Result<()> + Sync,
    ) -> Result<Vec<T>> {
        // The outer result: whether the members' contents are known afterwards. The inner one: the batch's result.
        let is_lost = self.is_lost;
        self.members.change(|members| {
            let each = members.par_iter_mut().enumerate();
            let done: Vec<Result<T>> = each.map(|(number, member)| apply(number, member)).collect();
            conclude(members, done, is_lost, undo)
        })?
    }

    /// Calls all members at the same time, for work that leaves their pairs as they are.
    ///
    /// # Errors
    /// [`Error::Lost`]; that of the first member that fails. The others have done the work.
    pub(crate) fn tidy<T: Send>(&mut self, tidy: impl Fn(&mut I) -> Result<T> + Sync) -> Result<Vec<T>> {
        let is_lost = self.is_lost;
        self.members.change(|members| {
            let done: Vec<Result<T>> = members.par_iter_mut().map(tidy).collect();
            let done = done.into_iter().collect();
            if members.iter().any(is_lost) { Result::map(done, Ok) } else { Ok(done) }
        })?
    }

    /// The members' elements, one member's after another. If the group is lost or an element is an error, it ends with that error.
    pub(crate) fn iter<'i, T, E>(&'i self, elements: impl FnMut(&'i I) -> E + 'i) -> impl Iterator<Item = Result<T>>
    where
        E: Iterator<Item = Result<T>> + 'i,
        T: 'i,
    {
        let (members, error) = match self.get() {
            Ok(members) => (members, None),
            Err(error) => (&[][..], Some(Err(error))),
        };
        let mut failed = false;
        let elements = error.into_iter().chain(members.iter().flat_map(elements));
        elements.take_while(move |element| !core::mem::replace(&mut failed, element.is_err()))
    }
}

/// Undoes a change if a member has failed and none is lost.
fn conclude<I: Send + Sync, T: Send>(
    members: &mut [I],
    done: Vec<Result<T>>,
    is_lost: fn(&I) -> bool,
    undo: impl Fn(usize, &mut I) -> Result<()> + Sync,
) -> Result<Result<Vec<T>>> {
    let is_done: Vec<bool> = done.iter().map(Result::is_ok).collect();
    let is_lost = members.iter().any(is_lost);
    let error = match done.into_iter().collect::<Result<Vec<_>>>() {
        Ok(reports) => return Ok(Ok(reports)),
        Err(error) => error,
    };
    if is_lost {
        return Err(error);
    }
    let undo = |(number, member): (usize, &mut I)| if is_done[number] { undo(number, member) } else { Ok(()) };
    let undone: Vec<Result<()>> = members.par_iter_mut().enumerate().map(undo).collect();
    match undone.into_iter().collect::<Result<()>>() {
        Ok(()) => Ok(Err(error)),
        Err(second) => Err(Error::Lost { reason: format!("{error}; and, as that was undone elsewhere: {second}") }),
    }
}

impl<I: fmt::Debug> fmt::Debug for Group<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members.known()).finish()
    }
}

/// # Errors
/// [`Error::OptionValue`].
pub(crate) fn check_devices(devices: &[Device]) -> Result<()> {
    let count = devices.len();
    match count {
        1..=MAX_SHARDS => Ok(()),
        _ => Err(Error::OptionValue { what: "a number of devices", value: count.to_string(), allowed: "1 to 64" }),
    }
}

/// Applies a batch to an index.
///
/// # Errors
/// Those of the index.
pub(crate) fn apply<K: AnyKey, I: OrderedIndex<Domain = K>>(
    index: &mut I,
    batch: &HostBatch<'_, I>,
) -> Result<UpdateReport> {
    match *batch {
        HostBatch::Apply(ops) => index.apply(ops),
        HostBatch::Insert(keys, values) => index.insert_many(keys, values),
        HostBatch::Update(keys, values) => index.update_many(keys, values),
        HostBatch::Remove(keys) => index.remove_many(keys),
    }
}

/// The keys of a batch.
///
/// # Errors
/// [`Error::Runtime`] if main memory has no room for them.
pub(crate) fn keys_of<'a, K: AnyKey, I: OrderedIndex<Domain = K>>(batch: &HostBatch<'a, I>) -> Result<Cow<'a, [K]>> {
    Ok(match *batch {
        HostBatch::Apply(ops) => Cow::Owned(ops.par_iter().map(|op| *op.key()).try_collect()?),
        HostBatch::Insert(keys, _) | HostBatch::Update(keys, _) | HostBatch::Remove(keys) => Cow::Borrowed(keys),
    })
}

/// The undo of a change of keys: restores their present state in an index.
///
/// # Errors
/// Those of a look-up.
pub(crate) fn undo<K: AnyKey, I: OrderedIndex<Domain = K>>(index: &I, keys: &[K]) -> Result<Undo<K, I::Value>> {
    if keys.is_empty() {
        return Ok(Undo::Ops(with_room(0)?));
    }
    let device = index.device();
    if let Some(launches) = index.launches().filter(|_| device.kind() != DeviceKind::Host) {
        return Ok(Undo::OnDevice(Box::new(OnDevice::of(launches, &device.upload(keys)?)?)));
    }
    let back = |(key, value): (&K, Option<I::Value>)| value.map_or(Op::Remove(*key), |value| Op::Insert(*key, value));
    Ok(Undo::Ops(keys.par_iter().zip(index.get_many(keys)?).map(back).try_collect()?))
}

/// The report of all parts of a batch; its path is that of the part with the most work.
pub(crate) fn sum(reports: &[UpdateReport]) -> UpdateReport {
    let work = |path: &UpdatePath| match path {
        UpdatePath::Unchanged => 0,
        UpdatePath::InPlace => 1,
        UpdatePath::Moved => 2,
        UpdatePath::Rebuilt => 3,
    };
    let path = reports.iter().map(|report| report.path).max_by_key(work).unwrap_or(UpdatePath::Unchanged);
    reports.iter().fold(UpdateReport { path, ..UpdateReport::default() }, UpdateReport::plus)
}
