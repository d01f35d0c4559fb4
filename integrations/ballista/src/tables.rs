use crate::shards::Shards;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::FileReader;
use datafusion::common::{DataFusionError, exec_datafusion_err, exec_err};
use datafusion::error::Result;
use futures::TryStreamExt;
use lanetree::Device;
use lanetree_datafusion::IndexedTable;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::HashMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the names of tables' files end with.
pub(crate) const SUFFIX: &str = ".arrow";
/// Entries of a schema's metadata with the names of indexed columns.
pub(crate) const INDEX: &str = "lanetree.index.";

/// Something that one thread opens while others wait for it.
type Slot<T> = Arc<Mutex<Option<T>>>;

/// The tables of a folder or of an object store, each of which is opened when it is first asked for, and its indexes built on a
/// device: see [`write_table`](crate::write_table) and [`write_sharded`](crate::write_sharded).
#[derive(Debug)]
pub struct Tables {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    device: Device,
    opened: Mutex<HashMap<String, Slot<Table>>>,
    shards: Mutex<Shelf>,
}

/// The open shards.
#[derive(Debug)]
struct Shelf {
    /// With the number of the last use.
    open: HashMap<String, (Slot<IndexedTable>, u64)>,
    uses: u64,
    /// So many are open at most.
    room: usize,
}

/// A table of [`Tables`].
#[derive(Clone, Debug)]
pub enum Table {
    /// A replica: all rows are in this process.
    Whole(IndexedTable),
    /// A table in shards, which are opened one by one.
    Sharded(Arc<Shards>),
}

impl Table {
    /// The name that plans have: with the checksum of its file, which has those of the shards.
    pub fn identity(&self) -> Arc<str> {
        match self {
            Self::Whole(table) => table.name().unwrap_or_default(),
            Self::Sharded(shards) => shards.identity.clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is in the slot, or what is made for it now.
fn get_or_open<T: Clone>(slot: &Slot<T>, open: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut slot = lock(slot);
    match &*slot {
        Some(opened) => Ok(opened.clone()),
        None => Ok(slot.insert(open()?).clone()),
    }
}

impl Tables {
    /// Those of a local folder.
    ///
    /// # Errors
    /// The system's, if there is no such folder.
    pub fn in_folder(folder: impl AsRef<std::path::Path>, device: &Device) -> Result<Arc<Self>> {
        Ok(Self::new(Arc::new(LocalFileSystem::new_with_prefix(folder)?), Path::default(), device))
    }

    /// Those below a path of an object store.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, device: &Device) -> Arc<Self> {
        let shards = Mutex::new(Shelf { open: HashMap::new(), uses: 0, room: usize::MAX });
        Arc::new(Self { store, prefix, device: device.clone(), opened: Mutex::default(), shards })
    }

    /// Has so many shards open at most, at least one: before another one is opened, the one that was not used for longest is
    /// dropped, when its look-ups are done. By default, all stay open.
    pub fn keep_shards(&self, room: usize) {
        lock(&self.shards).room = room.max(1);
    }

    /// The device that has the indexes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The names of all tables, in order.
    ///
    /// # Errors
    /// The store's.
    pub async fn names(&self) -> Result<Vec<String>> {
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let files: Vec<_> = self.store.list(prefix).try_collect().await?;
        let below = files.iter().filter_map(|file| {
            let mut parts = file.location.prefix_match(&self.prefix)?;
            let name = parts.next()?;
            if parts.next().is_some() { None } else { name.as_ref().strip_suffix(SUFFIX).map(str::to_owned) }
        });
        let mut names: Vec<_> = below.collect();
        names.sort();
        Ok(names)
    }

    /// A table by its name. Reads the file, and if it is not in shards, builds the indexes, unless it has been opened before: then
    /// the file may have changed since, or be gone.
    ///
    /// # Errors
    /// An execution error for a name that no table can have, and for a file that is no table; the store's, if there is no such
    /// file; Arrow's for what it is not; [`IndexedTable::new`]'s.
    pub fn open(&self, name: &str) -> Result<Table> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            return exec_err!("no table has the name {name:?}: it has letters, digits, _ and - alone");
        }
        let slot = lock(&self.opened).entry(name.to_owned()).or_default().clone();
        get_or_open(&slot, || {
            let file = format!("{name}{SUFFIX}");
            let bytes = self.read(&file)?;
            let identity = format!("{name}@{:08x}", crc32c::crc32c(&bytes));
            let (schema, batches) = rows_of(bytes)?;
            if let Some(shards) = Shards::of(&identity, &schema, &batches)? {
                return Ok(Table::Sharded(Arc::new(shards)));
            }
            let indexes: Vec<&String> =
                (0..).map_while(|number| schema.metadata().get(&format!("{INDEX}{number}"))).collect();
            let [first, others @ ..] = &indexes[..] else { return exec_err!("{file} names no index") };
            let table = IndexedTable::new(&self.device, schema.clone(), &batches, first)?;
            for column in others {
                table.add_index(&self.device, column)?;
            }
            log::info!("opened {identity}: {} rows on {}", table.len(), self.device);
            Ok(Table::Whole(table.with_name(&identity)))
        })
    }

