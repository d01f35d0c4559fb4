//! Broken kernels, each with the fault that the emulator finds, and the thread that it blames.

mod common;

use common::{run, run_with, shape};
use lanetree_simt::LaunchReport;
use lanetree_simt::emulator::{Collective, Fault, FaultKind, Nearest, Options, SharedAccess, Whereabouts};
use lanetree_simt::{FULL_MASK, Hint, Kernel, LaunchShape, Order, Scope, Shared, Simt};
use std::time::Duration;

/// The same fault is found with every seed; the one of seed 0 is returned.
fn fault_of<K: Kernel<Args = common::Args>>(shape: LaunchShape) -> Fault {
    let launch = |seed| fault(run::<K>(seed, shape, &[1; 64], &mut [0; 64], 0));
    let fault = launch(0);
    for seed in 1..8 {
        assert_eq!(launch(seed), fault, "seed {seed}");
    }
    fault
}

fn fault(result: Result<LaunchReport, Fault>) -> Fault {
    let fault = result.expect_err("the kernel is broken");
    assert_eq!(fault.kernel, "test");
    fault
}

const LANE_EXITED: u32 = line!() + 3;
kernel!(LaneExited, |simt, args| {
    if simt.thread_index() != 37 {
        simt.ballot(FULL_MASK, args.number == 0);
    }
});

#[test]
fn ballot_with_a_lane_that_has_exited() {
    let fault = fault_of::<LaneExited>(shape(1, 64));
    assert_eq!((fault.block, fault.thread), (0, 32));
    let FaultKind::CollectiveMismatch { op, location, mask, arrived, missing } = &fault.kind else { panic!("{fault}") };
    assert_eq!((*op, *mask, *arrived), (Collective::Ballot, FULL_MASK, !(1 << 5)));
    assert_eq!(*missing, [(5, Whereabouts::Exited)]);
    assert_eq!(location.line(), LANE_EXITED);
    let place = format!("{}:{}", location.file(), location.line());
    let message = fault.to_string();
    assert!(message.starts_with("kernel test, block 0, thread 32 (warp 1, lane 0): ballot at "));
    assert!(message.contains(&place), "{message}");
    assert!(message.ends_with(": mask 0xffffffff names lane 5, which has exited"), "{message}");
}

kernel!(WrongMask, |simt, _args| {
    let mask = if simt.lane() == 9 { 0xffff } else { FULL_MASK };
    simt.any(mask, true);
});

#[test]
fn a_collective_with_differing_masks() {
    let fault = fault_of::<WrongMask>(shape(1, 32));
    let FaultKind::CollectiveMismatch { op: Collective::Any, arrived, missing, .. } = &fault.kind else {
        panic!("{fault}")
    };
    assert_eq!((fault.thread, *arrived), (0, !(1 << 9)));
    let [(9, Whereabouts::AtCollective { op: Collective::Any, mask: 0xffff, .. })] = missing[..] else {
        panic!("{fault}")
    };
}

kernel!(TwoCollectives, |simt, _args| {
    if simt.lane() < 16 {
        simt.reduce_add(FULL_MASK, 1);
    } else {
        simt.match_any(FULL_MASK, 1_u32);
    }
});

#[test]
fn two_collectives_with_one_mask() {
    let fault = fault_of::<TwoCollectives>(shape(1, 32));
    let FaultKind::CollectiveMismatch { op: Collective::ReduceAdd, arrived, missing, .. } = &fault.kind else {
        panic!("{fault}")
    };
    assert_eq!((fault.thread, *arrived, missing.len()), (0, 0xffff, 16));
    assert!(fault.to_string().contains("lane 16, which waits at match_any"), "{fault}");
}

kernel!(PartialWarp, |simt, _args| {
    simt.sync_warp(FULL_MASK);
});

