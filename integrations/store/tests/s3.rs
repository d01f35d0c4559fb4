//! Files of indexes in an S3 server, which the test starts: over HTTP, with signatures.

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use lanetree::files::{Error, Load, Save, Section};
use lanetree::{Device, LaneTree};
use lanetree_store::{StoredFile, load};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::fs;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A server over a folder with one bucket; it ends with the runtime. Its address.
async fn server(folder: &std::path::Path) -> String {
    fs::create_dir(folder.join("bucket")).unwrap();
    let mut builder = S3ServiceBuilder::new(FileSystem::new(folder).unwrap());
    builder.set_auth(SimpleAuth::from_single("id", "secret"));
    let service = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let http = Builder::new(TokioExecutor::new());
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let connection = http.serve_connection(TokioIo::new(socket), service.clone()).into_owned();
            tokio::spawn(connection);
        }
    });
    format!("http://{address}")
}

fn client(address: &str, secret: &str) -> Arc<AmazonS3> {
    let builder = AmazonS3Builder::new()
        .with_endpoint(address)
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_bucket_name("bucket")
        .with_access_key_id("id")
        .with_secret_access_key(secret);
    Arc::new(builder.build().unwrap())
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_on_a_server_are_loaded_by_ranges_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let address = server(folder.path()).await;
    let (store, host) = (client(&address, "secret"), Device::host());
    let builder = LaneTree::<u64, u64>::builder;
    // The last one is read in several ranges.
    for pairs in [0, 1, 5000, 1_200_000] {
        let path = Path::from(format!("indexes/{pairs}"));
        store.put(&path, file_of(pairs).into()).await.unwrap();
        let index = load(builder(), &host, store.clone(), path).await.unwrap();
        assert_eq!(index.len(), pairs);
        let probes: Vec<u64> = (0..pairs).step_by(997).chain([pairs]).collect();
        let expected: Vec<Option<u64>> = probes.iter().map(|probe| (*probe < pairs).then_some(3 * probe)).collect();
        assert_eq!(index.get_many(&probes).unwrap(), expected);
    }

    let mut damaged = file_of(400_000);
    damaged[4096 + (3 << 20) + 11] ^= 4;
    store.put(&Path::from("damaged"), damaged.into()).await.unwrap();
    let error = load(builder(), &host, store.clone(), Path::from("damaged")).await.unwrap_err();
    let at = 4096 + (3 << 20);
    assert!(matches!(error, Error::Damaged { section: Section::Keys, offset, .. } if offset == at), "{error}");

    // A file that becomes shorter after it was opened.
    let path = Path::from("indexes/5000");
    let opened = StoredFile::open(store.clone(), path.clone()).await.unwrap();
    store.put(&path, file_of(10).into()).await.unwrap();
    let loaded = tokio::task::spawn_blocking(move || builder().load_from(&Device::host(), &opened)).await.unwrap();
    loaded.unwrap_err();
}

#[tokio::test]
async fn what_a_server_refuses_is_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let address = server(folder.path()).await;
    let store: Arc<dyn ObjectStore> = client(&address, "secret");
    store.put(&Path::from("index"), file_of(10).into()).await.unwrap();
    let opening = async |store: Arc<dyn ObjectStore>, path: &str| {
        load(LaneTree::<u64, u64>::builder(), &Device::host(), store, Path::from(path)).await
    };
    opening(store.clone(), "index").await.unwrap();
    let error = opening(store, "none").await.unwrap_err();
    assert!(
        matches!(&error, Error::Io { action: "opening the file", source, .. } if source.to_string().contains("none"))
    );
    let error = opening(client(&address, "wrong"), "index").await.unwrap_err();
    assert!(matches!(&error, Error::Io { action: "opening the file", .. }), "{error}");
}
