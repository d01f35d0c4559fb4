//! The indexes: one list, from which targets, tests and names are made.

use crate::families::{
    BatchHooks, CuartBuilder, CuartHooks, CubptBuilder, HarmoniaBuilder, HybridHooks, LaneTreeBuilder, cuart_builders,
    cubpt_builders, harmonia_builders, hybrid_builders, lane_tree_builders,
};
use crate::{Case, Family, Size, Tally, at_size, check, conformance, conformance_on, directed, parts};
use crate::{Fixed, MirroredFamily, Ordered, Plain, RegularHooks, mirrored, ordered};
use lanetree::cuart::HybridBuilder;
use lanetree::hbtree::{
    self, Balance, DeviceSearch, Fanout, HarmoniaAbove, HbTree, NodeSearch, Over, Pages, Pinning, Pipeline, Regular,
    Split, Strategy, Structure, UpdateMethod,
};
use lanetree::{AnyKey, Cubpt, Device, Harmonia, IndexBuilder, Key, LaneTree, Word};

/// Calls a macro with all indexes: for each a name, an expression of its [`Family`](crate::Family), and how many random
/// cases a bounded run has. A new index is one line here:
///
/// ```text
/// name = $crate::indexes::fixed("name", [$crate::lanetree::Name::<u64, u32>::builder()]), 150;
/// ```
///
/// The families of the first list are made of builders ([`Ordered`](crate::Ordered)); the families of the second are
/// pairs of trees, which have none: `for_each_index!(each, pairs)`. Sets, whose builders take no values, are a third
/// list: `for_each_index!(each, sets)`.
#[macro_export]
macro_rules! for_each_index {
    ($each:ident) => {
        $each! {
            harmonia = $crate::indexes::harmonia::<u32, u32>("harmonia"), 200;
            harmonia_wide = $crate::indexes::harmonia::<u64, u64>("harmonia_wide"), 120;
            harmonia_narrow_keys = $crate::indexes::harmonia::<i32, u64>("harmonia_narrow_keys"), 60;
            harmonia_signed = $crate::indexes::harmonia::<i64, u32>("harmonia_signed"), 120;
            harmonia_groups = $crate::indexes::harmonia::<$crate::lanetree::Composite<u32, i32>, u32>("harmonia_groups"), 30;
            cuart = $crate::indexes::cuart::<u64>("cuart"), 200;
            cuart_narrow = $crate::indexes::cuart::<u32>("cuart_narrow"), 120;
            hybrid = $crate::indexes::hybrid::<u64>("hybrid"), 120;
            cubpt = $crate::indexes::cubpt::<u32, u32>("cubpt"), 120;
            cubpt_wide = $crate::indexes::cubpt::<u64, u64>("cubpt_wide"), 100;
            cubpt_signed = $crate::indexes::cubpt::<i64, u32>("cubpt_signed"), 60;
            cubpt_float = $crate::indexes::cubpt::<$crate::lanetree::F32, u64>("cubpt_float"), 60;
            cubpt_groups = $crate::indexes::cubpt::<$crate::lanetree::Composite<u32, i32>, u32>("cubpt_groups"), 30;
            hbtree = $crate::indexes::plain("hbtree", $crate::indexes::hbtrees::<u32, u32>()), 120;
            hbtree_wide = $crate::indexes::plain("hbtree_wide", $crate::indexes::hbtrees::<u64, u64>()), 100;
            hbtree_harmonia = $crate::indexes::plain("hbtree_harmonia", $crate::indexes::hbtrees_over_harmonia::<u64, u64>()), 150;
            hbtree_signed = $crate::indexes::plain("hbtree_signed", $crate::indexes::two_hbtrees::<i64, u32>()), 60;
            hbtree_float = $crate::indexes::plain("hbtree_float", $crate::indexes::two_hbtrees::<$crate::lanetree::F32, u64>()), 60;
            hbtree_regular = $crate::indexes::regular_hbtree::<u64, u64>("hbtree_regular"), 100;
            hbtree_regular_narrow = $crate::indexes::regular_hbtree::<i32, u64>("hbtree_regular_narrow"), 60;
            lanetree = $crate::indexes::lane_tree::<u32, u32>("lanetree"), 120;
            lanetree_wide = $crate::indexes::lane_tree::<u64, u64>("lanetree_wide"), 120;
            lanetree_signed = $crate::indexes::lane_tree::<i64, u32>("lanetree_signed"), 60;
            lanetree_float = $crate::indexes::lane_tree::<$crate::lanetree::F32, u64>("lanetree_float"), 60;
            lanetree_u128 = $crate::indexes::lane_tree::<u128, u64>("lanetree_u128"), 30;
            lanetree_i128 = $crate::indexes::lane_tree::<i128, u64>("lanetree_i128"), 30;
            lanetree_groups = $crate::indexes::lane_tree::<$crate::lanetree::Composite<u32, i32>, u32>("lanetree_groups"), 60;
            lanetree_wide_groups = $crate::indexes::lane_tree::<$crate::lanetree::Composite<i32, i64>, u32>("lanetree_wide_groups"), 30;
            lanetree_bytes16 = $crate::indexes::lane_tree::<$crate::lanetree::Bytes16, u32>("lanetree_bytes16"), 30;
            sorted = $crate::indexes::fixed("sorted", [$crate::lanetree::SortedArray::<u32, u32>::builder()]), 60;
            sorted_wide = $crate::indexes::fixed("sorted_wide", [$crate::lanetree::SortedArray::<u64, u64>::builder()]), 60;
            sorted_signed = $crate::indexes::fixed("sorted_signed", [$crate::lanetree::SortedArray::<i64, u32>::builder()]), 60;
            sorted_groups = $crate::indexes::fixed("sorted_groups", [$crate::lanetree::SortedArray::<$crate::lanetree::Composite<u32, i32>, u32>::builder()]), 60;
            sorted_float = $crate::indexes::fixed("sorted_float", [$crate::lanetree::SortedArray::<$crate::lanetree::F32, u64>::builder()]), 60;
            sharded = $crate::ordered::<$crate::families::ShardedHooks<u64, u64>, _>("sharded", $crate::families::sharded_builders($crate::lanetree::LaneTree::<u64, u64>::builder())), 20;
            sharded_groups = $crate::ordered::<$crate::families::ShardedHooks<$crate::lanetree::Composite<u32, i32>, u64>, _>("sharded_groups", $crate::families::sharded_builders($crate::lanetree::LaneTree::<$crate::lanetree::Composite<u32, i32>, u64>::builder())), 10;
            replicated = $crate::ordered::<$crate::families::ReplicatedHooks, _>("replicated", $crate::families::replicated_builders($crate::lanetree::SortedArray::<u64, u64>::builder())), 30;
        }
    };
    ($each:ident, sets) => {
        $each! {
            lanetree_set = $crate::families::LaneSets::<u64>::new("lanetree_set"), 40;
            lanetree_set_narrow = $crate::families::LaneSets::<i32>::new("lanetree_set_narrow"), 40;
            lanetree_set_bytes16 = $crate::families::LaneSets::<$crate::lanetree::Bytes16>::new("lanetree_set_bytes16"), 20;
            sharded_set = $crate::families::ShardedSets::new("sharded_set"), 20;
        }
    };
    ($each:ident, pairs) => {
        $each! {
            harmonia_mirrored = $crate::indexes::mirrored_harmonia::<u64, u64>("harmonia_mirrored"), 120;
            cuart_mirrored = $crate::indexes::mirrored_cuart::<u64>("cuart_mirrored"), 120;
        }
    };
}

