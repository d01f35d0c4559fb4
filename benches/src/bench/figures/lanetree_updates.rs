//! LaneTree: builds, and batches of new keys, by the fill of its lines, the batch's size and where its keys lie.

use crate::bench::batches::{Sent, Spread, batch, keys};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::lane_tree::inserts::{Inserted, Origin, SERIES, all_are_there, inserts};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::lane_tree::{BuildScratch, Builder};
use lanetree::{DeviceKind, LaneTree, Pool};
use lanetree_base::parallel::*;

pub(crate) const FIGURE: Measurement = Measurement::new("lanetree-updates", Run::Alone(measure));

const SPREADS: [Spread; 5] = [Spread::Uniform, Spread::Skewed, Spread::Appended, Spread::Descending, Spread::OneNode];

/// Where batches come from, and what rows call it.
const ORIGINS: [(Origin, &str); 3] =
    [(Origin::Device, "insert"), (Origin::Pinned, "insert, pinned"), (Origin::Host, "insert_many")];

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let len = 1_usize << main_of(&request.sizes);
    let keys = keys(session.seed, len);
    let mut sorted = keys.clone();
    sort_unstable_by(&mut sorted, Ord::cmp);
    let unsorted_pairs = Sent::new(session, &keys)?;
    let pairs = Sent::new(session, &sorted)?;
    session.stream.synchronize()?;
    let quick = session.plan.scale.quick || session.plan.scale.kind != DeviceKind::Cuda;
    for fill in [0.7, 1.0] {
        let builder = LaneTree::<u64, u64>::builder().fill(fill);
        for is_sorted in [true, false] {
            let pairs = if is_sorted { &pairs } else { &unsorted_pairs };
            build(session, &builder, fill, pairs, &keys, is_sorted)?;
        }
        for size in if quick { &[8][..] } else { &[22, 20, 16, 10] } {
            for spread in SPREADS {
                let what = format!("batches of 2^{size}, {}, fill {fill}", spread.name());
                if !session.has_time(&what) {
                    continue;
                }
                let all = batch(session.seed, &sorted, SERIES << size, spread);
                // The bus does not see where keys lie.
                let all_origins = fill < 1.0 && spread == Spread::Uniform;
                let origins = if all_origins { ORIGINS.len() } else { 1 };
                for &(origin, operation) in &ORIGINS[..origins] {
                    for Inserted { before, timing, checksum, path, bytes_per_key } in
                        inserts(session, &builder, &pairs, &all, origin, &what)?
                    {
                        let row = Row::new(FIGURE.name, "lanetree", operation, 1 << size, timing, checksum);
                        let row = row.on(session.device_name()).over(len, "u64", "u64", "uniform").with("fill", fill);
                        let row = row.with("spread", spread.name()).with("batches_before", before as u64);
                        session.push(row.with("path", path).with("bytes_per_key", bytes_per_key));
                    }
                }
            }
        }
    }
    Ok(())
}

fn build(
    session: &mut Session,
    builder: &Builder<u64, u64>,
    fill: f64,
    pairs: &Sent,
    keys: &[u64],
    is_sorted: bool,
) -> Result<()> {
    let pooled = Pool::new(&session.device).device();
    let stream = &pooled.stream()?;
    let mut scratch = match is_sorted {
        true => BuildScratch::for_sorted(&pooled)?,
        false => BuildScratch::for_unsorted(&pooled, keys.len())?,
    };
    let pairs = &pairs.device;
    let (timing, tree) = session.time_making(|| match is_sorted {
        true => builder.build_sorted_on(stream, &pairs.0, &pairs.1, keys.len(), &mut scratch),
        false => builder.build_on(stream, &pairs.0, &pairs.1, keys.len(), &mut scratch),
    })?;
    let operation = if is_sorted { "build_sorted_on" } else { "build_on" };
    let checksum = all_are_there(session, operation, &tree, keys)?;
    let row = Row::new(FIGURE.name, "lanetree", operation, keys.len(), timing, checksum).on(session.device_name());
    let row = row.over(keys.len(), "u64", "u64", "uniform").with("fill", fill);
    session.push(row.with("bytes_per_key", tree.bytes() as f64 / keys.len() as f64));
    Ok(())
}
