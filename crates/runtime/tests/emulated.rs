//! Launches: on the emulator, and refused on the host.

use lanetree_runtime::{Buffer, Card, Device, Error, Failure, Pool, record_kernels, recorded_kernels};
use lanetree_simt::{Entry, GlobalMut, Hint, Instance, Kernel, LaunchBounds, LaunchShape, Module, Simt, kernel_args};

/// Adds to each element its index and a constant.
struct AddIndex;

kernel_args! {
    struct AddIndexArgs {
        values: GlobalMut<u32>,
        len: u32,
        constant: u32,
    }
}

impl Kernel for AddIndex {
    type Args = AddIndexArgs;

    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < u64::from(args.len) {
            // SAFETY: inside the array, and each thread has an element of its own.
            unsafe {
                let old = simt.load(args.values.as_const(), index, Hint::Default);
                simt.store(args.values, index, old + args.constant + index as u32, Hint::Default);
            }
        }
    }
}

static TEST: Module = Module { name: "test", ptx: "" };

impl Instance for AddIndex {
    const ENTRY: &'static Entry = {
        static ENTRY: Entry = Entry::of::<AddIndex>(&TEST, "test__add_index");
        &ENTRY
    };
}

/// The same under another name, for the test of what is recorded: others run at the same time.
struct Recorded;

impl Kernel for Recorded {
    type Args = AddIndexArgs;

    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { AddIndex::run(simt, args) }
    }
}

impl Instance for Recorded {
    const ENTRY: &'static Entry = {
        static ENTRY: Entry = Entry::of::<Recorded>(&TEST, "test__recorded");
        &ENTRY
    };
}

/// The same, compiled for blocks of few threads.
struct Bounded;

impl Kernel for Bounded {
    type Args = AddIndexArgs;
    const STATIC_SHARED: u32 = 1024;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: 512, blocks: 1 });

    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: the same contract.
        unsafe { AddIndex::run(simt, args) }
    }
}

impl Instance for Bounded {
    const ENTRY: &'static Entry = {
        static ENTRY: Entry = Entry::of::<Bounded>(&TEST, "test__bounded");
        &ENTRY
    };
}

const SHAPE: LaunchShape = LaunchShape { blocks: 3, threads: 64, dynamic_shared: 0 };

/// Launches in a stream of its own, and waits for it.
fn launch(device: &Device, shape: LaunchShape, args: AddIndexArgs) -> Result<(), Error> {
    launch_of::<AddIndex>(device, shape, args)
}

fn launch_of<I: Instance<Args = AddIndexArgs>>(
    device: &Device,
    shape: LaunchShape,
    args: AddIndexArgs,
) -> Result<(), Error> {
    let stream = device.stream()?;
    // SAFETY: what the emulator does not check, the tests keep: nobody else uses the buffers.
    unsafe { stream.launch::<I>(shape, &args)? };
    stream.synchronize()
}

/// The arguments of launches one of which is waited for before the next comes.
fn args(buffer: &mut Buffer<u32>) -> AddIndexArgs {
    let values = GlobalMut::new(buffer.addresses().start as *mut u32);
    AddIndexArgs { len: buffer.len() as u32, values, constant: 5 }
}

#[test]
fn launches_are_recorded_while_that_is_on_and_only_if_they_succeed() {
    let device = Device::emulated();
    let mut values = device.alloc_zeroed::<u32>(10).unwrap();
    let launch = |device: &Device, shape: LaunchShape, args: AddIndexArgs| {
        let stream = device.stream().unwrap();
        // SAFETY: nobody else uses the buffer.
        unsafe { stream.launch::<Recorded>(shape, &args) }.and_then(|()| stream.synchronize())
    };
    let is_recorded = || recorded_kernels().contains("test__recorded");
    launch(&device, SHAPE, args(&mut values)).unwrap();
    assert!(!is_recorded(), "recording is off");
    record_kernels(true);
    assert!(launch(&device, LaunchShape { blocks: 0, ..SHAPE }, args(&mut values)).is_err());
    assert!(launch(&Device::host(), SHAPE, args(&mut values)).is_err());
    assert!(!is_recorded(), "refused");
    launch(&device, SHAPE, args(&mut values)).unwrap();
    assert!(is_recorded());
    record_kernels(false);
    assert!(is_recorded(), "nothing is forgotten");
}

