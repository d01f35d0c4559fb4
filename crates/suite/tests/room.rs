//! What calls do when main memory has no room for what they need: they return the error for that, nothing has changed, and the
//! process goes on. A test binary of its own, with its own allocator, which refuses one large allocation after another.

use core::cell::{Cell, RefCell};
use core::ops::Bound;
use lanetree::cuart::HybridBuilder;
use lanetree::hbtree::{self, HarmoniaAbove, HbTree, Over, Regular};
use lanetree::{
    BatchOf, BuildRules, Closed, Cuart, Cubpt, Device, DeviceKind, Domain, Duplicates, Error, Harmonia, IndexBuilder,
    IntervalIndex, KeyOf, LaneSet, LaneTree, MultiMap, Nulls, Op, OrderedIndex, Result, SortedArray, UpdatePath,
    UpdateReport, Validity,
};
use lanetree_suite::families::sharded_builders;
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Keys of an index and of a batch: fewer on the emulator, which takes its time.
fn keys_on(device: &Device) -> u64 {
    if device.kind() == DeviceKind::Emulated { 1 << 13 } else { 1 << 15 }
}

/// Bytes from which on an allocation is large: allocations for a batch are, allocations for one thread's task are not.
static LARGE: AtomicUsize = AtomicUsize::new(0);

/// Whether it is the emulator's turn.
static IS_EMULATED: AtomicBool = AtomicBool::new(false);

/// Refuses the large allocation that takes this to zero. Zero refuses none.
static LEFT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Allocations that this thread has asked for.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

struct Refusing;

impl Refusing {
    fn refuses(bytes: usize) -> bool {
        ASKED.set(ASKED.get() + 1);
        if bytes < LARGE.load(Ordering::Relaxed)
            || LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) != Ok(1)
        {
            return false;
        }
        if !IS_EMULATED.load(Ordering::Relaxed) && std::env::var_os("LANETREE_ROOM_TRACE").is_none() {
            return true;
        }
        // What the emulator takes to check a kernel is no memory of the library's.
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        if std::env::var_os("LANETREE_ROOM_TRACE").is_some() {
            eprintln!("{bytes} bytes\n{trace}");
        }
        !trace.contains("lanetree_simt::emulator")
    }
}

// SAFETY: the system's allocator, or null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        if Self::refuses(layout.size()) { core::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        if Self::refuses(layout.size()) { core::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        if Self::refuses(size) { core::ptr::null_mut() } else { unsafe { System.realloc(start, layout, size) } }
    }
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Calls with the first large allocation refused, with the second, and so on, until one call has all.
fn each_refusal<T>((device, what): (&Device, &str), mut call: impl FnMut() -> Result<T>, mut check: impl FnMut(bool)) {
    LARGE.store(3 * keys_on(device) as usize, Ordering::Relaxed);
    // On the emulator the calls take turns.
    let is_emulated = device.kind() == DeviceKind::Emulated;
    IS_EMULATED.store(is_emulated, Ordering::Relaxed);
    let step = if is_emulated { 7 } else { 1 };
    for refused in (1 + what.len() as u64 % step..300).step_by(step as usize) {
        LEFT.store(refused, Ordering::Relaxed);
        let outcome = call();
        let was_refused = LEFT.swap(0, Ordering::Relaxed) == 0;
        match &outcome {
            Ok(_) => {}
            Err(error @ Error::Runtime(_)) if was_refused && error.to_string().contains("has no room for") => {}
            Err(error) => panic!("{what}, allocation {refused}: {error}"),
        }
        let is_ok = outcome.is_ok();
        drop(outcome);
        check(is_ok);
        if !was_refused {
            return;
        }
    }
    panic!("{what} has more large allocations than expected");
}

/// Set to the name of a test in the process that is that test's own.
const ALONE: &str = "LANETREE_ROOM_ALONE";

