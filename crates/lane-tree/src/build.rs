//! The options of a tree, and its build from pairs in main memory.

use crate::bulk::build_on;
use crate::node::{Buckets, Filling, Plan, boundary, split};
use crate::options::{MORE, Options, TABLE_NODES};
use crate::parts::{HostParts, Parts, Shape};
use crate::upper::{Child, Table, Upper};
use crate::{LaneTree, ahead};
use core::marker::PhantomData;
use core::ops::Range;
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::fixed::{SortedPairs, Staging};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, make_room, with_room, zeroed};
use lanetree_frame::{Buffer, Device, DeviceBuilder, DeviceKind, Error, Guarded, IndexBuilder, Result, Stream};
use lanetree_kernels_lane_tree::layout::{NODE_WORDS, record_words, words_of_buckets};
use lanetree_layout::{AnyKey, KeyWord, Value, Word};
use lanetree_primitives::{BuildScratch, DevicePairs, build_from};
use lanetree_runtime::Simd;

/// Options of a tree, and its bulk build.
///
/// ```
/// use lanetree::{Device, LaneTree};
///
/// # fn main() -> lanetree::Result<()> {
/// let tree = LaneTree::builder().fill(0.7).build(&Device::host(), &[3_u32, 1, 2, 1], &[30_u32, 10, 20, 11])?;
/// assert_eq!(tree.get_many(&[1, 2, 3])?, [Some(11), Some(20), Some(30)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct Builder<K, V> {
    options: Options,
    words: PhantomData<(K, V)>,
}

impl<K, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self { options: Options { fill: 1.0, table_nodes: TABLE_NODES }, words: PhantomData }
    }
}

impl<K: AnyKey, V: Value> Builder<K, V> {
    /// With the options of a tree.
    pub(crate) fn of(options: Options) -> Self {
        Self { options, words: PhantomData }
    }

    /// The part of each bucket that a build is to fill, in (0, 1]; 1 by default. A bucket gets at least one pair. With 0.7, batches of
    /// inserts find room.
    ///
    /// With less than 1 each node also gets a sixteenth more buckets than it fills; and where keys are irregular, a bucket ends only where
    /// look-ups can tell its last key from the next one. So of all slots a build fills, of random 64-bit keys, 0.94 with 1, 0.81 with
    /// 0.9, 0.65 with 0.7 (0.69 without the free buckets), 0.47 with 0.5. [`stats`](LaneTree::stats) tells.
    #[must_use]
    pub fn fill(self, fill: f64) -> Self {
        Self { options: Options { fill, ..self.options }, ..self }
    }

    /// Most nodes that a table above them leads to, from 1 to 16384, the default; with more, there is a level above.
    /// Kernels copy the table to shared memory: 8 KiB and 4 bytes per node.
    ///
    /// On cards with less shared memory there are fewer nodes, so that a block of 256 threads has room for the tables of two trees: at
    /// most 5632 on compute capability 7.5, and 10112 on 8.6, 8.9 and 12.0. A kernel of your own that probes more trees needs
    /// trees with fewer. As a tree has at most 8 levels, a very large one has more nodes than a small number here allows.
    #[must_use]
    pub fn table_nodes(self, nodes: u32) -> Self {
        Self { options: Options { table_nodes: nodes, ..self.options }, ..self }
    }

    /// Builds a tree over pairs in any order. Of equal keys, the last one's value is kept. For the first, or an
    /// error: [`IndexBuilder::build_by`](lanetree_frame::IndexBuilder::build_by) with [`BuildRules`](lanetree_frame::BuildRules), whose page has
    /// an example.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::Fill`] and [`Error::OptionValue`] for options that no tree has; [`Error::TooManyLeaves`] for more than 2^32
    /// buckets; [`Error::Runtime`] if the device has no room.
    pub fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<LaneTree<K, V>> {
        if keys.len() == values.len() && keys.par_windows(2).all(|pair| pair[0] <= pair[1]) {
            return self.build_sorted(device, keys, values);
        }
        self.begin(device, keys.len(), false)?;
        self.upload(device, &SortedPairs::sort(keys, values)?)
    }

