//! Other trees compared with the implicit one.

use crate::bench::hbtree::plan::usual_bucket;
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::fmt::Display;
use lanetree::hbtree::{Implicit, Regular, Structure};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// What the regular tree should reach of the implicit one.
const TARGET: f64 = 0.85;

/// The rates of the implicit tree, by the conditions.
#[derive(Default)]
pub(crate) struct Relative(BTreeMap<String, f64>);

impl Relative {
    /// Notes the implicit tree's rate, or compares another tree's with it.
    pub(crate) fn compare(&mut self, conditions: impl Display, row: &mut Row) {
        let conditions = format!("{} {conditions}", row.device);
        if row.index == Implicit::NAME {
            self.0.insert(conditions, row.giga_per_second);
        } else {
            row.set("x_implicit", self.0.get(&conditions).map(|rate| row.giga_per_second / rate));
        }
    }
}

/// How the regular tree compares with the implicit one.
pub(crate) fn regular(rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    for (on_cpu, name) in [(true, "on the CPU alone"), (false, "with the device")] {
        let rows = rows.iter().filter(|row| row.index == Regular::NAME && (row.device == "cpu") == on_cpu);
        let ratios: Vec<f64> = rows.filter_map(|row| row.number("x_implicit")).collect();
        if let Some(lowest) = ratios.iter().copied().reduce(f64::min) {
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            writeln!(
                out,
                "  regular tree, {name}: {mean:.2} x the implicit tree, the mean; {lowest:.2} the lowest; target: {TARGET}"
            )?;
        }
    }
    Ok(())
}

/// Relates the rates and latencies of rows, by bucket, to those of the usual one.
pub(crate) fn to_usual_bucket(session: &Session, rows: &mut [Row]) {
    let usual = rows.iter().find(|row| row.integer("bucket") == Some(usual_bucket(session) as u64));
    let usual = usual.map(|row| (row.giga_per_second, row.number("latency_us")));
    for row in rows {
        row.set("ratio_to_baseline", usual.map(|(rate, _)| row.giga_per_second / rate));
        let latency = usual.and_then(|(_, us)| us).zip(row.number("latency_us"));
        row.set("latency_ratio", latency.map(|(usual, own)| own / usual));
    }
}

/// The paper's latency of a bucket, relative to that of buckets of 2^14.
pub(crate) fn papers_latency(bucket: usize) -> Option<&'static str> {
    match bucket.ilog2() {
        15 => Some("1.7"),
        16 => Some("2.7"),
        _ => None,
    }
}
