//! The latency of small batches that begin and end in host memory: one call after another, by one thread.

use crate::bench::error::Result;
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::fmt::Display;
use core::ops::Range;
use core::time::Duration;
use lanetree::{DeviceKind, Word};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::time::Instant;

/// Queries of the batches.
pub(crate) const SMALL: [usize; 3] = [1, 1 << 10, 1 << 14];

/// Calls by which a latency is judged: 200 of them take longer than the 99th percentile.
const CALLS: usize = 20_000;

/// Calls end early once they have taken so long, but not before there are [`FEWEST`]: ten of them take longer then.
const LONG: Duration = Duration::from_secs(10);
const FEWEST: usize = 1000;

/// Queries that the batches of the figure are taken from, as a power of two.
const POOL: u32 = 20;

/// What a number of calls took, and the sum of the last one's output.
pub(crate) struct Calls {
    timing: Timing,
    p99_ms: f64,
    checksum: Checksum,
    calls: usize,
}

impl Calls {
    /// Measures batches of `count` queries, taken from a pool one after another. `call` looks up the queries of a
    /// range; `value` is what it should find, `word` makes a number from that, which is `miss` where there is none. An
    /// element of every output is checked, and the last output as a whole.
    ///
    /// # Errors
    /// Of a call; [`Wrong`](crate::bench::error::Error::Wrong) with the first difference.
    pub(crate) fn measure<O: Copy + Default, V: Word>(
        session: &Session,
        row: &dyn Display,
        (count, pool): (usize, usize),
        mut call: impl FnMut(Range<usize>, &mut [O]) -> Result<()>,
        (word, miss): (impl Fn(O) -> V, V),
        value: impl Fn(usize) -> V + Sync,
    ) -> Result<Self> {
        let calls = if session.device.kind() == DeviceKind::Emulated { 3 } else { CALLS };
        let mut out = vec![O::default(); count];
        let mut runs = Vec::with_capacity(calls);
        let start_of = |number: usize| (number * count) % (pool - count + 1);
        let all = Instant::now();
        for number in 0..calls {
            if number >= FEWEST && all.elapsed() > LONG {
                break;
            }
            let (first, checked) = (start_of(number), number % count);
            out[checked] = O::default();
            let start = Instant::now();
            call(first..first + count, &mut out)?;
            runs.push(start.elapsed().as_secs_f64() * 1e3);
            let of = first + checked;
            session.check_slice(row, "values", &[word(out[checked])], of..of + 1, miss, &value)?;
        }
        let first = start_of(runs.len() - 1);
        let out: Vec<V> = out.into_iter().map(word).collect();
        let checksum = session.check_slice(row, "values", &out, 0..count, miss, |i| value(first + i))?;
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let p99_ms = sorted[(sorted.len() * 99).div_ceil(100) - 1];
        // The runs themselves are too many to be kept.
        let timing = Timing { runs_ms: Vec::new(), ..Timing::of(runs) };
        Ok(Self { timing, p99_ms, checksum, calls: sorted.len() })
    }

    /// A row of it.
    pub(crate) fn row(self, row: impl FnOnce(Timing, Checksum) -> Row) -> Row {
        let row = row(self.timing, self.checksum);
        row.with("p99_ms", self.p99_ms).with("calls", self.calls).with("threads", 1_usize)
    }
}

/// Queries that batches are taken from.
pub(crate) fn pool(session: &Session) -> usize {
    1 << session.plan.host_queries.min(POOL)
}
