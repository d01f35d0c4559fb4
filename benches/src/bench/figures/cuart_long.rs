//! Long keys (the paper's figures 13 and 14): on the CPU beside the device, and the paper's two other ways.

use crate::bench::columns::{BATCH, Column, Format, KEYS, MS, N, OPERATION, RATE, RATIO, SIZE, WORDS};
use crate::bench::cuart::data::Data;
use crate::bench::data::mix;
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::plan::{self, Scale, main_of};
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};
use lanetree::cuart::{Hybrid, LongKeys};
use lanetree::{ByteKeys, Cuart};
use rayon::prelude::*;

pub(crate) static FIGURE: Figure = Figure {
    name: "cuart-long",
    about: "CuART's paper, figures 13 and 14, and two other ways: batches in host memory, a share of them long keys",
    table: Some(&TABLE),
    takes: Takes::SIZES,
    sizes,
    run: Run::Alone(long_keys),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "cuart-long",
    title: "CuART: three ways with long keys (the paper's figures 13 and 14), from and to host memory",
    columns: &[
        OPERATION.headed("way"),
        WORDS,
        KEYS.headed("longer keys"),
        N,
        BATCH,
        MS,
        RATE,
        RATIO.headed("x all on the device"),
        Column::extra("device MiB", "footprint_bytes", Format::Mebibytes),
        SIZE,
    ],
    clock: Clock::Calls,
    notes: &[
        "By the CPU's clock. The same share of the queries as of the keys is longer. Device leaves, all on the device:",
        "leaves of their size beside the others; host leaves: the device finds the leaf, the CPU compares the key; hybrid:",
        "the CPU looks up the longer keys while the device looks up the others. The paper (section 4.4.1, hybrid alone,",
        "26 Mi keys, batches of 2^15, 56 threads of the CPU): about half the rate where 3 % of the keys are the CPU's.",
        "Trees of at most 2^22 keys, unless --sizes says otherwise: two dozen are built.",
    ],
    summary: None,
};

/// The most keys, unless more are asked for: two dozen trees are built.
const MOST: u32 = 22;

fn sizes(scale: Scale) -> Vec<u32> {
    vec![main_of(&plan::standard(scale)).min(MOST)]
}

/// Sizes of the batches, as powers of two: the paper's, and a larger one.
const BATCHES: [u32; 2] = [15, 20];

/// The parts of the keys that are long, in per cent.
const SHARES: [u64; 6] = [0, 1, 5, 10, 25, 50];

/// Keys, most of them of one width, the others longer.
#[derive(Clone, Copy, Debug)]
struct Mixed {
    data: Data,
    /// How many of a hundred are longer.
    share: u64,
    /// Bytes of the longer ones: the fewest and the most.
    longer: (usize, usize),
}

/// Strings and where each begins.
struct Packed {
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

impl Packed {
    fn keys(&self) -> Result<ByteKeys<'_>> {
        Ok(ByteKeys::new(&self.offsets[..], &self.bytes)?)
    }
}

impl Mixed {
    fn key_len(&self, index: u64) -> usize {
        // A number that has nothing to do with the key's bytes.
        let random = mix(mix(index) ^ mix(!self.data.seed));
        let (fewest, most) = self.longer;
        if random % 100 < self.share { fewest + (random / 100) as usize % (most - fewest + 1) } else { self.data.width }
    }

    /// The keys with these indexes.
    fn pack(&self, count: usize, index: impl Fn(usize) -> u64 + Sync) -> Packed {
        let mut offsets: Vec<u64> = vec![0; count + 1];
        offsets[1..].par_iter_mut().enumerate().for_each(|(i, len)| *len = self.key_len(index(i)) as u64);
        let mut end = 0;
        for offset in &mut offsets {
            end += *offset;
            *offset = end;
        }
        let mut bytes = vec![0; end as usize];
        let mut rest = &mut bytes[..];
        let mut strings = Vec::with_capacity(count);
        for pair in offsets.windows(2) {
            let string;
            (string, rest) = rest.split_at_mut((pair[1] - pair[0]) as usize);
            strings.push(string);
        }
        strings.into_par_iter().enumerate().for_each(|(i, string)| self.data.key(index(i), string));
        Packed { offsets, bytes }
    }

