//! Both HB+-trees answer as std's `BTreeMap` does: on the host and with their kernels emulated, by every way through the
//! device, and where the device has no room.

use lanetree::hbtree::{
    Balance, Builder, HarmoniaAbove, HbTree, Implicit, Over, Pinning, Pipeline, Regular, Split, Structure, Throttle,
};
use lanetree::runtime::{self, Failure, record_kernels, recorded_kernels};
use lanetree::{Device, Error, Key, KeyRange, KeyWord, Pool, Ranges, Word};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Model<K, V> = BTreeMap<K, V>;

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

/// Pairs anywhere, and at both ends of the key space.
fn model<K: Key, V: Word>(rng: &mut StdRng, pairs: usize) -> Model<K, V> {
    let mut model: Model<K, V> = [K::MIN, K::MAX].into_iter().take(pairs).map(|key| (key, V::truncate(1))).collect();
    while model.len() < pairs {
        model.insert(K::decode(K::Bits::truncate(rng.random())), V::truncate(rng.random()));
    }
    model
}

fn build<K: Key, V: Word, L: Structure>(
    builder: Builder<K, V, L>,
    device: &Device,
    model: &Model<K, V>,
) -> lanetree::Result<HbTree<K, V, L>> {
    let (keys, values): (Vec<K>, Vec<V>) = model.iter().map(|(&key, &value)| (key, value)).unzip();
    builder.build_sorted(device, &keys, &values)
}

/// Small buckets, so that there are many.
fn small_buckets() -> Pipeline {
    let mut pipeline = Pipeline::default();
    (pipeline.bucket, pipeline.pipelines, pipeline.device_bucket) = (48, 3, 80);
    pipeline
}

/// Keys of the model, and others.
fn queries<K: Key, V: Word>(rng: &mut StdRng, model: &Model<K, V>, count: usize) -> Vec<K> {
    let keys: Vec<K> = model.keys().copied().collect();
    let query = |i: usize| match keys.get(rng.random_range(0..keys.len().max(1))) {
        Some(&key) if !i.is_multiple_of(3) => key,
        _ => K::decode(K::Bits::truncate(rng.random())),
    };
    let mut queries: Vec<K> = (0..count).map(query).collect();
    queries.extend([K::MIN, K::MAX]);
    queries
}

/// Every kind of query.
fn assert_answers<K: Key, V: Word, L: Structure>(tree: &HbTree<K, V, L>, model: &Model<K, V>, queries: &[K]) {
    assert_answers_from_main_memory(tree, model, queries);
    assert_pinned(tree, model, queries);
}

/// Every kind of query whose memory is not a device's.
fn assert_answers_from_main_memory<K: Key, V: Word, L: Structure>(
    tree: &HbTree<K, V, L>,
    model: &Model<K, V>,
    queries: &[K],
) {
    let pair = |(&key, &value): (&K, &V)| (key, value);
    assert!(tree.pairs().unwrap().into_iter().eq(model.iter().map(pair)), "{tree:?}");
    let each = || queries.iter().copied();
    assert!(tree.get_many(queries).unwrap().into_iter().eq(each().map(|key| model.get(&key).copied())));
    let keys: Vec<K> = model.keys().copied().collect();
    let (lower, upper) = (tree.lower_bound_many(queries).unwrap(), tree.upper_bound_many(queries).unwrap());
    assert!(lower.into_iter().eq(each().map(|query| keys.partition_point(|&key| key < query) as u64)));
    assert!(upper.into_iter().eq(each().map(|query| keys.partition_point(|&key| key <= query) as u64)));
    let before = each().map(|key| model.range(..=key).next_back().map(pair));
    assert!(tree.predecessor_many(queries).unwrap().into_iter().eq(before));
    let after = each().map(|key| model.range(key..).next().map(pair));
    assert!(tree.successor_many(queries).unwrap().into_iter().eq(after));
    assert_ranges(tree, model, queries, &mut Ranges::default());
}

