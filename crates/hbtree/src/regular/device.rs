//! The inner levels on a device.

use super::RegularInner;
use super::nodes::{last_lines, upper_lines};
use super::pool::Pool;
use crate::device::Descending;
use crate::line::Line;
use crate::options::DeviceSearch;
use crate::structure::InnerOnDevice;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parcel::Parcel;
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_hbtree::layout::words;
use lanetree_kernels_hbtree::{DescendRegularArgs, RegularRef, calls};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;

/// First fragments in device memory, at the same places as in host memory.
#[derive(Debug)]
pub struct RegularOnDevice<B> {
    pub(super) upper: Buffer<B>,
    pub(super) last: Buffer<B>,
    pub(super) root: u32,
    pub(super) height: u32,
    /// The memory of batches of changes, kept for the next ones; the latter is the emulator's.
    pub(super) parcels: Vec<Parcel>,
    pub(super) emulated: Buffer<u64>,
}

impl<B: Word> RegularOnDevice<B> {
    /// A copy with room for `last_end` nodes of the last level, `upper_end` nodes above it, and a sixteenth more of
    /// each. Complete on return.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(super) fn upload(device: &Device, inner: &RegularInner<B>, upper_end: u32, last_end: u32) -> Result<Self> {
        let array = |lines: &[Line], stride: usize, used: u32, end: u32| -> Result<Buffer<B>> {
            let room = Pool::room(end.into(), u32::MAX.into()) as usize * stride;
            let mut array = device.alloc(words_of::<B>(room.min(lines.len())))?;
            array.copy_range_from(0, bytemuck::cast_slice(&lines[..used as usize * stride]))?;
            Ok(array)
        };
        let upper = array(&inner.upper, upper_lines::<B>(), inner.pool.end, upper_end)?;
        let last = array(&inner.last, last_lines::<B>(), inner.last_end, last_end)?;
        Ok(Self {
            upper,
            last,
            root: inner.root,
            height: inner.height,
            parcels: Vec::new(),
            emulated: device.alloc(0)?,
        })
    }

    /// Takes all nodes of the host, for which there is room; complete on return.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime); part of the copy may be new.
    pub(super) fn take_all(&mut self, inner: &RegularInner<B>) -> Result<()> {
        let upper = &inner.upper[..inner.pool.end as usize * upper_lines::<B>()];
        let last = &inner.last[..inner.last_end as usize * last_lines::<B>()];
        self.upper.copy_range_from(0, bytemuck::cast_slice(upper))?;
        self.last.copy_range_from(0, bytemuck::cast_slice(last))?;
        (self.root, self.height) = (inner.root, inner.height);
        Ok(())
    }

    /// Whether there is room for nodes with numbers below `upper_end` and `last_end`.
    pub(super) fn has_room_for(&self, upper_end: u32, last_end: u32) -> bool {
        self.upper.len() >= words_of::<B>(upper_end as usize * upper_lines::<B>())
            && self.last.len() >= words_of::<B>(last_end as usize * last_lines::<B>())
    }
}

fn words_of<B: Word>(lines: usize) -> usize {
    lines * words::<B>() as usize
}

impl<K: Key> InnerOnDevice<K> for RegularOnDevice<K::Bits> {
    type Scratch = ();

    fn bytes(&self) -> u64 {
        (self.upper.bytes() + self.last.bytes()) as u64
    }

    fn staging_bytes(&self) -> usize {
        self.parcels.iter().map(Parcel::bytes).sum::<usize>() + self.emulated.bytes()
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
        let (upper, last) = (self.upper.read_on(stream)?, self.last.read_on(stream)?);
        let tree = RegularRef { upper, last, root: self.root, height: self.height, flip: K::FLIP };
        let args = DescendRegularArgs { tree, queries, count: count as u64, from, nodes, leaves };
        let (width, call) = match search {
            DeviceSearch::Ballot => (1, calls::descend_regular(&args)),
            DeviceSearch::Shared => (words::<K::Bits>(), calls::descend_regular_shared(&args)),
        };
        // SAFETY: the caller's contract; the inner levels are valid, and borrowed.
        Ok(unsafe { launch::over(stream, count as u64, width, THREADS)?.run(call) }?)
    }
}

#[cfg(any(test, feature = "check"))]
impl<B: Word> RegularOnDevice<B> {
    /// Checks that nodes are on the device what they are on the host.
    pub(super) fn check_against(
        &self,
        inner: &RegularInner<B>,
        last: impl IntoIterator<Item = u32>,
        upper: impl IntoIterator<Item = u32>,
    ) {
        assert_eq!((self.root, self.height), (inner.root, inner.height));
        let is_same = |on_device: &[B], lines: &[Line], stride: usize, node: u32| {
            let words = |node: usize| words_of::<B>(node * stride)..words_of::<B>((node + 1) * stride);
            let on_host: &[B] = bytemuck::cast_slice(lines);
            assert_eq!(on_device[words(node as usize)], on_host[words(node as usize)], "node {node}");
        };
        let (upper_words, last_words) = (self.upper.to_vec().unwrap(), self.last.to_vec().unwrap());
        last.into_iter().for_each(|node| is_same(&last_words, &inner.last, last_lines::<B>(), node));
        upper.into_iter().for_each(|node| is_same(&upper_words, &inner.upper, upper_lines::<B>(), node));
    }
}
