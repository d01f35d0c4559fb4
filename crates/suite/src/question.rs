//! Queries whose keys are there, and answers.

use crate::model::Range;
use crate::{Ask, Bounds, Combination, Folding, Joining, Keys, Near, Numbered, Open, Pairs, Side, Span};
use core::ops::Bound;
use lanetree::{Direction, JoinKind, Ties};

/// A batch of queries, as [`Ask`] says; [`Model::answer`](crate::Model::answer) says what the answer is.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as in `Ask`")]
pub enum Question<K> {
    Get(Vec<K>),
    Rank(Vec<K>, Side),
    Neighbor(Vec<K>, Side),
    AsOf(Vec<K>, Near),
    Nearest(Vec<K>, u64, Near),
    Join(Vec<K>, Joining),
    AsOfJoin(Vec<K>, Near, Joining),
    RangeJoin(Vec<(K, K)>, Open, Joining),
    BandJoin(Vec<K>, u64, Joining),
    Range(Vec<Range<K>>),
    Count(Vec<Range<K>>),
    Last(Vec<(K, K)>, u64),
    Aggregate(Vec<(K, K)>, Folding),
    Scan(Vec<K>, u32),
    Prefix(Vec<K>),
    /// With pairs whose keys ascend strictly.
    Combine(Combination, Pairs<K>),
}

/// What an index answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<K> {
    /// The value of each key that is present.
    Values(Vec<Option<u64>>),
    /// Ranks, and how many pairs ranges have.
    Numbers(Vec<u64>),
    /// At most one pair of each key.
    Neighbors(Vec<Option<(K, u64)>>),
    /// The pairs of each query.
    Rows(Vec<Pairs<K>>),
    /// All pairs of an index.
    Pairs(Pairs<K>),
    /// For each row of a join the number of its probe and, where it has one, its row on the index's side.
    Joined {
        /// Of probes.
        probes: Vec<u64>,
        /// Numbers of pairs, or values; the largest number for no row.
        rows: Vec<u64>,
    },
}

impl<K: Clone> Answer<K> {
    /// Those of these queries, of answers with one for each.
    pub(crate) fn picked(&self, queries: &[usize]) -> Self {
        match self {
            Self::Values(values) => Self::Values(picked(values, queries)),
            Self::Numbers(numbers) => Self::Numbers(picked(numbers, queries)),
            Self::Neighbors(pairs) => Self::Neighbors(picked(pairs, queries)),
            Self::Rows(rows) => Self::Rows(picked(rows, queries)),
            Self::Pairs(_) | Self::Joined { .. } => unreachable!("not one for each query"),
        }
    }
}

impl<K: Copy> Question<K> {
    /// The keys by which its queries can be in order, if each query's answer is its own.
    pub(crate) fn keys(&self) -> Option<Vec<K>> {
        let start = |(start, ..): &Range<K>| match start {
            Bound::Included(start) => Some(*start),
            _ => None,
        };
        match self {
            Self::Get(keys)
            | Self::Rank(keys, _)
            | Self::Neighbor(keys, _)
            | Self::AsOf(keys, _)
            | Self::Scan(keys, _) => Some(keys.clone()),
            Self::Count(ranges) => ranges.iter().map(start).collect(),
            // Of the pairs of ranges that are asked again there would be too many.
            Self::Range(ranges) if ranges.len().is_multiple_of(3) => ranges.iter().map(start).collect(),
            _ => None,
        }
    }

    /// Those of its queries, if it has [`Question::keys`].
    pub(crate) fn picked(&self, queries: &[usize]) -> Self {
        match self {
            Self::Get(keys) => Self::Get(picked(keys, queries)),
            Self::Rank(keys, side) => Self::Rank(picked(keys, queries), *side),
            Self::Neighbor(keys, side) => Self::Neighbor(picked(keys, queries), *side),
            Self::AsOf(keys, near) => Self::AsOf(picked(keys, queries), *near),
            Self::Scan(keys, limit) => Self::Scan(picked(keys, queries), *limit),
            Self::Count(ranges) => Self::Count(picked(ranges, queries)),
            _ => unreachable!("queries without an order"),
        }
    }
}