/// Runs a test in a process of its own, whose allocations are counted while other tests run, too. On one thread: what a batch takes
/// is then not split into the parts of many.
fn alone(test: impl FnOnce()) {
    // Tests run in threads of their names.
    let name = std::thread::current().name().unwrap().to_owned();
    if std::env::var(ALONE).is_ok_and(|own| own == name) {
        rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
        return test();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args([&name, "--exact", "--nocapture"]).env(ALONE, &name).output().unwrap();
    let [said, complaint] = [&child.stdout, &child.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(child.status.success() && said.contains("1 passed"), "{}: {said}{complaint}", child.status);
    // What is asked for by `LANETREE_ROOM_TRACE`.
    eprint!("{complaint}");
}

/// A query for a batch of keys.
type Query<'a, I> = &'a dyn Fn(&I, BatchOf<'_, I>) -> Result<()>;

/// All calls of an index, whose `i`-th key is `key(i)`, in an order that is not theirs.
fn all_calls<B: IndexBuilder>(builder: &B, key: fn(u64) -> KeyOf<B::Index>)
where
    <B::Index as OrderedIndex>::Value: From<u32>,
{
    all_calls_on(&[Device::host(), Device::emulated()], builder, key);
}

fn all_calls_on<B: IndexBuilder>(devices: &[Device], builder: &B, key: fn(u64) -> KeyOf<B::Index>)
where
    <B::Index as OrderedIndex>::Value: From<u32>,
{
    for device in devices {
        let len = keys_on(device);
        let name = |call: &str| format!("{} on {device}: {call}", B::Index::NAME);
        let keys = |from: u64| (0..len).map(|i| key(2 * (i * 7919 % len) + from)).collect::<Vec<_>>();
        let (own, others) = (keys(0), keys(1));
        let batch = |keys: &[KeyOf<B::Index>]| -> <<B::Index as OrderedIndex>::Domain as Domain>::Keys {
            keys.iter().cloned().collect()
        };
        let (own_batch, other_batch) = (batch(&own), batch(&others));
        let of = <<B::Index as OrderedIndex>::Domain as Domain>::batch;
        let values: Vec<<B::Index as OrderedIndex>::Value> = (0..len as u32).map(Into::into).collect();
        let build = || builder.build(device, of(&own_batch), &values);
        each_refusal((device, &name("build")), build, |_| {});
        let mut index = build().unwrap();
        let ranges: Vec<_> = own
            .iter()
            .map(|key| <B::Index as OrderedIndex>::Domain::range(Bound::Included(key), Bound::Unbounded, 2))
            .collect();

        let query = |call: &str, query: Query<'_, B::Index>| {
            each_refusal((device, &name(call)), || query(&index, of(&own_batch)), |_| {});
        };
        query("get_many", &|index, keys| index.get_many(keys).map(drop));
        query("lower_bound_many", &|index, keys| index.lower_bound_many(keys).map(drop));
        query("upper_bound_many", &|index, keys| index.upper_bound_many(keys).map(drop));
        query("predecessor_many", &|index, keys| index.predecessor_many(keys).map(drop));
        query("successor_many", &|index, keys| index.successor_many(keys).map(drop));
        query("join_many", &|index, keys| index.join_many(keys).map(drop));
        query("range_many", &|index, _| index.range_many(&ranges).map(drop));
        query("count_range_many", &|index, _| index.count_range_many(&ranges).map(drop));
        query("pairs", &|index, _| index.pairs().map(drop));

        let mut change = |call: &str, change: &dyn Fn(&mut B::Index) -> Result<()>| {
            let index = RefCell::new(&mut index);
            each_refusal(
                (device, &name(call)),
                || change(&mut index.borrow_mut()),
                |has_changed| {
                    let mut index = index.borrow_mut();
                    if has_changed {
                        **index = build().unwrap();
                    }
                    assert!(!index.is_lost() && index.len() == len, "{}", name(call));
                    let some = batch(&[own[3].clone(), others[5].clone()]);
                    assert_eq!(index.get_many(of(&some)).unwrap(), [Some(values[3]), None], "{}", name(call));
                },
            );
        };
        let op = |i: usize| match i % 3 {
            0 => Op::Insert(others[i].clone(), values[i]),
            1 => Op::Update(own[i].clone(), values[0]),
            _ => Op::Remove(own[i].clone()),
        };
        let ops: Vec<_> = (0..len as usize).map(op).collect();
        change("apply", &|index| index.apply(&ops).map(drop));
        change("insert_many", &|index| index.insert_many(of(&other_batch), &values).map(drop));
        change("update_many", &|index| index.update_many(of(&own_batch), &values).map(drop));
        change("remove_many", &|index| index.remove_many(of(&own_batch)).map(drop));
    }
}

fn word(i: u64) -> u64 {
    i * 1_000_003
}

#[test]
fn calls_of_lane_tree_find_no_memory() {
    alone(|| all_calls(&LaneTree::<u64, u64>::builder(), word));
}

#[test]
fn calls_of_harmonia_find_no_memory() {
    alone(|| all_calls(&Harmonia::<u64, u64>::builder(), word));
}

#[test]
fn calls_of_cubpt_find_no_memory() {
    alone(|| all_calls(&Cubpt::<u64, u64>::builder(), word));
}

#[test]
fn calls_of_the_sorted_array_find_no_memory() {
    alone(|| all_calls(&SortedArray::<u64, u64>::builder(), word));
}

#[test]
fn calls_of_the_implicit_hbtree_find_no_memory() {
    alone(|| all_calls(&HbTree::<u64, u64>::builder(), word));
}

#[test]
fn calls_of_the_regular_hbtree_find_no_memory() {
    alone(|| all_calls(&hbtree::Builder::<u64, u64, Regular>::default(), word));
}

#[test]
fn calls_of_the_hbtree_below_harmonia_find_no_memory() {
    alone(|| all_calls(&hbtree::Builder::<u64, u64, Over<HarmoniaAbove>>::default(), word));
}

#[test]
fn calls_of_shards_find_no_memory() {
    let [together, _] = sharded_builders(LaneTree::<u64, u64>::builder());
    // What their trees do on the emulator is LaneTree's.
    alone(|| all_calls_on(&[Device::host()], &together, word));
}

/// Byte strings of several lengths.
fn string(i: u64) -> Vec<u8> {
    let mut string = word(i).to_be_bytes().to_vec();
    string.resize(8 + (i % 3) as usize * 16, 7);
    string
}

#[test]
fn calls_of_cuart_find_no_memory() {
    alone(|| all_calls(&Cuart::<u64>::builder(), string));
}

#[test]
fn calls_of_the_hybrid_find_no_memory() {
    alone(|| all_calls(&HybridBuilder::<u64>::default(), string));
}

#[test]
fn calls_of_the_set_find_no_memory() {
    alone(|| {
        let device = Device::host();
        let len = keys_on(&device);
        let keys = |from: u64| (0..len).map(|i| word(2 * (i * 7919 % len) + from)).collect::<Vec<_>>();
        let (own, others) = (keys(0), keys(1));
        let build = || LaneSet::build(&device, &own);
        each_refusal((&device, "build"), build, |_| {});
        let mut set = build().unwrap();
        each_refusal((&device, "contains_many"), || set.contains_many(&own), |_| {});
        each_refusal((&device, "predecessor_many"), || set.predecessor_many(&own), |_| {});
        each_refusal((&device, "successor_many"), || set.successor_many(&own), |_| {});
        each_refusal((&device, "keys"), || set.keys(), |_| {});
        each_refusal((&device, "range_many"), || set.range_many(own.iter().map(|&key| key..=key)), |_| {});
        each_refusal((&device, "union"), || set.union(&set), |_| {});
        each_refusal((&device, "insert_many"), || set.insert_many(&others), |_| {});
        assert!(set.contains_many(&others).unwrap().into_iter().all(|is_there| is_there));
    });
}

/// A tree with room that takes a batch in place, one whose buckets share their pairs, one that splits nodes, and a full one, whose nodes
/// get new buckets.
#[test]
fn batches_of_lane_tree_on_the_host_find_no_memory() {
    alone(|| {
        let device = Device::host();
        let len = keys_on(&device);
        let keys: Vec<u64> = (0..len).map(|i| word(2 * i)).collect();
        let spread = |count: u64| (0..count).map(|i| word(2 * (i * (len / count)) + 1)).collect::<Vec<_>>();
        let dense: Vec<u64> = (1..=len / 4).map(|i| word(2000) + i).collect();
        for (what, fill, new, path) in [
            ("in place", 0.4, spread(len / 4), UpdatePath::InPlace),
            ("with shifts", 0.55, spread(len / 4), UpdatePath::InPlace),
            ("with splits", 0.7, dense, UpdatePath::Moved),
            ("with new buckets", 1.0, spread(16), UpdatePath::InPlace),
        ] {
            let build = || LaneTree::builder().fill(fill).build(&device, &keys, &keys).unwrap();
            let tree = RefCell::new(build());
            each_refusal(
                (&device, what),
                || tree.borrow_mut().insert_many(&new, &new).map(|report| assert_eq!(report.path, path, "{what}")),
                |has_changed| {
                    let mut tree = tree.borrow_mut();
                    tree.check_structure();
                    let found = tree.get_many(&new).unwrap();
                    assert!(found.iter().all(|value| value.is_some() == has_changed), "{what}");
                    if has_changed {
                        *tree = build();
                    }
                },
            );
        }
    });
}

#[test]
fn calls_of_the_multi_map_find_no_memory() {
    alone(|| {
        let device = Device::host();
        let len = keys_on(&device);
        let keys: Vec<u64> = (0..len).map(|i| word(i * 7919 % len / 2)).collect();
        let values: Vec<u32> = (0..len as u32).collect();
        let pairs: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
        let build = || MultiMap::build(&device, &keys, &values);
        each_refusal((&device, "build"), build, |_| {});
        let mut map = build().unwrap();
        each_refusal((&device, "get_all_many"), || map.get_all_many(&keys), |_| {});
        each_refusal((&device, "contains_many"), || map.contains_many(&keys), |_| {});
        each_refusal((&device, "first_many"), || map.first_many(&keys), |_| {});
        each_refusal((&device, "lower_bound_many"), || map.lower_bound_many(&keys), |_| {});
        each_refusal((&device, "predecessor_many"), || map.predecessor_many(&keys), |_| {});
        each_refusal((&device, "range_many"), || map.range_many(keys.iter().map(|&key| key..=key)), |_| {});
        each_refusal((&device, "pairs"), || map.pairs(), |_| {});
        each_refusal((&device, "remove_pairs_many"), || map.remove_pairs_many(&pairs[..len as usize / 2]), |_| {});
        each_refusal((&device, "insert_many"), || map.insert_many(&keys, &values), |_| {});
        each_refusal((&device, "remove_all_many"), || map.remove_all_many(&keys), |_| {});
        assert!(map.is_empty());

        let mut map = MultiMap::builder().room(4.0).build(&device, &keys, &values).unwrap();
        each_refusal((&device, "insert_many in place"), || map.insert_many(&keys, &values), |_| {});
        assert!(!map.is_ordered() && map.len() == 2 * len);
        each_refusal((&device, "pairs out of order"), || map.pairs(), |_| {});
        each_refusal((&device, "restore_order"), || map.restore_order(), |_| {});
        assert!(map.is_ordered() && map.len() == 2 * len);
    });
}

/// A change of a multi-map.
type Change<'a> = dyn Fn(&mut MultiMap<u64, u64>) -> Result<UpdateReport> + 'a;

/// Changes take place, or do not.
#[test]
fn batches_of_the_multi_map_on_the_host_find_no_memory() {
    alone(|| {
        let device = Device::host();
        let len = keys_on(&device);
        let keys: Vec<u64> = (0..len).map(|i| word(i / 2)).collect();
        let values: Vec<u64> = (0..len).collect();
        // Keys that are there, and others: so few that there is room for their values.
        let new: Vec<u64> = (0..len / 10).map(|i| word(i * 7)).collect();
        let pairs: Vec<(u64, u64)> = (0..len / 2).map(|i| (word(i), 2 * i)).collect();
        let build = || MultiMap::build(&device, &keys, &values).unwrap();
        let changes: [(&str, &Change<'_>); 3] = [
            ("insert_many", &|map| map.insert_many(&new, &values[..new.len()])),
            ("remove_all_many", &|map| map.remove_all_many(&new)),
            ("remove_pairs_many", &|map| map.remove_pairs_many(&pairs)),
        ];
        for (what, change) in changes {
            let (before, mut after) = (build(), build());
            assert_eq!(change(&mut after).unwrap().path, UpdatePath::InPlace, "{what}");
            let map = RefCell::new(build());
            let changed = || change(&mut map.borrow_mut());
            each_refusal((&device, what), changed, |has_changed| {
                let expected = if has_changed { &after } else { &before };
                assert!(map.borrow().pairs().unwrap() == expected.pairs().unwrap(), "{what}");
                let ranks = |map: &MultiMap<u64, u64>| map.upper_bound_many(&new).unwrap();
                assert!(ranks(&map.borrow()) == ranks(expected), "{what}");
                *map.borrow_mut() = build();
            });
        }
    });
}

#[test]
fn batches_of_cubpt_on_the_host_find_no_memory() {
    alone(|| {
        let device = Device::host();
        let len = keys_on(&device);
        let keys: Vec<u64> = (0..len).map(|i| word(2 * i)).collect();
        let new: Vec<u64> = (0..len / 2).map(|i| word(2 * i) + 1).collect();
        let build = || Cubpt::build(&device, &keys, &keys).unwrap();
        let tree = RefCell::new(build());
        each_refusal(
            (&device, "with splits"),
            || tree.borrow_mut().insert_many(&new, &new).map(|report| assert_eq!(report.path, UpdatePath::Moved)),
            |has_changed| {
                let mut tree = tree.borrow_mut();
                let pairs = tree.check_structure();
                assert_eq!(pairs.len(), keys.len() + if has_changed { new.len() } else { 0 });
                if has_changed {
                    *tree = build();
                }
            },
        );
    });
}

#[test]
fn builds_by_rules_find_no_memory() {
    alone(|| {
        let device = Device::host();
        let len = keys_on(&device) as usize;
        let keys: Vec<u64> = (0..len as u64).map(|i| word(i * 7919 % len as u64 / 2)).collect();
        let rows: Vec<u32> = (0..len as u32).collect();
        // All keys but the first.
        let mut bits = vec![u8::MAX; len.div_ceil(8)];
        bits[0] = 0xfe;
        let validity = Validity::new(&bits, 0, len).unwrap();
        let rules = BuildRules::default().validity(validity, Nulls::Skip);
        let build =
            |duplicates| LaneTree::<u64, u32>::builder().build_by(&device, &keys, &rows, &rules.duplicates(duplicates));
        each_refusal((&device, "build_by"), || build(Duplicates::Last), |_| {});
        each_refusal((&device, "build_by, first"), || build(Duplicates::First), |_| {});
        each_refusal((&device, "select"), || validity.select(&keys), |_| {});
        assert!(matches!(build(Duplicates::Refuse), Err(Error::RepeatedKey { .. })));
    });
}

#[test]
fn calls_of_the_interval_index_and_joins_by_ranges_find_no_memory() {
    alone(|| {
        let device = Device::host();
        let len = keys_on(&device);
        let starts: Vec<u64> = (0..len).map(|i| word(i * 7919 % len)).collect();
        let ends: Vec<u64> = starts.iter().map(|start| start + word(3)).collect();
        let build = || IntervalIndex::build(&device, &starts, &ends);
        each_refusal((&device, "build"), build, |_| {});
        let index = build().unwrap();
        each_refusal((&device, "most_specific_many"), || index.most_specific_many(&ends), |_| {});
        each_refusal((&device, "stab_many"), || index.stab_many(&ends), |_| {});
        each_refusal((&device, "count_many"), || index.count_many(&ends), |_| {});
        each_refusal((&device, "overlap_many"), || index.overlap_many(&starts, &ends), |_| {});
        let rows: Vec<u32> = (0..len as u32).collect();
        let tree = LaneTree::build(&device, &starts, &rows).unwrap();
        let join = || tree.range_join_many(&starts, &ends, Closed::Neither);
        each_refusal((&device, "range_join_many"), join, |_| {});
        each_refusal((&device, "band_join_many"), || tree.band_join_many(&starts, 3), |_| {});
        let matches = join().unwrap();
        each_refusal((&device, "probes"), || matches.probes(), |_| {});
    });
}

#[test]
fn what_a_device_is_takes_no_memory() {
    for device in [Device::host(), Device::emulated()] {
        device.properties().unwrap();
        let asked = ASKED.get();
        device.properties().unwrap();
        assert_eq!(ASKED.get(), asked, "{device}");
    }
}

/// Results that no limit of address space has room for are errors, not the end of the process: ranges that are many times the
/// index. The limit is this test's process's.
#[cfg(target_os = "linux")]
#[test]
fn ranges_beyond_the_limit_of_address_space_are_errors() {
    alone(|| {
        let (device, len) = (Device::host(), 1 << 15);
        let keys: Vec<u64> = (0..len).map(word).collect();
        let strings: lanetree::ByteKeysBuf = (0..len).map(string).collect();
        let mut cuart = Cuart::build(&device, &strings, &keys).unwrap();
        let implicit = HbTree::<u64, u64>::builder().build(&device, &keys, &keys).unwrap();
        let regular = hbtree::Builder::<u64, u64, Regular>::default().build(&device, &keys, &keys).unwrap();
        let lane_tree = LaneTree::build(&device, &keys, &keys).unwrap();
        let all = || (0..4096).map(|_| ..);
        let prefixes: lanetree::ByteKeysBuf = (0..4096).map(|_| "").collect();
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        for more in [8 << 20, 100 << 20] {
            let limit = libc::rlimit { rlim_cur: pages * 4096 + more, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: a limit of this process, from a value of this thread.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
            let is_refused = |call: &str, error: Option<Error>| {
                let error = error.unwrap_or_else(|| panic!("{call} has room")).to_string();
                assert!(error.contains("has no room for"), "{call}: {error}");
            };
            is_refused("Cuart::range_many", cuart.range_many(all()).err());
            is_refused("Cuart::prefix_many", cuart.prefix_many(&prefixes).err());
            is_refused("HbTree::range_many", implicit.range_many(all()).err());
            is_refused("HbTree::range_many, regular", regular.range_many(all()).err());
            is_refused("LaneTree::range_many", lane_tree.range_many(all()).err());
            assert_eq!(implicit.range_many([0..=keys[2]]).unwrap().keys, keys[..3], "no lock is poisoned");
        }
        // Without ranks: the tree's links are followed.
        cuart.remove_many(&["absent"].into_iter().collect::<lanetree::ByteKeysBuf>()).unwrap();
        cuart.insert_many(&["new"].into_iter().collect::<lanetree::ByteKeysBuf>(), &[1]).unwrap();
        assert!(cuart.prefix_many(&prefixes).is_err_and(|error| error.to_string().contains("has no room for")));
    });
}