#[test]
fn an_emulated_launch_is_done_when_it_was_waited_for() {
    let device = Device::emulated_with_seed(3);
    device.load_kernel::<AddIndex>().unwrap();
    let mut buffer = device.upload(&vec![1000; 150]).unwrap();
    let args = args(&mut buffer);
    launch(&device, SHAPE, args).unwrap();
    let expected: Vec<u32> = (0..150).map(|i| 1005 + i).collect();
    assert_eq!(buffer.as_slice().unwrap(), expected);
}

#[test]
fn threads_on_one_device_launch_at_once() {
    let device = Device::emulated();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut buffer = device.alloc_zeroed::<u32>(100).unwrap();
                let args = args(&mut buffer);
                launch(&device, SHAPE, args).unwrap();
                assert_eq!(buffer.to_vec().unwrap()[99], 104);
            });
        }
    });
}

#[test]
fn accesses_outside_the_devices_buffers_are_faults() {
    let device = Device::emulated();
    let mut buffer = device.alloc_zeroed::<u32>(100).unwrap();

    let beyond = AddIndexArgs { len: 101, ..args(&mut buffer) };
    assert!(matches!(launch(&device, SHAPE, beyond), Err(Error::Emulator(_))), "one element too many");

    let mut host = vec![0_u32; 100];
    let unknown = AddIndexArgs { values: GlobalMut::new(host.as_mut_ptr()), ..args(&mut buffer) };
    assert!(matches!(launch(&device, SHAPE, unknown), Err(Error::Emulator(_))), "no buffer at all");
    assert_eq!(host, [0; 100]);

    let mut foreign = Device::emulated().alloc_zeroed::<u32>(100).unwrap();
    let foreign = args(&mut foreign);
    assert!(matches!(launch(&device, SHAPE, foreign), Err(Error::Emulator(_))), "another device's buffer");

    let freed = {
        let mut gone = device.alloc_zeroed::<u32>(100).unwrap();
        args(&mut gone)
    };
    assert!(matches!(launch(&device, SHAPE, freed), Err(Error::Emulator(_))), "a buffer that is freed");

    let null = AddIndexArgs { values: GlobalMut::null(), ..args(&mut buffer) };
    assert!(matches!(launch(&device, SHAPE, null), Err(Error::Emulator(_))), "null");
    let unused = AddIndexArgs { values: GlobalMut::null(), len: 0, constant: 0 };
    launch(&device, SHAPE, unused).unwrap();
}

#[test]
fn a_pools_blocks_are_no_larger_to_kernels_than_the_buffers_in_them() {
    let device = Pool::new(&Device::emulated()).device();
    let mut buffer = device.upload(&[1_u32; 100]).unwrap();
    let fits = args(&mut buffer);
    let beyond = AddIndexArgs { len: 101, ..fits };
    launch(&device, SHAPE, fits).unwrap();
    assert!(matches!(launch(&device, SHAPE, beyond), Err(Error::Emulator(_))), "the block has 512 bytes");
    drop(buffer);
    assert!(matches!(launch(&device, SHAPE, fits), Err(Error::Emulator(_))), "the buffer has gone back");
    let larger = device.upload(&[1_u32; 120]).unwrap();
    assert_eq!(larger.addresses().start, fits.values.as_ptr().addr());
    launch(&device, SHAPE, beyond).unwrap();
    assert_eq!(larger.to_vec().unwrap()[100..102], [106, 1]);
}

