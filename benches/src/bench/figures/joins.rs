//! Joins of rows with a LaneTree, and new indexes from one and a sorted batch, compared with copying the same number of bytes.

use crate::bench::bus::bus;
use crate::bench::ceilings::touched;
use crate::bench::data::{Batch, Data, Order, miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::figures::ceilings;
use crate::bench::lane_tree::combinations::Combinations;
use crate::bench::plan::main_of;
use crate::bench::queries::{batch_order, hit_rate};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::primitives::{RadixSortScratch, radix_sort};
use lanetree::{DeviceMatches, JoinScratch, LaneTree, Matches};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_joins::{Bands, Kept, Rows, Sums, band_sums, semi_join};
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("joins", Run::Alone(measure));

/// Pairs of a band.
const BAND: usize = 8;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    ceilings::copy(session)?;
    let size = main_of(&request.sizes);
    let data = Data::<u64>::uniform(1 << size, session.seed_of(size));
    let tree = LaneTree::builder().build_sorted(&session.device, &data.keys, &data.values)?;
    let subject = Subject { data: &data, tree };
    for order in [Order::Random, Order::Sorted] {
        let Some(sorted) = data.sorted_batch(1 << session.plan.queries, true, session.seed) else { return Ok(()) };
        let batch = sorted.ordered(order, session.seed);
        if session.has_time(format_args!("joins, {}", order.name())) {
            subject.joins(session, &batch, order)?;
        }
    }
    drop(subject);
    let combinations = Combinations::new(session, FIGURE.name, &data)?;
    for batch in [20, 22, 24, 26].map(|most: u32| most.saturating_sub(26 - 26.min(size)).max(4)) {
        if session.has_time(format_args!("new indexes, from a batch of 2^{batch}")) {
            combinations.measure(session, 1 << batch)?;
        }
    }
    Ok(())
}

struct Subject<'a> {
    data: &'a Data<u64>,
    tree: LaneTree<u64, u64>,
}

