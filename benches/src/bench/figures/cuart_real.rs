//! Real input: addresses, words and file paths; look-ups, ranks and prefixes on the device, between host memory and
//! it, and on the CPU.

use crate::bench::cuart::input::{Input, Sources, Strings};
use crate::bench::data::mix;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::row::Row;
use crate::bench::session::Session;
use core::ops::Range;
use lanetree::cuart::{DeviceByteRanges, GatherScratch};
use lanetree::{ByteKeys, ByteKeysBuf, Cuart, Device, DeviceKeys, KeyWord};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::art::Art;
use lanetree_baselines::grt::{Grt, Queries};
use lanetree_record::Timing;
use std::collections::{BTreeMap, HashMap};

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-real", Run::Alone(real));

/// Queries of a batch, as powers of two: the paper's, and a large one.
const BATCHES: [u32; 2] = [15, 22];

/// No key has this value, nor the 0 that outputs are filled with beforehand.
const MISS: u32 = u32::MAX;

/// Of every input that is there: in `folder`, if that was asked for, else where the system has it.
fn real(session: &mut Session, request: &Request) -> Result<()> {
    let sources = Sources::new(request.input.as_deref())?;
    for input in Input::ALL {
        let Some(path) = sources.find(input) else {
            session.skip(format_args!("figure cuart-real, {}: {}", input.file(), sources.missing(input)));
            continue;
        };
        if !session.has_time(format_args!("{}, building", input.file())) {
            continue;
        }
        let subject = Subject::new(session, input, Strings::read(input, &path)?)?;
        let most = session.plan.queries;
        let mut batches = BATCHES.map(|batch| batch.min(most)).to_vec();
        batches.dedup();
        for batch in batches {
            if session.has_time(format_args!("{}, batches of 2^{batch}", subject.source)) {
                subject.gets(session, 1 << batch)?;
                match input {
                    Input::Addresses => subject.predecessors(session, 1 << batch)?,
                    Input::Words => subject.prefixes(session, 1 << batch, |word| &word[..word.len().min(3)])?,
                    Input::Paths => subject.prefixes(session, 1 << batch, directory)?,
                }
            }
        }
    }
    Ok(())
}

/// A path up to its last slash, and with it.
fn directory(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)]
}

/// An input in every index. The `i`-th key has the value `i + 1`.
struct Subject {
    /// The input, and how long its keys are.
    source: String,
    key: &'static str,
    strings: Strings,
    art: Art,
    host: Cuart<u32>,
    device: Option<(Cuart<u32>, Grt<u32>)>,
}

impl Subject {
    fn new(session: &Session, input: Input, strings: Strings) -> Result<Self> {
        let keys = &strings.keys;
        let values: Vec<u32> = (1..=keys.len() as u32).collect();
        let art = Art::new(keys.iter().zip(values.iter().map(|&value| value.into())));
        let host = Cuart::build(&Device::host(), keys, &values)?;
        let device = if session.runs_kernels() {
            Some((host.to_device(&session.device)?, Grt::new(&session.device, &art)?))
        } else {
            None
        };
        let mean = ByteKeys::from(keys).bytes().len() as f64 / keys.len() as f64;
        let source = format!("{} ({mean:.0} B)", input.file());
        let key = if input == Input::Addresses { "[u8; 16]" } else { "bytes" };
        Ok(Self { source, key, strings, art, host, device })
    }

    fn key(&self, index: usize) -> &[u8] {
        self.strings.keys.get(index).unwrap_or_default()
    }

    /// The index of the key that a query is about.
    fn pick(&self, random: u64) -> usize {
        ((u128::from(random) * self.strings.keys.len() as u128) >> 64) as usize
    }

    /// A key in which one byte is another, mostly another key's of the same place: one that is not there, if that is
    /// easily found.
    fn absent(&self, values: &HashMap<&[u8], u32>, random: u64) -> Vec<u8> {
        let mut key = self.key(self.pick(random)).to_vec();
        if key.is_empty() {
            return key;
        }
        for attempt in 0..16 {
            let random = mix(random ^ (attempt + 1));
            let other = self.key(self.pick(mix(random)));
            let at = (random % key.len() as u64) as usize;
            let old = key[at];
            key[at] = other.get(at).copied().filter(|&byte| byte != old).unwrap_or(old ^ 1);
            if !values.contains_key(&key[..]) {
                break;
            }
            key[at] = old;
        }
        key
    }