    /// What stands for the longer keys in a row.
    fn name(&self) -> String {
        match (self.share, self.longer) {
            (0, _) => "none".into(),
            (share, (fewest, most)) if fewest == most => format!("{share} % of {fewest} bytes"),
            (share, (fewest, most)) => format!("{share} % of {fewest} to {most} bytes"),
        }
    }
}

/// Where longer keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    DeviceLeaves,
    HostLeaves,
    Hybrid,
}

impl Way {
    fn name(self, mixed: &Mixed) -> &'static str {
        match self {
            Self::DeviceLeaves if mixed.longer.0 <= 32 => "all on the device",
            Self::DeviceLeaves => "device leaves",
            Self::HostLeaves => "host leaves",
            Self::Hybrid => "hybrid",
        }
    }
}

/// A tree built in some way.
enum Tree {
    Whole(Box<Cuart<u32>>),
    Parted(Box<Hybrid<u32>>),
}

impl Tree {
    fn build(session: &Session, mixed: &Mixed, way: Way) -> Result<Self> {
        let packed = mixed.pack(mixed.data.len, |i| i as u64);
        let (device, keys, values) = (&session.device, packed.keys()?, mixed.data.values::<u32>());
        let whole = |long_keys| Cuart::builder().long_keys(long_keys).build(device, keys, &values);
        Ok(match way {
            Way::DeviceLeaves => Self::Whole(Box::new(whole(LongKeys::DeviceLeaves)?)),
            Way::HostLeaves => Self::Whole(Box::new(whole(LongKeys::HostLeaves)?)),
            Way::Hybrid => {
                let builder = Hybrid::builder().max_device_key(mixed.data.width);
                Self::Parted(Box::new(builder.build(device, keys, &values)?))
            }
        })
    }

    fn get_many_into(&self, keys: ByteKeys<'_>, out: &mut [Option<u32>]) -> lanetree::Result<()> {
        match self {
            Self::Whole(tree) => tree.get_many_into(keys, out),
            Self::Parted(tree) => tree.get_many_into(keys, out),
        }
    }

    /// Bytes on the device, and in main memory beside it.
    fn bytes(&self) -> (u64, u64) {
        match self {
            Self::Whole(tree) => (tree.stats().bytes(), tree.stats().host_bytes),
            Self::Parted(tree) => (tree.stats().device.bytes(), tree.stats().host.bytes()),
        }
    }
}

/// By the share of keys of 33 to 128 bytes among those of 32, in all ways; and then by the width of keys of which the
/// CPU has a share, of one byte more, as in the paper's figure 14.
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
    let timing = session.time_on_cpu(&mut out, |out| out.fill(None), |out| Ok(tree.get_many_into(keys, out)?))?;
    let found: Vec<u32> = out.iter().map(|value| value.unwrap_or(0)).collect();
    let operation = way.name(mixed);
    let checksum =
        session.check_slice(&operation, "values", &found, 0..count, 0, |query| data.query(1, query) as u32 + 1)?;
    let (on_device, beside) = tree.bytes();
    let row = Row::new(TABLE.name, "cuart", operation, count, timing, checksum).on(session.device_name());
    let mut row = data
        .label::<u32>(row)
        .with("bytes_moved", queries.bytes.len() + 4 * count)
        .with("footprint_bytes", on_device)
        .with("bytes_per_key", (on_device + beside) as f64 / data.len as f64);
    row.keys = mixed.name();
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_share_of_the_keys_is_longer() {
        for (width, share, longer) in [(32, 0, (33, 128)), (32, 25, (33, 128)), (8, 5, (9, 9))] {
            let mixed = Mixed { data: Data::new(width, 20_000, 3), share, longer };
            let packed = mixed.pack(20_000, |i| i as u64);
            let keys = packed.keys().unwrap();
            let distinct: BTreeSet<&[u8]> = keys.iter().collect();
            assert_eq!(distinct.len(), 20_000);
            let lens = || keys.iter().map(<[u8]>::len).filter(|&len| len > width);
            assert!(lens().count().abs_diff(200 * share as usize) < 300, "{}", lens().count());
            assert!(lens().min().is_none_or(|len| len == longer.0) && lens().max().is_none_or(|len| len == longer.1));
        }
    }
}
