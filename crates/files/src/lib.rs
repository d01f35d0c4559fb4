//! Indexes saved to files and loaded from them. `lanetree::files` is there with feature `files`, off by default.
//!
//! ```
//! use lanetree::files::{Load, Save};
//! use lanetree::{Device, LaneTree};
//!
//! fn main() -> lanetree::files::Result<()> {
//!     let path = std::env::temp_dir().join("pairs.lanetree");
//! #   let folder = tempfile::tempdir().expect("a folder");
//! #   let path = folder.path().join("index");
//!     let device = Device::host();
//!     let index = LaneTree::build(&device, &[10_u64, 20], &[1_u64, 2])?;
//!     index.save(&path)?;
//!     let index = LaneTree::<u64, u64>::builder().load(&device, &path)?;
//!     assert_eq!(index.pairs()?, [(10, 1), (20, 2)]);
//!     Ok(())
//! }
//! ```
//!
//! The errors are [`Error`]; `?` makes it of an error of the library, not the other way round.
//!
//! A file has sorted pairs, not nodes, so it outlives layouts, and any index can load what another one has saved. The page
//! `docs/format.md` of the repository draws the format, and says what readers refuse.
//!
//! [`Save::save`] and [`Load::load`] are for indexes and sets, [`FromFile::load`] is for multi-maps. A [`Log`] keeps an index on
//! disk as it changes: a file of pairs, and the batches of operations since.
//!
//! Floats are stored as the words by which they are ordered. Composite keys are refused, since their names don't tell of what
//! they are composed.

#[cfg(target_endian = "big")]
compile_error!("files are little-endian, and written as they are in memory");

#[cfg(not(unix))]
compile_error!("files are written by the calls of Unix; leave out the feature `files` on other systems");

/// The guide's page, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/saving-and-loading.md")]
struct Guide;

mod disk;
mod error;
mod format;
#[cfg(feature = "hbtree")]
mod hbtree;
mod log;
#[cfg(feature = "multimap")]
mod multimap;
#[cfg(feature = "lane-tree")]
mod sets;
mod strings;
mod upload;

pub use error::{Error, Result, Section};
pub use format::ReadAt;
pub use log::{Compacted, Compaction, Durability, Log, Opened, Replay, Torn};
pub use strings::{read_strings, write_strings};

use disk::Replacement;
use error::io_error;
use format::{Header, MAGIC, Reader, SEVERAL, Writer, bytes_of, write};
use lanetree_frame::fixed::{FixedIndex, each_window};
use lanetree_frame::{AnyKey, Buffer, Device, Domain, IndexBuilder, KeyOf, OrderedIndex, Value};
use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

/// What is saved and loaded: for the compiler, which finds it by the type that [`Save`] or [`Load`] is called on.
pub mod of {
    /// An index over keys of a fixed size.
    #[derive(Debug)]
    pub enum Index {}
    /// A set of keys of a fixed size.
    #[derive(Debug)]
    pub enum Set {}
    /// A multi-map.
    #[derive(Debug)]
    pub enum MultiMap {}
    /// An index over byte strings.
    #[derive(Debug)]
    pub enum Strings {}
    /// An HB+-tree, whose leaves are in main memory.
    #[derive(Debug)]
    pub enum HbTree {}
}

/// Saves an index: for every index over keys of a fixed size, for `HbTree` (with the feature `hbtree`), for `LaneSet` (with the
/// feature `lane-tree`), for `MultiMap` (with the feature `multimap`), and for `Cuart` (with the feature `cuart`).
///
/// ```
/// use lanetree::files::{FromFile, Save};
/// use lanetree::{Device, LaneSet};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("set");
/// let set = LaneSet::build(&Device::host(), &[20_u64, 10])?;
/// set.save(&path)?;
/// assert_eq!(<LaneSet<u64> as FromFile>::load(&Device::host(), &path)?.len(), 2);
/// # Ok(())
/// # }
/// ```
pub trait Save<Of = of::Index> {
    /// Writes all pairs to `path`, replacing an existing file atomically. The file is written under another name in the same
    /// folder, synced, and renamed, so after a crash the path has the old file or the new one. Returns when the new one is on disk.
    /// Saves of one path at the same time wait for each other. Of a link, the file that it leads to is replaced. The new file has
    /// the mode of the old one, and its owner and group as far as the system lets this process set them.
    ///
    /// An index is saved window by window: on a device the next ones are gathered and copied while one is written. A multi-map
    /// and an index over byte strings take the memory of their pairs in main memory.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Composite`]; [`Error::Index`] for a lost index, or if there is no memory. The path has the old
    /// file, except where syncing the folder fails, which comes after the rename.
    fn save(&self, path: impl AsRef<Path>) -> Result<()>;
}

