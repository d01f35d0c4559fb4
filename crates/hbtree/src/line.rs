//! Cache lines, and what is in them: `lanetree_kernels_hbtree::layout` draws both kinds.

use core::ops::Range;
use lanetree_kernels_hbtree::layout;
use lanetree_layout::{Key, Word};

pub(crate) use lanetree_runtime::Line;

/// What a line holds as a leaf: keys (the largest word in empty slots) and values. A line with all bits set is a leaf
/// without pairs, and an inner node without separators.
pub(crate) trait Leaf {
    /// The keys.
    fn keys<B: Word, V: Word>(&self) -> &[B];

    /// The values.
    fn values<B: Word, V: Word>(&self) -> &[V];

    /// Appends the keys of some slots that are not above `last`, and their values; says how many they are. The keys of the
    /// slots ascend.
    fn collect<K: Key, V: Word>(
        &self,
        slots_of: Range<usize>,
        last: K::Bits,
        keys: &mut Vec<K>,
        values: &mut Vec<V>,
    ) -> usize;

    /// Writes a pair.
    fn set<B: Word, V: Word>(&mut self, slot: usize, key: B, value: V);

    /// Writes the first pairs, at most as many as there are slots.
    fn set_all<B: Word, V: Word>(&mut self, keys: &[B], values: &[V]);
}

impl Leaf for Line {
    #[inline(always)]
    fn keys<B: Word, V: Word>(&self) -> &[B] {
        &self.words()[..slots::<B, V>()]
    }

    #[inline(always)]
    fn values<B: Word, V: Word>(&self) -> &[V] {
        let first = const { layout::values_offset::<B, V>() / V::BYTES };
        &self.words()[first..first + slots::<B, V>()]
    }

    #[inline(always)]
    fn collect<K: Key, V: Word>(
        &self,
        slots_of: Range<usize>,
        last: K::Bits,
        keys: &mut Vec<K>,
        values: &mut Vec<V>,
    ) -> usize {
        let (own_keys, own_values) = (self.keys::<K::Bits, V>(), self.values::<K::Bits, V>());
        let per_line = const { slots::<K::Bits, V>() };
        // All slots, nearly always but at the ends: then the length is known when this is compiled.
        if slots_of.len() == per_line && own_keys[per_line - 1] <= last {
            keys.extend(own_keys[..per_line].iter().map(|&key| K::decode(key)));
            values.extend_from_slice(&own_values[..per_line]);
            return per_line;
        }
        let within = &own_keys[slots_of.clone()];
        let count = within.iter().map(|&key| usize::from(key <= last)).sum();
        keys.extend(within[..count].iter().map(|&key| K::decode(key)));
        values.extend_from_slice(&own_values[slots_of.start..slots_of.start + count]);
        count
    }

    #[inline(always)]
    fn set<B: Word, V: Word>(&mut self, slot: usize, key: B, value: V) {
        let first = const { layout::values_offset::<B, V>() / V::BYTES };
        self.words_mut()[slot] = key;
        self.words_mut()[first + slot] = value;
    }

    #[inline(always)]
    fn set_all<B: Word, V: Word>(&mut self, keys: &[B], values: &[V]) {
        let first = const { layout::values_offset::<B, V>() / V::BYTES };
        // All slots, nearly always: then the length is known when this is compiled.
        if keys.len() == slots::<B, V>() && values.len() == keys.len() {
            self.words_mut()[..slots::<B, V>()].copy_from_slice(&keys[..slots::<B, V>()]);
            self.words_mut()[first..first + slots::<B, V>()].copy_from_slice(&values[..slots::<B, V>()]);
            return;
        }
        self.words_mut()[..keys.len()].copy_from_slice(keys);
        self.words_mut()[first..first + values.len()].copy_from_slice(values);
    }
}

/// Pairs of a leaf.
#[inline(always)]
pub(crate) const fn slots<B: Word, V: Word>() -> usize {
    layout::slots::<B, V>() as usize
}

/// Brings a line of an array into the caches.
#[inline(always)]
pub(crate) fn prefetch(lines: &[Line], at: usize) {
    lanetree_runtime::prefetch(lines.as_ptr().wrapping_add(at));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds<B: Word, V: Word>(pairs: usize) {
        assert_eq!(slots::<B, V>(), pairs);
        let mut line = Line::ONES;
        for slot in 0..pairs {
            line.set(slot, B::truncate(slot as u64 + 1), V::truncate(100 + slot as u64));
        }
        let keys: Vec<B> = (1..=pairs as u64).map(B::truncate).collect();
        let values: Vec<V> = (100..100 + pairs as u64).map(V::truncate).collect();
        assert_eq!((line.keys::<B, V>(), line.values::<B, V>()), (&keys[..], &values[..]));
    }

    #[test]
    fn a_line_holds_keys_and_values_of_every_width() {
        holds::<u64, u64>(4);
        holds::<u32, u32>(8);
        holds::<u64, u32>(5);
        holds::<u32, u64>(5);
        assert!(Line::ONES.words::<u32>().iter().all(|&word| word == u32::MAX));
    }
}
