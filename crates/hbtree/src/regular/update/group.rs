//! The changes of a big leaf.

use crate::line::{Leaf, Line, slots};
use crate::regular::BigLeaves;
use crate::regular::nodes::{Columns, Pairs, separators_mut, write_columns, write_index, write_last};
use crate::structure::Place;
use core::ops::Range;
use lanetree_frame::{NetChange, UpdateReport};
use lanetree_layout::Word;

/// A change of a batch: the effect of all operations of a key.
pub(super) type Change<B, V> = (B, NetChange<V>);

/// The changes of a big leaf.
pub(super) struct Group<'a, B, V> {
    pub(super) number: u32,
    changes: &'a [Change<B, V>],
    places: &'a [Place],
    inserted: u32,
    replaced: u32,
    removed: u32,
    unmatched: u32,
    /// The rank in the big leaf from which on something changes.
    from: u32,
    /// Pairs before and afterwards.
    size: u32,
    pub(super) after: usize,
    /// Whether the big leaf is rewritten together with its neighbours.
    pub(super) is_deferred: bool,
}

impl<'a, B: Word, V: Word> Group<'a, B, V> {
    pub(super) fn new(
        leaves: &BigLeaves<B, V>,
        changes: &'a [Change<B, V>],
        places: &'a [Place],
        has_parent: bool,
    ) -> Self {
        let (number, _) = BigLeaves::<B, V>::rank_within(places[0]);
        let (size, mut from) = (leaves.info(number).size, u32::MAX);
        let (mut inserted, mut replaced, mut removed, mut unmatched) = (0, 0, 0, 0);
        for (&(_, change), &place) in changes.iter().zip(places) {
            *match change {
                NetChange::Put(_) | NetChange::PutIfPresent(_) if place.is_hit => &mut replaced,
                NetChange::Put(_) => &mut inserted,
                NetChange::Remove if place.is_hit => &mut removed,
                NetChange::Remove | NetChange::PutIfPresent(_) => {
                    unmatched += 1;
                    continue;
                }
            } += 1;
            from = from.min(BigLeaves::<B, V>::rank_within(place).1 as u32);
        }
        let after = size as usize + inserted as usize - removed as usize;
        let capacity = BigLeaves::<B, V>::CAPACITY;
        let is_too_small = after == 0 || removed > 0 && after < capacity / 4;
        let is_deferred = after > capacity || has_parent && is_too_small;
        Self { number, changes, places, inserted, replaced, removed, unmatched, from, size, after, is_deferred }
    }

    /// What they do, without the path.
    pub(super) fn report(&self) -> UpdateReport {
        UpdateReport {
            inserted: self.inserted.into(),
            replaced: self.replaced.into(),
            removed: self.removed.into(),
            unmatched: self.unmatched.into(),
            ..UpdateReport::default()
        }
    }

    /// Whether pairs move.
    fn moves(&self) -> bool {
        self.inserted + self.removed > 0
    }

    /// Whether it has any effect.
    pub(super) fn acts(&self) -> bool {
        self.moves() || self.replaced > 0
    }

    /// Calls `each` with every change that has an effect: its rank in the big leaf, whether it takes the place of the pair
    /// there, and the pair that it puts.
    #[inline(always)]
    fn for_each(&self, mut each: impl FnMut(usize, bool, Option<(B, V)>)) {
        for (&(key, change), &place) in self.changes.iter().zip(self.places) {
            let put = match change {
                NetChange::Put(value) => Some((key, value)),
                NetChange::PutIfPresent(value) if place.is_hit => Some((key, value)),
                NetChange::Remove if place.is_hit => None,
                NetChange::PutIfPresent(_) | NetChange::Remove => continue,
            };
            each(BigLeaves::<B, V>::rank_within(place).1, place.is_hit, put);
        }
    }

    /// Appends the pairs of the big leaf as they are afterwards, from a rank on which is not above the first change's.
    pub(super) fn merge(&self, leaf: &[Line], from: usize, pairs: &mut Columns<B, V>) {
        let mut at = from;
        self.for_each(|rank, is_hit, put| {
            BigLeaves::<B, V>::read(leaf, at..rank, pairs);
            if let Some((key, value)) = put {
                pairs.push(key, value);
            }
            at = rank + usize::from(is_hit);
        });
        BigLeaves::<B, V>::read(leaf, at..self.size as usize, pairs);
    }

    /// The first line that is written. The line before the first change is, too: if it was the last one its separator
    /// changes.
    fn base(&self) -> usize {
        (self.from as usize / slots::<B, V>()).saturating_sub(1)
    }