impl Subject<'_> {
    fn row(
        &self,
        session: &Session,
        index: &'static str,
        operation: &str,
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let row = Row::new(FIGURE.name, index, operation, batch, timing, checksum).on(session.device_name());
        self.data.label(row)
    }

    /// Adds a row with the ceiling of copying `bytes` bytes.
    fn push(&self, session: &mut Session, row: Row, bytes: f64) {
        let ceiling = session.ceilings.copy.map(|copy| row.batch as f64 * copy / bytes);
        session.push(row.with("ceiling_giga_per_second", ceiling));
    }

    /// Bytes of the lines that `probes` random probes touch.
    fn line_bytes(&self, probes: usize) -> f64 {
        touched(probes as f64, self.tree.stats().buckets as f64) * 64.0
    }

    /// Joins of rows with these keys.
    fn joins(&self, session: &mut Session, batch: &Batch<u64>, order: Order) -> Result<()> {
        let (count, keys) = (batch.queries.len(), session.device.upload(&batch.queries)?);
        let (rows, lines) = (count as f64, self.line_bytes(count));
        let with_order = |row: Row| row.with("order", order.name());

        // What a sort-merge join begins with.
        let amount = |i: usize| mix(i as u64) | 1;
        let amounts: Vec<u64> = (0..count).into_par_iter().map(amount).collect();
        let amounts = session.device.upload(&amounts)?;
        let mut out = (session.device.alloc(count)?, session.device.alloc(count)?);
        let mut scratch = RadixSortScratch::for_pairs(&session.device, count)?;
        let timing = session.time_call(&mut out, |(sorted, values)| {
            let sorted = (sorted, values);
            radix_sort(&session.stream, (&keys, &amounts), count, 0..64, sorted, &mut scratch)
        })?;
        let mut expected = batch.queries.clone();
        sort_unstable_by(&mut expected, Ord::cmp);
        let checksum = session.check(&"sort", "keys", &out.0, count, u64::MAX, |i| expected[i])?;
        drop((out, scratch, expected));
        let row = with_order(self.row(session, "primitives", "radix_sort_pairs", count, timing, checksum));
        let sort = row.giga_per_second;
        self.push(session, row, 32.0 * rows);

        let hits = batch.origins.par_iter().count_if(|origin| !origin.is_miss());
        for (operation, threshold) in [("semi_join", 0), ("semi_join, 1/8 of the rows", u64::MAX / 8 * 7)] {
            let mut kept = Kept::new(&session.device, count)?;
            let timing = session.time_call(&mut kept, |kept| {
                let rows = Rows { keys: &keys, amounts: &amounts };
                semi_join(&session.stream, &self.tree, rows, threshold, kept)
            })?;
            let (passed, checksum) = check_kept(session, operation, batch, amount, threshold, &kept)?;
            let row = with_order(self.row(session, "lanetree", operation, count, timing, checksum));
            let row = row.with("hit_rate", hit_rate(true)).with("kept", passed.kept as u64);
            let x_sort = row.giga_per_second / sort;
            let read = 8.0 * rows + 8.0 * passed.probed as f64;
            let bytes = read + 16.0 * passed.kept as f64 + self.line_bytes(passed.probed);
            self.push(session, row.with("x_sort", x_sort), bytes);
        }
        drop(amounts);
        self.bands(session, batch, order)?;

        let mut scratch = JoinScratch::new(&session.device, count)?;
        let mut out = DeviceMatches::new(&session.device, count)?;
        let timing = session.time_call(&mut out, |out| {
            self.tree.on(&session.stream).order(batch_order(order)).join(&keys, &mut scratch, out)
        })?;
        drop(scratch);
        session.expect(&"join", "matches", out.count.to_vec()?[0], hits as u64)?;
        let expected: Vec<u64> = (0..count as u64)
            .into_par_iter()
            .filter_collect(|&i| !batch.origins[i as usize].is_miss())
            .expect("memory for a batch");
        let row_of = |i: usize| batch.origins[expected[i] as usize].rank() as u64;
        let probes = session.check(&"join", "probes", &out.probes, hits, u64::MAX, |i| expected[i])?;
        let checksum = probes.and(session.check(&"join", "rows", &out.rows, hits, u64::MAX, row_of)?);
        drop(out);
        let row = with_order(self.row(session, "lanetree", "join", count, timing, checksum));
        let x_sort = row.giga_per_second / sort;
        let row = row.with("hit_rate", hit_rate(true)).with("x_sort", x_sort);
        self.push(session, row, 8.0 * rows + 16.0 * hits as f64 + lines);
        drop(keys);

        // From host memory.
        let mut found = Matches::default();
        for (operation, is_new) in [("join_many", true), ("join_many_into", false)] {
            let timing = session.time_on_cpu(
                &mut found,
                |found| if is_new { *found = Matches::default() } else { found.rows.fill(miss()) },
                |found| {
                    match is_new {
                        true => *found = self.tree.join_many(&batch.queries)?,
                        false => self.tree.join_many_into(&batch.queries, found)?,
                    }
                    Ok(())
                },
            )?;
            let probes =
                session.check_slice(&operation, "probes", &found.probes, 0..hits, u64::MAX, |i| expected[i])?;
            let checksum =
                probes.and(session.check_slice(&operation, "rows", &found.rows, 0..hits, u64::MAX, row_of)?);
            let row = with_order(self.row(session, "lanetree", operation, count, timing, checksum));
            let ceiling = bus::<u64, u64>(session, count, count)?.map(|ms| rows / ms / 1e6);
            session.push(row.with("hit_rate", hit_rate(true)).with("ceiling_giga_per_second", ceiling));
        }
        Ok(())
    }

    /// The band join.
    fn bands(&self, session: &mut Session, batch: &Batch<u64>, order: Order) -> Result<()> {
        let (data, count) = (self.data, batch.queries.len());
        if data.len() <= BAND {
            return Ok(());
        }
        let firsts = batch.first_ranks(data.len() - BAND - 1);
        let lows: Vec<u64> = firsts.par_iter().map(|&rank| data.keys[rank]).collect();
        let ends: Vec<u64> = firsts.par_iter().map(|&rank| data.keys[rank + BAND]).collect();
        let (lows, ends) = (session.device.upload(&lows)?, session.device.upload(&ends)?);
        let mut out = (session.device.alloc::<u64>(count)?, session.device.alloc::<u64>(count)?);
        let timing = session.time_call(&mut out, |(sums, last_keys)| {
            let bands = Bands { lows: &lows, ends: &ends };
            band_sums(&session.stream, &self.tree, bands, u64::MAX, Sums { sums, last_keys })
        })?;
        let sum =
            |i: usize| data.values[firsts[i]..][..BAND].iter().fold(0, |sum: u64, value| sum.wrapping_add(*value));
        let sums = session.check(&"band_sums", "sums", &out.0, count, miss(), sum)?;
        let last = |i: usize| data.keys[firsts[i] + BAND - 1];
        let checksum = sums.and(session.check(&"band_sums", "last keys", &out.1, count, miss(), last)?);
        let row = self.row(session, "lanetree", &format!("band_sums of {BAND}"), count, timing, checksum);
        let bytes = 32.0 * count as f64 + 16.0 * touched((BAND * count) as f64, data.len() as f64);
        self.push(session, row.with("order", order.name()), bytes);
        Ok(())
    }
}

/// Rows that pass the filter of a semi-join, and of these the ones that are kept.
struct Passed {
    probed: usize,
    kept: usize,
}

/// Compares what a semi-join has kept, which is in no particular order, by its sums.
fn check_kept(
    session: &Session,
    operation: &str,
    batch: &Batch<u64>,
    amount: impl Fn(usize) -> u64 + Sync,
    threshold: u64,
    kept: &Kept<u64>,
) -> Result<(Passed, Checksum)> {
    let passing = (0..batch.queries.len())
        .into_par_iter()
        .filter_collect(|&i| amount(i) > threshold)
        .expect("memory for a batch");
    let probed = passing.len();
    let sums = passing.par_iter().map(|&i| match (batch.queries[i], batch.origins[i].is_miss()) {
        (_, true) => [0; 4],
        // The last one tells whether each key still has its own amount.
        (key, false) => [1, value_of(key), key, mix(key ^ mix(amount(i)))],
    });
    let add = |a: [u64; 4], b: [u64; 4]| core::array::from_fn(|i| a[i].wrapping_add(b[i]));
    let expected = sums.reduce(|| [0; 4], add);
    let rows = kept.to_vec()?;
    let found = rows.par_iter().map(|&(key, amount)| [1, 0, key, mix(key ^ mix(amount))]).reduce(|| [0; 4], add);
    let found = [found[0], kept.sum()?, found[2], found[3]];
    let checksum = session.check_slice(&operation, "sums of what was kept", &found, 0..4, u64::MAX, |i| expected[i])?;
    Ok((Passed { probed, kept: expected[0] as usize }, checksum))
}