/// Ranges between queries, in place of other results.
fn assert_ranges<K: Key, V: Word, L: Structure>(
    tree: &HbTree<K, V, L>,
    model: &Model<K, V>,
    queries: &[K],
    out: &mut Ranges<K, V>,
) {
    let limit = |i: usize| [3, 0, u64::MAX, 40][i % 4];
    let bounds: Vec<(K, K)> =
        queries.chunks_exact(2).map(|ends| (ends[0].min(ends[1]), ends[0].max(ends[1]))).collect();
    let ranges = bounds.iter().enumerate().map(|(i, &(start, end))| KeyRange::new(start..=end).limit(limit(i)));
    tree.range_many_into(ranges.clone(), out).unwrap();
    assert_eq!(out.len(), bounds.len());
    for (i, (&(start, end), (keys, values))) in bounds.iter().zip(out.iter()).enumerate() {
        let expected = model.range(start..=end).take(limit(i) as usize);
        assert!(keys.iter().zip(values).eq(expected), "range {i} of {tree:?}");
    }
    let counts = tree.count_range_many(ranges).unwrap();
    assert!(counts.into_iter().eq(out.offsets.windows(2).map(|ends| ends[1] - ends[0])));
}

/// Look-ups from pinned memory to pinned memory with room to spare, with a hit mask and without.
fn assert_pinned<K: Key, V: Word, L: Structure>(tree: &HbTree<K, V, L>, model: &Model<K, V>, queries: &[K]) {
    let (device, count) = (tree.device(), queries.len());
    let mut keys = device.pinned(count).unwrap();
    keys.copy_from_slice(queries);
    let mut values = device.pinned(count + 3).unwrap();
    let mut hits = device.pinned(count.div_ceil(32) + 1).unwrap();
    for miss in [V::MIN, V::MAX] {
        values.fill(V::truncate(7));
        hits.fill(u32::MAX);
        tree.get_many_pinned(&keys, miss, &mut values, Some(&mut hits)).unwrap();
        let found = queries.iter().map(|key| model.get(key).copied());
        assert!(values[..count].iter().copied().eq(found.clone().map(|value| value.unwrap_or(miss))), "{tree:?}");
        let bits = (0..hits.len() * 32).map(|i| hits[i / 32] >> (i % 32) & 1 == 1);
        assert!(
            bits.take(count.next_multiple_of(32))
                .eq(found.map(|value| value.is_some()).chain((count..count.next_multiple_of(32)).map(|_| false)))
        );
        assert_eq!(hits[count.div_ceil(32)], u32::MAX, "past the last word");
        assert_eq!(values[count..], [V::truncate(7); 3], "past the last value");
    }
    tree.get_many_pinned(&keys, V::MIN, &mut values, None).unwrap();
}

fn answers_of<K: Key, V: Word, L: Structure>() {
    let rng = &mut StdRng::seed_from_u64(17);
    for device in devices() {
        for pairs in [0, 1, 5, 700] {
            let model = model::<K, V>(rng, pairs);
            let mut tree = build(Builder::<K, V, L>::default(), &device, &model).unwrap();
            let queries = queries(rng, &model, 333);
            assert_answers(&tree, &model, &queries);
            let height = tree.stats().height;
            for (depth, share) in [(0, 0.0), (0, 0.5), (1, 0.3), (height, 0.0)] {
                let mut pipeline = small_buckets();
                pipeline.split = Split { depth, share };
                tree.set_pipeline(pipeline).unwrap();
                assert_answers(&tree, &model, &queries);
            }
        }
    }
}

#[test]
fn every_query_is_answered_by_both_trees() {
    answers_of::<u32, u32, Implicit>();
    answers_of::<i64, u64, Implicit>();
    answers_of::<i32, u64, Regular>();
    answers_of::<u64, u32, Regular>();
}

fn pinned_leaves_of<L: Structure>() {
    let rng = &mut StdRng::seed_from_u64(23);
    let model = model::<u64, u64>(rng, 900);
    let builder = Builder::<u64, u64, L>::default().pinning(Pinning::Required).pipeline(small_buckets());
    let tree = build(builder, &Device::emulated(), &model).unwrap();
    assert_eq!(tree.stats().pinned, Some(Ok(())));
    // Long enough for the device to take buckets of its own.
    let queries = queries(rng, &model, 3000);
    for _ in 0..3 {
        assert_pinned(&tree, &model, &queries);
    }
}

