//! Ranges and prefixes: only where they begin and end, and with their pairs; compared with GRT's ranges.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::grt;
use crate::bench::cuart::subject::len;
use crate::bench::data::mix;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::ops::Range;
use lanetree::cuart::{DeviceByteRanges, GatherScratch};
use lanetree::{Buffer, ByteKeys, Cuart, DeviceKeys};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::grt::Grt;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-ranges", Run::Alone(ranges));

/// Pairs of a range, and ranges of a batch as a power of two.
const RANGES: [(usize, u32); 3] = [(8, 20), (128, 17), (1024, 14)];

/// Bytes of a prefix, and prefixes of a batch as a power of two.
const PREFIXES: [(usize, u32); 2] = [(2, 14), (3, 20)];

/// Of keys of 8 and 32 bytes.
fn ranges(session: &mut Session, request: &Request) -> Result<()> {
    let len = len(session, &request.sizes);
    for width in [8, 32] {
        let data = Data::new(width, len, session.seed);
        if session.has_time(format_args!("ranges, keys of {width} bytes")) {
            of_width(session, data)?;
        }
    }
    Ok(())
}

fn of_width(session: &mut Session, data: Data) -> Result<()> {
    session.doing(format_args!("building over {} keys of {} bytes", data.len, data.width));
    let (bytes, values) = data.sorted();
    let tree = Cuart::builder().build_sorted(&session.device, ByteKeys::fixed(data.width, &bytes)?, &values)?;
    let grt = grt::of_sorted(session, &data, &bytes, &values)?;
    let subject = Subject { data, bytes, values, tree };
    let most = session.plan.queries;
    for (pairs, batch) in RANGES {
        let batch = subject.ranges(pairs.min(data.len), 1 << batch.min(most));
        let rate = subject.on_device(session, &batch)?;
        subject.of_grt(session, &grt, &batch, rate)?;
        subject.host_rows(session, &batch)?;
    }
    for (prefix, batch) in PREFIXES {
        let batch = subject.prefixes(prefix, 1 << batch.min(most));
        subject.on_device(session, &batch)?;
        subject.host_rows(session, &batch)?;
    }
    Ok(())
}

/// A tree, and its keys and values in their order.
struct Subject {
    data: Data,
    bytes: Vec<u8>,
    values: Vec<u32>,
    tree: Cuart<u32>,
}

/// Ranges of ranks, and the keys that ask for them.
struct Batch {
    spans: Vec<Range<usize>>,
    asked: Asked,
    /// All values that are asked for.
    values: Vec<u32>,
}

/// Strings of one width, one after another.
enum Asked {
    Ranges { starts: Vec<u8>, ends: Vec<u8> },
    Prefixes { width: usize, prefixes: Vec<u8> },
}

impl Batch {
    fn name(&self, what: &str) -> String {
        match self.asked {
            Asked::Ranges { .. } => what.to_owned(),
            Asked::Prefixes { width, .. } => format!("prefixes of {width} bytes, {what}"),
        }
    }
}

impl Subject {
    /// Keys of some ranks.
    fn pick(&self, ranks: impl Fn(&Range<usize>) -> usize + Sync, spans: &[Range<usize>]) -> Vec<u8> {
        let width = self.data.width;
        spans
            .par_iter()
            .flat_map_collect(|span| self.bytes[ranks(span) * width..][..width].iter().copied())
            .expect("memory for a batch")
    }

    fn ranges(&self, pairs: usize, count: usize) -> Batch {
        let first = |i: usize| (mix(i as u64 ^ self.data.seed) % (self.data.len - pairs + 1) as u64) as usize;
        let spans: Vec<Range<usize>> = (0..count).into_par_iter().map(|i| first(i)..first(i) + pairs).collect();
        let (starts, ends) = (self.pick(|span| span.start, &spans), self.pick(|span| span.end - 1, &spans));
        self.batch(spans, Asked::Ranges { starts, ends })
    }

    fn prefixes(&self, width: usize, count: usize) -> Batch {
        let prefix = |rank: usize| &self.bytes[rank * self.data.width..][..width];
        // Where the keys begin whose prefix is at least, or above, another one.
        let bound = |is_before: &dyn Fn(&[u8]) -> bool| {
            let (mut low, mut high) = (0, self.data.len);
            while low < high {
                let middle = low.midpoint(high);
                if is_before(prefix(middle)) { low = middle + 1 } else { high = middle }
            }
            low
        };
        let asked = |i: usize| prefix((mix(i as u64 ^ !self.data.seed) % self.data.len as u64) as usize);
        let span = |i: usize| bound(&|other| other < asked(i))..bound(&|other| other <= asked(i));
        let spans = (0..count).into_par_iter().map(span).collect();
        let prefixes = (0..count).flat_map(|i| asked(i).iter().copied()).collect();
        self.batch(spans, Asked::Prefixes { width, prefixes })
    }

    fn batch(&self, spans: Vec<Range<usize>>, asked: Asked) -> Batch {
        let values = spans
            .par_iter()
            .flat_map_collect(|span| self.values[span.clone()].iter().copied())
            .expect("memory for a batch");
        Batch { spans, asked, values }
    }