    /// Writes the separators of the big leaf as they are afterwards. Reads of the big leaf only the keys that these are.
    fn write_separators(&self, leaf: &[Line], node: &mut [Line]) {
        let (base, per_line) = (self.base(), slots::<B, V>());
        let used = self.after.div_ceil(per_line);
        let separators = &mut separators_mut::<B>(node)[base..];
        let mut separators = separators.iter_mut();
        // Ranks before and afterwards, and the rank afterwards of the next separator.
        let (mut at, mut now, mut next) = (base * per_line, base * per_line, (base + 1) * per_line - 1);
        // The last key of the last line is none.
        let end = (used * per_line).saturating_sub(per_line);
        let mut write = |next: &mut usize, key: B| {
            if let Some(separator) = separators.next() {
                *separator = key;
            }
            *next += per_line;
        };
        let mut keep = |at: usize, now: &mut usize, next: &mut usize, count: usize, put: Option<B>| {
            while *next < end && *next < *now + count {
                write(next, BigLeaves::<B, V>::key(leaf, at + *next - *now));
            }
            *now += count;
            if let Some(key) = put {
                if *next < end && *next == *now {
                    write(next, key);
                }
                *now += 1;
            }
        };
        self.for_each(|rank, is_hit, put| {
            keep(at, &mut now, &mut next, rank - at, put.map(|put| put.0));
            at = rank + usize::from(is_hit);
        });
        keep(at, &mut now, &mut next, self.size as usize - at, None);
        separators.for_each(|separator| *separator = B::MAX);
        write_index::<B>(node);
    }

    /// Writes new values of keys that are present.
    fn replace(&self, leaf: &mut [Line]) {
        self.for_each(|rank, _, put| {
            if let Some((key, value)) = put {
                leaf[rank / slots::<B, V>()].set(rank % slots::<B, V>(), key, value);
            }
        });
    }
}

/// A big leaf that is written, and its node of the last inner level.
#[derive(Clone, Copy)]
pub(super) struct Write<'a, B, V> {
    pub(super) number: u32,
    pub(super) source: Source<'a, B, V>,
}

#[derive(Clone, Copy)]
pub(super) enum Source<'a, B, V> {
    /// What it has, changed.
    Group(&'a Group<'a, B, V>),
    /// These pairs.
    Pairs(Pairs<'a, B, V>),
}

impl<B: Word, V: Word> Write<'_, B, V> {
    /// Whether the node's separators change.
    pub(super) fn moves(&self) -> bool {
        match self.source {
            Source::Group(group) => group.moves(),
            Source::Pairs(_) => true,
        }
    }

    /// The lines of the big leaf that are read and written.
    pub(super) fn lines(&self) -> Range<usize> {
        match self.source {
            Source::Group(group) => group.base()..group.after.div_ceil(slots::<B, V>()),
            Source::Pairs(pairs) => 0..pairs.keys.len().div_ceil(slots::<B, V>()),
        }
    }

    /// Writes the node, of which the copy has been made, as it is afterwards.
    pub(super) fn write_node(&self, leaf: &[Line], node: &mut [Line]) {
        match self.source {
            Source::Group(group) => group.write_separators(leaf, node),
            Source::Pairs(pairs) => write_separators::<B, V>(node, 0, pairs),
        }
    }

    /// Writes both. The buffer is for pairs on their way.
    pub(super) fn write(&self, leaf: &mut [Line], node: &mut [Line], buffer: &mut Columns<B, V>) {
        let (base, pairs) = match self.source {
            Source::Group(group) if !group.moves() => return group.replace(leaf),
            Source::Group(group) => {
                buffer.clear();
                group.merge(leaf, group.base() * slots::<B, V>(), buffer);
                (group.base(), buffer.part(0..buffer.keys.len()))
            }
            Source::Pairs(pairs) => (0, pairs),
        };
        let size = base * slots::<B, V>() + pairs.keys.len();
        write_separators::<B, V>(node, base, pairs);
        write_columns(&mut leaf[base..BigLeaves::<B, V>::LINES], pairs);
        BigLeaves::<B, V>::set_size(leaf, size);
        if size == 0 {
            leaf[0] = Line::ONES;
        }
    }
}

/// Writes the separators of a big leaf that has these pairs from line `base` on.
fn write_separators<B: Word, V: Word>(node: &mut [Line], base: usize, pairs: Pairs<'_, B, V>) {
    let per_line = slots::<B, V>();
    let used = base + pairs.keys.len().div_ceil(per_line);
    write_last(node, base, used, |line| pairs.keys[(line - base + 1) * per_line - 1]);
}
