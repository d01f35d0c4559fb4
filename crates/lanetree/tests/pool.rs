//! Indexes, scratch memory and host batches over a pool: the answers are the same, and memory does not grow from
//! batch to batch.

use lanetree::cuart::RootTable;
use lanetree::harmonia::{BuildScratch, GetBySorting, PsaScratch, QuerySort, UpdateScratch};
use lanetree::primitives::{RadixSortScratch, radix_sort};
use lanetree::{Batch, ByteKeysBuf, Cuart, Device, Error, Harmonia, Mirrored, Op, OpKind, Pool, Ranges, runtime};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

const DEVICES: [fn() -> Device; 2] = [Device::host, Device::emulated];

/// Leaves a pool with blocks of many sizes that hold anything but zeros: who relies on new memory's contents is
/// found out, on the host too.
fn soiled(pool: &Pool) {
    let device = pool.device();
    let blocks: Vec<_> = (5..20).flat_map(|shift| [4 << shift, 5 << shift]).collect();
    let dirty: Vec<_> = blocks.iter().map(|&bytes| device.upload(&vec![0x5a_u8; bytes]).unwrap()).collect();
    drop(dirty);
}

/// Keys and values of a model.
fn pairs(model: &BTreeMap<u32, u64>) -> (Vec<u32>, Vec<u64>) {
    model.iter().map(|(&key, &value)| (key, value)).unzip()
}

/// Everything that takes memory, `batches` times, in sizes that vary; after each, what the pool holds.
fn mixed_batches(device: &Device, pool: &Pool, batches: usize) -> Vec<usize> {
    let stream = device.stream().unwrap();
    let mut rng = StdRng::seed_from_u64(11);
    let mut model: BTreeMap<u32, u64> = (0..300).map(|i| (i * 40, u64::from(i))).collect();
    let (keys, values) = pairs(&model);
    let mut tree = Harmonia::<u32, u64>::builder().fill(0.7).build(device, &keys, &values).unwrap();
    let mut scratch = UpdateScratch::new(device, 40).unwrap();
    let mut held = Vec::new();
    for batch in 0..batches {
        let size = [1, 7, 40, 150][rng.random_range(0..4)];
        let keys: Vec<u32> = (0..size).map(|_| rng.random_range(0..12_000)).collect();
        match batch % 16 {
            0 | 8 => {
                let insert = rng.random_range(0..2) == 0;
                let op = |&key: &u32| if insert { Op::Insert(key, u64::from(key)) } else { Op::Remove(key) };
                tree.apply(&keys.iter().map(op).collect::<Vec<_>>()).unwrap();
                for &key in &keys {
                    if insert {
                        model.insert(key, key.into())
                    } else {
                        model.remove(&key)
                    };
                }
            }
            1 | 9 if device.kind() != lanetree::DeviceKind::Host && size <= 40 => {
                let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) + 1).collect();
                let (buffer, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                tree.apply_on(&stream, Batch::inserts(&buffer, &values), &mut scratch).unwrap();
                model.extend(keys.iter().map(|&key| (key, u64::from(key) + 1)));
            }
            2 | 10 => {
                let expected: Vec<Option<u64>> = keys.iter().map(|key| model.get(key).copied()).collect();
                assert_eq!(tree.get_many(&keys).unwrap(), expected);
            }
            3 | 11 => {
                let (first, last) = (*keys.iter().min().unwrap(), *keys.iter().max().unwrap());
                let found = tree.range_many([first..=last]).unwrap();
                let expected: (Vec<u32>, Vec<u64>) = model.range(first..=last).map(|(&k, &v)| (k, v)).unzip();
                assert_eq!(found.get(0), (&expected.0[..], &expected.1[..]));
            }
            4 => {
                let values: Vec<u32> = (0..size as u32).collect();
                let (keys_in, values_in) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                let (mut keys_out, mut values_out) = (device.alloc(size).unwrap(), device.alloc(size).unwrap());
                let mut scratch = RadixSortScratch::for_pairs(device, size).unwrap();
                let out = (&mut keys_out, &mut values_out);
                radix_sort(&stream, (&keys_in, &values_in), size, 0..32, out, &mut scratch).unwrap();
                stream.synchronize().unwrap();
                let mut expected: Vec<(u32, u32)> = keys.iter().copied().zip(values).collect();
                expected.sort_by_key(|pair| pair.0);
                assert_eq!(keys_out.to_vec().unwrap(), expected.iter().map(|pair| pair.0).collect::<Vec<_>>());
                assert_eq!(values_out.to_vec().unwrap(), expected.iter().map(|pair| pair.1).collect::<Vec<_>>());
            }
            5 => {
                let queries = device.upload(&keys).unwrap();
                let mut values = device.alloc(size).unwrap();
                let mut scratch = PsaScratch::new(device, size).unwrap();
                let on = tree.on(&stream);
                on.get_by_sorting(QuerySort::Full, &queries, &mut values, &mut scratch).unwrap();
                stream.synchronize().unwrap();
                let expected: Vec<u64> = keys.iter().map(|key| model.get(key).copied().unwrap_or(u64::MAX)).collect();
                assert_eq!(values.to_vec().unwrap(), expected);
            }
            6 => {
                // Equal keys among them, so that the scratch memory grows on the way.
                let values: Vec<u64> = (0..size as u64).collect();
                let buffers = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                let mut scratch = BuildScratch::for_unsorted(device, size).unwrap();
                let other = Harmonia::builder().build_on(&stream, &buffers.0, &buffers.1, size, &mut scratch).unwrap();
                let expected: BTreeMap<u32, u64> = keys.iter().copied().zip(values).collect();
                assert!(other.iter().map(Result::unwrap).eq(expected));
            }
            _ => {
                let ranks: Vec<u64> = keys.iter().map(|key| model.range(..key).count() as u64).collect();
                assert_eq!(tree.lower_bound_many(&keys).unwrap(), ranks);
            }
        }
        // Not larger than it was, so that only the batches could let memory grow.
        if model.len() > 600 {
            let gone: Vec<u32> = model.keys().step_by(2).copied().collect();
            tree.remove_many(&gone).unwrap();
            model.retain(|key, _| gone.binary_search(key).is_err());
        }
        held.push(pool.bytes_in_use() + pool.bytes_cached() + pool.stats().pinned_in_use + pool.stats().pinned_cached);
    }
    assert!(tree.iter().map(Result::unwrap).eq(model), "all pairs in the end");
    held
}

