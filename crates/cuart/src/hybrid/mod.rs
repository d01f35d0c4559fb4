//! The first of the paper's three ways to store long keys (section 3.2.3, figure 4): a device has the short keys, and
//! the CPU has the long ones.

mod change;
mod lookup;
mod ordered;
mod range;
mod split;
#[cfg(test)]
mod tests;

use super::build::first_that;
use super::update::paired;
use super::{Builder, Cuart, LongKeys, RootTable, Stats};
use core::fmt;
use core::marker::PhantomData;
use lanetree_frame::byte_keys::{ByteKeys, show};
use lanetree_frame::{Error, Result, parallel};
use lanetree_kernels_cuart::layout::MAX_FIXED;
use lanetree_layout::Word;
use lanetree_runtime::Device;
use split::{Part, parts};

/// A tree on a device with the short keys, and one on the host with the longer ones.
///
/// For a batch of look-ups, the device looks up the short keys and at the same time the CPU looks up the long ones.
/// This runs on rayon's threads, one of which drives the device (several for a large batch), while the calling thread
/// waits. If all keys are short, or all are long, the batch goes to that tree as it is. Ranges and neighbours are
/// queried in both trees at the same time, and merged. As in a [`Cuart`] on a device, these queries need a
/// [compact](Hybrid::compact) tree once short keys were inserted or removed.
///
/// A key's length alone decides which tree it is in, so batches of changes, in which the last one of equal keys wins,
/// can be split too. The host plans its part and reserves all memory for it; then the device changes its tree; last the
/// host changes its own, which can no longer fail. So a batch that one of them cannot apply changes neither. If the
/// device's tree is [lost](Cuart::is_lost), so is the pair, and every call says so.
///
/// This way needs no device memory for long keys, and the bus does not carry them. But queries with long keys are only
/// as fast as the CPU. [`LongKeys`] has the two other ways.
///
/// ```
/// use lanetree::cuart::Hybrid;
/// use lanetree::{ByteKeysBuf, Device, Op};
///
/// # fn main() -> lanetree::Result<()> {
/// let paths: ByteKeysBuf = ["/etc", "/usr/share/dict/american-english-huge", "/usr/share"].into_iter().collect();
/// let mut tree = Hybrid::build(&Device::emulated(), &paths, &[1_u32, 2, 3])?;
/// assert_eq!((tree.device_tree().len(), tree.host_tree().len()), (2, 1));
/// assert_eq!(tree.get_many(&paths)?, [Some(1), Some(2), Some(3)]);
///
/// let below: ByteKeysBuf = ["/usr"].into_iter().collect();
/// assert_eq!(tree.prefix_many(&below)?.values, [3, 2]);
/// tree.apply(&[Op::Remove("/usr/share"), Op::Insert("/usr/share/dict/american-english-small", 4)])?;
/// assert_eq!(tree.len(), 3);
/// # Ok(())
/// # }
/// ```
pub struct Hybrid<V: Word> {
    device: Cuart<V>,
    host: Cuart<V>,
    max: usize,
}

/// The sizes and shapes of a [`Hybrid`]'s trees.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct HybridStats {
    /// Of the tree with the short keys, on the device.
    pub device: Stats,
    /// Of the tree with the long ones, in main memory.
    pub host: Stats,
}

/// Options of a [`Hybrid`], and its bulk build.
///
/// ```
/// use lanetree::cuart::Hybrid;
/// use lanetree::{ByteKeysBuf, Device};
///
/// # fn main() -> lanetree::Result<()> {
/// let words: ByteKeysBuf = ["aardvark", "antelope", "ant", "anteater-like"].into_iter().collect();
/// let tree = Hybrid::builder().max_device_key(8).build(&Device::host(), &words, &[1_u64, 2, 3, 4])?;
/// let stats = tree.stats();
/// assert_eq!((stats.device.len, stats.host.len), (3, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct HybridBuilder<V> {
    max: usize,
    table: RootTable,
    values: PhantomData<V>,
}

impl<V> Default for HybridBuilder<V> {
    fn default() -> Self {
        Self { max: MAX_FIXED, table: RootTable::default(), values: PhantomData }
    }
}

impl<V: Word> HybridBuilder<V> {
    /// The bytes of the longest keys on the device, from 1 to 32; 32 by default.
    #[must_use]
    pub fn max_device_key(self, bytes: usize) -> Self {
        Self { max: bytes, ..self }
    }

    /// Whether look-ups on the device start at a table; [`RootTable::Auto`] by default, and always on the host.
    #[must_use]
    pub fn root_table(self, table: RootTable) -> Self {
        Self { table, ..self }
    }

