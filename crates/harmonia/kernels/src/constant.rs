//! Point look-ups with the top of the prefix-sum array in constant memory, as in the paper (section 3.1): for a figure.
//!
//! A GPU keeps the arguments of a kernel in constant memory, so the top of the array is an argument, passed by value.

use crate::get::{GetArgs, get_tile};
use crate::tree::{launch_bounds, tile_start};
use core::marker::PhantomData;
use lanetree_simt::{Kernel, LaunchBounds, Simt, WARP, Word, kernel_args};

/// Nodes whose first children are in the arguments: whole lines of them, as many as the arguments' 4 KiB have room for.
pub const TOP: usize = 992;

kernel_args! {
    /// Arguments of [`GetConstant`].
    pub struct GetConstantArgs<K, V> {
        /// Those of [`Get`](crate::Get).
        pub get: GetArgs<K, V>,
        /// The first children of the tree's first inner nodes, at most as many as it has.
        pub top: [u32; TOP],
    }
}

const _: () = assert!(size_of::<GetConstantArgs<u64, u64>>() <= 4096, "a kernel's arguments have 4 KiB");

/// [`Get`](crate::Get) by the prefix-sum array, the top of which it reads from its arguments.
#[derive(Debug)]
pub struct GetConstant<K, V, const F: u32, const G: u32, const Q: usize>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const F: u32, const G: u32, const Q: usize> Kernel for GetConstant<K, V, F, G, Q> {
    type Args = GetConstantArgs<K, V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = launch_bounds::<K>(F, Q);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let tile = tile_start(simt, WARP);
        if tile < args.get.count {
            let top = |node| first_child(args, node);
            // SAFETY: the same contract.
            unsafe { get_tile::<S, K, V, false, F, G, Q, false>(simt, &args.get, top, tile) };
        }
    }
}

/// Per thread. The first child of a node, if it is one of the top nodes, from the kernel's arguments.
#[cfg(not(target_os = "cuda"))]
#[inline(always)]
fn first_child<K, V>(args: &GetConstantArgs<K, V>, node: u32) -> Option<u32> {
    args.top.get(node as usize).copied()
}

/// The same on the device, in assembly: rustc copies arguments that are indexed to local memory. `param_0` is what
/// `lanetree-ptx` calls the first parameter of every entry.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn first_child<K, V>(_: &GetConstantArgs<K, V>, node: u32) -> Option<u32> {
    use core::{arch::asm, mem::offset_of};
    if node >= TOP as u32 {
        return None;
    }
    let (args, first): (u64, u32);
    // SAFETY: the address of the arguments, and an element of an array there.
    unsafe {
        asm!("mov.b64 {0}, param_0;", out(reg64) args, options(pure, nomem, nostack));
        asm!(
            "ld.param.b32 {0}, [{1} + {2}];",
            out(reg32) first, in(reg64) args + 4 * u64::from(node), const offset_of!(GetConstantArgs<K, V>, top),
            options(pure, nomem, nostack)
        );
    }
    Some(first)
}