impl<I: FixedIndex> Save for I {
    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let header = Header::of::<I::Key, I::Value>(MAGIC, 0, self.len())?;
        self.check_not_lost()?;
        let mut file = Writer::begin(path.as_ref(), header)?;
        each_window(self, |keys, values| file.push([bytemuck::cast_slice(keys), bytes_of(values)]))?;
        file.finish()
    }
}

/// Loads an index: for the builder of every index over keys of a fixed size, of an `HbTree` (with the feature `hbtree`), of a
/// `LaneSet` (with the feature `lane-tree`), and of a `Cuart` (with the feature `cuart`).
///
/// ```
/// use lanetree::files::{Load, Save};
/// use lanetree::{Device, LaneTree};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("index");
/// LaneTree::build(&Device::host(), &[10_u64, 20], &[1_u32, 2])?.save(&path)?;
/// let index = LaneTree::<u64, u32>::builder().fill(0.7).load(&Device::host(), &path)?;
/// assert_eq!(index.get_many(&[20, 30])?, [Some(2), None]);
/// # Ok(())
/// # }
/// ```
pub trait Load<Of = of::Index> {
    /// The index.
    type Loaded;

    /// Builds an index on a device, with the builder's options, over the pairs of a file. Any index may have saved it.
    ///
    /// Takes device memory for the pairs, in addition to the index. For a GPU all threads read them, by a MiB each at a
    /// time, into pinned memory of at most 32 MiB, while others are copied. A source that is better read at once
    /// ([`ReadAt::reads_at_once`]) takes main memory for all pairs. An HB+-tree's pairs go from the file
    /// into its leaves, window by window, and take no other memory.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::Damaged`], [`Error::Unsupported`], [`Error::Types`] and
    /// [`Error::Several`] for what the file is not; [`Error::Index`] from the build.
    fn load(&self, device: &Device, path: impl AsRef<Path>) -> Result<Self::Loaded> {
        in_file(path, |file| self.load_from(device, file))
    }

    /// Builds an index on a device, with the builder's options, over the pairs of a file whose bytes `file` reads: on
    /// disk, in memory, or in an object store. Takes the same memory as [`Load::load`], and verifies the same
    /// checksums. Returns when the index is complete.
    ///
    /// # Errors
    /// As [`Load::load`].
    fn load_from(&self, device: &Device, file: &dyn ReadAt) -> Result<Self::Loaded>;
}

/// Loads an index that has no builder, or with the builder's default options: `LaneSet` (with the feature `lane-tree`) and
/// `MultiMap` (with the feature `multimap`), which loads files of indexes, too.
pub trait FromFile: Sized {
    /// Loads an index onto a device from the file at a path. Returns when it is complete. Takes the same memory as [`Load::load`].
    ///
    /// # Errors
    /// As [`Load::load`].
    fn load(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        in_file(path, |file| Self::load_from(device, file))
    }

    /// Loads an index onto a device from a file whose bytes `file` reads, wherever they are. Otherwise like [`FromFile::load`].
    ///
    /// # Errors
    /// As [`Load::load`].
    fn load_from(device: &Device, file: &dyn ReadAt) -> Result<Self>;
}

impl<B: IndexBuilder> Load for B
where
    B::Index: FixedIndex,
{
    type Loaded = B::Index;

    fn load_from(&self, device: &Device, file: &dyn ReadAt) -> Result<B::Index> {
        let pairs = reader_of::<<B::Index as FixedIndex>::Key, <B::Index as FixedIndex>::Value>(file)?;
        let mut buffers = (alloc(device, pairs.pairs())?, alloc(device, pairs.pairs())?);
        match (buffers.0.as_mut_slice(), buffers.1.as_mut_slice()) {
            (Some(keys), Some(values)) => pairs.read(keys, values)?,
            _ if pairs.reads_at_once() => {
                let (keys, values) = pairs.to_vecs()?;
                buffers = uploaded(device, &keys, &values)?;
            }
            _ => upload::pairs(&pairs, device, &mut buffers)?,
        }
        // SAFETY: the reader has checked the order, strictly.
        unsafe { build(self, device, buffers) }
    }
}

