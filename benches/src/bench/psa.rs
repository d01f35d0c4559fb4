//! Partially-sorted aggregation (the paper's section 4.1): a batch's queries in the order of their top bits,
//! so that neighbours share their paths.

use crate::bench::data::{Batch, BenchWord, Data, Order};
use crate::bench::error::{Error, Result};
use crate::bench::session::Session;
use core::sync::atomic::{AtomicBool, Ordering};
use lanetree::harmonia::FANOUTS;
use lanetree::primitives::{RadixSortScratch, radix_argsort};
use lanetree::{Buffer, Harmonia, KeyWord};
use lanetree_base::parallel::*;
use lanetree_record::Timing;

/// A batch that was partially sorted.
pub(crate) struct PartlySorted<W> {
    pub(crate) queries: Buffer<W>,
    /// Where each of `queries` was before.
    pub(crate) positions: Vec<u32>,
    /// What the sort took on the device; `None` where it was not done there.
    pub(crate) sort: Option<Timing>,
}

/// A tree of every fanout over the same keys, and random queries that all hit, on the host and on the device.
type OfEveryFanout<W> = (Vec<Harmonia<W, W>>, Batch<W>, Buffer<W>);

/// Builds the trees, and draws the queries.
pub(crate) fn at_every_fanout<W: BenchWord>(session: &Session, data: &Data<W>) -> Result<OfEveryFanout<W>> {
    let build = |&fanout: &u32| {
        session.doing(format_args!("building at fanout {fanout}"));
        Harmonia::builder().fanout(fanout).build_sorted(&session.device, &data.keys, &data.values)
    };
    let trees = FANOUTS.iter().map(build).collect::<lanetree::Result<_>>()?;
    let sorted = data.sorted_batch(1 << session.plan.queries, false, session.seed).expect("hits are always to be had");
    let batch = sorted.ordered(Order::Random, session.seed);
    let random = session.device.upload(&batch.queries)?;
    Ok((trees, batch, random))
}

/// Sorts queries by their most significant `bits` bits, stably, and says where they were: on the device,
/// timed; the host, which has none, sorts as well, untimed.
pub(crate) fn psa_sort<W: BenchWord>(session: &Session, queries: &Buffer<W>, bits: u32) -> Result<PartlySorted<W>> {
    session.doing(format_args!("sorting {} queries by their top {bits} bits", queries.len()));
    let (before, count) = (queries.to_vec()?, queries.len());
    let (device, width) = (queries.device(), <W as KeyWord>::BITS);
    let mut out = (device.alloc::<W>(count)?, device.alloc::<u32>(count)?);
    let mut scratch = RadixSortScratch::<W, u32>::for_pairs(device, count)?;
    let timing = session.time_call(&mut out, |(keys, positions)| {
        radix_argsort(&session.stream, queries, count, width - bits..width, keys, positions, &mut scratch)
    })?;
    let sort = session.runs_kernels().then_some(timing);
    let sorted = PartlySorted { positions: out.1.to_vec()?, queries: out.0, sort };
    check(session, &before, &sorted, bits)?;
    Ok(sorted)
}

/// For each query in the order of their top bits, where it is.
pub(crate) fn order<W: BenchWord>(queries: &[W], bits: u32) -> Vec<u32> {
    let tops = queries.par_iter().enumerate().map(|(position, &query)| (top(query, bits), position as u32));
    let mut tops: Vec<(u64, u32)> = tops.collect();
    sort_unstable_by(&mut tops, Ord::cmp);
    tops.into_par_iter().map(|(_, position)| position).collect()
}

fn top<W: BenchWord>(query: W, bits: u32) -> u64 {
    if bits == 0 { 0 } else { query.widen() >> (<W as KeyWord>::BITS - bits) }
}

/// Whoever sorts: the same queries, where they are said to have been, in the order of their top bits.
fn check<W: BenchWord>(session: &Session, before: &[W], sorted: &PartlySorted<W>, bits: u32) -> Result<()> {
    let wrong = |index: usize, expected: String, found: String| {
        Err(Error::Wrong { row: "psa_sort".into(), what: "queries", index, expected, found, seed: session.seed })
    };
    let (after, positions) = (sorted.queries.to_vec()?, &sorted.positions);
    let seen: Vec<AtomicBool> = before.iter().map(|_| AtomicBool::new(false)).collect();
    let is_first = |position: u32| seen.get(position as usize).is_some_and(|seen| !seen.swap(true, Ordering::Relaxed));
    let is_wrong = |query: W, position: u32| !is_first(position) || before[position as usize] != query;
    let pairs = after.par_iter().zip(positions).enumerate();
    if let Some((i, (&query, &position))) = pairs.find_first(|(_, (query, position))| is_wrong(**query, **position)) {
        return match before.get(position as usize) {
            Some(&before) if before != query => wrong(i, before.to_string(), query.to_string()),
            _ => wrong(i, "a query of its own".into(), format!("that of position {position}, again")),
        };
    }
    if after.len() != before.len() || positions.len() != before.len() {
        return wrong(after.len().min(positions.len()), format!("{} queries", before.len()), "none".into());
    }
    match after.par_windows(2).position_first(|pair| top(pair[0], bits) > top(pair[1], bits)) {
        Some(i) => wrong(i + 1, format!("top {bits} bits not below {}", top(after[i], bits)), after[i + 1].to_string()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::session::tests::session;
    use lanetree::Device;

    #[test]
    fn queries_are_sorted_by_their_top_bits_alone() {
        let session = session(Device::host());
        let queries = [7_u32 << 28 | 9, 1 << 28 | 5, 7 << 28 | 1, 1 << 28 | 8, 0];
        let sorted = psa_sort(&session, &session.device.upload(&queries).unwrap(), 4).unwrap();
        assert_eq!(sorted.positions, [4, 1, 3, 0, 2], "stable");
        assert_eq!(
            sorted.queries.to_vec().unwrap(),
            sorted.positions.iter().map(|&i| queries[i as usize]).collect::<Vec<_>>()
        );
        let unsorted = psa_sort(&session, &session.device.upload(&queries).unwrap(), 0).unwrap();
        assert_eq!(unsorted.positions, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_sort_that_is_wrong_is_found() {
        let session = session(Device::host());
        let before = [3_u32 << 30, 1 << 30, 2 << 30];
        let check = |after: &[u32], positions: &[u32]| {
            let queries = session.device.upload(after).unwrap();
            check(&session, &before, &PartlySorted { queries, positions: positions.into(), sort: None }, 2).is_ok()
        };
        assert!(check(&[1 << 30, 2 << 30, 3 << 30], &[1, 2, 0]));
        assert!(!check(&[1 << 30, 2 << 30, 3 << 30], &[1, 0, 2]), "positions");
        assert!(!check(&[1 << 30, 1 << 30, 3 << 30], &[1, 1, 0]), "a query twice");
        assert!(!check(&[2 << 30, 1 << 30, 3 << 30], &[2, 1, 0]), "order");
        assert!(!check(&[1 << 30, 2 << 30], &[1, 2]), "a query missing");
    }
}