#[test]
fn the_device_answers_pinned_queries_alone_where_the_leaves_are_pinned() {
    pinned_leaves_of::<Implicit>();
    pinned_leaves_of::<Regular>();
}

/// However busy the machine is: on one thread the pipelines end before the device's thread begins.
#[test]
fn the_device_has_a_bucket_of_the_first_batch_that_is_long_enough() -> lanetree::Result<()> {
    let rng = &mut StdRng::seed_from_u64(34);
    let device = Device::emulated();
    let model = model::<u64, u32>(rng, 300);
    let builder = Builder::<u64, u32>::default().pinning(Pinning::Required).pipeline(small_buckets());
    let tree = build(builder, &device, &model)?;
    let queries = queries(rng, &model, 8 * 80);
    record_kernels(true);
    let values = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(|| tree.get_many(&queries))?;
    record_kernels(false);
    assert!(recorded_kernels().contains("hbtree_u64_u32__finish"), "{:?}", recorded_kernels());
    assert!(values.into_iter().eq(queries.iter().map(|key| model.get(key).copied())));
    Ok(())
}

fn refused_lengths_of<L: Structure>(device: &Device) {
    let tree = Builder::<u32, u64, L>::default().build(device, &[1, 2, 3], &[4, 5, 6]).unwrap();
    let keys = device.pinned(33).unwrap();
    let (mut short, mut values) = (device.pinned(32).unwrap(), device.pinned(33).unwrap());
    let mut hits = device.pinned(1).unwrap();
    let error = tree.get_many_pinned(&keys, 0, &mut short, None).unwrap_err();
    assert!(matches!(error, Error::OutputLength { expected: 33, actual: 32, .. }), "{error}");
    let error = tree.get_many_pinned(&keys, 0, &mut values, Some(&mut hits)).unwrap_err();
    assert!(matches!(error, Error::OutputLength { expected: 2, actual: 1, .. }), "{error}");
    let none = device.pinned(0).unwrap();
    tree.get_many_pinned(&none, 0, &mut values, Some(&mut hits)).unwrap();
}

fn live_balance_of<L: Structure>() {
    let rng = &mut StdRng::seed_from_u64(29);
    let model = model::<u64, u64>(rng, 900);
    let mut pipeline = small_buckets();
    (pipeline.balance, pipeline.sample) = (Balance::Live, 64);
    let mut tree = build(Builder::<u64, u64, L>::default().pipeline(pipeline), &Device::emulated(), &model).unwrap();
    let queries = queries(rng, &model, 3000);
    // Batches of one kind: a change of the load would start it again.
    let mut most = 0;
    for _ in 0..3 {
        let found = tree.get_many(&queries).unwrap();
        assert!(found.into_iter().eq(queries.iter().map(|key| model.get(key).copied())));
        most = most.max(tree.discovery().samples());
    }
    let found = tree.discovery();
    assert!((1..=20).contains(&most) && found.wanted().is_none(), "{found:?}");
    assert_answers(&tree, &model, &queries);
    let found = tree.discovery();
    tree.set_pipeline(pipeline).unwrap();
    assert_eq!(tree.discovery().samples(), found.samples(), "the same way");
    // However often the work is done over, the answers are the same.
    pipeline.throttle = Throttle { cpu: 3, device: 2 };
    tree.set_pipeline(pipeline).unwrap();
    assert_eq!(tree.discovery().samples(), 0, "another way");
    assert_answers(&tree, &model, &queries);
    (pipeline.balance, pipeline.split.depth) = (Balance::Fixed, u32::MAX);
    tree.set_pipeline(pipeline).unwrap();
    assert_answers(&tree, &model, &queries);
}

#[test]
fn a_split_is_found_by_samples_and_forgotten_with_the_way() {
    live_balance_of::<Implicit>();
    live_balance_of::<Regular>();
}

#[test]
fn pinned_results_need_room() {
    for device in devices() {
        refused_lengths_of::<Implicit>(&device);
        refused_lengths_of::<Regular>(&device);
    }
}

