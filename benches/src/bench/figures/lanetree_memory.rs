//! The memory of LaneTree: of a tree, by part, and of its build, at most.

use crate::bench::data::{BenchWord, Data, Permutation, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::lane_tree::inserts::all_are_there;
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::lane_tree::{BuildScratch, Builder};
use lanetree::{AnyKey, Buffer, Device, LaneTree, Pool, Stream};
use lanetree_base::parallel::*;
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("lanetree-memory", Run::Alone(measure));

/// How a tree is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    SortedOn,
    On,
    OwnedOn,
    Host,
    HostSorted,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::SortedOn => "build_sorted_on",
            Self::On => "build_on",
            Self::OwnedOn => "build_owned_on",
            Self::Host => "build",
            Self::HostSorted => "build_sorted",
        }
    }

    fn is_from_host(self) -> bool {
        matches!(self, Self::Host | Self::HostSorted)
    }

    /// Builds a tree on a pool's device. The pairs there are taken by the way that takes them.
    fn build<W: BenchWord>(
        self,
        builder: &Builder<W, W>,
        (device, stream): (&Device, &Stream),
        (keys, values): (&[W], &[W]),
        given: &mut Option<(Buffer<W>, Buffer<W>)>,
    ) -> lanetree::Result<LaneTree<W, W>> {
        let len = keys.len();
        let pairs = given.as_ref().map(|(keys, values)| (keys, values));
        match (self, pairs) {
            (Self::SortedOn, Some(pairs)) => {
                builder.build_sorted_on(stream, pairs.0, pairs.1, len, &mut BuildScratch::for_sorted(device)?)
            }
            (Self::On, Some(pairs)) => {
                builder.build_on(stream, pairs.0, pairs.1, len, &mut BuildScratch::for_unsorted(device, len)?)
            }
            (Self::OwnedOn, Some(_)) => {
                let (keys, values) = given.take().expect("some");
                builder.build_owned_on(stream, keys, values, len)
            }
            (Self::HostSorted, _) => builder.build_sorted(device, keys, values),
            (Self::Host | Self::SortedOn | Self::On | Self::OwnedOn, _) => builder.build(device, keys, values),
        }
    }
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes);
    of_words::<u64>(session, size)?;
    of_words::<u32>(session, size)
}

fn of_words<W: BenchWord>(session: &mut Session, size: u32) -> Result<()> {
    let data = Data::<W>::uniform(1 << size, session.seed_of(size));
    let permutation = Permutation::new(data.len(), session.seed);
    let unsorted: Vec<W> = (0..data.len()).into_par_iter().map(|i| data.keys[permutation.image(i)]).collect();
    let mut twice = unsorted.clone();
    let (start, end) = twice.split_at_mut(data.len() / 16);
    start.copy_from_slice(&end[..start.len()]);
    for (way, pairs_are, keys) in [
        (Way::SortedOn, "sorted", &data.keys),
        (Way::On, "unsorted", &unsorted),
        (Way::OwnedOn, "unsorted", &unsorted),
        (Way::OwnedOn, "unsorted, one key in 16 twice", &twice),
        (Way::HostSorted, "sorted, in host memory", &data.keys),
        (Way::Host, "unsorted, in host memory", &unsorted),
    ] {
        let what = format!("{}, {} keys, {pairs_are}", way.name(), <W as AnyKey>::NAME);
        if session.has_time(&what) {
            one(session, way, keys, pairs_are, &what)?;
        }
    }
    Ok(())
}

/// A tree, and the pairs that it is to be built from, where the build takes them.
type State<W> = (Option<LaneTree<W, W>>, lanetree::Result<Option<(Buffer<W>, Buffer<W>)>>);

fn one<W: BenchWord>(session: &mut Session, way: Way, keys: &[W], pairs_are: &'static str, what: &str) -> Result<()> {
    let values: Vec<W> = keys.par_iter().map(|&key| value_of(key)).collect();
    let pool = Pool::new(&session.device);
    let (device, stream, builder) = (pool.device(), pool.device().stream()?, LaneTree::builder());
    // Outside of the pool, and copied for each build.
    let kept = match way.is_from_host() {
        true => None,
        false => Some((session.device.upload(keys)?, session.device.upload(&values)?)),
    };
    let given = || -> lanetree::Result<Option<(Buffer<W>, Buffer<W>)>> {
        let Some((keys, values)) = &kept else { return Ok(None) };
        let mut given = (device.alloc(keys.len())?, device.alloc(keys.len())?);
        given.0.copy_from_buffer(&stream, 0, keys, 0..keys.len())?;
        given.1.copy_from_buffer(&stream, 0, values, 0..keys.len())?;
        stream.synchronize()?;
        Ok(Some(given))
    };
    let mut state: State<W> = (None, Ok(None));
    let prepare = |(tree, pairs): &mut State<W>| {
        *tree = None;
        *pairs = Ok(None);
        *pairs = given();
        pool.restart_peak();
    };
    let work = |(tree, pairs): &mut State<W>| -> Result<()> {
        let mut pairs = core::mem::replace(pairs, Ok(None))?;
        *tree = Some(way.build(&builder, (&device, &stream), (keys, &values), &mut pairs)?);
        Ok(())
    };
    let timing = if way.is_from_host() {
        // The CPU takes long to sort.
        prepare(&mut state);
        let start = Instant::now();
        work(&mut state)?;
        Timing::of(vec![start.elapsed().as_secs_f64() * 1e3])
    } else {
        session.time_on_cpu(&mut state, prepare, work)?
    };
    let peak = pool.stats().peak;
    let tree = state.0.expect("built at least once");
    let checksum = all_are_there(session, what, &tree, keys)?;
    let stats = tree.stats();
    let per_key = |bytes: u64| bytes as f64 / stats.len as f64;
    let row = Row::new(FIGURE.name, "lanetree", way.name(), keys.len(), timing, checksum).on(session.device_name());
    let row = row.over(keys.len(), <W as AnyKey>::NAME, <W as AnyKey>::NAME, "uniform").with("pairs_are", pairs_are);
    let row = row.with("line_bytes_per_key", per_key(stats.bucket_bytes));
    let row = row.with("node_bytes_per_key", per_key(stats.node_bytes));
    let row = row.with("record_bytes_per_key", per_key(stats.record_bytes));
    let row = row.with("upper_bytes_per_key", per_key(stats.upper_bytes));
    let row = row.with("top_bytes_per_key", per_key(stats.top_bytes));
    let together = stats.bytes() + 2 * size_of_val(keys) as u64;
    let row = row.with("peak_bytes", peak as u64).with("peak", peak as f64 / together as f64);
    session.push(row.with("bytes_per_key", per_key(stats.bytes())));
    Ok(())
}
