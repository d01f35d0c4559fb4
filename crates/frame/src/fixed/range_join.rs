//! Joins by ranges: the pairs whose keys are between two bounds of a probe, or near it.

use super::TASK;
use lanetree_base::parallel::*;
use lanetree_base::room::zeroed;
use lanetree_base::{Error, Result};
use lanetree_layout::{AnyKey, KeyWord};

/// Which of a range's bounds belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Closed {
    /// `low <= key <= high`.
    #[default]
    Both,
    /// `low <= key < high`.
    Left,
    /// `low < key <= high`.
    Right,
    /// `low < key < high`.
    Neither,
}

impl Closed {
    /// The bounds of a range as if both belonged to it; a range that no key is in is reversed.
    fn inclusive<K: AnyKey>(self, low: K, high: K) -> (K, K) {
        let one = K::Bits::truncate(1);
        let (mut first, mut last) = (low.encode(), high.encode());
        let is_empty = matches!(self, Self::Right | Self::Neither) && first == K::Bits::MAX
            || matches!(self, Self::Left | Self::Neither) && last == K::Bits::MIN;
        if is_empty {
            return (K::MAX, K::MIN);
        }
        if matches!(self, Self::Right | Self::Neither) {
            first = first.wrapping_add(one);
        }
        if matches!(self, Self::Left | Self::Neither) {
            last = last.wrapping_sub(one);
        }
        (K::decode(first), K::decode(last))
    }

    /// The bounds of each range as if both belonged to it; `None` if they do.
    ///
    /// # Errors
    /// [`Error::Runtime`] if main memory has no room for them.
    pub(super) fn bounds<K: AnyKey>(self, lows: &[K], highs: &[K]) -> Result<Option<(Vec<K>, Vec<K>)>> {
        if self == Self::Both {
            return Ok(None);
        }
        each(lows.len(), |i| self.inclusive(lows[i], highs[i])).map(Some)
    }
}

/// The bounds around each probe, both inclusive, at most so far from it and of its group.
///
/// # Errors
/// [`Error::OptionValue`] for floats; [`Error::Runtime`] if main memory has no room for them.
pub(super) fn band<K: AnyKey>(probes: &[K], distance: u64) -> Result<(Vec<K>, Vec<K>)> {
    if !K::HAS_DISTANCE {
        let allowed = "keys of integers, or a join by ranges: distances of floats are not measured";
        return Err(Error::OptionValue { what: "a band of float keys", value: distance.to_string(), allowed });
    }
    // Of the low bits in which the keys of a group differ.
    let most = <K::Bits as KeyWord>::MAX.shr(K::Bits::BITS - K::GROUP_BITS);
    let reach = K::Bits::from_parts([distance, 0]);
    let reach = if reach.parts()[0] == distance { reach } else { most };
    each(probes.len(), |i| {
        let word = probes[i].encode();
        let own = word.and(most);
        let low = word.wrapping_sub(own.min(reach));
        let high = word.wrapping_add(most.wrapping_sub(own).min(reach));
        (K::decode(low), K::decode(high))
    })
}

/// Two vectors of so many elements.
fn each<K: AnyKey>(len: usize, bounds: impl Fn(usize) -> (K, K) + Sync) -> Result<(Vec<K>, Vec<K>)> {
    let (mut lows, mut highs) = (zeroed(len)?, zeroed(len)?);
    lows.par_chunks_mut(TASK).zip(highs.par_chunks_mut(TASK)).enumerate().for_each(|(task, (lows, highs))| {
        for (i, (low, high)) in lows.iter_mut().zip(highs).enumerate() {
            (*low, *high) = bounds(task * TASK + i);
        }
    });
    Ok((lows, highs))
}
