//! Launches, on a GPU if there is one.

use super::Cuda;
use crate::{Buffer, Device, Error, HostArray, Pages, PeerPart, Pool, gpu_or_skip};
use lanetree_simt::{Entry, Global, GlobalMut, Instance, Kernel, LaunchShape, Module, Simt, kernel_args};
use std::sync::{Arc, Mutex, PoisonError};

/// The GPU.
fn cuda() -> Option<Arc<Cuda>> {
    // One for all tests.
    static CUDA: Mutex<Option<Arc<Cuda>>> = Mutex::new(None);
    let mut cuda = CUDA.lock().unwrap_or_else(PoisonError::into_inner);
    if cuda.is_none() {
        *cuda = gpu_or_skip(Cuda::new(0)).map(Arc::new);
    }
    cuda.clone()
}

fn device() -> Option<Device> {
    Some(Device::of(cuda()?))
}

kernel_args! {
    struct Args {
        values: GlobalMut<u32>,
        /// `len` of the one kernel, `offset` of the other.
        number: u32,
        constant: u32,
    }
}

kernel_args! {
    struct AddArgs {
        from: Global<u32>,
        to: GlobalMut<u32>,
        len: u64,
    }
}

static TEST: Module = Module { name: "test", ptx: include_str!("tests.ptx") };

static BROKEN: Module = Module {
    name: "broken",
    ptx: ".version 6.3\n.target sm_70\n.address_size 64\n.visible .entry broken__kernel()\n{\n\tbar.snyc 0;\n\tret;\n}\n",
};

macro_rules! kernel {
    ($name:ident, $args:ty, $symbol:literal, $shared:literal) => {
        kernel!($name, $args, TEST, $symbol, $shared);
    };
    ($name:ident, $args:ty, $module:ident, $symbol:literal, $shared:literal) => {
        struct $name;
        impl Kernel for $name {
            type Args = $args;
            const STATIC_SHARED: u32 = $shared;
            unsafe fn run<S: Simt>(_: S, _: &$args) {}
        }
        impl Instance for $name {
            const ENTRY: &'static Entry = {
                static ENTRY: Entry = Entry::of::<$name>(&$module, $symbol);
                &ENTRY
            };
        }
    };
}

kernel!(Add, AddArgs, "test__add", 0);
kernel!(AddIndex, Args, "test__add_index", 0);
kernel!(ThroughShared, Args, "test__through_shared", 1024);
kernel!(Missing, Args, "test__missing", 0);
kernel!(Broken, Args, BROKEN, "broken__kernel", 0);

fn launch<I: Instance<Args = Args>>(
    device: &Device,
    (blocks, threads, dynamic_shared): (u32, u32, u32),
    buffer: &mut Buffer<u32>,
    number: u32,
) -> Result<(), Error> {
    let stream = device.stream()?;
    let args = Args { values: buffer.write_on(&stream)?, number, constant: 5 };
    // SAFETY: the callers give buffers and numbers that fit the kernels; the stream is waited for.
    unsafe { stream.launch::<I>(LaunchShape { blocks, threads, dynamic_shared }, &args)? };
    stream.synchronize()
}

#[test]
fn a_kernel_gets_its_arguments_and_its_threads() {
    let Some(device) = device() else { return };
    device.load_kernel::<AddIndex>().unwrap();
    let mut buffer = device.upload(&vec![1000; 100_000]).unwrap();
    launch::<AddIndex>(&device, (1000, 128, 0), &mut buffer, 100_000).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), (1005..101_005).collect::<Vec<_>>());
}

#[test]
fn a_kernel_gets_its_shared_memory_above_48_kib_too() {
    let Some(device) = device() else { return };
    let most = device.properties().unwrap().shared_bytes_per_block;
    let mut buffer = device.alloc_zeroed(4).unwrap();
    // The order matters: a small launch must not take back what a large one asked for.
    for total in [1024, 48 << 10, most, 49 << 10, most] {
        launch::<ThroughShared>(&device, (4, 32, total - 1024), &mut buffer, total - 4).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [5; 4], "{total} bytes");
        buffer.copy_from(&[0; 4]).unwrap();
    }
    let error = launch::<ThroughShared>(&device, (4, 32, most), &mut buffer, 0).unwrap_err();
    assert!(matches!(error, Error::Launch { .. }), "{error}");
    assert!(error.to_string().contains(&most.to_string()), "{error}");
}

