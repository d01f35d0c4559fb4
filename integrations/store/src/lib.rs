//! Files of Lanetree's indexes in object stores: local folders, memory, and what else the crate `object_store` has.
//!
//! [`StoredFile`] is a file that [`Load::load_from`] reads, by ranges; [`load`] does that from a task of tokio. The
//! file is what `index.save(path)` wrote; its checksums are verified, as when a file on disk is loaded.
//!
//! ```
//! use lanetree::files::{Load, Save};
//! use lanetree::{Device, LaneTree};
//! use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("index");
//! LaneTree::build(&Device::host(), &[10_u64, 20], &[1_u32, 2])?.save(&file)?;
//! let (store, path) = (Arc::new(InMemory::new()), Path::from("indexes/ids"));
//! store.put(&path, std::fs::read(&file)?.into()).await?;
//!
//! let index = lanetree_store::load(LaneTree::<u64, u32>::builder(), &Device::host(), store, path).await?;
//! assert_eq!(index.get_many(&[20, 30])?, [Some(2), None]);
//! # Ok(())
//! # }
//! ```

use core::ops::Range;
use futures::{StreamExt, TryStreamExt, stream};
use lanetree::Device;
use lanetree::files::{Error, Load, ReadAt, Result};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Bytes that are asked for at a time.
const RANGE: usize = 8 << 20;
/// Ranges that are on their way at a time.
const IN_FLIGHT: usize = 2;

/// A file in an object store, which is read by ranges of 8 MiB, two of them on their way at a time. If it is overwritten after it
/// was opened, reads are errors, in stores that know versions by an ETag.
#[derive(Debug)]
pub struct StoredFile {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    e_tag: Option<String>,
    runtime: Handle,
}

impl StoredFile {
    /// Opens a file. It is read with the runtime that this is called from.
    ///
    /// # Errors
    /// The store's: there is no such file, and so on.
    pub async fn open(store: Arc<dyn ObjectStore>, path: Path) -> object_store::Result<Self> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let meta = store.get_opts(&path, options).await?.meta;
        Ok(Self { store, path, size: meta.size, e_tag: meta.e_tag, runtime: Handle::current() })
    }

    async fn read(&self, out: &mut [u8], offset: u64) -> object_store::Result<()> {
        let parts = out.chunks_mut(RANGE).enumerate();
        let reads = parts.map(|(number, part)| self.read_range(part, offset + (number * RANGE) as u64));
        stream::iter(reads).buffer_unordered(IN_FLIGHT).try_collect().await
    }

    async fn read_range(&self, out: &mut [u8], offset: u64) -> object_store::Result<()> {
        let range = Range { start: offset, end: offset + out.len() as u64 };
        let range = Some(GetRange::Bounded(range));
        let options = GetOptions { range, if_match: self.e_tag.clone(), ..GetOptions::default() };
        let mut parts = self.store.get_opts(&self.path, options).await?.into_stream();
        let mut rest = out;
        while let Some(part) = parts.try_next().await? {
            let Some((room, after)) = rest.split_at_mut_checked(part.len()) else {
                return Err(wrong_length("more bytes than were asked for"));
            };
            room.copy_from_slice(&part);
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(wrong_length("fewer bytes than were asked for")) }
    }
}

fn wrong_length(what: &'static str) -> object_store::Error {
    object_store::Error::Generic { store: "the object store's answer", source: what.into() }
}

/// Reads wait for the store, so they must not be made from a task: [`load`] makes them from a thread for such.
impl ReadAt for StoredFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        if out.is_empty() {
            // No store has empty ranges.
            return Ok(());
        }
        self.runtime.block_on(self.read(out, offset)).map_err(io::Error::other)
    }

    fn reads_at_once(&self) -> bool {
        true
    }
}

/// Builds an index on a device, with the builder's options, over the pairs of a file in an object store: as [`Load::load`] does of
/// a file on disk, on a thread for work that waits.
///
/// # Errors
/// [`Error::Io`] for an error of the store; the errors of [`Load::load`].
///
/// # Panics
/// If the build does, and without a runtime of tokio.
pub async fn load<Of, B>(builder: B, device: &Device, store: Arc<dyn ObjectStore>, path: Path) -> Result<B::Loaded>
where
    B: Load<Of> + Send + 'static,
    B::Loaded: Send + 'static,
{
    let device = device.clone();
    let named = path.to_string();
    let file = StoredFile::open(store, path).await;
    let open_failed = |error| Error::Io { action: "opening the file", path: None, source: io::Error::other(error) };
    let file = file.map_err(|error| open_failed(error).in_file(&named))?;
    let loaded = tokio::task::spawn_blocking(move || builder.load_from(&device, &file)).await;
    let loaded = loaded.map(|loaded| loaded.map_err(|error| error.in_file(&named)));
    loaded.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