#[test]
fn a_thousand_batches_of_everything_reach_a_plateau() {
    for device in DEVICES {
        let pool = Pool::new(&device());
        let held = mixed_batches(&pool.device(), &pool, 1000);
        let (half, end) = (held[500], held[999]);
        assert!(end <= half + half / 8, "{half} bytes after 500 batches, {end} after 1000");
        let stats = pool.stats();
        assert!(stats.reuses > 20 * stats.allocations, "{stats:?}");
        assert_eq!((stats.in_use, stats.pinned_in_use), (0, 0), "all is back");
        assert_eq!(pool.trim(), end);
    }
}

#[test]
fn memory_that_was_used_before_changes_no_answer() {
    for device in DEVICES {
        let pool = Pool::new(&device());
        soiled(&pool);
        mixed_batches(&pool.device(), &pool, 60);
        // Without a pool there is nothing to count.
        mixed_batches(&device(), &pool, 20);
    }
}

#[test]
fn batches_of_one_size_take_nothing_new() {
    for device in DEVICES {
        let pool = Pool::new(&device());
        let keys: Vec<u32> = (0..2000).map(|i| i * 3).collect();
        let mut tree = Harmonia::builder().fill(0.5).build(&pool.device(), &keys, &keys).unwrap();
        let mut allocations = 0;
        for batch in 0..50_u32 {
            let keys: Vec<u32> = (0..100).map(|i| i * 60 + 1 + batch % 2).collect();
            tree.insert_many(&keys, &keys).unwrap();
            tree.get_many(&keys).unwrap();
            tree.range_many([10..=700, 100..=900]).unwrap();
            tree.remove_many(&keys).unwrap();
            if batch == 3 {
                allocations = pool.stats().allocations;
            }
        }
        assert_eq!(pool.stats().allocations, allocations);
    }
}