fn reused_memory_of<L: Structure>(device: &Device) {
    let rng = &mut StdRng::seed_from_u64(31);
    let model = model::<u64, u32>(rng, 600);
    let tree = build(Builder::<u64, u32, L>::default().pipeline(small_buckets()), device, &model).unwrap();
    let mut out = tree.range_many(vec![0..=u64::MAX; 3]).unwrap();
    let room = (out.keys.as_ptr(), out.values.as_ptr());
    assert_ranges(&tree, &model, &queries(rng, &model, 4), &mut out);
    assert_eq!((out.keys.as_ptr(), out.values.as_ptr()), room, "the memory is used again");
    // Whatever the fields hold, and whether there is less room than before.
    for taken in 0..3 {
        match taken {
            0 => out.offsets = vec![9; 1000],
            1 => out.keys = Vec::new(),
            _ => out.values = vec![0; 5000],
        }
        assert_ranges(&tree, &model, &queries(rng, &model, 60), &mut out);
    }
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let error = tree.range_many_into([1..=2, 2..=1], &mut out).unwrap_err();
    assert!(matches!(error, Error::ReversedRange { .. }), "{error}");
    assert_eq!(out, Ranges::default(), "after an error there are no results");
    tree.range_many_into(Vec::<KeyRange<u64>>::new(), &mut out).unwrap();
    assert_eq!((out.len(), &out.offsets[..]), (0, &[0][..]));
}

#[test]
fn results_of_ranges_reuse_the_memory_of_others() {
    for device in devices() {
        reused_memory_of::<Implicit>(&device);
        reused_memory_of::<Regular>(&device);
    }
}

#[test]
fn a_batch_of_ranges_that_fails_on_the_device_leaves_no_results() {
    let device = Device::emulated();
    let (keys, values): (Vec<u64>, Vec<u64>) = (0..100).map(|i| (i, i + 3)).unzip();
    let tree = HbTree::build(&device, &keys, &values).unwrap();
    let mut out = tree.range_many([1..=2]).unwrap();
    device.inject(Some(Failure::Launch(0)));
    let error = tree.range_many_into([1..=3], &mut out).unwrap_err();
    device.inject(None);
    assert!(matches!(error, Error::Runtime(_)), "{error}");
    assert_eq!(out, Ranges::default());
    tree.range_many_into([1..=3], &mut out).unwrap();
    assert_eq!(out.get(0), (&[1, 2, 3][..], &[4, 5, 6][..]));
}

fn larger_than_the_card_of<L: Structure>(limit: usize) {
    let rng = &mut StdRng::seed_from_u64(41);
    let mut model = model::<u64, u64>(rng, 40_000);
    let pool = Pool::with_limit(&Device::emulated(), limit);
    let builder = Builder::<u64, u64, L>::default().pipeline(small_buckets());
    let mut tree = build(builder, &pool.device(), &model).unwrap();
    let stats = tree.stats();
    assert!(stats.leaf_bytes > limit as u64 && stats.device_bytes > 0, "{stats:?}");
    assert_answers(&tree, &model, &queries(rng, &model, 500));
    for round in 0..3 {
        let keys: Vec<u64> = (0..200)
            .map(|i| if i % 2 == 0 { rng.random() } else { model.keys().nth(i * 7).copied().unwrap() })
            .collect();
        let values = vec![round; keys.len()];
        tree.insert_many(&keys, &values).unwrap();
        model.extend(keys.iter().copied().zip(values));
        tree.remove_many(&keys[..50]).unwrap();
        keys[..50].iter().for_each(|key| _ = model.remove(key));
        assert!(tree.stats().device_bytes > 0, "the device still has the inner levels");
        assert_answers(&tree, &model, &queries(rng, &model, 500));
    }
    assert!(pool.bytes_in_use() <= limit);
    drop(tree);
    assert_eq!((pool.bytes_in_use(), pool.stats().pinned_in_use), (0, 0));
}

#[test]
fn a_tree_larger_than_the_cards_memory_is_built_answers_and_changes() {
    larger_than_the_card_of::<Implicit>(1 << 19);
    larger_than_the_card_of::<Regular>(1 << 19);
}