    /// CuART's trees, and where they are.
    fn trees(&self, session: &Session) -> impl Iterator<Item = (&Cuart<u32>, &'static str)> + use<'_> {
        let name = session.device_name();
        [(&self.host, "cpu")].into_iter().chain(self.device.as_ref().map(|(tree, _)| (tree, name)))
    }

    /// Look-ups, of half of the queries in vain.
    fn gets(&self, session: &mut Session, count: usize) -> Result<()> {
        let values: HashMap<&[u8], u32> = self.strings.keys.iter().zip(1..).collect();
        let random = |i: usize| mix(mix(session.seed) ^ i as u64);
        let query =
            |i: usize| if i % 2 == 1 { self.absent(&values, random(i)) } else { self.key(self.pick(random(i))).into() };
        let batch: ByteKeysBuf = (0..count).map(query).collect();
        let queries = ByteKeys::from(&batch);
        let expected: Vec<u32> = queries.iter().map(|query| values.get(query).copied().unwrap_or(MISS)).collect();
        drop(values);
        let right = |query: usize| expected[query];
        let hits = expected.iter().filter(|&&value| value != MISS).count();
        let mut rows = Rows { subject: self, count, hit_rate: Some(hits as f64 / count as f64), first: None };

        let mut out = vec![None; count];
        let timing = session.time_on_cpu(
            &mut out,
            |out| out.fill(Some(0)),
            |out| {
                self.art.get_into(|query| queries.get(query).unwrap_or_default(), out);
                Ok(())
            },
        )?;
        let found: Vec<u32> = out.into_iter().map(|value| value.map_or(MISS, |value| value as u32)).collect();
        let checksum = session.check_slice(&"ART, get", "values", &found, 0..count, MISS, right)?;
        rows.push(session, ("ART", "get", "cpu"), timing, checksum);

        for (tree, place) in self.trees(session) {
            let mut out = vec![None; count];
            let timing =
                session.time_on_cpu(&mut out, |out| out.fill(Some(0)), |out| Ok(tree.get_many_into(queries, out)?))?;
            let checksum = session.check_found(&"get_many_into", &out, count, MISS, right)?;
            rows.push(session, ("cuart", "get_many_into", place), timing, checksum);
        }

        let Some((tree, grt)) = &self.device else { return Ok(()) };
        let queries = DeviceKeys::upload(&session.device, queries)?;
        let mut out = session.device.alloc::<u32>(count)?;
        let on = || tree.on(&session.stream);
        let timing = session.time_call(&mut out, |out| on().miss(MISS).get(&queries, out))?;
        let checksum = session.check(&"get", "values", &out, count, MISS, right)?;
        rows.push(session, ("cuart", "get", session.device_name()), timing, checksum);

        let device = session.device.clone();
        // SAFETY: the strings of the batch, on the session's device, as they are for the stream that looks them up.
        let queries = unsafe { Queries::from_raw(queries.keys_ref(&session.stream)?, count, &device) };
        let timing = session.time_call(&mut out, |out| grt.get(&session.stream, queries, out, None, MISS))?;
        let checksum = session.check(&"GRT, get", "values", &out, out.len(), MISS, right)?;
        rows.push(session, ("grt", "get", session.device_name()), timing, checksum);
        Ok(())
    }

    /// The spans of ranks of the prefixes of random keys.
    fn prefixes(&self, session: &mut Session, count: usize, prefix: fn(&[u8]) -> &[u8]) -> Result<()> {
        let random = |i: usize| mix(mix(session.seed ^ 0x9e) ^ i as u64);
        let batch: ByteKeysBuf = (0..count).map(|i| prefix(self.key(self.pick(random(i))))).collect();
        let prefixes = ByteKeys::from(&batch);
        let sorted: Vec<&[u8]> = self.strings.keys.iter().collect();
        let span = |prefix: &[u8]| {
            let start = sorted.partition_point(|&key| key < prefix);
            start as u64..(start + sorted[start..].partition_point(|key| key.starts_with(prefix))) as u64
        };
        let all = || (0..count).into_par_iter().map(|i| span(prefixes.get(i).unwrap_or_default()));
        let expected: Vec<Range<u64>> = all().collect();
        let right =
            |word: usize| if word.is_multiple_of(2) { expected[word / 2].start } else { expected[word / 2].end };
        let words = |spans: &[Range<u64>]| spans.iter().flat_map(|span| [span.start, span.end]).collect::<Vec<u64>>();
        let mut rows = Rows { subject: self, count, hit_rate: None, first: None };

        let mut out = Vec::new();
        let timing = session.time_on_cpu(&mut out, Vec::clear, |out| {
            all().collect_into_vec(out);
            Ok(())
        })?;
        let checksum = session.check_slice(&"binary search", "spans", &words(&out), 0..2 * count, u64::MAX, right)?;
        rows.push(session, ("sorted Vec", "prefix spans", "cpu"), timing, checksum);

        for (tree, place) in self.trees(session) {
            let (timing, out) = session.time_making(|| tree.prefix_span_many(prefixes))?;
            let checksum =
                session.check_slice(&"prefix_span_many", "spans", &words(&out), 0..2 * count, u64::MAX, right)?;
            rows.push(session, ("cuart", "prefix_span_many", place), timing, checksum);
        }

        let Some((tree, _)) = &self.device else { return Ok(()) };
        let prefixes = DeviceKeys::upload(&session.device, prefixes)?;
        let mut out = session.device.alloc::<u64>(2 * count)?;
        let on = tree.on(&session.stream);
        let timing = session.time_call(&mut out, |out| on.prefix_span(&prefixes, out))?;
        let checksum = session.check(&"prefix_span", "spans", &out, 2 * count, u64::MAX, right)?;
        rows.push(session, ("cuart", "prefix_span", session.device_name()), timing, checksum);
        Ok(())
    }

    /// The ranges that addresses lie in, by the last one that starts at or before each.
    fn predecessors(&self, session: &mut Session, count: usize) -> Result<()> {
        let starts: Vec<u128> = ByteKeys::from(&self.strings.keys).decode()?;
        let ends = &self.strings.ends;
        let addresses: Vec<u128> = (0..count)
            .into_par_iter()
            .map(|i| {
                let random = mix(mix(session.seed ^ 0x6) ^ i as u64);
                let wide = u128::from(mix(random ^ 1)) << 64 | u128::from(mix(random ^ 2));
                // One half inside of ranges, the other anywhere among them.
                let range = self.pick(random);
                let (first, last) =
                    if i % 2 == 0 { (starts[range], ends[range]) } else { (starts[0], ends[ends.len() - 1]) };
                first + wide % (last - first).saturating_add(1)
            })
            .collect();
        let map: BTreeMap<u128, u64> = starts.iter().copied().zip(1..).collect();
        let rank = |address: &u128| map.range(..=address).next_back().map_or(0, |(_, &rank)| rank);
        let expected: Vec<u64> = addresses.par_iter().map(rank).collect();
        drop(map);
        let right = |query: usize| expected[query];
        let inside = expected.iter().zip(&addresses).filter(|&(&rank, address)| *address <= ends[rank as usize - 1]);
        let hit_rate = Some(inside.count() as f64 / count as f64);
        let mut rows = Rows { subject: self, count, hit_rate, first: None };

        let mut out: Vec<u64> = Vec::new();
        let timing = session.time_on_cpu(&mut out, Vec::clear, |out| {
            let rank = |address: &u128| starts.partition_point(|start| start <= address) as u64;
            addresses.par_iter().map(rank).collect_into_vec(out);
            Ok(())
        })?;
        let checksum = session.check_slice(&"binary search", "ranks", &out, 0..count, u64::MAX, right)?;
        rows.push(session, ("sorted Vec", "upper bounds", "cpu"), timing, checksum);

        let batch = ByteKeysBuf::encode(&addresses);
        for (tree, place) in self.trees(session) {
            let (timing, out) = session.time_making(|| tree.upper_bound_many(&batch))?;
            let checksum = session.check_slice(&"upper_bound_many", "ranks", &out, 0..count, u64::MAX, right)?;
            rows.push(session, ("cuart", "upper_bound_many", place), timing, checksum);
        }

        let Some((tree, _)) = &self.device else { return Ok(()) };
        let queries = DeviceKeys::upload(&session.device, &batch)?;
        let mut ranks = session.device.alloc::<u64>(count)?;
        let on = tree.on(&session.stream);
        let timing = session.time_call(&mut ranks, |out| on.upper_bound(&queries, out))?;
        let checksum = session.check(&"upper_bound", "ranks", &ranks, count, u64::MAX, right)?;
        rows.push(session, ("cuart", "upper_bound", session.device_name()), timing, checksum);

        let on = tree.on(&session.stream);
        // Nothing on the device turns ranks into spans of one pair: these were made beforehand.
        let spans: Vec<u64> = expected.iter().flat_map(|&rank| [rank - 1, rank]).collect();
        let mut state = (
            session.device.upload(&spans)?,
            GatherScratch::new(&session.device, count, count)?,
            DeviceByteRanges::new(tree, count, count, 0)?,
        );
        let timing = session.time_on_stream(
            &mut state,
            |(_, _, out)| session.poison(&mut out.values),
            |(spans, scratch, out)| {
                on.upper_bound(&queries, &mut ranks)?;
                Ok(on.gather(spans, count, scratch, out)?)
            },
        )?;
        let values = &state.2.values;
        let checksum = session.check(&"upper_bound, values", "values", values, count, MISS, |i| right(i) as u32)?;
        rows.push(session, ("cuart", "upper_bound, then values", session.device_name()), timing, checksum);
        Ok(())
    }
}

/// The rows of one batch: all have the ratio to the first.
struct Rows<'a> {
    subject: &'a Subject,
    count: usize,
    hit_rate: Option<f64>,
    first: Option<f64>,
}