#[test]
fn a_mask_that_names_lanes_which_the_block_lacks() {
    let fault = fault_of::<PartialWarp>(shape(1, 40));
    let FaultKind::CollectiveMismatch { op: Collective::SyncWarp, arrived: 0xff, missing, .. } = &fault.kind else {
        panic!("{fault}")
    };
    assert_eq!((fault.thread, missing[0], missing.len()), (32, (8, Whereabouts::Absent), 24));
}

kernel!(CallerNotInMask, |simt, _args| {
    let mask = if simt.thread_index() == 45 { !(1 << 13) } else { FULL_MASK };
    simt.reduce_max(mask, 0);
});

#[test]
fn a_caller_that_is_not_in_its_mask() {
    let fault = fault_of::<CallerNotInMask>(shape(1, 64));
    let FaultKind::CallerNotInMask { op: Collective::ReduceMax, mask: 0xffff_dfff, .. } = fault.kind else {
        panic!("{fault}")
    };
    assert_eq!(fault.thread, 45);
}

kernel!(SourceNotInMask, |simt, _args| {
    if simt.lane() < 8 {
        let source = if simt.lane() == 3 { 8 } else { 0 };
        simt.shuffle(0xff, 1_u64, source);
    }
});

#[test]
fn a_shuffle_from_a_lane_outside_the_mask() {
    let fault = fault_of::<SourceNotInMask>(shape(1, 32));
    let FaultKind::SourceLaneNotInMask { op: Collective::Shuffle, mask: 0xff, source: 8, .. } = fault.kind else {
        panic!("{fault}")
    };
    assert_eq!(fault.thread, 3);
}

kernel!(BarrierExited, |simt, _args| {
    if simt.thread_index() < 60 {
        simt.barrier();
    }
});

#[test]
fn a_barrier_that_some_threads_never_reach() {
    let fault = fault_of::<BarrierExited>(shape(1, 64));
    let FaultKind::BarrierNotReached { arrived: 60, missing: 4, example, .. } = fault.kind else { panic!("{fault}") };
    assert_eq!((fault.thread, example), (0, (60, Whereabouts::Exited)));
}

kernel!(BarrierOrBallot, |simt, _args| {
    if simt.thread_index() < 48 {
        simt.barrier();
    } else {
        simt.ballot(FULL_MASK, true);
    }
});

#[test]
fn a_barrier_while_others_wait_at_a_collective() {
    let fault = fault_of::<BarrierOrBallot>(shape(1, 64));
    let FaultKind::BarrierNotReached { arrived: 48, missing: 16, example, .. } = fault.kind else { panic!("{fault}") };
    let (48, Whereabouts::AtCollective { op: Collective::Ballot, .. }) = example else { panic!("{fault}") };
    assert_eq!(fault.thread, 0);
}

kernel!(BallotOrBarrier, |simt, _args| {
    if simt.thread_index() < 48 {
        simt.ballot(FULL_MASK, true);
    } else {
        simt.barrier();
    }
});

#[test]
fn a_collective_while_others_wait_at_a_barrier() {
    let fault = fault_of::<BallotOrBarrier>(shape(1, 64));
    let FaultKind::CollectiveMismatch { op: Collective::Ballot, missing, .. } = &fault.kind else { panic!("{fault}") };
    // The first warp has passed its ballot and exited.
    assert_eq!(fault.thread, 32);
    assert!(matches!(missing[0], (16, Whereabouts::AtBarrier(_))), "{fault}");
}

const WORDS: Shared<u64> = Shared::at(0, 32);
kernel!(Uninitialised, shared WORDS.end(), |simt, _args| {
    let thread = simt.thread_index();
    // In the second block too: what the first wrote is not there.
    if simt.block_index() == 0 || thread != 6 {
        simt.shared_store(WORDS, thread, 1);
    }
    simt.barrier();
    simt.shared_load(WORDS, (thread + 1) % 32);
});

#[test]
fn a_read_of_shared_memory_that_nobody_wrote() {
    let fault = fault_of::<Uninitialised>(shape(2, 32));
    assert_eq!((fault.block, fault.thread), (1, 5));
    assert_eq!(fault.kind, FaultKind::UninitialisedShared { offset: 48 });
}

