//! Bulk build on the CPU, in parallel.

mod on_device;

pub(crate) use on_device::Regions;

use crate::Harmonia;
use crate::tuning::check_fanout;
use core::marker::PhantomData;
use lanetree_frame::Guarded;
use lanetree_frame::fixed::Staging;
use lanetree_frame::fixed::pairs::{are_distinct, check_lengths, encoded, keep_last, sorted};
use lanetree_frame::parallel::*;
use lanetree_frame::room::zeroed;
use lanetree_frame::{Error, IndexBuilder, Result};
use lanetree_kernels_harmonia::layout::{FANOUTS, Shape, leaf_bytes};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_runtime::{Buffer, Device};

/// Options of a tree, and its bulk build.
///
/// ```
/// use lanetree::{Device, Harmonia};
///
/// # fn main() -> lanetree::Result<()> {
/// let tree = Harmonia::builder()
///     .fanout(16)
///     .fill(0.7)
///     .build(&Device::host(), &[3_u32, 1, 2, 1], &[30_u32, 10, 20, 11])?;
/// assert_eq!(tree.get_many(&[1, 2, 3])?, [Some(11), Some(20), Some(30)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct Builder<K, V> {
    fanout: Option<u32>,
    fill: Option<f64>,
    words: PhantomData<(K, V)>,
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self { fanout: None, fill: None, words: PhantomData }
    }
}

impl<K: Key, V: Word> IndexBuilder for Builder<K, V> {
    type Index = Harmonia<K, V>;

    fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<Harmonia<K, V>> {
        self.build(device, keys, values)
    }
}

impl<K: Key, V: Word> Builder<K, V> {
    /// Slots of a node: 8, 16, 32, 64 or 128. By default a node of keys is 64 bytes, the unit in which
    /// the GPU's memory is read: 8 slots of 8-byte keys, 16 of 4-byte keys. Larger nodes are the paper's; on a device they need
    /// the feature `papers`.
    #[must_use]
    pub fn fanout(self, fanout: u32) -> Self {
        Self { fanout: Some(fanout), ..self }
    }

    /// The part of each leaf's slots that the build fills, in (0, 1]; 1 by default. A leaf gets at least one pair. Free
    /// slots are for inserts, which then need not move other leaves. Inner nodes are always full: no update adds
    /// children to one.
    #[must_use]
    pub fn fill(self, fill: f64) -> Self {
        Self { fill: Some(fill), ..self }
    }

    /// Builds a tree over pairs in any order. Of equal keys, the last one's value is kept. For the first, or an error:
    /// [`IndexBuilder::build_by`](lanetree_frame::IndexBuilder::build_by) with [`BuildRules`](lanetree_frame::BuildRules).
    ///
    /// Sorts a copy of the pairs with all of rayon's threads; returns when the tree is on the device.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::Fanout`], [`Error::Feature`], [`Error::Fill`], [`Error::TooManyPairs`];
    /// [`Error::Runtime`] if the device has no room.
    pub fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<Harmonia<K, V>> {
        self.shape(keys.len())?;
        self.build_pairs(device, &sorted(keys, values)?)
    }

    /// Builds a tree over pairs in ascending order of their keys. Of equal keys, which must be next to each other, the
    /// last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`Error::NotSorted`] with the first key that is below the one before.
    pub fn build_sorted(&self, device: &Device, keys: &[K], values: &[V]) -> Result<Harmonia<K, V>> {
        check_lengths(keys, values)?;
        self.shape(keys.len())?;
        if !are_distinct(keys)? {
            let mut pairs = encoded(keys, values)?;
            keep_last(&mut pairs);
            return self.build_pairs(device, &pairs);
        }
        build_distinct(device, self.shape(keys.len())?, |i| (keys[i].encode(), values[i]))
    }

    fn build_pairs(&self, device: &Device, pairs: &[(K::Bits, V)]) -> Result<Harmonia<K, V>> {
        build_distinct(device, self.shape(pairs.len())?, |i| pairs[i])
    }

    /// # Errors
    /// For options that no tree can have.
    pub(super) fn shape(&self, len: usize) -> Result<Shape> {
        let fanout = self.fanout.unwrap_or(64 / K::Bits::BYTES as u32);
        let fill = self.fill.unwrap_or(1.0);
        if !FANOUTS.contains(&fanout) {
            return Err(Error::Fanout { fanout, available: &FANOUTS });
        }
        // Written so that a fill of NaN is also rejected.
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(Error::Fill { fill });
        }
        Shape::bulk(len as u64, fanout, fill).ok_or(Error::TooManyPairs { pairs: len, fanout, fill })
    }
}

