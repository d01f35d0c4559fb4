//! The largest index over all GPUs of the host, built in pieces.

use crate::bench::data::{miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::figures::sharded::devices;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{Buffer, Device, LaneTree, OnDevices, OrderedIndex, ShardPieces, Sharded, Stream};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("sharded-capacity", Run::Alone(measure));

/// Pairs of a piece.
const PIECE: usize = 1 << 24;

/// 2^`size` ascending keys, none of which is stored.
#[derive(Clone, Copy)]
struct Keys {
    size: u32,
    seed: u64,
}

impl Keys {
    fn len(self) -> usize {
        1 << self.size
    }

    /// The key of a rank: uniform over the part of the key space that belongs to it, but for the part's last key, so that the next
    /// one is a miss.
    fn key(self, rank: u64) -> u64 {
        let low = u64::MAX >> self.size;
        (rank << (u64::BITS - self.size)) | (mix(rank ^ self.seed) & low).min(low - 1)
    }

    /// A query: the key of any rank, or, for every second one, the miss after it.
    fn query(self, number: usize, misses: bool) -> u64 {
        let rank = mix(self.seed ^ mix(number as u64)) >> (u64::BITS - self.size);
        self.key(rank) + u64::from(misses && number % 2 == 1)
    }

    /// What a look-up of it must find.
    fn value(self, query: u64) -> u64 {
        if self.key(query >> (u64::BITS - self.size)) == query { value_of(query) } else { miss() }
    }

    /// The keys below it.
    fn lower_bound(self, query: u64) -> u64 {
        let rank = query >> (u64::BITS - self.size);
        rank + u64::from(self.key(rank) < query)
    }
}

type Index = Sharded<LaneTree<u64, u64>>;

/// A figure's rows of one size.
struct Subject {
    keys: Keys,
    index: Index,
    devices: Vec<Device>,
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    for &size in &request.sizes {
        if size == 0 || !session.has_time(format_args!("2^{size} pairs on all devices")) {
            continue;
        }
        let keys = Keys { size, seed: session.seed_of(size) };
        match of_size(session, keys) {
            Err(error) if error.is_out_of_memory() => session.skip(format_args!("2^{size} pairs: {error}")),
            done => done?,
        }
    }
    Ok(())
}

fn of_size(session: &mut Session, keys: Keys) -> Result<()> {
    let all = devices(&session.device);
    let shards = if all.len() < 2 { vec![session.device.clone(); 2] } else { all.clone() };
    let start = Instant::now();
    let pieces = pieces(keys, &shards)?;
    let (pieces_s, start) = (start.elapsed().as_secs_f64(), Instant::now());
    let index = Sharded::from_pieces(LaneTree::builder(), pieces)?;
    let built = Timing::of(vec![start.elapsed().as_secs_f64() * 1e3]);
    let subject = Subject { keys, index, devices: all };
    session.expect(&"build from pieces", "pairs", subject.index.len(), keys.len() as u64)?;

    let first = &subject.devices[..1];
    let get = |on: OnDevices<'_, LaneTree<u64, u64>>, queries: &Buffer<u64>, out: &mut Buffer<u64>| {
        on.miss(miss()).get(queries, out)
    };
    let value = |query| keys.value(query);
    let hits = subject.ask(session, "get", first, false, get, value)?;
    // Its checksum is that of the index.
    let largest = subject.card_bytes().into_iter().max_by_key(|card| card.1);
    let mut row = subject.row(session, "build from pieces", keys.len(), built, hits.checksum);
    row.set("build.pieces_s", pieces_s);
    row.set("bytes_per_key", subject.index.bytes() as f64 / keys.len() as f64);
    if let Some((device, bytes)) = largest {
        row.set("card_bytes", bytes);
        row.set("card_free_bytes", device.memory()?.free);
    }
    session.push(row);
    session.push(hits);
    for misses in [false, true] {
        if misses {
            let row = subject.ask(session, "get", first, misses, get, value)?;
            session.push(row);
        }
        if subject.devices.len() > 1 {
            let row = subject.ask(session, "get, in parts", &subject.devices, misses, get, value)?;
            session.push(row);
        }
        let rank = |on: OnDevices<'_, LaneTree<u64, u64>>, queries: &Buffer<u64>, out: &mut Buffer<u64>| {
            on.lower_bound(queries, out)
        };
        let row = subject.ask(session, "lower_bound", first, misses, rank, |query| keys.lower_bound(query))?;
        session.push(row);
    }
    Ok(())
}