/// A [`Family`] whose types are not known to who calls it: it is compiled here, once, and not in every program that puts
/// it through cases.
pub trait Conforms: Send + Sync {
    /// In how many ways it is built, at least one.
    fn ways(&self) -> u8;

    /// [`conformance`], or [`directed()`] alone.
    ///
    /// # Errors
    /// The first case that fails, and how.
    fn conformance(&self, with_failures: bool) -> Result<Tally, String>;

    /// The [`parts`] of [`conformance_on`].
    fn parts(&self) -> Vec<&'static str>;

    /// [`conformance_on`].
    ///
    /// # Errors
    /// What fails, and how.
    fn conformance_on(&self, device: &Device, way: u8, part: &str) -> Result<u64, String>;

    /// [`at_size()`].
    ///
    /// # Errors
    /// The build's own.
    fn at_size(&self, device: &Device, way: u8, size: &Size) -> lanetree::Result<Result<u64, String>>;

    /// [`check`].
    ///
    /// # Errors
    /// What differs, and in which step.
    fn check(&self, case: &Case) -> Result<Tally, String>;
}

impl<F: Family + Send> Conforms for F {
    fn ways(&self) -> u8 {
        Family::ways(self)
    }

    fn conformance(&self, with_failures: bool) -> Result<Tally, String> {
        if with_failures { conformance(self) } else { directed(self) }
    }

