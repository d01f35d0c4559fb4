//! A CuART tree holds what std's `BTreeMap` holds, however it is changed and wherever it goes: on the host, to a
//! device and back, mirrored, taken apart again, compacted; with keys of all lengths and every way with long ones.

use lanetree::cuart::{ChangeScratch, LongKeys, RootTable, UpdateEngine};
use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKeys, Error, Mirrored, Op};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

type Key = Vec<u8>;
type Model = BTreeMap<Key, u32>;

/// Few different keys, of 0 to 80 bytes, many of them prefixes of each other or alike for long.
fn keys(rng: &mut StdRng, longest: usize) -> Vec<Key> {
    let stem: Vec<u8> = (0..80).map(|_| rng.random()).collect();
    let mut keys: Vec<Key> = (0..60)
        .map(|i| {
            let len = rng.random_range(0..=longest);
            let alike = if i % 3 == 0 { 0 } else { rng.random_range(0..=len) };
            let rest = (alike..len).map(|_| if i % 2 == 0 { rng.random() } else { rng.random_range(0..3) });
            stem[..alike].iter().copied().chain(rest).collect()
        })
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Where a tree is.
enum Place {
    Host(Cuart<u32>),
    Device(Cuart<u32>),
    Mirrored(Mirrored<Cuart<u32>>),
}

struct Run {
    rng: StdRng,
    device: Device,
    keys: Vec<Key>,
    long_keys: LongKeys,
    model: Model,
    /// What has been done, for the message.
    log: Vec<String>,
}

impl Run {
    fn new(seed: u64, long_keys: LongKeys) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let keys = keys(&mut rng, if long_keys == LongKeys::Refuse { 32 } else { 80 });
        let device = Device::emulated_with_seed(seed);
        Self { rng, device, keys, long_keys, model: Model::new(), log: vec![format!("{long_keys:?}, seed {seed}")] }
    }

    fn some_keys(&mut self, most: usize) -> Vec<Key> {
        let count = self.rng.random_range(1..=most);
        (0..count).map(|_| self.keys.choose(&mut self.rng).unwrap().clone()).collect()
    }

    fn build(&mut self) -> Cuart<u32> {
        let table = *[RootTable::None, RootTable::TwoBytes].choose(&mut self.rng).unwrap();
        let count = self.rng.random_range(0..30);
        let picked: Vec<Key> = (0..count).map(|_| self.keys.choose(&mut self.rng).unwrap().clone()).collect();
        let values: Vec<u32> = (0..count).collect();
        self.model.extend(picked.iter().cloned().zip(values.iter().copied()));
        let packed: ByteKeysBuf = picked.iter().collect();
        let builder = Cuart::builder().root_table(table).long_keys(self.long_keys);
        builder.build(&Device::host(), &packed, &values).unwrap()
    }

    fn ops(&mut self) -> Vec<Op<Key, u32>> {
        let keys = self.some_keys(12);
        let op = |key| match self.rng.random_range(0..5) {
            0 | 1 => Op::Insert(key, self.rng.random()),
            2 => Op::Update(key, self.rng.random()),
            _ => Op::Remove(key),
        };
        keys.into_iter().map(op).collect()
    }

    fn apply_to_model(&mut self, ops: &[Op<Key, u32>]) {
        for op in ops {
            match op {
                Op::Insert(key, value) => drop(self.model.insert(key.clone(), *value)),
                Op::Update(key, value) => drop(self.model.get_mut(key).map(|old| *old = *value)),
                Op::Remove(key) => drop(self.model.remove(key)),
            }
        }
    }

    /// A batch in host form. A device does not change a tree with leaves in main memory.
    fn change(&mut self, place: &mut Place) {
        let ops = self.ops();
        self.log.push(format!("apply {ops:?}"));
        let result = match place {
            Place::Host(tree) => tree.apply(&ops).map(drop),
            Place::Device(tree) => tree.apply(&ops).map(drop),
            Place::Mirrored(pair) => pair.apply(&ops).map(drop),
        };
        match result {
            Ok(()) => self.apply_to_model(&ops),
            Err(Error::LeavesInMainMemory { .. })
                if self.long_keys == LongKeys::HostLeaves && matches!(place, Place::Device(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// A batch in device form.
    fn change_there(&mut self, tree: &mut Cuart<u32>) {
        let keys = self.some_keys(20);
        let values: Vec<u32> = keys.iter().map(|_| self.rng.random()).collect();
        let kind = self.rng.random_range(0..3);
        let engines = [UpdateEngine::Auto, UpdateEngine::HashTable, UpdateEngine::Stamps, UpdateEngine::Sort];
        let engine = *engines.choose(&mut self.rng).unwrap();
        self.log.push(format!("{} by {engine:?}: {keys:?}, {values:?}", ["insert_on", "update_on", "remove_on"][kind]));
        let stream = self.device.stream().unwrap();
        let packed = DeviceKeys::upload(&self.device, &keys.iter().collect::<ByteKeysBuf>()).unwrap();
        let buffer = self.device.upload(&values).unwrap();
        let mut scratch = ChangeScratch::for_inserts(&self.device, keys.len(), engine).unwrap();
        let result = match kind {
            0 => tree.insert_on(&stream, &packed, &buffer, &mut scratch).map(drop),
            1 => tree.update_on(&stream, &packed, &buffer, None, &mut scratch),
            _ => tree.remove_on(&stream, &packed).map(drop),
        };
        match result {
            Ok(()) => {}
            Err(Error::LeavesInMainMemory { .. }) if self.long_keys == LongKeys::HostLeaves => return,
            Err(error) => panic!("{error}"),
        }
        let ops = keys.into_iter().zip(values).map(|(key, value)| match kind {
            0 => Op::Insert(key, value),
            1 => Op::Update(key, value),
            _ => Op::Remove(key),
        });
        let ops: Vec<_> = ops.collect();
        self.apply_to_model(&ops);
    }

    /// The tree in another place.
    fn moved(&mut self, place: Place) -> Place {
        match (place, self.rng.random_range(0..2)) {
            (Place::Host(tree), 0) => Place::Device(tree.to_device(&self.device).unwrap()),
            (Place::Host(tree), _) => Place::Mirrored(Mirrored::new(tree, &self.device).unwrap()),
            (Place::Device(tree), 0) => Place::Host(tree.to_device(&Device::host()).unwrap()),
            (Place::Device(tree), _) => Place::Device(tree.to_device(&self.device).unwrap()),
            (Place::Mirrored(pair), 0) => Place::Host(pair.into_indexes().0),
            (Place::Mirrored(pair), _) => Place::Device(Arc::into_inner(pair.into_indexes().1).unwrap()),
        }
    }

    fn compact(&mut self, place: &mut Place) {
        self.log.push("compact".into());
        match place {
            Place::Host(tree) | Place::Device(tree) => drop(tree.compact().unwrap()),
            Place::Mirrored(pair) => drop(pair.restore_order().unwrap()),
        }
    }

    fn check(&self, tree: &Cuart<u32>) {
        let log = || self.log.join("\n");
        assert_eq!(tree.len(), self.model.len() as u64, "{}", log());
        let expected: Vec<Option<u32>> = self.keys.iter().map(|key| self.model.get(key).copied()).collect();
        let found = tree.get_many(&self.keys.iter().collect::<ByteKeysBuf>()).unwrap();
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong.map(|i| (&self.keys[i], found[i], expected[i])), None, "{}", log());
        let stats = tree.stats();
        let leaves = stats.leaves.iter().sum::<u64>() + stats.device_leaves + stats.host_leaves;
        assert_eq!(leaves, tree.len(), "the leaves that {stats:?} counts: {}", log());
        match tree.range_many([..]) {
            Ok(all) => {
                let (keys, values) = all.get(0);
                let pairs = keys.iter().zip(values.iter().copied());
                assert!(pairs.eq(self.model.iter().map(|(key, &value)| (&key[..], value))), "{}", log());
            }
            Err(Error::NotCompact { .. }) => assert!(!tree.is_compact(), "{}", log()),
            Err(Error::LeavesInMainMemory { .. }) => assert!(stats.host_leaves > 0 || stats.host_bytes > 0),
            Err(error) => panic!("{error}: {}", log()),
        }
    }

    fn check_all(&self, place: &Place) {
        match place {
            Place::Host(tree) | Place::Device(tree) => self.check(tree),
            Place::Mirrored(pair) => {
                self.check(pair.host_index());
                self.check(pair.device_index());
            }
        }
    }
}

fn run(seed: u64, long_keys: LongKeys) {
    let mut run = Run::new(seed, long_keys);
    let mut place = Place::Host(run.build());
    for _ in 0..14 {
        match run.rng.random_range(0..10) {
            0..4 => run.change(&mut place),
            4..7 => match &mut place {
                Place::Device(tree) => run.change_there(tree),
                _ => run.change(&mut place),
            },
            7..9 => {
                place = run.moved(place);
                let name = match place {
                    Place::Host(_) => "on the host",
                    Place::Device(_) => "on the device",
                    Place::Mirrored(_) => "mirrored",
                };
                run.log.push(name.into());
            }
            _ => run.compact(&mut place),
        }
        run.check_all(&place);
    }
}

#[test]
fn trees_with_leaves_on_the_device_are_maps() {
    (0..80).for_each(|seed| run(seed, LongKeys::DeviceLeaves));
}

#[test]
fn trees_with_leaves_in_main_memory_are_maps() {
    (0..80).for_each(|seed| run(seed, LongKeys::HostLeaves));
}

#[test]
fn trees_that_refuse_long_keys_are_maps() {
    (0..40).for_each(|seed| run(seed, LongKeys::Refuse));
}

fn packed(keys: &[&str]) -> ByteKeysBuf {
    keys.iter().collect()
}

/// A leaf on a tree's free list has a size of its own, and a device takes none from there.
#[test]
fn a_device_makes_room_for_a_long_key_beside_those_that_are_free() {
    let device = Device::emulated();
    let long = |byte: u8| vec![byte; 40];
    let keys: ByteKeysBuf = [long(1), long(2)].iter().collect();
    let mut host = Cuart::build(&Device::host(), &keys, &[1_u32, 2]).unwrap();
    host.remove_many(&[long(1)].iter().collect::<ByteKeysBuf>()).unwrap();
    let mut tree = host.to_device(&device).unwrap();
    tree.insert_many(&[long(3)].iter().collect::<ByteKeysBuf>(), &[3]).unwrap();
    let keys: ByteKeysBuf = [long(1), long(2), long(3)].iter().collect();
    assert_eq!(tree.get_many(&keys).unwrap(), [None, Some(2), Some(3)]);
}

/// What the host has taken from its free list is not free on the device either.
#[test]
fn the_device_of_a_mirrored_pair_knows_what_is_free() {
    let mut host = Cuart::build(&Device::host(), &packed(&["a", "b"]), &[1_u32, 2]).unwrap();
    host.remove_many(&packed(&["b"])).unwrap();
    let mut mirrored = Mirrored::new(host, &Device::emulated()).unwrap();
    mirrored.insert_many((&packed(&["c"])).into(), &[3]).unwrap();
    assert_eq!(mirrored.host_index().stats().leaves, mirrored.device_index().stats().leaves);
    let mut tree = Arc::into_inner(mirrored.into_indexes().1).unwrap();
    tree.insert_many(&packed(&["d"]), &[4]).unwrap();
    assert_eq!(tree.get_many(&packed(&["a", "b", "c", "d"])).unwrap(), [Some(1), None, Some(3), Some(4)]);
    assert_eq!(tree.len(), 3);
}

/// A tree whose long keys go to main memory gets leaves on the device all the same where a device inserts them.
#[test]
fn free_leaves_on_the_device_are_no_free_leaves_in_main_memory() {
    let long = |byte: u8, len: usize| -> ByteKeysBuf { [vec![byte; len]].iter().collect() };
    let builder = Cuart::builder().long_keys(LongKeys::HostLeaves);
    let mut tree = builder.build(&Device::emulated(), &packed(&["a"]), &[1_u32]).unwrap();
    tree.insert_many(&long(1, 40), &[2]).unwrap();
    let mut tree = tree.to_device(&Device::host()).unwrap();
    tree.remove_many(&long(1, 40)).unwrap();
    // 40 bytes take four units.
    for (byte, len) in [(2, 40), (3, 40), (4, 40)] {
        tree.insert_many(&long(byte, len), &[u32::from(byte)]).unwrap();
    }
    tree.remove_many(&long(3, 40)).unwrap();
    tree.insert_many(&long(5, 40), &[5]).unwrap();
    assert_eq!(tree.len(), 4);
    for (byte, found) in [(1, None), (2, Some(2)), (3, None), (4, Some(4)), (5, Some(5))] {
        assert_eq!(tree.get_many(&long(byte, 40)).unwrap(), [found]);
    }
}
