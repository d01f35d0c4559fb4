//! A CuART tree with its data, and what all rows about it have in common.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::error::Result;
use crate::bench::gathers as random_gathers;
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::cuart::{LinkType, Stats, Step};
use lanetree::{Cuart, Device, Word};
use lanetree_baselines::Checksum;
use lanetree_baselines::device::ceiling::Chunk;
use lanetree_record::Timing;

/// Entries of the paper's trees, unless it says otherwise.
const PAPERS: usize = 26 << 20;

/// Queries of the sample whose steps are counted.
const SAMPLE: usize = 1 << 12;

/// Keys of the trees: as in the paper, or the main one of the sizes where that is smaller or was asked for.
pub(crate) fn len(session: &Session, sizes: &[u32]) -> usize {
    let main = 1 << main_of(sizes);
    if session.plan.is_default() && session.runs_kernels() { PAPERS.min(main) } else { main }
}

/// Queries of a batch.
pub(crate) fn queries(session: &Session) -> usize {
    1 << session.plan.queries.min(24)
}

/// A tree on the device.
pub(crate) struct Subject<V: Word> {
    pub(crate) data: Data,
    pub(crate) tree: Cuart<V>,
    pub(crate) stats: Stats,
    /// Look-ups in 10^9 per second, if each took the reciprocal rates of its gathers.
    pub(crate) of_gathers: Option<f64>,
}

impl<V: Word> Subject<V> {
    pub(crate) fn build(session: &mut Session, data: Data) -> Result<Self> {
        let host = Self::on_host(session, data)?;
        let of_gathers = of_gathers(session, &data, &host.tree)?;
        Ok(Self { of_gathers, ..host.onto_device(session)? })
    }

    /// As [`Subject::build`], without the gathers.
    pub(crate) fn of(session: &Session, data: Data) -> Result<Self> {
        Self::on_host(session, data)?.onto_device(session)
    }

    fn on_host(session: &Session, data: Data) -> Result<Self> {
        session.doing(format_args!("building over {} keys of {} bytes", data.len, data.width));
        let bytes = data.all();
        let tree = Cuart::build(&Device::host(), keys(data.width, &bytes), &data.values::<V>())?;
        Ok(Self { data, stats: tree.stats(), tree, of_gathers: None })
    }

    fn onto_device(self, session: &Session) -> Result<Self> {
        Ok(if session.runs_kernels() { Self { tree: self.tree.to_device(&session.device)?, ..self } } else { self })
    }

    /// A row about a batch of queries that all hit.
    pub(crate) fn row(
        &self,
        session: &Session,
        section: &'static str,
        operation: impl Into<String>,
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let row = Row::new(section, "cuart", operation, batch, timing, checksum).on(session.device_name());
        let row = self.data.label::<V>(row);
        row.with("footprint_bytes", self.stats.bytes()).with("bytes_per_key", self.stats.bytes_per_key)
    }
}

/// The gathers that a look-up makes for a step, as chunks, and the bytes of what they gather from.
fn gathers(kind: LinkType, stats: &Stats) -> ([Option<Chunk>; 2], u64) {
    let one = |chunk| [Some(chunk), None];
    let two = [Some(Chunk::B32), Some(Chunk::B32)];
    let (chunks, count) = match kind {
        LinkType::N4 => (one(Chunk::B64), stats.nodes[0]),
        LinkType::N16 => (two, stats.nodes[1]),
        LinkType::N48 => (two, stats.nodes[2]),
        LinkType::N256 => (one(Chunk::B32), stats.nodes[3]),
        LinkType::Leaf8 => (one(Chunk::B32), stats.leaves[0]),
        LinkType::Leaf16 => (one(Chunk::B32), stats.leaves[1]),
        LinkType::Leaf32 => (one(Chunk::B64), stats.leaves[2]),
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
    let kinds = [
        LinkType::N4,
        LinkType::N16,
        LinkType::N48,
        LinkType::N256,
        LinkType::Leaf8,
        LinkType::Leaf16,
        LinkType::Leaf32,
    ];
    for bytes in kinds.map(|kind| gathers(kind, &stats).1).into_iter().chain([stats.table_bytes]) {
        if bytes > 0 {
            random_gathers::gathers(session, bytes)?;
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