#[test]
fn a_launch_can_be_made_to_fail() {
    let device = Device::emulated();
    let mut buffer = device.alloc_zeroed::<u32>(150).unwrap();
    let args = args(&mut buffer);
    assert_eq!(device.inject(Some(Failure::Launch(1))), None);
    launch(&device, SHAPE, args).unwrap();
    let error = launch(&device, SHAPE, args).unwrap_err();
    assert_eq!(error.to_string(), "test__add_index has failed, as a test asked for");
    launch(&device, SHAPE, args).unwrap();
    assert_eq!(buffer.to_vec().unwrap()[149], 2 * 154, "two of the three have run");
    assert_eq!(device.inject(Some(Failure::Launch(5))), None, "it has come to pass");
    launch(&device, SHAPE, args).unwrap();
    assert_eq!(device.inject(None), Some(Failure::Launch(4)));

    device.inject(Some(Failure::Transfer(1)));
    buffer.copy_from(&[1; 150]).unwrap();
    let error = buffer.copy_from(&[2; 150]).unwrap_err();
    assert_eq!(error.to_string(), "a transfer has failed, as a test asked for");
    assert_eq!(buffer.to_vec().unwrap(), [1; 150]);
    assert_eq!(Device::host().inject(Some(Failure::Launch(0))), None);
}

#[test]
fn a_kernel_that_fails_takes_the_device_with_it() {
    let device = Pool::new(&Device::emulated()).device();
    let (stream, event) = (device.stream().unwrap(), device.event().unwrap());
    let mut buffer = device.alloc_zeroed::<u32>(150).unwrap();
    let arguments = args(&mut buffer);
    drop(device.alloc::<u8>(1000).unwrap());
    assert_eq!(device.inject(Some(Failure::Kernel(0))), None);
    // SAFETY: as in `launch`.
    unsafe { stream.launch::<AddIndex>(SHAPE, &arguments) }.expect("the error comes out of a later call");
    let is_injected = |result: Result<(), Error>| matches!(result, Err(Error::Injected { .. }));
    assert!(is_injected(stream.synchronize()) && is_injected(device.synchronize()));
    assert!(is_injected(buffer.copy_to(&mut [0; 150])) && is_injected(buffer.copy_from(&[0; 150])));
    assert!(is_injected(buffer.fill_zero(&stream)) && is_injected(event.record(&stream)));
    // SAFETY: refused, so nothing runs.
    assert!(is_injected(unsafe { stream.launch::<AddIndex>(SHAPE, &arguments) }));
    assert!(is_injected(device.alloc::<u8>(1000).map(drop)), "a pending block fits, and cannot be waited for");
    assert!(is_injected(device.alloc::<u8>(9000).map(drop)) && is_injected(device.pinned::<u8>(1).map(drop)));
    assert!(is_injected(device.stream().map(drop)) && is_injected(device.event().map(drop)));

    assert_eq!(device.inject(None), None);
    let values = buffer.to_vec().unwrap();
    assert_eq!((values[0], values[63], values[64], values[149]), (5, 68, 0, 0), "one of three blocks has run");
    let pool = device.pool().unwrap();
    assert_eq!((pool.bytes_in_use(), pool.bytes_cached()), (1024, 1024));
    drop(device.alloc::<u8>(1000).unwrap());
}

#[test]
fn what_launches_do_is_counted_while_it_is_asked_for() {
    let device = Device::emulated();
    let mut buffer = device.alloc_zeroed::<u32>(100).unwrap();
    let args = args(&mut buffer);
    let twice = || (0..2).try_for_each(|_| launch(&device, SHAPE, args));
    let (result, report) = device.count_launches(0..usize::MAX, twice);
    result.unwrap();
    let report = report.unwrap();
    // 100 elements of 4 bytes, in 4 warps: 3 of a line, and one with 4 lanes.
    assert_eq!((report.loads, report.warp_loads, report.sectors, report.lines), (200, 8, 2 * 13, 8));
    let second_line = args.values.as_ptr().addr() + 128..args.values.as_ptr().addr() + 256;
    let (result, report) = device.count_launches(second_line, twice);
    result.unwrap();
    assert_eq!(report.map(|report| (report.warp_loads, report.sectors, report.lines)), Some((2, 8, 2)));

    let host = Device::host();
    assert_eq!(host.count_launches(0..usize::MAX, || 7), (7, None));
}

