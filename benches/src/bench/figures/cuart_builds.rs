//! Bulk builds of pairs that are on the device, and compaction there, compared with a build by the CPU.
//!
//! A tree is checked by look-ups, ranks and ranges, and by its nodes and leaves: a tree that was not compacted
//! answers look-ups just as well.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::subject::{Subject, len};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;
use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::{Cuart, DeviceKeys};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-builds", Run::Alone(builds));

/// Queries that a tree is checked with, and ranges of [`RANGE`] pairs.
const CHECKED: usize = 1 << 20;
const RANGES: usize = 1 << 12;
const RANGE: usize = 8;

/// Of keys of 8 and 32 bytes; the ratio is to the CPU's build, with the copy of the tree to the device.
fn builds(session: &mut Session, request: &Request) -> Result<()> {
    for width in [8, 32] {
        let data = Data::new(width, len(session, &request.sizes), session.seed);
        if session.has_time(format_args!("builds, keys of {width} bytes")) {
            of_width(session, data)?;
        }
    }
    Ok(())
}

fn of_width(session: &mut Session, data: Data) -> Result<()> {
    let mut order: Vec<u64> = (0..data.len as u64).collect();
    {
        let bytes = data.all();
        let key = |i: usize| &bytes[i * data.width..][..data.width];
        sort_unstable_by(&mut order, |&a, &b| key(a as usize).cmp(key(b as usize)));
    }
    let bytes = data.bytes(data.len, |rank| order[rank]);
    let values: Vec<u32> = order.par_iter().map(|&i| i as u32 + 1).collect();
    let sorted = keys(data.width, &bytes);
    let (timing, tree) = session.time_making(|| Cuart::builder().build_sorted(&session.device, sorted, &values))?;
    let stats = tree.stats();
    let mut subject = Built { subject: Subject { data, stats, of_gathers: None, tree }, order };
    let baseline = push(session, &subject, "build_sorted on the CPU", timing, None)?;

    let pairs = (DeviceKeys::upload(&session.device, sorted)?, session.device.upload(&values)?);
    on_device(session, &mut subject, &pairs, "build_on, sorted", baseline)?;
    drop((pairs, bytes, values));
    // Longer ones must ascend.
    if data.width <= 8 {
        let (bytes, values) = (data.all(), data.values());
        let pairs = (DeviceKeys::upload(&session.device, keys(data.width, &bytes))?, session.device.upload(&values)?);
        drop((bytes, values));
        on_device(session, &mut subject, &pairs, "build_on, random order", baseline)?;
    }
    compaction(session, &mut subject, baseline)
}

/// A tree, and the numbers of its keys in their order.
struct Built {
    subject: Subject<u32>,
    order: Vec<u64>,
}

fn on_device(
    session: &mut Session,
    built_before: &mut Built,
    pairs: &(DeviceKeys, lanetree::Buffer<u32>),
    operation: &str,
    baseline: f64,
) -> Result<()> {
    let (timing, tree) = session.time_making(|| Cuart::builder().build_on(&session.stream, &pairs.0, &pairs.1))?;
    built_before.subject.tree = tree;
    push(session, built_before, operation, timing, Some(baseline)).map(drop)
}

/// Of a tree from which an eighth of the keys was taken away and put back.
fn compaction(session: &mut Session, built: &mut Built, baseline: f64) -> Result<()> {
    let data = built.subject.data;
    let count = data.len / 8;
    let bytes = data.bytes(count, |i| 8 * i as u64);
    let values: Vec<u32> = (0..count as u32).map(|i| 8 * i + 1).collect();
    let batch = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let values = session.device.upload(&values)?;
    let mut scratch = ChangeScratch::for_inserts(&session.device, count, UpdateEngine::Auto)?;
    let change = |tree: &mut Cuart<u32>| -> Result<()> {
        tree.remove_on(&session.stream, &batch)?;
        tree.insert_on(&session.stream, &batch, &values, &mut scratch)?;
        session.stream.synchronize()?;
        session.expect(&"compact", "is_compact, before it", tree.is_compact().into(), 0)
    };
    let timing = session.time_prepared(&mut built.subject.tree, change, |tree| Ok(tree.compact().map(drop)?))?;
    push(session, built, "compact", timing, Some(baseline)).map(drop)
}

/// A row, once the tree was found to be what it should be; its rate.
fn push(session: &mut Session, built: &Built, operation: &str, timing: Timing, baseline: Option<f64>) -> Result<f64> {
    let subject = &built.subject;
    let checksum = check(session, built, operation)?;
    let mut row = subject.row(session, FIGURE.name, operation, subject.data.len, timing, checksum);
    row.set("order", None::<&str>);
    row.set("hit_rate", None::<f64>);
    row.set("footprint_bytes", subject.tree.stats().bytes());
    let rate = row.giga_per_second;
    row.set("ratio_to_baseline", rate / baseline.unwrap_or(rate));
    session.push(row);
    Ok(rate)
}

