//! Which trees are built, and what each is asked: plain data, by device and scale.

use super::data::{Batch, Distribution, RangeBatch};
use crate::kernels::group_widths;
use lanetree::DeviceKind;
use lanetree::harmonia::{ChildRegion, FANOUTS, NodeReading};

/// The key types.
const KEYS: [&str; 4] = ["u32", "u64", "i32", "i64"];
const VALUES: [&str; 2] = ["u32", "u64"];
const FILLS: [f64; 3] = [1.0, 0.7, 0.001];
/// Beyond this many pairs there is no tree of one pair a leaf, nor one of all-equal keys.
const SMALL: usize = 5000;

/// How much is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Quick,
    Full,
}

/// One tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tree {
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    pub(crate) fanout: u32,
    pub(crate) fill: f64,
    pub(crate) distribution: Distribution,
    /// Pairs of the input, duplicates included.
    pub(crate) len: usize,
    /// Its place in the run: what is not tried on every tree takes turns by it.
    pub(crate) order: usize,
    /// Queries of a batch, about.
    pub(crate) batch: usize,
    /// Ranges of a batch, about.
    pub(crate) ranges: usize,
    /// The most pairs of a range.
    pub(crate) longest: usize,
}

impl Tree {
    pub(crate) fn name(&self) -> String {
        let Self { key, value, fanout, fill, distribution, len, .. } = self;
        format!("harmonia/{key}-{value}/f{fanout}/fill{fill}/{}/n{len}", distribution.name())
    }

    /// Whether the input comes sorted.
    pub(crate) fn sorted(&self) -> bool {
        self.len > SMALL * 20 || self.order.is_multiple_of(2)
    }
}

/// How many trees, and how large, in a run on one device.
struct Scale {
    batch: usize,
    all_fills: bool,
    distributions: usize,
    /// Inputs too large to build many of; one after another.
    large: &'static [usize],
    huge: Option<usize>,
}

fn scale(mode: Mode, kind: DeviceKind) -> Scale {
    let scale = |batch, all_fills, distributions, large, huge| Scale { batch, all_fills, distributions, large, huge };
    match (mode, kind) {
        (Mode::Quick, DeviceKind::Emulated) => scale(100, false, 1, &[], None),
        (Mode::Quick, DeviceKind::Host) => scale(300, false, 1, &[], None),
        (Mode::Quick, DeviceKind::Cuda) => scale(1000, false, 1, &[], None),
        (Mode::Full, DeviceKind::Emulated) => scale(100, true, 1, &[], None),
        (Mode::Full, DeviceKind::Host) => scale(2000, true, 2, &[1 << 20, 1 << 22], None),
        (Mode::Full, DeviceKind::Cuda) => scale(3000, true, 1, &[1 << 20, 1 << 22, 1 << 24], Some(1 << 26)),
    }
}

