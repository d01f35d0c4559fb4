//! A file of pairs, and the batches of operations since.

mod batches;
mod generations;

use crate::disk::{self, Folder, Replacement};
use crate::error::{Error, Result, Section, damaged, io_error};
use crate::format::{ALIGNMENT, len_of};
use crate::{build, prepare_pairs, uploaded};
use batches::{Batches, encode};
use core::fmt;
use core::marker::PhantomData;
use generations::{Base, Kind, begin, check_has_none, check_is_free, newest, remove_others};
use lanetree_frame::fixed::FixedIndex;
use lanetree_frame::room::zeroed;
use lanetree_frame::{AnyKey, Device, IndexBuilder, Op, Value};
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file of batches begins with.
const LOG_MAGIC: [u8; 8] = *b"LANETLOG";
/// Generations and the first batch's number are below this, so that those after them are numbers, too.
const NUMBERS: u64 = 1 << 63;

/// When a batch is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the call returns: it survives a power cut.
    Synced,
    /// When the system gets round to it, or by [`Log::sync`] or a later batch that is synced. It survives the end of the process,
    /// but perhaps not a power cut.
    Unsynced,
}

/// What the end of a log had that is no whole batch, as a crash leaves it. It has been cut off.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The sequence number of the batch that was begun.
    pub batch: u64,
    /// Where it began in the file of batches.
    pub offset: u64,
    /// The bytes that were cut off.
    pub bytes: u64,
    /// What was wrong with it.
    pub reason: String,
}

/// What was replayed when a log was opened.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Batches since the base file.
    pub batches: u64,
    /// Their operations.
    pub ops: u64,
    /// What was cut off.
    pub torn: Option<Torn>,
}

/// A log that was opened, with the pairs that it stands for.
#[non_exhaustive]
#[derive(Debug)]
pub struct Opened<K: AnyKey, V: Value> {
    /// The log, for the batches to come.
    pub log: Log<K, V>,
    /// The keys after all batches, in strictly ascending order.
    pub keys: Vec<K>,
    /// The value of each.
    pub values: Vec<V>,
    /// What was replayed.
    pub replay: Replay,
}

