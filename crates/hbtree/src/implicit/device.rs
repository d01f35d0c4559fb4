//! The inner levels on a device.

use crate::device::Descending;
use crate::implicit::ImplicitInner;
use crate::options::DeviceSearch;
use crate::structure;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_hbtree::layout::words;
use lanetree_kernels_hbtree::{DescendArgs, ImplicitRef, calls};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;

/// Inner levels in device memory, as they are in host memory.
#[derive(Debug)]
pub struct ImplicitOnDevice<B> {
    separators: Buffer<B>,
    levels: Buffer<u32>,
    height: u32,
    fanout: u32,
}

impl<B: Word> ImplicitOnDevice<B> {
    /// A copy, complete on return.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn upload(device: &Device, inner: &ImplicitInner<B>) -> Result<Self> {
        let separators = device.upload(bytemuck::cast_slice(inner.lines()))?;
        let levels = device.upload(inner.levels())?;
        Ok(Self { separators, levels, height: inner.levels().len() as u32 - 1, fanout: inner.children() })
    }
}

impl<K: Key> structure::InnerOnDevice<K> for ImplicitOnDevice<K::Bits> {
    type Scratch = ();

    fn bytes(&self) -> u64 {
        (self.separators.bytes() + self.levels.bytes()) as u64
    }

    fn scratch(_: &Device, _: usize) -> Result<()> {
        Ok(())
    }

    fn scratch_bytes((): &()) -> usize {
        0
    }

    unsafe fn launch(
        &self,
        stream: &Stream,
        search: DeviceSearch,
        (): &mut (),
        Descending { queries, nodes, from, count, leaves }: Descending<K::Bits>,
    ) -> Result<()> {
        let (separators, levels) = (self.separators.read_on(stream)?, self.levels.read_on(stream)?);
        let tree = ImplicitRef { separators, levels, height: self.height, fanout: self.fanout, flip: K::FLIP };
        let args = DescendArgs { tree, queries, count: count as u64, from, nodes, leaves };
        let (width, call) = match search {
            DeviceSearch::Ballot => (1, calls::descend(&args)),
            DeviceSearch::Shared => (words::<K::Bits>(), calls::descend_shared(&args)),
        };
        // SAFETY: the caller's contract; the inner levels are valid, and borrowed.
        Ok(unsafe { launch::over(stream, count as u64, width, THREADS)?.run(call) }?)
    }
}
