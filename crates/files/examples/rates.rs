//! How fast an index is saved to a file and loaded from it, beside plain writes and reads of the same bytes and the bus:
//!
//! ```console
//! $ cargo run --release -p lanetree-files --example rates -- 24
//! $ cargo run --release -p lanetree-files --features cuda --example rates -- 28 /tmp cuda
//! ```
//!
//! The arguments are the number of pairs (u64 to u64) as a power of two, a folder on the disk, which needs room for 16 bytes per pair,
//! and `host` or `cuda`. Main memory needs three times as much. Fastest of three runs after one that is not counted, by the CPU's clock.

use lanetree_files::{Load, Save};
use lanetree_frame::parallel::*;
use lanetree_frame::{Device, DeviceKind};
use lanetree_hbtree::HbTree;
use lanetree_lane_tree::LaneTree;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const RUNS: usize = 3;
/// Bytes that are written, and read, at a time.
const WRITTEN: usize = 4 << 20;
const READ: usize = 1 << 20;
/// Bytes of a copy over the bus, at most: longer ones are as fast.
const BUS: usize = 1 << 30;

/// A file that is removed.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let size: u32 = arguments.next().as_deref().unwrap_or("20").parse()?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let device = match arguments.next().as_deref() {
        Some("cuda") => Device::cuda(0)?,
        _ => Device::host(),
    };
    let file = Scratch(folder.join(format!("lanetree-rates-{}", std::process::id())));
    let path = &*file.0;
    let len = 1_usize << size;
    let bytes = 16 * len;
    println!("2^{size} pairs, {:.2} GB, in {}, on {device}", bytes as f64 / 1e9, folder.display());

    let keys: Vec<u64> = (0..len as u64).map(|i| i << 32 | mixed(i) >> 32).collect();
    let values: Vec<u64> = keys.iter().map(|&key| mixed(key)).collect();
    let tree = LaneTree::<u64, u64>::builder().build_sorted(&device, &keys, &values)?;

    let parts: [&[u8]; 2] = [bytemuck::cast_slice(&keys), bytemuck::cast_slice(&values)];
    // Removed before each run, so that the disk needs room for one file.
    let write = fastest(path, true, || Ok(write_plain(path, &parts)?))?;
    let save = fastest(path, true, || Ok(tree.save(path)?))?;
    drop(tree);

    // The pages of the file that was just written, into memory that is there.
    let mut room = vec![1_u8; bytes];
    let read = fastest(path, false, || read_plain(&File::open(path)?, &mut room))?;
    drop(room);
    let (there, back) = bus(&device, bytes)?;

    let mut loaded = None;
    let load = fastest(path, false, || {
        loaded = None;
        loaded = Some(LaneTree::<u64, u64>::builder().load(&device, path)?);
        Ok(())
    })?;
    check(&keys, |queries, found| Ok(loaded.take().expect("an index").get_many_or(queries, 0, found)?))?;
    let mut leaves = None;
    let load_leaves = fastest(path, false, || {
        leaves = None;
        leaves = Some(HbTree::<u64, u64>::builder().load(&device, path)?);
        Ok(())
    })?;
    check(&keys, |queries, found| Ok(leaves.take().expect("an index").get_many_or(queries, 0, found)?))?;

    println!("{:32} {:>9} {:>7} {:>14}", "", "seconds", "GB/s", "of the slower");
    let row = |what: &str, seconds: f64, slower: Option<f64>| {
        let share = slower.map_or(String::new(), |slower| format!("{:.1} %", 100.0 * slower / seconds));
        println!("{what:32} {seconds:9.3} {:7.2} {share:>14}", bytes as f64 / seconds / 1e9);
    };
    row("write and sync", write, None);
    row("read, page cache", read, None);
    if device.kind() == DeviceKind::Cuda {
        row("bus, to the device", there, None);
        row("bus, from it", back, None);
    }
    row("LaneTree: save", save, Some(write.max(back)));
    row("LaneTree: load and build", load, Some(read.max(there)));
    // Its leaves stay in main memory.
    row("HbTree: load and build", load_leaves, Some(read));
    Ok(())
}

fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Seconds of the fastest run.
fn fastest(path: &Path, removes: bool, mut work: impl FnMut() -> Outcome) -> Outcome<f64> {
    let mut fastest = f64::INFINITY;
    for run in 0..=RUNS {
        if removes {
            let _ = fs::remove_file(path);
        }
        let start = Instant::now();
        work()?;
        if run > 0 {
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(fastest)
}

/// Writes a new file and syncs it.
fn write_plain(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let file = File::create(path)?;
    let mut at = 0;
    for piece in parts.iter().flat_map(|part| part.chunks(WRITTEN)) {
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    file.sync_all()
}

/// Reads a file, by all threads, a MiB each at a time.
fn read_plain(file: &File, room: &mut [u8]) -> Outcome {
    let read = |(number, piece): (usize, &mut [u8])| file.read_exact_at(piece, (number * READ) as u64);
    let all = room.par_chunks_mut(READ).enumerate().map(read).try_collect()?;
    Ok(all.into_iter().collect::<io::Result<()>>()?)
}

/// Seconds of so many bytes over the bus, to the device and from it; 0 without a bus.
fn bus(device: &Device, bytes: usize) -> Outcome<(f64, f64)> {
    if device.kind() != DeviceKind::Cuda {
        return Ok((0.0, 0.0));
    }
    let len = bytes.min(BUS);
    let (mut on_host, mut on_device) = (device.pinned::<u8>(len)?, device.alloc_zeroed::<u8>(len)?);
    let stream = device.stream()?;
    let nowhere = Path::new("");
    let there = fastest(nowhere, false, || {
        on_device.upload_async(&stream, 0, &on_host, 0..len)?;
        Ok(stream.synchronize()?)
    })?;
    let back = fastest(nowhere, false, || {
        on_device.download_async(&stream, 0..len, &mut on_host, 0)?;
        Ok(stream.synchronize()?)
    })?;
    let times = bytes as f64 / len as f64;
    Ok((times * there, times * back))
}

/// Looks up some keys.
fn check(keys: &[u64], get: impl FnOnce(&[u64], &mut [u64]) -> Outcome) -> Outcome {
    let queries: Vec<u64> = (0..1 << 16).map(|i| keys[(mixed(i) % keys.len() as u64) as usize]).collect();
    let mut found = vec![0; queries.len()];
    get(&queries, &mut found)?;
    let wrong = queries.iter().zip(&found).find(|(key, value)| mixed(**key) != **value);
    wrong.map_or(Ok(()), |(key, value)| Err(format!("{key} is at {value}").into()))
}