fn too_large_for_the_card_of<L: Structure>() {
    let model = model::<u64, u64>(&mut StdRng::seed_from_u64(43), 20_000);
    let pool = Pool::with_limit(&Device::emulated(), 1 << 13);
    let error = build(Builder::<u64, u64, L>::default(), &pool.device(), &model).unwrap_err();
    assert!(matches!(error, Error::Runtime(runtime::Error::PoolLimit { limit: 8192, .. })), "{error}");
    assert!(error.to_string().contains("limit of 8192 bytes has no room"), "{error}");
    assert_eq!((pool.bytes_in_use(), pool.stats().pinned_in_use), (0, 0));

    let device = Device::emulated();
    device.inject(Some(Failure::Allocation(0)));
    let error = build(Builder::<u64, u64, L>::default(), &device, &model).unwrap_err();
    assert!(matches!(error, Error::Runtime(runtime::Error::OutOfMemory { .. })), "{error}");
}

#[test]
fn inner_levels_without_room_on_the_card_are_refused_and_nothing_stays_allocated() {
    too_large_for_the_card_of::<Implicit>();
    too_large_for_the_card_of::<Regular>();
}

fn refused_pinning_of<L: Structure>() {
    let rng = &mut StdRng::seed_from_u64(47);
    let model = model::<u64, u64>(rng, 900);
    let queries = queries(rng, &model, 1500);
    let builder = Builder::<u64, u64, L>::default().pinning(Pinning::IfPossible).pipeline(small_buckets());
    // Allocations of the build fail one after another, and the pinning comes last.
    let (device, tree) = (0..)
        .find_map(|allocation| {
            let device = Device::emulated();
            device.inject(Some(Failure::Allocation(allocation)));
            let tree = build(builder, &device, &model).ok();
            assert_eq!(device.inject(None), None, "no allocation has failed");
            tree.map(|tree| (device, tree))
        })
        .unwrap();
    let pinned = tree.stats().pinned;
    assert!(matches!(&pinned, Some(Err(why)) if !why.is_empty()), "{pinned:?}");
    assert_answers(&tree, &model, &queries);

    let required = builder.pinning(Pinning::Required);
    let steps = (0..).take_while(|&allocation| {
        device.inject(Some(Failure::Allocation(allocation)));
        let outcome = build(required, &device, &model);
        device.inject(None);
        outcome.is_err()
    });
    assert!(steps.count() > 0, "pinning that is required and refused is an error");
}

#[test]
fn leaves_that_cannot_be_pinned_are_read_by_the_cpu_alone() {
    refused_pinning_of::<Implicit>();
    refused_pinning_of::<Regular>();
}