/// The inputs' lengths: none, the borders of nodes and of tiles of 32, and several levels.
fn lengths(fanout: u32) -> Vec<usize> {
    let fanout = fanout as usize;
    let mut lengths = vec![0, 1, 2, fanout - 1, fanout, fanout + 1, 31, 32, 33, fanout * fanout + 1, SMALL, 1 << 16];
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// The trees of a run, the large ones last.
pub(crate) fn trees(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Tree> {
    let scale = scale(mode, kind);
    let mut trees = Vec::new();
    let mut order = 0;
    let types: Vec<_> = KEYS.iter().flat_map(|&key| VALUES.map(|value| (key, value))).collect();
    for &(key, value) in &types {
        for fanout in FANOUTS {
            for len in lengths(fanout) {
                let fills = if scale.all_fills { FILLS.to_vec() } else { vec![FILLS[order % FILLS.len()]] };
                for (f, fill) in fills.into_iter().enumerate() {
                    for d in 0..scale.distributions {
                        let distribution = Distribution::ALL[(order + f + 3 * d) % Distribution::ALL.len()];
                        let (batch, ranges) = (scale.batch, scale.batch);
                        let (fill, distribution, longest) = if len > SMALL {
                            (fill.max(0.3), not_all_equal(distribution), 1000)
                        } else {
                            (fill, distribution, len.min(1000))
                        };
                        let order = order + f + d;
                        trees.push(Tree { key, value, fanout, fill, distribution, len, order, batch, ranges, longest });
                    }
                }
                order += 1;
            }
        }
    }
    let mut large = |key, value, len: usize| {
        let (fanout, fill) = (FANOUTS[order % FANOUTS.len()], FILLS[order % 2]);
        let distribution = not_all_equal(Distribution::ALL[order % Distribution::ALL.len()]);
        let (batch, ranges, longest) = ((len / 16).max(1 << 17), 1 << 15, 300);
        trees.push(Tree { key, value, fanout, fill, distribution, len, order, batch, ranges, longest });
        order += 1;
    };
    for &len in scale.large {
        types.iter().for_each(|&(key, value)| large(key, value, len));
    }
    if let Some(len) = scale.huge {
        large(KEYS[1], VALUES[1], len);
    }
    trees.retain(|tree| tree.len <= max_len);
    for tree in &mut trees {
        (tree.batch, tree.ranges) = (tree.batch.min(max_len.max(1)), tree.ranges.min(max_len.max(1)));
    }
    trees
}

/// Beyond this many pairs a tree has the machine to itself.
pub(crate) const LARGE: usize = 1 << 17;

fn not_all_equal(distribution: Distribution) -> Distribution {
    if distribution == Distribution::AllEqual { Distribution::Uniform } else { distribution }
}

/// What stands for a miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Miss {
    Zero,
    Max,
    /// A value that some pair has.
    Stored,
}

/// Limits of a batch of ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    None,
    Of(u64),
    /// One for each range.
    Each,
    /// One for each range, and one for all.
    EachAnd(u64),
}

const LIMITS: [Limit; 6] = [Limit::None, Limit::Each, Limit::Of(1), Limit::EachAnd(5), Limit::Of(0), Limit::Of(7)];

/// The capacity of a batch of ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Room {
    /// As much as there is to find.
    Exact,
    /// More than 16 pairs a range, and more than there is to find.
    Ample,
    /// At most 16 pairs a range: copied by the other kernel.
    Narrow,
    /// Half of what there is to find.
    Half,
    /// None at all.
    Nothing,
}

const ROOMS: [Room; 5] = [Room::Ample, Room::Narrow, Room::Half, Room::Exact, Room::Nothing];

/// One question to a tree: a batch, an operation, a variant of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Check {
    Get {
        batch: Batch,
        lanes: Option<u32>,
        child: ChildRegion,
        reading: NodeReading,
        hits: bool,
        miss: Miss,
    },
    /// The look-up of queries that are said to be sorted; they are where `sort` says so.
    GetSorted {
        batch: Batch,
        sort: bool,
        hits: bool,
    },
    /// The look-up of queries that are sorted on the way, by so many of their top bits, or all.
    GetBySorting {
        batch: Batch,
        bits: Option<u32>,
        hits: bool,
    },
    Rank {
        batch: Batch,
        upper: bool,
    },
    Neighbor {
        batch: Batch,
        predecessor: bool,
        hits: bool,
        miss: Miss,
    },
    Range {
        batch: RangeBatch,
        limit: Limit,
        room: Room,
    },
    Count {
        batch: RangeBatch,
        limit: Limit,
    },
    GetMany {
        batch: Batch,
    },
    RankMany {
        batch: Batch,
        upper: bool,
    },
    NeighborMany {
        batch: Batch,
        predecessor: bool,
    },
    RangeMany {
        batch: RangeBatch,
    },
    CountMany {
        batch: RangeBatch,
    },
    Iterate,
}