    /// Builds a tree over pairs in ascending order of their keys. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`Error::NotSorted`] with the first key that is below the one before.
    pub fn build_sorted(&self, device: &Device, keys: &[K], values: &[V]) -> Result<LaneTree<K, V>> {
        self.begin(device, keys.len(), false)?;
        check_lengths(keys, values)?;
        if device.kind() == DeviceKind::Host || keys.is_empty() {
            return self.upload(device, &SortedPairs::from_sorted(keys, values)?);
        }
        // The device checks their order; nothing is copied on the way but into pinned memory, by all threads.
        let (staging, len) = (Staging::<K, V>::default(), keys.len());
        let (mut to_keys, mut to_values) = (device.alloc(len)?, device.alloc(len)?);
        staging.queries.upload(keys, &mut to_keys)?;
        staging.queries.upload(values, &mut to_values)?;
        let mut scratch = BuildScratch::for_sorted(device)?;
        // Not kept for the tree's batches: it may have none.
        drop(staging);
        self.build_sorted_on(&device.stream()?, &to_keys, &to_values, len, &mut scratch)
    }

    /// Builds a tree over the first `len` pairs of two buffers, in any order: a radix sort, and
    /// [`Builder::build_sorted_on`]. Of equal keys, the last one's value is kept: builds from buffers take no
    /// [`BuildRules`](lanetree_frame::BuildRules). Returns when the tree is complete, whose
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
    ) -> Result<LaneTree<K, V>> {
        self.begin(stream.device(), len, true)?;
        let pairs = DevicePairs { keys, values, len };
        if let Some((keys, values)) = scratch.check(stream, pairs)? {
            return self.build(stream.device(), keys, values);
        }
        scratch.in_order(stream, pairs, |scratch, pairs| self.build_ascending_on(stream, pairs, scratch))
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
    ) -> Result<LaneTree<K, V>> {
        self.begin(stream.device(), len, false)?;
        let pairs = DevicePairs { keys, values, len };
        if let Some((keys, values)) = scratch.check(stream, pairs)? {
            return self.build_sorted(stream.device(), keys, values);
        }
        self.build_ascending_on(stream, pairs, scratch)
    }

    /// As [`Builder::build_on`], but takes the buffers, sorts the pairs where they are if they are not sorted, and frees them
    /// before it returns. So it needs no scratch memory of the caller's, and at most 1.3 times the memory of the pairs and the
    /// tree together; of a large tree, hardly more than once. [`Builder::build_on`] with its scratch memory needs twice.
    ///
    /// ```
    /// use lanetree::{Device, LaneTree};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let (keys, values) = (device.upload(&[3_u32, 1, 2, 1])?, device.upload(&[30_u32, 10, 20, 11])?);
    /// let tree = LaneTree::builder().build_owned_on(&device.stream()?, keys, values, 4)?;
    /// assert_eq!(tree.get_many(&[1, 2, 3])?, [Some(11), Some(20), Some(30)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Builder::build_on`]; the buffers are gone.
    pub fn build_owned_on(
        &self,
        stream: &Stream,
        keys: Buffer<K>,
        values: Buffer<V>,
        len: usize,
    ) -> Result<LaneTree<K, V>> {
        self.begin(stream.device(), len, true)?;
        if stream.device().kind() == DeviceKind::Host {
            return self.build_on(stream, &keys, &values, len, &mut BuildScratch::for_sorted(stream.device())?);
        }
        build_from(stream, keys, values, len, |pairs| self.build_distinct_on(stream, pairs))
    }

    /// Builds a tree over pairs that should ascend, with options that were checked.
    fn build_ascending_on(
        &self,
        stream: &Stream,
        pairs: DevicePairs<'_, K, V>,
        scratch: &mut BuildScratch<K, V>,
    ) -> Result<LaneTree<K, V>> {
        // Nearly always they ascend strictly, and the build sees it: without a pass over all keys only to check that.
        if let Some(tree) = self.try_build_on(stream, pairs)? {
            return Ok(tree);
        }
        scratch.sorted(stream, pairs, |pairs| self.build_distinct_on(stream, pairs))
    }

    /// Builds a tree over pairs that ascend strictly, with options that were checked.
    pub(crate) fn build_distinct_on(&self, stream: &Stream, pairs: DevicePairs<'_, K, V>) -> Result<LaneTree<K, V>> {
        Ok(self.try_build_on(stream, pairs)?.expect("pairs that ascend strictly"))
    }

    /// Builds a tree over pairs that ascend strictly; `None` if they turn out not to.
    fn try_build_on(&self, stream: &Stream, pairs: DevicePairs<'_, K, V>) -> Result<Option<LaneTree<K, V>>> {
        let device = stream.device();
        if let (DeviceKind::Host, (Some(keys), Some(values))) =
            (device.kind(), (pairs.keys.as_slice(), pairs.values.as_slice()))
        {
            return self.upload(device, &SortedPairs::from_sorted(&keys[..pairs.len], &values[..pairs.len])?).map(Some);
        }
        if pairs.len == 0 {
            return self.upload(device, &SortedPairs::default()).map(Some);
        }
        Ok(build_on(stream, device, self.options, pairs)?.map(|parts| self.tree(device, parts)))
    }

    fn upload(&self, device: &Device, pairs: &SortedPairs<K::Bits, V>) -> Result<LaneTree<K, V>> {
        Ok(self.tree(device, build::<K, V>(device, pairs, self.options)?))
    }

    pub(crate) fn tree(&self, device: &Device, parts: Parts<K::Bits>) -> LaneTree<K, V> {
        let (device, options, parts) = (device.clone(), self.options, Guarded::new(parts));
        LaneTree {
            device,
            options,
            simd: Simd::detect(),
            parts,
            staging: Staging::default(),
            changes: Default::default(),
            words: PhantomData,
        }
    }

    /// Checks the options, and loads the kernels of a build of `len` pairs, which the device sorts or not.
    fn begin(&self, device: &Device, len: usize, sorts: bool) -> Result<()> {
        let Options { fill, table_nodes } = self.options;
        // Written so that a fill of NaN is also rejected.
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(Error::Fill { fill });
        }
        if !(1..=TABLE_NODES).contains(&table_nodes) {
            let (what, value) = ("a number of nodes below the table", table_nodes.to_string());
            return Err(Error::OptionValue { what, value, allowed: "1 to 16384" });
        }
        if len > 0 {
            ahead::load(device, || ahead::of_builds::<K, V>(sorts.then_some(len)));
        }
        Ok(())
    }
}

