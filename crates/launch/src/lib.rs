//! The way from a choice of kernel to its launch.
//!
//! An index is generic, so its code is compiled in the crate that names its types. The kernels must not be:
//! as the emulator runs them they are hundreds of functions, and every test and every example would compile
//! them again, for minutes. So this crate has a function without type parameters for each kernel and each
//! pair of words, and generic functions that only choose among those. Kernels are compiled with this
//! crate, once, and nothing else is in it: what buffers a kernel may be given is the library's to know.
//!
//! Every function returns what [`Stream::launch`] does, and like it may return before the kernel is done.

pub mod cuart;
pub mod harmonia;
pub mod primitives;
pub mod radix_sort;

use lanetree_runtime::{Result, Stream};
use lanetree_simt::{Instance, LaunchShape, Launcher};

/// A launch, but for the kernel and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    stream: &'a Stream,
    shape: LaunchShape,
}

impl<'a> Launch<'a> {
    /// A launch in a stream.
    ///
    /// # Safety
    /// The contract of the kernel that will be launched holds for its arguments, this stream and this shape:
    /// see [`Stream::launch`].
    pub const unsafe fn new(stream: &'a Stream, shape: LaunchShape) -> Self {
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
}

impl Launcher for Launch<'_> {
    type Output = Result<()>;

    fn launch<I: Instance>(self, args: &I::Args) -> Result<()> {
        // SAFETY: whoever made `self` promised it.
        unsafe { self.stream.launch::<I>(self.shape, args) }
    }
}