    fn parts(&self) -> Vec<&'static str> {
        parts::<F>()
    }

    fn conformance_on(&self, device: &Device, way: u8, part: &str) -> Result<u64, String> {
        conformance_on(self, device, way, part)
    }

    fn at_size(&self, device: &Device, way: u8, size: &Size) -> lanetree::Result<Result<u64, String>> {
        at_size(self, device, way, size)
    }

    fn check(&self, case: &Case) -> Result<Tally, String> {
        check(self, case)
    }
}

/// The indexes of the list whose [`conformance`] has failures at every point: one of each kind. What can fail is called by code that
/// all keys and values of an index share, so for the others there are the failures in their random cases.
const WITH_FAILURES: [&str; 15] = [
    "harmonia",
    "cuart",
    "hybrid",
    "cubpt",
    "hbtree",
    "hbtree_harmonia",
    "hbtree_regular",
    "lanetree_wide",
    "lanetree_u128",
    "sorted",
    "sharded",
    "replicated",
    "sharded_set",
    "harmonia_mirrored",
    "cuart_mirrored",
];

/// An index of the list.
pub struct Listed {
    /// What it is called.
    pub name: &'static str,
    /// The index and the ways to build it.
    pub family: Box<dyn Conforms>,
    /// How many random cases a bounded run has.
    pub random_cases: u64,
    /// Whether its conformance has failures at every point.
    pub with_failures: bool,
}

macro_rules! listed {
    ($($name:ident = $family:expr, $cases:literal;)*) => {
        vec![$({
            let name = stringify!($name);
            let with_failures = WITH_FAILURES.contains(&name);
            Listed { name, family: Box::new($family), random_cases: $cases, with_failures }
        }),*]
    };
}

/// The indexes that are made by builders.
pub fn with_builders() -> Vec<Listed> {
    for_each_index!(listed)
}

/// The sets.
pub fn sets() -> Vec<Listed> {
    for_each_index!(listed, sets)
}

/// The pairs of trees.
pub fn pairs() -> Vec<Listed> {
    for_each_index!(listed, pairs)
}

/// The index or the pair of a name.
///
/// # Panics
/// For a name that is not in the list.
pub fn named(name: &str) -> Listed {
    let all = with_builders().into_iter().chain(sets()).chain(pairs());
    all.into_iter().find(|listed| listed.name == name).unwrap_or_else(|| panic!("no index is called {name:?}"))
}

/// Any index over keys of a fixed size, with its device form.
pub fn fixed<B: IndexBuilder>(name: &'static str, builders: impl IntoIterator<Item = B>) -> Ordered<B, Fixed> {
    ordered(name, builders)
}

/// Any index that has the calls of `OrderedIndex` only.
pub fn plain<B: IndexBuilder>(name: &'static str, builders: impl IntoIterator<Item = B>) -> Ordered<B, Plain> {
    ordered(name, builders)
}

/// CUBPT, built and changed in device form, too.
pub fn cubpt<K: Key, V: Word>(name: &'static str) -> Ordered<CubptBuilder<K, V>, BatchHooks<Cubpt<K, V>>> {
    ordered(name, cubpt_builders())
}

/// HB+-trees: buckets of a few queries too, so that small batches are several; every strategy, and every share of the
/// descent.
fn hbtrees_of<K: Key, V: Word, L: Structure>() -> [hbtree::Builder<K, V, L>; 6] {
    let builder = hbtree::Builder::default();
    let buckets = |bucket, strategy, pipelines, depth, share| {
        let mut pipeline = Pipeline::default();
        (pipeline.bucket, pipeline.strategy, pipeline.pipelines) = (bucket, strategy, pipelines);
        pipeline.split = Split { depth, share };
        pipeline
    };
    let mut shared = buckets(7, Strategy::Pipelined, 2, 0, 0.5);
    shared.device_search = DeviceSearch::Shared;
    // The device gets all of it, in launches that take the emulator long, however short they are.
    let mut with_device_bucket = buckets(13, Strategy::DoubleBuffered, 2, 0, 0.0);
    with_device_bucket.device_bucket = 21;
    let mut live = buckets(9, Strategy::Pipelined, 2, 0, 0.0);
    (live.balance, live.sample) = (Balance::Live, 3);
    [
        builder,
        builder.pipeline(live),
        builder.pipeline(with_device_bucket).pinning(Pinning::Required),
        builder.fanout(Fanout::Words).pipeline(shared).node_search(NodeSearch::Sequential),
        builder.pipeline(buckets(5, Strategy::Sequential, 1, 0, 0.3)).node_search(NodeSearch::Portable).in_flight(1),
        builder
            .pipeline(buckets(33, Strategy::TripleBuffered, 3, 2, 0.0))
            .pages(Pages::Small, Pages::Small)
            .in_flight(32),
    ]
}