kernel!(SharedBeyondArray, shared 1024, |simt, _args| {
    simt.shared_store(WORDS, simt.thread_index(), 1);
});
kernel!(SharedBeyondBlock, shared 128, |simt, _args| {
    simt.shared_store(WORDS, simt.thread_index(), 1);
});
kernel!(SharedMisaligned, shared 128, |simt, _args| {
    if simt.thread_index() == 7 {
        simt.shared_store(Shared::<u64>::at(4, 4), 1, 1);
    }
});

#[test]
fn shared_memory_out_of_bounds() {
    let launch = |fault: Fault| (fault.thread, fault.kind);
    let found = fault(run::<SharedBeyondArray>(0, shape(1, 64), &[], &mut [], 0));
    let expected = FaultKind::SharedOutOfBounds { offset: 256, bytes: 8, end: 256 };
    assert_eq!(launch(found), (32, expected));
    let found = fault(run::<SharedBeyondBlock>(0, shape(1, 32), &[], &mut [], 0));
    let expected = FaultKind::SharedOutOfBounds { offset: 128, bytes: 8, end: 128 };
    assert_eq!(launch(found), (16, expected));
    let found = fault_of::<SharedMisaligned>(shape(1, 32));
    assert_eq!(launch(found), (7, FaultKind::Misaligned { address: 12, bytes: 8 }));
}

const FLAGS: Shared<u32> = Shared::at(0, 64);
kernel!(RaceOfWarps, shared FLAGS.end(), |simt, _args| {
    let thread = simt.thread_index();
    simt.shared_store(FLAGS, thread, 1);
    // A warp's threads are in sync, its neighbour's are not.
    simt.sync_warp(FULL_MASK);
    simt.shared_load(FLAGS, (thread + 1) % 32);
    if thread == 40 {
        simt.shared_store(FLAGS, 3, 1);
    }
});
kernel!(RaceInWarp, shared FLAGS.end(), |simt, _args| {
    let lane = simt.lane();
    simt.shared_store(FLAGS, lane, 1);
    simt.sync_warp(FULL_MASK);
    if lane == 2 {
        simt.shared_store(FLAGS, 20, 1);
    }
    // Lane 2 meets others, lane 7 nobody.
    if lane < 4 {
        simt.sync_warp(0xf);
    }
    if lane == 7 {
        simt.shared_load(FLAGS, 20);
    }
});
kernel!(RaceWithAtomic, shared 4, |simt, _args| {
    if simt.thread_index() == 0 {
        simt.shared_store(FLAGS, 0, 0);
    }
    simt.barrier();
    simt.shared_atomic_add(Shared::at(0, 1), 0, 1);
    simt.sync_warp(FULL_MASK);
    simt.shared_load(Shared::<u32>::at(0, 1), 0);
});

#[test]
fn races_on_shared_memory() {
    let found = fault(run::<RaceOfWarps>(0, shape(1, 64), &[], &mut [], 0));
    let FaultKind::SharedRace { other, .. } = found.kind else { panic!("{found}") };
    assert!(found.thread / 32 != other / 32, "{found}");

    let found = fault(run::<RaceWithAtomic>(0, shape(1, 64), &[], &mut [], 0));
    let FaultKind::SharedRace { offset: 0, access, other_access, .. } = found.kind else { panic!("{found}") };
    assert!([access, other_access].contains(&SharedAccess::Atomic), "{found}");

    let options = Options { shared_races: false, ..Options::default() };
    run_with::<RaceOfWarps>(&options, shape(1, 64), &[], &mut [], 0).unwrap();
    // Within one warp, `sync_warp` is enough.
    run::<RaceWithAtomic>(0, shape(1, 32), &[], &mut [], 0).unwrap();

    for seed in 0..8 {
        let found = fault(run::<RaceInWarp>(seed, shape(1, 32), &[], &mut [], 0));
        let FaultKind::SharedRace { offset: 80, access, other, other_access } = found.kind else { panic!("{found}") };
        let (read, write) = (SharedAccess::Read, SharedAccess::Write);
        let expected = [((7, read), (2, write)), ((2, write), (7, read))];
        assert!(expected.contains(&((found.thread, access), (other, other_access))), "{found}");
    }
}