/// All pairs, each shard's made and copied by a thread of its own.
fn pieces(keys: Keys, shards: &[Device]) -> Result<Vec<ShardPieces<u64, u64>>> {
    let border = |shard: usize| shard * keys.len() / shards.len();
    let of_shard = |(shard, device): (usize, &Device)| {
        let ranks = border(shard)..border(shard + 1);
        let mut pieces = ShardPieces::new(device, ranks.len())?;
        let room = PIECE.min(ranks.len());
        let (mut some_keys, mut some_values) = (vec![0; room], vec![0; room]);
        for first in ranks.clone().step_by(PIECE) {
            let len = PIECE.min(ranks.end - first);
            let (some_keys, some_values) = (&mut some_keys[..len], &mut some_values[..len]);
            let make = |(i, (key, value)): (usize, (&mut u64, &mut u64))| {
                *key = keys.key((first + i) as u64);
                *value = value_of(*key);
            };
            some_keys.par_iter_mut().zip(some_values.par_iter_mut()).enumerate().for_each(make);
            pieces.push(some_keys, some_values)?;
        }
        Ok(pieces)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = shards.iter().enumerate().map(|shard| scope.spawn(move || of_shard(shard))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a shard has an outcome")).collect()
    })
}

/// A part of a batch, on a device.
struct Part {
    stream: Stream,
    first: usize,
    queries: Buffer<u64>,
    out: Buffer<u64>,
}

impl Subject {
    /// Times a call over random queries, of which a part is on each of these devices, and checks its results.
    fn ask(
        &self,
        session: &Session,
        operation: &str,
        devices: &[Device],
        misses: bool,
        call: impl Fn(OnDevices<'_, LaneTree<u64, u64>>, &Buffer<u64>, &mut Buffer<u64>) -> lanetree::Result<()> + Sync,
        expected: impl Fn(u64) -> u64 + Sync,
    ) -> Result<Row> {
        let count = 1 << session.plan.queries;
        let length: usize = count / devices.len();
        let query = |number: usize| self.keys.query(number, misses);
        let part = |(number, device): (usize, &Device)| {
            let first = number * length;
            let len = if number + 1 == devices.len() { count - first } else { length };
            let queries: Vec<u64> = (first..first + len).into_par_iter().map(query).collect();
            let (queries, out) = (device.upload(&queries)?, device.alloc(len)?);
            Ok(Part { stream: device.stream()?, first, queries, out })
        };
        let mut parts = devices.iter().enumerate().map(part).collect::<Result<Vec<_>>>()?;
        let ask = |part: &mut Part| -> Result<()> {
            call(self.index.on(&part.stream), &part.queries, &mut part.out)?;
            Ok(part.stream.synchronize()?)
        };
        let clear = |part: &mut Part| -> Result<()> {
            part.out.fill_zero(&part.stream)?;
            Ok(part.stream.synchronize()?)
        };
        let timing = session.time_parts(&mut parts, clear, ask)?;
        let mut checksum = Checksum::default();
        for Part { first, out, .. } in &parts {
            let found = out.to_vec()?;
            let range = *first..first + found.len();
            let right = |number| expected(query(number));
            checksum = checksum.and(session.check_slice(&operation, "results", &found, range, miss(), right)?);
        }
        let hit_rate = if misses { 0.5 } else { 1.0 };
        Ok(self.row(session, operation, count, timing, checksum).with("hit_rate", hit_rate))
    }

    /// Of the shards on each device.
    fn card_bytes(&self) -> Vec<(&Device, u64)> {
        let of =
            |device: &Device| self.index.stats().iter().filter(|shard| shard.device == *device).map(|s| s.bytes).sum();
        self.devices.iter().map(|device| (device, of(device))).collect()
    }

    fn row(&self, session: &Session, operation: &str, batch: usize, timing: Timing, checksum: Checksum) -> Row {
        let row = Row::new(FIGURE.name, "sharded", operation, batch, timing, checksum).on(session.device_name());
        let (shards, devices) = (self.index.stats().len() as u64, self.devices.len() as u64);
        row.over(self.keys.len(), "u64", "u64", "uniform").with("shards", shards).with("devices", devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_and_queries_know_their_answers() {
        let keys = Keys { size: 9, seed: 3 };
        let all: Vec<u64> = (0..512).map(|rank| keys.key(rank)).collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        for number in 0..1000 {
            let query = keys.query(number, true);
            let is_there = all.binary_search(&query).is_ok();
            assert_eq!(is_there, number % 2 == 0);
            assert_eq!(keys.value(query), if is_there { value_of(query) } else { miss() });
            assert_eq!(keys.lower_bound(query), all.partition_point(|&key| key < query) as u64);
        }
    }
}