    /// A table by the name that plans have, which has the checksum of the file. One that is open with another checksum is opened
    /// again: it may have been replaced.
    ///
    /// # Errors
    /// As [`Tables::open`]; an execution error if the file here has other contents.
    pub fn replica(&self, identity: &str) -> Result<Table> {
        let name = identity.split('@').next().unwrap_or_default();
        let mut table = self.open(name)?;
        if *table.identity() != *identity {
            lock(&self.opened).remove(name);
            table = self.open(name)?;
        }
        let own = table.identity();
        if *own != *identity {
            return exec_err!(
                "the plan is over {identity}, but the table here is {own}: give all processes the same file"
            );
        }
        Ok(table)
    }

    /// A shard of a table, with its index. Reads its file if it is not open.
    ///
    /// # Errors
    /// As [`Tables::open`]; an execution error for a file whose checksum is another one.
    pub(crate) fn shard(&self, shards: &Shards, number: usize) -> Result<IndexedTable> {
        let file = shards.file(number);
        let slot = lock(&self.shards).slot(&file);
        get_or_open(&slot, || {
            let bytes = self.read(&file)?;
            if crc32c::crc32c(&bytes) != shards.checksums[number] {
                return exec_err!("{file} was damaged: its checksum is {:08x}", crc32c::crc32c(&bytes));
            }
            let (schema, batches) = rows_of(bytes)?;
            let table = IndexedTable::new(&self.device, schema, &batches, shards.key_name())?;
            log::info!("opened {file}: {} rows on {}", table.len(), self.device);
            Ok(table)
        })
    }

    /// A file, read by a thread of its own: codecs are called from tasks, which must not wait for other tasks.
    fn read(&self, file: &str) -> Result<Bytes> {
        let path = self.prefix.clone().join(file);
        let read = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { Ok(self.store.get(&path).await?.bytes().await?) })
        };
        let bytes: Result<Bytes> = std::thread::scope(|scope| {
            scope.spawn(read).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        bytes.map_err(|error: DataFusionError| exec_datafusion_err!("reading {path}: {error}"))
    }
}

impl Shelf {
    fn slot(&mut self, file: &str) -> Slot<IndexedTable> {
        self.uses += 1;
        if !self.open.contains_key(file) && self.open.len() >= self.room {
            let oldest = self.open.iter().min_by_key(|(_, (_, last))| *last).map(|(name, _)| name.clone());
            oldest.and_then(|name| self.open.remove(&name));
        }
        let (slot, last) = self.open.entry(file.to_owned()).or_default();
        *last = self.uses;
        slot.clone()
    }
}

fn rows_of(bytes: Bytes) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let reader = FileReader::try_new(Cursor::new(bytes), None)?;
    let schema = reader.schema();
    Ok((schema, reader.collect::<Result<_, _>>()?))
}