impl<K: AnyKey, V: Word> IndexBuilder for Builder<K, V> {
    type Index = LaneTree<K, V>;

    fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<LaneTree<K, V>> {
        self.build(device, keys, values)
    }
}

impl<K: AnyKey, V: Word> DeviceBuilder for Builder<K, V> {
    fn build_owned_on(
        &self,
        stream: &Stream,
        keys: Buffer<K>,
        values: Buffer<V>,
        len: usize,
    ) -> Result<LaneTree<K, V>> {
        self.build_owned_on(stream, keys, values, len)
    }
}

/// A tree over sorted pairs, on a device.
pub(crate) fn build<K: AnyKey, V: Value>(
    device: &Device,
    pairs: &SortedPairs<K::Bits, V>,
    options: Options,
) -> Result<Parts<K::Bits>> {
    if device.kind() == DeviceKind::Host || pairs.keys.is_empty() {
        return layout(device, pairs, options);
    }
    let keys = pairs.keys.par_iter().map(|&word| K::decode(word)).try_collect()?;
    let (keys, values) = (device.upload(&keys)?, device.upload(&pairs.values)?);
    let built =
        build_on(&device.stream()?, device, options, DevicePairs { keys: &keys, values: &values, len: keys.len() })?;
    Ok(built.expect("pairs that ascend strictly"))
}

/// Part of the pairs of a tree, and the node that they become.
pub(crate) type Planned = (Range<usize>, Plan);

/// Plans nodes for strictly ascending keys, in order.
pub(crate) fn plan_nodes<K: KeyWord>(keys: &[K], filling: Filling) -> Result<Vec<Planned>> {
    let (len, count, reach) = (keys.len(), filling.parts(keys.len()), filling.reach());
    let cut = |part: usize| match part {
        0 => 0,
        _ if part == count => len,
        _ => boundary(keys, part * (len / count), reach),
    };
    let plans = (0..count).into_par_iter().map(|part| {
        let (start, end) = (cut(part), cut(part + 1));
        let (mut plans, mut room) = (Vec::new(), Ok(()));
        split(&keys[start..end], filling, |from, to, plan| {
            if room.is_ok() {
                room = make_room(&mut plans, 1);
            }
            if room.is_ok() {
                plans.push((start + from..start + to, plan));
            }
        });
        room.map(|()| plans)
    });
    let plans = plans.collect().into_iter().collect::<Result<Vec<Vec<Planned>>>>()?;
    collected(plans.into_iter().flatten())
}