#[test]
fn what_is_not_there_is_named() {
    let Some(device) = device() else { return };
    let error = device.load_kernel::<Missing>().unwrap_err();
    assert!(matches!(error, Error::UnknownKernel { module: "test", kernel: "test__missing" }), "{error}");
    let mut buffer = device.alloc_zeroed(1).unwrap();
    let error = launch::<AddIndex>(&device, (0, 128, 0), &mut buffer, 1).unwrap_err();
    assert!(error.to_string().contains("0 blocks of 128 threads"), "{error}");
    let error = launch::<AddIndex>(&device, (1, 1025, 0), &mut buffer, 1).unwrap_err();
    assert!(error.to_string().contains("1025"), "{error}");
}

#[test]
fn ptx_that_the_driver_rejects_says_why() {
    let Some(cuda) = cuda() else { return };
    let ptx = include_str!("tests.ptx");

    let error = cuda.load_text("broken", &ptx.replace("bar.sync", "bar.snyc")).unwrap_err();
    let Error::InvalidPtx { log, .. } = &error else { panic!("{error}") };
    assert!(log.contains("snyc"), "{error}");

    let newer = ptx.replace(".version 6.3", ".version 99.9");
    let error = cuda.load_text("too new", &newer).unwrap_err();
    assert!(matches!(error, Error::PtxTooNew { ptx_version: (99, 9), .. }), "{error}");

    // A target later than the GPU, of a PTX version that the driver reads or not.
    if cuda.properties.compute_capability < (10, 0) {
        let later = ptx.replace(".version 6.3", ".version 8.6").replace("sm_70", "sm_100");
        let error = cuda.load_text("later", &later).unwrap_err();
        assert!(matches!(error, Error::UnsupportedGpu { .. } | Error::PtxTooNew { .. }), "{error}");
    }
}

#[test]
fn a_kernel_that_the_driver_rejects_says_why_loaded_ahead_or_not() {
    let Some(device) = device() else { return };
    for _ in 0..2 {
        let error = device.load_kernel::<Broken>().unwrap_err();
        let Error::InvalidPtx { module, log, .. } = &error else { panic!("{error}") };
        assert!(module == "broken" && log.contains("snyc"), "{error}");
        device.load_ahead(&[Broken::ENTRY]);
    }
}

#[test]
fn launches_share_what_is_loaded_ahead() {
    // Another one, on which nothing is loaded.
    let Some(device) = gpu_or_skip(Cuda::new(0)).map(|new| Device::of(Arc::new(new))) else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                device.load_ahead(&[Missing::ENTRY, Broken::ENTRY, AddIndex::ENTRY, ThroughShared::ENTRY]);
                let mut buffer = device.alloc_zeroed(1000).unwrap();
                launch::<AddIndex>(&device, (10, 128, 0), &mut buffer, 1000).unwrap();
                assert_eq!(buffer.to_vec().unwrap(), (5..1005).collect::<Vec<_>>());
                assert!(matches!(device.load_kernel::<Missing>(), Err(Error::UnknownKernel { .. })));
                assert!(matches!(device.load_kernel::<Broken>(), Err(Error::InvalidPtx { .. })));
            });
        }
    });
}

#[test]
fn launches_from_many_threads_share_what_is_loaded() {
    let Some(device) = device() else { return };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut buffer = device.alloc_zeroed(1000).unwrap();
                for _ in 0..100 {
                    launch::<AddIndex>(&device, (10, 100, 0), &mut buffer, 1000).unwrap();
                }
                assert_eq!(buffer.to_vec().unwrap()[999], 100 * (5 + 999));
            });
        }
    });
}

/// The GPU behind a pool of its own.
fn pooled() -> Option<(Pool, Device)> {
    let pool = Pool::new(&device()?);
    let device = pool.device();
    Some((pool, device))
}

