//! New indexes from a tree and a sorted batch, or an index of it: by the calls of each form, and by their steps.

use crate::bench::columns::power;
use crate::bench::data::{Data, miss, value_of};
use crate::bench::error::Result;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::primitives::{BuildScratch, Keys, MergeRule, MergeScratch, Pairs, PairsMut, merge, subtract};
use lanetree::{Buffer, CombineScratch, Device, LaneTree, Pool, Sorted};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

/// Keys that are looked up in each new index, of the tree's and of the batch's: at most.
const ASKED: usize = 1 << 20;

type Tree = LaneTree<u64, u64>;

/// Combinations of one tree.
pub(crate) struct Combinations<'a> {
    table: &'static str,
    data: &'a Data<u64>,
    /// The device, with memory from a pool.
    pooled: Device,
    /// The tree, with memory from there.
    tree: Tree,
    /// The same tree without a pool.
    plain: Tree,
    /// Keys and values on the device.
    pairs: (Buffer<u64>, Buffer<u64>),
}

/// The second side.
struct Second {
    keys: Vec<u64>,
    values: Vec<u64>,
    /// The same on the device.
    pairs: (Buffer<u64>, Buffer<u64>),
    /// An index of them.
    index: Tree,
    /// How many keys the tree has, too.
    both: usize,
    /// Every `step`-th pair of the tree has one of them.
    step: usize,
}

/// What a call makes.
type Made<'m> = &'m mut dyn FnMut() -> lanetree::Result<Tree>;

/// What is right for a new index: the value of a key, if it is there.
type Right<'r> = &'r (dyn Fn(u64) -> Option<u64> + Sync);

