//! The emulator counts the memory transactions of warp-wide loads.

mod common;

use common::{Args, run, run_with, shape};
use lanetree_simt::LaunchReport;
use lanetree_simt::emulator::Options;
use lanetree_simt::{FULL_MASK, Hint, Kernel};

/// 16 KiB that begin a line, as buffers on a GPU do.
#[repr(align(128))]
struct Aligned([u32; 4096]);

static INPUT: Aligned = Aligned([1; 4096]);

/// The warp-wide loads, sectors and lines of a launch; the same with every seed.
fn counted<K: Kernel<Args = Args>>(blocks: u32, threads: u32, number: u64) -> [u64; 3] {
    let launch = |seed| {
        let options = Options { seed, count_transactions: Some(0..usize::MAX), ..Options::default() };
        let report = run_with::<K>(&options, shape(blocks, threads), &INPUT.0, &mut [0; 64], number);
        transactions(&report.expect("the kernel is correct"))
    };
    let counts = launch(0);
    for seed in 1..8 {
        assert_eq!(launch(seed), counts, "seed {seed}");
    }
    counts
}

fn transactions(report: &LaunchReport) -> [u64; 3] {
    [report.warp_loads, report.sectors, report.lines]
}

// Each lane reads 8 bytes, `number` words of 8 bytes from its neighbour's.
kernel!(Strided, |simt, args| {
    simt.load(args.input.cast::<u64>(), u64::from(simt.lane()) * args.number, Hint::ReadOnly);
});

#[test]
fn a_load_moves_the_sectors_and_lines_that_its_lanes_touch() {
    assert_eq!(counted::<Strided>(1, 32, 0), [1, 1, 1], "all the same address");
    assert_eq!(counted::<Strided>(1, 32, 1), [1, 8, 2], "coalesced: 256 bytes");
    assert_eq!(counted::<Strided>(1, 32, 2), [1, 16, 4]);
    assert_eq!(counted::<Strided>(1, 32, 4), [1, 32, 8], "a sector each");
    assert_eq!(counted::<Strided>(1, 32, 16), [1, 32, 32], "a line each");
    assert_eq!(counted::<Strided>(1, 11, 4), [1, 11, 3], "a warp that is not full");
    assert_eq!(counted::<Strided>(3, 64, 1), [6, 48, 12], "every warp has its own");
}

kernel!(Vectors, |simt, args| {
    simt.load_vector(args.input, u64::from(simt.lane()) * 4, Hint::Default);
});

#[test]
fn a_vector_is_one_load() {
    assert_eq!(counted::<Vectors>(1, 32, 0), [1, 16, 4]);
}

// Some lanes load twice before the load that all have in common, others go round a loop more often.
kernel!(Divergent, |simt, args| {
    if simt.lane() < 5 {
        simt.load(args.input, 1000, Hint::Default);
        simt.load(args.input, 2000, Hint::Default);
    }
    simt.load(args.input, u64::from(simt.lane()), Hint::Default);
    for round in 0..u64::from(simt.lane() % 3) {
        simt.load(args.input, 3000 + 100 * round, Hint::Default);
    }
});

#[test]
fn lanes_that_diverge_come_together_again() {
    // 1 + 1 for the branch, 4 sectors of one line for all, 1 + 1 for the two rounds of the loop.
    assert_eq!(counted::<Divergent>(1, 32, 0), [5, 8, 5]);
}

// A load at the same place before and after a collective of some lanes.
kernel!(Collectives, |simt, args| {
    let half = if simt.lane() < 16 { 0xffff } else { 0xffff_0000 };
    for round in 0..args.number {
        if round > 0 && simt.lane() < 16 {
            simt.sync_warp(half);
        }
        simt.load(args.input, u64::from(simt.lane()), Hint::Default);
        if round == 2 {
            simt.sync_warp(FULL_MASK);
        }
    }
});

#[test]
fn a_collective_ends_what_can_be_joined() {
    assert_eq!(counted::<Collectives>(1, 32, 1), [1, 4, 1]);
    // From the second round on, the halves of the warp have had different collectives.
    assert_eq!(counted::<Collectives>(1, 32, 2), [3, 8, 3]);
    assert_eq!(counted::<Collectives>(1, 32, 3), [5, 12, 5]);
}

// After a barrier, lanes that had read more before it read together with the others.
kernel!(Barrier, |simt, args| {
    for round in 0..2_u64 {
        if round == 1 || simt.lane() < 8 {
            simt.load(args.input, 1024 * round + u64::from(simt.lane()), Hint::Default);
        }
        simt.barrier();
    }
});

#[test]
fn so_does_a_barrier() {
    assert_eq!(counted::<Barrier>(1, 64, 0), [4, 10, 4]);
}

#[test]
fn only_what_is_asked_for_is_counted() {
    let launch = |count_transactions| {
        let options = Options { count_transactions, ..Options::default() };
        let report = run_with::<Strided>(&options, shape(1, 32), &INPUT.0, &mut [0; 64], 4);
        transactions(&report.expect("the kernel is correct"))
    };
    let start = INPUT.0.as_ptr().addr();
    assert_eq!(launch(Some(start..start + 256)), [1, 8, 2], "lanes that read elsewhere");
    assert_eq!(launch(Some(0..start)), [0; 3]);
    let off = run::<Strided>(0, shape(1, 32), &INPUT.0, &mut [0; 64], 4).expect("the kernel is correct");
    assert_eq!((transactions(&off), off.loads), ([0; 3], 32));
}
