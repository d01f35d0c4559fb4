//! The look-back where memory is as weak as a GPU's, over many schedules. It asks for no order: each of its words says
//! itself what it is worth. So it must hold also where releases and acquires count for nothing. The list of tiles that are divided asks for it.

use lanetree_kernels_primitives::expand::{self, Expand, ExpandArgs};
use lanetree_kernels_primitives::lookback::state_words;
use lanetree_kernels_primitives::radix_sort::{Digit, Onesweep, OnesweepArgs, RADIX};
use lanetree_kernels_primitives::scan::{CARRY_WORDS, ExclusiveSum, Scan, ScanArgs, TILE};
use lanetree_kernels_primitives::{Count, THREADS};
use lanetree_simt::emulator::{MemoryModel, Options, Region, launch_kernel};
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, LaunchShape, Order, Scope, Simt, kernel_args};

const MODELS: [MemoryModel; 3] =
    [MemoryModel::Weak, MemoryModel::WeakWithoutReleases, MemoryModel::WeakWithoutAcquires];

/// Memory that a kernel writes: from a 16-byte boundary on.
struct Memory<T>(Vec<T>);

impl<T: Copy> Memory<T> {
    fn pointer(&mut self) -> GlobalMut<T> {
        GlobalMut::new(self.0.as_mut_ptr())
    }

    fn region(&self) -> Region {
        Region { start: self.0.as_ptr().addr(), bytes: size_of_val(&*self.0), writable: true }
    }
}

fn run<K: Kernel>(memory: MemoryModel, seed: u64, (blocks, threads): (u32, u32), args: &K::Args, regions: &[Region]) {
    let options = Options { seed, memory, ..Options::default() };
    let shape = LaunchShape { blocks, threads, dynamic_shared: 0 };
    // SAFETY: the regions are the vectors that the arguments point into, and nobody else accesses them.
    unsafe { launch_kernel::<K>("test", &options, shape, args, regions) }
        .unwrap_or_else(|fault| panic!("{memory:?}, seed {seed}: {fault}"));
}

#[test]
fn a_scan_looks_back_right_in_weak_memory() {
    let count = 5 * TILE + 77;
    let blocks = count.div_ceil(TILE);
    // Both words of every carry count.
    let inputs: Vec<u64> = (0..count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut sums = vec![0_u64];
    for (input, at) in inputs.iter().zip(0..) {
        sums.push(input.wrapping_add(sums[at]));
    }
    for seed in 1..13 {
        let model = MODELS[seed as usize % 3];
        let mut input = Memory(inputs.clone());
        let mut output = Memory(vec![u64::MAX; count as usize + 1]);
        let mut state = Memory(vec![0_u64; state_words(blocks, CARRY_WORDS) as usize]);
        let args = ScanArgs {
            input: input.pointer().as_const(),
            count: Count::host(count),
            state: state.pointer(),
            output: output.pointer(),
        };
        let regions = [input.region(), output.region(), state.region()];
        run::<Scan<ExclusiveSum<u64>>>(model, seed, (blocks as u32, THREADS), &args, &regions);
        assert!(output.0 == sums, "{model:?}, seed {seed}");
    }
}

#[test]
fn a_radix_sort_looks_back_right_in_weak_memory() {
    type Pass = Onesweep<u32, u32, false, 8, 2, 1>;
    let len = 12 * Pass::TILE + 100;
    let blocks = len.div_ceil(Pass::TILE);
    for seed in 1..9 {
        let model = MODELS[seed as usize % 3];
        let mut keys = Memory((0..len).map(|i| i.wrapping_mul(0x9e37_79b1) >> 16).collect::<Vec<u32>>());
        let mut expected = keys.0.clone();
        expected.sort_unstable();
        // The states of the second pass begin as the first has left them.
        let mut states = Memory(vec![0_u32; (blocks * RADIX) as usize]);
        for pass in 0..2 {
            let digit = Digit { shift: 8 * pass, bits: 8 };
            let mut offsets = Memory(vec![0_u64; RADIX as usize]);
            for key in &keys.0 {
                let above = (key >> digit.shift & 0xff) as usize + 1;
                offsets.0[above..].iter_mut().for_each(|offset| *offset += 1);
            }
            let mut keys_out = Memory(vec![u32::MAX; len as usize]);
            let mut ticket = Memory(vec![0]);
            let args = OnesweepArgs::<u32, u32> {
                keys: keys.pointer().as_const(),
                keys_out: keys_out.pointer(),
                values: Global::null(),
                values_out: GlobalMut::null(),
                len: len.into(),
                offsets: offsets.pointer().as_const(),
                next_offsets: GlobalMut::null(),
                states: states.pointer(),
                ticket: ticket.pointer(),
                first_tile: 0,
                parity: pass,
                digit,
                flip: 0,
            };
            let regions = [keys.region(), keys_out.region(), offsets.region(), states.region(), ticket.region()];
            run::<Pass>(model, seed + u64::from(pass), (blocks, Pass::THREADS), &args, &regions);
            keys = keys_out;
        }
        assert!(keys.0 == expected, "{model:?}, seed {seed}");
    }
}

/// A carry in two words of which the first alone says that both are there.
struct FlagOnOneWord;

kernel_args! {
    struct FlagArgs {
        state: GlobalMut<u64>,
        found: GlobalMut<u64>,
    }
}

impl Kernel for FlagOnOneWord {
    type Args = FlagArgs;

    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (order, scope) = (Order::Relaxed, Scope::Device);
        // SAFETY: two words of state, and one for each thread.
        unsafe {
            if simt.thread_index() == 0 {
                simt.atomic_store(args.state, 1, 7, order, scope);
                simt.atomic_store(args.state, 0, 1, order, scope);
                return;
            }
            while simt.atomic_load(args.state, 0, order, scope) == 0 {
                simt.spin_hint();
            }
            let carry = simt.atomic_load(args.state, 1, order, scope);
            simt.store(args.found, simt.thread_index().into(), carry, Hint::Default);
        }
    }
}

