//! Harmonia on a device: what the frame makes every query of, and how look-ups are tuned.

use super::launch;
use super::native;
use super::tuning::MEASURED;
use super::{BatchOrder, ChildRegion, GroupWidth, Harmonia};
use core::ops::Deref;
use lanetree_frame::fixed::{self, AsOf, FixedIndex, NeighborOutputs, NeighborSearch, QueryOptions, Side, check_pairs};
use lanetree_frame::{JoinKind, Op, Result, UpdateReport};
use lanetree_kernels_harmonia::layout::Shape;
use lanetree_kernels_harmonia::{
    self as kernels, GatherArgs, GetArgs, NeighborArgs, RangeArgs, RankArgs, SORTED_TILE, calls,
};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_primitives::BuildScratch;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{GatherRows, Global, GlobalMut, WARP};

/// How a look-up is tuned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookUp {
    /// The lanes that serve a look-up together; [`GroupWidth::Auto`] by default.
    pub group: GroupWidth,
    /// The order of the queries, for [`GroupWidth::Auto`]; unknown by default.
    pub order: BatchOrder,
    /// Where look-ups read a node's first child; by default in the node itself, which is the fastest.
    /// [`ChildRegion::PrefixSum`] is the paper's prefix-sum array.
    #[cfg(feature = "papers")]
    pub child: ChildRegion,
    /// How nodes are read; by default as was measured to be fastest.
    #[cfg(feature = "papers")]
    pub reading: NodeReading,
}

/// How a look-up reads nodes.
#[cfg(feature = "papers")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeReading {
    /// As was measured to be fastest: whole, but in steps where a lane would have many slots.
    #[default]
    Tuned,
    /// In steps, and no further than the queries of the warp need: the comparisons that the paper's narrowed groups save
    /// (section 4.2). With its prefix-sum child region, whatever [`LookUp::child`] says. For keys and values of 64 bits;
    /// look-ups of other words are the usual ones.
    Stopping,
}

impl Default for LookUp {
    fn default() -> Self {
        let (group, order) = (GroupWidth::default(), BatchOrder::default());
        Self {
            group,
            order,
            #[cfg(feature = "papers")]
            child: ChildRegion::NodeSlot,
            #[cfg(feature = "papers")]
            reading: NodeReading::default(),
        }
    }
}

/// A tree's queries on a stream, in device form: the frame's queries ([`fixed::OnStream`], to which it derefs), and how
/// they are tuned.
#[derive(Debug)]
pub struct OnStream<'a, K: Key, V: Word>(fixed::OnStream<'a, Harmonia<K, V>>);

