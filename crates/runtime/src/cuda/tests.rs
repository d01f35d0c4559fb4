//! Launches, on a GPU if there is one.

use super::Cuda;
use crate::{Buffer, Device, Error};
use lanetree_simt::{Access, GlobalMut, Instance, Kernel, KernelArgs, LaunchShape, Simt};
use std::io::Write;
use std::sync::{Arc, OnceLock};

/// The GPU, with the module `test` loaded. `None` if there is none, unless `LANETREE_REQUIRE_GPU` is set.
fn cuda() -> Option<Arc<Cuda>> {
    static CUDA: OnceLock<Option<Arc<Cuda>>> = OnceLock::new();
    let cuda = CUDA.get_or_init(|| match Cuda::new(0) {
        Ok(cuda) => {
            cuda.load_text("test", include_str!("tests.ptx")).unwrap();
            Some(Arc::new(cuda))
        }
        Err(Error::NoDevice { .. } | Error::NoDriver { .. }) if std::env::var_os("LANETREE_REQUIRE_GPU").is_none() => {
            None
        }
        Err(error) => panic!("{error}"),
    });
    if cuda.is_none() {
        // Not `eprintln!`, which the test harness hides.
        let _ = writeln!(std::io::stderr(), "skipped: no GPU: {:?}", std::thread::current().name().unwrap_or(""));
    }
    cuda.clone()
}

fn device() -> Option<Device> {
    Some(Device { machine: cuda()? })
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Args {
    values: GlobalMut<u32>,
    /// `len` of the one kernel, `offset` of the other.
    number: u32,
    constant: u32,
}

// SAFETY: `#[repr(C)]` without padding, and its one pointer is visited.
unsafe impl KernelArgs for Args {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        visit(self.values.as_ptr().addr(), Access::ReadWrite);
    }
}

macro_rules! kernel {
    ($name:ident, $module:literal, $symbol:literal, $shared:literal) => {
        struct $name;
        impl Kernel for $name {
            type Args = Args;
            const STATIC_SHARED: u32 = $shared;
            unsafe fn run<S: Simt>(_: S, _: &Args) {}
        }
        impl Instance for $name {
            const MODULE: &'static str = $module;
            const SYMBOL: &'static str = $symbol;
        }
    };
}

kernel!(AddIndex, "test", "test__add_index", 0);
kernel!(ThroughShared, "test", "test__through_shared", 1024);
kernel!(Missing, "test", "test__missing", 0);
kernel!(Nowhere, "no such module", "nowhere__missing", 0);

fn launch<I: Instance<Args = Args>>(
    device: &Device,
    (blocks, threads, dynamic_shared): (u32, u32, u32),
    buffer: &mut Buffer<u32>,
    number: u32,
) -> Result<(), Error> {
    let stream = device.stream()?;
    let args = Args { values: buffer.global_mut(), number, constant: 5 };
    // SAFETY: the callers give buffers and numbers that fit the kernels; the stream is waited for.
    unsafe { stream.launch::<I>(LaunchShape { blocks, threads, dynamic_shared }, &args)? };
    stream.synchronize()
}

#[test]
fn a_kernel_gets_its_arguments_and_its_threads() {
    let Some(device) = device() else { return };
    device.load_module::<AddIndex>().unwrap();
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
    let error = device.load_module::<Missing>().unwrap_err();
    assert!(matches!(error, Error::UnknownKernel { module: "test", kernel: "test__missing" }), "{error}");
    let error = device.load_module::<Nowhere>().unwrap_err();
    assert!(matches!(error, Error::UnknownModule { module: "no such module", .. }), "{error}");
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

#[test]
fn a_launch_costs_microseconds() {
    let Some(device) = device() else { return };
    let stream = device.stream().unwrap();
    let mut buffer = device.alloc_zeroed::<u32>(32).unwrap();
    let args = Args { values: buffer.global_mut(), number: 32, constant: 0 };
    let shape = LaunchShape { blocks: 1, threads: 32, dynamic_shared: 0 };
    // SAFETY: the buffer has 32 elements, and is freed after the stream has been waited for.
    let launch = || unsafe { stream.launch::<AddIndex>(shape, &args).unwrap() };
    (0..100).for_each(|_| launch());
    stream.synchronize().unwrap();
    let start = std::time::Instant::now();
    (0..500).for_each(|_| launch());
    let each = start.elapsed() / 500;
    stream.synchronize().unwrap();
    println!("{each:?} a launch");
    assert!(each < std::time::Duration::from_micros(50), "{each:?} a launch");
}