/// Pairs on a device.
type Buffers<K, V> = (Buffer<K>, Buffer<V>);

fn alloc<T: bytemuck::Pod>(device: &Device, len: usize) -> Result<Buffer<T>> {
    Ok(device.alloc(len).map_err(lanetree_frame::Error::from)?)
}

fn uploaded<K: AnyKey, V: Value>(device: &Device, keys: &[K], values: &[V]) -> Result<Buffers<K, V>> {
    let keys = device.upload(keys).map_err(lanetree_frame::Error::from)?;
    let values = device.upload(values).map_err(lanetree_frame::Error::from)?;
    Ok((keys, values))
}

/// Builds an index with a builder's options.
///
/// # Safety
/// Keys ascend strictly.
unsafe fn build<B: IndexBuilder>(
    builder: &B,
    device: &Device,
    (keys, values): Buffers<<B::Index as FixedIndex>::Key, <B::Index as FixedIndex>::Value>,
) -> Result<B::Index>
where
    B::Index: FixedIndex,
{
    let none = core::iter::empty::<KeyOf<B::Index>>().collect();
    let like = builder.build(device, <B::Index as OrderedIndex>::Domain::batch(&none), &[])?;
    let stream = device.stream().map_err(lanetree_frame::Error::from)?;
    // SAFETY: the caller's; what is in the buffers is complete.
    Ok(unsafe { like.build_like(&stream, (&keys, &values), keys.len()) }?)
}

/// Writes pairs to a file, as an index over them saves itself; otherwise like [`Save::save`].
///
/// ```
/// use lanetree::files::{read_pairs, types_of, write_pairs};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("pairs");
/// write_pairs(&path, &[10_u32, 20], &[1_u64, 2])?;
/// assert_eq!(types_of(&path)?, ["u32", "u64"]);
/// assert_eq!(read_pairs::<u32, u64>(&path)?, (vec![10, 20], vec![1, 2]));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`Save::save`]; [`Error::Index`] with [`NotSorted`](lanetree_frame::Error::NotSorted) or
/// [`NotDistinct`](lanetree_frame::Error::NotDistinct) unless the keys ascend strictly, and with
/// [`LengthMismatch`](lanetree_frame::Error::LengthMismatch) unless there is one value per key.
pub fn write_pairs<K: AnyKey, V: Value>(path: impl AsRef<Path>, keys: &[K], values: &[V]) -> Result<()> {
    prepare_pairs(keys, values, || Replacement::begin(path.as_ref()))?.commit().map(drop)
}

/// [`write_pairs`] to a file that is to be put in its place.
fn prepare_pairs<K: AnyKey, V: Value>(
    keys: &[K],
    values: &[V],
    begin: impl FnOnce() -> Result<Replacement>,
) -> Result<Replacement> {
    Contents { keys: keys.into(), values: values.into(), has_several: false, note: String::new() }.prepare(begin)
}

/// All that a file of pairs has.
///
/// ```
/// use lanetree::files::Contents;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("pairs");
/// let note = "ids by hour".to_owned();
/// Contents { keys: (&[10_u32, 10, 20]).into(), values: (&[1_u64, 2, 3]).into(), has_several: true, note }.write(&path)?;
/// let read = Contents::<u32, u64>::read(&path)?;
/// assert_eq!((&*read.keys, &*read.values), (&[10, 10, 20][..], &[1, 2, 3][..]));
/// assert_eq!((read.has_several, &*read.note), (true, "ids by hour"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Contents<'a, K: AnyKey, V: Value> {
    /// Keys in ascending order.
    pub keys: Cow<'a, [K]>,
    /// A value for each.
    pub values: Cow<'a, [V]>,
    /// Whether a key may occur several times: the file is a multi-map's.
    pub has_several: bool,
    /// Text of the program that writes the file, of at most 64 bytes. Indexes pass it by.
    pub note: String,
}

