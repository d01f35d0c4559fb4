//! What the host must know of a kernel to launch it.

use crate::{Access, Simt};
use core::any::Any;

/// The arguments of a kernel: one `#[repr(C)]` struct, passed by value.
///
/// # Safety
/// The type is `#[repr(C)]`, has no padding that matters to the kernel, is as large on the host as on
/// the device, and [`KernelArgs::pointers`] names every pointer through which the kernel accesses
/// memory.
pub unsafe trait KernelArgs: Copy + Send + Sync + 'static {
    /// Calls `visit` with each pointer of the arguments, null ones included, and how the kernel uses
    /// it. The emulator lets a kernel touch the buffers named here and no others.
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access));
}

/// What the device's compiler may assume of the launches of a kernel: CUDA's `__launch_bounds__`.
///
/// Left to itself, ptxas packs a kernel into few registers and to that end puts each load close to its
/// use, one after the other. A stated number of blocks per multiprocessor makes the registers free up
/// to that point, and the loads go out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// Most threads of a block; a launch with more is an error.
    pub threads: u32,
    /// Blocks of that size that must fit on a multiprocessor at the same time.
    pub blocks: u32,
}

/// A kernel: an algorithm over [`Simt`], written once for every machine.
pub trait Kernel: 'static {
    /// Its arguments.
    type Args: KernelArgs;

    /// Bytes of shared memory that every launch needs, at offsets known at compile time.
    const STATIC_SHARED: u32 = 0;

    /// What the compiler may assume of every launch; `None` for a kernel that takes any block.
    const LAUNCH_BOUNDS: Option<LaunchBounds> = None;

    /// What one thread does.
    ///
    /// # Safety
    /// Every thread of the grid calls it once, with the same `args`, whose pointers are valid as the
    /// kernel's documentation says until the whole grid is done.
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args);
}

/// A kernel with all its parameters chosen, compiled to PTX under a name.
pub trait Instance: Kernel {
    /// The PTX module that holds it.
    const MODULE: &'static str;
    /// Its symbol there: the module's name, two underscores, and the rest.
    const SYMBOL: &'static str;
}

/// What is done with the instance that a choice among instances arrives at.
pub trait Launcher<'a> {
    /// What that gives.
    type Output;
    /// Takes `I` and its arguments.
    fn launch<I: Instance>(self, args: &'a I::Args) -> Self::Output;
}

/// The arguments under their own type, for code that is generic over words and has found out which
/// they are.
///
/// # Panics
/// If `A` and `B` are not the same type.
pub fn same_args<A: KernelArgs, B: KernelArgs>(args: &A) -> &B {
    (args as &dyn Any).downcast_ref().expect("the kernel's words are the arguments' words")
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks, at least 1.
    pub blocks: u32,
    /// Threads of a block, 1 to 1024.
    pub threads: u32,
    /// Bytes of dynamic shared memory, beyond the kernel's static ones.
    pub dynamic_shared: u32,
}

impl LaunchShape {
    /// Enough blocks of `threads` threads for `items` threads in all; at least one block.
    ///
    /// Returns `None` where that is more blocks than a grid may have (2^31 - 1).
    pub fn covering(items: u64, threads: u32) -> Option<Self> {
        let blocks = items.div_ceil(u64::from(threads)).max(1);
        (blocks < 1 << 31).then_some(Self { blocks: blocks as u32, threads, dynamic_shared: 0 })
    }
}

/// Gives a kernel instance its symbol and, on the device, its entry point.
///
/// `instance!(module, suffix, KernelType)` declares the PTX entry `module__suffix`.
#[macro_export]
macro_rules! instance {
    ($symbol:ident, $module:expr, $kernel:ty) => {
        impl $crate::Instance for $kernel {
            const MODULE: &'static str = $module;
            const SYMBOL: &'static str = stringify!($symbol);
        }

        #[cfg(all(target_os = "cuda", not(feature = "cuda_std")))]
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $symbol(args: <$kernel as $crate::Kernel>::Args) {
            $crate::nvptx::launch_bounds::<$kernel>();
            // SAFETY: the host launches the entry as the kernel's contract asks.
            unsafe { <$kernel as $crate::Kernel>::run($crate::nvptx::Nvptx::new(), &args) }
        }

        #[cfg(all(target_os = "cuda", feature = "cuda_std"))]
        #[doc(hidden)]
        #[cuda_std::kernel]
        pub unsafe fn $symbol(args: <$kernel as $crate::Kernel>::Args) {
            $crate::nvptx::launch_bounds::<$kernel>();
            // SAFETY: the host launches the entry as the kernel's contract asks.
            unsafe { <$kernel as $crate::Kernel>::run($crate::nvptx::Nvptx::new(), &args) }
        }
    };
}
