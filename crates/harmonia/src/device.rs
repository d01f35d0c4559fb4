//! Harmonia on a device: what the frame makes every query of, and how look-ups are tuned.

use super::launch;
use super::native;
use super::tuning::MEASURED;
use super::{BatchOrder, ChildRegion, GroupWidth, Harmonia};
use lanetree_frame::aggregate_steps::aggregate_groups;
use lanetree_frame::fixed::{self, FixedIndex, Query, check_pairs};
use lanetree_frame::{Op, Result, UpdateReport};
use lanetree_kernels_harmonia::layout::Shape;
use lanetree_kernels_harmonia::{GATHER_WIDTHS, GetArgs, SORTED_TILE, calls};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_primitives::BuildScratch;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{QueryArgs, WARP};

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

/// A tree's queries on a stream, in device form.
pub type OnStream<'a, K, V> = fixed::OnStream<'a, Harmonia<K, V>>;

/// How look-ups of Harmonia in device form are tuned, beyond the [order](fixed::OnStream::order) of their queries.
pub trait LookUpTuning: Sized {
    /// How many lanes serve a look-up together: [`LookUp::group`]; [`GroupWidth::Auto`] by default.
    #[must_use]
    fn group(self, group: GroupWidth) -> Self;

    /// The lanes per query with which `get` would look up: what [`GroupWidth::Auto`] stands for.
    ///
    /// # Errors
    /// [`GroupWidth`](lanetree_frame::Error::GroupWidth).
    fn group_width(&self) -> Result<u32>;

    /// Where look-ups read a node's first child: [`LookUp::child`]; in the node itself by default.
    #[cfg(feature = "papers")]
    #[must_use]
    fn child_region(self, child: ChildRegion) -> Self;

    /// How look-ups read nodes: [`LookUp::reading`]; by default as was measured to be fastest.
    #[cfg(feature = "papers")]
    #[must_use]
    fn reading(self, reading: NodeReading) -> Self;
}

impl<K: Key, V: Word> LookUpTuning for OnStream<'_, K, V> {
    fn group(self, group: GroupWidth) -> Self {
        let tuning = LookUp { group, ..*self.tuning() };
        self.tuned(tuning)
    }

    fn group_width(&self) -> Result<u32> {
        self.index().group_width(self.tuning())
    }

    #[cfg(feature = "papers")]
    fn child_region(self, child: ChildRegion) -> Self {
        let tuning = LookUp { child, ..*self.tuning() };
        self.tuned(tuning)
    }

    #[cfg(feature = "papers")]
    fn reading(self, reading: NodeReading) -> Self {
        let tuning = LookUp { reading, ..*self.tuning() };
        self.tuned(tuning)
    }
}

impl<K: Key, V: Word> Harmonia<K, V> {
    fn group_width(&self, tuning: &LookUp) -> Result<u32> {
        let measured = MEASURED.on(&self.device)?;
        tuning.group.choose(measured, (self.fanout(), K::Bits::BYTES), tuning.order, self.shape.len)
    }

    /// Launches look-ups.
    ///
    /// # Safety
    /// As [`FixedIndex::launch`]; the tree is this one.
    unsafe fn launch_get(&self, stream: &Stream, tuning: &LookUp, args: &GetArgs<K::Bits, V>) -> Result<()> {
        let (group, fanout) = (self.group_width(tuning)?, self.fanout());
        if self.is_dense(tuning, args.count)? {
            let launch = launch::over(stream, args.count.div_ceil(u64::from(SORTED_TILE)), WARP)?;
            // SAFETY: the caller's contract.
            return Ok(unsafe { launch.run(calls::get_sorted::<K::Bits, V>(fanout, args)) }?);
        }
        let launch = launch::over(stream, args.count, 1)?;
        #[cfg(feature = "papers")]
        let call = match tuning.reading {
            NodeReading::Stopping => calls::get_stopping::<K::Bits, V>(fanout, group, args),
            NodeReading::Tuned => calls::get::<K::Bits, V>(fanout, group, tuning.child, args),
        };
        #[cfg(not(feature = "papers"))]
        let call = calls::get::<K::Bits, V>(fanout, group, ChildRegion::NodeSlot, args);
        // SAFETY: as above.
        Ok(unsafe { launch.run(call) }?)
    }

    /// Whether there are enough sorted queries to be worth copying whole leaves to shared memory.
    fn is_dense(&self, tuning: &LookUp, count: u64) -> Result<bool> {
        // A caller that asks for another width, child region or reading gets it.
        let free = LookUp { order: BatchOrder::default(), ..*tuning } == LookUp::default();
        let dense = MEASURED.on(&self.device)?.dense;
        Ok(free && tuning.order == BatchOrder::Sorted && count >= dense * u64::from(self.shape.leaves))
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

    fn staging_bytes(&self) -> usize {
        self.staging.bytes() + self.changes.bytes(|scratch| scratch.bytes())
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

    fn in_order(tuning: LookUp, order: BatchOrder) -> LookUp {
        LookUp { order, ..tuning }
    }

    fn check_tuning(&self, tuning: &LookUp) -> Result<()> {
        self.group_width(tuning).map(drop)
    }

    unsafe fn launch(&self, stream: &Stream, tuning: &LookUp, query: &Query<K::Bits, V>) -> Result<()> {
        let (tree, fanout) = (self.tree_ref(stream)?, self.fanout());
        // SAFETY: the caller's contract; the tree is valid by construction, and borrowed.
        Ok(unsafe {
            match *query {
                Query::Get(batch) => return self.launch_get(stream, tuning, &QueryArgs { tree, batch }),
                Query::Rank(batch) => {
                    let args = QueryArgs { tree, batch };
                    launch::over(stream, batch.count, 1)?.run(calls::rank::<K::Bits, V>(fanout, &args))
                }
                Query::Neighbor(batch) => {
                    let args = QueryArgs { tree, batch };
                    launch::over(stream, batch.count, 1)?.run(calls::neighbor::<K::Bits, V>(fanout, &args))
                }
                Query::Locate(batch) => {
                    let args = QueryArgs { tree, batch };
                    // Two threads per range: one for each bound.
                    launch::over(stream, batch.count, 2)?.run(calls::range::<K::Bits, V>(fanout, &args))
                }
                Query::Gather(batch, mean) => {
                    let (args, [narrow, wide]) = (QueryArgs { tree, batch }, GATHER_WIDTHS);
                    let width = if mean <= 16 { narrow } else { wide };
                    let call = calls::gather::<K::Bits, V>(fanout, width, &args);
                    launch::over(stream, batch.rows.groups(), width)?.run(call)
                }
                Query::Aggregate(batch) => {
                    let (args, (groups, width)) = (QueryArgs { tree, batch }, aggregate_groups(&batch, GATHER_WIDTHS));
                    launch::over(stream, groups, width)?.run(calls::aggregate::<K::Bits, V>(fanout, width, &args))
                }
            }
        }?)
    }

    unsafe fn build_like(&self, stream: &Stream, pairs: (&Buffer<K>, &Buffer<V>), len: usize) -> Result<Self> {
        check_pairs(stream, pairs.0, pairs.1, len)?;
        let Shape { fanout, per_leaf, .. } = self.shape;
        let builder = Self::builder().fanout(fanout).fill(f64::from(per_leaf) / f64::from(fanout));
        builder.build_sorted_on(stream, pairs.0, pairs.1, len, &mut BuildScratch::for_sorted(stream.device())?)
    }
}

lanetree_frame::inherent! {
    impl<K: Key, V: Word> Harmonia<K, V>
}
