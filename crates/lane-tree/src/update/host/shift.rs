//! Buckets of a node that share their pairs: where one has no room for its changes, pairs move between it and its neighbours, and
//! bits of the node's bitmap with them.

use super::{AHEAD, Batch, Touched, has_effect};
use crate::native::View;
use crate::node::{Buckets, put_cells, put_len};
use core::ops::Range;
use lanetree_frame::UpdateReport;
use lanetree_frame::fixed::pairs::walk;
use lanetree_kernels_lane_tree::layout::{
    BITMAP_CHILDREN, FIRST_CHILD, Format, MOST_SLOTS, QUANTISER, Quantiser, Record, SEPARATORS, bucket_slots,
};
use lanetree_layout::{KeyWord, Value};

/// Most buckets that share their pairs, but for those that are free. Where more would have to, the node is planned again.
const MOST: usize = 8;

/// Of a node with more than this part of its slots filled, in eighths, few buckets have room for others' pairs.
const FULL: u32 = 7;

/// The pairs of each bucket of a node after a batch; [`UNCHANGED`] where there are no changes.
pub(super) type Lens = [u32; BITMAP_CHILDREN as usize];

/// Without changes.
pub(super) const UNCHANGED: u32 = u32::MAX;

/// Which buckets of a node share their pairs: bit `i` says it of bucket `i` and the next one.
#[derive(Clone, Copy, Default)]
pub(super) struct Joined(u64);

impl Joined {
    /// The buckets that share pairs with a bucket, among them itself.
    fn group(self, bucket: usize) -> Range<usize> {
        let parted_before = !self.0 & ((1 << bucket) - 1);
        let end = bucket + 1 + (self.0 >> bucket).trailing_ones() as usize;
        u64::BITS as usize - parted_before.leading_zeros() as usize..end
    }

    fn with(self, group: Range<usize>) -> Self {
        Self((group.start..group.end - 1).fold(self.0, |bits, bucket| bits | 1 << bucket))
    }
}

/// The pairs after a batch of buckets that share them, and where these begin. Memory for one group after another.
pub(super) struct Group<W, V> {
    keys: Vec<W>,
    values: Vec<V>,
    cells: Vec<u32>,
    starts: Vec<usize>,
}

impl<W, V> Default for Group<W, V> {
    fn default() -> Self {
        let pairs = MOST * MOST_SLOTS;
        Self {
            keys: Vec::with_capacity(pairs),
            values: Vec::with_capacity(pairs),
            cells: Vec::with_capacity(pairs),
            starts: Vec::with_capacity(MOST),
        }
    }
}

impl<W: KeyWord, V: Value> Group<W, V> {
    /// Cuts the pairs into buckets whose numbers of pairs differ little: exactly so many or, if others may be free, at most. False if
    /// buckets cannot begin where they would have to.
    fn cut(&mut self, quantiser: Quantiser, first: W, most: usize, may_be_free: bool) -> bool {
        self.cells.clear();
        self.cells.extend(self.keys.iter().map(|&key| quantiser.quantise(key)));
        let mut cells = self.keys.iter().zip(&self.cells);
        // Look-ups and ordered queries are to find the same.
        if !cells.all(|(&key, &cell)| cell == quantiser.quantise_any(key, first)) {
            return false;
        }
        let most = most.min(self.keys.len());
        let least = if may_be_free { self.keys.len().div_ceil(bucket_slots::<W, V>() as usize) } else { most };
        (least..=most).rev().any(|buckets| self.cut_into(buckets))
    }

    /// Cuts the pairs into so many buckets, of which none needs more slots than there are.
    fn cut_into(&mut self, buckets: usize) -> bool {
        let (len, slots) = (self.keys.len(), bucket_slots::<W, V>() as usize);
        self.starts.clear();
        self.starts.push(0);
        let mut start = 0;
        for left in (1..buckets).rev() {
            // As long as the rest in the mean. Those that are left have at least one pair each.
            let wanted = start + (len - start).div_ceil(left + 1);
            let ends = (start + 1).max(len.saturating_sub(left * slots))..=(start + slots).min(len - left);
            let begins = |&at: &usize| self.cells[at] != self.cells[at - 1];
            let Some(end) = ends.filter(begins).min_by_key(|end| end.abs_diff(wanted)) else { return false };
            self.starts.push(end);
            start = end;
        }
        len - start <= slots
    }
}