impl<'a, K: Key, V: Word> Deref for OnStream<'a, K, V> {
    type Target = fixed::OnStream<'a, Harmonia<K, V>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a, K: Key, V: Word> OnStream<'a, K, V> {
    pub(super) fn new(tree: &'a Harmonia<K, V>, stream: &'a Stream) -> Self {
        Self(fixed::OnStream::new(tree, stream))
    }

    /// How many lanes serve a look-up together: [`LookUp::group`]; [`GroupWidth::Auto`] by default.
    #[must_use]
    pub fn group(self, group: GroupWidth) -> Self {
        let tuning = LookUp { group, ..*self.tuning() };
        Self(self.0.tuned(tuning))
    }

    /// Declares the order of the queries: [`LookUp::order`]; unknown by default.
    #[must_use]
    pub fn order(self, order: BatchOrder) -> Self {
        let tuning = LookUp { order, ..*self.tuning() };
        Self(self.0.tuned(tuning))
    }

    /// Where look-ups read a node's first child: [`LookUp::child`]; in the node itself by default.
    #[cfg(feature = "papers")]
    #[must_use]
    pub fn child_region(self, child: ChildRegion) -> Self {
        let tuning = LookUp { child, ..*self.tuning() };
        Self(self.0.tuned(tuning))
    }

    /// How look-ups read nodes: [`LookUp::reading`]; by default as was measured to be fastest.
    #[cfg(feature = "papers")]
    #[must_use]
    pub fn reading(self, reading: NodeReading) -> Self {
        let tuning = LookUp { reading, ..*self.tuning() };
        Self(self.0.tuned(tuning))
    }

    /// Asks [`get`](Self::get), [`predecessor`](Self::predecessor) and [`successor`](Self::successor) for the hit mask, as
    /// [`fixed::OnStream::hits`].
    #[must_use]
    pub fn hits(self, hits: impl Into<Option<&'a mut Buffer<u32>>>) -> Self {
        Self(self.0.hits(hits))
    }

    /// The value that queries without a pair get; by default the value with all bits set.
    #[must_use]
    pub fn miss(self, miss: V) -> Self {
        Self(self.0.miss(miss))
    }

    /// Limits each range of [`range`](fixed::OnStream::range) to its first `limit` pairs.
    #[must_use]
    pub fn limit(self, limit: u64) -> Self {
        Self(self.0.limit(limit))
    }

    /// Range `i` has at most the first `limits[i]` pairs, as [`fixed::OnStream::limits`].
    #[must_use]
    pub fn limits(self, limits: impl Into<Option<&'a Buffer<u64>>>) -> Self {
        Self(self.0.limits(limits))
    }

    /// Which rows joins have, as [`fixed::OnStream::kind`].
    #[must_use]
    pub fn kind(self, kind: JoinKind) -> Self {
        Self(self.0.kind(kind))
    }

    /// Which probes of joins are there, as [`fixed::OnStream::valid`].
    #[must_use]
    pub fn valid(self, valid: &'a Buffer<u32>, offset: usize) -> Self {
        Self(self.0.valid(valid, offset))
    }

    /// Looks up `queries`: `values[i]` becomes the value of key `queries[i]`, or [`miss`](Self::miss) if there is no such key, as
    /// [`fixed::OnStream::get`].
    ///
    /// # Errors
    /// [`OutputLength`](lanetree_frame::Error::OutputLength), [`GroupWidth`](lanetree_frame::Error::GroupWidth),
    /// [`BatchTooLarge`](lanetree_frame::Error::BatchTooLarge); [`Lost`](lanetree_frame::Error::Lost);
    /// [`Runtime`](lanetree_frame::Error::Runtime) for buffers of another device, and from the launch.
    pub fn get(self, queries: &Buffer<K>, values: &mut Buffer<V>) -> Result<()> {
        self.0.get(queries, values)
    }

    /// Finds the last pair whose key is at or below each query, as [`fixed::OnStream::predecessor`].
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn predecessor(self, queries: &Buffer<K>, keys: &mut Buffer<K>, values: &mut Buffer<V>) -> Result<()> {
        self.0.predecessor(queries, keys, values)
    }

    /// Finds the first pair whose key is at or above each query, as [`fixed::OnStream::successor`].
    ///
    /// # Errors
    /// As [`OnStream::get`].
    pub fn successor(self, queries: &Buffer<K>, keys: &mut Buffer<K>, values: &mut Buffer<V>) -> Result<()> {
        self.0.successor(queries, keys, values)
    }

    /// Finds the pair that an as-of look-up of each query asks for, as [`fixed::OnStream::asof`].
    ///
    /// # Errors
    /// As [`OnStream::get`]; [`OptionValue`](lanetree_frame::Error::OptionValue) for a distance between floats.
    pub fn asof(
        self,
        queries: &Buffer<K>,
        how: &AsOf,
        keys: &mut Buffer<K>,
        values: &mut Buffer<V>,
        hits: &mut Buffer<u32>,
    ) -> Result<()> {
        self.0.asof(queries, how, keys, values, hits)
    }

    pub(super) fn into_options(self) -> QueryOptions<'a, V> {
        self.0.into_options()
    }

