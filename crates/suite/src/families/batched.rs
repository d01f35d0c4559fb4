//! Indexes that are built, and changed, in device form, too: Harmonia, CUBPT and LaneTree.

use crate::fixed::check_orders;
use crate::lent::Lender;
use crate::memory::{Memory, hits};
use crate::operations::Columns;
use crate::{Answer, Change, Counts, Form, Hooks, Numbered, Question, fixed};
use core::fmt::Debug;
use lanetree::harmonia::{
    ChildRegion, FANOUTS, GetBySorting, GroupWidth, LookUpTuning, NodeReading, PsaScratch, QuerySort,
};
use lanetree::{
    AnyKey, Batch, Buffer, Cubpt, Device, DeviceKind, Error, Harmonia, IndexBuilder, Key, LaneTree, Op, Result, Stream,
    UpdateReport, Word, cubpt, harmonia, lane_tree,
};
use lanetree_frame::BatchOrder;
use lanetree_frame::fixed::FixedIndex;

/// Room of the scratch memory that all batches of an index in device form share, unless one has more operations.
const FEW_OPERATIONS: usize = 160;

/// An index that takes batches of changes from buffers.
pub trait Batched: FixedIndex<Value: Word> {
    /// The memory that batches work in.
    type Scratch: Debug;

    /// # Errors
    /// The index's own, here and below.
    fn scratch(&self, operations: usize) -> Result<Self::Scratch>;

    /// Its `apply_on`.
    ///
    /// # Errors
    /// The index's own.
    fn apply_on(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, Self::Key, &Buffer<Self::Value>>,
        scratch: &mut Self::Scratch,
    ) -> Result<UpdateReport>;

    /// [`Hooks::ask`] in device form, by calls that not every index over keys of a fixed size has.
    fn ask(&self, _stream: &Stream, _question: &Question<Self::Key>) -> Option<Result<Answer<Self::Key>>> {
        None
    }

    /// [`Hooks::check_structure`], of an index that is on the host or the emulator.
    fn check_structure(&self);

    /// [`Hooks::relocate`].
    ///
    /// # Errors
    /// The index's own.
    fn relocate(self) -> Result<Self> {
        Ok(self)
    }
}

/// Looks up a batch: values, and the hit mask.
type LookUp<'t, V> = dyn Fn(&mut Buffer<V>, &mut Buffer<u32>) -> Result<()> + 't;

/// Tunes Harmonia's look-ups.
type Tune<'t, K, V> = dyn for<'a> Fn(harmonia::OnStream<'a, K, V>) -> harmonia::OnStream<'a, K, V> + 't;

/// What [`Batched`] takes from the index's own methods of these names.
macro_rules! batches_of {
    ($scratch:ty) => {
        type Scratch = $scratch;

        fn scratch(&self, operations: usize) -> Result<Self::Scratch> {
            <$scratch>::new(self.device(), operations)
        }

        fn apply_on(
            &mut self,
            stream: &Stream,
            batch: Batch<'_, K, &Buffer<V>>,
            scratch: &mut Self::Scratch,
        ) -> Result<UpdateReport> {
            self.apply_on(stream, batch, scratch)
        }

        fn check_structure(&self) {
            self.check_structure();
        }
    };
}

impl<K: Key, V: Word> Batched for Harmonia<K, V> {
    batches_of!(harmonia::UpdateScratch<K, V>);

    /// Some batches by every kernel that there is: every width of thread groups, both child regions, and by all ways to treat
    /// a batch's order.
    fn ask(&self, stream: &Stream, question: &Question<K>) -> Option<Result<Answer<K>>> {
        let Question::Get(keys) = question else { return None };
        let get = || {
            let lender = Lender::new(self.device());
            let queries = lender.upload(keys)?;
            let found = |look_up: &LookUp<'_, V>| -> Result<_> {
                let mut values = lender.alloc(keys.len())?;
                let mut mask = lender.alloc(keys.len().div_ceil(32))?;
                look_up(&mut values, &mut mask)?;
                stream.synchronize()?;
                Ok(hits(values.to_vec()?.into_iter(), &mask.to_vec()?))
            };
            let by =
                |tune: &Tune<'_, K, V>| found(&|values, mask| tune(self.on(stream)).hits(mask).get(&queries, values));
            let expected = by(&|on| on)?;
            assert_eq!(by(&|on| on.order(BatchOrder::Sorted))?, expected, "as if sorted");
            for sort in [QuerySort::TopBits(5), QuerySort::TopBits(16), QuerySort::Full] {
                let sorted = found(&|values, mask| {
                    let scratch = &mut PsaScratch::new(self.device(), keys.len())?;
                    self.on(stream).hits(mask).get_by_sorting(sort, &queries, values, scratch)
                })?;
                assert_eq!(sorted, expected, "{sort}");
            }
            let top = self.constant_top()?;
            for width in [1, 2, 4, 8, 16, 32] {
                let lanes = GroupWidth::Lanes(width);
                if let Err(Error::GroupWidth { .. }) = self.on(stream).group(lanes).group_width() {
                    continue;
                }
                assert_eq!(by(&|on| on.group(lanes))?, expected, "{lanes:?}");
                let prefix_sums = by(&|on| on.group(lanes).child_region(ChildRegion::PrefixSum))?;
                assert_eq!(prefix_sums, expected, "{lanes:?}, prefix sums");
                let stopping = by(&|on| on.group(lanes).reading(NodeReading::Stopping))?;
                assert_eq!(stopping, expected, "{lanes:?}, in steps");
                let constant = found(&|values, mask| top.get(stream, width, &queries, values, Some(mask), V::MAX))?;
                assert_eq!(constant, expected, "{lanes:?}, the top in constant memory");
            }
            Ok(Answer::Values(expected.into_iter().map(|value| value.map(Word::widen)).collect()))
        };
        keys.len().is_multiple_of(3).then(get)
    }

    /// From the host to a device, and back.
    fn relocate(self) -> Result<Self> {
        self.to_device(&match self.device().kind() {
            DeviceKind::Host => Device::emulated_with_seed(5),
            _ => Device::host(),
        })
    }
}

