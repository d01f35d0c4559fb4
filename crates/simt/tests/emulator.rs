//! The emulator runs correct kernels as a GPU would.

mod common;

use common::{Args, run, run_with, shape};
use lanetree_simt::emulator::{Options, Region, launch_kernel};
use lanetree_simt::{
    Access, FULL_MASK, Global, GlobalMut, Hint, Kernel, KernelArgs, LaunchShape, Order, Scope, Shared, Simt, WARP, Word,
};

const SEEDS: core::ops::Range<u64> = 0..8;

/// splitmix64.
struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// What each lane passes to every collective, and what it got from them, as 64-bit words.
#[repr(C)]
#[derive(Clone, Copy)]
struct Collectives<T> {
    masks: Global<u32>,
    values: Global<T>,
    /// Lanes to shuffle from: in the mask.
    sources: Global<u32>,
    /// What to shuffle by: a lane mask, then distances up and down.
    xor: u32,
    delta: u32,
    results: GlobalMut<u64>,
}
// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl<T: Word> KernelArgs for Collectives<T> {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        visit(self.masks.as_ptr().addr(), Access::Read);
        visit(self.values.as_ptr().addr(), Access::Read);
        visit(self.sources.as_ptr().addr(), Access::Read);
        visit(self.results.as_ptr().addr(), Access::ReadWrite);
    }
}

const RESULTS: usize = 12;

struct EveryCollective<T>(T);
impl<T: Word> Kernel for EveryCollective<T> {
    type Args = Collectives<T>;
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let thread = u64::from(simt.thread_index());
        // SAFETY: an element for each thread of the only block, and `RESULTS` results.
        unsafe {
            let mask = simt.load(args.masks, thread, Hint::ReadOnly);
            let value = simt.load(args.values, thread, Hint::ReadOnly);
            let source = simt.load(args.sources, thread, Hint::ReadOnly);
            let low = value.low();
            let odd = low & 1 == 1;
            // The masks of a warp are two halves of it: where a lane's partner is not in its own, it
            // asks for itself.
            let xor = if mask >> (simt.lane() ^ args.xor) & 1 == 1 { args.xor } else { 0 };
            let up = simt.lane().checked_sub(args.delta).is_none_or(|from| mask >> from & 1 == 1);
            let down = simt.lane() + args.delta;
            let down = down >= WARP || mask >> down & 1 == 1;
            let results = [
                u64::from(simt.ballot(mask, odd)),
                u64::from(simt.any(mask, odd)),
                u64::from(simt.all(mask, odd)),
                simt.shuffle(mask, value, source).widen(),
                simt.shuffle_xor(mask, value, xor).widen(),
                simt.shuffle_up(mask, value, if up { args.delta } else { 0 }).widen(),
                simt.shuffle_down(mask, value, if down { args.delta } else { 0 }).widen(),
                u64::from(simt.match_any(mask, value)),
                u64::from(simt.match_low_bits(mask, low, 3)),
                u64::from(simt.reduce_add(mask, low)),
                u64::from(simt.reduce_max(mask, low)),
                u64::from(simt.reduce_min(mask, low)),
            ];
            simt.sync_warp(mask);
            for (index, result) in results.into_iter().enumerate() {
                let at = thread * RESULTS as u64 + index as u64;
                simt.store(args.results, at, result, Hint::Default);
            }
        }
    }
}

/// The same by definition.
fn expected<T: Word>(lane: usize, mask: u32, values: &[T], source: u32, xor: u32, delta: u32) -> [u64; RESULTS] {
    let lanes: Vec<usize> = (0..values.len()).filter(|lane| mask >> lane & 1 == 1).collect();
    let set = |holds: &dyn Fn(usize) -> bool| {
        lanes.iter().filter(|&&lane| holds(lane)).map(|lane| 1_u64 << lane).sum::<u64>()
    };
    let odd = |lane: usize| values[lane].low() % 2 == 1;
    let from = |source: Option<usize>| {
        let source = source.filter(|source| lanes.contains(source)).unwrap_or(lane);
        values[source].widen()
    };
    let lows = || lanes.iter().map(|&lane| values[lane].low());
    [
        set(&odd),
        u64::from(lanes.iter().any(|&lane| odd(lane))),
        u64::from(lanes.iter().all(|&lane| odd(lane))),
        from(Some(source as usize)),
        from(Some(lane ^ xor as usize)),
        from(lane.checked_sub(delta as usize)),
        from(Some(lane + delta as usize)),
        set(&|other| values[other] == values[lane]),
        set(&|other| values[other].low() % 8 == values[lane].low() % 8),
        u64::from(lows().fold(0, u32::wrapping_add)),
        u64::from(lows().max().unwrap()),
        u64::from(lows().min().unwrap()),
    ]
}

