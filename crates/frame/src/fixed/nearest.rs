//! The `k` pairs nearest to a key, on one side or both: as-of look-ups, each from the pair that the one before has found.

use super::{AsOf, BitsOf, Direction, FixedIndex, HostForm, Neighbors};
use lanetree_base::room::{collected, push, zeroed};
use lanetree_base::{Ranges, Result};
use lanetree_layout::{AnyKey, Value};
use lanetree_simt::Near;

/// A side of the keys: for each the nearest pair on it that is not taken yet, if there is one that counts.
struct Frontier<'a, I: FixedIndex> {
    index: &'a I,
    queries: &'a [I::Key],
    rule: Near<BitsOf<I>>,
    /// The look-up of what comes after a pair.
    next: AsOf,
    nearest: Neighbors<I::Key, I::Value>,
    /// The queries whose nearest pair was taken.
    taken: Vec<usize>,
}

impl<'a, I: FixedIndex> Frontier<'a, I> {
    /// The side that a look-up of one direction is for.
    fn new(index: &'a I, queries: &'a [I::Key], rule: Near<BitsOf<I>>, first: &AsOf) -> Result<Self> {
        let nearest = index.asof_many(queries, first)?;
        let next = AsOf::new(first.direction()).strict(true);
        Ok(Self { index, queries, rule, next, nearest, taken: Vec::new() })
    }

    fn take(&mut self, query: usize) -> Result<Option<(I::Key, I::Value)>> {
        let pair = self.nearest[query].take();
        if pair.is_some() {
            push(&mut self.taken, query)?;
        }
        Ok(pair)
    }

    /// Finds what comes after the pairs that were taken, which `pair_of` has.
    fn advance(&mut self, pair_of: impl Fn(usize) -> I::Key) -> Result<()> {
        let from = collected(self.taken.iter().map(|&query| pair_of(query)))?;
        let found = self.index.asof_many(&from, &self.next)?;
        for (&query, pair) in self.taken.iter().zip(found) {
            let asked = self.queries[query].encode();
            // The distance is that from the query, and not from the pair before.
            self.nearest[query] = pair.filter(|(key, _)| self.rule.accepts(asked, key.encode()));
        }
        self.taken.clear();
        Ok(())
    }
}

/// The pairs that one round takes: each with the number of its query.
type Round<I> = Vec<(usize, (<I as FixedIndex>::Key, <I as FixedIndex>::Value))>;

/// [`HostForm::k_nearest_many`].
pub(super) fn k_nearest<I: FixedIndex>(
    index: &I,
    queries: &[I::Key],
    k: u64,
    how: &AsOf,
) -> Result<Ranges<I::Key, I::Value>> {
    let (rule, direction) = (how.rule::<I::Key>()?, how.direction());
    let side = |other: Direction, first: AsOf| {
        let is_wanted = k > 0 && direction != other;
        is_wanted.then(|| Frontier::new(index, queries, rule, &first)).transpose()
    };
    let mut below = side(Direction::Forward, how.toward(Direction::Backward))?;
    // A key that equals the query is on one side only.
    let forward = how.toward(Direction::Forward);
    let mut above = side(Direction::Backward, if below.is_some() { forward.strict(true) } else { forward })?;

    // Of each round at most one pair of each query, in the queries' order.
    let mut rounds: Vec<Round<I>> = Vec::new();
    let mut counts = zeroed::<u64>(queries.len())?;
    for _ in 0..k {
        let mut round = Vec::new();
        for (query, &asked) in queries.iter().enumerate() {
            let pairs = [&below, &above].map(|side| side.as_ref().and_then(|side| side.nearest[query]));
            let from_below = match pairs {
                [Some(first), Some(second)] => rule.keeps(asked.encode(), first.0.encode(), second.0.encode()),
                [first, _] => first.is_some(),
            };
            let from = if from_below { &mut below } else { &mut above };
            if let Some(from) = from
                && let Some(pair) = from.take(query)?
            {
                push(&mut round, (query, pair))?;
                counts[query] += 1;
            }
        }
        if round.is_empty() {
            break;
        }
        for side in [&mut below, &mut above].into_iter().flatten() {
            let key = |query| {
                let place =
                    round.binary_search_by_key(&query, |taken| taken.0).expect("a pair was taken in this round");
                round[place].1.0
            };
            side.advance(key)?;
        }
        push(&mut rounds, round)?;
    }
    in_rows(&counts, &rounds)
}

/// Pairs by rounds as rows of queries.
fn in_rows<K: AnyKey, V: Value>(counts: &[u64], rounds: &[Vec<(usize, (K, V))>]) -> Result<Ranges<K, V>> {
    let mut offsets = zeroed::<u64>(counts.len() + 1)?;
    for (i, count) in counts.iter().enumerate() {
        offsets[i + 1] = offsets[i] + count;
    }
    let pairs = offsets[counts.len()] as usize;
    let (mut keys, mut values) = (zeroed::<K>(pairs)?, zeroed::<V>(pairs)?);
    // A query that has a pair in a round has one in each round before.
    for (round, taken) in rounds.iter().enumerate() {
        for &(query, (key, value)) in taken {
            let at = offsets[query] as usize + round;
            (keys[at], values[at]) = (key, value);
        }
    }
    Ok(Ranges { offsets, keys, values })
}
