//! Look-ups that begin and end in ordinary host memory, by the CPU's clock.

use crate::bench::data::{BenchWord, miss, value_of};
use crate::bench::error::Result;
use crate::bench::hbtree::keys::Keys;
use crate::bench::session::Session;
use core::fmt::Display;
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

/// What a batch of queries took, and the sum of its last output.
pub(crate) struct Measured {
    pub(crate) count: usize,
    pub(crate) timing: Timing,
    pub(crate) checksum: Checksum,
}

/// Decides the ranks that the figures ask for.
const RANKS: u64 = 0x4b2;

/// Times look-ups of random keys that are all there, other ones in every run: with the same ones, the caches of a large
/// machine would hold most of what is asked for. `get` looks up a batch, and `word` is the value of a result, or the miss.
///
/// # Errors
/// Of `get`; [`Wrong`](crate::bench::error::Error::Wrong) with the first difference.
pub(crate) fn measure<W: BenchWord, O: Copy + Default + Send + Sync>(
    session: &Session,
    what: &dyn Display,
    keys: &Keys<W>,
    get: impl Fn(&[W], &mut [O]) -> Result<()>,
    word: impl Fn(O) -> W + Send + Sync,
) -> Result<Measured> {
    measure_count(session, what, keys, 1 << session.plan.queries, get, word)
}

/// [`measure`], of batches of `count` queries.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_count<W: BenchWord, O: Copy + Default + Send + Sync>(
    session: &Session,
    what: &dyn Display,
    keys: &Keys<W>,
    count: usize,
    get: impl Fn(&[W], &mut [O]) -> Result<()>,
    word: impl Fn(O) -> W + Send + Sync,
) -> Result<Measured> {
    measure_ranks(session, what, keys, (count, keys.shuffled(session.seed ^ RANKS)), get, word)
}

/// [`measure_count`], of the keys of any ranks: `rank` gives the ranks of a round's queries, one by one.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_ranks<W: BenchWord, O: Copy + Default + Send + Sync>(
    session: &Session,
    what: &dyn Display,
    keys: &Keys<W>,
    (count, rank): (usize, impl Fn(u64, usize, usize) -> usize + Sync),
    get: impl Fn(&[W], &mut [O]) -> Result<()>,
    word: impl Fn(O) -> W + Send + Sync,
) -> Result<Measured> {
    session.doing(what);
    let mut state = (vec![W::default(); count], vec![O::default(); count]);
    let mut round = 0;
    let timing = session.time_on_cpu(
        &mut state,
        |(queries, out)| {
            queries.par_iter_mut().enumerate().for_each(|(i, query)| *query = keys.key(rank(round, count, i)));
            out.par_iter_mut().for_each(|out| *out = O::default());
            round += 1;
        },
        |(queries, out)| get(queries, out),
    )?;
    let (queries, out) = state;
    let found: Vec<W> = out.into_par_iter().map(word).collect();
    let checksum = session.check_slice(what, "values", &found, 0..count, miss(), |i| value_of(queries[i]))?;
    Ok(Measured { count, timing, checksum })
}

/// A pool of random queries that small batches are taken from.
pub(crate) fn pool<W: BenchWord>(session: &Session, keys: &Keys<W>, len: usize) -> Vec<W> {
    let rank = keys.shuffled(session.seed ^ RANKS);
    (0..len).into_par_iter().map(|i| keys.key(rank(0, len, i))).collect()
}