impl<'a> Combinations<'a> {
    /// Of a tree over these pairs.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn new(session: &Session, table: &'static str, data: &'a Data<u64>) -> Result<Self> {
        let pooled = Pool::new(&session.device).device();
        let tree = LaneTree::builder().build_sorted(&pooled, &data.keys, &data.values)?;
        let plain = LaneTree::builder().build_sorted(&session.device, &data.keys, &data.values)?;
        let pairs = (pooled.upload(&data.keys)?, pooled.upload(&data.values)?);
        Ok(Self { table, data, pooled, tree, plain, pairs })
    }

    /// Measures all calls with a second side of about `count` keys, half of which the tree has.
    ///
    /// # Errors
    /// The library's; a wrong answer.
    pub(crate) fn measure(&self, session: &mut Session, count: usize) -> Result<()> {
        let second = self.second(count)?;
        let (tree, other, len) = (&self.tree, &second.index, second.keys.len());
        let (batch, stream) = ((&second.pairs.0, &second.pairs.1), self.pooled.stream()?);
        let in_batch = |key: u64| second.keys.binary_search(&key).is_ok();
        let rank = |key: u64| self.data.keys.binary_search(&key).ok();
        let of_union = |key: u64| Some(if in_batch(key) { value_of(!key) } else { value_of(key) });
        let of_both = |key: u64| {
            let is_there = rank(key).is_some_and(|rank| rank.is_multiple_of(second.step));
            is_there.then(|| value_of(key))
        };
        let of_difference = |key: u64| (rank(key).is_some() && !in_batch(key)).then(|| value_of(key));
        let all = self.data.len() + len - second.both;
        let (union, intersection, difference): (Expected<'_>, Expected<'_>, Expected<'_>) =
            ((&of_union, all), (&of_both, second.both), (&of_difference, self.data.len() - second.both));

        let mut scratch = CombineScratch::new(&self.pooled)?;
        let scratch = &mut scratch;
        self.call(session, &second, "union_on", union, &mut || tree.union_on(&stream, other, scratch))?;
        self.call(session, &second, "intersection_on", intersection, &mut || {
            tree.intersection_on(&stream, other, scratch)
        })?;
        self.call(session, &second, "difference_on", difference, &mut || tree.difference_on(&stream, other, scratch))?;
        self.call(session, &second, "union_sorted_on", union, &mut || {
            tree.union_on(&stream, Sorted::pairs_on(batch.0, batch.1, len), scratch)
        })?;
        self.call(session, &second, "intersection_sorted_on", intersection, &mut || {
            tree.intersection_on(&stream, Sorted::keys_on(batch.0, len), scratch)
        })?;
        self.call(session, &second, "difference_sorted_on", difference, &mut || {
            tree.difference_on(&stream, Sorted::keys_on(batch.0, len), scratch)
        })?;
        *scratch = CombineScratch::new(&self.pooled)?;
        self.call(session, &second, "union", union, &mut || tree.union(other))?;
        self.call(session, &second, "union, no pool", union, &mut || self.plain.union(other))?;
        self.call(session, &second, "intersection", intersection, &mut || tree.intersection(other))?;
        self.call(session, &second, "difference", difference, &mut || tree.difference(other))?;
        let (keys, values) = (&second.keys[..], &second.values[..]);
        self.call(session, &second, "union_sorted", union, &mut || tree.union(Sorted::pairs(keys, values)))?;
        self.call(session, &second, "intersection_sorted", intersection, &mut || {
            tree.intersection(Sorted::keys(keys))
        })?;
        self.call(session, &second, "difference_sorted", difference, &mut || tree.difference(Sorted::keys(keys)))?;
        self.steps(session, &second, all)
    }

    /// The second side.
    fn second(&self, count: usize) -> Result<Second> {
        let data = self.data;
        let step = (data.len() / (count / 2)).max(1);
        // Each such key, and the number after it.
        let ranks = (0..data.len().div_ceil(step)).into_par_iter().map(|i| i * step);
        let is_there = |key: &u64| data.keys.binary_search(key).is_ok();
        let keys = ranks.flat_map_collect(|rank| {
            let (key, next) = (data.keys[rank], data.keys[rank].wrapping_add(1));
            [Some(key), Some(next).filter(|next| *next > key && !is_there(next))].into_iter().flatten()
        });
        let keys = keys.expect("memory for a batch");
        // Values that differ from the tree's.
        let values: Vec<u64> = keys.par_iter().map(|&key| value_of(!key)).collect();
        let index = LaneTree::builder().build_sorted(&self.pooled, &keys, &values)?;
        let pairs = (self.pooled.upload(&keys)?, self.pooled.upload(&values)?);
        Ok(Second { keys, values, pairs, index, both: data.len().div_ceil(step), step })
    }

    /// Times a call, from the call to its return, and checks the new index.
    fn call(
        &self,
        session: &mut Session,
        second: &Second,
        operation: &str,
        (right, len): Expected<'_>,
        make: Made<'_>,
    ) -> Result<()> {
        let what = format!("{operation} with {} keys", power(second.keys.len() as u64));
        if !session.has_time(&what) {
            return Ok(());
        }
        let (timing, made) = session.time_making(make)?;
        session.expect(&what, "pairs", made.len(), len as u64)?;
        let mut checksum = Checksum::default();
        for asked in [&second.keys, &self.data.keys] {
            let asked: Vec<u64> = asked.iter().copied().step_by(asked.len().div_ceil(ASKED)).collect();
            let expected = |i: usize| right(asked[i]).unwrap_or(miss());
            checksum =
                checksum.and(session.check_found(&what, &made.get_many(&asked)?, asked.len(), miss(), expected)?);
        }
        // The pairs of both sides that must be read, and the pairs of the result.
        let is_of_batch = operation.ends_with("_sorted") || operation.ends_with("_sorted_on");
        let both = self.data.len() + second.keys.len();
        let bytes = match operation {
            _ if operation.starts_with("union") => 16 * (both + len),
            _ if operation.starts_with("intersection") => 16 * (second.keys.len().min(self.data.len()) + len),
            _ if is_of_batch => 16 * (self.data.len() + len) + 8 * second.keys.len(),
            _ => 16 * (both + len),
        };
        self.push(session, "lanetree", operation, second, (timing, checksum), bytes);
        Ok(())
    }

    /// Times the steps of a union and of a difference by the device's events, the build by the CPU's clock.
    fn steps(&self, session: &mut Session, second: &Second, all: usize) -> Result<()> {
        let (data, device) = (self.data, &self.pooled);
        let (len, other_len) = (data.len(), second.keys.len());
        let room = len + other_len;
        let new = |len: usize| -> Result<_> { Ok((device.alloc::<u64>(len)?, device.alloc::<u64>(len)?)) };

        // All pairs out of the tree.
        let mut out = new(len)?;
        let timing = session.time_call(&mut out, |(keys, values)| self.tree.on(&session.stream).pairs(keys, values))?;
        let checksum = session.check(&"pairs", "keys", &out.0, len, u64::MAX, |i| data.keys[i])?;
        let checksum = checksum.and(session.check(&"pairs", "values", &out.1, len, u64::MAX, |i| data.values[i])?);
        drop(out);
        self.push(session, "lanetree", "pairs", second, (timing, checksum), 32 * len);

        let first = Pairs { keys: &self.pairs.0, values: &self.pairs.1, count: len.into() };
        let pairs = Pairs { keys: &second.pairs.0, values: &second.pairs.1, count: other_len.into() };
        let mut scratch = MergeScratch::new(device, room)?;
        let (keys, values) = new(room)?;
        let mut out = (keys, values, device.alloc::<u64>(1)?);
        let rule = MergeRule::SecondReplacesFirst;
        let timing = session.time_call(&mut out, |(keys, values, count)| {
            merge(&session.stream, rule, first, pairs, PairsMut { keys, values, count }, &mut scratch)
        })?;
        session.expect(&"merge", "pairs", out.2.to_vec()?[0], all as u64)?;
        let mut expected = [&data.keys[..], &second.keys].concat();
        // Stable, so that it makes use of the order that there is.
        expected.sort();
        expected.dedup();
        let checksum = session.check(&"merge", "keys", &out.0, all, u64::MAX, |i| expected[i])?;
        self.push(session, "primitives", "merge_pairs", second, (timing, checksum), 16 * (room + all));

        // The tree over these.
        let (keys, values, _) = &out;
        let (mut build, stream) = (BuildScratch::for_sorted(device)?, device.stream()?);
        let (timing, made): (_, Tree) =
            session.time_making(|| LaneTree::builder().build_sorted_on(&stream, keys, values, all, &mut build))?;
        session.expect(&"build_sorted_on", "pairs", made.len(), all as u64)?;
        let asked: Vec<u64> = expected.iter().copied().step_by(all.div_ceil(ASKED)).collect();
        let found = made.lower_bound_many(&asked)?;
        let rank = |i: usize| (i * all.div_ceil(ASKED)) as u64;
        let checksum = session.check_slice(&"build_sorted_on", "ranks", &found, 0..asked.len(), u64::MAX, rank)?;
        drop((made, expected, out));
        self.push(session, "lanetree", "build_sorted_on", second, (timing, checksum), 32 * all);

        let (keys, values) = new(len)?;
        let mut out = (keys, values, device.alloc::<u64>(1)?);
        let without = Keys { keys: pairs.keys, count: pairs.count };
        let timing = session.time_call(&mut out, |(keys, values, count)| {
            subtract(&session.stream, first, without, PairsMut { keys, values, count }, &mut scratch)
        })?;
        let rest = len - second.both;
        session.expect(&"subtract", "pairs", out.2.to_vec()?[0], rest as u64)?;
        let rest_of = |i: usize| (!i.is_multiple_of(second.step)).then(|| data.keys[i]);
        let expected = (0..len).into_par_iter().filter_map_collect(rest_of).expect("memory for a batch");
        let checksum = session.check(&"subtract", "keys", &out.0, rest, u64::MAX, |i| expected[i])?;
        let bytes = 16 * (len + rest) + 8 * other_len;
        self.push(session, "primitives", "subtract_pairs", second, (timing, checksum), bytes);
        Ok(())
    }

    /// Adds a row with the ceiling of copying `bytes` bytes.
    fn push(
        &self,
        session: &mut Session,
        index: &'static str,
        operation: &str,
        second: &Second,
        (timing, checksum): (Timing, Checksum),
        bytes: usize,
    ) {
        let row = Row::new(self.table, index, operation, second.keys.len(), timing, checksum);
        let row = self.data.label(row.on(session.device_name()));
        let ceiling = session.ceilings.copy.map(|copy| row.batch as f64 * copy / bytes as f64);
        session.push(row.with("ceiling_giga_per_second", ceiling));
    }
}

/// What is right for the values of a new index, and how many pairs it has.
type Expected<'r> = (Right<'r>, usize);