    /// Spans alone, with values, and with keys; returns the rate of the second.
    fn on_device(&self, session: &mut Session, batch: &Batch) -> Result<f64> {
        let device = session.device.clone();
        let upload = |width: usize, bytes: &[u8]| DeviceKeys::upload(&device, keys(width, bytes));
        let uploaded = match &batch.asked {
            Asked::Ranges { starts, ends } => (upload(self.data.width, starts)?, Some(upload(self.data.width, ends)?)),
            Asked::Prefixes { width, prefixes } => (upload(*width, prefixes)?, None),
        };
        let (count, pairs) = (batch.spans.len(), batch.values.len());
        let on = self.tree.on(&session.stream);
        let span = |spans: &mut Buffer<u64>| match &uploaded.1 {
            Some(ends) => on.span(&uploaded.0, ends, spans),
            None => on.prefix_span(&uploaded.0, spans),
        };
        let mut spans = device.alloc::<u64>(2 * count)?;
        let name = batch.name("spans");
        let timing = session.time_call(&mut spans, |spans| span(spans))?;
        let expected = |i: usize| {
            let Range { start, end } = batch.spans[i / 2];
            if i.is_multiple_of(2) { start as u64 } else { end as u64 }
        };
        let checksum = session.check(&name, "spans", &spans, 2 * count, u64::MAX, expected)?;
        let alone = self.row(session, "cuart", name, batch, (timing, checksum));

        let mut rows = vec![alone];
        for (what, bytes) in [("values", 0), ("values and keys", pairs * self.data.width)] {
            let name = batch.name(what);
            let out = DeviceByteRanges::new(&self.tree, count, pairs, bytes)?;
            let mut state = (&mut spans, out, GatherScratch::new(&device, count, pairs)?);
            let timing = session.time_on_stream(
                &mut state,
                |(spans, out, _)| session.poison(spans).and_then(|()| session.poison(&mut out.values)),
                |(spans, out, scratch)| {
                    span(spans)?;
                    Ok(on.gather(spans, count, scratch, out)?)
                },
            )?;
            let out = state.1;
            let checksum = session.check(&name, "values", &out.values, pairs, 0, |i| batch.values[i])?;
            self.check_keys(session, &name, batch, &out, bytes)?;
            rows.push(self.row(session, "cuart", name, batch, (timing, checksum)));
        }
        let rate = rows[1].giga_per_second;
        for row in rows {
            let ratio = row.giga_per_second / rate;
            session.push(row.with("ratio_to_baseline", ratio));
        }
        Ok(rate)
    }

    fn check_keys(
        &self,
        session: &Session,
        name: &str,
        batch: &Batch,
        out: &DeviceByteRanges<u32>,
        bytes: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let words = out.key_bytes.to_vec()?;
        let found = &bytemuck::cast_slice::<u64, u8>(&words)[..bytes];
        let (mut at, width) = (0, self.data.width);
        for span in &batch.spans {
            let expected = &self.bytes[span.start * width..span.end * width];
            let is_equal = found[at..].starts_with(expected);
            session.expect(&format_args!("{name}, from byte {at} on"), "keys", is_equal.into(), 1)?;
            at += expected.len();
        }
        Ok(())
    }

    fn of_grt(&self, session: &mut Session, grt: &Grt<u32>, batch: &Batch, cuart: f64) -> Result<()> {
        let Asked::Ranges { starts, ends } = &batch.asked else { return Ok(()) };
        let upload = |bytes: &[u8]| DeviceKeys::upload(&session.device, keys(self.data.width, bytes));
        let (starts, ends) = (upload(starts)?, upload(ends)?);
        let (count, pairs) = (batch.spans.len(), batch.values.len());
        let mut out = (session.device.alloc::<u32>(pairs)?, session.device.alloc::<u64>(count)?);
        let timing = session.time_call(&mut out, |(values, lens)| -> Result<()> {
            // SAFETY: in the session's stream.
            let bounds = unsafe { (grt::queries(session, &starts)?, grt::queries(session, &ends)?) };
            Ok(grt.range(&session.stream, bounds.0, bounds.1, pairs / count, values, lens)?)
        })?;
        let checksum = session.check(&"GRT, range", "values", &out.0, pairs, 0, |i| batch.values[i])?;
        session.check(&"GRT, range", "lengths", &out.1, count, 0, |i| batch.spans[i].len() as u64)?;
        let row = self.row(session, "grt", batch.name("values"), batch, (timing, checksum));
        let ratio = row.giga_per_second / cuart;
        session.push(row.with("ratio_to_baseline", ratio));
        Ok(())
    }

    /// With keys and values in host memory.
    fn host_rows(&self, session: &mut Session, batch: &Batch) -> Result<()> {
        let mut found = None;
        let timing = session.time_on_cpu(
            &mut found,
            |found| *found = None,
            |found| {
                *found = Some(match &batch.asked {
                    Asked::Ranges { starts, ends } => {
                        let bounds = starts.chunks(self.data.width).zip(ends.chunks(self.data.width));
                        self.tree.range_many(bounds.map(|(start, end)| start..=end))?
                    }
                    Asked::Prefixes { width, prefixes } => self.tree.prefix_many(keys(*width, prefixes))?,
                });
                Ok(())
            },
        )?;
        let found = found.expect("it ran at least once");
        let values: Vec<u32> = (0..found.len()).flat_map(|range| found.get(range).1).copied().collect();
        let is_of_ranges = matches!(batch.asked, Asked::Ranges { .. });
        let what = batch.name(if is_of_ranges { "range_many" } else { "prefix_many" });
        let pairs = batch.values.len();
        let checksum = session.check_slice(&what, "values", &values, 0..pairs, 0, |i| batch.values[i])?;
        let row = self.row(session, "cuart", what, batch, (timing, checksum));
        session.push(row);
        Ok(())
    }

    fn row(
        &self,
        session: &Session,
        index: &'static str,
        operation: String,
        batch: &Batch,
        (timing, checksum): (Timing, Checksum),
    ) -> Row {
        let (count, pairs) = (batch.spans.len(), batch.values.len());
        let row = Row::new(FIGURE.name, index, operation, count, timing, checksum).on(session.device_name());
        let row = self.data.label::<u32>(row).with("pairs", pairs as u64);
        row.with("range_pairs", pairs as f64 / count as f64)
    }
}
