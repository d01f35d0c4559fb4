//! Batches of new keys, one after another, into trees that are built for them.

use crate::bench::batches::Sent;
use crate::bench::data::{BenchWord, miss, value_of};
use crate::bench::error::Result;
use crate::bench::session::Session;
use lanetree::lane_tree::{BuildScratch, Builder, UpdateScratch};
use lanetree::{LaneTree, Pool, UpdatePath};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

/// How many batches come one after another.
pub(crate) const SERIES: usize = 10;

/// A batch that was inserted.
pub(crate) struct Inserted {
    /// Batches of the same size that came before, untimed.
    pub(crate) before: usize,
    pub(crate) timing: Timing,
    pub(crate) checksum: Checksum,
    /// The way that it took.
    pub(crate) path: &'static str,
    pub(crate) bytes_per_key: f64,
}

/// Of [`SERIES`] batches of equal size, the first and the last: each is timed from the call to its return, into a tree of its
/// own over these sorted pairs, whose memory comes from a pool; and checked.
///
/// # Errors
/// The library's; a wrong answer.
pub(crate) fn inserts(
    session: &Session,
    builder: &Builder<u64, u64>,
    pairs: &Sent,
    all: &[u64],
    what: &str,
) -> Result<Vec<Inserted>> {
    let (len, count) = (pairs.device.0.len(), all.len() / SERIES);
    let batches: Vec<Sent> = all.chunks(count).map(|batch| Sent::new(session, batch)).collect::<Result<_>>()?;
    let pooled = Pool::new(&session.device).device();
    let stream = &pooled.stream()?;
    let mut build = BuildScratch::for_sorted(&pooled)?;
    let mut scratch = UpdateScratch::new(&pooled, count)?;
    let mut inserted = Vec::new();
    for before in [0, SERIES - 1] {
        let mut fresh = |scratch: &mut UpdateScratch<u64>| -> lanetree::Result<LaneTree<u64, u64>> {
            let mut tree = builder.build_sorted_on(stream, (&pairs.device.0, &pairs.device.1), len, &mut build)?;
            for batch in &batches[..before] {
                tree.apply_on(stream, &batch.device.0, &batch.device.1, None, scratch)?;
            }
            Ok(tree)
        };
        let own = &batches[before].device;
        let mut state = (None, UpdatePath::Unchanged, scratch);
        let timing = session.time_on_cpu(
            &mut state,
            |(tree, _, scratch)| {
                *tree = None;
                *tree = Some(fresh(scratch));
            },
            |(tree, path, scratch)| {
                let Some(Ok(tree)) = tree else {
                    tree.take().expect("made before")?;
                    return Ok(());
                };
                *path = tree.apply_on(stream, &own.0, &own.1, None, scratch)?.path;
                Ok(())
            },
        )?;
        let (tree, path, own_scratch) = state;
        scratch = own_scratch;
        let tree = tree.expect("made before")?;
        let checksum = all_are_there(session, what, &tree, &all[..(before + 1) * count])?;
        let path = match path {
            UpdatePath::InPlace => "in place",
            UpdatePath::Moved => "nodes divided",
            UpdatePath::Rebuilt => "rebuilt",
            _ => "unchanged",
        };
        let bytes_per_key = tree.bytes() as f64 / tree.len() as f64;
        inserted.push(Inserted { before, timing, checksum, path, bytes_per_key });
    }
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
    let found: Vec<W> = tree.get_many(keys)?.into_par_iter().map(|value| value.unwrap_or(miss())).collect();
    session.check_slice(&what, "values", &found, 0..keys.len(), miss(), |i| value_of(keys[i]))
}
