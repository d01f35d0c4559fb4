//! Batches of new keys, one after another, into trees that are built for them.

use crate::bench::batches::{Sent, values};
use crate::bench::data::{BenchWord, miss, value_of};
use crate::bench::error::Result;
use crate::bench::session::Session;
use lanetree::lane_tree::{BuildScratch, Builder, UpdateScratch};
use lanetree::{Batch, LaneTree, Pool, UpdatePath};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::time::Instant;

/// How many batches come one after another.
pub(crate) const SERIES: usize = 10;

/// Where batches come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They are on the device.
    Device,
    /// Pinned memory of the host, from where they are sent within the time.
    Pinned,
    /// Ordinary memory of the host: the host form.
    Host,
}

/// A batch that was inserted.
pub(crate) struct Inserted {
    /// Batches of the same size that came before.
    pub(crate) before: usize,
    pub(crate) timing: Timing,
    pub(crate) checksum: Checksum,
    /// The way that it took.
    pub(crate) path: &'static str,
    pub(crate) bytes_per_key: f64,
}

/// Of [`SERIES`] batches of equal size, one after another into a tree over these sorted pairs, whose memory comes from
/// a pool: the first, the slowest of the others, and the last. Each is timed from the first call to the last one's return. In the last
/// run each batch's keys are looked up after it, and all keys at the end.
///
/// # Errors
/// The library's; a wrong answer.
pub(crate) fn inserts(
    session: &Session,
    builder: &Builder<u64, u64>,
    pairs: &Sent,
    all: &[u64],
    origin: Origin,
    what: &str,
) -> Result<Vec<Inserted>> {
    let (len, count) = (pairs.device.0.len(), all.len() / SERIES);
    let of_batches = values(all);
    let mut batches: Vec<Sent> = all.chunks(count).map(|batch| Sent::new(session, batch)).collect::<Result<_>>()?;
    let pooled = Pool::new(&session.device).device();
    let stream = &pooled.stream()?;
    let mut build = BuildScratch::for_sorted(&pooled)?;
    let mut scratch = UpdateScratch::new(&pooled, count)?;
    let mut runs_ms = vec![Vec::new(); SERIES];
    let mut inserted = Vec::new();
    // The first run brings the pool its memory.
    for run in 0..=session.plan.runs {
        let is_last = run == session.plan.runs;
        let mut tree = builder.build_sorted_on(stream, &pairs.device.0, &pairs.device.1, len, &mut build)?;
        for (before, batch) in batches.iter_mut().enumerate() {
            stream.synchronize()?;
            let start = Instant::now();
            let own = before * count..(before + 1) * count;
            if origin == Origin::Pinned {
                batch.send(session)?;
            }
            let path = match origin {
                Origin::Host => tree.insert_many(&all[own.clone()], &of_batches[own.clone()])?.path,
                Origin::Device | Origin::Pinned => {
                    tree.apply_on(stream, Batch::inserts(&batch.device.0, &batch.device.1), &mut scratch)?.path
                }
            };
            let ms = start.elapsed().as_secs_f64() * 1e3;
            if run > 0 {
                runs_ms[before].push(ms);
            }
            if is_last {
                let checksum = all_are_there(session, what, &tree, &all[own])?;
                let path = match path {
                    UpdatePath::InPlace => "in place",
                    UpdatePath::Moved => "nodes divided",
                    UpdatePath::Rebuilt => "rebuilt",
                    _ => "unchanged",
                };
                let bytes_per_key = tree.bytes() as f64 / tree.len() as f64;
                let timing = Timing::of(runs_ms[before].clone());
                inserted.push(Inserted { before, timing, checksum, path, bytes_per_key });
            }
        }
        if is_last {
            all_are_there(session, what, &tree, all)?;
        }
    }
    let between = 1..SERIES - 1;
    let slowest = between.max_by(|&a, &b| inserted[a].timing.median_ms.total_cmp(&inserted[b].timing.median_ms));
    inserted.retain(|batch| [0, SERIES - 1].contains(&batch.before) || Some(batch.before) == slowest);
    Ok(inserted)
}

/// Looks up all of these keys.
///
/// # Errors
/// A wrong answer; the library's.
pub(crate) fn all_are_there<W: BenchWord>(
    session: &Session,
    what: &str,
    tree: &LaneTree<W, W>,
    keys: &[W],
) -> Result<Checksum> {
    session.check_found(&what, &tree.get_many(keys)?, keys.len(), miss(), |i| value_of(keys[i]))
}