#[test]
fn impossible_shapes_are_refused() {
    let device = Device::emulated();
    let mut buffer = device.alloc_zeroed::<u32>(1).unwrap();
    let args = args(&mut buffer);
    for (shape, words) in [
        (LaunchShape { blocks: 0, ..SHAPE }, "with 0 blocks of 64 threads: a grid has 1 to 2147483647 blocks"),
        (LaunchShape { blocks: 1 << 31, ..SHAPE }, "a grid has 1 to 2147483647 blocks"),
        (LaunchShape { threads: 0, ..SHAPE }, "a block has 1 to 1024 threads"),
        (LaunchShape { threads: 1025, ..SHAPE }, "with 3 blocks of 1025 threads: a block has 1 to 1024 threads"),
        (LaunchShape { dynamic_shared: u32::MAX, ..SHAPE }, "4294967295 from the launch"),
    ] {
        let error = launch(&device, shape, args).unwrap_err();
        assert!(matches!(error, Error::Launch { kernel: "test__add_index", .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(buffer.to_vec().unwrap(), [0]);
}

#[test]
fn a_block_has_as_much_shared_memory_as_its_card_allows() {
    for card in Card::ALL {
        let device = Device::emulated_as(card);
        let mut buffer = device.alloc_zeroed::<u32>(1).unwrap();
        let args = args(&mut buffer);
        let most = card.shared_bytes_per_block - Bounded::STATIC_SHARED;
        launch_of::<Bounded>(&device, LaunchShape { dynamic_shared: most, ..SHAPE }, args).unwrap();
        let error = launch_of::<Bounded>(&device, LaunchShape { dynamic_shared: most + 1, ..SHAPE }, args).unwrap_err();
        let words = format!(
            "its blocks need 1024 bytes of shared memory of their own and {} from the launch, and a block on {device} can have {}",
            most + 1,
            card.shared_bytes_per_block
        );
        assert!(matches!(error, Error::Launch { kernel: "test__bounded", .. }), "{error:?}");
        assert!(error.to_string().ends_with(&words), "{error}");
        let properties = device.properties().unwrap();
        let found = (properties.compute_capability, properties.multiprocessors, properties.shared_bytes_per_block);
        assert_eq!(found, (card.compute_capability, card.multiprocessors, card.shared_bytes_per_block));
    }
    assert_eq!(Device::emulated().properties().unwrap().shared_bytes_per_block, 64 << 10);
    assert_eq!(Device::emulated_as(Card::H100).to_string(), "emulated (seed 0, as 9.0)");
}

#[test]
fn a_block_has_as_many_threads_as_its_kernel_is_compiled_for() {
    let device = Device::emulated();
    let mut buffer = device.alloc_zeroed::<u32>(1).unwrap();
    let args = args(&mut buffer);
    launch_of::<Bounded>(&device, LaunchShape { threads: 512, ..SHAPE }, args).unwrap();
    let error = launch_of::<Bounded>(&device, LaunchShape { threads: 513, ..SHAPE }, args).unwrap_err();
    assert!(error.to_string().ends_with("its launch bounds are blocks of at most 512 threads"), "{error}");
    launch(&device, LaunchShape { threads: 256, ..SHAPE }, args).unwrap();
    let error = launch(&device, LaunchShape { threads: 257, ..SHAPE }, args).unwrap_err();
    assert!(error.to_string().contains("may have no registers for more than 256 threads"), "{error}");
}

#[test]
fn the_host_runs_no_kernels() {
    let device = Device::host();
    let mut buffer = device.alloc_zeroed::<u32>(1).unwrap();
    let args = args(&mut buffer);
    let error = launch(&device, SHAPE, args).unwrap_err();
    assert!(matches!(error, Error::NoKernels { kernel: "test__add_index" }), "{error}");
    assert!(matches!(device.load_kernel::<AddIndex>(), Err(Error::NoKernels { .. })));
}
