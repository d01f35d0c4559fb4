//! Batches of changes, for the figures about them: keys of a tree, new keys, and pairs on their way to the device.

use super::data::{BenchWord, miss, mix, value_of};
use super::error::Result;
use super::session::Session;
use core::fmt::Display;
use lanetree::cubpt::Mapping;
use lanetree::{Buffer, DeviceKind, PinnedBuffer, Stream};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;

/// Where the keys of a batch lie among the tree's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Anywhere.
    Uniform,
    /// Four of five between two neighbouring keys, so in one leaf, and the others in the first 4 % of all (the paper's section
    /// 4.2.2).
    Skewed,
    /// Behind all others, in ascending order.
    Appended,
    /// Among 64 neighbouring keys, fewer than a node of any index has; in random order.
    OneNode,
    /// Below all others, in descending order.
    Descending,
    /// By turns below all others, descending, and behind all others, ascending.
    Alternating,
}

impl Spread {
    /// What tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Skewed => "skewed",
            Self::Appended => "appended",
            Self::OneNode => "one node",
            Self::Descending => "descending",
            Self::Alternating => "alternating",
        }
    }
}

/// What a batch of one kind does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Update,
    Insert,
    Remove,
}

impl Change {
    /// What rows call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Remove => "remove",
        }
    }
}

/// The largest random key: larger ones are appended.
const MOST: u64 = u64::MAX / 16 * 15;

/// A key of a tree or of a uniform batch, by its place; all are different.
fn key(seed: u64, place: usize) -> u64 {
    // `mix` maps no two words to one, and the multiplication, of which the upper half is taken, few.
    ((u128::from(mix(seed ^ place as u64)) * u128::from(MOST)) >> 64) as u64
}

/// The keys of a tree in random order, each once.
pub(crate) fn keys(seed: u64, len: usize) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..len).into_par_iter().map(|place| key(seed, place)).collect();
    let mut sorted = keys.clone();
    sort_unstable_by(&mut sorted, Ord::cmp);
    // Two in 2^60 or so: they are moved to the end of all.
    let equal: Vec<u64> = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    for (i, &twice) in equal.iter().enumerate() {
        let at = keys.iter().position(|&key| key == twice).expect("it is one of them");
        keys[at] = MOST + 1 + i as u64;
    }
    keys
}

/// CUBPT's ways to map threads to keys, the library's and the paper's, and what rows call the tree with each.
pub(crate) const MAPPINGS: [(&str, Mapping); 2] = [("cubpt", Mapping::PerNode), ("cubpt_per_key", Mapping::PerKey)];

/// Keys of a tree of CUBPT's paper, of a size: on a GPU 5 M times a power of two, of which 22 stands for 5 M; elsewhere a power
/// of two.
pub(crate) fn of_paper(kind: DeviceKind, size: u32) -> usize {
    match kind {
        DeviceKind::Cuda => (5_000_000_usize << size) >> 22,
        DeviceKind::Host | DeviceKind::Emulated => 1 << size,
    }
}

/// New keys for a tree with these sorted ones, in random order but for appended ones.
pub(crate) fn batch(seed: u64, sorted: &[u64], count: usize, spread: Spread) -> Vec<u64> {
    let is_new = |key: &u64| sorted.binary_search(key).is_err();
    let uniform = |most: u64, count: usize| {
        // Places that no key of the tree has.
        let key = move |place: usize| key(seed, (1 << 40) + place);
        let of_most = move |place: usize| (u128::from(key(place)) * u128::from(most) / u128::from(MOST)) as u64;
        let mut keys: Vec<u64> = (0..count + count / 8 + 64)
            .into_par_iter()
            .map(of_most)
            .filter_collect(is_new)
            .expect("memory for a batch");
        sort_unstable_by(&mut keys, Ord::cmp);
        keys.dedup();
        sort_by_word(&mut keys, |&key| mix(key ^ seed)).expect("memory for a batch");
        keys.truncate(count);
        keys
    };
    let behind = |i: u64| MOST + (1 << 20) + i;
    let below = |i: u64| sorted[0].checked_sub(i + 1).expect("room below all keys");
    match spread {
        Spread::Uniform => uniform(MOST, count),
        Spread::Skewed => {
            let among = count / 5;
            let mut keys = uniform(MOST / 25, among);
            // The widest gap behind those.
            let rest = &sorted[sorted.partition_point(|&key| key <= MOST / 25)..];
            let gap = rest.windows(2).max_by_key(|pair| pair[1] - pair[0]).expect("a tree of more than a few keys");
            let step = (gap[1] - gap[0]) / (count as u64 + 1);
            assert!(step > 0, "no room for {count} keys between two");
            keys.extend((1..=(count - among) as u64).map(|i| gap[0] + i * step));
            sort_by_word(&mut keys, |&key| mix(key ^ seed)).expect("memory for a batch");
            keys
        }
        Spread::Appended => (0..count as u64).map(behind).collect(),
        Spread::OneNode => {
            let first = sorted.len() / 2;
            let (low, high) = (sorted[first], sorted[(first + 64).min(sorted.len() - 1)]);
            let step = (high - low) / (count as u64 + 65);
            assert!(step > 0, "no room for {count} keys among 64");
            // Those between that are keys already are left out.
            let places = (1..count as u64 + 65).into_par_iter();
            let mut keys: Vec<u64> = places.map(|i| low + i * step).filter_collect(is_new).expect("memory for a batch");
            keys.truncate(count);
            sort_by_word(&mut keys, |&key| mix(key ^ seed)).expect("memory for a batch");
            keys
        }
        Spread::Descending => (0..count as u64).map(below).collect(),
        Spread::Alternating => {
            (0..count as u64).map(|i| if i % 2 == 0 { below(i / 2) } else { behind(i / 2) }).collect()
        }
    }
}

