//! An index on the host that takes the changes, and its copy on a device that answers queries.

use crate::{BatchOf, KeyOf, OrderedIndex};
use lanetree_base::parcel::Sender;
use lanetree_base::{Error, Op, Result, UpdatePath, UpdateReport};
use lanetree_runtime::{Device, DeviceKind};
use std::sync::Arc;

/// An index on the host, which takes changes, and its copy on a device, which answers queries.
///
/// Between batches both hold the same pairs. Readers of the copy see it as it was before a batch or after it. A reader
/// that keeps a clone of [`Mirrored::device_index`] keeps that version, and the next batch goes into memory of its own. If
/// there is no clone, the batch waits for the device's work in flight and overwrites what has changed.
///
/// It is made of any index that is [`Mirror`], Harmonia and CuART among them.
///
/// ```
/// use lanetree::{Device, Harmonia, Mirrored, Op};
///
/// # fn main() -> lanetree::Result<()> {
/// let tree = Harmonia::build(&Device::host(), &[1_u64, 2, 3], &[10_u32, 20, 30])?;
/// let mut mirrored = Mirrored::new(tree, &Device::emulated())?;
/// let before = mirrored.device_index().clone();
/// mirrored.apply(&[Op::Remove(2), Op::Insert(4, 40)])?;
/// assert_eq!(mirrored.device_index().get_many(&[2, 4])?, [None, Some(40)]);
/// assert_eq!(before.get_many(&[2, 4])?, [Some(20), None]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Mirrored<I> {
    host: I,
    copy: Arc<I>,
    in_sync: bool,
    sender: Sender,
}

/// What a batch did to both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MirrorReport {
    /// What it did to the pairs.
    pub update: UpdateReport,
    /// Bytes sent to the device, the numbers of nodes and leaves among them.
    pub bytes_sent: u64,
}

/// An index of which [`Mirrored`] can keep a copy: it knows what a batch writes, and sends that.
pub trait Mirror: OrderedIndex {
    /// What a batch has written in an index on the host.
    type Written;

    /// A copy on a device, complete on return.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room; [`Error::Lost`].
    fn to_device(&self, device: &Device) -> Result<Self>;

    /// Changes the index, which is on the host.
    ///
    /// # Errors
    /// As [`OrderedIndex::apply`] and [`OrderedIndex::insert_many`]; nothing has changed then.
    fn change(&mut self, batch: HostBatch<'_, Self>) -> Result<(UpdateReport, Self::Written)>;

    /// Sends a copy what a batch of the path [`UpdatePath::InPlace`] has written; how many bytes that were. Nobody uses
    /// the copy.
    ///
    /// # Errors
    /// [`Error::Runtime`]: the copy is as it was or [lost](Error::Lost).
    fn send(&self, copy: &mut Self, written: Self::Written, sender: &mut Sender) -> Result<u64>;

    /// Sends a copy, which may be lost, all that the index has. Nobody uses the copy.
    ///
    /// # Errors
    /// [`Error::Runtime`]: the copy is as it was or [lost](Error::Lost).
    fn send_all(&self, copy: &mut Self) -> Result<()>;

    /// Another copy, made of this one within its device and complete on return; `None` where that can't be: the host then
    /// sends all it has.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room; [`Error::Lost`].
    fn duplicate(&self) -> Result<Option<Self>> {
        Ok(None)
    }
}

/// A batch of changes: slices of an [`OrderedIndex`]'s calls of these names.
#[derive(Debug)]
pub enum HostBatch<'a, I: OrderedIndex> {
    /// [`OrderedIndex::apply`]
    Apply(&'a [Op<KeyOf<I>, I::Value>]),
    /// [`OrderedIndex::insert_many`]
    Insert(BatchOf<'a, I>, &'a [I::Value]),
    /// [`OrderedIndex::update_many`]
    Update(BatchOf<'a, I>, &'a [I::Value]),
    /// [`OrderedIndex::remove_many`]
    Remove(BatchOf<'a, I>),
}

impl<I: Mirror> Mirrored<I> {
    /// Copies an index of the host's to a device.
    ///
    /// # Errors
    /// [`Error::NotOnHost`] for an index that is not on the host; [`Error::Runtime`] if the device has no room.
    pub fn new(host: I, device: &Device) -> Result<Self> {
        if host.device().kind() != DeviceKind::Host {
            return Err(Error::NotOnHost { device: host.device().to_string() });
        }
        let copy = Arc::new(host.to_device(device)?);
        Ok(Self { host, copy, in_sync: true, sender: Sender::default() })
    }

    /// The index on the host.
    pub fn host_index(&self) -> &I {
        &self.host
    }

    /// The copy on the device. A clone of it stays as it is, whatever batches come.
    pub fn device_index(&self) -> &Arc<I> {
        &self.copy
    }

    /// Whether the copy equals the host's index: always, except after an error of the device until the next
    /// [`Mirrored::synchronize`] or batch. Until then the copy either holds the state before the batch, or is [lost](Error::Lost).
    pub fn is_in_sync(&self) -> bool {
        self.in_sync
    }

    /// Applies a batch to the host's index, as [`OrderedIndex::apply`] does, and sends the device what has changed: all if
    /// the index was rebuilt or its parts have moved. Returns when the device has everything.
    ///
    /// If everything is sent, or a clone keeps the device's old copy, the device holds both for a while.
    ///
    /// # Errors
    /// As [`OrderedIndex::apply`]; neither index has changed then. [`Error::Runtime`] from the device: the host's index has
    /// the batch then, and the copy is [out of sync](Mirrored::is_in_sync). [`Mirrored::synchronize`] or the next batch
    /// sends it again.
    pub fn apply(&mut self, ops: &[Op<KeyOf<I>, I::Value>]) -> Result<MirrorReport> {
        self.change(HostBatch::Apply(ops))
    }

    /// Inserts pairs into the host's index, or replaces values, and then brings the device's copy in sync
    /// ([`OrderedIndex::insert_many`]). Returns when both are done.
    ///
    /// # Errors
    /// As [`Mirrored::apply`], and [`Error::LengthMismatch`].
    pub fn insert_many<'a>(&mut self, keys: BatchOf<'a, I>, values: &'a [I::Value]) -> Result<MirrorReport> {
        self.change(HostBatch::Insert(keys, values))
    }

    /// Replaces the values of the keys that are present in the host's index, and then brings the device's copy in sync
    /// ([`OrderedIndex::update_many`]). Returns when both are done.
    ///
    /// # Errors
    /// As [`Mirrored::apply`], and [`Error::LengthMismatch`].
    pub fn update_many<'a>(&mut self, keys: BatchOf<'a, I>, values: &'a [I::Value]) -> Result<MirrorReport> {
        self.change(HostBatch::Update(keys, values))
    }

