//! The build: pairs in order are laid out in lines, and the inner levels above them.

use crate::HbTree;
use crate::implicit::Implicit;
use crate::node_search::NodeSearch;
use crate::options::{DeviceSearch, Fanout, MOST_IN_FLIGHT, Options, Pinning, Pipeline, UpdateMethod};
use crate::over::{Over, Upper};
use crate::regular::Regular;
use crate::structure::{Leaves as _, Parts, Structure};
use core::marker::PhantomData;
use lanetree_frame::fixed::pairs::{check_ascending, check_lengths, encoded, keep_last, sorted};
use lanetree_frame::{Device, DeviceKind, Error, IndexBuilder, Result};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Pages;
use std::time::{Duration, Instant};

/// Builds HB+-trees. Code over any structure `L` begins with `Builder::<K, V, L>::default()`.
///
/// ```
/// use lanetree::hbtree::{Fanout, HbTree};
/// use lanetree::Device;
///
/// # fn main() -> lanetree::Result<()> {
/// let builder = HbTree::builder().fanout(Fanout::Words).in_flight(8);
/// let tree = builder.build_sorted(&Device::host(), &[1_u32, 2, 3], &[10_u32, 20, 30])?;
/// assert_eq!(tree.get_many(&[2, 4])?, [Some(20), None]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct Builder<K, V, L = Implicit> {
    options: Options,
    parts: PhantomData<(K, V, L)>,
}

impl<K, V, L> Default for Builder<K, V, L> {
    fn default() -> Self {
        let options = Options {
            fanout: Fanout::default(),
            fill: 1.0,
            inner_pages: Pages::default(),
            leaf_pages: Pages::default(),
            node_search: NodeSearch::best(),
            in_flight: 128,
            pipeline: Pipeline::default(),
            pinning: Pinning::default(),
            update_method: UpdateMethod::default(),
            device_updates: false,
        };
        Self { options, parts: PhantomData }
    }
}

impl<K: Key, V: Word, L: Structure> Builder<K, V, L> {
    /// Leaves below an index, with the same options.
    #[must_use]
    pub fn over<U: Upper>(self) -> Builder<K, V, Over<U>> {
        Builder { options: self.options, parts: PhantomData }
    }

    /// A regular tree with the same options.
    #[must_use]
    pub fn regular(self) -> Builder<K, V, Regular> {
        Builder { options: self.options, parts: PhantomData }
    }

    /// Children per inner node of the implicit tree.
    #[must_use]
    pub fn fanout(mut self, fanout: Fanout) -> Self {
        self.options.fanout = fanout;
        self
    }

    /// The part of each big leaf and of each inner node that a build of the regular tree fills, above 0 and at most 1: the rest
    /// is room for inserts. 1, unless this is said. The implicit tree is always full.
    #[must_use]
    pub fn fill(mut self, fill: f64) -> Self {
        self.options.fill = fill;
        self
    }

    /// Which pages the inner levels and the leaves are to lie in. [`Stats`](crate::Stats) says what the system granted.
    #[must_use]
    pub fn pages(mut self, inner: Pages, leaves: Pages) -> Self {
        (self.options.inner_pages, self.options.leaf_pages) = (inner, leaves);
        self
    }

    /// How the CPU searches nodes; the best that it has, unless this is said.
    #[must_use]
    pub fn node_search(mut self, node_search: NodeSearch) -> Self {
        self.options.node_search = node_search;
        self
    }

    /// How many queries a thread has in flight, 1 to 256 (the paper's software pipelining, which ends at 32).
    #[must_use]
    pub fn in_flight(mut self, queries: usize) -> Self {
        self.options.in_flight = queries;
        self
    }