impl<W: KeyWord, V: Value> Batch<'_, W, V> {
    /// The first changes of a range: those of the buckets of their node up to one.
    pub(super) fn before_bucket(&self, changes: Range<usize>, bucket: usize) -> Range<usize> {
        let targets = &self.targets[changes.clone()];
        let count = targets.iter().take_while(|target| (target.position.within as usize) < bucket).count();
        changes.start..changes.start + count
    }

    /// Takes the pairs of some buckets of a node, changed.
    fn merge(
        &self,
        mut changes: Range<usize>,
        record: &Record<W>,
        buckets: Range<usize>,
        read: impl Fn(usize) -> ([W; MOST_SLOTS], [V; MOST_SLOTS]),
        to: &mut Group<W, V>,
    ) -> UpdateReport {
        to.keys.clear();
        to.values.clear();
        let mut report = UpdateReport::default();
        for bucket in buckets {
            let own = self.before_bucket(changes.clone(), bucket + 1);
            let (keys, values) = read(bucket);
            let of_bucket =
                walk(&keys[..record.len(bucket as u32) as usize], &self.changes[own.clone()], |kept, put| {
                    to.keys.extend_from_slice(&keys[kept.clone()]);
                    to.values.extend_from_slice(&values[kept]);
                    if let Some((key, value)) = put {
                        to.keys.push(key);
                        to.values.push(value);
                    }
                });
            report = report.plus(&of_bucket);
            changes.start = own.end;
        }
        report
    }

    /// Which buckets of a node are to share their pairs, so that each has room for its own, of which `lens` says how many there are. `None`
    /// if that is not enough. Look-ups come to the buckets of all that is inserted.
    pub(super) fn joined(&self, view: &View<'_, W, V>, touched: &Touched, lens: Lens) -> Option<Joined> {
        let (words, record) = (view.node_words(touched.node), view.record(touched.node));
        let quantiser = Quantiser(words[QUANTISER as usize]);
        if quantiser.format() != Format::Bitmap {
            return None;
        }
        let (used, own) = (used(words), view.buckets_of(touched.node));
        let mut crowd = Crowd { batch: self, view, touched, record, quantiser, lens, used, own };
        let mut to_join = crowd.fill_in();
        let slots = bucket_slots::<W, V>();
        if crowd.pairs(0..used) * 8 > crowd.own.len() as u32 * slots * FULL {
            return None;
        }
        let (mut joined, mut pairs) = (Joined::default(), Group::default());
        while to_join != 0 {
            let bucket = to_join.trailing_zeros() as usize;
            let mut group = crowd.to_end(bucket..bucket + 1);
            while !crowd.has_room(group.clone(), &mut pairs) {
                group = crowd.wider(group, joined)?;
            }
            to_join &= u64::MAX.checked_shl(group.end as u32).unwrap_or(0);
            joined = joined.with(group);
        }
        Some(joined)
    }

    /// Changes the buckets of a node that have changes, and those that share pairs with them; their lengths in its record, and where they
    /// begin in the node.
    ///
    /// # Safety
    /// They have room. Nobody else accesses the node's buckets meanwhile.
    pub(super) unsafe fn write_buckets(
        &self,
        mut changes: Range<usize>,
        joined: Joined,
        buckets: &Buckets<'_>,
        node: &mut [u32],
        record: &mut Record<W>,
        pairs: &mut Group<W, V>,
    ) {
        let first = node[FIRST_CHILD as usize];
        while !changes.is_empty() {
            if let Some(ahead) = self.targets.get(changes.start + AHEAD) {
                buckets.prefetch::<W, V>(ahead.position.bucket);
            }
            let group = joined.group(self.targets[changes.start].position.within as usize);
            let own = self.before_bucket(changes.clone(), group.end);
            changes.start = own.end;
            let is_shared = group.len() > 1;
            let used = if is_shared { used(node) } else { group.end };
            let old = group.start..group.end.min(used);
            // SAFETY: the caller's.
            let read = |bucket| unsafe { buckets.read::<W, V>(first + bucket as u32) };
            if !has_effect::<V>(&self.merge(own, record, old.clone(), read, pairs)) {
                continue;
            }
            pairs.starts.clear();
            pairs.starts.push(0);
            if is_shared {
                let quantiser = Quantiser(node[QUANTISER as usize]);
                assert!(pairs.cut(quantiser, record.first, group.len(), group.end >= used), "as it was planned");
                put_cells(node, group.start + 1..group.end, pairs.starts[1..].iter().map(|&start| pairs.cells[start]));
            }
            let numbers = first + group.start as u32..first + group.end as u32;
            // SAFETY: the caller's.
            unsafe {
                buckets.write_all(&pairs.keys, &pairs.values, &pairs.starts, numbers, |number, len| {
                    put_len::<W, V>(record, (number - first) as usize, len);
                });
            }
        }
    }
}

/// A node, some of whose buckets are to share their pairs.
struct Crowd<'a, W: KeyWord, V> {
    batch: &'a Batch<'a, W, V>,
    view: &'a View<'a, W, V>,
    touched: &'a Touched,
    record: Record<W>,
    quantiser: Quantiser,
    /// The pairs of each bucket after the batch.
    lens: Lens,
    /// The buckets that are not free.
    used: usize,
    /// Its buckets among all.
    own: Range<usize>,
}