impl Check {
    /// The row of the table to which it counts.
    pub(crate) fn operation(&self) -> &'static str {
        match self {
            Self::Get { .. } | Self::GetSorted { .. } | Self::GetBySorting { .. } => "get",
            Self::Rank { .. } => "lower_bound, upper_bound",
            Self::Neighbor { .. } => "predecessor, successor",
            Self::Range { .. } => "range",
            Self::Count { .. } => "count",
            Self::GetMany { .. } => "get_many",
            Self::RankMany { .. } | Self::NeighborMany { .. } => "ranks and neighbours, _many",
            Self::RangeMany { .. } | Self::CountMany { .. } => "range_many, count_range_many",
            Self::Iterate => "iter, len, stats",
        }
    }

    pub(crate) fn name(&self) -> String {
        let side = |upper: bool| if upper { "upper_bound" } else { "lower_bound" };
        let neighbor = |predecessor: bool| if predecessor { "predecessor" } else { "successor" };
        let with = |hits: bool| if hits { "hits" } else { "no-hits" };
        match *self {
            Self::Get { batch, lanes, child, reading, hits, miss } => {
                let lanes = lanes.map_or("auto".into(), |lanes| format!("g{lanes}"));
                let way = if reading == NodeReading::Stopping { "stopping" } else { child_name(child) };
                format!("get/{lanes}-{way}/{}/miss-{miss:?}/{}", with(hits), batch.name())
            }
            Self::GetSorted { batch, sort, hits } => {
                let order = if sort { "sorted" } else { "said-to-be-sorted" };
                format!("get/{order}/{}/{}", with(hits), batch.name())
            }
            Self::GetBySorting { batch, bits, hits } => {
                let bits = bits.map_or("all".into(), |bits| bits.to_string());
                format!("get/by-sorting-{bits}-bits/{}/{}", with(hits), batch.name())
            }
            Self::Rank { batch, upper } => format!("{}/{}", side(upper), batch.name()),
            Self::Neighbor { batch, predecessor, hits, miss } => {
                format!("{}/{}/miss-{miss:?}/{}", neighbor(predecessor), with(hits), batch.name())
            }
            Self::Range { batch, limit, room } => format!("range/{limit:?}/{room:?}/{}", batch.name()),
            Self::Count { batch, limit } => format!("count/{limit:?}/{}", batch.name()),
            Self::GetMany { batch } => format!("get_many/{}", batch.name()),
            Self::RankMany { batch, upper } => format!("{}_many/{}", side(upper), batch.name()),
            Self::NeighborMany { batch, predecessor } => format!("{}_many/{}", neighbor(predecessor), batch.name()),
            Self::RangeMany { batch } => format!("range_many/{}", batch.name()),
            Self::CountMany { batch } => format!("count_range_many/{}", batch.name()),
            Self::Iterate => "iter".into(),
        }
    }
}

fn child_name(child: ChildRegion) -> &'static str {
    match child {
        ChildRegion::NodeSlot => "slot",
        ChildRegion::PrefixSum => "psum",
    }
}

