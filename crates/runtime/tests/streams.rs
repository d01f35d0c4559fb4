//! Buffers that several streams use: work over them comes in the order of the calls, whatever the streams' order is.

use lanetree_runtime::{Buffer, Device, Error, Failure, Pool, Stream};
use lanetree_simt::{Entry, Global, GlobalMut, Hint, Instance, Kernel, LaunchShape, Module, Simt, kernel_args};

/// Adds one array to another.
struct Add;

kernel_args! {
    struct AddArgs {
        from: Global<u32>,
        to: GlobalMut<u32>,
        len: u64,
    }
}

impl Kernel for Add {
    type Args = AddArgs;

    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.len {
            // SAFETY: inside both arrays, and each thread has an element of its own.
            unsafe {
                let sum = simt.load(args.from, index, Hint::Default).wrapping_add(simt.load(
                    args.to.as_const(),
                    index,
                    Hint::Default,
                ));
                simt.store(args.to, index, sum, Hint::Default);
            }
        }
    }
}

static TEST: Module = Module { name: "test", ptx: "" };

impl Instance for Add {
    const ENTRY: &'static Entry = {
        static ENTRY: Entry = Entry::of::<Add>(&TEST, "test__add");
        &ENTRY
    };
}

const SHAPE: LaunchShape = LaunchShape { blocks: 2, threads: 32, dynamic_shared: 0 };

/// `to += from`.
fn add(stream: &Stream, from: &Buffer<u32>, to: &mut Buffer<u32>) -> Result<(), Error> {
    let args = AddArgs { from: from.read_on(stream)?, to: to.write_on(stream)?, len: to.len() as u64 };
    // SAFETY: both have that many elements.
    unsafe { stream.launch::<Add>(SHAPE, &args) }
}

/// Every order in which the streams may run is one of a seed's.
fn for_each_order(test: impl Fn(Device)) {
    for seed in 0..50 {
        test(Device::emulated_with_seed(seed));
        test(Pool::new(&Device::emulated_with_seed(seed)).device());
    }
}

#[test]
fn what_is_put_into_a_stream_runs_when_it_is_waited_for() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let (one, mut sum) = (device.upload(&[1_u32; 50]).unwrap(), device.upload(&[0_u32; 50]).unwrap());
    let at = sum.addresses().start as *const u32;
    add(&stream, &one, &mut sum).unwrap();
    // SAFETY: the buffer lives, and nothing runs meanwhile.
    assert_eq!(unsafe { at.read() }, 0);
    stream.synchronize().unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { at.read() }, 1);
}

#[test]
fn a_write_comes_after_the_uses_of_other_streams() {
    for_each_order(|device| {
        let streams: Vec<Stream> = (0..4).map(|_| device.stream().unwrap()).collect();
        let mut a = device.upload(&[1_u32; 50]).unwrap();
        let mut b = device.upload(&[1_u32; 50]).unwrap();
        // Fibonacci's numbers, if every addition comes after the one before.
        for step in 0..10 {
            add(&streams[step % 4], &a, &mut b).unwrap();
            add(&streams[(step * 3 + 1) % 4], &b, &mut a).unwrap();
        }
        assert_eq!(a.to_vec().unwrap(), [10946 + 6765; 50]);
        assert_eq!(b.as_slice().unwrap(), [10946; 50]);
    });
}

#[test]
fn readers_run_beside_one_another_and_a_write_waits_for_all() {
    for_each_order(|device| {
        // More than are known without a lock.
        let streams: Vec<Stream> = (0..10).map(|_| device.stream().unwrap()).collect();
        let mut from = device.upload(&[1_u32; 50]).unwrap();
        let mut sums: Vec<_> = streams.iter().map(|_| device.upload(&[0_u32; 50]).unwrap()).collect();
        for round in 1..4 {
            for _ in 0..2 {
                streams.iter().zip(&mut sums).for_each(|(stream, sum)| add(stream, &from, sum).unwrap());
            }
            from.fill_zero(&streams[round]).unwrap();
            let two = device.upload(&[2_u32; 50]).unwrap();
            from.copy_from_buffer(&streams[9 - round], 0, &two, 0..50).unwrap();
        }
        assert!(sums.iter().all(|sum| sum.to_vec().unwrap() == [2 + 4 + 4; 50]));
    });
}

