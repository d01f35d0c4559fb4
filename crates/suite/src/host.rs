//! Queries in host form, with values widened.

use crate::model::Range;
use crate::{Answer, Joining, Pairs, Question, Side};
use lanetree::{
    Domain, JoinKind, JoinRows, KeyOf, Matches, NeighborsOf, OrderedIndex, RangeOf, RangesOf, Result, Rows, Word,
};

/// An index's keys.
pub(crate) type DomainOf<I> = <I as OrderedIndex>::Domain;

/// A batch of keys that owns its memory.
pub(crate) type KeysOf<I> = <DomainOf<I> as Domain>::Keys;

pub(crate) fn keys<I: OrderedIndex>(keys: &[KeyOf<I>]) -> KeysOf<I> {
    keys.iter().cloned().collect()
}

pub(crate) fn pairs<I: OrderedIndex>(index: &I) -> Result<Pairs<KeyOf<I>>> {
    Ok(index.pairs()?.into_iter().map(widen).collect())
}

/// The queries that every index has.
pub(crate) fn ask<I: OrderedIndex>(index: &I, question: &Question<KeyOf<I>>) -> Option<Result<Answer<KeyOf<I>>>> {
    let rows = |found: RangesOf<I>| Answer::Rows(rows::<I>(&found));
    let neighbors = |found: NeighborsOf<I>| Answer::Neighbors(found.into_iter().map(|pair| pair.map(widen)).collect());
    let values =
        |found: Vec<Option<I::Value>>| Answer::Values(found.into_iter().map(|found| found.map(Word::widen)).collect());
    let asked = match question {
        Question::Get(asked) | Question::Rank(asked, _) | Question::Neighbor(asked, _) => keys::<I>(asked),
        Question::Join(asked, of) if *of == Joining::new(JoinKind::Inner) => keys::<I>(asked),
        _ => keys::<I>(&[]),
    };
    let batch = DomainOf::<I>::batch(&asked);
    Some(match question {
        Question::Get(_) => index.get_many(batch).map(values),
        Question::Rank(_, Side::Lower) => index.lower_bound_many(batch).map(Answer::Numbers),
        Question::Rank(_, Side::Upper) => index.upper_bound_many(batch).map(Answer::Numbers),
        Question::Neighbor(_, Side::Upper) => index.predecessor_many(batch).map(neighbors),
        Question::Neighbor(_, Side::Lower) => index.successor_many(batch).map(neighbors),
        Question::Join(probes, of) if *of == Joining::new(JoinKind::Inner) => {
            index.join_many(batch).map(|found| of_matches(found, probes.len()))
        }
        Question::Range(ranges) => index.range_many(&ranges_of::<I>(ranges)).map(rows),
        Question::Count(ranges) => index.count_range_many(&ranges_of::<I>(ranges)).map(Answer::Numbers),
        Question::AsOf(..)
        | Question::Nearest(..)
        | Question::Join(..)
        | Question::AsOfJoin(..)
        | Question::RangeJoin(..)
        | Question::BandJoin(..)
        | Question::Last(..)
        | Question::Aggregate(..)
        | Question::Scan(..)
        | Question::Prefix(_)
        | Question::Combine(..) => return None,
    })
}

/// The rows of a join by key.
///
/// # Panics
/// If the matches are not what [`Matches`] promises.
pub(crate) fn of_matches<K>(matches: Matches, probes: usize) -> Answer<K> {
    let Matches { offsets, probes: numbers, rows } = matches;
    assert_eq!(offsets.len(), probes + 1, "the offsets of {probes} probes");
    let of_offsets = JoinRows { offsets, rows: Vec::<u64>::new() }.probes().expect("they are few");
    assert_eq!(of_offsets, numbers, "offsets and numbers of probes");
    Answer::Joined { probes: numbers, rows }
}

pub(crate) fn rows<I: OrderedIndex>(found: &RangesOf<I>) -> Vec<Pairs<KeyOf<I>>> {
    (0..found.rows()).map(|row| found.row(row).into_iter().map(widen).collect()).collect()
}

fn widen<K, V: Word>((key, value): (K, V)) -> (K, u64) {
    (key, value.widen())
}

pub(crate) fn ranges_of<I: OrderedIndex>(ranges: &[Range<KeyOf<I>>]) -> Vec<RangeOf<'_, I>> {
    fn range<I: OrderedIndex>((start, end, limit): &Range<KeyOf<I>>) -> RangeOf<'_, I> {
        DomainOf::<I>::range(start.as_ref(), end.as_ref(), limit.unwrap_or(u64::MAX))
    }
    ranges.iter().map(range::<I>).collect()
}
