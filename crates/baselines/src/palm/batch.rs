//! A batch: operations in the order of their keys.

use core::cmp::Ordering;
use lanetree_layout::Word;
use rayon::prelude::*;

/// What an entry of a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Search,
    Insert,
    Remove,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<W, V> {
    pub(super) key: W,
    /// The value of an insertion.
    pub(super) value: V,
    /// The operation's number in the caller's batch.
    pub(super) number: u32,
    pub(super) kind: Kind,
}

impl<W: Word, V: Word> Entry<W, V> {
    /// By key, and of equal keys by number: with distinct numbers, an unstable sort is a stable one.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.number.cmp(&other.number))
    }
}

/// Who carries out the work on a batch or a layer: the calling thread, or those of the current rayon pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workers {
    Caller,
    Pool,
}

/// Entries of `len` operations in order.
///
/// # Panics
/// If there are 2³² operations or more.
pub(super) fn sorted<W: Word, V: Word>(
    len: usize,
    entry: impl Fn(u32) -> Entry<W, V> + Sync + Send,
    workers: Workers,
) -> Vec<Entry<W, V>> {
    let len = u32::try_from(len).expect("a batch has fewer than 2^32 operations");
    match workers {
        Workers::Caller => {
            let mut entries: Vec<_> = (0..len).map(entry).collect();
            entries.sort_unstable_by(Entry::order);
            entries
        }
        Workers::Pool => {
            let mut entries: Vec<_> = (0..len).into_par_iter().map(entry).collect();
            entries.par_sort_unstable_by(Entry::order);
            entries
        }
    }
}

/// Keeps the last of equal keys of sorted insertions.
pub(super) fn keep_last<W: Word, V: Word>(entries: &mut Vec<Entry<W, V>>, workers: Workers) {
    // To see that keys are distinct is a parallel pass; only to close gaps is not.
    let equal = |pair: &[Entry<W, V>]| pair[0].key == pair[1].key;
    let any = match workers {
        Workers::Caller => entries.windows(2).any(equal),
        Workers::Pool => entries.par_windows(2).any(equal),
    };
    if any {
        entries.dedup_by(|next, kept| {
            let equal = next.key == kept.key;
            if equal {
                *kept = *next;
            }
            equal
        });
    }
}
