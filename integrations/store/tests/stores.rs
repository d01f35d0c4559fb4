//! Index files in a local folder and in memory: loaded by ranges, two in flight, and checked.

use async_trait::async_trait;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use core::time::Duration;
use futures::stream::BoxStream;
use lanetree::files::{Error, FromFile, Load, Save, Section};
use lanetree::{ByteKeysBuf, Cuart, Device, LaneSet, LaneTree};
use lanetree_store::{StoredFile, load};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::*;
use std::fs;
use std::sync::{Arc, Mutex};

/// A store that takes a while for each answer, and counts.
#[derive(Debug, Default)]
struct Slow {
    inner: InMemory,
    in_flight: AtomicUsize,
    most: AtomicUsize,
    ranges: Mutex<Vec<u64>>,
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a slow store")
    }
}

#[async_trait]
impl ObjectStore for Slow {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(path, payload, options).await
    }
    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(GetRange::Bounded(range)) = &options.range {
            self.ranges.lock().unwrap().push(range.end - range.start);
            self.most.fetch_max(self.in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.in_flight.fetch_sub(1, SeqCst);
        }
        self.inner.get_opts(path, options).await
    }
    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A file of `pairs` pairs: a number and its triple.
fn file_of(pairs: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let keys: Vec<u64> = (0..pairs).collect();
    let values: Vec<u64> = keys.iter().map(|key| 3 * key).collect();
    LaneTree::build(&Device::host(), &keys, &values).unwrap().save(&path).unwrap();
    fs::read(path).unwrap()
}

async fn check(store: Arc<dyn ObjectStore>, path: Path, pairs: u64) {
    let index = load(LaneTree::<u64, u64>::builder(), &Device::host(), store, path).await.unwrap();
    assert_eq!(index.len(), pairs);
    let probes: Vec<u64> = (0..pairs + 1).step_by(997).chain([pairs]).collect();
    let expected: Vec<Option<u64>> = probes.iter().map(|probe| (*probe < pairs).then_some(3 * probe)).collect();
    assert_eq!(index.get_many(&probes).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_in_a_folder_and_in_memory_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn ObjectStore>; 2] =
        [Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap()), Arc::new(InMemory::new())];
    for store in stores {
        for pairs in [0, 1, 5000, 300_000] {
            let path = Path::from(format!("indexes/{pairs}"));
            store.put(&path, file_of(pairs).into()).await.unwrap();
            check(store.clone(), path, pairs).await;
        }
    }
}

#[tokio::test]
async fn two_ranges_are_in_flight_and_none_is_larger_than_8_mib() {
    let store = Arc::new(Slow::default());
    let path = Path::from("index");
    store.put(&path, file_of(2_200_000).into()).await.unwrap();
    check(store.clone(), path, 2_200_000).await;
    assert_eq!(store.most.load(SeqCst), 2);
    let mut ranges = store.ranges.lock().unwrap().clone();
    ranges.sort_unstable();
    // Of 17.6 MB of keys and of values each two whole ranges and a rest; before them the header and the table.
    assert_eq!(ranges.iter().filter(|range| **range == 8 << 20).count(), 4);
    assert_eq!(ranges.last(), Some(&(8 << 20)));
}

#[tokio::test]
async fn sets_and_strings_are_loaded_too() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let host = Device::host();
    let words: ByteKeysBuf = ["", "car", "cargo"].into_iter().collect();
    Cuart::build(&host, &words, &[1_u64, 2, 3]).unwrap().save(folder.path().join("words")).unwrap();
    let tree = load(Cuart::<u64>::builder(), &host, store.clone(), Path::from("words")).await.unwrap();
    assert_eq!(tree.get_many(&words).unwrap(), [Some(1), Some(2), Some(3)]);

    LaneSet::build(&host, &[7_i32, -7]).unwrap().save(folder.path().join("set")).unwrap();
    let file = StoredFile::open(store, Path::from("set")).await.unwrap();
    let set = tokio::task::spawn_blocking(move || LaneSet::<i32>::load_from(&host, &file)).await.unwrap().unwrap();
    assert_eq!(set.contains_many(&[7, 0, -7]).unwrap(), [true, false, true]);
}

#[tokio::test]
async fn damage_and_absence_are_errors() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut file = file_of(400_000);
    file[4096 + (3 << 20) + 11] ^= 4;
    let builder = LaneTree::<u64, u64>::builder;
    store.put(&Path::from("damaged"), file.clone().into()).await.unwrap();
    let error = load(builder(), &Device::host(), store.clone(), Path::from("damaged")).await.unwrap_err();
    let at = 4096 + (3 << 20);
    assert!(matches!(error, Error::Damaged { section: Section::Keys, offset, .. } if offset == at), "{error}");
    file.truncate(1 << 20);
    store.put(&Path::from("short"), file.into()).await.unwrap();
    let error = load(builder(), &Device::host(), store.clone(), Path::from("short")).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { section: Section::Header, .. }), "{error}");
    let error = load(builder(), &Device::host(), store.clone(), Path::from("none")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Io { action: "opening the file", source, .. } if source.to_string().contains("none"))
    );

    // A file that is overwritten after it was opened.
    let path = Path::from("index");
    store.put(&path, file_of(1000).into()).await.unwrap();
    let opened = StoredFile::open(store.clone(), path.clone()).await.unwrap();
    store.put(&path, file_of(1000).into()).await.unwrap();
    let loaded = tokio::task::spawn_blocking(move || builder().load_from(&Device::host(), &opened)).await.unwrap();
    assert!(matches!(loaded.unwrap_err(), Error::Io { .. }));
}
