//! CuART and GRT, end to end and kernels alone, by the same host code: what figures 8 to 11 of the paper have in common.

use crate::bench::cuart::data::Data;
use crate::bench::cuart::grt;
use crate::bench::cuart::measure::{from_threads, on_device};
use crate::bench::error::Result;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{ByteKeys, Cuart, Device, Stream};
use lanetree_base::staging::{Addresses, Queries, Results, Route, Staging};
use lanetree_base::uninit::replace;
use lanetree_baselines::Checksum;
use lanetree_baselines::grt::{Compare, Grt};
use lanetree_record::Timing;
use lanetree_simt::{Global, KeysRef};

/// The table of the figures that have it.
const SECTION: &str = "cuart-beside-grt";

/// Threads of the paper's figures, and the queries of its batches.
pub(crate) const PAPERS_THREADS: usize = 8;
pub(crate) const PAPERS_BATCH: usize = 1 << 15;

/// What is measured of a pair of trees.
pub(crate) struct Asked {
    /// Threads and queries of a batch, end to end.
    pub(crate) from_host: Vec<(usize, usize)>,
    /// Queries of a batch, kernels alone.
    pub(crate) on_device: Vec<usize>,
}

/// The ways in which GRT compares keys, and what rows call it.
const COMPARES: [(Compare, &str); 2] = [(Compare::Bytes, "grt"), (Compare::Words, "grt-words")];

/// Both trees over the same keys, one after the other; GRT's rows have their rate relative to CuART's.
pub(crate) fn measure(session: &mut Session, data: &Data, asked: &Asked) -> Result<()> {
    if !session.has_time(format_args!("CuART and GRT, n = {}, {} bytes", data.len, data.width)) {
        return Ok(());
    }
    session.doing(format_args!("building over {} keys of {} bytes", data.len, data.width));
    let (bytes, values) = data.sorted();
    let tree = Cuart::builder().build_sorted(&session.device, ByteKeys::fixed(data.width, &bytes)?, &values)?;
    let stats = tree.stats();
    let mut rates = Vec::new();
    let send = |keys: ByteKeys<'_>, out: &mut [Option<u32>]| Ok(tree.get_many_into(keys, out)?);
    for of in steps(asked) {
        let measured = match of {
            (Some(threads), count) => from_threads(session, data, (threads, count), "get_many_into", send)?,
            (None, count) => on_device(session, data, count, "get", |batch, out| {
                Ok(tree.on(&session.stream).miss(0).get(batch, out)?)
            })?,
        };
        let row = data.label::<u32>(row("cuart", of, measured).on(session.device_name()));
        let row = row.with("footprint_bytes", stats.bytes()).with("bytes_per_key", stats.bytes_per_key);
        rates.push(row.giga_per_second);
        session.push(row.with("ratio_to_baseline", 1.0));
    }
    drop(tree);
    if !session.runs_kernels() || data.len > grt::MOST || !session.has_time("GRT") {
        return Ok(());
    }
    let mut host = HostGrt::new(grt::of_sorted(session, data, &bytes, &values)?);
    drop((bytes, values));
    for (compare, index) in COMPARES {
        host.grt = host.grt.comparing(compare);
        for (of, rate) in steps(asked).zip(&rates) {
            let measured = match of {
                (Some(threads), count) => from_threads(session, data, (threads, count), index, |keys, out| {
                    host.get_many_into(&session.device, keys, out)
                })?,
                (None, count) => grt::timed(session, data, &host.grt, count)?,
            };
            let row = grt::label(session, data, &host.grt, row(index, of, measured));
            let ratio = row.giga_per_second / rate;
            session.push(row.with("ratio_to_baseline", ratio));
        }
    }
    Ok(())
}

/// Threads, if it is end to end, and queries of a batch.
type Of = (Option<usize>, usize);

fn steps(asked: &Asked) -> impl Iterator<Item = Of> {
    let from_host = asked.from_host.iter().map(|&(threads, count)| (Some(threads), count));
    from_host.chain(asked.on_device.iter().map(|&count| (None, count)))
}

fn row(index: &'static str, (threads, count): Of, (timing, checksum): (Timing, Checksum)) -> Row {
    let operation = if threads.is_some() { "get_many_into" } else { "get" };
    Row::new(SECTION, index, operation, count, timing, checksum).with("threads", threads)
}

/// GRT with the staging that CuART has.
pub(crate) struct HostGrt {
    pub(crate) grt: Grt<u32>,
    staging: Staging,
}

impl HostGrt {
    pub(crate) fn new(grt: Grt<u32>) -> Self {
        Self { grt, staging: Staging::default() }
    }

    /// As [`Cuart::get_many_into`], of keys of one width.
    pub(crate) fn get_many_into(&self, device: &Device, keys: ByteKeys<'_>, out: &mut [Option<u32>]) -> Result<()> {
        let width = keys.bytes().len() / keys.len().max(1);
        let route = Route {
            device,
            results: Results::new([size_of::<u32>(), 0], 1),
            // At every node, and at the leaf.
            reads_once: false,
            launch: &|stream: &Stream, packed: Packed<'_>, bytes, out: Addresses| {
                let queries = KeysRef { bytes, offsets: Global::null(), width: width as u32, offset_bytes: 0 };
                let values = out.arrays[0].cast();
                // SAFETY: staged queries of the width, and room for their results.
                Ok(unsafe { self.grt.get_raw(stream, queries, packed.count(), values, out.hits, 0) }?)
            },
            collect: &|piece, out| piece.found(out, |value: u32| value),
        };
        Ok(replace(out, |out| self.staging.send(Packed { width, bytes: keys.bytes() }, out, &route))?)
    }
}

/// Strings of one width.
#[derive(Clone, Copy)]
struct Packed<'k> {
    width: usize,
    bytes: &'k [u8],
}

impl Queries for Packed<'_> {
    fn count(&self) -> usize {
        self.bytes.len() / self.width
    }

    fn bytes(&self) -> usize {
        // Kernels read whole words.
        self.bytes.len().next_multiple_of(8)
    }

    fn split(&self, at: usize) -> (Self, Self) {
        let (first, rest) = self.bytes.split_at(at * self.width);
        (Self { bytes: first, ..*self }, Self { bytes: rest, ..*self })
    }

    fn write(&self, to: &mut [u8]) {
        to[..self.bytes.len()].copy_from_slice(self.bytes);
    }
}