    /// The lanes per query with which `get` would look up: what [`GroupWidth::Auto`] stands for.
    ///
    /// # Errors
    /// [`GroupWidth`](lanetree_frame::Error::GroupWidth).
    pub fn group_width(&self) -> Result<u32> {
        self.index().group_width(self.tuning())
    }
}

impl<K: Key, V: Word> Harmonia<K, V> {
    fn group_width(&self, tuning: &LookUp) -> Result<u32> {
        let measured = MEASURED.on(&self.device)?;
        tuning.group.choose(measured, (self.fanout(), K::Bits::BYTES), tuning.order, self.shape.len)
    }

    /// Whether there are enough sorted queries to be worth copying whole leaves to shared memory.
    fn is_dense(&self, tuning: &LookUp, count: usize) -> Result<bool> {
        // A caller that asks for another width, child region or reading gets it.
        let free = LookUp { order: BatchOrder::default(), ..*tuning } == LookUp::default();
        let dense = MEASURED.on(&self.device)?.dense;
        Ok(free && tuning.order == BatchOrder::Sorted && count as u64 >= dense * u64::from(self.shape.leaves))
    }
}

// SAFETY: the tree has one pair per key, in order, and as many as its length says; a batch changes both together, or loses it.
unsafe impl<K: Key, V: Word> FixedIndex for Harmonia<K, V> {
    type Key = K;
    type Value = V;
    const NAME: &'static str = "harmonia";
    type Tuning = LookUp;
    type View<'a> = native::View<'a, K::Bits, V>;

    fn device(&self) -> &Device {
        &self.device
    }

    fn len(&self) -> u64 {
        self.shape.len
    }

    fn bytes(&self) -> u64 {
        self.stats().bytes()
    }

    fn apply_each(&mut self, count: usize, op: impl Fn(usize) -> Op<K, V> + Sync) -> Result<UpdateReport> {
        self.change(count, op)
    }

    fn staging(&self) -> &fixed::Staging<K, V> {
        &self.staging
    }

    fn check_not_lost(&self) -> Result<()> {
        self.whole.check()
    }