/// Builds from `shape.len` strictly ascending pairs; each pair may be requested several times.
pub(super) fn build_distinct<K: Key, V: Word>(
    device: &Device,
    shape: Shape,
    pair: impl Fn(usize) -> (K::Bits, V) + Sync,
) -> Result<Harmonia<K, V>> {
    check_fanout(device, shape.fanout)?;
    // Allocate all device memory first: if there is not enough, no work was wasted.
    let mut inner = device.alloc::<K::Bits>(shape.inner_slots() as usize)?;
    let mut prefix_sum = device.alloc::<u32>(shape.inner as usize)?;
    let mut leaves = device.alloc::<u64>((shape.leaf_region_bytes::<K::Bits, V>() / 8) as usize)?;
    // Called only for leaves that another one follows; these are full.
    let last_key = |leaf: usize| pair((leaf + 1) * shape.per_leaf as usize - 1).0;
    // Most of the tree: made in pinned memory, from where the bus takes it.
    let staging = Staging::<K, V>::default();
    let leaf_words = leaf_bytes::<K::Bits, V>(shape.fanout) as usize / 8;
    staging.queries.upload_made(leaves.len(), leaf_words, &mut leaves, &|at, words| {
        fill_leaves::<K::Bits, V>(&shape, at / leaf_words, words, &pair);
    })?;
    // Not kept for the tree's batches: it may have none.
    drop(staging);
    fill_buffer(&mut inner, |words| fill_inner(&shape, words, &last_key))?;
    fill_buffer(&mut prefix_sum, |children| fill_prefix_sum(&shape, children))?;
    Ok(Harmonia::of(device, shape, inner, prefix_sum, leaves))
}

impl<K: Key, V: Word> Harmonia<K, V> {
    fn of(device: &Device, shape: Shape, inner: Buffer<K::Bits>, prefix_sum: Buffer<u32>, leaves: Buffer<u64>) -> Self {
        let device = device.clone();
        Self {
            device,
            shape,
            inner,
            prefix_sum,
            leaves,
            ranks: None,
            lens: None,
            staging: Staging::default(),
            changes: Default::default(),
            whole: Guarded::default(),
            words: PhantomData,
        }
    }
}

/// Lets `fill` write a buffer: in place if it is main memory, else through a copy in main memory.
fn fill_buffer<T: Word>(buffer: &mut Buffer<T>, fill: impl FnOnce(&mut [T])) -> Result<()> {
    if let Some(slice) = buffer.as_mut_slice() {
        fill(slice);
        return Ok(());
    }
    let mut host = zeroed(buffer.len())?;
    fill(&mut host);
    Ok(buffer.copy_from(&host)?)
}

/// The nodes of an inner level.
fn level_range(shape: &Shape, level: u32) -> core::ops::Range<usize> {
    let first = shape.level_first(level) as usize;
    first..first + shape.level_nodes[level as usize] as usize
}

/// The index of the first child of the `i`-th node of an inner level: the prefix sum of the numbers of
/// children before it, which are all the same.
fn first_child(shape: &Shape, level: u32, i: u32) -> u32 {
    shape.level_first(level + 1) + i * shape.children
}

/// Fills leaves, from the one with number `first` on.
fn fill_leaves<K: Word, V: Word>(
    shape: &Shape,
    first: usize,
    words: &mut [u64],
    pair: &(impl Fn(usize) -> (K, V) + Sync),
) {
    let fanout = shape.fanout as usize;
    let leaf_words = leaf_bytes::<K, V>(shape.fanout) as usize / 8;
    words.chunks_exact_mut(leaf_words).enumerate().for_each(|(i, words)| {
        let leaf = first + i;
        let (keys, values) = bytemuck::cast_slice_mut::<u64, u8>(words).split_at_mut(fanout * K::BYTES);
        let keys: &mut [K] = bytemuck::cast_slice_mut(keys);
        let values: &mut [V] = bytemuck::cast_slice_mut(values);
        let first = leaf * shape.per_leaf as usize;
        let last = shape.leaf_len(leaf as u32) as usize - 1;
        for slot in 0..fanout {
            (keys[slot], values[slot]) = pair(first + slot.min(last));
        }
    });
}

/// Fills the child region of inner nodes, which all have [`Shape::children`] children, except for the last one of each
/// level.
pub(super) fn fill_prefix_sum(shape: &Shape, children: &mut [u32]) {
    for level in 0..shape.height {
        let nodes = level_range(shape, level);
        children[nodes].par_iter_mut().enumerate().for_each(|(i, child)| {
            *child = first_child(shape, level, i as u32);
        });
    }
}

/// Fills the inner nodes above leaves; `last_key` returns a leaf's largest key. Each node has [`Shape::children`]
/// children, except for the last one of each level.
pub(super) fn fill_inner<K: Word>(shape: &Shape, words: &mut [K], last_key: &(impl Fn(usize) -> K + Sync)) {
    let fanout = shape.fanout as usize;
    // Leaves under a child of the level's nodes, if it is full.
    let mut under_child = 1_u64;
    for level in (0..shape.height).rev() {
        let children_in_level = match shape.level_nodes.get(level as usize + 1) {
            Some(&nodes) if level + 1 < shape.height => nodes,
            _ => shape.leaves,
        };
        let nodes = level_range(shape, level);
        words[nodes.start * fanout..nodes.end * fanout].par_chunks_exact_mut(fanout).enumerate().for_each(
            |(i, node)| {
                let first = i as u64 * u64::from(shape.children);
                let children = u64::from(shape.children).min(u64::from(children_in_level) - first);
                for (slot, separator) in node[..fanout - 1].iter_mut().enumerate() {
                    // All children except the last are full, so the index of each one's last leaf is known.
                    *separator = if slot as u64 + 1 < children {
                        last_key(((first + slot as u64 + 1) * under_child - 1) as usize)
                    } else {
                        K::MAX
                    };
                }
                node[fanout - 1] = K::truncate(u64::from(first_child(shape, level, i as u32)));
            },
        );
        under_child = under_child.saturating_mul(u64::from(shape.children));
    }
}
