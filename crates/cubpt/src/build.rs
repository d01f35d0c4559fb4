//! The options of a tree, and its build from pairs in main memory.

use crate::Cubpt;
use crate::mapping::{Mapping, Shape};
use crate::tree::Tree;
use crate::tuning::TUNING;
use core::marker::PhantomData;
use lanetree_frame::fixed::pairs::{are_distinct, check_lengths};
use lanetree_frame::fixed::{SortedPairs, Staging};
use lanetree_frame::parallel::*;
use lanetree_frame::{Device, Error, Guarded, IndexBuilder, Result};
use lanetree_kernels_cubpt::layout::ORDERS;
use lanetree_layout::{Key, Word};
use lanetree_primitives::{BuildScratch, DevicePairs};
use lanetree_runtime::{Buffer, Stream};

/// Options of a tree, and its bulk build.
///
/// ```
/// use lanetree::{Cubpt, Device};
///
/// # fn main() -> lanetree::Result<()> {
/// let tree = Cubpt::builder().fanout(64).fill(0.7).build(&Device::host(), &[3_u32, 1, 2, 1], &[30_u32, 10, 20, 11])?;
/// assert_eq!(tree.get_many(&[1, 2, 3])?, [Some(11), Some(20), Some(30)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct Builder<K, V> {
    fanout: Option<u32>,
    fill: f64,
    mapping: Mapping,
    words: PhantomData<(K, V)>,
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self { fanout: None, fill: 1.0, mapping: Mapping::default(), words: PhantomData }
    }
}

impl<K: Key, V: Word> Builder<K, V> {
    /// Most keys of a node, the paper's m: a multiple of 8 from 8 to 512. Default: 24, the fastest for 8-byte keys and values on H100
    /// and H200.
    #[must_use]
    pub fn fanout(self, fanout: u32) -> Self {
        Self { fanout: Some(fanout), ..self }
    }

    /// The part of each node that a build fills, in (0, 1]; 1 by default, as in the paper. A node gets at least two keys.
    #[must_use]
    pub fn fill(self, fill: f64) -> Self {
        Self { fill, ..self }
    }

    /// How threads are mapped to keys on a device; [`Mapping::PerNode`] by default.
    #[must_use]
    pub fn mapping(self, mapping: Mapping) -> Self {
        Self { mapping, ..self }
    }

    /// Builds a tree over pairs in any order. Of equal keys, the last one's value is kept. For the first, or an error:
    /// [`IndexBuilder::build_by`](lanetree_frame::IndexBuilder::build_by) with [`BuildRules`](lanetree_frame::BuildRules).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::OptionValue`] for a fanout and [`Error::Fill`] for a fill that no tree has;
    /// [`Error::TooManyLeaves`]; [`Error::Runtime`] if the device has no room.
    pub fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<Cubpt<K, V>> {
        self.shape(device)?;
        self.build_pairs(device, &SortedPairs::sort(keys, values)?)
    }

    /// Builds a tree over pairs in ascending order of their keys. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`Error::NotSorted`] with the first key that is below the one before.
    pub fn build_sorted(&self, device: &Device, keys: &[K], values: &[V]) -> Result<Cubpt<K, V>> {
        let shape = self.shape(device)?;
        check_lengths(keys, values)?;
        if are_distinct(keys)? {
            return Ok(Self::of(device, shape, Tree::build(device, shape, keys, values)?));
        }
        self.build_pairs(device, &SortedPairs::from_sorted(keys, values)?)
    }

    /// Builds a tree over the first `len` pairs of two buffers, in any order: a radix sort, and
    /// [`Builder::build_sorted_on`]. Of equal keys, the last one's value is kept. Returns when the tree is complete, whose
    /// memory, and later what its host batches take, comes from the stream's device. On the host as [`Builder::build`],
    /// without the scratch memory.
    ///
    /// # Errors
    /// As [`Builder::build`]; [`Error::OutputLength`] for buffers or scratch memory that are too small; [`Error::Runtime`] for
    /// buffers of another device than the stream's.
    pub fn build_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        len: usize,
        scratch: &mut BuildScratch<K, V>,
    ) -> Result<Cubpt<K, V>> {
        self.shape(stream.device())?;
        let pairs = DevicePairs { keys, values, len };
        if let Some((keys, values)) = scratch.check(stream, pairs)? {
            return self.build(stream.device(), keys, values);
        }
        scratch.unsorted(stream, pairs, |pairs| self.build_distinct_on(stream, pairs))
    }

    /// Builds a tree over the first `len` pairs of two buffers, in ascending order of their keys. Of equal keys, the last one's
    /// value is kept. Otherwise like [`Builder::build_on`].
    ///
    /// # Errors
    /// As [`Builder::build_on`], and [`Error::NotSorted`].
    pub fn build_sorted_on(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        len: usize,
        scratch: &mut BuildScratch<K, V>,
    ) -> Result<Cubpt<K, V>> {
        self.shape(stream.device())?;
        let pairs = DevicePairs { keys, values, len };
        if let Some((keys, values)) = scratch.check(stream, pairs)? {
            return self.build_sorted(stream.device(), keys, values);
        }
        scratch.sorted(stream, pairs, |pairs| self.build_distinct_on(stream, pairs))
    }

    fn build_distinct_on(&self, stream: &Stream, pairs: DevicePairs<'_, K, V>) -> Result<Cubpt<K, V>> {
        let device = stream.device();
        let shape = self.shape(device)?;
        Ok(Self::of(device, shape, Tree::build_on(stream, device, shape, pairs)?))
    }

    fn build_pairs(&self, device: &Device, pairs: &SortedPairs<K::Bits, V>) -> Result<Cubpt<K, V>> {
        let keys = pairs.keys.par_iter().map(|&word| K::decode(word)).try_collect()?;
        let shape = self.shape(device)?;
        Ok(Self::of(device, shape, Tree::build(device, shape, &keys, &pairs.values)?))
    }

    fn of(device: &Device, (fanout, fill, mapping): Shape, tree: Tree) -> Cubpt<K, V> {
        let (device, tree) = (device.clone(), Guarded::new(tree));
        Cubpt {
            device,
            fanout,
            fill,
            mapping,
            tree,
            staging: Staging::default(),
            changes: Default::default(),
            words: PhantomData,
        }
    }

    /// The shape of a tree on a device.
    fn shape(&self, device: &Device) -> Result<Shape> {
        let fanout = match self.fanout {
            Some(fanout) => fanout,
            None => TUNING.on(device)?.fanout,
        };
        if !ORDERS.contains(&fanout) || !fanout.is_multiple_of(8) {
            let allowed = "a multiple of 8 from 8 to 512";
            return Err(Error::OptionValue { what: "a fanout", value: fanout.to_string(), allowed });
        }
        // Written so that a fill of NaN is also rejected.
        if !(self.fill > 0.0 && self.fill <= 1.0) {
            return Err(Error::Fill { fill: self.fill });
        }
        Ok((fanout, self.fill, self.mapping))
    }
}

impl<K: Key, V: Word> IndexBuilder for Builder<K, V> {
    type Index = Cubpt<K, V>;

    fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<Cubpt<K, V>> {
        self.build(device, keys, values)
    }
}