impl<K: AnyKey, V: Value> Contents<'_, K, V> {
    /// Writes them to a file, otherwise like [`Save::save`].
    ///
    /// # Errors
    /// As [`write_pairs`], where keys may be equal if they may occur several times; [`Error::NoteTooLong`].
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        self.prepare(|| Replacement::begin(path.as_ref()))?.commit().map(drop)
    }

    /// Checks them, begins a file and writes them to it. It is to be put in place.
    fn prepare(&self, begin: impl FnOnce() -> Result<Replacement>) -> Result<Replacement> {
        let (keys, values) = (&*self.keys, &*self.values);
        if keys.len() != values.len() {
            return Err(lanetree_frame::Error::LengthMismatch { keys: keys.len(), values: values.len() }.into());
        }
        let is_wrong = |pair: &[K]| pair[0] > pair[1] || !self.has_several && pair[0] == pair[1];
        if let Some(before) = keys.windows(2).position(is_wrong) {
            let (index, key, previous) = (before + 1, keys[before + 1].to_string(), keys[before].to_string());
            return Err(match keys[before] == keys[before + 1] {
                true => lanetree_frame::Error::NotDistinct { index, key },
                false => lanetree_frame::Error::NotSorted { index, previous, key },
            }
            .into());
        }
        let flags = if self.has_several { SEVERAL } else { 0 };
        let header = Header::of::<K, V>(MAGIC, flags, keys.len() as u64)?.with_note(&self.note)?;
        write(begin()?, header, [bytes_of(keys), bytes_of(values)])
    }

    /// Reads all pairs of a file, of an index or of a multi-map, into main memory, and verifies its checksums.
    ///
    /// # Errors
    /// As [`read_pairs`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        in_file(path, |file| {
            let reader = Reader::new::<K, V>(file)?;
            let (keys, values) = reader.to_vecs()?;
            let (has_several, note) = (reader.has_several(), reader.note());
            Ok(Self { keys: keys.into(), values: values.into(), has_several, note })
        })
    }
}

/// Reads the pairs of a file, in ascending order of their keys.
///
/// # Errors
/// As [`Load::load`], without the errors of a build.
pub fn read_pairs<K: AnyKey, V: Value>(path: impl AsRef<Path>) -> Result<(Vec<K>, Vec<V>)> {
    in_file(path, |file| reader_of::<K, V>(file)?.to_vecs())
}

/// The names of the types of a file's keys and values (`"u64"`, `"f64"`, `"()"` and so on), which say how it is to be loaded.
///
/// # Errors
/// [`Error::Io`]; [`Error::Damaged`] and [`Error::Unsupported`], as far as the header shows that.
pub fn types_of(path: impl AsRef<Path>) -> Result<[String; 2]> {
    Ok(Summary::read(path)?.types)
}

/// What the header of a file of pairs says. Nothing but the header is read, so the pairs may be damaged.
///
/// ```
/// use lanetree::files::{Contents, Summary};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("pairs");
/// let note = "ids by hour".to_owned();
/// Contents { keys: (&[10_u32, 20]).into(), values: (&[1_u64, 2]).into(), has_several: false, note }.write(&path)?;
/// let summary = Summary::read(&path)?;
/// assert_eq!((summary.pairs, &*summary.note), (2, "ids by hour"));
/// assert_eq!(summary.types, ["u32", "u64"]);
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The names of the types of keys and values, as of [`types_of`].
    pub types: [String; 2],
    /// How many pairs there are.
    pub pairs: u64,
    /// Text of the program that wrote the file.
    pub note: String,
}

impl Summary {
    /// Reads and checks the header of the file at a path.
    ///
    /// # Errors
    /// As [`types_of`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        in_file(path, |file| format::read_summary(file))
    }
}

/// A file of pairs whose keys ascend strictly.
fn reader_of<K: AnyKey, V: Value>(file: &dyn ReadAt) -> Result<Reader<'_>> {
    let reader = Reader::new::<K, V>(file)?;
    if reader.has_several() { Err(Error::Several { path: None }) } else { Ok(reader) }
}

/// Reads the file of a path, which errors name.
fn in_file<T>(path: impl AsRef<Path>, read: impl FnOnce(&File) -> Result<T>) -> Result<T> {
    let path = path.as_ref();
    let file = File::open(path).map_err(io_error("opening the file", path))?;
    read(&file).map_err(|error| error.in_file(path))
}

#[cfg(test)]
mod tests;
