//! Batches split by the lengths of their keys.

use lanetree_frame::Result;
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf, Offsets};
use lanetree_frame::parallel::*;
use lanetree_frame::room::collected;
use lanetree_layout::Word;
use std::borrow::Cow;

/// Keys that a thread goes through at a time: fewer take it less time than it takes to call another one, above all where several
/// callers do so at once.
const TASK: usize = 1 << 16;

/// Which keys of a batch are long.
pub(super) enum Long {
    None,
    All,
    /// The keys at these positions, ascending, are long; the others are short.
    At(Vec<usize>),
}

impl Long {
    /// The keys of more than `max` bytes.
    pub(super) fn of(keys: ByteKeys<'_>, max: usize) -> Result<Self> {
        let is_long = |&index: &usize| keys.at(index).len() > max;
        let places: Vec<usize> = match keys.offsets() {
            Offsets::Fixed { width, .. } if width > max && !keys.is_empty() => return Ok(Self::All),
            Offsets::Fixed { .. } => return Ok(Self::None),
            _ if keys.len() <= TASK => collected((0..keys.len()).filter(is_long))?,
            _ => (0..keys.len()).into_par_iter().with_min_len(TASK).filter_collect(is_long)?,
        };
        Ok(match places.len() {
            0 => Self::None,
            all if all == keys.len() => Self::All,
            _ => Self::At(places),
        })
    }
}

/// The short keys of a batch, and the long ones, in the batch's order; not copied if all are short or all are long.
pub(super) fn parts(keys: ByteKeys<'_>, max: usize) -> Result<[Part<'_>; 2]> {
    let whole = |keys| Part { keys, picked: None };
    let none = keys.slice(0..0);
    Ok(match Long::of(keys, max)? {
        Long::None => [whole(keys), whole(none)],
        Long::All => [whole(none), whole(keys)],
        Long::At(long) => {
            let is_short = |&index: &usize| keys.at(index).len() <= max;
            let short = (0..keys.len()).into_par_iter().with_min_len(TASK).filter_collect(is_short)?;
            let part = |places: Vec<usize>| -> Result<_> {
                Ok(Part { keys, picked: Some((ByteKeysBuf::pick(keys, &places)?, places)) })
            };
            [part(short)?, part(long)?]
        }
    })
}

/// The short or the long keys of a batch, and where they are in it.
pub(super) struct Part<'k> {
    keys: ByteKeys<'k>,
    /// The keys and their positions, if these are neither all keys of the batch nor none.
    picked: Option<(ByteKeysBuf, Vec<usize>)>,
}

impl Part<'_> {
    pub(super) fn keys(&self) -> ByteKeys<'_> {
        self.picked.as_ref().map_or(self.keys, |(keys, _)| keys.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys().is_empty()
    }

    /// The place of a key in the batch.
    pub(super) fn place(&self, index: usize) -> usize {
        self.picked.as_ref().map_or(index, |(_, places)| places[index])
    }

    /// The values of its keys, taken from the values of the batch.
    pub(super) fn values<'v, V: Word>(&self, values: &'v [V]) -> Result<Cow<'v, [V]>> {
        Ok(match &self.picked {
            Some((_, places)) => places.par_iter().with_min_len(TASK).map(|&place| values[place]).try_collect()?.into(),
            None => values[..self.keys.len()].into(),
        })
    }
}