#[test]
fn what_indexes_and_scratch_say_of_their_bytes_is_what_the_pool_has_lent() {
    let pool = Pool::new(&Device::emulated());
    let device = pool.device();
    let keys: Vec<u64> = (0..3000).collect();
    let tree = Harmonia::build(&device, &keys, &keys).unwrap();
    let scratch = UpdateScratch::<u64, u64>::new(&device, 1000).unwrap();
    let said = tree.stats().bytes() as usize + scratch.bytes();
    // Blocks are larger than buffers by less than an eighth, or 512 bytes; there are about thirty.
    assert!((said..=said * 9 / 8 + 40 * 512).contains(&pool.bytes_in_use()), "{said} and {pool:?}");
    drop((tree, scratch));
    assert_eq!(pool.bytes_in_use(), 0);
}

#[test]
fn a_pools_limit_leaves_the_tree_as_it_was() {
    let device = Device::emulated();
    let keys: Vec<u64> = (0..1000).collect();
    let needed = {
        let pool = Pool::new(&device);
        drop(Harmonia::build(&pool.device(), &keys, &keys).unwrap());
        pool.bytes_cached()
    };
    let pool = Pool::with_limit(&device, needed + 4096);
    let mut tree = Harmonia::build(&pool.device(), &keys, &keys).unwrap();
    let error = tree.insert_many(&(2000..4000).collect::<Vec<_>>(), &[7; 2000]).unwrap_err();
    assert!(
        matches!(error, Error::Runtime(runtime::Error::PoolLimit { limit, .. }) if limit == needed + 4096),
        "{error}"
    );
    assert_eq!(tree.len(), 1000);
    assert_eq!(tree.get_many(&[999, 2000]).unwrap(), [Some(999), None]);
    assert!(pool.bytes_in_use() + pool.bytes_cached() <= needed + 4096);
}

#[test]
fn a_batch_on_the_host_that_finds_no_room_leaves_the_tree_as_it_was() {
    let model: BTreeMap<u32, u64> = (0..500).map(|i| (i * 10, u64::from(i))).collect();
    let (keys, values) = pairs(&model);
    let build = |device: &Device, len: usize| {
        Harmonia::builder().fanout(8).fill(0.7).build_sorted(device, &keys[..len], &values[..len]).unwrap()
    };
    // In place with lengths that change; enough to make the regions move; all keys; into an empty tree.
    let few: Vec<Op<u32, u64>> = (0..20).map(|i| Op::Insert(i * 250 + 1, 7)).collect();
    let many: Vec<Op<u32, u64>> = (0..700).map(|i| Op::Insert(i * 3, 8)).collect();
    let all: Vec<Op<u32, u64>> = keys.iter().map(|&key| Op::Remove(key)).collect();
    for (len, ops, refusals) in [(500, &few, 1), (500, &many, 3), (500, &all, 0), (0, &many, 3)] {
        let needed = {
            let pool = Pool::new(&Device::host());
            drop(build(&pool.device(), len));
            pool.bytes_cached()
        };
        let mut refused = 0;
        loop {
            let pool = Pool::with_limit(&Device::host(), needed + refused * 512);
            let mut tree = build(&pool.device(), len);
            let Err(error) = tree.apply(ops) else { break };
            assert!(matches!(error, Error::Runtime(runtime::Error::PoolLimit { .. })), "{error}");
            assert!(tree.iter().map(Result::unwrap).eq(model.clone().into_iter().take(len)), "after {error}");
            refused += 1;
        }
        assert!(refused >= refusals, "{refused} refusals of {} operations", ops.len());
    }
}