impl<K: Key, V: Word> Batched for Cubpt<K, V> {
    type Scratch = cubpt::UpdateScratch<K>;

    fn scratch(&self, operations: usize) -> Result<Self::Scratch> {
        cubpt::UpdateScratch::new(self.device(), operations)
    }

    fn apply_on(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        scratch: &mut Self::Scratch,
    ) -> Result<UpdateReport> {
        // What batches before have left small: now, or by the batch itself. A merge that fails has changed no pairs, so the batch has
        // not taken place.
        if batch.count % 2 == 1 {
            self.merge_small(stream, scratch)?;
        }
        self.apply_on(stream, batch, scratch)
    }

    fn check_structure(&self) {
        let _ = self.check_structure();
    }
}

impl<K: AnyKey, V: Word> Batched for LaneTree<K, V> {
    batches_of!(lane_tree::UpdateScratch<K>);

    /// Scans.
    fn ask(&self, stream: &Stream, question: &Question<K>) -> Option<Result<Answer<K>>> {
        match question {
            Question::Scan(..) => Some(scans(self, stream, question)),
            _ => None,
        }
    }
}

/// Scans, whatever order they are said to be in.
fn scans<K: AnyKey, V: Word>(tree: &LaneTree<K, V>, stream: &Stream, question: &Question<K>) -> Result<Answer<K>> {
    let scan = |question: &Question<K>, order: BatchOrder| {
        let Question::Scan(starts, limit) = question else { unreachable!("scans are asked") };
        let memory = Memory::new(stream);
        let queries = memory.lender.upload(starts)?;
        memory.scan(starts.len(), *limit, |keys, values: &mut Buffer<V>, counts| {
            tree.on(stream).order(order).scan(&queries, *limit, keys, values, counts)
        })
    };
    let answer = scan(question, BatchOrder::default())?;
    check_orders(tree.len(), question, &answer, |question, order| scan(question, order).map(Some))?;
    Ok(answer)
}

/// Which call builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From pairs in any order.
    Unsorted,
    /// From sorted pairs.
    Sorted,
    /// On the device.
    OnDevice,
}