/// Puts `count` launches over a buffer on their way, without waiting for them: each adds 5 and its index to
/// every element.
fn queue(stream: &crate::Stream, buffer: &mut Buffer<u32>, count: usize) {
    let len = buffer.len() as u32;
    let args = Args { values: buffer.write_on(stream).unwrap(), number: len, constant: 5 };
    let shape = LaunchShape { blocks: len.div_ceil(128), threads: 128, dynamic_shared: 0 };
    for _ in 0..count {
        // SAFETY: the buffer has these elements; its memory goes to nobody else before the launches are done.
        unsafe { stream.launch::<AddIndex>(shape, &args).unwrap() };
    }
}

#[test]
fn a_pools_block_is_not_lent_again_while_kernels_write_it() {
    const LEN: usize = 1 << 24;
    let Some((pool, device)) = pooled() else { return };
    let stream = device.stream().unwrap();
    for round in 0..10 {
        let mut busy = device.alloc_zeroed::<u32>(LEN).unwrap();
        // Some milliseconds of work, over a buffer that is dropped at once.
        queue(&stream, &mut busy, 200);
        let at = busy.addresses().start;
        drop(busy);
        // The copy goes through another stream, which waits for none: were the block lent while the kernels
        // run, they would write over what is copied.
        let next = device.upload(&vec![round; LEN]).unwrap();
        assert_eq!(next.addresses().start, at, "the block is used again");
        assert!(next.to_vec().unwrap().iter().all(|&word| word == round), "round {round}");
        stream.synchronize().unwrap();
        assert!(next.to_vec().unwrap().iter().all(|&word| word == round), "round {round}");
    }
    let stats = pool.stats();
    assert_eq!((stats.allocations, stats.reuses), (1, 19), "{stats:?}");
    assert!(stats.waits >= 10, "{stats:?}");
}

#[test]
fn dropping_a_pooled_buffer_waits_for_nothing() {
    let Some((pool, device)) = pooled() else { return };
    let stream = device.stream().unwrap();
    let (start, end) = (device.event().unwrap(), device.event().unwrap());
    let mut busy = device.alloc_zeroed::<u32>(1 << 26).unwrap();
    queue(&stream, &mut busy, 10);
    stream.synchronize().unwrap();
    start.record(&stream).unwrap();
    queue(&stream, &mut busy, 300);
    end.record(&stream).unwrap();
    let dropping = std::time::Instant::now();
    drop(busy);
    let dropped = dropping.elapsed();
    stream.synchronize().unwrap();
    let work = crate::Event::elapsed_ms(&start, &end).unwrap();
    println!("{work} ms of kernels, {dropped:?} to drop what they write");
    assert!(dropped.as_secs_f32() * 1e3 < work / 2.0, "{dropped:?} of {work} ms");
    assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (0, 4 << 26));
}

#[test]
fn what_a_pool_has_cached_can_be_lent_two_hundred_times_and_trimmed() {
    let Some((pool, device)) = pooled() else { return };
    let plain = self::device().unwrap();
    let time = |device: &Device, bytes: usize| {
        let one = || drop(device.alloc::<u8>(bytes).unwrap());
        (0..10).for_each(|_| one());
        let start = std::time::Instant::now();
        (0..200).for_each(|_| one());
        start.elapsed() / 200
    };
    for bytes in [1 << 10, 1 << 20, 1 << 28] {
        let (by_driver, by_pool) = (time(&plain, bytes), time(&device, bytes));
        println!("{bytes} bytes, allocated and freed: {by_driver:?} by the driver, {by_pool:?} by a pool that waits");
        let kept: Vec<_> = (0..200).map(|_| device.alloc::<u8>(bytes.min(1 << 20)).unwrap()).collect();
        drop(kept);
        device.synchronize().unwrap();
        let start = std::time::Instant::now();
        let kept: Vec<_> = (0..200).map(|_| device.alloc::<u8>(bytes.min(1 << 20)).unwrap()).collect();
        let ready = start.elapsed() / 200;
        println!("{ready:?} by a pool that need not wait");
        drop(kept);
    }
    assert!(pool.trim() > 0);
    assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (0, 0));
}