/// Runs a call in a pool that has `room` bytes beyond what the index takes.
fn with_room<T>(room: usize, build: impl Fn(&Device) -> T, call: impl Fn(&T) -> lanetree::Result<()>) {
    let pool = Pool::new(&Device::emulated());
    let index = build(&pool.device());
    let limited = Pool::with_limit(&Device::emulated(), pool.bytes_in_use() + room);
    drop((index, pool));
    let index = build(&limited.device());
    call(&index).unwrap();
    let allocations = limited.stats().allocations;
    call(&index).unwrap();
    assert_eq!(limited.stats().allocations, allocations, "the same batch again takes nothing new");
}

#[test]
fn a_batch_of_one_takes_little_memory() {
    let keys: Vec<u64> = (0..500).map(|i| i * 3).collect();
    // Without scratch memory for builds, which would leave room behind.
    let tree = |device: &Device| {
        Harmonia::builder()
            .build_sorted(&Device::host(), &keys, &keys)
            .map(|host| Mirrored::new(host, device).unwrap().into_indexes().1)
            .unwrap()
    };
    // Blocks of 512 bytes at least, of which a search has up to eight, and gathering more.
    let (room, more_room) = (8 * 512, 24 * 512);
    with_room(room, tree, |tree| tree.get_many(&[3]).map(drop));
    with_room(room, tree, |tree| tree.get_many_or(&[3], 0, &mut [0]));
    with_room(room, tree, |tree| tree.lower_bound_many(&[3]).map(drop));
    with_room(room, tree, |tree| tree.successor_many(&[3]).map(drop));
    with_room(room, tree, |tree| tree.count_range_many([3..=9]).map(drop));
    with_room(room, tree, |tree| tree.count_range_many([3..=9].into_iter().filter(|_| true)).map(drop));
    // Places for 1024 pairs are ready before it is known how many there are.
    with_room(more_room + 1024 * 16, tree, |tree| tree.range_many([3..=9]).map(drop));
    with_room(more_room + 1024 * 16, tree, |tree| tree.range_between_many_into(&[3], &[9], &mut Ranges::default()));

    let strings = ByteKeysBuf::encode(&keys);
    let tree = |device: &Device| {
        Cuart::builder()
            .root_table(RootTable::None)
            .build(&Device::host(), &strings, &keys)
            .unwrap()
            .to_device(device)
            .unwrap()
    };
    let one = ByteKeysBuf::encode(&[3_u64]);
    with_room(room, tree, |tree| tree.get_many(&one).map(drop));
    with_room(room, tree, |tree| tree.lower_bound_many(&one).map(drop));
    with_room(room, tree, |tree| tree.prefix_span_many(&one).map(drop));
    with_room(more_room, tree, |tree| tree.range_many([..=one.get(0).unwrap()]).map(drop));
    with_room(more_room, tree, |tree| tree.predecessor_many(&one).map(drop));
}

#[test]
fn scratch_and_tree_may_come_from_different_pools() {
    let device = Device::emulated();
    let (lasting, passing) = (Pool::new(&device), Pool::new(&device));
    let keys: Vec<u64> = (0..500).map(|i| i * 2).collect();
    let mut tree = Harmonia::builder().fill(0.6).build(&lasting.device(), &keys, &keys).unwrap();
    let of_tree = lasting.bytes_in_use();
    {
        let device = passing.device();
        let stream = device.stream().unwrap();
        let mut scratch = UpdateScratch::new(&device, 100).unwrap();
        let (keys, kinds) = (device.upload(&[3_u64; 100]).unwrap(), device.upload(&[OpKind::INSERT; 100]).unwrap());
        tree.apply_on(&stream, Batch::of_kinds(&keys, &keys, &kinds), &mut scratch).unwrap();
        assert!(passing.bytes_in_use() > 0);
    }
    assert_eq!((passing.bytes_in_use(), passing.trim() > 0), (0, true));
    assert!(lasting.bytes_in_use() > of_tree, "ranks and lengths are the tree's");
    assert_eq!(tree.get_many(&[3, 5]).unwrap(), [Some(3), None]);
}