/// Pairs in pinned memory, and room for them on the device.
pub(crate) struct Sent {
    /// Sends the values while the keys are sorted: whoever needs them waits for it.
    for_values: Stream,
    host: (PinnedBuffer<u64>, PinnedBuffer<u64>),
    pub(crate) device: (Buffer<u64>, Buffer<u64>),
}

impl Sent {
    /// Of these keys and their values; sent.
    pub(crate) fn new(session: &Session, keys: &[u64]) -> Result<Self> {
        let pinned = |words: &[u64]| -> Result<PinnedBuffer<u64>> {
            let mut pinned = session.device.pinned(words.len())?;
            pinned.copy_from_slice(words);
            Ok(pinned)
        };
        let host = (pinned(keys)?, pinned(&values(keys))?);
        let room = || session.device.alloc(keys.len());
        let mut sent = Self { for_values: session.device.stream()?, host, device: (room()?, room()?) };
        sent.send(session)?;
        Ok(sent)
    }

    /// Sends them: the keys in the session's stream, the values in another stream at the same time.
    pub(crate) fn send(&mut self, session: &Session) -> Result<()> {
        let len = self.host.0.len();
        self.device.0.upload_async(&session.stream, 0, &self.host.0, 0..len)?;
        Ok(self.device.1.upload_async(&self.for_values, 0, &self.host.1, 0..len)?)
    }
}

/// Compares what was found of keys with their values.
///
/// # Errors
/// A wrong answer.
pub(crate) fn all_are_there<W: BenchWord>(
    session: &Session,
    what: &dyn Display,
    keys: &[W],
    found: &[Option<W>],
) -> Result<Checksum> {
    session.check_found(what, found, keys.len(), miss(), |i| value_of(keys[i]))
}

/// The values of keys.
pub(crate) fn values(keys: &[u64]) -> Vec<u64> {
    keys.par_iter().map(|&key| value_of(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn batches_are_new_keys_where_they_should_be() {
        let mut sorted = keys(3, 10_000);
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]));
        let all = [Spread::Uniform, Spread::Skewed, Spread::Appended];
        for spread in all.into_iter().chain([Spread::OneNode, Spread::Descending, Spread::Alternating]) {
            let batch = batch(3, &sorted, 5000, spread);
            let distinct: BTreeSet<u64> = batch.iter().copied().collect();
            assert_eq!((batch.len(), distinct.len()), (5000, 5000));
            assert!(distinct.iter().all(|key| sorted.binary_search(key).is_err()));
            // How many keys of the tree have keys of the batch right behind them.
            let gaps: BTreeSet<usize> = batch.iter().map(|key| sorted.partition_point(|other| other < key)).collect();
            match spread {
                Spread::Uniform => assert!(gaps.len() > 3000),
                Spread::Skewed => assert!(gaps.len() < 500 && gaps.last() < Some(&10_000)),
                Spread::Appended => assert!(gaps.len() == 1 && batch.is_sorted()),
                Spread::OneNode => assert!(gaps.len() <= 64 && !batch.is_sorted()),
                Spread::Descending => {
                    assert!(gaps.first() == Some(&0) && gaps.len() == 1 && batch.is_sorted_by(|a, b| a > b))
                }
                Spread::Alternating => assert!(gaps.len() == 2 && batch[0] < batch[1] && batch[2] < batch[0]),
            }
        }
    }
}