impl Rows<'_> {
    fn push(
        &mut self,
        session: &mut Session,
        (index, operation, device): (&'static str, &str, &str),
        timing: Timing,
        checksum: Checksum,
    ) {
        let Subject { source, key, strings, art, host, device: on_device } = self.subject;
        let n = strings.keys.len();
        let row = Row::new(FIGURE.name, index, operation, self.count, timing, checksum).on(device);
        let first = *self.first.get_or_insert(row.giga_per_second);
        let ratio = row.giga_per_second / first;
        let bytes = match (index, on_device) {
            ("cuart", _) => Some(host.stats().bytes()),
            ("ART", _) => Some(art.bytes() as u64),
            ("grt", Some((_, grt))) => Some(grt.bytes()),
            _ => None,
        };
        let row = row
            .over(n, key, u32::NAME, source)
            .with("ratio_to_baseline", ratio)
            .with("threads", (device == "cpu").then(rayon::current_num_threads))
            .with("order", "random")
            .with("hit_rate", self.hit_rate)
            .with("footprint_bytes", bytes)
            .with("bytes_per_key", bytes.map(|bytes| bytes as f64 / n as f64));
        session.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::session::tests::session;
    use std::path::Path;

    #[test]
    fn what_is_found_is_measured_and_what_is_not_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("words"), "lane\ntree\nlanes\nradix\n").unwrap();
        std::fs::write(folder.path().join("geoip6"), "2001::,2001::ff,NO\n2001:1::,2001:1::ff,??\n").unwrap();
        let of = |folder: &Path| Request { sizes: Vec::new(), input: Some(folder.into()) };
        let mut host = session(Device::host());
        real(&mut host, &of(folder.path())).unwrap();
        // ART and CuART's look-ups, then binary search and CuART's ranks, of both inputs.
        assert_eq!(host.report.record.rows.len(), 8);
        assert!(host.report.record.rows.iter().all(|row| row.device == "cpu" && row.integer("threads").is_some()));
        assert!(host.report.record.skipped.len() == 1 && host.report.record.skipped[0].contains("paths: no file"));

        let long = "/usr/share/doc/a-package-of-a-long-name/";
        std::fs::write(folder.path().join("paths"), format!("{long}b\n{long}a\n/usr/share/doc\n/.\n")).unwrap();
        let mut emulated = session(Device::emulated());
        real(&mut emulated, &of(folder.path())).unwrap();
        assert_eq!(emulated.report.record.skipped, [""; 0]);
        let rows_of = |keys: &str, index: &str| {
            let rows = emulated.report.record.rows.iter();
            rows.filter(|row| row.keys.starts_with(keys) && row.index == index).count()
        };
        for keys in ["geoip6", "words", "paths"] {
            assert_eq!((rows_of(keys, "ART"), rows_of(keys, "grt"), rows_of(keys, "sorted Vec")), (1, 1, 1));
        }
        assert_eq!((rows_of("geoip6", "cuart"), rows_of("words", "cuart"), rows_of("paths", "cuart")), (7, 6, 6));
        assert!(emulated.report.record.rows.iter().all(|row| row.number("hit_rate").is_none_or(|rate| rate >= 0.5)));
    }
}
