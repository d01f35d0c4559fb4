//! Some keys on the CPU while the device looks up the others, in the paper's batches and by its threads (its figures 13
//! and 14).

use crate::bench::cuart::beside_grt::{PAPERS_BATCH, PAPERS_THREADS};
use crate::bench::cuart::data::Data;
use crate::bench::cuart::long::{Mixed, Packed, Tree, Way};
use crate::bench::cuart::measure::send_from_threads;
use crate::bench::cuart::subject::len;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::row::Row;
use crate::bench::session::Session;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-long-share", Run::Alone(measure));

/// The parts of the keys that are long, in per cent.
const SHARES: [u64; 4] = [0, 1, 3, 5];

/// Of each way those shares of long keys; device leaves for comparison only.
const WAYS: [(Way, &[u64]); 2] = [(Way::Hybrid, &SHARES), (Way::DeviceLeaves, &[0, 3])];

/// Bytes of the keys of figure 14, and how many of a hundred are one byte longer.
const WIDTHS: [usize; 3] = [8, 16, 32];
const SHARE: u64 = 5;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let len = len(session, &request.sizes);
    for (way, shares) in WAYS {
        let mut baseline = None;
        for &share in shares {
            let mixed = Mixed { data: Data::new(32, len, session.seed), share, longer: (33, 128) };
            of_way(session, &mixed, way, &mut baseline)?;
        }
    }
    for width in WIDTHS {
        let mixed = Mixed { data: Data::new(width, len, session.seed), share: SHARE, longer: (width + 1, width + 1) };
        let mut baseline = None;
        for way in [Way::DeviceLeaves, Way::Hybrid] {
            of_way(session, &mixed, way, &mut baseline)?;
        }
    }
    Ok(())
}

/// A row, relative to the first one that has this baseline.
fn of_way(session: &mut Session, mixed: &Mixed, way: Way, baseline: &mut Option<f64>) -> Result<()> {
    let (what, data) = (way.name(mixed), &mixed.data);
    if !session.has_time(format_args!("{what}, keys of {} bytes, longer keys: {}", data.width, mixed.name())) {
        return Ok(());
    }
    let count = PAPERS_BATCH.min(1 << session.plan.host_queries);
    let tree = Tree::build(session, mixed, way)?;
    let pack = |batch: u64| mixed.pack(count, move |query| data.query(batch, query));
    let batches: Vec<Packed> = (1..=PAPERS_THREADS as u64).map(pack).collect();
    let (timing, checksum) = send_from_threads(session, data, (&batches[..], count), what, |batch, out| {
        Ok(tree.get_many_into(batch.keys()?, out)?)
    })?;
    let row = Row::new(FIGURE.name, "cuart", what, count, timing, checksum).on(session.device_name());
    let rate = row.giga_per_second;
    let ratio = rate / *baseline.get_or_insert(rate);
    let row = mixed.label(row, &tree).with("threads", PAPERS_THREADS).with("share", mixed.share as f64 / 100.0);
    session.push(row.with("ratio_to_baseline", ratio));
    Ok(())
}
