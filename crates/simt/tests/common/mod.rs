//! Kernels' arguments and launches, for the tests of the emulator.

use lanetree_simt::LaunchReport;
use lanetree_simt::emulator::{Fault, Options, Region, launch_kernel};
use lanetree_simt::{Access, Global, GlobalMut, Kernel, KernelArgs, LaunchShape};

/// One buffer to read, one to write, and a number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args {
    pub(crate) input: Global<u32>,
    pub(crate) output: GlobalMut<u32>,
    pub(crate) number: u64,
}

// SAFETY: `repr(C)`; both pointers are visited.
unsafe impl KernelArgs for Args {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        visit(self.input.as_ptr().addr(), Access::Read);
        visit(self.output.as_ptr().addr(), Access::ReadWrite);
    }
}

/// `blocks` of `threads`, without dynamic shared memory.
pub(crate) fn shape(blocks: u32, threads: u32) -> LaunchShape {
    LaunchShape { blocks, threads, dynamic_shared: 0 }
}

/// Runs `K` with a seed, under the name "test".
#[allow(dead_code, reason = "each test file is a crate, and not all run kernels so")]
pub(crate) fn run<K: Kernel<Args = Args>>(
    seed: u64,
    shape: LaunchShape,
    input: &[u32],
    output: &mut [u32],
    number: u64,
) -> Result<LaunchReport, Fault> {
    let options = Options { seed, ..Options::default() };
    run_with::<K>(&options, shape, input, output, number)
}

/// Runs `K` under the name "test".
pub(crate) fn run_with<K: Kernel<Args = Args>>(
    options: &Options,
    shape: LaunchShape,
    input: &[u32],
    output: &mut [u32],
    number: u64,
) -> Result<LaunchReport, Fault> {
    let args = Args { input: Global::new(input.as_ptr()), output: GlobalMut::new(output.as_mut_ptr()), number };
    let region = |start: usize, bytes, writable| Region { start, bytes, writable };
    let regions = [
        region(args.input.as_ptr().addr(), size_of_val(input), false),
        region(args.output.as_ptr().addr(), size_of_val(output), true),
    ];
    // SAFETY: the regions are the slices, of which one is borrowed mutably; the kernels of these tests
    // ask for nothing more.
    unsafe { launch_kernel::<K>("test", options, shape, &args, &regions) }
}

/// Declares a kernel over [`Args`].
#[macro_export]
macro_rules! kernel {
    ($name:ident, shared $bytes:expr, |$simt:ident, $args:ident| $body:block) => {
        struct $name;
        impl lanetree_simt::Kernel for $name {
            type Args = $crate::common::Args;
            const STATIC_SHARED: u32 = $bytes;
            unsafe fn run<S: lanetree_simt::Simt>($simt: S, $args: &Self::Args) {
                #[allow(
                    unused_unsafe,
                    clippy::macro_metavars_in_unsafe,
                    reason = "every kernel is unsafe code, though some call no unsafe method"
                )]
                // SAFETY: what each test says; the emulator checks it.
                unsafe {
                    $body
                }
            }
        }
    };
    ($name:ident, |$simt:ident, $args:ident| $body:block) => {
        kernel!($name, shared 0, |$simt, $args| $body);
    };
}
