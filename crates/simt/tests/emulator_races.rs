//! Threads that touch the same global memory: what is a race, and what orders them.

mod common;

use common::{run, run_with, shape};
use lanetree_simt::LaunchReport;
use lanetree_simt::emulator::{Earlier, Fault, FaultKind, GlobalAccess, GlobalAccessKind, Options};
use lanetree_simt::{FULL_MASK, Hint, Kernel, LaunchShape, Order, Scope};

const SEEDS: u64 = 20;

fn launch<K: Kernel<Args = common::Args>>(seed: u64, shape: LaunchShape) -> Result<LaunchReport, Fault> {
    run::<K>(seed, shape, &[], &mut [0; 256], 0)
}

/// A race is found with every seed; that of seed 0 is returned.
fn race<K: Kernel<Args = common::Args>>(shape: LaunchShape) -> Fault {
    for seed in 1..SEEDS {
        let fault = launch::<K>(seed, shape).expect_err("a race");
        assert!(matches!(fault.kind, FaultKind::GlobalRace { .. } | FaultKind::MixedWidths { .. }), "{fault}");
    }
    launch::<K>(0, shape).expect_err("a race")
}

/// No race is found with any seed.
fn no_race<K: Kernel<Args = common::Args>>(shape: LaunchShape) {
    for seed in 0..SEEDS {
        launch::<K>(seed, shape).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

kernel!(AllWriteOne, |simt, args| {
    simt.store(args.output, 3, 1, Hint::Default);
});

#[test]
fn two_threads_write_a_word() {
    let fault = race::<AllWriteOne>(shape(1, 64));
    assert_eq!((fault.block, fault.thread), (0, 1));
    let FaultKind::GlobalRace { offset: 12, access, earlier, .. } = fault.kind else { panic!("{fault}") };
    assert_eq!(access, GlobalAccess { kind: GlobalAccessKind::Write, bytes: 4 });
    assert_eq!(earlier, Earlier { block: 0, thread: 0, access });
    let message = fault.to_string();
    assert!(message.contains("thread 1 (warp 0, lane 1): write of 4 bytes of global memory at 0x"), "{message}");
    assert!(message.contains("byte 12 of a buffer, races with the write of 4 bytes by block 0, thread 0"), "{message}");
}

#[test]
fn two_blocks_write_a_word() {
    let fault = race::<AllWriteOne>(shape(2, 1));
    let FaultKind::GlobalRace { earlier, .. } = fault.kind else { panic!("{fault}") };
    assert_eq!(earlier.block, 1 - fault.block);
}

#[test]
fn races_may_be_let_pass() {
    let options = Options { global_races: false, ..Options::default() };
    run_with::<AllWriteOne>(&options, shape(2, 64), &[], &mut [0; 256], 0).unwrap();
}

kernel!(OneReadsBefore, |simt, args| {
    if simt.global_index() == 0 {
        simt.load(args.output.as_const(), 0, Hint::Default);
    } else if simt.global_index() == 1 {
        simt.store(args.output, 0, 1, Hint::Default);
    }
});

#[test]
fn a_read_and_a_write() {
    for shape in [shape(1, 2), shape(2, 1)] {
        race::<OneReadsBefore>(shape);
    }
}

kernel!(HalfOfAnother, |simt, args| {
    if simt.global_index() == 0 {
        simt.store(args.output.cast::<u64>(), 1, 1, Hint::Default);
    } else {
        simt.store_vector(args.output.cast::<u64>(), 0, [1, 2], Hint::Default);
    }
});

#[test]
fn what_overlaps_races() {
    let FaultKind::GlobalRace { offset: 8, access, earlier, .. } = race::<HalfOfAnother>(shape(1, 2)).kind else {
        panic!()
    };
    assert_eq!((access.bytes, earlier.access.bytes), (16, 8));
}

kernel!(Neighbours, |simt, args| {
    let index = simt.global_index();
    simt.store(args.output, index, 1, Hint::Default);
    simt.load(args.output.as_const(), index, Hint::Default);
    // All read what nobody writes.
    simt.load(args.output.as_const(), 200, Hint::Default);
});

#[test]
fn words_beside_each_other_do_not_race() {
    no_race::<Neighbours>(shape(4, 40));
}

kernel!(AcrossABarrier, |simt, args| {
    simt.store(args.output, simt.thread_index().into(), 1, Hint::Default);
    simt.barrier();
    let other = u64::from(simt.thread_index() + 33) % 64;
    simt.load(args.output.as_const(), other, Hint::Default);
    simt.barrier();
    simt.store(args.output, other, 1, Hint::Default);
});

kernel!(AcrossACollective, |simt, args| {
    simt.store(args.output, simt.thread_index().into(), 1, Hint::Default);
    simt.sync_warp(FULL_MASK);
    let other = u64::from((simt.lane() + 5) % 32 + 32 * simt.warp());
    simt.load(args.output.as_const(), other, Hint::Default);
    simt.ballot(FULL_MASK, true);
    simt.store(args.output, other, 1, Hint::Default);
});

kernel!(OtherWarpAfterACollective, |simt, args| {
    simt.store(args.output, simt.thread_index().into(), 1, Hint::Default);
    simt.sync_warp(FULL_MASK);
    simt.load(args.output.as_const(), u64::from(simt.thread_index() + 33) % 64, Hint::Default);
});

kernel!(ReadAfterNoBarrier, |simt, args| {
    simt.barrier();
    simt.store(args.output, simt.thread_index().into(), 1, Hint::Default);
    simt.load(args.output.as_const(), u64::from(simt.thread_index() ^ 1), Hint::Default);
});

#[test]
fn barriers_order_a_block_and_collectives_a_warp() {
    no_race::<AcrossABarrier>(shape(1, 64));
    no_race::<AcrossACollective>(shape(1, 64));
    race::<OtherWarpAfterACollective>(shape(1, 64));
    race::<ReadAfterNoBarrier>(shape(1, 64));
}

#[test]
fn a_barrier_orders_no_other_block() {
    race::<AcrossABarrier>(shape(2, 64));
}

/// Block 0 writes a word and says so in another; block 1 waits for that and reads.
macro_rules! message {
    ($name:ident, |$simt:ident, $args:ident| send $send:block receive $receive:block) => {
        kernel!($name, |$simt, $args| {
            // By tickets, so that the one that waits is not the first to run.
            let ticket = $simt.atomic_add($args.output, 100, 1, Order::Relaxed, Scope::Device);
            if ticket == 0 {
                $simt.store($args.output, 0, 7, Hint::Default);
                $send
            } else {
                $receive
                $simt.load($args.output.as_const(), 0, Hint::Default);
            }
        });
    };
}

macro_rules! wait_for {
    ($simt:ident, $args:ident, $flag:expr, $order:expr) => {
        while $simt.atomic_load($args.output, $flag, $order, Scope::Device) == 0 {
            $simt.spin_hint();
        }
    };
}

message!(Message, |simt, args| send {
    simt.atomic_store(args.output, 1, 1, Order::Release, Scope::Device);
} receive {
    wait_for!(simt, args, 1, Order::Acquire);
});

message!(MessageWithoutRelease, |simt, args| send {
    simt.atomic_store(args.output, 1, 1, Order::Relaxed, Scope::Device);
} receive {
    wait_for!(simt, args, 1, Order::Acquire);
});

message!(MessageWithoutAcquire, |simt, args| send {
    simt.atomic_store(args.output, 1, 1, Order::Release, Scope::Device);
} receive {
    wait_for!(simt, args, 1, Order::Relaxed);
});

message!(MessageByFences, |simt, args| send {
    simt.fence(Scope::Device);
    simt.atomic_store(args.output, 1, 1, Order::Relaxed, Scope::Device);
} receive {
    wait_for!(simt, args, 1, Order::Relaxed);
    simt.fence(Scope::Device);
});

message!(MessageByOneFence, |simt, args| send {
    simt.fence(Scope::Device);
    simt.atomic_store(args.output, 1, 1, Order::Relaxed, Scope::Device);
} receive {
    wait_for!(simt, args, 1, Order::Relaxed);
});

message!(MessageBeforeTheWrite, |simt, args| send {
    simt.atomic_store(args.output, 1, 1, Order::Release, Scope::Device);
    simt.store(args.output, 0, 8, Hint::Default);
} receive {
    wait_for!(simt, args, 1, Order::Acquire);
});

#[test]
fn a_release_that_is_acquired_orders() {
    for shape in [shape(1, 2), shape(2, 1), shape(1, 33)] {
        no_race::<Message>(shape);
        no_race::<MessageByFences>(shape);
        race::<MessageWithoutRelease>(shape);
        race::<MessageWithoutAcquire>(shape);
        race::<MessageByOneFence>(shape);
    }
    // Found if the reader comes late enough.
    let found = (0..SEEDS).filter(|&seed| launch::<MessageBeforeTheWrite>(seed, shape(1, 64)).is_err());
    assert!(found.count() > 0);
}

kernel!(Chain, |simt, args| {
    let ticket = u64::from(simt.atomic_add(args.output, 100, 1, Order::Relaxed, Scope::Device));
    if ticket > 0 {
        wait_for!(simt, args, 110 + ticket, Order::Acquire);
        for earlier in 0..ticket {
            simt.load(args.output.as_const(), earlier, Hint::Default);
        }
    }
    simt.store(args.output, ticket, 7, Hint::Default);
    simt.atomic_add(args.output, 111 + ticket, 1, Order::Release, Scope::Device);
});

#[test]
fn order_is_passed_on() {
    no_race::<Chain>(shape(10, 1));
    no_race::<Chain>(shape(1, 50));
}

kernel!(LastBlock, |simt, args| {
    let (block, thread) = (u64::from(simt.block_index()), u64::from(simt.thread_index()));
    simt.store(args.output, 64 * block + thread, 1, Hint::Default);
    simt.barrier();
    if thread == 0 {
        let order = if args.number == 0 { Order::AcquireRelease } else { Order::Relaxed };
        let before = simt.atomic_add(args.output, 255, 1, order, Scope::Device);
        simt.atomic_store(args.output, 250 + block, before, Order::Relaxed, Scope::Device);
    }
    simt.barrier();
    let last = simt.atomic_load(args.output, 250 + block, Order::Relaxed, Scope::Device) == simt.grid_dim() - 1;
    if last {
        for other in 0..u64::from(simt.grid_dim()) {
            simt.load(args.output.as_const(), 64 * other + (thread + 33) % 64, Hint::Default);
        }
    }
});

#[test]
fn barriers_pass_on_what_one_thread_has_acquired_or_releases() {
    for seed in 0..SEEDS {
        run::<LastBlock>(seed, shape(3, 64), &[], &mut [0; 256], 0).unwrap();
        run::<LastBlock>(seed, shape(3, 64), &[], &mut [0; 256], 1).expect_err("nothing is released");
    }
}

kernel!(Locked, |simt, args| {
    while simt.atomic_compare_exchange(args.output, 1, 0, 1, Order::Acquire, Scope::Device) != 0 {
        simt.spin_hint();
    }
    let value = simt.load(args.output.as_const(), 0, Hint::Default);
    simt.store(args.output, 0, value + 1, Hint::Default);
    simt.atomic_store(args.output, 1, 0, Order::Release, Scope::Device);
});

#[test]
fn a_lock_orders_those_who_hold_it() {
    for seed in 0..SEEDS {
        let mut output = [0; 256];
        run::<Locked>(seed, shape(4, 40), &[], &mut output, 0).unwrap();
        assert_eq!(output[0], 160);
    }
}

kernel!(AtomicAndPlain, |simt, args| {
    if simt.global_index() == 0 {
        simt.atomic_add(args.output, 0, 1, Order::Relaxed, Scope::Device);
    } else {
        simt.load(args.output.as_const(), 0, Hint::Default);
    }
});

kernel!(MixedWidths, |simt, args| {
    if simt.global_index() == 0 {
        simt.atomic_store(args.output, 1, 1, Order::Relaxed, Scope::Device);
    } else {
        simt.atomic_load(args.output.cast::<u64>(), 0, Order::Relaxed, Scope::Device);
    }
});

kernel!(MixedReads, |simt, args| {
    if simt.global_index() == 0 {
        simt.atomic_load(args.output, 1, Order::Relaxed, Scope::Device);
    } else {
        simt.atomic_load(args.output.cast::<u64>(), 0, Order::Relaxed, Scope::Device);
    }
    simt.atomic_add(args.output.cast::<u64>(), 2, 1, Order::Relaxed, Scope::Device);
    simt.atomic_load(args.output.cast::<u64>(), 2, Order::Relaxed, Scope::Device);
});

#[test]
fn atomics_agree_with_atomics_of_their_width() {
    for shape in [shape(1, 2), shape(2, 1)] {
        let fault = race::<AtomicAndPlain>(shape);
        assert!(matches!(fault.kind, FaultKind::GlobalRace { .. }), "{fault}");
        let fault = race::<MixedWidths>(shape);
        let FaultKind::MixedWidths { offset: 4, access, earlier, .. } = fault.kind else { panic!("{fault}") };
        assert_eq!(access.bytes + earlier.access.bytes, 12);
        assert!(fault.to_string().contains("their widths differ"), "{fault}");
        no_race::<MixedReads>(shape);
    }
}