fn collectives_match_their_definitions<T: Word>() {
    let mut rng = Rng(7);
    for round in 0..60 {
        // The last warp may be partial, and each warp is two halves under way at the same time.
        let threads = 1 + (rng.next() % 100) as u32;
        let few = if round % 2 == 0 { 3 } else { u64::MAX };
        let mut masks = Vec::new();
        let mut values = Vec::new();
        let mut sources = Vec::new();
        for first in (0..threads).step_by(WARP as usize) {
            let lanes = (threads - first).min(WARP);
            let present = FULL_MASK >> (WARP - lanes);
            let part = if round % 5 == 0 { present } else { rng.next() as u32 & present };
            for lane in 0..lanes {
                let mask = if part >> lane & 1 == 1 { part } else { present & !part };
                let mut source = rng.next() as u32 % WARP;
                while mask >> source & 1 == 0 {
                    source = (source + 1) % WARP;
                }
                masks.push(mask);
                values.push(T::truncate((rng.next() % few).wrapping_mul(0x1_0000_0001)));
                sources.push(source);
            }
        }
        let (xor, delta) = (rng.next() as u32 % WARP, rng.next() as u32 % 40);
        let mut results = vec![0_u64; threads as usize * RESULTS];
        let args = Collectives {
            masks: Global::new(masks.as_ptr()),
            values: Global::new(values.as_ptr()),
            sources: Global::new(sources.as_ptr()),
            xor,
            delta,
            results: GlobalMut::new(results.as_mut_ptr()),
        };
        let bytes = [size_of_val(&*masks), size_of_val(&*values), size_of_val(&*sources), size_of_val(&*results)];
        let mut regions = Vec::new();
        args.pointers(&mut |start, access| {
            let writable = access == Access::ReadWrite;
            regions.push(Region { start, bytes: bytes[regions.len()], writable });
        });
        let options = Options { seed: round, ..Options::default() };
        // SAFETY: the regions are the vectors above.
        let report = unsafe {
            let shape = shape(1, threads);
            launch_kernel::<EveryCollective<T>>("every", &options, shape, &args, &regions)
        };
        report.unwrap();
        for thread in 0..threads as usize {
            let (lane, first) = (thread % 32, thread / 32 * 32);
            let values = &values[first..(first + 32).min(threads as usize)];
            assert_eq!(
                results[thread * RESULTS..][..RESULTS],
                expected(lane, masks[thread], values, sources[thread], xor, delta),
                "round {round}, thread {thread}, mask {:#x}, delta {delta}",
                masks[thread]
            );
        }
    }
}

#[test]
fn collectives_on_u32_match_their_definitions() {
    collectives_match_their_definitions::<u32>();
}

#[test]
fn collectives_on_u64_match_their_definitions() {
    collectives_match_their_definitions::<u64>();
}

const TILE: Shared<u32> = Shared::at(0, 256);
kernel!(Reverse, shared TILE.end(), |simt, args| {
    for tile in [0, 1] {
        let first = (2 * u64::from(simt.block_index()) + tile) * 256;
        let thread = simt.thread_index();
        let value = simt.load(args.input, first + u64::from(thread), Hint::ReadOnly);
        simt.shared_store(TILE, thread, value);
        simt.barrier();
        let value = simt.shared_load(TILE, 255 - thread);
        simt.store(args.output, first + u64::from(thread), value, Hint::Streaming);
        simt.barrier();
    }
});

#[test]
fn tiles_are_reversed_through_shared_memory() {
    let input: Vec<u32> = (0..8 * 256).map(|i| i * 17).collect();
    let expected: Vec<u32> = input.chunks(256).flat_map(|tile| tile.iter().rev()).copied().collect();
    for seed in SEEDS {
        let mut output = vec![0; input.len()];
        let report = run::<Reverse>(seed, shape(4, 256), &input, &mut output, 0).unwrap();
        assert_eq!(output, expected, "seed {seed}");
        assert_eq!((report.barriers, report.collectives), (4 * 4, 0));
        assert_eq!((report.loads, report.stores), (2048, 2048));
    }
}

const SUM: Shared<u32> = Shared::at(0, 1);
kernel!(SumAll, shared SUM.end(), |simt, args| {
    if simt.thread_index() == 0 {
        simt.shared_store(SUM, 0, 0);
    }
    simt.barrier();
    let index = simt.global_index();
    let mut value = 0;
    if index < args.number {
        value = simt.load(args.input, index, Hint::Default);
        simt.atomic_max(args.output, 1, value, Order::Relaxed, Scope::Device);
        simt.atomic_min(args.output, 2, value, Order::Relaxed, Scope::Device);
        simt.atomic_or(args.output, 3, value, Order::Relaxed, Scope::Device);
        // An addition by compare and exchange.
        let mut old = simt.atomic_load(args.output, 4, Order::Relaxed, Scope::Device);
        loop {
            let new = old.wrapping_add(value);
            let (order, scope) = (Order::AcquireRelease, Scope::Device);
            let found = simt.atomic_compare_exchange(args.output, 4, old, new, order, scope);
            if found == old {
                break;
            }
            old = found;
        }
    }
    simt.shared_atomic_add(SUM, 0, value);
    simt.barrier();
    if simt.thread_index() == simt.block_dim() - 1 {
        let sum = simt.shared_load(SUM, 0);
        simt.atomic_add(args.output, 0, sum, Order::Relaxed, Scope::Device);
    }
});