#[test]
fn a_pool_gives_the_card_back_what_it_trims() {
    const BYTES: usize = 1 << 30;
    let Some((pool, device)) = pooled() else { return };
    drop(device.alloc::<u8>(BYTES).unwrap());
    assert_eq!(pool.bytes_cached(), BYTES);
    // Other tests allocate too, so nothing is said of what the card has free.
    assert_eq!(pool.trim(), BYTES);
    assert_eq!(pool.bytes_cached(), 0);
    // Most of the card's memory, in cached blocks of different sizes, makes room for one of another size.
    let free = device.memory().unwrap().free as usize;
    let (first, second) = (free / 10 * 3, free / 10 * 4);
    drop((device.alloc::<u8>(first).unwrap(), device.alloc::<u8>(first).unwrap()));
    let whole = device.alloc::<u8>(second + first / 2).unwrap();
    assert!(pool.bytes_cached() < 2 * first, "{pool:?}");
    drop(whole);
    let error = device.alloc::<u8>(device.properties().unwrap().total_memory as usize).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (0, 0), "all cached blocks have been given back");
}

#[test]
fn a_pools_page_locked_memory_is_not_lent_again_while_copies_read_it() {
    const LEN: usize = 1 << 24;
    let Some((pool, device)) = pooled() else { return };
    let stream = device.stream().unwrap();
    let mut target = device.alloc_zeroed::<u32>(LEN).unwrap();
    for round in 1..6 {
        let mut source = device.pinned::<u32>(LEN).unwrap();
        source.fill(round);
        // Behind kernels, so that the copy has not begun when its source is dropped.
        queue(&stream, &mut target, 100);
        target.upload_async(&stream, 0, &source, 0..LEN).unwrap();
        drop(source);
        // The same block, zeroed: not before the copy is done.
        let next = device.pinned::<u32>(LEN).unwrap();
        assert!(next.iter().all(|&word| word == 0));
        stream.synchronize().unwrap();
        assert!(target.to_vec().unwrap().iter().all(|&word| word == round), "round {round}");
    }
    assert_eq!(pool.stats().allocations, 2);
}

#[test]
fn streams_come_after_one_another_over_the_same_buffers() {
    const LEN: usize = 1 << 22;
    let Some(device) = device() else { return };
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    // SAFETY: the handle is that of `lent`, which outlives the stream made of it.
    let foreign = |lent: &crate::Stream| unsafe { device.stream_from_raw(lent.as_raw()) }.unwrap();
    let zeros = vec![0; LEN];
    let sum = |buffer: &Buffer<u32>, times: u32| {
        let words = buffer.to_vec().unwrap();
        words.iter().zip(0..).all(|(&word, index)| word == times * (5 + index))
    };
    for round in 0..5 {
        // Each launch takes some microseconds, so the first stream is at work for milliseconds.
        let mut buffer = device.upload(&zeros).unwrap();
        queue(&first, &mut buffer, 100);
        queue(&second, &mut buffer, 50);
        assert!(sum(&buffer, 150), "round {round}: one stream after the other, and the copy after both");

        let mut copy = device.alloc(LEN).unwrap();
        queue(&first, &mut buffer, 100);
        copy.copy_from_buffer(&second, 0, &buffer, 0..LEN).unwrap();
        buffer.copy_from(&zeros).unwrap();
        assert!(sum(&copy, 250), "round {round}: the copy comes after the kernels, and what overwrites them after it");

        let mut pinned = device.pinned::<u32>(LEN).unwrap();
        queue(&first, &mut buffer, 100);
        buffer.download_async(&second, 0..LEN, &mut pinned, 0).unwrap();
        assert!(pinned.iter().zip(0..).all(|(&word, index)| word == 100 * (5 + index)), "round {round}: pinned memory");

        // A caller's stream that is gone when the buffer is reused.
        let lent = device.stream().unwrap();
        let caller = foreign(&lent);
        queue(&caller, &mut buffer, 100);
        drop(caller);
        drop(lent);
        queue(&second, &mut buffer, 1);
        assert!(sum(&buffer, 201), "round {round}: a caller's stream");
    }
}

