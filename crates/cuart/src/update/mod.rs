//! Batches of inserts, updates and removals on the host (sections 3.3 and 3.4 of the paper).
//!
//! A batch is reduced to one change for each of its keys, in ascending order, and these keys are looked up together.
//! Then values are replaced in place, in parallel, and leaves are inserted and removed, one after another. A removal
//! clears the leaf and its links and frees it, but leaves the nodes on its path as they are, unless no leaf is left
//! below. An insertion adds a child to a node, which becomes one of the next larger type if it is full, or puts a node
//! of two children where a path splits. All memory that this may need is allocated before the first change. A batch of
//! more keys than the tree has rebuilds the tree instead.

mod batch;
mod edit;
mod grow;
mod insert;
mod path;
mod rebuild;
mod remove;
mod reserve;
#[cfg(test)]
mod tests;
mod values;

pub(super) use batch::NetBatch;
pub(super) use edit::WrittenElements;

use super::native::TASK;
use super::parts::Parts;
use super::{Builder, Cuart, LongKeys};
use batch::{Work, distinct};
use edit::Edit;
use lanetree_frame::NetChange;
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf};
use lanetree_frame::parallel::*;
use lanetree_frame::room::with_room;
use lanetree_frame::{Error, Result};
use lanetree_frame::{Op, UpdatePath, UpdateReport};
use lanetree_kernels_cuart::layout::Link;
use lanetree_layout::Word;
use lanetree_runtime::DeviceKind;

impl<V: Word> Cuart<V> {
    /// Applies a batch of operations, as if one after another in the batch's order.
    ///
    /// If keys are inserted or removed, the tree is no longer [compact](Cuart::is_compact): ranges and neighbours are
    /// then found by walking, and ranks are not available, until [`Cuart::compact`] rebuilds it. A large batch that
    /// adds more keys than the tree has also rebuilds it ([`UpdatePath::Rebuilt`]).
    ///
    /// ```
    /// use lanetree::{ByteKeysBuf, Cuart, Device, Op};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let words: ByteKeysBuf = ["car", "cart", "dog"].into_iter().collect();
    /// let mut tree = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3])?;
    /// let ops = [Op::Remove("car"), Op::Insert("cargo", 4), Op::Update("cargo", 5), Op::Update("cow", 6)];
    /// let report = tree.apply(&ops)?;
    /// assert_eq!((report.inserted, report.removed, report.unmatched), (1, 1, 1));
    /// let words: ByteKeysBuf = ["car", "cargo", "cow"].into_iter().collect();
    /// assert_eq!(tree.get_many(&words)?, [None, Some(5), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyTooLong`] for a key to insert of more than 2^32 - 1 bytes, or of more than 32 with
    /// [`LongKeys::Refuse`]; [`Error::LeavesInMainMemory`] for a tree on a device that has some; [`Error::Runtime`] if
    /// there is no room: the tree is unchanged. [`Error::Lost`] if a device failed while it wrote the tree, for example
    /// for lack of memory in the rebuild that [`Cuart::insert_on`] describes.
    pub fn apply<K: AsRef<[u8]>>(&mut self, ops: &[Op<K, V>]) -> Result<UpdateReport> {
        let (keys, change) = of_ops(ops)?;
        self.apply_each((&keys).into(), change, None)
    }

    /// Inserts pairs; if a key is present, its value is replaced. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Cuart::apply`], and [`Error::LengthMismatch`].
    pub fn insert_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<UpdateReport> {
        let keys = paired(keys.into(), values)?;
        self.apply_each(keys, |i| NetChange::Put(values[i]), None)
    }

    /// Replaces the values of the keys that are present. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::Runtime`] if main memory has no room; on a device as [`Cuart::apply`].
    pub fn update_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<UpdateReport> {
        let keys = paired(keys.into(), values)?;
        if self.device.kind() != DeviceKind::Host {
            return self.change_across(&NetBatch::new(keys, |i| NetChange::PutIfPresent(values[i]))?);
        }
        self.update_each(keys, values, None)
    }

