//! Pairs of a multi-map, in order, and where each key's pairs are.

use super::data::{Data, value_of};
use core::ops::Range;
use lanetree_base::parallel::*;

/// How many values keys have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Each key has this number of values.
    Each(usize),
    /// One key has this number of values, each other key has one.
    OfOne(usize),
}

/// Uniform keys with any number of values. The number of a pair in the order of all decides its value.
pub(crate) struct MapPairs {
    /// The distinct keys.
    pub(crate) distinct: Data<u64>,
    values: Values,
}

impl MapPairs {
    /// `len` pairs.
    pub(crate) fn new(len: usize, values: Values, seed: u64) -> Self {
        let distinct = match values {
            Values::Each(values) => len / values,
            Values::OfOne(values) => len - values + 1,
        };
        Self { distinct: Data::uniform(distinct, seed), values }
    }

    /// The pairs.
    pub(crate) fn len(&self) -> usize {
        self.places(self.distinct.len() - 1).end
    }

    /// The rank of the key that may have many values.
    pub(crate) fn heavy(&self) -> usize {
        self.distinct.len() / 2
    }

    /// The numbers of the pairs of a key, by its rank.
    pub(crate) fn places(&self, rank: usize) -> Range<usize> {
        match self.values {
            Values::Each(values) => rank * values..(rank + 1) * values,
            Values::OfOne(values) => {
                let beyond = |rank: usize| if rank > self.heavy() { rank + values - 1 } else { rank };
                beyond(rank)..beyond(rank + 1)
            }
        }
    }

    /// The rank of a pair's key.
    fn rank(&self, place: usize) -> usize {
        match self.values {
            Values::Each(values) => place / values,
            Values::OfOne(values) => place.min(self.heavy()).max((place + 1).saturating_sub(values)),
        }
    }

    /// The key of each pair.
    pub(crate) fn keys(&self) -> Vec<u64> {
        (0..self.len()).into_par_iter().map(|place| self.distinct.keys[self.rank(place)]).collect()
    }

    /// The value of each pair.
    pub(crate) fn values(&self) -> Vec<u64> {
        (0..self.len()).into_par_iter().map(value).collect()
    }

    /// What tables call the keys.
    pub(crate) fn name(&self) -> String {
        match self.values {
            Values::Each(values) => format!("{values} per key"),
            Values::OfOne(values) => format!("{values} of one key"),
        }
    }
}

/// The value of the pair with this number.
pub(crate) fn value(place: usize) -> u64 {
    value_of(place as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_its_key() {
        for values in [Values::Each(1), Values::Each(4), Values::OfOne(1), Values::OfOne(100)] {
            let pairs = MapPairs::new(1024, values, 5);
            let keys = pairs.keys();
            assert_eq!((pairs.len(), keys.len()), (1024, 1024));
            for rank in 0..pairs.distinct.len() {
                let places = pairs.places(rank);
                assert!(!places.is_empty() && keys[places].iter().all(|&key| key == pairs.distinct.keys[rank]));
            }
            let most = (0..pairs.distinct.len()).map(|rank| pairs.places(rank).len()).max();
            assert_eq!(
                most,
                Some(match values {
                    Values::Each(values) | Values::OfOne(values) => values,
                })
            );
            assert_eq!(most, Some(pairs.places(pairs.heavy()).len()));
        }
    }
}