    /// Whether a device is to be able to read the leaves. Pinning touches all of their memory, and takes a while.
    #[must_use]
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.options.pinning = pinning;
        self
    }

    /// How batches of changes of a regular tree get to the device.
    #[must_use]
    pub fn update_method(mut self, method: UpdateMethod) -> Self {
        self.options.update_method = method;
        self
    }

    /// Whether the device of a regular tree sorts batches of changes and finds their leaves, so that the CPU only searches
    /// these and writes: the paper's future work. It does not, unless this is said. It pays for large batches, where sorting
    /// takes more than the way to the device and back. It takes 36 bytes per operation on the device with keys of 64 bits, and
    /// 16 of pinned memory, which are kept. If the device fails in this, nothing has changed.
    #[must_use]
    pub fn device_updates(mut self, device_updates: bool) -> Self {
        self.options.device_updates = device_updates;
        self
    }

    /// How a device and the CPU share the work of look-ups: the size of buckets, the number of pipelines, and which
    /// levels the CPU descends.
    #[must_use]
    pub fn pipeline(mut self, pipeline: Pipeline) -> Self {
        self.options.pipeline = pipeline;
        self
    }

    /// Builds an index over pairs in any order. Of equal keys, the last one's value is kept. For the first, or an error:
    /// [`IndexBuilder::build_by`](lanetree_frame::IndexBuilder::build_by) with [`BuildRules`](lanetree_frame::BuildRules).
    ///
    /// Sorts a copy of the pairs with all of rayon's threads; returns when the inner levels are on the device. The leaves
    /// stay in host memory.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch); [`OptionValue`](Error::OptionValue) and [`Fill`](Error::Fill) for options that are not possible;
    /// [`TooManyLeaves`](Error::TooManyLeaves); [`Runtime`](Error::Runtime) if host memory has no room for the leaves, or the device none for the inner levels.
    pub fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<HbTree<K, V, L>> {
        self.of(device, sorted(keys, values)?)
    }

    /// Builds an index over pairs in ascending order of their keys. Of equal keys, the last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`NotSorted`](Error::NotSorted) with the first key that is below the one before.
    pub fn build_sorted(&self, device: &Device, keys: &[K], values: &[V]) -> Result<HbTree<K, V, L>> {
        let mut pieces = self.in_pieces(device, keys.len() as u64)?;
        pieces.push(keys, values)?;
        pieces.finish()
    }

    /// Starts a build from pairs that come in pieces, in ascending order of their keys: at most `most` of them, for which
    /// host memory is reserved. The pairs go straight into the leaves, so there is no other copy of them.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn in_pieces(&self, device: &Device, most: u64) -> Result<Pieces<K, V, L>> {
        check::<L>(&self.options, device)?;
        let started = Instant::now();
        let leaves = L::Leaves::with_room(most, &self.options)?;
        let filling = started.elapsed();
        Ok(Pieces { options: self.options, device: device.clone(), leaves, most, last: None, filling })
    }

    /// That of a tree with these options.
    pub(crate) fn with(options: Options) -> Self {
        Self { options, parts: PhantomData }
    }

    /// Of pairs in strictly ascending order of their keys.
    pub(crate) fn of(&self, device: &Device, pairs: Vec<(K::Bits, V)>) -> Result<HbTree<K, V, L>> {
        let mut pieces = self.in_pieces(device, pairs.len() as u64)?;
        pieces.append(&pairs);
        drop(pairs);
        pieces.finish()
    }
}

impl<K: Key, V: Word, L: Structure> IndexBuilder for Builder<K, V, L> {
    type Index = HbTree<K, V, L>;

    fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<HbTree<K, V, L>> {
        self.build(device, keys, values)
    }
}

/// A build from pairs that come in pieces: [`Builder::in_pieces`].
///
/// ```
/// use lanetree::hbtree::HbTree;
/// use lanetree::Device;
///
/// # fn main() -> lanetree::Result<()> {
/// let mut pieces = HbTree::<u64, u64>::builder().in_pieces(&Device::host(), 1000)?;
/// for piece in 0..10 {
///     let keys: Vec<u64> = (0..100).map(|i| piece * 100 + i).collect();
///     pieces.push(&keys, &keys)?;
/// }
/// assert_eq!(pieces.finish()?.len(), 1000);
/// # Ok(())
/// # }
/// ```
pub struct Pieces<K: Key, V: Word, L: Structure = Implicit> {
    options: Options,
    device: Device,
    leaves: L::Leaves<K, V>,
    most: u64,
    /// The last key so far.
    last: Option<K>,
    filling: Duration,
}