#[test]
fn atomics_of_many_blocks_add_up() {
    let mut rng = Rng(1);
    let input: Vec<u32> = (0..5000).map(|_| rng.next() as u32 & 0xff_fff0).collect();
    let sum = input.iter().fold(0, |sum: u32, &value| sum.wrapping_add(value));
    let or = input.iter().fold(0, |or, &value| or | value);
    let expected = [sum, *input.iter().max().unwrap(), *input.iter().min().unwrap(), or, sum];
    for seed in SEEDS {
        let mut output = [0, 0, u32::MAX, 0, 0];
        run::<SumAll>(seed, shape(53, 96), &input, &mut output, 5000).unwrap();
        assert_eq!(output, expected, "seed {seed}");
    }
}

const TICKET: Shared<u32> = Shared::at(0, 1);
// Output: a counter of tickets, then for each ticket a flag (1 + the sum of the tickets up to its own).
kernel!(LookBack, shared TICKET.end(), |simt, args| {
    let (output, scope) = (args.output, Scope::Device);
    if simt.thread_index() == 0 {
        let ticket = simt.atomic_add(output, 0, 1, Order::Relaxed, scope);
        simt.shared_store(TICKET, 0, ticket);
    }
    simt.barrier();
    let ticket = simt.shared_load(TICKET, 0);
    if simt.thread_index() == 5 {
        let mut sum = 0;
        if ticket > 0 {
            loop {
                let before = simt.atomic_load(output, u64::from(ticket), Order::Acquire, scope);
                if before != 0 {
                    sum = before - 1;
                    break;
                }
                simt.spin_hint();
            }
        }
        simt.atomic_store(output, 1 + u64::from(ticket), 1 + sum + ticket, Order::Release, scope);
    }
    simt.barrier();
});

#[test]
fn blocks_may_wait_for_lower_tickets() {
    for seed in SEEDS {
        let mut output = vec![0; 301];
        run::<LookBack>(seed, shape(300, 64), &[], &mut output, 0).unwrap();
        assert_eq!(output[0], 300);
        for ticket in 0..300 {
            assert_eq!(output[1 + ticket as usize], 1 + ticket * (ticket + 1) / 2, "seed {seed}");
        }
    }
}

kernel!(Turns, |simt, args| {
    let turn = simt.atomic_add(args.output, 0, 1, Order::Relaxed, Scope::Device);
    simt.store(args.output, 1 + u64::from(turn), simt.thread_index(), Hint::Default);
});

#[test]
fn the_order_is_a_function_of_the_seed() {
    let order = |seed| {
        let mut output = vec![0; 129];
        run::<Turns>(seed, shape(1, 128), &[], &mut output, 0).unwrap();
        output
    };
    let natural: Vec<u32> = [128].into_iter().chain(0..128).collect();
    assert_eq!(order(0), natural);
    let orders: Vec<_> = (0..20).map(order).collect();
    for (seed, one) in (0..).zip(&orders) {
        assert_eq!(*one, order(seed), "seed {seed}, again");
        let other = (0..).zip(&orders).find(|(other, order)| *other != seed && *order == one);
        assert_eq!(other, None, "seed {seed}");
    }
}

kernel!(Flag, |simt, args| {
    // Lane 0 waits for the last thread of the block.
    if simt.thread_index() == 0 {
        while simt.atomic_load(args.output, 0, Order::Acquire, Scope::Block) == 0 {
            simt.spin_hint();
        }
        simt.fence(Scope::Block);
    } else if simt.thread_index() == simt.block_dim() - 1 {
        simt.prefetch(args.input, u64::MAX / 8);
        simt.atomic_exchange(args.output, 0, 1, Order::Release, Scope::Block);
    }
    simt.sync_warp(FULL_MASK);
});

#[test]
fn a_thread_may_spin_until_another_of_its_block_has_come() {
    for threads in [32, 64, 1024] {
        for seed in SEEDS {
            run::<Flag>(seed, shape(1, threads), &[], &mut [0], 0).unwrap();
        }
    }
}

