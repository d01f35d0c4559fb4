//! The inner levels on a device.

use super::RegularInner;
use super::nodes::{last_lines, upper_lines};
use super::pool::Pool;
use crate::device::Descending;
use crate::line::Line;
use crate::options::DeviceSearch;
use crate::structure::InnerOnDevice;
use core::ops::Range;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, Result, Stream, spans};
use lanetree_kernels_hbtree::layout::{LINE, words};
use lanetree_kernels_hbtree::{DescendRegularArgs, RegularRef, calls};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;
use rayon::prelude::*;

/// First fragments in device memory, at the same places as in host memory.
#[derive(Debug)]
pub struct RegularOnDevice<B> {
    upper: Buffer<B>,
    last: Buffer<B>,
    root: u32,
    height: u32,
}

/// Nodes of an array that are to have other lines.
#[derive(Debug, Default)]
pub(super) struct Patch {
    /// In ascending order.
    pub(super) nodes: Vec<u32>,
    /// The lines of each.
    pub(super) lines: Vec<Line>,
}

impl Patch {
    /// Nodes of so many lines, which are yet to be written.
    pub(super) fn of(nodes: impl Iterator<Item = u32>, stride: usize) -> Self {
        let nodes: Vec<u32> = nodes.collect();
        // In parallel: the system gives large memory page by page, and that takes longer than the rest.
        let line = |_| Line::EMPTY;
        let lines = (0..nodes.len() * stride).into_par_iter().with_min_len(1 << 14).map(line).collect();
        Self { nodes, lines }
    }
}

/// Both arrays of nodes as they are to be.
pub(super) struct Target<'a, B> {
    pub(super) inner: &'a RegularInner<B>,
    pub(super) upper: &'a Patch,
    pub(super) last: &'a Patch,
    /// Nodes in use, without gaps.
    pub(super) upper_end: u32,
    pub(super) last_end: u32,
    pub(super) root: u32,
    pub(super) height: u32,
}

/// Bytes that are put together at a time.
const PIECE: usize = 1 << 20;

impl<B: Word> RegularOnDevice<B> {
    /// A copy, complete on return.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(super) fn upload(device: &Device, inner: &RegularInner<B>) -> Result<Self> {
        let patch = Patch::default();
        let (upper_end, last_end) = (inner.pool.end, inner.last_end);
        let (root, height) = (inner.root, inner.height);
        let target = Target { inner, upper: &patch, last: &patch, upper_end, last_end, root, height };
        Self::of(device, &target)
    }

    /// A new copy, complete on return, with a sixteenth of room to spare.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn of(device: &Device, target: &Target<'_, B>) -> Result<Self> {
        let Target { inner, root, height, .. } = *target;
        let room = |end: u32, stride: usize, lines: usize| {
            let nodes = Pool::room(end.into(), u32::MAX.into()) as usize;
            words_of::<B>((nodes * stride).min(lines))
        };
        let mut upper = device.alloc(room(target.upper_end, upper_lines::<B>(), inner.upper.len()))?;
        let mut last = device.alloc(room(target.last_end, last_lines::<B>(), inner.last.len()))?;
        send(&mut upper, &inner.upper, upper_lines::<B>(), target.upper, 0..target.upper_end as usize)?;
        send(&mut last, &inner.last, last_lines::<B>(), target.last, 0..target.last_end as usize)?;
        Ok(Self { upper, last, root, height })
    }

    /// Whether there is room for so many nodes.
    pub(super) fn has_room_for(&self, upper_end: u32, last_end: u32) -> bool {
        self.upper.len() >= words_of::<B>(upper_end as usize * upper_lines::<B>())
            && self.last.len() >= words_of::<B>(last_end as usize * last_lines::<B>())
    }

    /// Sends the nodes of both patches, and the root. After an error the copy is of no use.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn patch(&mut self, target: &Target<'_, B>) -> Result<()> {
        let inner = target.inner;
        patch(&mut self.upper, &inner.upper, upper_lines::<B>(), target.upper)?;
        self.patch_last(inner, target.last)?;
        (self.root, self.height) = (target.root, target.height);
        Ok(())
    }

    /// Sends nodes of the last level. After an error the copy is of no use.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn patch_last(&mut self, inner: &RegularInner<B>, last: &Patch) -> Result<()> {
        patch(&mut self.last, &inner.last, last_lines::<B>(), last)
    }
}

/// Sends nodes, those that are near each other together; if they are more than half of those between the first and the last,
/// all of these together.
fn patch<B: Word>(to: &mut Buffer<B>, from: &[Line], stride: usize, patch: &Patch) -> Result<()> {
    let (Some(&first), Some(&last)) = (patch.nodes.first(), patch.nodes.last()) else { return Ok(()) };
    let all = first as usize..last as usize + 1;
    if 2 * patch.nodes.len() > all.len() {
        return send(to, from, stride, patch, all);
    }
    spans(&patch.nodes, (stride * LINE) as u64)
        .try_for_each(|span| send(to, from, stride, patch, span.start as usize..span.end as usize))
}

fn words_of<B: Word>(lines: usize) -> usize {
    lines * words::<B>() as usize
}

/// Copies nodes of `stride` lines each, those of the patch as it has them.
fn send<B: Word>(to: &mut Buffer<B>, from: &[Line], stride: usize, patch: &Patch, nodes: Range<usize>) -> Result<()> {
    let (mut start, piece) = (nodes.start, PIECE / (stride * LINE));
    let mut lines = Vec::new();
    while start < nodes.end {
        let end = (start + piece).min(nodes.end);
        lines.clear();
        lines.extend_from_slice(&from[start * stride..end * stride]);
        let within = |bound: usize| patch.nodes.partition_point(|&node| (node as usize) < bound);
        for i in within(start)..within(end) {
            let at = (patch.nodes[i] as usize - start) * stride;
            lines[at..at + stride].copy_from_slice(&patch.lines[i * stride..(i + 1) * stride]);
        }
        to.copy_range_from(words_of::<B>(start * stride), bytemuck::cast_slice(&lines))?;
        start = end;
    }
    Ok(())
}

impl<K: Key> InnerOnDevice<K> for RegularOnDevice<K::Bits> {
    type Scratch = ();

    fn bytes(&self) -> u64 {
        (self.upper.bytes() + self.last.bytes()) as u64
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

#[cfg(test)]
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