/// Look-ups, ranks and ranges, and whether there are the same numbers of nodes and leaves as in the tree that the CPU built, all of
/// them in use.
fn check(session: &Session, Built { subject, order }: &Built, operation: &str) -> Result<Checksum> {
    let Subject { data, tree, stats, .. } = subject;
    let found = tree.stats();
    session.expect(&operation, "is_compact", tree.is_compact().into(), 1)?;
    session.expect(&operation, "len", tree.len(), data.len as u64)?;
    session.check_slice(&operation, "nodes", &found.nodes, 0..4, u64::MAX, |kind| stats.nodes[kind])?;
    session.check_slice(&operation, "leaves", &found.leaves, 0..3, u64::MAX, |kind| stats.leaves[kind])?;
    session.expect(&operation, "free bytes", found.free_bytes, 0)?;

    let checked = CHECKED.min(data.len);
    let bytes = data.bytes(checked, |query| data.query(1, query));
    let batch = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let mut out = session.device.alloc::<u32>(checked)?;
    tree.on(&session.stream).miss(0).get(&batch, &mut out)?;
    session.stream.synchronize()?;
    let checksum = session.check(&operation, "values", &out, checked, 0, |query| data.query(1, query) as u32 + 1)?;

    // All over the tree, the first key among them.
    let rank = |i: usize| i * (data.len / checked.max(1)).max(1);
    let bytes = data.bytes(checked, |i| order[rank(i)]);
    let batch = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let mut ranks = session.device.alloc::<u64>(checked)?;
    tree.on(&session.stream).lower_bound(&batch, &mut ranks)?;
    session.stream.synchronize()?;
    session.check(&operation, "ranks", &ranks, checked, u64::MAX, |i| rank(i) as u64)?;

    let count = if data.len < RANGE { 0 } else { RANGES.min(data.len / RANGE) };
    let first = |i: usize| i * (data.len / count.max(1)).min(data.len - RANGE);
    let keys_at = |offset: usize| data.bytes(count, |i| order[first(i) + offset]);
    let (starts, ends) = (keys_at(0), keys_at(RANGE - 1));
    let bounds = starts.chunks(data.width).zip(ends.chunks(data.width));
    let ranges = tree.range_many(bounds.map(|(start, end)| start..=end))?;
    let values: Vec<u32> = (0..ranges.len()).flat_map(|range| ranges.get(range).1).copied().collect();
    let expected = |i: usize| order[first(i / RANGE) + i % RANGE] as u32 + 1;
    session.check_slice(&operation, "values of ranges", &values, 0..count * RANGE, 0, expected)?;
    Ok(checksum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::error::Error;
    use crate::bench::session::tests::session;
    use lanetree::Device;

    /// A tree of 300 keys of 8 bytes as the CPU builds it.
    fn small(session: &Session) -> Built {
        let data = Data::new(8, 300, session.seed);
        let bytes = data.all();
        let mut order: Vec<u64> = (0..300).collect();
        order.sort_by_key(|&i| bytes[8 * i as usize..][..8].to_vec());
        let tree = Cuart::build(&session.device, keys(8, &bytes), &data.values()).unwrap();
        Built { subject: Subject { data, stats: tree.stats(), of_gathers: None, tree }, order }
    }

    fn difference(outcome: Result<Checksum>) -> &'static str {
        match outcome {
            Err(Error::Wrong { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_tree_that_was_not_compacted_is_found() {
        let session = session(Device::emulated());
        let mut built = small(&session);
        check(&session, &built, "build").unwrap();
        let key = built.subject.data.bytes(1, |_| 7);
        built.subject.tree.remove_many(keys(8, &key)).unwrap();
        built.subject.tree.insert_many(keys(8, &key), &[8]).unwrap();
        // Its look-ups are what they were.
        assert_eq!(built.subject.tree.get_many(keys(8, &key)).unwrap(), [Some(8)]);
        assert_eq!(difference(check(&session, &built, "compact")), "is_compact");
        built.subject.tree.compact().unwrap();
        check(&session, &built, "compact").unwrap();
    }

    #[test]
    fn a_tree_of_other_shape_or_order_is_found() {
        let session = session(Device::emulated());
        let mut built = small(&session);
        built.order.swap(10, 20);
        assert_eq!(difference(check(&session, &built, "build")), "ranks");
        let mut built = small(&session);
        built.subject.stats.nodes[0] += 1;
        assert_eq!(difference(check(&session, &built, "build")), "nodes");
    }
}
