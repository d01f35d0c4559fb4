//! Compaction on the CPU: count in parts, then write each part's results to their positions.

use core::ops::Range;
use lanetree_base::parallel::*;

/// `0..count` in parts of at most `task` elements.
pub(super) fn parts(count: usize, task: usize) -> Vec<Range<usize>> {
    (0..count).step_by(task).map(|start| start..(start + task).min(count)).collect()
}

/// Runs `count` on every part, then `fill` with room for the counted results of that part; returns the sum. `values` is
/// empty if there are no values.
pub(super) fn compact<P: Sync, K: Send, V: Send>(
    parts: &[P],
    count: impl Fn(&P) -> usize + Sync,
    fill: impl Fn(&P, &mut [K], &mut [V]) + Sync,
    mut keys: &mut [K],
    mut values: &mut [V],
) -> usize {
    if let [part] = parts {
        let count = count(part);
        let has_values = count.min(values.len());
        fill(part, &mut keys[..count], &mut values[..has_values]);
        return count;
    }
    let counts: Vec<usize> = parts.par_iter().map(&count).collect();
    let mut tasks = Vec::with_capacity(parts.len());
    for (part, &count) in parts.iter().zip(&counts) {
        let (part_keys, other_keys) = keys.split_at_mut(count);
        let (part_values, other_values) = values.split_at_mut(count.min(values.len()));
        tasks.push((part, part_keys, part_values));
        (keys, values) = (other_keys, other_values);
    }
    tasks.into_par_iter().for_each(|(part, keys, values)| fill(part, keys, values));
    counts.iter().sum()
}

/// Writes a sequence of pairs, whose values are optional.
pub(super) struct Writer<'a, K, V> {
    keys: core::slice::IterMut<'a, K>,
    values: core::slice::IterMut<'a, V>,
}

impl<'a, K, V> Writer<'a, K, V> {
    pub(super) fn new(keys: &'a mut [K], values: &'a mut [V]) -> Self {
        Self { keys: keys.iter_mut(), values: values.iter_mut() }
    }

    /// Writes a pair; its value only if there is one and it is wanted.
    pub(super) fn push(&mut self, key: K, value: Option<V>) {
        if let Some(to) = self.keys.next() {
            *to = key;
        }
        if let (Some(value), Some(to)) = (value, self.values.next()) {
            *to = value;
        }
    }
}
