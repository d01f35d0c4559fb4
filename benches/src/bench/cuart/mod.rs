//! CuART (Koppehel et al., ICPP 2021): the figures of its paper, and what goes beyond it.

mod builds;
mod changes;
mod cpu;
mod data;
mod host;
mod input;
mod lanes;
pub(super) mod layout;
mod long;
mod lookups;
mod real;
mod urls;

pub(super) use builds::builds;
pub(super) use changes::{inserts, updates};
pub(super) use cpu::on_cpu;
pub(super) use host::{batches, latency};
pub(super) use lanes::by_lanes;
pub(super) use long::long_keys;
pub(super) use lookups::{by_size, by_width, of_urls};
pub(super) use real::real;

use super::ceilings;
use super::error::Result;
use super::report::{Row, Section, Timing};
use super::session::Session;
use data::{Data, keys};
use lanetree::cuart::{Kind, Stats, Step};
use lanetree::{Cuart, Device, Word};
use lanetree_baselines::Checksum;
use lanetree_baselines::device::ceiling::Chunk;

/// Entries of the paper's trees, unless it says otherwise.
const PAPERS: usize = 26 << 20;

/// Queries of the sample whose steps are counted.
const SAMPLE: usize = 1 << 12;

/// Keys of the trees: as in the paper, or the main size of the plan where that is smaller or was asked for.
fn len(session: &Session) -> usize {
    let main = 1 << session.plan.main_size();
    if session.plan.is_default && session.runs_kernels() { PAPERS.min(main) } else { main }
}

/// Queries of a batch.
fn queries(session: &Session) -> usize {
    1 << session.plan.queries.min(24)
}

/// A tree on the device.
struct Subject<V: Word> {
    data: Data,
    tree: Cuart<V>,
    stats: Stats,
    /// Look-ups in 10^9 per second, if each took the reciprocal rates of its gathers.
    of_gathers: Option<f64>,
}

impl<V: Word> Subject<V> {
    fn build(session: &mut Session, data: Data) -> Result<Self> {
        session.doing(format_args!("building over {} keys of {} bytes", data.len, data.width));
        let bytes = data.all();
        let host = Cuart::build(&Device::host(), keys(data.width, &bytes), &data.values::<V>())?;
        drop(bytes);
        let stats = host.stats();
        let of_gathers = of_gathers(session, &data, &host)?;
        let tree = if session.runs_kernels() { host.to_device(&session.device)? } else { host };
        Ok(Self { data, tree, stats, of_gathers })
    }

    fn row(
        &self,
        session: &Session,
        section: Section,
        (index, operation): (&'static str, String),
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let mut row = Row::new(section, index, operation, batch, timing, checksum);
        row.device = session.device_name().into();
        row.keys = self.data.source().into();
        row.key = self.data.key_name();
        row.value = V::NAME;
        row.n = self.data.len as u64;
        row.order = Some("random");
        row.hit_rate = Some(1.0);
        if index == "cuart" {
            row.footprint_bytes = self.stats.bytes();
            row.bytes_per_key = Some(self.stats.bytes_per_key);
        }
        row
    }
}

/// The gathers that a look-up makes for a step, as chunks, and the bytes of what they gather from.
fn gathers(kind: Kind, stats: &Stats) -> ([Option<Chunk>; 2], u64) {
    let one = |chunk| [Some(chunk), None];
    let two = [Some(Chunk::B32), Some(Chunk::B32)];
    let (chunks, count) = match kind {
        Kind::N4 => (one(Chunk::B64), stats.nodes[0]),
        Kind::N16 => (two, stats.nodes[1]),
        Kind::N48 => (two, stats.nodes[2]),
        Kind::N256 => (one(Chunk::B32), stats.nodes[3]),
        Kind::Leaf8 => (one(Chunk::B32), stats.leaves[0]),
        Kind::Leaf16 => (one(Chunk::B32), stats.leaves[1]),
        Kind::Leaf32 => (one(Chunk::B64), stats.leaves[2]),
        _ => ([None, None], 0),
    };
    (chunks, count * kind.stride())
}

/// The rate of look-ups if each took the sum of its gathers' reciprocal rates, as measured over tables of the size
/// of what they gather from: of a sample of queries.
fn of_gathers<V: Word>(session: &mut Session, data: &Data, host: &Cuart<V>) -> Result<Option<f64>> {
    if !session.runs_kernels() || data.len == 0 {
        return Ok(None);
    }
    let stats = host.stats();
    let kinds = [Kind::N4, Kind::N16, Kind::N48, Kind::N256, Kind::Leaf8, Kind::Leaf16, Kind::Leaf32];
    for bytes in kinds.map(|kind| gathers(kind, &stats).1).into_iter().chain([stats.table_bytes]) {
        if bytes > 0 {
            ceilings::gathers(session, bytes)?;
        }
    }
    let rate = |chunk: Chunk, bytes: u64| session.ceilings.of_gathers(chunk, bytes);
    let sample = SAMPLE.min(data.len);
    let bytes = data.bytes(sample, |query| data.query(u64::MAX, query));
    let mut nanoseconds = 0.0;
    for key in keys(data.width, &bytes).iter() {
        let explanation = host.explain(key)?;
        if explanation.table_bytes > 0 {
            let Some(rate) = rate(Chunk::B32, stats.table_bytes) else { return Ok(None) };
            nanoseconds += 1.0 / rate;
        }
        for Step { link, .. } in explanation.steps {
            let (chunks, footprint) = gathers(link.kind(), &stats);
            for chunk in chunks.into_iter().flatten() {
                let Some(rate) = rate(chunk, footprint) else { return Ok(None) };
                nanoseconds += 1.0 / rate;
            }
        }
    }
    Ok(Some(sample as f64 / nanoseconds))
}