impl<W: KeyWord, V: Value> Crowd<'_, W, V> {
    /// Puts in the lengths of buckets without changes. Returns a bit for each bucket that cannot be changed alone.
    fn fill_in(&mut self) -> u64 {
        let mut to_join = 0;
        for (bucket, len) in self.lens.iter_mut().enumerate().take(self.used) {
            if *len == UNCHANGED {
                *len = self.record.len(bucket as u32);
            } else {
                // The node's last pair is repeated in buckets that are free.
                let has_repeats = bucket + 1 == self.used && self.used < self.own.len();
                let is_alone = (1..=bucket_slots::<W, V>()).contains(len) && !has_repeats;
                to_join |= u64::from(!is_alone) << bucket;
            }
        }
        to_join
    }

    /// The pairs of a group.
    fn pairs(&self, group: Range<usize>) -> u32 {
        self.lens[group.start..group.end.min(self.used)].iter().sum()
    }

    /// A group with the buckets that are free, if it has the last one that is not.
    fn to_end(&self, group: Range<usize>) -> Range<usize> {
        group.start..if group.end == self.used { self.own.len() } else { group.end }
    }

    /// Whether a group has room for its pairs, and at least one for each bucket; they are left in `pairs`.
    fn has_room(&self, group: Range<usize>, pairs: &mut Group<W, V>) -> bool {
        let (len, count, is_last) = (self.pairs(group.clone()), group.len() as u32, group.end >= self.used);
        if !(1..=count * bucket_slots::<W, V>()).contains(&len) || len < count && !is_last {
            return false;
        }
        let changes = self.touched.changes.clone();
        let changes = self.batch.before_bucket(changes.clone(), group.start).end..changes.end;
        let read = |bucket| self.view.slots(self.own.start + bucket);
        self.batch.merge(changes, &self.record, group.start..group.end.min(self.used), read, pairs);
        pairs.cut(self.quantiser, self.record.first, group.len(), is_last)
    }

    /// A group with a bucket more: that on the side where there is more room, and those that share pairs with it. `None` if there is none,
    /// or the group has as many as it may have.
    fn wider(&self, group: Range<usize>, joined: Joined) -> Option<Range<usize>> {
        let left = group.start.checked_sub(1);
        let right = Some(group.end).filter(|&right| right < self.used);
        let wider = match (left, right) {
            (Some(left), right) if right.is_none_or(|right| self.lens[left] <= self.lens[right]) => {
                joined.group(left).start..group.end
            }
            (_, Some(right)) => self.to_end(group.start..right + 1),
            _ => return None,
        };
        (wider.end.min(self.used) - wider.start <= MOST).then_some(wider)
    }
}

/// The buckets of a node that are not free, if its separators are a bitmap.
fn used(node: &[u32]) -> usize {
    1 + node[..SEPARATORS as usize].iter().map(|word| word.count_ones() as usize).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_as_they_were_joined() {
        let none = Joined::default();
        assert_eq!([0, 5, 63].map(|bucket| none.group(bucket)), [0..1, 5..6, 63..64]);
        let some = none.with(0..2).with(2..5).with(60..64).with(6..7);
        let groups = [0, 1, 2, 4, 5, 6, 59, 60, 63].map(|bucket| some.group(bucket));
        assert_eq!(groups, [0..2, 0..2, 2..5, 2..5, 5..6, 6..7, 59..60, 60..64, 60..64]);
        assert_eq!([0, 33, 63].map(|bucket| none.with(0..64).group(bucket)), [0..64, 0..64, 0..64]);
    }

    #[test]
    fn groups_are_cut_where_buckets_may_begin() {
        let starts = |keys: &[u64], most: usize, may_be_free: bool| {
            let mut group = Group::<u64, u64> { keys: keys.to_vec(), ..Group::default() };
            let quantiser = Quantiser::bitmap(0_u64, 100 << 20, 0);
            group.cut(quantiser, 0, most, may_be_free).then_some(group.starts)
        };
        let far = |keys: &[u64]| keys.iter().map(|key| key << 20).collect::<Vec<_>>();
        assert_eq!(starts(&far(&[1, 2, 3, 4, 5]), 2, false), Some(vec![0, 3]));
        assert_eq!(starts(&far(&[1, 2, 3, 4, 5]), 3, false), Some(vec![0, 2, 4]));
        assert_eq!(starts(&far(&[1, 2, 3, 4, 5, 6, 7, 8]), 2, false), Some(vec![0, 4]));
        assert_eq!(starts(&far(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 2, true), None);
        assert_eq!(starts(&far(&[1, 2]), 9, true), Some(vec![0, 1]));
        // In one cell.
        assert_eq!(starts(&[1, 2, 3, 4, 9 << 20, 10 << 20], 2, false), Some(vec![0, 4]));
        assert_eq!(starts(&[1, 2, 3, 4, 9 << 20, 10 << 20], 4, true), Some(vec![0, 4, 5]));
        assert_eq!(starts(&[1, 2, 3, 4, 5, 10 << 20], 2, false), None);
        // Look-ups would find it elsewhere than ordered queries.
        assert_eq!(starts(&[1 << 20, 2 << 20, 200 << 20], 2, false), None);
    }
}
