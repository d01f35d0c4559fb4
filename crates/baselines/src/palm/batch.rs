//! A batch: operations in the order of their keys. All functions use the threads of the current rayon pool.

use core::cmp::Ordering;
use lanetree_base::parallel::*;
use lanetree_layout::Word;

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
    fn order(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.number.cmp(&other.number))
    }
}

/// Entries of `len` operations in order.
///
/// # Panics
/// If there are 2³² operations or more.
pub(super) fn sorted<W: Word, V: Word>(
    len: usize,
    entry: impl Fn(u32) -> Entry<W, V> + Sync + Send,
) -> Vec<Entry<W, V>> {
    let len = u32::try_from(len).expect("a batch has fewer than 2^32 operations");
    let mut entries: Vec<_> = (0..len).into_par_iter().map(entry).collect();
    // Buckets by shares of the keys' range, each of which is then sorted in the caches, were no faster: 222 to 285 ms for
    // 4 M random 64-bit keys on one thread, with 256 to 2048 buckets; this takes 225 ms.
    sort_unstable_by(&mut entries, Entry::order);
    entries
}

/// Keeps the last of equal keys of sorted insertions.
pub(super) fn keep_last<W: Word, V: Word>(entries: &mut Vec<Entry<W, V>>) {
    // To see that keys are distinct, which most builds' are, is a parallel pass; only to close gaps is not.
    if entries.par_windows(2).any(|pair| pair[0].key == pair[1].key) {
        entries.dedup_by(|next, kept| {
            let equal = next.key == kept.key;
            if equal {
                *kept = *next;
            }
            equal
        });
    }
}