/// Puts `to += from` into a stream.
fn add(stream: &crate::Stream, from: &HostArray<u32>, to: &mut Buffer<u32>) -> Result<(), Error> {
    let len = to.len() as u64;
    let args = AddArgs { from: from.read_on(stream)?, to: to.write_on(stream)?, len };
    let shape = LaunchShape { blocks: (len as u32).div_ceil(128), threads: 128, dynamic_shared: 0 };
    // SAFETY: both have these elements.
    unsafe { stream.launch::<Add>(shape, &args) }
}

#[test]
fn kernels_read_pinned_arrays_of_host_memory() {
    // Half of the last huge page is left over.
    const LEN: usize = 5 << 18;
    let Some(device) = device() else { return };
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let mut sums = streams.each_ref().map(|_| device.alloc_zeroed::<u32>(LEN).unwrap());
    for pages in [Pages::Small, Pages::Transparent, Pages::Huge] {
        let mut array = HostArray::<u32>::zeroed(LEN, pages).unwrap();
        array.iter_mut().zip(0..).for_each(|(to, from)| *to = from);
        let error = array.read_on(&streams[0]).unwrap_err();
        assert!(matches!(error, Error::NotPinned { .. }), "{error}");
        for round in 0..3 {
            array.pin(&device).unwrap();
            array.pin(&device).expect("it is pinned already");
            println!("{}: {array:?}", array.pages());
            for (stream, sum) in streams.iter().zip(&mut sums) {
                sum.fill_zero(stream).unwrap();
                (0..20).for_each(|_| add(stream, &array, sum).unwrap());
            }
            // These wait for the kernels, which take milliseconds: reads across the bus.
            match round {
                0 => array.iter_mut().for_each(|value| *value += 1),
                1 => array.unpin(),
                _ => drop(core::mem::replace(&mut array, HostArray::zeroed(0, pages).unwrap())),
            }
            let start = u32::from(round > 0);
            for sum in &sums {
                let sum = sum.to_vec().unwrap();
                assert!(sum.iter().zip(start..).all(|(&sum, value)| sum == 20 * value), "{pages}, round {round}");
            }
        }
        array.pin(&device).unwrap();
        assert!(array.read_on(&streams[0]).unwrap().is_null(), "an empty array has no address");
    }
}

#[test]
fn an_array_that_cannot_be_pinned_is_as_it_was() {
    let Some(cuda) = cuda() else { return };
    let mut array = HostArray::<u32>::zeroed(1000, Pages::Small).unwrap();
    let device = Device::of(cuda.clone());
    array.pin(&device).unwrap();
    let at = core::ptr::NonNull::from(&mut *array).cast();
    // SAFETY: refused, as the memory is pinned already.
    let error = unsafe { cuda.page_lock(at, array.bytes()) }.unwrap_err();
    assert!(matches!(error, Error::CannotPin { bytes: 4000, .. }), "{error}");
    println!("{error}");
    let stream = device.stream().unwrap();
    let mut sum = device.alloc_zeroed::<u32>(1000).unwrap();
    array.fill(7);
    add(&stream, &array, &mut sum).unwrap();
    assert_eq!(sum.to_vec().unwrap(), [7; 1000]);
}

/// The driver takes the memory from the other GPU before it waits for anything.
#[test]
fn memory_can_be_dropped_while_another_gpu_copies_to_it() {
    let Some(here) = device() else { return };
    let Ok(other) = Cuda::new(1) else {
        eprintln!("skipped: there is one GPU");
        return;
    };
    let there = Device::of(Arc::new(other));
    let (near, far) = (here.stream().unwrap(), there.stream().unwrap());
    let len = 1 << 26;
    let (source, mut busy) = (here.alloc_zeroed::<u32>(len).unwrap(), here.alloc::<u32>(len).unwrap());
    for _ in 0..2 {
        let mut target = there.alloc::<u32>(1 << 20).unwrap();
        for _ in 0..300 {
            busy.copy_from_buffer(&near, 0, &source, 0..len).unwrap();
        }
        target.copy_from_peers(&far, &[PeerPart { from: &source, range: 0..1 << 20, stream: &near, at: 0 }]).unwrap();
        drop(target);
        here.synchronize().unwrap();
        there.synchronize().unwrap();
    }
}
