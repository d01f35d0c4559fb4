//! How fast an index is saved to a file and loaded from it, beside plain writes and reads of the same bytes and the bus:
//!
//! ```console
//! $ cargo run --release -p lanetree-files --example rates -- 24
//! $ cargo run --release -p lanetree-files --features cuda --example rates -- 28 /tmp cuda --json rates.json
//! ```
//!
//! The arguments are the number of pairs (u64 to u64) as a power of two, a folder on the disk, which needs room for 16 bytes per pair,
//! and `host` or `cuda`. Main memory needs three times as much. Fastest of three runs after one that is not counted, by the CPU's clock;
//! `--json FILE` writes all three.

use lanetree_files::{Load, Save};
use lanetree_frame::parallel::*;
use lanetree_frame::{Device, DeviceKind};
use lanetree_hbtree::HbTree;
use lanetree_lane_tree::LaneTree;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::num::NonZero;
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
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = match arguments.iter().position(|argument| argument == "--json") {
        Some(at) if at + 1 < arguments.len() => arguments.drain(at..at + 2).nth(1),
        Some(_) => return Err("--json needs the name of a file".into()),
        None => None,
    };
    let mut arguments = arguments.into_iter();
    let size: u32 = arguments.next().as_deref().unwrap_or("20").parse()?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let device = match arguments.next().as_deref() {
        Some("cuda") => Device::cuda(0)?,
        Some("host") | None => Device::host(),
        Some(other) => return Err(format!("a device is host or cuda, and not {other}").into()),
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
    let write = seconds(path, true, || Ok(write_plain(path, &parts)?))?;
    let save = seconds(path, true, || Ok(tree.save(path)?))?;
    drop(tree);

    // The pages of the file that was just written, into memory that is there.
    let mut room = vec![1_u8; bytes];
    let read = seconds(path, false, || read_plain(&File::open(path)?, &mut room))?;
    drop(room);
    let bus = bus(&device, bytes)?;

    let mut loaded = None;
    let load = seconds(path, false, || {
        loaded = None;
        loaded = Some(LaneTree::<u64, u64>::builder().load(&device, path)?);
        Ok(())
    })?;
    check(&keys, |queries, found| Ok(loaded.take().expect("an index").get_many_or(queries, 0, found)?))?;
    let mut leaves = None;
    let load_leaves = seconds(path, false, || {
        leaves = None;
        leaves = Some(HbTree::<u64, u64>::builder().load(&device, path)?);
        Ok(())
    })?;
    check(&keys, |queries, found| Ok(leaves.take().expect("an index").get_many_or(queries, 0, found)?))?;

    let (there, back) = bus.as_ref().map_or((0.0, 0.0), |(there, back)| (fastest(there), fastest(back)));
    let mut rows = vec![Row::ceiling("write and sync", write.clone()), Row::ceiling("read, page cache", read.clone())];
    if let Some((there, back)) = bus {
        rows.extend([Row::ceiling("bus, to the device", there), Row::ceiling("bus, from it", back)]);
    }
    rows.push(Row::beside(fastest(&write).max(back), "LaneTree: save", save));
    rows.push(Row::beside(fastest(&read).max(there), "LaneTree: load and build", load));
    // Its leaves stay in main memory.
    rows.push(Row::beside(fastest(&read), "HbTree: load and build", load_leaves));

    println!("{:32} {:>9} {:>7} {:>14}", "", "seconds", "GB/s", "of the slower");
    for Row { what, runs, of_slower } in &rows {
        let share = of_slower.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share));
        println!("{what:32} {:9.3} {:7.2} {share:>14}", fastest(runs), bytes as f64 / fastest(runs) / 1e9);
    }
    if let Some(json) = json {
        fs::write(json, to_json(&device.to_string(), size, bytes, &rows))?;
    }
    Ok(())
}

/// A line of the result.
struct Row {
    what: &'static str,
    /// Seconds.
    runs: Vec<f64>,
    /// The time of the slower of disk and bus, as a part of the row's.
    of_slower: Option<f64>,
}

impl Row {
    fn ceiling(what: &'static str, runs: Vec<f64>) -> Self {
        Self { what, runs, of_slower: None }
    }

    fn beside(slower: f64, what: &'static str, runs: Vec<f64>) -> Self {
        let of_slower = Some(slower / fastest(&runs));
        Self { what, runs, of_slower }
    }
}

/// The result as JSON. No name in it has quotes.
fn to_json(device: &str, size: u32, bytes: usize, rows: &[Row]) -> String {
    let threads = std::thread::available_parallelism().map_or(0, NonZero::get);
    let rows: Vec<String> = rows
        .iter()
        .map(|Row { what, runs, of_slower }| {
            let share = of_slower.map_or("null".to_owned(), |share| format!("{share:.4}"));
            let rate = bytes as f64 / fastest(runs) / 1e9;
            format!(
                "    {{\"what\": \"{what}\", \"seconds\": {runs:?}, \"gb_per_s\": {rate:.3}, \"of_slower\": {share}}}"
            )
        })
        .collect();
    format!(
        "{{\n  \"device\": \"{device}\",\n  \"cpu_threads\": {threads},\n  \"key\": \"u64\", \"value\": \"u64\",\n  \"log2_pairs\": {size},\n  \"bytes\": {bytes},\n  \"rows\": [\n{}\n  ]\n}}\n",
        rows.join(",\n")
    )
}

fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Seconds of each run.
fn seconds(path: &Path, removes: bool, mut work: impl FnMut() -> Outcome) -> Outcome<Vec<f64>> {
    let mut runs = Vec::new();
    for run in 0..=RUNS {
        if removes {
            let _ = fs::remove_file(path);
        }
        let start = Instant::now();
        work()?;
        if run > 0 {
            runs.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(runs)
}

fn fastest(runs: &[f64]) -> f64 {
    runs.iter().copied().fold(f64::INFINITY, f64::min)
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

/// Seconds of so many bytes over the bus, to the device and from it; `None` without a bus.
fn bus(device: &Device, bytes: usize) -> Outcome<Option<(Vec<f64>, Vec<f64>)>> {
    if device.kind() != DeviceKind::Cuda {
        return Ok(None);
    }
    let len = bytes.min(BUS);
    let (mut on_host, mut on_device) = (device.pinned::<u8>(len)?, device.alloc_zeroed::<u8>(len)?);
    let stream = device.stream()?;
    let nowhere = Path::new("");
    let there = seconds(nowhere, false, || {
        on_device.upload_async(&stream, 0, &on_host, 0..len)?;
        Ok(stream.synchronize()?)
    })?;
    let back = seconds(nowhere, false, || {
        on_device.download_async(&stream, 0..len, &mut on_host, 0)?;
        Ok(stream.synchronize()?)
    })?;
    let of_all = |runs: Vec<f64>| runs.iter().map(|run| run * bytes as f64 / len as f64).collect();
    Ok(Some((of_all(there), of_all(back))))
}

/// Looks up some keys.
fn check(keys: &[u64], get: impl FnOnce(&[u64], &mut [u64]) -> Outcome) -> Outcome {
    let queries: Vec<u64> = (0..1 << 16).map(|i| keys[(mixed(i) % keys.len() as u64) as usize]).collect();
    let mut found = vec![0; queries.len()];
    get(&queries, &mut found)?;
    let wrong = queries.iter().zip(&found).find(|(key, value)| mixed(**key) != **value);
    wrong.map_or(Ok(()), |(key, value)| Err(format!("{key} is at {value}").into()))
}