    /// Removes the keys that are present from the host's index, and then brings the device's copy in sync
    /// ([`OrderedIndex::remove_many`]). Returns when both are done.
    ///
    /// # Errors
    /// As [`Mirrored::apply`].
    pub fn remove_many(&mut self, keys: BatchOf<'_, I>) -> Result<MirrorReport> {
        self.change(HostBatch::Remove(keys))
    }

    /// [`OrderedIndex::restore_order`] of the host's index, which is then sent whole if it was out of order; returns the
    /// bytes sent.
    ///
    /// # Errors
    /// As [`Mirrored::apply`].
    pub fn restore_order(&mut self) -> Result<u64> {
        if self.host.restore_order()? {
            self.in_sync = false;
        }
        self.synchronize()
    }

    /// Sends everything to the device if the copy is out of sync; returns the bytes sent.
    ///
    /// # Errors
    /// [`Error::Runtime`] from the device.
    pub fn synchronize(&mut self) -> Result<u64> {
        if self.in_sync { Ok(0) } else { self.send_all() }
    }

    /// Both: the host's index, and the copy, in sync or not.
    pub fn into_indexes(self) -> (I, Arc<I>) {
        (self.host, self.copy)
    }

    fn change(&mut self, batch: HostBatch<'_, I>) -> Result<MirrorReport> {
        let (update, written) = self.host.change(batch)?;
        let in_sync = core::mem::replace(&mut self.in_sync, false);
        let bytes_sent = match update.path {
            UpdatePath::Unchanged if in_sync => 0,
            UpdatePath::InPlace if in_sync => self.send(written)?,
            _ => self.send_all()?,
        };
        self.in_sync = true;
        Ok(MirrorReport { update, bytes_sent })
    }

    fn send(&mut self, written: I::Written) -> Result<u64> {
        if let Some(copy) = Arc::get_mut(&mut self.copy) {
            copy.device().synchronize()?;
            return self.host.send(copy, written, &mut self.sender);
        }
        let Some(mut copy) = self.copy.duplicate()? else { return self.send_all() };
        let sent = self.host.send(&mut copy, written, &mut self.sender)?;
        self.copy = Arc::new(copy);
        Ok(sent)
    }

    fn send_all(&mut self) -> Result<u64> {
        if let Some(copy) = Arc::get_mut(&mut self.copy) {
            copy.device().synchronize()?;
            self.host.send_all(copy)?;
        } else {
            self.copy = Arc::new(self.host.to_device(self.copy.device())?);
        }
        self.in_sync = true;
        Ok(self.copy.bytes())
    }
}