#[test]
fn copies_from_the_host_wait_for_the_streams_that_use_the_buffer() {
    for_each_order(|device| {
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let mut from = device.upload(&[1_u32; 50]).unwrap();
        let (mut x, mut y) = (device.alloc_zeroed::<u32>(50).unwrap(), device.alloc_zeroed::<u32>(50).unwrap());
        for value in 2..5 {
            add(&first, &from, &mut x).unwrap();
            add(&second, &from, &mut y).unwrap();
            if value == 3 {
                from.as_mut_slice().unwrap().fill(value);
            } else {
                from.copy_from(&[value; 50]).unwrap();
            }
        }
        assert_eq!((x.to_vec().unwrap(), y.to_vec().unwrap()), (vec![6; 50], vec![6; 50]));
        assert_eq!(from.to_vec().unwrap(), [4; 50]);
    });
}

#[test]
fn pinned_memory_is_waited_for_before_it_is_looked_at_and_dropped() {
    for_each_order(|device| {
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let mut pinned = device.pinned::<u32>(50).unwrap();
        let mut buffer = device.alloc_zeroed::<u32>(50).unwrap();
        let one = device.upload(&[1_u32; 50]).unwrap();
        for round in 0..3 {
            pinned.fill(round);
            buffer.upload_async(&first, 0, &pinned, 0..50).unwrap();
            add(&second, &one, &mut buffer).unwrap();
            buffer.download_async(&first, 0..25, &mut pinned, 25).unwrap();
            assert_eq!((pinned[24], pinned[25]), (round, round + 1));
        }
        buffer.upload_async(&first, 0, &pinned, 0..50).unwrap();
        drop(pinned);
        assert_eq!(buffer.to_vec().unwrap()[24..26], [2, 3]);
    });
}

#[test]
fn buffers_and_streams_may_be_dropped_while_work_over_them_is_under_way() {
    for_each_order(|device| {
        let mut sum = device.alloc_zeroed::<u32>(50).unwrap();
        for value in 1..5 {
            let stream = device.stream().unwrap();
            let from = device.upload(&[value; 50]).unwrap();
            add(&stream, &from, &mut sum).unwrap();
            drop(if value % 2 == 0 { (Some(from), Some(stream)) } else { (None, None) });
            // A pool may give the memory of `from` to this one.
            let mut other = device.alloc::<u32>(50).unwrap();
            other.fill_zero(&device.stream().unwrap()).unwrap();
        }
        assert_eq!(sum.to_vec().unwrap(), [10; 50]);
    });
}

#[test]
fn threads_share_a_buffer_that_each_reads_in_a_stream_of_its_own() {
    let device = Device::emulated_with_seed(5);
    let writer = device.stream().unwrap();
    let (one, mut from) = (device.upload(&[1_u32; 50]).unwrap(), device.upload(&[0_u32; 50]).unwrap());
    for round in 1..4 {
        add(&writer, &one, &mut from).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let (stream, mut sum) = (device.stream().unwrap(), device.alloc_zeroed::<u32>(50).unwrap());
                    add(&stream, &from, &mut sum).unwrap();
                    assert_eq!(sum.to_vec().unwrap(), [round; 50]);
                });
            }
        });
    }
}