/// A folder with a file of sorted pairs, its base, and the batches of operations since: an index on disk, kept as it changes.
///
/// The caller applies a batch to the index and appends it to the log, in either order. [`Log::append`] costs a write of the
/// batch, and a sync if it is asked for. [`Log::open`] and [`Log::load`] replay the batches; [`Log::compact`] makes them part of
/// a new base, or [`Log::begin_compaction`] while others are appended. One log at a time has the folder open, in all processes; it
/// works in that folder, also after it was renamed. `docs/format.md` draws the files.
///
/// ```
/// use lanetree::files::{Durability, Log};
/// use lanetree::Op;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let parent = tempfile::tempdir()?;
/// # let folder = parent.path().join("index");
/// let mut log = Log::create(&folder, &[10_u64, 20], &[1_u32, 2])?;
/// log.append(&[Op::Insert(15, 3), Op::Remove(20)], Durability::Synced)?;
/// drop(log);
///
/// let mut opened = Log::<u64, u32>::open(&folder)?;
/// assert_eq!((opened.keys, opened.values), (vec![10, 15], vec![1, 3]));
/// assert_eq!(opened.replay.batches, 1);
/// opened.log.compact()?;
/// # Ok(())
/// # }
/// ```
pub struct Log<K: AnyKey, V: Value> {
    /// Locked. All is done in it by its descriptor. A compaction that has been begun has it, too.
    folder: Arc<Folder>,
    /// Of several bases the one with the highest number counts.
    generation: u64,
    file: File,
    path: PathBuf,
    /// Where the next batch begins.
    end: u64,
    /// Its sequence number.
    next: u64,
    /// Batches below this number are on disk.
    synced: u64,
    is_failed: bool,
    /// The one that has opened it: those that are forked from it have its lock.
    process: u32,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: AnyKey, V: Value> Log<K, V> {
    /// Creates a log over pairs whose keys ascend strictly, in a folder that has none. The folder is created if it is not there.
    /// Returns when the log is on disk.
    ///
    /// # Errors
    /// As [`write_pairs`](crate::write_pairs); [`Error::Io`] if the folder is in use, or has a log or another file with a name of a
    /// log's files. After an error the folder has no log, except where syncing it fails.
    pub fn create(folder: impl AsRef<Path>, keys: &[K], values: &[V]) -> Result<Self> {
        let path = folder.as_ref();
        let is_new = match fs::create_dir(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(io_error("creating the log's folder", path)(error)),
        };
        let folder = Arc::new(Folder::open(path)?);
        if is_new {
            folder.parent()?.sync()?;
        }
        folder.try_lock()?;
        check_has_none(&folder)?;
        let file = begin::<K, V>(&folder, (0, 0), None, &[])?;
        prepare_pairs(keys, values, || Replacement::begin_in(&folder, &Kind::Base.name(0), None))?.commit()?;
        Ok(Self::new(folder, (0, file), (ALIGNMENT, 0)))
    }

    fn new(folder: Arc<Folder>, (generation, file): (u64, File), (end, next): (u64, u64)) -> Self {
        Self {
            path: folder.path().join(Kind::Batches.name(generation)),
            folder,
            generation,
            file,
            end,
            next,
            synced: next,
            is_failed: false,
            process: std::process::id(),
            types: PhantomData,
        }
    }

    /// Opens a log and replays its batches, in main memory.
    ///
    /// A batch at the end that is not whole is cut off, as are all that follow one that is not whole and are not known to have
    /// been on disk: so a power cut leaves them. [`Replay::torn`] reports that. What is not whole, but was on disk by what a
    /// later batch says, is an error. So of batches that were synced, only the last one may be cut off if it is damaged later.
    ///
    /// # Errors
    /// As [`read_pairs`](crate::read_pairs), and [`Error::Damaged`] for the file of batches; [`Error::Io`] if the folder has no
    /// log, or another [`Log`] has it open. The files are as they were.
    pub fn open(folder: impl AsRef<Path>) -> Result<Opened<K, V>> {
        let folder = Arc::new(Folder::open(folder.as_ref())?);
        folder.try_lock()?;
        let Some(generation) = newest(&folder)? else {
            let none = io::Error::new(io::ErrorKind::NotFound, "the folder has no base file: create a log there");
            return Err(io_error("opening a log", folder.path())(none));
        };
        let pairs = Base::open(&folder, generation)?.read()?;
        let file = folder.open_file(&Kind::Batches.name(generation), OFlags::RDWR)?;
        let path = folder.path().join(Kind::Batches.name(generation));
        let read = || Batches::<K, V>::read(&file, len_of(&file)?);
        let batches = read().map_err(|error| error.in_file(&path))?;
        let (keys, values) = batches.applied_to(pairs)?;
        if batches.torn.is_some() {
            disk::set_len(&file, &path, batches.end)?;
        }
        // What was replayed is there the next time, too.
        disk::sync(&file, &path)?;
        remove_others(&folder, generation);
        let log = Self::new(folder, (generation, file), (batches.end, batches.next));
        let replay = Replay { batches: batches.count, ops: batches.ops.len() as u64, torn: batches.torn };
        Ok(Opened { log, keys, values, replay })
    }

    /// Opens a log, and builds an index on a device over the pairs that it stands for.
    ///
    /// # Errors
    /// As [`Log::open`]; [`Error::Index`] from the build.
    pub fn load<B: IndexBuilder>(
        builder: &B,
        device: &Device,
        folder: impl AsRef<Path>,
    ) -> Result<(Self, B::Index, Replay)>
    where
        B::Index: FixedIndex<Key = K, Value = V>,
    {
        let Opened { log, keys, values, replay } = Self::open(folder)?;
        // SAFETY: the base's keys ascend strictly, and still do with the keys that were merged into them.
        let index = unsafe { build(builder, device, uploaded(device, &keys, &values)?) }?;
        Ok((log, index, replay))
    }

    /// Appends a batch of operations, and returns its sequence number: 0 for the first batch since the log was created, and so on.
    ///
    /// # Errors
    /// [`Error::Io`]: the batch has not been appended, unless [`Log::is_failed`] says that this is not known;
    /// [`Error::LogFailed`], [`Error::Forked`]; [`Error::Index`] if there is no memory, or for more than 2^32 - 1 operations.
    pub fn append(&mut self, ops: &[Op<K, V>], durability: Durability) -> Result<u64> {
        self.check()?;
        let batch = encode(ops, self.next, self.synced)?;
        if let Err(error) = disk::write(&self.file, &self.path, self.end, &batch) {
            // What is left of it would be in the way of the next one.
            self.is_failed = disk::set_len(&self.file, &self.path, self.end).is_err();
            return Err(error);
        }
        if durability == Durability::Synced {
            self.sync_file()?;
            self.synced = self.next + 1;
        }
        self.end += batch.len() as u64;
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Returns when all batches are on disk.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::LogFailed`], [`Error::Forked`].
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.sync_file()?;
        self.synced = self.next;
        Ok(())
    }

    /// After a sync that failed nobody knows what is on disk, and the next one may say that all is.
    fn sync_file(&mut self) -> Result<()> {
        let synced = disk::sync(&self.file, &self.path);
        self.is_failed = synced.is_err();
        synced
    }

    /// Writes a new base with all batches applied, and begins an empty file of batches. Returns when they are on disk;
    /// then it removes the old ones. Sequence numbers go on. Takes main memory for the base's pairs twice, and for the
    /// batches.
    ///
    /// # Errors
    /// As [`Log::open`], and [`Error::LogFailed`] or [`Error::Forked`]; [`Error::Io`], too, if a file that is not the log's has a
    /// name that it needs. The log is as it was, unless [`Log::is_failed`].
    pub fn compact(&mut self) -> Result<()> {
        let compacted = self.begin_compaction()?.run()?;
        self.finish_compaction(compacted)
    }

    /// Begins a compaction of the batches so far, while more are appended: [`Compaction::run`] does the work, on any thread, and
    /// [`Log::finish_compaction`] puts its result in place. Until it is finished or dropped, there is no other one, and the log
    /// cannot be opened again.
    ///
    /// ```
    /// # use lanetree::files::{Durability, Log};
    /// # use lanetree::Op;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let parent = tempfile::tempdir()?;
    /// # let folder = parent.path().join("index");
    /// let mut log = Log::create(&folder, &[10_u64, 20], &[1_u32, 2])?;
    /// log.append(&[Op::Insert(15, 3)], Durability::Unsynced)?;
    /// let compaction = log.begin_compaction()?;
    /// let worker = std::thread::spawn(|| compaction.run());
    /// log.append(&[Op::Remove(20)], Durability::Unsynced)?;
    /// log.finish_compaction(worker.join().expect("no panic")?)?;
    /// drop(log);
    /// let opened = Log::<u64, u32>::open(&folder)?;
    /// assert_eq!((opened.keys, opened.replay.batches), (vec![10, 15], 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::LogFailed`], [`Error::Forked`]; [`Error::CompactionBegun`].
    pub fn begin_compaction(&mut self) -> Result<Compaction<K, V>> {
        self.check()?;
        if Arc::strong_count(&self.folder) > 1 {
            return Err(Error::CompactionBegun { folder: self.folder.path().to_owned() });
        }
        Ok(Compaction {
            folder: self.folder.clone(),
            generation: self.generation,
            file: self.file.try_clone().map_err(io_error("opening again the file of batches", &self.path))?,
            end: self.end,
            next: self.next,
            types: PhantomData,
        })
    }

    /// Puts a new base in place, and a new file with the batches that were appended since the compaction began. Returns when they
    /// are on disk, these batches too; then it removes the old files. Takes as long as these batches are copied.
    ///
    /// # Errors
    /// [`Error::Io`], also if a file that is not the log's has a name that it needs; [`Error::LogFailed`], [`Error::Forked`];
    /// [`Error::OtherLog`]: the log is as it was, unless [`Log::is_failed`].
    pub fn finish_compaction(&mut self, compacted: Compacted<K, V>) -> Result<()> {
        self.check()?;
        let Compacted { base, folder, end, next, .. } = compacted;
        if !Arc::ptr_eq(&folder, &self.folder) {
            return Err(Error::OtherLog { folder: folder.path().to_owned() });
        }
        let generation = self.generation + 1;
        let mut later = zeroed::<u8>((self.end - end) as usize)?;
        self.file.read_exact_at(&mut later, end).map_err(io_error("reading the file", &self.path))?;
        check_is_free(&folder, generation)?;
        // The batches' file first: it does not count without the base.
        let file = begin::<K, V>(&folder, (generation, next), Some(&self.file), &later)?;
        if let Err(error) = base.commit() {
            // The next open may find the new base, and would not see batches that were appended to the old file.
            self.is_failed = folder.may_have(&Kind::Base.name(generation));
            return Err(error);
        }
        self.path = folder.path().join(Kind::Batches.name(generation));
        (self.generation, self.file, self.synced) = (generation, file, self.next);
        self.end = ALIGNMENT + later.len() as u64;
        remove_others(&self.folder, generation);
        Ok(())
    }

    /// The sequence number of the next batch.
    pub fn next_batch(&self) -> u64 {
        self.next
    }

    /// Bytes of the batches since the base.
    pub fn batch_bytes(&self) -> u64 {
        self.end - ALIGNMENT
    }

    /// Whether a write or a sync failed in such a way that what is on disk is not known: to go on, drop the log and open it
    /// again. The batch that failed may be there or not; those before it that were synced are.
    pub fn is_failed(&self) -> bool {
        self.is_failed
    }

    fn check(&self) -> Result<()> {
        match self.is_failed {
            true => Err(Error::LogFailed { folder: self.folder.path().to_owned() }),
            false if self.process != std::process::id() => {
                Err(Error::Forked { folder: self.folder.path().to_owned(), process: self.process })
            }
            false => Ok(()),
        }
    }
}

impl<K: AnyKey, V: Value> fmt::Debug for Log<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log<{}, {}>[{} batches, in {}]", K::NAME, V::NAME, self.next, self.folder.path().display())
    }
}