    /// Builds both trees over pairs in any order. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// [`Error::MaxDeviceKey`]; [`Error::LengthMismatch`]; [`Error::KeyTooLong`] for a key of more than 2^32 - 1 bytes;
    /// [`Error::Runtime`] if there is no room.
    pub fn build<'k>(&self, device: &Device, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<Hybrid<V>> {
        if !(1..=MAX_FIXED).contains(&self.max) {
            return Err(Error::MaxDeviceKey { bytes: self.max });
        }
        let keys = paired(keys.into(), values)?;
        let on_device = Cuart::builder().root_table(self.table).long_keys(LongKeys::Refuse);
        let on_host = Cuart::builder().long_keys(LongKeys::DeviceLeaves);
        on_host.check_keys(keys, |_| true)?;
        let [short, long] = parts(keys, self.max)?;
        let build = |builder: Builder<V>, device: &Device, part: &Part<'_>| {
            builder.build(device, part.keys(), &part.values(values)?)
        };
        let (device, host) =
            concurrently(|| build(on_device, device, &short), || build(on_host, &Device::host(), &long));
        Ok(Hybrid { device: device?, host: host?, max: self.max })
    }

    /// Builds both trees over pairs in ascending order of their keys. Of equal keys, which must be next to each other,
    /// the last one's value is kept.
    ///
    /// # Errors
    /// As [`HybridBuilder::build`], and [`Error::NotSorted`] with the first key that is below the one before.
    pub fn build_sorted<'k>(&self, device: &Device, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<Hybrid<V>> {
        let keys = keys.into();
        if let Some(index) = first_that(keys, |before, key| before > key) {
            return Err(Error::NotSorted { index, previous: show(keys.at(index - 1)), key: show(keys.at(index)) });
        }
        self.build(device, keys, values)
    }
}

impl<V: Word> Hybrid<V> {
    /// A builder with the default options, to change them before a build.
    pub fn builder() -> HybridBuilder<V> {
        HybridBuilder::default()
    }

    /// Builds both trees over pairs in any order: keys of up to 32 bytes go to the device. Of equal keys, the last
    /// one's value is kept.
    ///
    /// # Errors
    /// As [`HybridBuilder::build`].
    pub fn build<'k>(device: &Device, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<Self> {
        Self::builder().build(device, keys, values)
    }

    /// Pairs in both trees.
    pub fn len(&self) -> u64 {
        self.device.len() + self.host.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the longest keys on the device.
    pub fn max_device_key(&self) -> usize {
        self.max
    }

    /// The device that has the short keys.
    pub fn device(&self) -> &Device {
        self.device.device()
    }

    /// The tree with the short keys, on the device.
    pub fn device_tree(&self) -> &Cuart<V> {
        &self.device
    }

    /// The tree with the long keys, on the host.
    pub fn host_tree(&self) -> &Cuart<V> {
        &self.host
    }

    /// The sizes and shapes of both trees.
    pub fn stats(&self) -> HybridStats {
        HybridStats { device: self.device.stats(), host: self.host.stats() }
    }

    /// Bytes of the device's memory that the tree with the short keys takes.
    pub fn bytes(&self) -> u64 {
        self.device.bytes()
    }

    /// Bytes of main memory that the index takes, in addition to its device memory: the tree with the long keys.
    pub fn host_bytes(&self) -> u64 {
        self.device.host_bytes() + self.host.bytes() + self.host.host_bytes()
    }

    /// Whether a change failed half-way on the device: then every call of the pair returns [`Error::Lost`].
    pub fn is_lost(&self) -> bool {
        self.device.is_lost()
    }

    /// Whether both trees are [compact](Cuart::is_compact).
    pub fn is_compact(&self) -> bool {
        self.device.is_compact() && self.host.is_compact()
    }

    /// Compacts both trees ([`Cuart::compact`]): ranks, ranges and neighbours need it after short keys were inserted or
    /// removed. Returns by how many bytes both trees have become smaller.
    ///
    /// # Errors
    /// [`Error::Runtime`] if there is no room: both trees have the same pairs as before. [`Error::Lost`].
    pub fn compact(&mut self) -> Result<u64> {
        self.check()?;
        let (device, host) = (&mut self.device, &mut self.host);
        let (device, host) = concurrently(|| device.compact(), || host.compact());
        Ok(device? + host?)
    }
}

impl<V: Word> Hybrid<V> {
    /// # Errors
    /// [`Error::Lost`]: if half of a batch is lost, the long keys' part is not answered either.
    fn check(&self) -> Result<()> {
        self.device.parts.check()
    }

    /// Both trees, that with the short keys first.
    ///
    /// # Errors
    /// As [`Hybrid::check`].
    fn trees(&self) -> Result<(&Cuart<V>, &Cuart<V>)> {
        self.check()?;
        Ok((&self.device, &self.host))
    }
}

/// Runs both functions at the same time, on rayon's threads.
///
/// The device's part starts first, on a thread that has no other work. If the calling thread started it, and it is
/// spread over several threads, these would first do all of the host's part: rayon's threads take work from each other
/// before they take work from outside.
fn concurrently<A: Send, B: Send>(on_device: impl FnOnce() -> A + Send, on_host: impl FnOnce() -> B + Send) -> (A, B) {
    parallel::join(on_device, on_host)
}

impl<V: Word> fmt::Debug for Hybrid<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, host, max } = self;
        write!(f, "Hybrid[keys of up to {max} bytes: {device:?}, longer ones: {host:?}]")
    }
}