kernel!(Vectors, |simt, args| {
    let sum = |words: &[u32]| words.iter().sum::<u32>();
    let thread = u64::from(simt.thread_index());
    let narrow = simt.load_vector(args.input, 4 * thread, Hint::EvictFirst);
    let wide = simt.load_vector(args.input.cast::<u64>(), 2 * thread, Hint::Streaming);
    let wide = (wide[0] + wide[1]) as u32;
    simt.store(args.output, 2 * thread, sum(narrow.as_ref()), Hint::Default);
    simt.store(args.output, 2 * thread + 1, wide, Hint::Default);
});

#[test]
fn vectors_are_four_or_two_words() {
    #[repr(align(16))]
    struct Aligned([u32; 128]);
    let input = Aligned(core::array::from_fn(|i| i as u32));
    let mut output = [0; 64];
    run::<Vectors>(0, shape(1, 32), &input.0, &mut output, 0).unwrap();
    for (thread, found) in output.chunks(2).enumerate() {
        let thread = thread as u32;
        assert_eq!(found, [16 * thread + 6, 8 * thread + 2]);
    }
}

kernel!(CopiesVectors, |simt, args| {
    let thread = u64::from(simt.thread_index());
    let vector = simt.load_vector(args.input, 4 * thread, Hint::Streaming);
    if thread % 2 == 0 {
        simt.store_vector(args.output, 4 * thread, vector, Hint::Default);
    } else {
        let wide = [2, 1].map(|word| u64::from(vector[word]) << 32);
        simt.store_vector(args.output.cast::<u64>(), 2 * thread, wide, Hint::Streaming);
    }
});

#[test]
fn vectors_are_stored_at_once() {
    #[repr(align(16))]
    struct Aligned([u32; 128]);
    let input = Aligned(core::array::from_fn(|i| i as u32));
    let mut output = Aligned([0; 128]);
    let report = run::<CopiesVectors>(0, shape(1, 32), &input.0, &mut output.0, 0).unwrap();
    assert_eq!(report.stores, 32);
    for (thread, found) in (0..).zip(output.0.chunks(4)) {
        let first = 4 * thread;
        let expected =
            if thread % 2 == 0 { [first, first + 1, first + 2, first + 3] } else { [0, first + 2, 0, first + 1] };
        assert_eq!(found, expected);
    }
}

const DYNAMIC: Shared<u64> = Shared::at(8, 100);
kernel!(DynamicShared, shared 8, |simt, args| {
    let thread = simt.thread_index();
    simt.shared_store(DYNAMIC, thread, u64::from(thread) << 32 | 5);
    simt.sync_warp(FULL_MASK);
    let other = simt.shared_load(DYNAMIC, thread ^ 31);
    simt.store(args.output, thread.into(), (other >> 32) as u32 + (other as u32), Hint::Default);
});

#[test]
fn dynamic_shared_memory_begins_behind_the_static() {
    let mut output = [0; 64];
    let shape = LaunchShape { blocks: 1, threads: 64, dynamic_shared: 64 * 8 };
    run::<DynamicShared>(3, shape, &[], &mut output, 0).unwrap();
    assert!(output.iter().zip(0..).all(|(&found, thread)| found == (thread ^ 31) + 5));
}

#[test]
fn launches_may_nest_in_rayon_and_run_at_once() {
    let results: Vec<u32> = std::thread::scope(|scope| {
        let launch = |seed| {
            let mut output = [0, 0, u32::MAX, 0, 0];
            run::<SumAll>(seed, shape(40, 64), &[3; 2560], &mut output, 2560).unwrap();
            output[0]
        };
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || launch(seed))).collect();
        let nested = rayon::join(|| launch(8), || launch(9));
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.chain([nested.0, nested.1]).collect()
    });
    assert_eq!(results, [7680; 6]);
}

kernel!(ManyBallots, |simt, args| {
    let mut sum = 0;
    for round in 0..args.number {
        sum += simt.ballot(FULL_MASK, round + u64::from(simt.lane()) == 40).count_ones();
    }
    simt.atomic_add(args.output, 0, sum, Order::Relaxed, Scope::Device);
});

#[test]
fn a_launch_counts_its_collectives() {
    for (blocks, threads, rounds) in [(1, 32, 1000), (1, 256, 100), (16, 256, 10)] {
        for seed in [0, 1] {
            let options = Options { seed, ..Options::default() };
            let report = run_with::<ManyBallots>(&options, shape(blocks, threads), &[], &mut [0], rounds).unwrap();
            let warps = u64::from(blocks * threads / 32);
            assert_eq!(report.collectives, warps * rounds, "{blocks} x {threads}, seed {seed}");
        }
    }
}

/// The arguments of a kernel are what the host writes down; a copy is as good.
#[test]
fn arguments_name_their_buffers() {
    let args = Args { input: Global::null(), output: GlobalMut::null(), number: 0 };
    let mut seen = Vec::new();
    args.pointers(&mut |address, access| seen.push((address, access)));
    assert_eq!(seen, [(0, Access::Read), (0, Access::ReadWrite)]);
}