#[test]
fn work_that_no_stream_was_made_to_wait_for_is_refused() {
    let device = Device::emulated();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let from = device.upload(&[1_u32; 50]).unwrap();
    let mut to = device.upload(&[0_u32; 50]).unwrap();
    let args = AddArgs { from: from.read_on(&first).unwrap(), to: to.write_on(&first).unwrap(), len: 50 };
    let launch = |stream: &Stream| {
        // SAFETY: not kept, which is what the emulator is to find.
        unsafe { stream.launch::<Add>(SHAPE, &args) }
    };
    launch(&first).unwrap();
    let error = launch(&second).unwrap_err();
    assert!(matches!(error, Error::Unordered { bytes: 200, .. }), "{error}");
    assert!(error.to_string().starts_with("test__add would race with another stream's work"), "{error}");
    first.synchronize().unwrap();
    launch(&second).unwrap();
    let refused = to.to_vec().unwrap_err();
    assert!(matches!(refused, Error::Unordered { .. }), "the buffer does not know of the second stream: {refused}");
    second.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap()[0], 2);
}

#[test]
fn a_fault_is_told_to_the_next_who_waits_and_what_comes_after_it_does_not_run() {
    let device = Device::emulated();
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let (from, mut to) = (device.upload(&[1_u32; 50]).unwrap(), device.upload(&[0_u32; 40]).unwrap());
    let args = AddArgs { from: from.read_on(&stream).unwrap(), to: to.write_on(&stream).unwrap(), len: 50 };
    // SAFETY: not kept: the second array is too short.
    unsafe { stream.launch::<Add>(SHAPE, &args).unwrap() };
    let mut twice = device.upload(&[1_u32; 50]).unwrap();
    twice.copy_from_buffer(&stream, 0, &from, 0..50).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(matches!(error, Error::Emulator(_)), "{error}");
    other.synchronize().unwrap();
    add(&other, &from, &mut twice).unwrap();
    assert_eq!(twice.to_vec().unwrap(), [2; 50]);
}

#[test]
#[should_panic(expected = "nobody waited, who would have been told")]
fn a_fault_that_nobody_was_told_of_is_not_lost() {
    let device = Device::emulated();
    let stream = device.stream().unwrap();
    let (from, mut to) = (device.upload(&[1_u32; 50]).unwrap(), device.upload(&[0_u32; 40]).unwrap());
    let args = AddArgs { from: from.read_on(&stream).unwrap(), to: to.write_on(&stream).unwrap(), len: 50 };
    // SAFETY: not kept: the second array is too short.
    unsafe { stream.launch::<Add>(SHAPE, &args).unwrap() };
    drop((from, to, stream));
    drop(device);
}

#[test]
fn a_stream_that_cannot_be_made_to_wait_is_given_nothing() {
    let device = Device::emulated();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let (from, mut to) = (device.upload(&[1_u32; 50]).unwrap(), device.alloc_zeroed::<u32>(50).unwrap());
    add(&first, &from, &mut to).unwrap();
    device.inject(Some(Failure::Kernel(0)));
    let sum = &mut device.upload(&[0_u32; 50]).unwrap();
    add(&first, &from, sum).unwrap();
    assert!(matches!(add(&second, &from, &mut to), Err(Error::Injected { .. })));
    device.inject(None);
    add(&second, &from, &mut to).unwrap();
    assert_eq!(to.to_vec().unwrap(), [2; 50]);
}

#[test]
fn a_stream_that_is_gone_is_still_waited_for() {
    for_each_order(|device| {
        let mut buffer = device.alloc_zeroed::<u32>(8).unwrap();
        let later = device.stream().unwrap();
        let mut last = device.pinned(8).unwrap();
        last.fill(2);
        {
            let (first, mut memory) = (device.stream().unwrap(), device.pinned(8).unwrap());
            memory.fill(1);
            buffer.upload_async(&first, 0, &memory, 0..8).unwrap();
            // From here on only the memory remembers the first stream. A pool takes it back without waiting.
            buffer.upload_async(&later, 0, &last, 0..8).unwrap();
        }
        assert_eq!(buffer.to_vec().unwrap(), [2; 8], "{device}");
    });
}
