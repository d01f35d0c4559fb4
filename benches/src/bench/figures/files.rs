//! LaneTree saved to a file, and LaneTree and an HB+-tree loaded from it, compared with plain writes and reads of the
//! same bytes and the bus.

use crate::bench::bus::bus;
use crate::bench::columns::Column;
use crate::bench::data::mix;
use crate::bench::error::{Error, Result};
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::files::{Load, Save};
use lanetree::{HbTree, LaneTree};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) const FIGURE: Measurement = Measurement::new("files", Run::Alone(measure)).columns(&[(
    "GB/s",
    Column::of("GB/s", |row| {
        row.number("file_bytes").map(|bytes| format!("{:.2}", bytes / row.timing.median_ms / 1e6))
    }),
)]);

/// Bytes of the copies over the bus, at most: longer ones are as fast.
const BUS_BYTES: usize = 1 << 30;

/// Bytes that are written, and read, at a time.
const WRITTEN: usize = 4 << 20;
const READ: usize = 1 << 20;

/// Look-ups that check an index.
const CHECKED: u64 = 1 << 16;

/// Keys ascend, with gaps that nobody guesses.
fn key(seed: u64, i: u64) -> u64 {
    (i << 32) | mix(seed ^ i) >> 32
}

fn of_disk(error: io::Error) -> Error {
    Error::Usage(format!("the disk: {error}"))
}

fn of_file(error: lanetree::files::Error) -> Error {
    match error {
        lanetree::files::Error::Index(error) => error.into(),
        other => Error::Usage(format!("a file of pairs: {other}")),
    }
}

/// A file that is removed.
struct Scratch<'a>(&'a Path);

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let folder = request.input.clone().unwrap_or_else(std::env::temp_dir);
    let name = |what| folder.join(format!("lanetree-bench-{}.{what}", std::process::id()));
    let (saved, plain) = (name("saved"), name("plain"));
    let _both = (Scratch(&saved), Scratch(&plain));
    for &size in &request.sizes {
        let what = format!("files of 2^{size} pairs");
        if session.has_time(&what) {
            of_size(session, size, &saved, &plain)?;
        }
    }
    Ok(())
}

fn of_size(session: &mut Session, size: u32, saved: &Path, plain: &Path) -> Result<()> {
    let (len, seed) = (1_usize << size, session.seed_of(main_of(&[size])));
    let keys: Vec<u64> = (0..len as u64).into_par_iter().map(|i| key(seed, i)).collect();
    let values: Vec<u64> = keys.par_iter().map(|&key| mix(key)).collect();
    let tree = LaneTree::<u64, u64>::builder().build_sorted(&session.device, &keys, &values)?;

    session.doing("write");
    let parts: [&[u8]; 2] = [bytemuck::cast_slice(&keys), bytemuck::cast_slice(&values)];
    // Removed before each run, so that the disk needs room for one file.
    let remove = |path| drop(Scratch(path));
    let write = session.time_on_cpu(&mut (), |()| remove(plain), |()| write_plain(plain, &parts).map_err(of_disk))?;
    remove(plain);

    session.doing("save");
    let save = session.time_on_cpu(&mut (), |()| remove(saved), |()| tree.save(saved).map_err(of_file))?;
    drop(tree);
    let bytes = fs::metadata(saved).map_err(of_disk)?.len() as usize;

    session.doing("read");
    // The pages of a file that was just written.
    let mut room = vec![1_u8; bytes];
    let file = File::open(saved).map_err(of_disk)?;
    let read = session.time_on_cpu(&mut room, |_| (), |room| read_plain(&file, room).map_err(of_disk))?;
    drop(room);

    session.doing("bus");
    let on_bus = BUS_BYTES.min(bytes);
    let times = bytes as f64 / on_bus as f64;
    let there = bus::<u8, u8>(session, on_bus, 0)?.map(|ms| ms * times);
    let back = bus::<u8, u8>(session, 0, on_bus)?.map(|ms| ms * times);

    session.doing("load");
    let device = session.device.clone();
    let (load, tree) = session.time_making(|| LaneTree::<u64, u64>::builder().load(&device, saved).map_err(of_file))?;
    session.expect(&"load", "pairs", tree.len(), len as u64)?;
    let count = CHECKED.min(len as u64);
    let at = |i: usize| keys[(mix(seed ^ i as u64) % len as u64) as usize];
    let queries: Vec<u64> = (0..count as usize).map(at).collect();
    let mut found = vec![0; queries.len()];
    tree.get_many_or(&queries, 0, &mut found)?;
    let checksum = session.check_slice(&"load", "values", &found, 0..found.len(), 0, |i| mix(queries[i]))?;

    drop(tree);

    session.doing("load of an HB+-tree");
    let loaded = || HbTree::<u64, u64>::builder().load(&device, saved).map_err(of_file);
    let (load_leaves, tree) = session.time_making(loaded)?;
    found.fill(0);
    tree.get_many_or(&queries, 0, &mut found)?;
    let of_leaves = session.check_slice(&"load", "values", &found, 0..found.len(), 0, |i| mix(queries[i]))?;

    let slower = |disk: &Timing, bus: Option<f64>| disk.median_ms.max(bus.unwrap_or(0.0));
    let of_save = slower(&write, back) / save.median_ms;
    let of_load = slower(&read, there) / load.median_ms;
    // Its leaves stay in main memory.
    let of_load_leaves = read.median_ms / load_leaves.median_ms;
    let mut push = |index, operation: &str, (timing, checksum), share: Option<f64>| {
        let mut row = Row::new(FIGURE.name, index, operation, len, timing, checksum);
        row.device = session.device_name().to_owned();
        (row.keys, row.key, row.value, row.n) = ("gaps".to_owned(), "u64", "u64", len as u64);
        row.set("threads", rayon::current_num_threads());
        row.set("file_bytes", bytes);
        if let Some(share) = share {
            row.set("of_slower", share);
        }
        session.push(row);
    };
    let none = Checksum::default();
    push("ceiling", "write", (write, none), None);
    push("ceiling", "read", (read, none), None);
    for (operation, ms) in [("bus, to the device", there), ("bus, from it", back)] {
        if let Some(ms) = ms {
            push("ceiling", operation, (Timing::of(vec![ms]), none), None);
        }
    }
    push("lanetree", "save", (save, checksum), Some(of_save));
    push("lanetree", "load", (load, checksum), Some(of_load));
    push("hbtree", "load", (load_leaves, of_leaves), Some(of_load_leaves));
    Ok(())
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

/// Reads a file, by all threads.
fn read_plain(file: &File, room: &mut [u8]) -> io::Result<()> {
    let read = |(number, piece): (usize, &mut [u8])| file.read_exact_at(piece, (number * READ) as u64);
    let all: Vec<io::Result<()>> = room.par_chunks_mut(READ).enumerate().map(read).collect();
    all.into_iter().collect()
}
