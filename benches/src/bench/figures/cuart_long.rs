//! Long keys (the paper's figures 13 and 14): on the CPU with short keys on the device, and in the paper's two other
//! ways.

use crate::bench::cuart::data::Data;
use crate::bench::cuart::long::{Mixed, Tree, Way};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-long", Run::Alone(long_keys));

/// Sizes of the batches, as powers of two: the paper's, and a larger one.
const BATCHES: [u32; 2] = [15, 20];

/// The parts of the keys that are long, in per cent.
const SHARES: [u64; 6] = [0, 1, 5, 10, 25, 50];

/// By the share of keys of 33 to 128 bytes among keys of 32, in all ways; then by the width of keys, with a share of
/// keys of one byte more on the CPU, as in the paper's figure 14.
fn long_keys(session: &mut Session, request: &Request) -> Result<()> {
    let (len, seed) = (1 << main_of(&request.sizes), session.seed);
    for share in SHARES {
        let mixed = Mixed { data: Data::new(32, len, seed), share, longer: (33, 128) };
        of_keys(session, &mixed, &[Way::DeviceLeaves, Way::HostLeaves, Way::Hybrid])?;
    }
    for width in [8, 16, 32] {
        let mixed = Mixed { data: Data::new(width, len, seed), share: 5, longer: (width + 1, width + 1) };
        of_keys(session, &mixed, &[Way::DeviceLeaves, Way::Hybrid])?;
    }
    Ok(())
}

/// All ways; the others are compared with the first one.
fn of_keys(session: &mut Session, mixed: &Mixed, ways: &[Way]) -> Result<()> {
    let most = session.plan.host_queries;
    let mut batches = BATCHES.map(|batch| batch.min(most)).to_vec();
    batches.dedup();
    let mut firsts: Vec<Option<f64>> = vec![None; batches.len()];
    for &way in ways {
        let what = format!("{}, keys of {} bytes, longer ones: {}", way.name(mixed), mixed.data.width, mixed.name());
        if !session.has_time(&what) {
            continue;
        }
        let tree = Tree::build(session, mixed, way)?;
        for (&batch, first) in batches.iter().zip(&mut firsts) {
            let mut row = of_batch(session, mixed, way, &tree, 1 << batch)?;
            if way == ways[0] {
                *first = Some(row.giga_per_second);
            }
            row.set("ratio_to_baseline", first.map(|first| row.giga_per_second / first));
            session.push(row);
        }
    }
    Ok(())
}

fn of_batch(session: &Session, mixed: &Mixed, way: Way, tree: &Tree, count: usize) -> Result<Row> {
    let data = &mixed.data;
    let queries = mixed.pack(count, |query| data.query(1, query));
    let keys = queries.keys()?;
    let mut out = vec![None; count];
    let timing = session.time_into(&mut out, |out| tree.get_many_into(keys, out))?;
    let operation = way.name(mixed);
    let checksum = session.check_found(&operation, &out, count, 0, |query| data.query(1, query) as u32 + 1)?;
    let row = Row::new(FIGURE.name, "cuart", operation, count, timing, checksum).on(session.device_name());
    Ok(mixed.label(row, tree).with("bytes_moved", queries.byte_len() + 4 * count))
}