#[test]
fn a_flag_on_one_word_would_not_do_for_both() {
    let wrong = |model: MemoryModel, seed: u64| {
        let (mut state, mut found) = (Memory(vec![0_u64; 2]), Memory(vec![7_u64; 4]));
        let args = FlagArgs { state: state.pointer(), found: found.pointer() };
        run::<FlagOnOneWord>(model, seed, (1, 4), &args, &[state.region(), found.region()]);
        found.0 != [7; 4]
    };
    assert!((1..100).any(|seed| wrong(MemoryModel::Weak, seed)));
    assert!(!(1..100).any(|seed| wrong(MemoryModel::Cpu, seed)));
}

/// Two tiles that are cut into parts, which any block takes from a list.
#[test]
fn spans_look_back_and_are_divided_right_in_weak_memory() {
    const PART: u64 = 1 << 9;
    let lengths: Vec<u64> = (0..4 * expand::TILE + 33)
        .map(|i| match i {
            1500 | 4100 => 3 * PART + 50,
            _ => u64::from(i % 9 == 0),
        })
        .collect();
    let (count, rows) = (lengths.len() as u64, lengths.iter().sum::<u64>() as usize);
    let mut expected = Vec::with_capacity(rows);
    for (&length, span) in lengths.iter().zip(0_u32..) {
        expected.extend((0..length).map(|_| span));
    }
    for seed in 1..5 {
        let mut spans = Memory(lengths.clone());
        let mut numbers = Memory(vec![u32::MAX; rows]);
        let mut total = Memory(vec![0_u64]);
        let (words, _) = expand::scratch_words(count);
        let mut state = Memory(vec![0_u64; words as usize]);
        let args = ExpandArgs::<u32> {
            begins: spans.pointer().as_const(),
            lengths: spans.pointer().as_const(),
            count,
            mask: u64::MAX >> 24,
            shift: 0,
            is_narrow: 1,
            values: Global::null(),
            values_len: 0,
            more: Global::null(),
            more_len: 0,
            capacity: rows as u64,
            state: state.pointer(),
            offsets: GlobalMut::null(),
            total: total.pointer(),
            out_values: GlobalMut::null(),
            numbers: numbers.pointer().cast(),
            miss: 0,
        };
        let regions = [spans.region(), numbers.region(), total.region(), state.region()];
        run::<Expand<u32, PART>>(MemoryModel::Weak, seed, (4, THREADS), &args, &regions);
        assert!(total.0 == [rows as u64] && numbers.0 == expected, "seed {seed}");
    }
}