    fn view(&self) -> Option<native::View<'_, K::Bits, V>> {
        let ranks = match &self.ranks {
            Some(ranks) => Some(ranks.as_slice()?),
            None => None,
        };
        Some(native::View::new(&self.shape, self.inner.as_slice()?, self.leaves.as_slice()?, ranks))
    }

    fn tuning_for_sorted() -> LookUp {
        LookUp { order: BatchOrder::Sorted, ..LookUp::default() }
    }

    fn check_tuning(&self, tuning: &LookUp) -> Result<()> {
        self.group_width(tuning).map(drop)
    }

    unsafe fn launch_get(
        &self,
        stream: &Stream,
        tuning: &LookUp,
        queries: Global<K::Bits>,
        count: usize,
        values: GlobalMut<V>,
        hits: GlobalMut<u32>,
        miss: V,
    ) -> Result<()> {
        let group = self.group_width(tuning)?;
        let args = GetArgs { tree: self.tree_ref(stream)?, queries, count: count as u64, values, hits, miss };
        if self.is_dense(tuning, count)? {
            let launch = launch::over(stream, count.div_ceil(SORTED_TILE as usize), WARP)?;
            // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
            return Ok(unsafe { launch.run(calls::get_sorted::<K::Bits, V>(self.fanout(), &args)) }?);
        }
        let launch = launch::over(stream, count, 1)?;
        #[cfg(feature = "papers")]
        let call = match tuning.reading {
            NodeReading::Stopping => calls::get_stopping::<K::Bits, V>(self.fanout(), group, &args),
            NodeReading::Tuned => calls::get::<K::Bits, V>(self.fanout(), group, tuning.child, &args),
        };
        #[cfg(not(feature = "papers"))]
        let call = calls::get::<K::Bits, V>(self.fanout(), group, ChildRegion::NodeSlot, &args);
        // SAFETY: as above.
        Ok(unsafe { launch.run(call) }?)
    }

    unsafe fn launch_rank(
        &self,
        stream: &Stream,
        queries: Global<K::Bits>,
        count: usize,
        ranks: GlobalMut<u64>,
        side: Side,
    ) -> Result<()> {
        let (tree, side) = (self.tree_ref(stream)?, side as u32);
        let args = RankArgs { tree, queries, count: count as u64, ranks, side, padding: 0 };
        let launch = launch::over(stream, count, 1)?;
        // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
        Ok(unsafe { launch.run(calls::rank::<K::Bits, V>(self.fanout(), &args)) }?)
    }

    unsafe fn launch_neighbor(
        &self,
        stream: &Stream,
        queries: Global<K::Bits>,
        count: usize,
        outputs: NeighborOutputs<K::Bits, V>,
        miss: V,
        NeighborSearch { side, near }: NeighborSearch<K::Bits>,
    ) -> Result<()> {
        let NeighborOutputs { keys, values, hits } = outputs;
        let (tree, side) = (self.tree_ref(stream)?, side as u32);
        let args =
            NeighborArgs { tree, queries, count: count as u64, keys, values, hits, side, padding: 0, miss, near };
        let launch = launch::over(stream, count, 1)?;
        // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
        Ok(unsafe { launch.run(calls::neighbor::<K::Bits, V>(self.fanout(), &args)) }?)
    }

    unsafe fn launch_locate(
        &self,
        stream: &Stream,
        count: usize,
        (starts, ends): (Global<K::Bits>, Global<K::Bits>),
        limits: Global<u64>,
        limit: u64,
        (cursors, counts): (GlobalMut<u64>, GlobalMut<u64>),
    ) -> Result<()> {
        let args = RangeArgs {
            tree: self.tree_ref(stream)?,
            starts,
            ends,
            limits,
            count: count as u64,
            limit,
            cursors,
            counts,
            start_side: Side::Lower as u32,
            end_side: Side::Upper as u32,
        };
        // Two threads per range: one for each bound.
        let launch = launch::over(stream, count, 2)?;
        // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
        Ok(unsafe { launch.run(calls::range::<K::Bits, V>(self.fanout(), &args)) }?)
    }

    unsafe fn launch_gather(
        &self,
        stream: &Stream,
        rows: &GatherRows,
        expected: usize,
        (keys, values): (GlobalMut<K::Bits>, GlobalMut<V>),
    ) -> Result<()> {
        let args = GatherArgs { tree: self.tree_ref(stream)?, rows: *rows, keys, values };
        let is_short = expected as u64 / rows.count <= 16;
        let group = if is_short { kernels::GATHER_WIDTHS[0] } else { kernels::GATHER_WIDTHS[1] };
        // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
        Ok(unsafe {
            launch::groups(stream, rows.groups(), group)?.run(calls::gather::<K::Bits, V>(self.fanout(), group, &args))
        }?)
    }

    unsafe fn build_like(&self, stream: &Stream, pairs: (&Buffer<K>, &Buffer<V>), len: usize) -> Result<Self> {
        check_pairs(stream, pairs.0, pairs.1, len)?;
        let Shape { fanout, per_leaf, .. } = self.shape;
        let builder = Self::builder().fanout(fanout).fill(f64::from(per_leaf) / f64::from(fanout));
        builder.build_sorted_on(stream, pairs.0, pairs.1, len, &mut BuildScratch::for_sorted(stream.device())?)
    }
}

lanetree_frame::inherent_basics! {
    impl<K: Key, V: Word> Harmonia<K, V>
}

lanetree_frame::inherent_combinations! {
    impl<K: Key, V: Word> Harmonia<K, V>
}

lanetree_frame::inherent_forms! {
    impl<K: Key, V: Word> Harmonia<K, V>
}