impl<K: KeyWord> HostParts<K> {
    /// Adds what is above the nodes of the lowest level, which are the children and have these formats.
    ///
    /// # Errors
    /// As [`Options::on`]; [`Error::Runtime`] where main memory has no room.
    pub(crate) fn finish(
        &mut self,
        device: &Device,
        options: Options,
        children: Vec<Child<K>>,
        formats: u32,
    ) -> Result<()> {
        self.shape.leaf_nodes = children.len() as u32;
        let options = options.on::<K>(device, self.shape.len, children.len())?;
        let upper = Upper::new(children, formats, options.table_nodes);
        let top_start = upper.firsts.len() - upper.top_count as usize;
        let table = Table::new(&upper.firsts[top_start..]);
        make_room(&mut self.nodes, upper.nodes.len())?;
        self.nodes.extend(upper.nodes);
        self.shape = Shape {
            top_count: upper.top_count,
            top_first: upper.top_first,
            prefixes: table.prefixes,
            table_shift: table.table_shift,
            height: if self.shape.len == 0 { 0 } else { upper.height },
            formats: upper.formats,
            ..self.shape
        };
        (self.firsts, self.prefixes, self.table) = (upper.firsts, table.of_nodes, table.entries);
        Ok(())
    }
}

/// The tree as the CPU lays it out, on a device whose memory the CPU reaches; of no pairs, on any device.
pub(crate) fn layout<K: KeyWord, V: Value>(
    device: &Device,
    pairs: &SortedPairs<K, V>,
    options: Options,
) -> Result<Parts<K>> {
    let (keys, values, len) = (&pairs.keys[..], &pairs.values[..], pairs.keys.len());
    let filling = Filling::new::<K, V>(options.fill);
    let plans = plan_nodes(keys, filling)?;
    let most = u64::from(u32::MAX);
    let bucket_count: u64 = plans.iter().map(|(_, plan)| u64::from(plan.buckets_with_spare(filling))).sum();
    if bucket_count > most {
        return Err(Error::TooManyLeaves { pairs: len as u64, most });
    }
    // Main memory is not taken before it is used: so the first new buckets need no copy of all.
    let spare = if device.kind() == DeviceKind::Host { bucket_count / MORE } else { 0 };
    let reserved = bucket_count.saturating_add(spare.max(filling.reserved(bucket_count as u32).into())).min(most);
    let mut buckets = device.alloc_zeroed(words_of_buckets::<K, V>(reserved) as usize)?;
    let shape = Shape { len: len as u64, buckets: bucket_count as u32, ..Shape::default() };
    let (node_words, record_words) = (NODE_WORDS as usize, record_words::<K, V>() as usize);
    let (nodes, records) = (zeroed(plans.len() * node_words)?, zeroed(plans.len() * record_words)?);
    let mut parts = HostParts { shape, nodes, records, ends: with_room(plans.len())?, ..HostParts::default() };
    let (mut formats, mut end) = (0, 0);
    for (_, plan) in &plans {
        formats |= plan.quantiser.format() as u32;
        end += plan.buckets_with_spare(filling);
        parts.ends.push(end);
    }
    if !plans.is_empty() {
        let buckets = &Buckets::new(buckets.as_mut_slice().expect("a tree on the host is in main memory"));
        let nodes = parts.nodes.par_chunks_mut(node_words).zip(parts.records.par_chunks_mut(record_words));
        nodes.zip(&plans).zip(&parts.ends).for_each(|(((node, record), (own, plan)), &end)| {
            let (keys, values, count) = (&keys[own.clone()], &values[own.clone()], plan.buckets_with_spare(filling));
            // SAFETY: no other node has these buckets.
            let made = unsafe { plan.write(keys, values, own.start as u64, end - count..end, node, buckets) };
            record.copy_from_slice(&made.words::<V>()[..record_words]);
        });
    }
    let child = |(own, _): &Planned| Child { first: keys[own.start], last: keys[own.end - 1] };
    let children = plans.par_iter().map(child).try_collect()?;
    parts.finish(device, options, children, formats)?;
    parts.upload(buckets)
}