/// What a tree is asked on a kind of device. Every batch and every variant occurs; which ones meet
/// depends on the tree's place in the run.
pub(crate) fn checks(tree: &Tree, kind: DeviceKind) -> Vec<Check> {
    let turn = tree.order;
    let misses = [Miss::Zero, Miss::Max, Miss::Stored];
    let mut variants = vec![(None, ChildRegion::NodeSlot, NodeReading::Tuned)];
    for &lanes in group_widths(tree.fanout) {
        let tuned = |child| (Some(lanes), child, NodeReading::Tuned);
        variants.extend([ChildRegion::NodeSlot, ChildRegion::PrefixSum].map(tuned));
        // There are such kernels for words of 64 bits alone.
        if tree.key.ends_with("64") && tree.value.ends_with("64") {
            variants.push((Some(lanes), ChildRegion::PrefixSum, NodeReading::Stopping));
        }
    }
    if kind == DeviceKind::Host {
        // No kernels, so no variants of them: they are accepted all the same.
        variants.truncate(2);
    }
    let mut checks = Vec::new();
    // The empty batch is the last: it comes up as often as any other, but not in every variant's place.
    let batches = &Batch::ALL;
    let get = |v: usize, b: usize| {
        let (lanes, child, reading) = variants[v % variants.len()];
        let (hits, miss) = (!(v + b + turn).is_multiple_of(4), misses[(v + turn) % 3]);
        Check::Get { batch: batches[b % batches.len()], lanes, child, reading, hits, miss }
    };
    // Each variant once, over a batch that is not empty; then each batch once.
    checks.extend((0..variants.len()).map(|v| get(v, (v + turn) % (batches.len() - 1))));
    checks.extend((0..batches.len()).map(|b| get(b + turn, b)));
    checks.push(Check::GetSorted { batch: Batch::Larger, sort: true, hits: !turn.is_multiple_of(3) });
    let batch = batches[turn % batches.len()];
    checks.push(Check::GetSorted { batch, sort: turn.is_multiple_of(2), hits: turn.is_multiple_of(3) });
    let bits = [Some(5), None, Some(16), Some(0)][turn / 2 % 4];
    checks.push(Check::GetBySorting { batch, bits, hits: turn.is_multiple_of(2) });
    for (i, &batch) in batches.iter().enumerate() {
        let other = !(i + turn).is_multiple_of(2);
        let (hits, miss) = (!(i + turn).is_multiple_of(3), misses[(i + turn) % 3]);
        checks.push(Check::Rank { batch, upper: other });
        checks.push(Check::Neighbor { batch, predecessor: other, hits, miss });
    }
    for (i, room) in ROOMS.into_iter().enumerate() {
        let batch = RangeBatch::ALL[(i + turn) % (RangeBatch::ALL.len() - 1)];
        checks.push(Check::Range { batch, limit: LIMITS[(i + turn / 3) % LIMITS.len()], room });
    }
    for (i, batch) in RangeBatch::ALL.into_iter().enumerate() {
        let limit = LIMITS[(i + turn) % LIMITS.len()];
        checks.push(Check::Count { batch, limit });
        checks.push(Check::Range { batch, limit, room: Room::Ample });
    }
    let batch = |i: usize| batches[(turn + i) % batches.len()];
    let ranges = |i: usize| RangeBatch::ALL[(turn + i) % RangeBatch::ALL.len()];
    checks.push(Check::GetMany { batch: batch(0) });
    checks.extend([false, true].map(|upper| Check::RankMany { batch: batch(1), upper }));
    checks.extend([false, true].map(|predecessor| Check::NeighborMany { batch: batch(2), predecessor }));
    checks.extend([Check::RangeMany { batch: ranges(0) }, Check::CountMany { batch: ranges(1) }, Check::Iterate]);
    // Two ways around to the same question.
    let mut distinct: Vec<Check> = Vec::with_capacity(checks.len());
    for check in checks {
        if !distinct.contains(&check) {
            distinct.push(check);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_tell_cases_apart() {
        for kind in [DeviceKind::Emulated, DeviceKind::Host, DeviceKind::Cuda] {
            let mut names = HashSet::new();
            for tree in trees(Mode::Full, kind, usize::MAX) {
                assert!(names.insert(tree.name()), "{}", tree.name());
                let checks = checks(&tree, kind);
                let distinct: HashSet<String> = checks.iter().map(Check::name).collect();
                assert_eq!(distinct.len(), checks.len(), "{}", tree.name());
            }
        }
    }

    #[test]
    fn every_distribution_fill_and_batch_meets_every_key_type() {
        let mut met = HashSet::new();
        for tree in trees(Mode::Quick, DeviceKind::Emulated, usize::MAX) {
            met.insert((tree.key, tree.value, tree.distribution.name()));
            met.insert((tree.key, tree.value, if tree.fill < 0.1 { "small fill" } else { "large fill" }));
        }
        assert_eq!(met.len(), 4 * 2 * (8 + 2));
    }

    #[test]
    fn a_cap_on_the_length_holds() {
        let trees = trees(Mode::Full, DeviceKind::Cuda, 100);
        assert!(!trees.is_empty());
        assert!(trees.iter().all(|tree| tree.len <= 100 && tree.batch <= 100 && tree.ranges <= 100));
    }
}
