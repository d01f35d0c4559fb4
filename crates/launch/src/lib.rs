//! The choice of a kernel for a launch.
//!
//! An index is generic, so its code is compiled in the crate that names its types. The kernels must not be:
//! as the emulator runs them they are hundreds of functions, and every test and every example would compile
//! them again, for minutes. So this crate has a function without type parameters for each kernel and each
//! pair of words, and generic functions that only choose among those. Kernels are compiled with this
//! crate, once, and nothing else is in it: what buffers a kernel may be given is the library's to know.
//!
//! The functions only choose: a kernel with its arguments is a [`Call`], and to launch one ([`Launch::run`]) is unsafe,
//! where it is known which kernel it is and what its arguments are.

pub mod cuart;
pub mod harmonia;
pub mod primitives;
pub mod radix_sort;

use lanetree_runtime::{Call, Result, Stream};
use lanetree_simt::{Instance, LaunchShape, Launcher};

/// Blocks and threads in a stream, for a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    stream: &'a Stream,
    shape: LaunchShape,
}

impl<'a> Launch<'a> {
    /// Of a shape, in a stream.
    pub const fn new(stream: &'a Stream, shape: LaunchShape) -> Self {
        Self { stream, shape }
    }

    /// The stream.
    pub const fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// Blocks and threads.
    pub const fn shape(&self) -> LaunchShape {
        self.shape
    }

    /// Launches a kernel. May return before it is done.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    ///
    /// # Safety
    /// As [`Stream::launch`].
    pub unsafe fn run(self, call: Call<'_>) -> Result<()> {
        // SAFETY: the same contract.
        unsafe { self.stream.call(self.shape, call) }
    }
}

/// Turns the instance that a kernel crate's table arrives at into a call.
#[derive(Clone, Copy)]
struct Choose;

impl<'a> Launcher<'a> for Choose {
    type Output = Call<'a>;

    fn launch<I: Instance>(self, args: &'a I::Args) -> Call<'a> {
        Call::of::<I>(args)
    }
}
