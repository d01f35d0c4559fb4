//! As-of look-ups: the neighbour of a key on a side, within its group and a distance.

use super::{Neighbors, Query, Side, View};
use lanetree_base::{Error, Result};
use lanetree_layout::{AnyKey, KeyWord};
use lanetree_simt::{Near, NeighborBatch};

/// On which side of a key its neighbour is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Direction {
    /// The last key at or below it: the latest quote before a trade (the default).
    #[default]
    Backward,
    /// The first key at or above it.
    Forward,
    /// The nearer of both.
    Nearest,
}

/// Which of two neighbours at the same distance [`Direction::Nearest`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Ties {
    /// The one below (the default).
    #[default]
    Backward,
    /// The one above.
    Forward,
    /// Both: in an as-of join. A look-up of one answer refuses it; to the `k` nearest pairs it is as `Backward`.
    Both,
}

/// What an as-of look-up asks: of all keys in the query's group, the nearest one on a side, within a distance.
///
/// [`Composite`](lanetree_layout::Composite) keys with the same first key are a group; keys of other types are all in
/// one group. The result is the same as of `pandas.merge_asof` with the first key as `by` and the second as `on`. Keys are
/// unique: of rows with equal (group, time) a build keeps the last one.
///
/// `asof_many` has the pairs that are found; `asof_join_many` the
/// columns of a join of any [`JoinKind`](lanetree_base::JoinKind).
///
/// ```
/// use lanetree::{AsOf, Composite, Device, LaneTree};
///
/// # fn main() -> lanetree::Result<()> {
/// // Quotes of two stocks, by stock and time.
/// let quotes = [(1_u32, 100_u32), (1, 200), (2, 150)].map(Composite::from);
/// let index = LaneTree::build(&Device::host(), &quotes, &[10_u32, 11, 20])?;
/// // The last quote of the same stock at or before each trade, not older than 60.
/// let trades = [(1, 199), (1, 250), (2, 100)].map(Composite::from);
/// let rows = index.asof_many(&trades, &AsOf::backward().tolerance(60))?;
/// assert_eq!(rows, [None, Some((quotes[1], 11)), None]);
/// // The first quote after each trade; the nearest one.
/// let later = index.asof_many(&trades[..1], &AsOf::forward().strict(true))?;
/// let nearest = index.asof_many(&trades[..1], &AsOf::nearest())?;
/// assert_eq!((later[0], nearest[0]), (Some((quotes[1], 11)), Some((quotes[1], 11))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AsOf {
    direction: Direction,
    ties: Ties,
    is_strict: bool,
    tolerance: Option<u64>,
}

/// One search for neighbours: on which side, and which of them count.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeighborSearch<B> {
    /// [`Side::Upper`]: the predecessor, the last key at or below the query. [`Side::Lower`]: the successor, the first key at
    /// or above it.
    pub(super) side: Side,
    /// Which neighbours count.
    pub(super) near: Near<B>,
}

impl AsOf {
    /// As-of look-ups that find the neighbour on this side of the query, of any distance, equal keys included.
    pub fn new(direction: Direction) -> Self {
        Self { direction, ..Self::default() }
    }

    /// As-of look-ups that find the last key at or below the query.
    pub fn backward() -> Self {
        Self::new(Direction::Backward)
    }

    /// As-of look-ups that find the first key at or above the query.
    pub fn forward() -> Self {
        Self::new(Direction::Forward)
    }

    /// The nearer of both neighbours; of two at the same distance the one below, unless [`AsOf::ties`] says otherwise. Queries of
    /// float keys refuse it with [`Error::OptionValue`](lanetree_base::Error::OptionValue).
    pub fn nearest() -> Self {
        Self::new(Direction::Nearest)
    }

    /// Whether a key that equals the query is passed over (`allow_exact_matches=False`).
    #[must_use]
    pub fn strict(self, is_strict: bool) -> Self {
        Self { is_strict, ..self }
    }

    /// The largest distance at which a neighbour counts, in units of the key, or of its second key. Queries of float
    /// keys refuse it with [`Error::OptionValue`](lanetree_base::Error::OptionValue).
    #[must_use]
    pub fn tolerance(self, most: u64) -> Self {
        Self { tolerance: Some(most), ..self }
    }

    /// Which of two neighbours at the same distance is taken.
    #[must_use]
    pub fn ties(self, ties: Ties) -> Self {
        Self { ties, ..self }
    }

    /// Whether two pairs at the same distance are both taken.
    pub(super) fn takes_both(&self) -> bool {
        self.direction == Direction::Nearest && self.ties == Ties::Both
    }

    /// The side.
    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether a key that equals the query does not count.
    pub(super) fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// The largest distance.
    pub(super) fn distance(&self) -> Option<u64> {
        self.tolerance
    }

    /// Which of two ties comes first.
    pub(super) fn tie(&self) -> Ties {
        self.ties
    }

    /// The rule by which neighbours count and are compared.
    ///
    /// # Errors
    /// [`Error::OptionValue`] for a distance between floats.
    pub(super) fn rule<K: AnyKey>(&self) -> Result<Near<K::Bits>> {
        // Of both the one below comes first.
        let one = if self.takes_both() { self.ties(Ties::Backward) } else { *self };
        Ok(one.searches::<K>()?.iter().last().map_or(Near::ANY, |search| search.near))
    }

