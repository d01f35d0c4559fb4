//! Batches over several devices, divided by one of them: against a search of the sorted pairs.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::Sabotage;
use super::data::{self, Distribution};
use super::multimap::Checked;
use lanetree::{AnyKey, Device, DeviceKind, KeyWord, LaneTree, OrderedIndex, Result, Sharded, Word};
use lanetree_base::parallel::*;
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// A case: one index, and batches of queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    distribution: Distribution,
    pub(crate) key: &'static str,
    len: usize,
    queries: usize,
    shards: usize,
}

/// The cases for a device: none without kernels.
pub(crate) fn cases(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Case> {
    let (lens, queries): (&[usize], usize) = match (mode, kind) {
        (_, DeviceKind::Host) => (&[], 0),
        (_, DeviceKind::Emulated) => (&[1, 300], 2500),
        (Mode::Quick, _) => (&[1, 20_000], 100_000),
        // More than one piece.
        (Mode::Full, _) => (&[1, 20_000, 1 << 22], (1 << 22) + 12_345),
    };
    let mut cases = Vec::new();
    for (distribution, shards) in
        [(Distribution::Uniform, 3), (Distribution::Clustered, 5), (Distribution::Extremes, 64)]
    {
        for key in ["u32", "i64", "u128"] {
            let lens = lens.iter().filter(|len| **len <= max_len);
            cases.extend(lens.map(|&len| Case { distribution, key, len, queries, shards }));
        }
    }
    cases
}

impl Case {
    /// What is done.
    pub(crate) const OPERATION: &str = "batches over several devices";

    /// Its name.
    pub(crate) fn name(self) -> String {
        let Self { distribution, key, len, shards, .. } = self;
        format!("sharded/{key}/{}/{shards}-shards/n{len}", distribution.name())
    }

    pub(crate) fn run(self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        match self.key {
            "u128" => self.run_with::<u128, u64>(device, seed, sabotage),
            "i64" => self.run_with::<i64, u32>(device, seed, sabotage),
            _ => self.run_with::<u32, u64>(device, seed, sabotage),
        }
    }

    fn run_with<K: AnyKey, V: Word>(self, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
        let rng = &mut data::rng(seed, "sharded");
        let devices = devices(device);
        let mut keys: Vec<K> = self.distribution.keys(self.len, rng);
        keys.sort_unstable();
        keys.dedup();
        let values: Vec<V> = (0..keys.len() as u64).map(|i| V::truncate(i ^ 0x5555)).collect();
        let queries = queries(&keys, self.queries, rng);
        let lacking = usize::from(sabotage.is_some());
        let on: Vec<Device> = devices.iter().cycle().take(self.shards).cloned().collect();
        let mut checked = Checked::default();
        let index =
            checked.time(|| Sharded::build(&on, LaneTree::<K, V>::builder(), &keys[lacking..], &values[lacking..]))?;
        let mut sorted = queries.clone();
        sorted.sort_unstable();
        let at = &devices[rng.random_range(0..devices.len())];
        for (queries, is_sorted) in [(&queries, false), (&sorted, true)] {
            ask(&mut checked, (&index, at), (&keys, &values), queries, is_sorted)?;
            // In host form, too.
            let found = checked.time(|| index.get_many(queries))?;
            let present = |key: &K| keys.binary_search(key).ok().map(|at| values[at]);
            checked.expect("values in host form", &found, &queries.par_iter().map(present).collect());
        }
        Ok(checked.answer())
    }
}

/// Three devices, of which a GPU's are one where the host has no others.
fn devices(device: &Device) -> [Device; 3] {
    let other = |number: u32| match device.kind() {
        DeviceKind::Emulated => Device::emulated_with_seed(u64::from(number) + 11),
        _ => Device::cuda(number).unwrap_or_else(|_| device.clone()),
    };
    [device.clone(), other(0), other(1)]
}

/// Keys, what is next to them, and others.
fn queries<K: AnyKey>(keys: &[K], count: usize, rng: &mut StdRng) -> Vec<K> {
    let query = |i: usize| {
        let any = K::Bits::from_parts([rng.next_u64(), rng.next_u64()]);
        let near = keys[rng.random_range(0..keys.len())].encode();
        match i % 4 {
            0 => K::decode(any),
            1 => K::decode(near.wrapping_add(K::Bits::truncate(1))),
            _ => K::decode(near),
        }
    };
    [K::MIN, K::MAX].into_iter().chain((2..count).map(query)).collect()
}

fn ask<K: AnyKey, V: Word>(
    checked: &mut Checked,
    (index, device): (&Sharded<LaneTree<K, V>>, &Device),
    (keys, values): (&[K], &[V]),
    asked: &[K],
    is_sorted: bool,
) -> Result<()> {
    let (stream, queries, count) = (device.stream()?, device.upload(asked)?, asked.len());
    let on = || if is_sorted { index.on(&stream).sorted() } else { index.on(&stream) };
    let miss = V::MAX;
    let (mut found, mut hits) = (device.alloc::<V>(count)?, device.alloc::<u32>(count.div_ceil(32))?);
    let (mut ranks, mut beside) = (device.alloc::<u64>(count)?, device.alloc::<K>(count)?);
    let mask = |is_hit: &(dyn Fn(&K) -> bool + Sync)| {
        let word = |keys: &[K]| keys.iter().enumerate().fold(0, |word, (i, key)| word | u32::from(is_hit(key)) << i);
        asked.par_chunks(32).map(word).collect()
    };
    let place = |key: &K| keys.binary_search(key);

    checked.time(|| on().hits(&mut hits).miss(miss).get(&queries, &mut found))?;
    let value = |key: &K| place(key).map_or(miss, |at| values[at]);
    checked.expect("values", &found.to_vec()?, &asked.par_iter().map(value).collect());
    checked.expect("hits", &hits.to_vec()?, &mask(&|key| place(key).is_ok()));
    checked.time(|| on().contains(&queries, &mut hits))?;
    checked.expect("presence", &hits.to_vec()?, &mask(&|key| place(key).is_ok()));

    checked.time(|| on().lower_bound(&queries, &mut ranks))?;
    let rank = |key: &K| place(key).unwrap_or_else(|at| at) as u64;
    checked.expect("lower bounds", &ranks.to_vec()?, &asked.par_iter().map(rank).collect());
    checked.time(|| on().upper_bound(&queries, &mut ranks))?;
    let rank = |key: &K| place(key).map_or_else(|at| at, |at| at + 1) as u64;
    checked.expect("upper bounds", &ranks.to_vec()?, &asked.par_iter().map(rank).collect());

    for is_before in [true, false] {
        let neighbor = |key: &K| match place(key) {
            Ok(at) => Some(at),
            Err(at) if is_before => at.checked_sub(1),
            Err(at) => (at < keys.len()).then_some(at),
        };
        checked.time(|| match is_before {
            true => on().hits(&mut hits).miss(miss).predecessor(&queries, &mut beside, &mut found),
            false => on().hits(&mut hits).miss(miss).successor(&queries, &mut beside, &mut found),
        })?;
        let value = |key: &K| neighbor(key).map_or(miss, |at| values[at]);
        checked.expect("neighbours' values", &found.to_vec()?, &asked.par_iter().map(value).collect());
        checked.expect("neighbours there are", &hits.to_vec()?, &mask(&|key| neighbor(key).is_some()));
        // The keys of those that have none are unspecified.
        let bits = |pair: (&K, K)| neighbor(pair.0).map(|_| pair.1.encode());
        let actual: Vec<_> = asked.iter().zip(beside.to_vec()?).map(bits).collect();
        let expected = |key: &K| neighbor(key).map(|at| keys[at].encode());
        checked.expect("neighbours' keys", &actual, &asked.par_iter().map(expected).collect());
    }
    Ok(())
}