fn picked<T: Clone>(all: &[T], queries: &[usize]) -> Vec<T> {
    queries.iter().map(|&i| all[i].clone()).collect()
}

impl<K: Numbered> Question<K> {
    /// Of keys by their numbers; `value` makes the values that no other pair has.
    pub(crate) fn of(ask: &Ask, value: impl Fn(u64) -> u64) -> Self {
        let of = |keys: &Keys| keys.numbers().into_iter().map(K::key).collect::<Vec<K>>();
        let both = |starts: &Keys, ends: &Keys| of(starts).into_iter().zip(of(ends)).collect::<Vec<(K, K)>>();
        match ask {
            Ask::Get(keys) => Self::Get(of(keys)),
            Ask::Rank(keys, side) => Self::Rank(of(keys), *side),
            Ask::Neighbor(keys, side) => Self::Neighbor(of(keys), *side),
            Ask::AsOf(keys, near) => Self::AsOf(of(keys), *near),
            Ask::Nearest(keys, k, near) => Self::Nearest(of(keys), most(*k, 8), *near),
            Ask::Join(keys, of_join) => Self::Join(of(keys), *of_join),
            Ask::AsOfJoin(keys, near, of_join) => Self::AsOfJoin(of(keys), *near, *of_join),
            Ask::RangeJoin(lows, highs, open, of_join) => Self::RangeJoin(both(lows, highs), *open, *of_join),
            Ask::BandJoin(keys, distance, of_join) => {
                let distances = [1 << 33, u64::MAX];
                let far = usize::from(*distance).checked_sub(254).map(|far| distances[far]);
                Self::BandJoin(of(keys), far.unwrap_or((*distance).into()), *of_join)
            }
            Ask::Range(spans, starts, ends) => Self::Range(ranges(spans, both(starts, ends))),
            Ask::Count(spans, starts, ends) => Self::Count(ranges(spans, both(starts, ends))),
            Ask::Last(starts, ends, k) => Self::Last(both(starts, ends), most(*k, 50)),
            Ask::Aggregate(starts, ends, folding) => Self::Aggregate(both(starts, ends), *folding),
            Ask::Scan(keys, limit) => Self::Scan(of(keys), u32::from(*limit)),
            Ask::Prefix(keys, len) => {
                Self::Prefix(of(keys).into_iter().map(|key| K::cut(key, usize::from(len % 48))).collect())
            }
            Ask::Combine(how, keys) => Self::Combine(*how, numbered(of(keys), value)),
        }
    }