    /// The searches that find it, one after another.
    ///
    /// # Errors
    /// [`Error::OptionValue`] for a distance between floats, and for both of two ties.
    #[doc(hidden)]
    pub fn searches<K: AnyKey>(&self) -> Result<Searches<K::Bits>> {
        let needs_distance = self.tolerance.is_some() || self.direction == Direction::Nearest;
        if needs_distance && !K::HAS_DISTANCE {
            let value = self.tolerance.map_or("nearest".to_owned(), |most| format!("tolerance({most})"));
            let allowed = "backward or forward, without a tolerance: distances of floats are not measured";
            return Err(Error::OptionValue { what: "an as-of look-up by float keys", value, allowed });
        }
        if self.takes_both() {
            let allowed = "one of the ties: asof_join_many takes both";
            return Err(Error::OptionValue { what: "an as-of look-up", value: "ties(Both)".to_owned(), allowed });
        }
        let all = <K::Bits as KeyWord>::MAX;
        let is_grouped = K::GROUP_BITS < K::Bits::BITS;
        let group = if is_grouped { all.xor(all.shr(K::Bits::BITS - K::GROUP_BITS)) } else { K::Bits::MIN };
        let reach = self.tolerance.map_or(all, |most| {
            let reach = K::Bits::from_parts([most, 0]);
            if reach.parts()[0] == most { reach } else { all }
        });
        let mut near = Near { group, reach, ..Near::ANY };
        if is_grouped || self.is_strict || self.tolerance.is_some() {
            near.flags |= Near::<K::Bits>::ON;
        }
        if self.is_strict {
            near.flags |= Near::<K::Bits>::STRICT;
        }
        let first =
            NeighborSearch { side: if self.direction == Direction::Forward { Side::Lower } else { Side::Upper }, near };
        if self.direction != Direction::Nearest {
            return Ok(Searches { first, second: None });
        }
        near.flags |= Near::<K::Bits>::ON | Near::<K::Bits>::SECOND;
        if self.ties == Ties::Forward {
            near.flags |= Near::<K::Bits>::TIES_TO_SECOND;
        }
        Ok(Searches { first, second: Some(NeighborSearch { side: Side::Lower, near }) })
    }
}

/// One or two searches; the second keeps what is nearer.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Searches<B> {
    first: NeighborSearch<B>,
    second: Option<NeighborSearch<B>>,
}

impl<B: KeyWord> Searches<B> {
    /// The pair next to a query on one side, whichever it is.
    pub fn any(side: Side) -> Self {
        Self { first: NeighborSearch { side, near: Near::ANY }, second: None }
    }

    /// Each search.
    pub(super) fn iter(&self) -> impl Iterator<Item = NeighborSearch<B>> + use<B> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    /// What is launched, one after another: a batch, with each search's side and rule in place of its own; or one query for both
    /// sides, of an index that [finds both](super::FixedIndex::finds_both).
    pub(super) fn queries<V: Copy>(
        &self,
        batch: NeighborBatch<B, V>,
        finds_both: bool,
    ) -> impl Iterator<Item = Query<B, V>> + use<B, V> {
        let mut searches = *self;
        if let Some(NeighborSearch { mut near, .. }) = searches.second.take_if(|_| finds_both) {
            near.flags = near.flags & !Near::<B>::SECOND | Near::<B>::BOTH;
            searches.first.near = near;
        }
        searches.iter().map(move |NeighborSearch { side, near }| {
            Query::Neighbor(NeighborBatch { predecessor: u32::from(side == Side::Upper), near, ..batch })
        })
    }

    /// Makes the searches on the CPU.
    pub fn on_host<K: AnyKey<Bits = B>, V: Copy>(
        &self,
        view: impl View<K, V>,
        queries: &[K],
        mut each: impl FnMut(usize, Option<(K, V)>),
    ) {
        let Some(second) = self.second else {
            return self.first.on_host(view, queries, each);
        };
        let mut nearest: Neighbors<K, V> = vec![None; queries.len()];
        self.first.on_host(view, queries, |i, pair| nearest[i] = pair);
        second.on_host(view, queries, |i, pair| {
            let word = queries[i].encode();
            let is_nearer = |(above, _): (K, V)| {
                nearest[i].is_none_or(|(below, _)| !second.near.keeps(word, below.encode(), above.encode()))
            };
            each(i, if pair.is_some_and(is_nearer) { pair } else { nearest[i] });
        });
    }
}

impl<B: KeyWord> NeighborSearch<B> {
    fn on_host<K: AnyKey<Bits = B>, V: Copy>(
        &self,
        view: impl View<K, V>,
        queries: &[K],
        mut each: impl FnMut(usize, Option<(K, V)>),
    ) {
        let (near, predecessor) = (self.near, self.side == Side::Upper);
        if !near.is_on() {
            return view.neighbor(queries, predecessor, each);
        }
        let sought: Vec<K> = queries.iter().map(|key| K::decode(near.sought(key.encode(), predecessor))).collect();
        view.neighbor(&sought, predecessor, |i, pair| {
            each(i, pair.filter(|(key, _)| near.accepts(queries[i].encode(), key.encode())));
        });
    }
}
