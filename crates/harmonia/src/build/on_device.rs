//! Bulk build on the device, from pairs that are already there.

use super::Builder;
use crate::tuning::check_fanout;
use crate::{Harmonia, launch};
use core::marker::PhantomData;
use lanetree_frame::Result;
use lanetree_kernels_harmonia::build::{FillInnerArgs, FillLeavesArgs, SLOTS};
use lanetree_kernels_harmonia::calls;
use lanetree_kernels_harmonia::layout::{Shape, leaf_bytes};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{BuildScratch, DevicePairs};
use lanetree_runtime::{Buffer, Device, Stream};

impl<K: Key, V: Word> Builder<K, V> {
    /// Builds a tree over the first `len` pairs of two buffers, in any order: a radix sort, and
    /// [`Builder::build_sorted_on`]. Of equal keys, the last one's value is kept. Returns when the tree is complete.
    /// The tree's memory, and later what its host batches take, comes from the stream's device: from its
    /// [pool](lanetree_frame::Pool), if that handle has one. On the host as [`Builder::build`], without the scratch
    /// memory.
    ///
    /// # Errors
    /// As [`Builder::build`]; [`OutputLength`](lanetree_frame::Error::OutputLength) for buffers or scratch memory that are
    /// too small; [`Runtime`](lanetree_frame::Error::Runtime) for buffers of another device than the stream's.
    pub fn build_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        len: usize,
        scratch: &mut BuildScratch<K, V>,
    ) -> Result<Harmonia<K, V>> {
        let pairs = DevicePairs { keys, values, len };
        if let Some((keys, values)) = scratch.check(stream, pairs)? {
            return self.build(stream.device(), keys, values);
        }
        self.shape(len)?;
        scratch.unsorted(stream, pairs, |pairs| self.build_distinct_on(stream, pairs))
    }

    /// Builds a tree over the first `len` pairs of two buffers, in ascending order of their keys. Of equal keys the
    /// last one's value is kept. Returns when the tree is complete. On the host as [`Builder::build_sorted`].
    ///
    /// # Errors
    /// As [`Builder::build_on`], and [`NotSorted`](lanetree_frame::Error::NotSorted).
    pub fn build_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        len: usize,
        scratch: &mut BuildScratch<K, V>,
    ) -> Result<Harmonia<K, V>> {
        let pairs = DevicePairs { keys, values, len };
        if let Some((keys, values)) = scratch.check(stream, pairs)? {
            return self.build_sorted(stream.device(), keys, values);
        }
        self.shape(len)?;
        scratch.sorted(stream, pairs, |pairs| self.build_distinct_on(stream, pairs))
    }

    /// Builds from strictly ascending pairs.
    fn build_distinct_on(
        &self,
        stream: &Stream,
        DevicePairs { keys, values, len }: DevicePairs<'_, K, V>,
    ) -> Result<Harmonia<K, V>> {
        let (shape, device) = (self.shape(len)?, stream.device());
        check_fanout(device, shape.fanout)?;
        let mut regions = Regions::<K::Bits, V>::new(device, &shape, 0)?;
        if shape.leaves > 0 {
            let filling = shape.filling();
            let args = FillLeavesArgs {
                keys: lanetree_frame::fixed::bits::<K>(stream, keys)?,
                values: values.read_on(stream)?,
                leaves: regions.leaves.write_on(stream)?.cast(),
                filling,
                flip: K::FLIP,
            };
            let slots = shape.leaves as usize * shape.fanout as usize;
            let launch = launch::over(stream, slots.div_ceil(SLOTS) as u64, 1)?;
            // SAFETY: keys and values were checked to be of this length; the leaves are made for it; every pointer is
            // for this stream.
            unsafe { launch.run(calls::fill_leaves::<K::Bits, V>(&args))? };
            regions.fill_inner(stream, &shape)?;
        }
        stream.synchronize()?;
        let Regions { inner, prefix_sum, leaves, .. } = regions;
        Ok(Harmonia::of(device, shape, inner, prefix_sum, leaves))
    }
}

/// The memory of a tree's regions; it may have more room than the tree needs.
#[derive(Debug)]
pub(crate) struct Regions<K: Word, V: Word> {
    pub(crate) inner: Buffer<K>,
    pub(crate) prefix_sum: Buffer<u32>,
    pub(crate) leaves: Buffer<u64>,
    words: PhantomData<V>,
}

impl<K: Word, V: Word> Regions<K, V> {
    /// Room for a shape, and for `slack` more leaves and the nodes above them.
    pub(crate) fn new(device: &Device, shape: &Shape, slack: u32) -> Result<Self> {
        let with_slack = |nodes: u32| nodes as usize + slack as usize;
        let leaf_words = leaf_bytes::<K, V>(shape.fanout) as usize / 8;
        Ok(Self {
            inner: device.alloc(with_slack(shape.inner) * shape.fanout as usize)?,
            prefix_sum: device.alloc(with_slack(shape.inner))?,
            leaves: device.alloc(with_slack(shape.leaves) * leaf_words)?,
            words: PhantomData,
        })
    }

    pub(crate) fn of(inner: Buffer<K>, prefix_sum: Buffer<u32>, leaves: Buffer<u64>) -> Self {
        Self { inner, prefix_sum, leaves, words: PhantomData }
    }

    /// Whether there is room for a shape.
    pub(crate) fn has_room(&self, shape: &Shape) -> bool {
        self.inner.len() as u64 >= shape.inner_slots()
            && self.prefix_sum.len() >= shape.inner as usize
            && self.leaves.bytes() as u64 >= shape.leaf_region_bytes::<K, V>()
    }

    /// Fills the inner nodes above full leaves. In the stream's order.
    pub(crate) fn fill_inner(&mut self, stream: &Stream, shape: &Shape) -> Result<()> {
        let mut under_child = 1;
        for level in (0..shape.height).rev() {
            let nodes = shape.level_nodes[level as usize];
            let args = FillInnerArgs {
                leaves: self.leaves.read_on(stream)?.cast(),
                inner: self.inner.write_on(stream)?,
                prefix_sum: self.prefix_sum.write_on(stream)?,
                under_child,
                leaf_count: shape.leaves,
                fanout: shape.fanout,
                children: shape.children,
                first_node: shape.level_first(level),
                nodes,
                first_child: shape.level_first(level + 1),
            };
            let launch = launch::over(stream, nodes.into(), shape.fanout)?;
            // SAFETY: the regions are made for the shape; every pointer is for this stream.
            unsafe { launch.run(calls::fill_inner::<K, V>(&args))? };
            under_child *= u64::from(shape.children);
        }
        Ok(())
    }

    /// Bytes of all.
    pub(crate) fn bytes(&self) -> usize {
        self.inner.bytes() + self.prefix_sum.bytes() + self.leaves.bytes()
    }
}
