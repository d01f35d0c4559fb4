//! An index in an object store: `cargo run -p lanetree-store --example load`.

use lanetree::files::Save;
use lanetree::{Device, LaneTree};
use object_store::{local::LocalFileSystem, path::Path};
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::best();
    let keys: Vec<u64> = (0..1_000_000).collect();
    let values: Vec<u64> = keys.iter().map(|key| key * key).collect();
    let folder = std::env::temp_dir();
    let name = format!("lanetree-{}.index", std::process::id());
    LaneTree::build(&device, &keys, &values)?.save(folder.join(&name))?;

    let store = Arc::new(LocalFileSystem::new_with_prefix(&folder)?);
    let index = lanetree_store::load(LaneTree::<u64, u64>::builder(), &device, store, Path::from(&*name)).await?;
    let found = index.get_many(&[7])?[0].expect("it was saved");
    println!("an index of {} pairs in a store; 7 is at {found}", index.len());
    Ok(std::fs::remove_file(folder.join(name))?)
}