    /// Queries of every kind, of these keys and ranges, which every index with this type of keys answers if it has the call.
    pub(crate) fn every(keys: &[K], ranges: &[Range<K>], value: impl Fn(u64) -> u64) -> Vec<Self> {
        let keys = || keys.to_vec();
        let spans: Vec<(K, K)> = ranges.iter().filter_map(|(start, end, _)| Some((key(start)?, key(end)?))).collect();
        let near = |direction| Near::new(direction);
        let nearest = Near { is_strict: true, ..near(Direction::Nearest) };
        let within = Near { tolerance: Some(40), ties: Ties::Forward, ..near(Direction::Forward) };
        let [inner, left, semi, anti] = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti];
        let joining = |kind, nulls, first_bit| Joining { kind, nulls, first_bit };
        let open = |low, high| Open { low, high };
        let mut all = vec![
            Self::Get(keys()),
            // Of other lengths: some indexes have several calls, which take turns.
            Self::Get(keys().into_iter().skip(1).collect()),
            Self::Get(keys().into_iter().skip(2).collect()),
            Self::AsOf(keys(), Near { is_strict: true, ..near(Direction::Backward) }),
            Self::AsOf(keys(), within),
            Self::AsOf(keys(), nearest),
            Self::Nearest(keys(), 3, near(Direction::Backward)),
            Self::Nearest(keys(), 2, within),
            Self::Nearest(keys(), 3, nearest),
            Self::Join(keys(), joining(inner, 0, 0)),
            Self::Join(keys(), joining(left, 5, 40)),
            Self::Join(keys(), joining(anti, 5, 31)),
            Self::AsOfJoin(keys(), Near { ties: Ties::Both, ..nearest }, joining(left, 3, 3)),
            Self::RangeJoin(spans.clone(), open(false, false), joining(inner, 0, 0)),
            Self::RangeJoin(spans.clone(), open(false, true), joining(left, 5, 3)),
            Self::RangeJoin(spans.clone(), open(true, false), joining(semi, 5, 0)),
            Self::RangeJoin(spans.clone(), open(true, true), joining(anti, 0, 0)),
            Self::BandJoin(keys(), 7, joining(inner, 5, 31)),
            Self::Count(ranges.to_vec()),
            Self::Range(ranges.to_vec()),
            Self::Last(spans.clone(), 3),
            Self::Aggregate(spans.clone(), Folding::Sum),
            Self::Aggregate(spans, Folding::Last),
            Self::Scan(keys(), 9),
            Self::Prefix(keys()[..keys().len().min(9)].to_vec()),
        ];
        for side in [Side::Lower, Side::Upper] {
            all.extend([Self::Rank(keys(), side), Self::Neighbor(keys(), side)]);
        }
        for how in [Combination::Union, Combination::Intersection, Combination::Difference] {
            all.push(Self::Combine(how, numbered(keys(), &value)));
        }
        all.retain(|question| !question.is_refused());
        all
    }

    /// Whether indexes with this type of keys refuse it.
    pub(crate) fn is_refused(&self) -> bool {
        let has_none = |near: &Near| near.needs_distance() && !K::HAS_DISTANCE;
        match self {
            Self::AsOf(_, near) => has_none(near) || near.takes_both(),
            Self::Nearest(_, _, near) | Self::AsOfJoin(_, near, _) => has_none(near),
            Self::BandJoin(..) => !K::HAS_DISTANCE,
            _ => false,
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::Rank(..) => "rank",
            Self::Neighbor(..) => "neighbor",
            Self::AsOf(..) => "asof",
            Self::Nearest(..) => "nearest",
            Self::Join(..) => "join",
            Self::AsOfJoin(..) => "asof join",
            Self::RangeJoin(..) => "range join",
            Self::BandJoin(..) => "band join",
            Self::Range(_) => "range",
            Self::Count(_) => "count",
            Self::Last(..) => "last of ranges",
            Self::Aggregate(..) => "aggregate",
            Self::Scan(..) => "scan",
            Self::Prefix(_) => "prefix",
            Self::Combine(..) => "combine",
        }
    }
}

/// A number of pairs: below `limit`, or all.
fn most(number: u8, limit: u8) -> u64 {
    if number == u8::MAX { u64::MAX } else { (number % limit).into() }
}

/// The key of a bound.
fn key<K: Clone>(bound: &Bound<K>) -> Option<K> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
        Bound::Unbounded => None,
    }
}

/// Pairs of these keys, in ascending order.
fn numbered<K: Ord>(keys: Vec<K>, value: impl Fn(u64) -> u64) -> Pairs<K> {
    let pairs: std::collections::BTreeMap<K, u64> = keys.into_iter().zip((1 << 30..).map(value)).collect();
    pairs.into_iter().collect()
}

/// The ranges between keys, the lower one of two first.
fn ranges<K: Ord>(spans: &[Span], keys: Vec<(K, K)>) -> Vec<Range<K>> {
    let bound = |bounds, key| match bounds {
        Bounds::Included => Bound::Included(key),
        Bounds::Excluded => Bound::Excluded(key),
        Bounds::Unbounded => Bound::Unbounded,
    };
    let inclusive = [Span { start: Bounds::Included, end: Bounds::Included, limit: u8::MAX }];
    let spans = if spans.is_empty() { &inclusive[..] } else { spans };
    let keys = keys.into_iter().map(|(a, b)| if b < a { (b, a) } else { (a, b) });
    let range = |(&Span { start, end, limit }, (low, high))| {
        (bound(start, low), bound(end, high), (limit < 200).then_some(limit.into()))
    };
    spans.iter().cycle().zip(keys).map(range).collect()
}