/// Leaves in host memory below Harmonia.
pub fn hbtrees_over_harmonia<K: Key, V: Word>() -> Vec<hbtree::Builder<K, V, Over<HarmoniaAbove>>> {
    let builder = HbTree::builder().over();
    let mut pipeline = Pipeline::default();
    (pipeline.bucket, pipeline.pipelines) = (5, 2);
    pipeline.split = Split { depth: 0, share: 0.4 };
    vec![builder, builder.pipeline(pipeline)]
}

/// HB+-trees.
pub fn hbtrees<K: Key, V: Word>() -> Vec<hbtree::Builder<K, V>> {
    hbtrees_of().into()
}

/// HB+-trees in two ways, for types whose words other families have in all ways: the plain one, and that whose device reads
/// leaves, which takes a kernel for each pair of words.
pub fn two_hbtrees<K: Key, V: Word>() -> Vec<hbtree::Builder<K, V>> {
    let [plain, _, with_device_bucket, ..] = hbtrees_of();
    vec![plain, with_device_bucket]
}

/// Regular HB+-trees: full, half full, and with so few pairs in each leaf that small trees have several levels.
pub fn regular_hbtrees<K: Key, V: Word>() -> Vec<hbtree::Builder<K, V, Regular>> {
    let methods = [UpdateMethod::Asynchronous, UpdateMethod::Synchronized, UpdateMethod::Auto];
    let mut builders: Vec<hbtree::Builder<K, V, Regular>> = hbtrees_of().into();
    // The device sorts batches.
    builders.push(builders[0].device_updates(true));
    let ways = [1.0, 0.5, 0.003, 0.003, 0.01, 0.003, 0.02].into_iter().zip(methods.into_iter().cycle());
    builders.into_iter().zip(ways).map(|(builder, (fill, method))| builder.fill(fill).update_method(method)).collect()
}

/// Regular HB+-trees, whose nodes are checked.
pub fn regular_hbtree<K: Key, V: Word>(name: &'static str) -> Ordered<hbtree::Builder<K, V, Regular>, RegularHooks> {
    ordered(name, regular_hbtrees())
}

/// LaneTree, built and changed in device form, too.
pub fn lane_tree<K: AnyKey, V: Word>(name: &'static str) -> Ordered<LaneTreeBuilder<K, V>, BatchHooks<LaneTree<K, V>>> {
    ordered(name, lane_tree_builders())
}

/// Harmonia.
pub fn harmonia<K: Key, V: Word>(name: &'static str) -> Ordered<HarmoniaBuilder<K, V>, BatchHooks<Harmonia<K, V>>> {
    ordered(name, harmonia_builders())
}

/// CuART.
pub fn cuart<V: Word>(name: &'static str) -> Ordered<CuartBuilder<V>, CuartHooks> {
    ordered(name, cuart_builders())
}

/// Two CuARTs, with short keys and with long ones.
pub fn hybrid<V: Word>(name: &'static str) -> Ordered<HybridBuilder<V>, HybridHooks> {
    ordered(name, hybrid_builders())
}

/// A Harmonia on the host and its copy.
pub fn mirrored_harmonia<K: Key, V: Word>(
    name: &'static str,
) -> MirroredFamily<HarmoniaBuilder<K, V>, BatchHooks<Harmonia<K, V>>> {
    mirrored(name, harmonia_builders())
}

/// A CuART on the host and its copy.
pub fn mirrored_cuart<V: Word>(name: &'static str) -> MirroredFamily<CuartBuilder<V>, CuartHooks> {
    mirrored(name, cuart_builders())
}