/// The batches of a log up to some moment, which are to be in a new base: [`Log::begin_compaction`].
pub struct Compaction<K: AnyKey, V: Value> {
    folder: Arc<Folder>,
    generation: u64,
    file: File,
    /// Where the first batch that is not part of it begins, and its sequence number.
    end: u64,
    next: u64,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: AnyKey, V: Value> Compaction<K, V> {
    /// Writes the new base; the old one stays until then. Returns when its contents are on disk. Takes main memory for
    /// the base's pairs twice, and for the batches.
    ///
    /// # Errors
    /// As [`Log::open`]: the log is as it was.
    pub fn run(self) -> Result<Compacted<K, V>> {
        let Self { folder, generation, file, end, next, types } = self;
        let read = || {
            let batches = Batches::<K, V>::read(&file, end)?;
            match &batches.torn {
                // This log has written it as a whole.
                Some(torn) => Err(damaged(Section::Batch(torn.batch), torn.offset, "a batch", ("whole", &torn.reason))),
                None => Ok(batches),
            }
        };
        let batches = read().map_err(|error| error.in_file(folder.path().join(Kind::Batches.name(generation))))?;
        let old = Base::open(&folder, generation)?;
        let (keys, values) = batches.applied_to(old.read()?)?;
        let begin = || Replacement::begin_in(&folder, &Kind::Base.name(generation + 1), Some(&old.file));
        let base = prepare_pairs(&keys, &values, begin)?;
        base.sync()?;
        Ok(Compacted { base, folder, end, next, types })
    }
}

/// A new base that is not in its place yet: [`Log::finish_compaction`] puts it there. If it is dropped, the log stays as it is.
pub struct Compacted<K: AnyKey, V: Value> {
    base: Replacement,
    folder: Arc<Folder>,
    end: u64,
    next: u64,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: AnyKey, V: Value> fmt::Debug for Compaction<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Compaction<{}, {}>[up to batch {}, in {}]",
            K::NAME,
            V::NAME,
            self.next,
            self.folder.path().display()
        )
    }
}

impl<K: AnyKey, V: Value> fmt::Debug for Compacted<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compacted<{}, {}>[up to batch {}]", K::NAME, V::NAME, self.next)
    }
}