/// A device that fails for good, in the middle of a batch and between batches.
fn gone_device_of<L: Structure>() {
    let ways =
        [(Pinning::None, true), (Pinning::IfPossible, false), (Pinning::Required, true), (Pinning::Required, false)];
    for ((pinning, rebuilds), sorts) in ways.into_iter().flat_map(|way| [(way, true), (way, false)]) {
        let rng = &mut StdRng::seed_from_u64(48);
        let mut model = model::<u64, u64>(rng, 900);
        let queries = queries(rng, &model, 500);
        let builder = Builder::<u64, u64, L>::default().pinning(pinning).pipeline(small_buckets());
        let (builder, device) = (builder.device_updates(sorts), Device::emulated());
        let mut tree = build(builder, &device, &model).unwrap();
        // Queries on a device that fails are errors, and so is the first change that needs it: both leave the tree as it was.
        device.inject(Some(Failure::Kernel(0)));
        assert!(tree.get_many(&queries).is_err(), "{tree:?}");
        let more: Vec<(u64, u64)> = (0..1500).map(|i| (i * 5 + 1, i)).collect();
        assert!(tree.insert_many(&more.iter().map(|pair| pair.0).collect::<Vec<_>>(), &vec![0; more.len()]).is_err());
        assert!(matches!(tree.stats().on_device, Some(Err(why)) if !why.is_empty()), "{tree:?}");
        assert_answers_from_main_memory(&tree, &model, &queries);
        // From then on the CPU changes the tree and answers: new keys and values, or values alone.
        for round in 0..3 {
            let keys: Vec<u64> = match rebuilds {
                true => more.iter().map(|pair| pair.0 + round).collect(),
                false => model.keys().copied().step_by(3).collect(),
            };
            tree.insert_many(&keys, &vec![round; keys.len()]).unwrap();
            model.extend(keys.into_iter().map(|key| (key, round)));
            assert_answers_from_main_memory(&tree, &model, &queries);
            assert!(matches!(tree.stats().on_device, Some(Err(_))), "{tree:?}");
        }
        let removed: Vec<u64> = model.keys().copied().step_by(2).collect();
        tree.remove_many(&removed).unwrap();
        model.retain(|key, _| removed.binary_search(key).is_err());
        assert_answers_from_main_memory(&tree, &model, &queries);
        // And once it works the next change sends it everything again.
        device.inject(None);
        let (&key, value) = model.iter_mut().nth(5).unwrap();
        *value = 77;
        tree.insert_many(&[key], &[77]).unwrap();
        assert_eq!(tree.stats().on_device, Some(Ok(())), "{tree:?}, {pinning:?}, rebuilds: {rebuilds}");
        if pinning != Pinning::None {
            assert_eq!(tree.stats().pinned, Some(Ok(())), "{tree:?}");
        }
        assert_answers(&tree, &model, &queries);
        device.inject(Some(Failure::Launch(0)));
        assert!(tree.get_many(&queries).is_err(), "the device takes part again");
        device.inject(None);
    }
}

#[test]
fn a_tree_of_any_kind_whose_device_is_gone_takes_changes_and_has_it_back_when_it_works_again() {
    gone_device_of::<Implicit>();
    gone_device_of::<Regular>();
    gone_device_of::<Over<HarmoniaAbove>>();
}

#[test]
fn stages_are_timed_where_there_is_a_device() {
    let keys: Vec<u64> = (0..1000).collect();
    let tree = HbTree::build(&Device::host(), &keys, &keys).unwrap();
    assert_eq!(tree.stage_times(&keys).unwrap(), None);
    let tree = HbTree::build(&Device::emulated(), &keys, &keys).unwrap();
    assert_eq!(tree.stage_times(&[]).unwrap(), None);
    let times = tree.stage_times(&keys).unwrap().unwrap();
    assert!(!times.descent.is_zero() && !times.leaves.is_zero(), "{times:?}");
    assert!(times.double_buffered() <= times.pipelined() && times.pipelined() <= times.sequential(), "{times:?}");
}

#[test]
fn buckets_are_timed_while_they_follow_one_another() {
    let keys: Vec<u64> = (0..1000).collect();
    let mut out = vec![0; 1000];
    let tree = HbTree::build(&Device::host(), &keys, &keys).unwrap();
    assert_eq!(tree.bucket_latencies(&keys, &mut out).unwrap(), None);
    let mut tree = HbTree::build(&Device::emulated(), &keys, &keys).unwrap();
    let mut pipeline = tree.pipeline();
    (pipeline.bucket, pipeline.pipelines) = (256, 1);
    tree.set_pipeline(pipeline).unwrap();
    let latencies = tree.bucket_latencies(&keys, &mut out).unwrap().unwrap();
    assert!(latencies.len() == 4 && latencies.iter().all(|latency| !latency.is_zero()), "{latencies:?}");
    assert_eq!(out, keys);
    assert!(tree.bucket_latencies(&keys, &mut out[1..]).is_err());
}

#[test]
fn a_piece_that_begins_below_the_one_before_is_told_so() {
    let mut pieces = HbTree::<u64, u64>::builder().in_pieces(&Device::host(), 10).unwrap();
    pieces.push(&[1, 2], &[0, 0]).unwrap();
    let error = pieces.push(&[1, 5], &[0, 0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "keys[0] = 1 is below the last one before this piece = 2: sort the pairs, or use the build that sorts them"
    );
    pieces.push(&[2, 3], &[7, 8]).unwrap();
    assert_eq!(pieces.finish().unwrap().pairs().unwrap(), [(1, 0), (2, 7), (3, 8)]);
}
