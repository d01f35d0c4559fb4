//! What calls do when main memory has no room for what they need: they return the error for that, nothing has changed, and the
//! process goes on. A test binary of its own, with its own allocator, which refuses one large allocation after another.

use core::ops::Bound;
use lanetree::cuart::HybridBuilder;
use lanetree::hbtree::{self, HarmoniaAbove, HbTree, Over, Regular};
use lanetree::{
    BatchOf, Cuart, Cubpt, Device, DeviceKind, Domain, Error, Harmonia, IndexBuilder, KeyOf, LaneTree, Op,
    OrderedIndex, Result, SortedArray,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys of an index and of a batch: fewer on the emulator, which takes its time.
fn keys_on(device: &Device) -> u64 {
    if device.kind() == DeviceKind::Emulated { 1 << 13 } else { 1 << 15 }
}

/// Bytes from which on an allocation is large: those of a batch are, and those of one thread's task are not.
static LARGE: AtomicUsize = AtomicUsize::new(0);

/// Refuses the large allocation that takes this to zero. Zero refuses none.
static LEFT: AtomicU64 = AtomicU64::new(0);

struct Refusing;

impl Refusing {
    fn refuses(bytes: usize) -> bool {
        if bytes < LARGE.load(Ordering::Relaxed)
            || LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) != Ok(1)
        {
            return false;
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
    let step = if device.kind() == DeviceKind::Emulated { 3 } else { 1 };
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

/// One test at a time, on one thread: what a batch takes is then not split into the parts of many.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    _ = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
    turn
}

/// All calls of an index, whose `i`-th key is `key(i)`, in an order that is not theirs.
fn all_calls<B: IndexBuilder>(builder: &B, key: fn(u64) -> KeyOf<B::Index>)
where
    <B::Index as OrderedIndex>::Value: From<u32>,
{
    let _turn = alone();
    for device in [Device::host(), Device::emulated()] {
        let len = keys_on(&device);
        let name = |call: &str| format!("{} on {device}: {call}", B::Index::NAME);
        let keys = |from: u64| (0..len).map(|i| key(2 * (i * 7919 % len) + from)).collect::<Vec<_>>();
        let (own, others) = (keys(0), keys(1));
        let batch = |keys: &[KeyOf<B::Index>]| -> <<B::Index as OrderedIndex>::Domain as Domain>::Keys {
            keys.iter().cloned().collect()
        };
        let (own_batch, other_batch) = (batch(&own), batch(&others));
        let of = <<B::Index as OrderedIndex>::Domain as Domain>::batch;
        let values: Vec<<B::Index as OrderedIndex>::Value> = (0..len as u32).map(Into::into).collect();
        let build = || builder.build(&device, of(&own_batch), &values);
        each_refusal((&device, &name("build")), build, |_| {});
        let mut index = build().unwrap();
        let ranges: Vec<_> = own
            .iter()
            .map(|key| <B::Index as OrderedIndex>::Domain::range(Bound::Included(key), Bound::Unbounded, 2))
            .collect();

        let query = |call: &str, query: &dyn Fn(&B::Index, BatchOf<'_, B::Index>) -> Result<()>| {
            each_refusal((&device, &name(call)), || query(&index, of(&own_batch)), |_| {});
        };
        query("get_many", &|index, keys| index.get_many(keys).map(drop));
        query("lower_bound_many", &|index, keys| index.lower_bound_many(keys).map(drop));
        query("upper_bound_many", &|index, keys| index.upper_bound_many(keys).map(drop));
        query("predecessor_many", &|index, keys| index.predecessor_many(keys).map(drop));
        query("successor_many", &|index, keys| index.successor_many(keys).map(drop));
        query("join_many", &|index, keys| index.join_many(keys).map(drop));
        query("range_many", &|index, _| index.range_many(&ranges).map(drop));
        query("count_many", &|index, _| index.count_many(&ranges).map(drop));
        query("pairs", &|index, _| index.pairs().map(drop));

        let mut change = |call: &str, change: &dyn Fn(&mut B::Index) -> Result<()>| {
            let index = core::cell::RefCell::new(&mut index);
            each_refusal(
                (&device, &name(call)),
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
    all_calls(&LaneTree::<u64, u64>::builder(), word);
}

#[test]
fn calls_of_harmonia_find_no_memory() {
    all_calls(&Harmonia::<u64, u64>::builder(), word);
}

#[test]
fn calls_of_cubpt_find_no_memory() {
    all_calls(&Cubpt::<u64, u64>::builder(), word);
}

#[test]
fn calls_of_the_sorted_array_find_no_memory() {
    all_calls(&SortedArray::<u64, u64>::builder(), word);
}

#[test]
fn calls_of_the_implicit_hbtree_find_no_memory() {
    all_calls(&HbTree::<u64, u64>::builder(), word);
}

#[test]
fn calls_of_the_regular_hbtree_find_no_memory() {
    all_calls(&hbtree::Builder::<u64, u64, Regular>::default(), word);
}

#[test]
fn calls_of_the_hbtree_below_harmonia_find_no_memory() {
    all_calls(&hbtree::Builder::<u64, u64, Over<HarmoniaAbove>>::default(), word);
}

/// Byte strings of several lengths.
fn string(i: u64) -> Vec<u8> {
    let mut string = word(i).to_be_bytes().to_vec();
    string.resize(8 + (i % 3) as usize * 16, 7);
    string
}

#[test]
fn calls_of_cuart_find_no_memory() {
    all_calls(&Cuart::<u64>::builder(), string);
}

#[test]
fn calls_of_the_hybrid_find_no_memory() {
    all_calls(&HybridBuilder::<u64>::default(), string);
}