kernel!(LoadBeyond, |simt, args| {
    simt.load(args.input, simt.global_index(), Hint::Default);
});
kernel!(StoreBefore, |simt, args| {
    let index = if simt.thread_index() == 2 { u64::MAX } else { 0 };
    if simt.thread_index() >= 2 {
        simt.store(args.output, index, 1, Hint::Default);
    }
});
kernel!(AtomicBeyond, |simt, args| {
    if simt.thread_index() == 11 {
        simt.atomic_add(args.output.cast::<u64>(), 32, 1, Order::Relaxed, Scope::Device);
    }
});

#[test]
fn global_accesses_out_of_bounds() {
    let mut buffer = [[0_u32; 64]; 8];
    let [_, input, _, _, _, output, ..] = &mut buffer;
    let (read, written) = (input.as_ptr().addr(), output.as_ptr().addr());
    let mut nearest = |shape, launch: fn(u64, LaunchShape, &[u32], &mut [u32], u64) -> _| {
        let fault = fault(launch(0, shape, input, output, 0));
        let (block, thread) = (fault.block, fault.thread);
        let FaultKind::GlobalOutOfBounds { address, bytes, nearest } = fault.kind else { panic!("{fault}") };
        ((block, thread), address, bytes, nearest.unwrap())
    };
    let at = |region, offset| Nearest { region, bytes: 256, offset };
    let found = nearest(shape(3, 32), run::<LoadBeyond>);
    assert_eq!(found, ((2, 0), read + 256, 4, at(0, 256)));
    let found = nearest(shape(1, 32), run::<StoreBefore>);
    assert_eq!(found, ((0, 2), written - 4, 4, at(1, -4)));
    let found = nearest(shape(1, 32), run::<AtomicBeyond>);
    assert_eq!(found, ((0, 11), written + 256, 8, at(1, 256)));
}

kernel!(WriteToInput, |simt, args| {
    if simt.global_index() == 70 {
        let input = lanetree_simt::GlobalMut::new(args.input.as_ptr().cast_mut());
        simt.store(input, 3, 1, Hint::Default);
    }
});

#[test]
fn a_write_to_a_buffer_for_reading() {
    let input = [0; 64];
    let fault = fault(run::<WriteToInput>(0, shape(3, 32), &input, &mut [], 0));
    assert_eq!((fault.block, fault.thread), (2, 6));
    let address = input.as_ptr().addr() + 12;
    assert_eq!(fault.kind, FaultKind::WriteToReadOnly { address, offset: 12 });
}

kernel!(ReadOnlyOfWritten, |simt, args| {
    let thread = u64::from(simt.thread_index());
    simt.store(args.output, thread, 1, Hint::Default);
    simt.sync_warp(FULL_MASK);
    simt.load(args.output.as_const(), thread, Hint::Default);
    if thread == 4 {
        simt.load(args.output.as_const(), thread + 32, Hint::ReadOnly);
        simt.load(args.output.as_const(), thread + 1, Hint::EvictFirst);
    }
});

#[test]
fn a_read_only_load_of_what_the_kernel_wrote() {
    let mut output = [0; 64];
    let address = output.as_ptr().addr() + 20;
    let fault = fault(run::<ReadOnlyOfWritten>(0, shape(1, 32), &[], &mut output, 0));
    assert_eq!(fault.thread, 4);
    assert_eq!(fault.kind, FaultKind::ReadOnlyOfWritten { address, offset: 20 });
}

kernel!(WriteOfConstant, |simt, args| {
    let thread = u64::from(simt.thread_index());
    simt.load(args.output.as_const(), thread, if thread == 5 { Hint::ReadOnly } else { Hint::Default });
    simt.sync_warp(FULL_MASK);
    simt.store(args.output, (thread + 1) % 32, 1, Hint::Default);
});

