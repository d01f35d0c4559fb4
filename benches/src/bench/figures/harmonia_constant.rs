//! Section 3.1: first children from the nodes, from the prefix-sum array by the read-only cache, and from that array with
//! its top in constant memory, as in the paper.

use crate::bench::data::{Data, Order, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Either, Measurement, Run};
use crate::bench::psa::psa_sort;
use crate::bench::queries::batch;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use lanetree::Buffer;
use lanetree::harmonia::{ChildRegion, GroupWidth, LookUpTuning};
use lanetree_kernels_harmonia::calls::CONSTANT;

pub(crate) const FIGURE: Measurement = Measurement::new(
    "harmonia-constant",
    Run::OverKeys(At::EverySize, |session, keys| match keys {
        Either::Wide(data) => measure(session, data),
        // Without a file of keys there are none of 32 bits, for which there is no kernel.
        Either::Narrow(_) => Ok(()),
    }),
);

/// Where first children are read. The first is what the others are compared with; the last is the paper's way.
const WAYS: [&str; 3] = ["prefix sum", "slot", "constant"];

/// All of it over the same keys and queries. Takes the data from tree to tree.
fn measure(session: &mut Session, mut data: Data<u64>) -> Result<()> {
    for &(fanout, widths) in CONSTANT {
        let subject = Subject::build_with(session, data, fanout)?;
        of_tree(session, &subject, widths)?;
        data = subject.into_data();
    }
    Ok(())
}

fn of_tree(session: &mut Session, subject: &Subject<u64>, widths: &[u32]) -> Result<()> {
    let Some(sorted) = batch(session, subject, false) else { return Ok(()) };
    let batch = sorted.ordered(Order::Random, session.seed);
    let random = session.device.upload(&batch.queries)?;
    let bits = subject.tree.psa_bits();
    let sorted = psa_sort(session, &random, bits)?;
    let top = subject.tree.constant_top()?;
    let mut out = session.device.alloc::<u64>(random.len())?;
    for sorted in [None, Some(&sorted)] {
        let queries = sorted.map_or(&random, |sorted| &sorted.queries);
        let value = |i: usize| batch.value(sorted.map_or(i, |sorted| sorted.positions[i] as usize));
        let order = if sorted.is_some() { "partly sorted" } else { Order::Random.name() };
        for &lanes in widths {
            let mut first = None;
            for way in WAYS {
                let (fanout, tree) = (subject.stats.fanout, subject.describe());
                let what = format!("{way}, fanout {fanout}, {lanes} lanes, {order}, {tree}");
                if !session.has_time(&what) {
                    continue;
                }
                let child = if way == "slot" { ChildRegion::NodeSlot } else { ChildRegion::PrefixSum };
                let on = || subject.tree.on(&session.stream).group(GroupWidth::Lanes(lanes)).child_region(child);
                let call = |out: &mut Buffer<u64>| match way {
                    "constant" => top.get(&session.stream, lanes, queries, out, None, miss()),
                    _ => on().miss(miss()).get(queries, out),
                };
                let timing = session.time_call(&mut out, call)?;
                let checksum = session.check(&what, "values", &out, out.len(), miss(), value)?;
                let first = *first.get_or_insert(timing.median_ms);
                let ratio = first / timing.median_ms;
                let row = subject.row(session, FIGURE.name, "get", out.len(), timing, checksum);
                let row = row.with("group", lanes).with("child_region", way).with("order", order).with("hit_rate", 1.0);
                session.push(row.with("sorted_bits", sorted.map(|_| bits)).with("ratio_to_baseline", ratio));
            }
        }
    }
    Ok(())
}