macro_rules! by_way {
    ($(#[$doc:meta] $name:ident: $module:ident, $index:ident, $key:ident;)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<K, V> {
            builder: $module::Builder<K, V>,
            way: Way,
        }

        impl<K: $key, V: Word> $name<K, V> {
            /// Each of the ways in turn.
            fn all(builders: impl IntoIterator<Item = $module::Builder<K, V>>) -> Vec<Self> {
                let ways = [Way::Unsorted, Way::Sorted, Way::OnDevice].into_iter().cycle();
                builders.into_iter().zip(ways).map(|(builder, way)| Self { builder, way }).collect()
            }
        }

        impl<K: $key, V: Word> IndexBuilder for $name<K, V> {
            type Index = $index<K, V>;

            fn build(&self, device: &Device, keys: &[K], values: &[V]) -> Result<$index<K, V>> {
                match self.way {
                    Way::Sorted if keys.len() == values.len() => {
                        // Stable: of equal keys, the last one stays the last.
                        let mut sorted: Vec<(K, V)> = keys.iter().copied().zip(values.iter().copied()).collect();
                        sorted.sort_by_key(|pair| pair.0);
                        let (keys, values): (Vec<K>, Vec<V>) = sorted.into_iter().unzip();
                        self.builder.build_sorted(device, &keys, &values)
                    }
                    Way::OnDevice if keys.len() == values.len() => {
                        let lender = Lender::new(device);
                        let (count, keys, values) = (keys.len(), lender.upload(keys)?, lender.upload(values)?);
                        let mut scratch = $module::BuildScratch::for_unsorted(device, count)?;
                        self.builder.build_on(&device.stream()?, &keys, &values, count, &mut scratch)
                    }
                    _ => self.builder.build(device, keys, values),
                }
            }
        }
    )*};
}
by_way! {
    /// Builds Harmonia by one of its builder's calls.
    HarmoniaBuilder: harmonia, Harmonia, Key;
    /// Builds CUBPT by one of its builder's calls.
    CubptBuilder: cubpt, Cubpt, Key;
    /// Builds LaneTree by one of its builder's calls.
    LaneTreeBuilder: lane_tree, LaneTree, AnyKey;
}

/// Every fanout with several fills, the last one of as few pairs in a leaf as there can be, and each of the ways in turn.
pub fn harmonia_builders<K: Key, V: Word>() -> Vec<HarmoniaBuilder<K, V>> {
    let mut builders = Vec::new();
    for (i, fills) in [[1.0; 2], [0.75; 2], [0.5, 0.001]].into_iter().enumerate() {
        let fill = |fanout| fills[usize::from(fanout > FANOUTS[0])];
        let of_fill = FANOUTS.map(|fanout| Harmonia::builder().fanout(fanout).fill(fill(fanout)));
        let mut of_fill = HarmoniaBuilder::all(of_fill.into_iter().cycle().skip(i).take(FANOUTS.len()));
        builders.append(&mut of_fill);
    }
    builders
}

/// Several orders, full and with room in each node, and each of the ways in turn.
pub fn cubpt_builders<K: Key, V: Word>() -> Vec<CubptBuilder<K, V>> {
    let of = |(order, fill)| Cubpt::builder().fanout(order).fill(fill);
    CubptBuilder::all([(8, 0.5), (16, 1.0), (40, 0.7)].map(of))
}

/// Trees with levels above the lowest and much room in their lines, full ones, and with some room; and each of the ways in
/// turn.
pub fn lane_tree_builders<K: AnyKey, V: Word>() -> Vec<LaneTreeBuilder<K, V>> {
    let of = |(table_nodes, fill)| LaneTree::builder().table_nodes(table_nodes).fill(fill);
    LaneTreeBuilder::all([(1, 0.3), (16384, 1.0), (3, 0.7)].map(of))
}

/// Changes in device form, and the scratch memory that they share.
#[derive(Debug)]
pub struct BatchHooks<I: Batched> {
    scratch: I::Scratch,
    /// How many operations the scratch memory has room for.
    room: usize,
}

impl<I: Batched<Key: Numbered>> Hooks<I> for BatchHooks<I> {
    fn start(index: &I, _: u8) -> Result<Self> {
        Ok(Self { scratch: index.scratch(FEW_OPERATIONS)?, room: FEW_OPERATIONS })
    }

    fn apply(
        &mut self,
        index: &mut I,
        stream: &Stream,
        change: Change,
        ops: &[Op<<I as FixedIndex>::Key, <I as FixedIndex>::Value>],
    ) -> Option<Result<Counts>> {
        if FixedIndex::device(index).kind() == DeviceKind::Host {
            return None;
        }
        let mut apply = || {
            if ops.len() > self.room {
                (self.scratch, self.room) = (index.scratch(ops.len())?, ops.len());
            }
            let columns = Columns::upload(FixedIndex::device(index), change, ops)?;
            Ok(index.apply_on(stream, columns.batch(), &mut self.scratch)?.into())
        };
        Some(apply())
    }

    fn ask(
        &self,
        index: &I,
        stream: &Stream,
        question: &Question<<I as FixedIndex>::Key>,
        form: Form,
    ) -> Option<Result<Answer<<I as FixedIndex>::Key>>> {
        let own = if form == Form::Device { index.ask(stream, question) } else { None };
        own.or_else(|| fixed::ask_of_map(index, stream, question, form))
    }

    fn check_structure(&self, index: &I) {
        if FixedIndex::device(index).kind() != DeviceKind::Cuda {
            Batched::check_structure(index);
        }
    }

    fn relocate(index: I) -> Result<I> {
        Batched::relocate(index)
    }
}
