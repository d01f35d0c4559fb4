//! Memory as weak as a GPU's: what may be seen is seen with some seed, and what may not with none.

mod common;

use common::{run_with, shape};
use lanetree_simt::emulator::{MemoryModel, Options};
use lanetree_simt::{FULL_MASK, Hint, Kernel, LaunchShape, Order, Scope};
use std::collections::BTreeSet;

const SEEDS: u64 = 400;

/// What the kernel leaves in the last of 64 words with any seed.
fn outcomes<K: Kernel<Args = common::Args>>(memory: MemoryModel, shape: LaunchShape) -> BTreeSet<u32> {
    let outcome = |seed| {
        let options = Options { seed, memory, global_races: false, ..Options::default() };
        let mut output = [0; 64];
        run_with::<K>(&options, shape, &[], &mut output, 0).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        output[63]
    };
    (1..=SEEDS).map(outcome).collect()
}

fn weak<K: Kernel<Args = common::Args>>() -> Vec<u32> {
    outcomes::<K>(MemoryModel::Weak, shape(1, 2)).into_iter().collect()
}

/// Thread 0 writes two words and a flag; thread 1 waits for the flag and sums up the words.
macro_rules! message {
    ($name:ident, |$simt:ident, $args:ident| then $send:block until $seen:block) => {
        kernel!($name, |$simt, $args| {
            if $simt.global_index() == 0 {
                $simt.store($args.output, 0, 2, Hint::Default);
                $simt.atomic_store($args.output, 40, 4, Order::Relaxed, Scope::Device);
                $send
            } else {
                while $seen == 0 {
                    $simt.spin_hint();
                }
                let word = $simt.load($args.output.as_const(), 0, Hint::Default);
                let atomic = $simt.atomic_load($args.output, 40, Order::Relaxed, Scope::Device);
                $simt.store($args.output, 63, 1 + word + atomic, Hint::Default);
            }
        });
    };
}

message!(Released, |simt, args| then {
    simt.atomic_store(args.output, 20, 1, Order::Release, Scope::Device);
} until {
    simt.atomic_load(args.output, 20, Order::Acquire, Scope::Device)
});

message!(Added, |simt, args| then {
    simt.atomic_add(args.output, 20, 1, Order::AcquireRelease, Scope::Device);
} until {
    simt.atomic_max(args.output, 20, 0, Order::AcquireRelease, Scope::Device)
});

message!(Relaxed, |simt, args| then {
    simt.atomic_store(args.output, 20, 1, Order::Relaxed, Scope::Device);
} until {
    simt.atomic_load(args.output, 20, Order::Acquire, Scope::Device)
});

message!(NotAcquired, |simt, args| then {
    simt.atomic_store(args.output, 20, 1, Order::Release, Scope::Device);
} until {
    simt.atomic_load(args.output, 20, Order::Relaxed, Scope::Device)
});

message!(Fenced, |simt, args| then {
    simt.fence(Scope::Device);
    simt.atomic_store(args.output, 20, 1, Order::Relaxed, Scope::Device);
} until {
    let seen = simt.atomic_load(args.output, 20, Order::Relaxed, Scope::Device);
    simt.fence(Scope::Device);
    seen
});

#[test]
fn a_message_that_is_released_and_acquired_is_whole() {
    assert_eq!(weak::<Released>(), [7]);
    assert_eq!(weak::<Added>(), [7]);
    assert_eq!(weak::<Fenced>(), [7]);
    assert_eq!(outcomes::<Released>(MemoryModel::Weak, shape(1, 40)), BTreeSet::from([7]));
}

#[test]
fn a_message_without_release_or_acquire_is_not() {
    let all = [1, 3, 5, 7];
    assert_eq!(weak::<Relaxed>(), all);
    assert_eq!(weak::<NotAcquired>(), all);
    for memory in [MemoryModel::WeakWithoutReleases, MemoryModel::WeakWithoutAcquires] {
        for outcomes in [outcomes::<Released>, outcomes::<Added>, outcomes::<Fenced>] {
            assert_eq!(Vec::from_iter(outcomes(memory, shape(1, 2))), all, "{memory:?}");
        }
    }
    assert_eq!(outcomes::<Relaxed>(MemoryModel::Cpu, shape(1, 2)), BTreeSet::from([7]));
}