#[test]
fn a_write_of_what_the_kernel_loaded_as_constant() {
    let mut output = [0; 64];
    let address = output.as_ptr().addr() + 20;
    let fault = fault(run::<WriteOfConstant>(0, shape(1, 32), &[], &mut output, 0));
    assert_eq!(fault.thread, 4);
    assert_eq!(fault.kind, FaultKind::WriteOfConstant { address, offset: 20 });
}

kernel!(MisalignedVector, |simt, args| {
    let index = if simt.thread_index() == 12 { 2 } else { 4 };
    simt.load_vector(args.input, index, Hint::Default);
});

#[test]
fn a_misaligned_vector() {
    #[repr(align(16))]
    struct Aligned([u32; 8]);
    let input = Aligned([0; 8]);
    let fault = fault(run::<MisalignedVector>(0, shape(1, 32), &input.0, &mut [], 0));
    assert_eq!(fault.thread, 12);
    let address = input.0.as_ptr().addr() + 8;
    assert_eq!(fault.kind, FaultKind::Misaligned { address, bytes: 16 });
}

kernel!(Panics, |simt, args| {
    simt.sync_warp(FULL_MASK);
    let thread = simt.thread_index();
    assert!(thread != 33 || args.number == 1, "thread {thread} went wrong");
    simt.barrier();
});

#[test]
fn a_panic_is_a_fault() {
    let fault = fault_of::<Panics>(shape(1, 64));
    assert_eq!(fault.thread, 33);
    assert_eq!(fault.kind, FaultKind::Panic("thread 33 went wrong".into()));
}

kernel!(Spins, |simt, args| {
    let thread = simt.thread_index();
    if thread % 32 == 5 {
        while simt.atomic_load(args.output, 0, Order::Acquire, Scope::Device) == 0 {
            simt.spin_hint();
        }
    }
});

#[test]
fn a_flag_that_nobody_sets() {
    let options = Options { patience: Duration::from_millis(50), ..Options::default() };
    let fault = fault(run_with::<Spins>(&options, shape(1, 64), &[], &mut [0], 0));
    assert_eq!((fault.thread, fault.kind), (5, FaultKind::Livelock { spinning: 2 }));
}

kernel!(SpinsOnFaulted, |simt, args| {
    let block = simt.block_index();
    if block == 0 {
        simt.load(args.input, 1 << 40, Hint::Default);
    }
    while simt.atomic_load(args.output, 0, Order::Acquire, Scope::Device) == 0 {
        simt.spin_hint();
    }
});

#[test]
fn a_block_that_waits_for_a_faulted_one_is_stopped() {
    let found = fault(run::<SpinsOnFaulted>(0, shape(8, 32), &[], &mut [0], 0));
    assert_eq!((found.block, found.thread), (0, 0));
}

struct Dropped<'a, S: Simt>(&'a common::Args, S);
impl<S: Simt> Drop for Dropped<'_, S> {
    fn drop(&mut self) {
        // SAFETY: the test has a counter there.
        unsafe { self.1.atomic_add(self.0.output, 0, 1, Order::Relaxed, Scope::Device) };
    }
}
kernel!(Unwinds, |simt, args| {
    let _dropped = Dropped(args, simt);
    simt.barrier();
    simt.load(args.input, 99, Hint::Default);
});

#[test]
fn threads_of_a_faulted_block_are_unwound() {
    let mut count = [0];
    let found = fault(run::<Unwinds>(0, shape(1, 64), &[], &mut count, 0));
    assert!(matches!(found.kind, FaultKind::GlobalOutOfBounds { .. }));
    assert_eq!(count, [64]);
}

#[test]
fn shapes_that_no_launch_can_have() {
    for (blocks, threads) in [(0, 32), (1, 0), (1, 1025), (1 << 31, 32)] {
        let fault = fault(run::<Spins>(0, shape(blocks, threads), &[], &mut [0], 0));
        assert_eq!(fault.kind, FaultKind::LaunchShape { blocks, threads });
    }
}
