//! The interval index over nested intervals, by how deep they are nested: builds and stabbing.

use crate::bench::data::{Data, Permutation, mix};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::intervals::{DeviceRows, Scratch};
use lanetree::{IntervalIndex, Pool};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("intervals", Run::Alone(measure));

/// Points of which all intervals are found, at most, as a power of two.
const STABBED: u32 = 22;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let size = main_of(&request.sizes).saturating_sub(2).max(4);
    for (name, depth) in [("1", 1), ("16", 16), ("any", usize::MAX)] {
        if session.has_time(format_args!("intervals nested {name} deep, n = 2^{size}")) {
            let nests = Nests::new(1 << size, depth, session.seed_of(size));
            of_depth(session, name, &nests)?;
        }
    }
    Ok(())
}

/// No interval.
const NONE: u32 = u32::MAX;

/// Nested intervals, and what is around each part of the key space.
struct Nests {
    starts: Vec<u64>,
    ends: Vec<u64>,
    /// Starts and ends, ascending.
    bounds: Vec<u64>,
    /// The innermost interval from each bound on, up to the next one; an end is within its interval.
    from: Vec<u32>,
    at: Vec<u32>,
    /// The interval around each, and how many there are around it, itself included.
    parents: Vec<u32>,
    depths: Vec<u32>,
}

impl Nests {
    fn new(len: usize, most: usize, seed: u64) -> Self {
        let bounds = Data::<u64>::uniform(2 * len, seed).keys;
        let numbers = Permutation::new(len, seed);
        let zeros = || vec![0; len];
        let (mut starts, mut ends, mut parents, mut depths) = (zeros(), zeros(), vec![NONE; len], vec![0; len]);
        let (mut from, mut at) = (Vec::with_capacity(2 * len), Vec::with_capacity(2 * len));
        let (mut open, mut begun): (Vec<u32>, usize) = (Vec::new(), 0);
        for (i, &bound) in bounds.iter().enumerate() {
            // As many bounds are left as there are intervals to be closed.
            let must_close = open.len() >= most.min(bounds.len() - i);
            if open.is_empty() || !must_close && mix(i as u64 ^ seed) & 1 == 0 {
                let own = numbers.image(begun) as u32;
                begun += 1;
                starts[own as usize] = bound;
                parents[own as usize] = open.last().copied().unwrap_or(NONE);
                open.push(own);
                depths[own as usize] = open.len() as u32;
                at.push(own);
            } else if let Some(own) = open.pop() {
                ends[own as usize] = bound;
                at.push(own);
            }
            from.push(open.last().copied().unwrap_or(NONE));
        }
        Self { starts, ends, bounds, from, at, parents, depths }
    }

    /// The innermost interval around a point.
    fn innermost(&self, point: u64) -> u32 {
        let after = self.bounds.partition_point(|&bound| bound <= point);
        match after.checked_sub(1) {
            None => NONE,
            Some(last) if self.bounds[last] == point => self.at[last],
            Some(last) => self.from[last],
        }
    }

    /// How many intervals there are around a point with this innermost one.
    fn depth(&self, innermost: u32) -> u64 {
        if innermost == NONE { 0 } else { u64::from(self.depths[innermost as usize]) }
    }
}

fn of_depth(session: &mut Session, name: &'static str, nests: &Nests) -> Result<()> {
    let len = nests.starts.len();
    let intervals = (session.device.upload(&nests.starts)?, session.device.upload(&nests.ends)?);
    let pool = Pool::new(&session.device).device().stream()?;
    let build = || IntervalIndex::<u64, u32>::build_on(&pool, &intervals.0, &intervals.1, None, len);
    let (building, index) = session.time_making(build)?;
    drop(intervals);
    let bytes = index.bytes() as f64 / len as f64;
    let device_name = session.device_name();
    let row = |operation: &str, batch: usize, timing: Timing, checksum: Checksum| {
        let row = Row::new(FIGURE.name, "intervals", operation, batch, timing, checksum).on(device_name);
        row.over(len, "u64", "u32", name).with("bytes_per_key", bytes)
    };

    let count = 1_usize << session.plan.queries;
    let points: Vec<u64> = (0..count as u64).into_par_iter().map(|i| mix(i ^ session.seed << 32)).collect();
    let innermost: Vec<u32> = points.par_iter().map(|&point| nests.innermost(point)).collect();
    let hits = innermost.par_iter().count_if(|&&row| row != NONE) as f64 / count as f64;
    let queries = session.device.upload(&points)?;

    let mut scratch = Scratch::new(&session.device, count)?;
    let on = || index.on(&session.stream).miss(NONE);
    let what = format!("intervals nested {name} deep, most_specific");
    let mut rows = session.device.alloc(count)?;
    let timing = session.time_call(&mut rows, |rows| on().most_specific(&queries, rows, &mut scratch))?;
    let checksum = session.check(&what, "rows", &rows, rows.len(), NONE, |i| innermost[i])?;
    // The build is right if what it has built answers so.
    session.push(row("build_on", len, building, checksum));
    session.push(row("most_specific", count, timing, checksum).with("hit_rate", hits));
    drop(rows);

    let what = format!("intervals nested {name} deep, count");
    let on = index.on(&session.stream);
    let mut counts = session.device.alloc(count)?;
    let depth = |i: usize| nests.depth(innermost[i]);
    let timing = session.time_call(&mut counts, |counts| on.count(&queries, counts, &mut scratch))?;
    let checksum = session.check(&what, "counts", &counts, counts.len(), u64::MAX, depth)?;
    session.push(row("count", count, timing, checksum).with("hit_rate", hits));
    drop((counts, queries, scratch));

    // As many points as have no more than a few results each together.
    let few = count.min(1 << STABBED);
    let mean = innermost[..few].par_iter().map(|&row| nests.depth(row)).sum::<u64>() / few as u64;
    let few = few / (mean as usize / 16).max(1);
    stab(session, &what, nests, &index, (&points[..few], &innermost[..few]), row)
}

/// All intervals around points.
fn stab(
    session: &mut Session,
    what: &str,
    nests: &Nests,
    index: &IntervalIndex<u64>,
    (points, innermost): (&[u64], &[u32]),
    row: impl Fn(&str, usize, Timing, Checksum) -> Row,
) -> Result<()> {
    let count = points.len();
    let (mut offsets, mut rows) = (vec![0_u64], Vec::new());
    for &innermost in innermost {
        let mut at = innermost;
        while at != NONE {
            rows.push(at);
            at = nests.parents[at as usize];
        }
        offsets.push(rows.len() as u64);
    }
    let queries = session.device.upload(points)?;
    let mut scratch = Scratch::new(&session.device, count)?;
    let mut out = DeviceRows::new(&session.device, count, rows.len())?;
    let timing = session.time_call(&mut out, |out| index.on(&session.stream).stab(&queries, &mut scratch, out))?;
    let what = format!("{what}, stab");
    let by_row = session.check(&what, "rows", &out.rows, rows.len(), NONE, |i| rows[i])?;
    let by_offset = session.check(&what, "offsets", &out.offsets, count + 1, u64::MAX, |i| offsets[i])?;
    let found = rows.len() as f64 / count as f64;
    session.push(row("stab", count, timing, by_row.and(by_offset)).with("found_per_point", found));
    Ok(())
}