impl<K: Key, V: Word, L: Structure> Pieces<K, V, L> {
    /// Pairs so far.
    pub fn len(&self) -> u64 {
        self.leaves.len()
    }

    /// Whether there are none so far.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Appends pairs, in ascending order of their keys, none below the last key so far. Of equal keys, the last one's
    /// value is kept.
    ///
    /// # Errors
    /// [`LengthMismatch`](Error::LengthMismatch), [`NotSorted`](Error::NotSorted),
    /// [`OutputLength`](Error::OutputLength) for more pairs than were announced: nothing of the piece is appended.
    pub fn push(&mut self, keys: &[K], values: &[V]) -> Result<()> {
        check_lengths(keys, values)?;
        check_ascending(keys)?;
        if let (Some(last), Some(&first)) = (self.last, keys.first())
            && first < last
        {
            return Err(Error::NotSorted { index: 0, previous: last.to_string(), key: first.to_string() });
        }
        let started = Instant::now();
        let mut pairs = encoded(keys, values)?;
        keep_last(&mut pairs);
        // The piece's first key may be the last one so far, and replaces it.
        let again = self.last.is_some() && self.last == keys.first().copied();
        let needed = self.len() - u64::from(again) + pairs.len() as u64;
        if needed > self.most {
            let size = |pairs: u64| usize::try_from(pairs).unwrap_or(usize::MAX);
            return Err(Error::OutputLength { what: "the tree", expected: size(needed), actual: size(self.most) });
        }
        if again {
            self.leaves.forget_last();
        }
        self.append(&pairs);
        self.filling += started.elapsed();
        Ok(())
    }

    /// Appends pairs that fit, in strictly ascending order.
    fn append(&mut self, pairs: &[(K::Bits, V)]) {
        let Some(last) = pairs.last() else { return };
        self.leaves.append(pairs);
        self.last = Some(K::decode(last.0));
    }

    /// The index over all pairs, when the inner levels are on the device.
    ///
    /// # Errors
    /// [`Runtime`](Error::Runtime) if host memory or the device has no room for the inner levels.
    pub fn finish(self) -> Result<HbTree<K, V, L>> {
        Ok(Parts::over(&self.device, self.options, self.leaves, self.filling)?.into())
    }
}

/// # Errors
/// [`Error::OptionValue`], [`Error::Fill`] for one that is not possible for a structure on a device.
pub(crate) fn check<L: Structure>(options: &Options, device: &Device) -> Result<()> {
    let Options { in_flight, node_search, pipeline, fanout, fill, .. } = *options;
    let refuse = |what, value, allowed| Err(Error::OptionValue { what, value, allowed });
    // Written so that a fill of NaN is also rejected.
    if !(fill > 0.0 && fill <= 1.0) {
        return Err(Error::Fill { fill });
    }
    if !(1..=MOST_IN_FLIGHT).contains(&in_flight) {
        return refuse("a number of queries in flight", in_flight.to_string(), "1 to 256");
    }
    if !node_search.is_available() {
        return refuse("a node search", node_search.to_string(), "one that this CPU has (NodeSearch::is_available)");
    }
    if pipeline.bucket == 0 || pipeline.bucket > u32::MAX as usize {
        return refuse("a bucket", pipeline.bucket.to_string(), "1 to 2^32 - 1 queries");
    }
    if !(0.0..=1.0).contains(&pipeline.split.share) {
        return refuse("a share of the descent", pipeline.split.share.to_string(), "0 to 1");
    }
    if pipeline.sample == 0 || pipeline.sample > u32::MAX as usize {
        return refuse("a sample", pipeline.sample.to_string(), "1 to 2^32 - 1 queries");
    }
    if pipeline.device_bucket > u32::MAX as usize {
        return refuse("a bucket of the device", pipeline.device_bucket.to_string(), "0 to 2^32 - 1 queries");
    }
    if L::HAS_FANOUTS
        && device.kind() != DeviceKind::Host
        && pipeline.device_search == DeviceSearch::Shared
        && fanout != Fanout::Words
    {
        return refuse("DeviceSearch::Shared over nodes of", format!("Fanout::{fanout:?}"), "Fanout::Words");
    }
    Ok(())
}
