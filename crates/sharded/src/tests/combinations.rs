//! Unions, intersections and differences of shards, against std's.

use super::{Map, each_failure, emulated, pairs, sharded};
use crate::{Sharded, ShardedSet};
use lanetree::runtime::Failure;
use lanetree::{Device, LaneSet, OrderedIndex, Result, SortedArray};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;

fn map(random: &mut StdRng, count: u64, scale: u64) -> Map {
    (0..count).map(|_| (random.random_range(0..2 * count) * scale, random.random())).collect()
}

/// What the three must be.
fn expected(one: &Map, other: &Map) -> [Map; 3] {
    let mut union = one.clone();
    union.extend(other);
    let of = |is_there: bool| {
        one.iter().filter(|(key, _)| other.contains_key(key) == is_there).map(|(&key, &value)| (key, value)).collect()
    };
    [union, of(true), of(false)]
}

#[test]
fn combinations_are_those_of_maps_whatever_the_borders() -> Result<()> {
    let mut random = StdRng::seed_from_u64(97);
    for (devices, most) in [(vec![Device::host(); 5], 2000), (emulated(3), 300)] {
        for (count, scale, others) in [(most, 7, devices.len()), (most / 4, 9, 2), (0, 1, 1), (most, 1 << 40, 3)] {
            let (one, other) = (map(&mut random, most, 7), map(&mut random, count, scale));
            let (index, with) = (sharded(&devices, &one)?, sharded(&devices[..others.min(devices.len())], &other)?);
            let wanted = expected(&one, &other);
            let made = [index.union(&with)?, index.intersection(&with)?, index.difference(&with)?];
            for (made, wanted) in made.iter().zip(&wanted) {
                assert_eq!(made.pairs()?, pairs(wanted));
                assert_eq!(made.stats().len(), devices.len());
            }
            // Of the same borders and devices: shard by shard.
            let [union, intersection, difference] = made;
            assert_eq!(difference.union(&intersection)?.pairs()?, pairs(&one));
            assert_eq!(union.difference(&difference)?.pairs()?, pairs(&other));
            // Neither has changed, and what was made can.
            assert_eq!((index.pairs()?, with.pairs()?), (pairs(&one), pairs(&other)));
            let mut union = union;
            union.insert_many(&[5], &[6])?;
            assert_eq!((union.get_many(&[5])?, union.len()), (vec![Some(6)], wanted[0].len() as u64 + 1));
        }
    }
    Ok(())
}

/// Shards between equal borders have an interval without keys.
#[test]
fn indexes_of_one_key_combine() -> Result<()> {
    let devices = vec![Device::host(); 4];
    for key in [0, 9, u64::MAX] {
        let one = sharded(&devices, &[(key, 1)].into())?;
        for others in [1, 3, 4] {
            let other = Map::from([(key, 2), (0, 3), (10, 4), (u64::MAX, 5)]);
            let with = sharded(&devices[..others], &other)?;
            let wanted = expected(&[(key, 1)].into(), &other);
            let made = [one.union(&with)?, one.intersection(&with)?, one.difference(&with)?];
            for (made, wanted) in made.iter().zip(&wanted) {
                assert_eq!(made.pairs()?, pairs(wanted), "{key} in {others} shards");
            }
            assert_eq!(with.union(&one)?.len(), other.len() as u64);
        }
    }
    Ok(())
}

#[test]
fn another_index_in_shards_combines_too() -> Result<()> {
    let devices = emulated(2);
    let build = |keys: &[u64]| Sharded::build(&devices, SortedArray::builder(), keys, keys);
    let (one, other) = (build(&[1, 2, 3, 50])?, build(&[2, 60])?);
    assert_eq!(one.union(&other)?.pairs()?, [1, 2, 3, 50, 60].map(|key| (key, key)));
    assert_eq!(one.difference(&other)?.len(), 3);
    Ok(())
}

#[test]
fn combinations_of_sets_are_those_of_sets() -> Result<()> {
    let mut random = StdRng::seed_from_u64(98);
    let devices = emulated(3);
    for others in [1, 3] {
        let keys = |random: &mut StdRng| (0..200).map(|_| random.random_range(0..400_u64)).collect::<BTreeSet<_>>();
        let (one, other) = (keys(&mut random), keys(&mut random));
        let build = |devices: &[Device], keys: &BTreeSet<u64>| {
            ShardedSet::build(devices, LaneSet::builder(), &keys.iter().copied().collect::<Vec<_>>())
        };
        let (set, with) = (build(&devices, &one)?, build(&devices[..others], &other)?);
        assert!(set.union(&with)?.keys()?.iter().eq(one.union(&other)));
        assert!(set.intersection(&with)?.keys()?.iter().eq(one.intersection(&other)));
        let difference = set.difference(&with)?;
        assert!(difference.keys()?.iter().eq(one.difference(&other)));
        assert_eq!(difference.union(&set)?.keys()?, set.keys()?);
    }
    Ok(())
}

#[test]
fn a_combination_that_fails_changes_neither_index() -> Result<()> {
    let mut random = StdRng::seed_from_u64(99);
    let (one, other) = (map(&mut random, 120, 7), map(&mut random, 120, 5));
    let union = pairs(&expected(&one, &other)[0]);
    each_failure(2, &[Failure::Launch], |devices, fault| {
        let (index, with) = (sharded(devices, &one)?, sharded(devices, &other)?);
        let made = fault.during(|| index.union(&with));
        assert_eq!((index.pairs()?, with.pairs()?), (pairs(&one), pairs(&other)));
        if let Ok(made) = made {
            assert_eq!(made.pairs()?, union);
        }
        Ok(())
    })?;
    Ok(())
}