    /// Removes the keys in `keys` that are present, with their values. Returns when it is done.
    ///
    /// # Errors
    /// [`Error::Runtime`] if there is no room for the free lists: the tree is unchanged. On a device as
    /// [`Cuart::apply`].
    pub fn remove_many<'k>(&mut self, keys: impl Into<ByteKeys<'k>>) -> Result<UpdateReport> {
        self.apply_each(keys.into(), |_| NetChange::Remove, None)
    }

    /// As [`Cuart::apply`], and notes what it writes.
    pub(super) fn apply_each(
        &mut self,
        keys: ByteKeys<'_>,
        change: impl Fn(usize) -> NetChange<V> + Sync,
        changes: Option<&mut WrittenElements>,
    ) -> Result<UpdateReport> {
        self.parts.check()?;
        self.options.check_keys(keys, |i| matches!(change(i), NetChange::Put(_)))?;
        let batch = NetBatch::new(keys, change)?;
        if self.device.kind() != DeviceKind::Host {
            return self.change_across(&batch);
        }
        self.apply_in_memory(&batch, changes)
    }

    /// Applies a batch to a tree whose buffers the CPU can reach, and notes what it writes.
    pub(super) fn apply_in_memory(
        &mut self,
        batch: &NetBatch<'_, V>,
        changes: Option<&mut WrittenElements>,
    ) -> Result<UpdateReport> {
        let planned = self.plan_in_memory(batch)?;
        self.carry_out_in_memory(batch, planned, changes)
    }

    /// Determines the effect of a batch on a tree whose buffers the CPU can reach, and makes room for it.
    ///
    /// # Errors
    /// [`Error::Runtime`] if there is no room: the tree is unchanged.
    pub(super) fn plan_in_memory(&mut self, batch: &NetBatch<'_, V>) -> Result<Planned> {
        Planned::new(self.parts.get_mut()?, &self.options, batch)
    }

    /// Carries out what was planned.
    ///
    /// # Errors
    /// [`Error::Lost`] alone, which a tree on the host never is.
    pub(super) fn carry_out_in_memory(
        &mut self,
        batch: &NetBatch<'_, V>,
        planned: Planned,
        changes: Option<&mut WrittenElements>,
    ) -> Result<UpdateReport> {
        let long_keys = self.options.long();
        self.parts.change(|tree| Ok(planned.carry_out(tree, long_keys, batch, changes)))
    }

    /// As [`Cuart::update_many`], and notes what it writes.
    pub(super) fn update_each(
        &mut self,
        keys: ByteKeys<'_>,
        values: &[V],
        changes: Option<&mut WrittenElements>,
    ) -> Result<UpdateReport> {
        let leaves = self.parts()?.find_many(keys)?;
        // By leaf rather than by key: numbers are sorted faster than strings.
        let hit = |(index, &leaf): (usize, &Link)| (!leaf.is_none()).then_some((leaf, index));
        let mut hits = leaves.par_iter().enumerate().filter_map_collect(hit)?;
        // Operations on the same leaf stay in their order.
        sort_by_word(&mut hits, |hit| hit.0.bits())?;
        let is_last = |i: usize| hits.get(i + 1).is_none_or(|next| next.0 != hits[i].0);
        let write = |i: usize| is_last(i).then(|| (hits[i].0, values[hits[i].1].widen()));
        let writes = (0..hits.len()).into_par_iter().filter_map_collect(write)?;
        let misses = (0..keys.len()).into_par_iter().filter_collect(|&index| leaves[index].is_none())?;
        let unmatched = distinct(keys, &misses)?;
        let long_keys = self.options.long();
        self.parts.change(|tree| {
            Edit::new(tree, long_keys, changes).set_values(&writes);
            Ok(())
        })?;
        Ok(UpdateReport {
            replaced: writes.len() as u64,
            unmatched,
            path: if writes.is_empty() { UpdatePath::Unchanged } else { UpdatePath::InPlace },
            ..UpdateReport::default()
        })
    }
}

/// The effect of a batch on a tree in main memory, with all memory that it needs: nothing can stop it half-way.
pub(super) struct Planned {
    work: Work,
    /// The tree with the batch, if it was rebuilt.
    rebuilt: Option<Parts>,
}

impl Planned {
    fn new<V: Word>(tree: &mut Parts, options: &Builder<V>, batch: &NetBatch<'_, V>) -> Result<Self> {
        let leaves = tree.find_many(batch.keys())?;
        let work = batch.against(&leaves)?;
        if tree.outgrows(&work) {
            let rebuilt = tree.rebuilt_with(options, batch, &leaves)?;
            return Ok(Self { work, rebuilt: Some(rebuilt) });
        }
        if work.is_structural() {
            tree.reserve(batch, &work, options.long())?;
        }
        Ok(Self { work, rebuilt: None })
    }

    fn carry_out<V: Word>(
        self,
        tree: &mut Parts,
        long_keys: LongKeys,
        batch: &NetBatch<'_, V>,
        changes: Option<&mut WrittenElements>,
    ) -> UpdateReport {
        let Self { work, rebuilt } = self;
        if let Some(rebuilt) = rebuilt {
            *tree = rebuilt;
            return UpdateReport { path: UpdatePath::Rebuilt, ..work.report() };
        }
        if work.is_structural() {
            tree.forget_order();
            tree.len = tree.len + work.inserts.len() as u64 - work.removals.len() as u64;
        }
        let mut edit = Edit::new(tree, long_keys, changes);
        edit.set_values(&work.writes);
        let mut path = Vec::new();
        // Removals first: inserts reuse what they free.
        for &(at, _) in &work.removals {
            edit.remove(batch.keys().at(at), &mut path);
        }
        for &(at, value) in &work.inserts {
            edit.insert(batch.keys().at(at), value, &mut path);
        }
        edit.finish();
        work.report()
    }
}

impl Parts {
    /// The leaves of keys; none if there is no such key.
    fn find_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Link>> {
        let tree = self.view();
        let mut leaves = filled(Link::NONE, keys.len())?;
        leaves.par_chunks_mut(TASK).enumerate().for_each(|(task, out)| {
            let first = task * TASK;
            tree.find(keys, first..first + out.len(), out);
        });
        Ok(leaves)
    }
}

/// Operations as packed keys, and what to do with each.
pub(super) fn of_ops<K: AsRef<[u8]>, V: Word>(
    ops: &[Op<K, V>],
) -> Result<(ByteKeysBuf, impl Fn(usize) -> NetChange<V> + Sync + use<K, V>)> {
    let mut changes = with_room(ops.len())?;
    let mut keys = ByteKeysBuf::new();
    for op in ops {
        let (key, change) = match op {
            Op::Insert(key, value) => (key, NetChange::Put(*value)),
            Op::Update(key, value) => (key, NetChange::PutIfPresent(*value)),
            Op::Remove(key) => (key, NetChange::Remove),
        };
        keys.try_push(key.as_ref())?;
        changes.push(change);
    }
    Ok((keys, move |i: usize| changes[i]))
}

/// # Errors
/// [`Error::LengthMismatch`].
pub(super) fn paired<'k, V>(keys: ByteKeys<'k>, values: &[V]) -> Result<ByteKeys<'k>> {
    match values.len() {
        len if len == keys.len() => Ok(keys),
        len => Err(Error::LengthMismatch { keys: keys.len(), values: len }),
    }
}