kernel!(StoreBuffers, |simt, args| {
    let own = simt.global_index();
    simt.atomic_store(args.output, own, 1, Order::Release, Scope::Device);
    let other = simt.atomic_load(args.output, 1 - own, Order::Acquire, Scope::Device);
    simt.atomic_add(args.output, 63, 1 + other, Order::Relaxed, Scope::Device);
});

#[test]
fn both_threads_may_read_before_the_other_writes() {
    assert_eq!(weak::<StoreBuffers>(), [2, 3, 4]);
}

kernel!(OneWord, |simt, args| {
    if simt.global_index() == 0 {
        for value in 1..9 {
            simt.atomic_store(args.output, 0, value, Order::Relaxed, Scope::Device);
        }
    } else {
        let (mut last, mut fell) = (0, 0);
        for _ in 0..20 {
            let next = simt.atomic_load(args.output, 0, Order::Relaxed, Scope::Device);
            fell |= u32::from(next < last);
            last = next;
        }
        simt.store(args.output, 63, fell, Hint::Default);
    }
});

#[test]
fn one_word_is_never_older_than_it_was() {
    assert_eq!(weak::<OneWord>(), [0]);
}

kernel!(OwnStores, |simt, args| {
    let own = 8 * simt.global_index();
    let mut wrong = 0;
    for value in 1..9 {
        simt.store(args.output, own, value, Hint::Default);
        wrong |= u32::from(simt.load(args.output.as_const(), own, Hint::Default) != value);
        // Half of a wider word, and all of it.
        simt.store(args.output.cast::<u64>(), own / 2 + 1, 0x1_0000_0001 * u64::from(value), Hint::Default);
        simt.store(args.output, own + 2, 0, Hint::Default);
        let both = simt.load(args.output.cast::<u64>().as_const(), own / 2 + 1, Hint::Default);
        wrong |= u32::from(both != u64::from(value) << 32);
        wrong |= u32::from(simt.load_vector(args.output.as_const(), own, Hint::Default)[3] != value);
    }
    simt.atomic_or(args.output, 63, wrong, Order::Relaxed, Scope::Device);
});

#[test]
fn a_thread_sees_its_own_stores() {
    assert_eq!(weak::<OwnStores>(), [0]);
}

kernel!(Counted, |simt, args| {
    simt.atomic_add(args.output.cast::<u64>(), 0, 3, Order::Relaxed, Scope::Device);
    let mut seen = simt.atomic_load(args.output, 10, Order::Relaxed, Scope::Device);
    loop {
        let former = simt.atomic_compare_exchange(args.output, 10, seen, seen + 1, Order::Relaxed, Scope::Device);
        if former == seen {
            break;
        }
        seen = former;
    }
    simt.barrier();
    let sum = simt.load(args.output.as_const(), 0, Hint::Default);
    let count = simt.atomic_load(args.output, 10, Order::Relaxed, Scope::Device);
    simt.atomic_max(args.output, 63, 1000 * sum + count, Order::Relaxed, Scope::Device);
    simt.atomic_min(args.output, 62, 1, Order::Relaxed, Scope::Device);
});

#[test]
fn what_reads_and_writes_in_one_misses_nothing() {
    assert_eq!(Vec::from_iter(outcomes::<Counted>(MemoryModel::Weak, shape(1, 40))), [120_040]);
}

kernel!(Met, |simt, args| {
    let thread = u64::from(simt.thread_index());
    simt.store(args.output, thread, 1, Hint::Default);
    let mut wrong = 0;
    for round in 2..6 {
        if round % 2 == 0 {
            simt.barrier();
        } else {
            simt.sync_warp(FULL_MASK);
        }
        let other = (thread + 5) % 32;
        wrong |= u32::from(simt.load(args.output.as_const(), other, Hint::Default) != round - 1);
        simt.sync_warp(FULL_MASK);
        simt.store(args.output, thread, round, Hint::Default);
    }
    simt.atomic_or(args.output, 63, wrong, Order::Relaxed, Scope::Device);
});

#[test]
fn threads_that_meet_see_what_the_others_wrote() {
    assert_eq!(Vec::from_iter(outcomes::<Met>(MemoryModel::Weak, shape(1, 32))), [0]);
}
