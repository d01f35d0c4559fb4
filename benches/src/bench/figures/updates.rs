//! Bulk builds from pairs on the device, and batches of updates there.

use crate::bench::columns::power;
use crate::bench::data::{BenchWord, Data, miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Part, Run, either};
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::cell::RefCell;
use core::fmt::Display;
use lanetree::harmonia::{BuildScratch, Builder, UpdateScratch};
use lanetree::{Batch, Buffer, Harmonia, OpKind, UpdatePath};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new(
    "updates",
    Run::Part(Part::AfterTree(|session, keys| either!(keys, data => measure(session, data)))),
);

/// The part of each leaf that is filled in trees that are updated.
const FILL: f64 = 0.7;

/// Operations of the batches, as powers of two.
const BATCHES: [u32; 7] = [10, 12, 14, 16, 18, 20, 22];

/// Trees over the same pairs as `data`, built on the device, and batches of inserts into one of them.
fn measure<W: BenchWord>(session: &mut Session, data: &Data<W>) -> Result<()> {
    let sorted = (session.device.upload(&data.keys)?, session.device.upload(&data.values)?);
    build(session, data, &sorted, true)?;
    {
        let mut keys = data.keys.clone();
        sort_by_word(&mut keys, |key| mix(key.widen())).expect("memory for a batch");
        let values: Vec<W> = keys.par_iter().map(|&key| value_of(key)).collect();
        let shuffled = (session.device.upload(&keys)?, session.device.upload(&values)?);
        build(session, data, &shuffled, false)?;
    }
    for size in BATCHES {
        if 1_usize << size <= data.len() / 4 {
            inserts(session, data, &sorted, size)?;
        }
    }
    Ok(())
}

/// One build of all pairs, sorted or not; scratch memory apart, its allocations are part of it.
fn build<W: BenchWord>(
    session: &mut Session,
    data: &Data<W>,
    pairs: &(Buffer<W>, Buffer<W>),
    is_sorted: bool,
) -> Result<()> {
    let operation = if is_sorted { "build_sorted_on" } else { "build_on" };
    let what = format!("{operation}, n = {}", power(data.len() as u64));
    if !session.has_time(&what) {
        return Ok(());
    }
    let mut scratch = match is_sorted {
        true => BuildScratch::for_sorted(&session.device)?,
        false => BuildScratch::for_unsorted(&session.device, data.len())?,
    };
    let builder = Builder::<W, W>::default();
    let (timing, tree) = session.time_making(|| match is_sorted {
        true => builder.build_sorted_on(&session.stream, &pairs.0, &pairs.1, data.len(), &mut scratch),
        false => builder.build_on(&session.stream, &pairs.0, &pairs.1, data.len(), &mut scratch),
    })?;
    drop(scratch);
    let checksum = all_are_there(session, &what, &tree, &data.keys)?;
    push(session, data, &tree, (operation, data.len()), (timing, checksum), 0);
    Ok(())
}

/// Batches of 2^size new keys into the same tree; each is removed again before the next, untimed.
fn inserts<W: BenchWord>(
    session: &mut Session,
    data: &Data<W>,
    pairs: &(Buffer<W>, Buffer<W>),
    size: u32,
) -> Result<()> {
    let what = format!("batches of 2^{size} inserts, n = {}", power(data.len() as u64));
    if !session.has_time(&what) {
        return Ok(());
    }
    let count = 1 << size;
    let scratch = UpdateScratch::<W, W>::new(&session.device, count)?;
    let mut build_scratch = BuildScratch::for_sorted(&session.device)?;
    let builder = Builder::<W, W>::default().fill(FILL);
    let tree = builder.build_sorted_on(&session.stream, &pairs.0, &pairs.1, data.len(), &mut build_scratch)?;
    let scratch = RefCell::new(scratch);
    let batch = RefCell::new(Batches::new(session, count)?);
    let mut state = (tree, Vec::new());
    let timing = session.time_prepared(
        &mut state,
        |(tree, paths)| {
            // Out with the last batch, in with new keys: every batch meets a tree of n pairs.
            let mut batch = batch.borrow_mut();
            if !paths.is_empty() {
                let (keys, values, removals) = (&batch.keys, &batch.values, &batch.removals);
                tree.apply_on(&session.stream, Batch::of_kinds(keys, values, removals), &mut scratch.borrow_mut())?;
            }
            batch.next()
        },
        |(tree, paths)| {
            let batch = batch.borrow();
            let scratch = &mut scratch.borrow_mut();
            let report = tree.apply_on(&session.stream, Batch::inserts(&batch.keys, &batch.values), scratch)?;
            paths.push(report.path);
            Ok(())
        },
    )?;
    let (tree, paths) = state;
    let (batch, scratch) = (batch.into_inner(), scratch.into_inner());
    let checksum = all_are_there(session, &what, &tree, &batch.host)?;
    // The first batch is the warm-up.
    let rebuilt = paths.iter().skip(1).filter(|&&path| path == UpdatePath::Rebuilt).count();
    let in_place = paths.len() - 1 - rebuilt;
    let operation = format!("insert, {in_place} of {} in place", paths.len() - 1);
    push(session, data, &tree, (&operation, count), (timing, checksum), scratch.bytes() as u64);
    Ok(())
}

/// A row about a tree and the scratch memory that was used with it.
fn push<W: BenchWord>(
    session: &mut Session,
    data: &Data<W>,
    tree: &Harmonia<W, W>,
    (operation, batch): (&str, usize),
    (timing, checksum): (Timing, Checksum),
    scratch_bytes: u64,
) {
    let row = Row::new(FIGURE.name, "harmonia", operation, batch, timing, checksum).on(session.device_name());
    let row = data.label(row).with("fanout", tree.fanout()).with("bytes_per_key", tree.stats().bytes_per_key);
    session.push(row.with("footprint_bytes", tree.stats().bytes() + scratch_bytes));
}

/// New keys for each batch.
struct Batches<W> {
    seed: u64,
    host: Vec<W>,
    keys: Buffer<W>,
    values: Buffer<W>,
    /// Kinds of operations: to remove the keys.
    removals: Buffer<OpKind>,
}

impl<W: BenchWord> Batches<W> {
    fn new(session: &Session, count: usize) -> Result<Self> {
        let (keys, values) = (session.device.alloc(count)?, session.device.alloc(count)?);
        let removals = session.device.upload(&vec![OpKind::REMOVE; count])?;
        let (seed, host) = (session.seed ^ 0xba7c, vec![W::default(); count]);
        Ok(Self { seed, host, keys, values, removals })
    }

    fn next(&mut self) -> Result<()> {
        self.seed = mix(self.seed);
        let seed = self.seed;
        self.host.par_iter_mut().enumerate().for_each(|(i, key)| *key = W::truncate(mix(seed.wrapping_add(i as u64))));
        let values: Vec<W> = self.host.par_iter().map(|&key| value_of(key)).collect();
        self.keys.copy_from(&self.host)?;
        Ok(self.values.copy_from(&values)?)
    }
}

/// Looks up keys, each of which must have its value.
fn all_are_there<W: BenchWord>(
    session: &Session,
    what: &dyn Display,
    tree: &Harmonia<W, W>,
    keys: &[W],
) -> Result<Checksum> {
    let queries = session.device.upload(keys)?;
    let mut values = session.device.alloc::<W>(keys.len())?;
    tree.on(&session.stream).miss(miss()).get(&queries, &mut values)?;
    session.stream.synchronize()?;
    session.check(what, "values", &values, keys.len(), miss(), |i| value_of(keys[i]))
}
