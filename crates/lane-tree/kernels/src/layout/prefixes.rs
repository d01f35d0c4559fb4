//! The prefixes by which the table above the nodes is searched.

use super::TABLE_ENTRIES;
use lanetree_simt::KeyWord;

/// How the table tells the keys at the top of a tree apart: by their prefixes, which are the upper 32 bits of their distances from
/// the first key. Where keys are in two clusters, the gap between these is left out of the distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes<K> {
    /// The first key of all.
    pub origin: K,
    /// The first key after the gap.
    pub split: K,
    /// By how much distances from `split` on are less; 0 if there is no gap. If there is one, the distance of `split`
    /// itself, less the gap, is a multiple of 2^`shift`, and not 0.
    pub gap: K,
    /// By how much distances are shifted.
    pub shift: u32,
}

impl<K: KeyWord> Prefixes<K> {
    /// The prefixes of keys from `origin` to `last`, and by how much a prefix is shifted for its bucket of the table.
    #[inline(always)]
    pub fn new(origin: K, last: K, split: K, gap: K) -> (Self, u32) {
        let bits = last.wrapping_sub(origin).wrapping_sub(gap).significant_bits();
        let prefixes = Self { origin, split, gap, shift: bits.saturating_sub(32) };
        (prefixes, bits.min(32).saturating_sub(TABLE_ENTRIES.ilog2()))
    }

    /// The prefix of a key.
    #[inline(always)]
    pub fn of(self, word: K) -> u32 {
        let mut distance = if word > self.origin { word.wrapping_sub(self.origin) } else { K::MIN };
        // Such distances are not shifted, and need no gap.
        if K::BITS == 32 {
            return distance.low();
        }
        if self.gap != K::MIN {
            let most = self.split.wrapping_sub(self.origin).wrapping_sub(self.gap).wrapping_sub(K::truncate(1));
            distance = match word < self.split {
                true if distance < most => distance,
                true => most,
                false => distance.wrapping_sub(self.gap),
            };
        }
        let [low, high] = distance.shr(self.shift).parts();
        if low >> 32 == 0 && high == 0 { low as u32 } else { u32::MAX }
    }

    /// The smallest key with a prefix, where some key of the tree has that prefix.
    #[inline(always)]
    pub fn first(self, prefix: u32) -> K {
        let distance = match K::BITS {
            32 => K::truncate(u64::from(prefix)),
            64 => K::truncate(u64::from(prefix) << (self.shift & 63)),
            _ => {
                let wide = u128::from(prefix) << (self.shift & 127);
                K::from_parts([wide as u64, (wide >> 64) as u64])
            }
        };
        let first = self.origin.wrapping_add(distance);
        if K::BITS > 32 && self.gap != K::MIN && first >= self.split.wrapping_sub(self.gap) {
            return first.wrapping_add(self.gap);
        }
        first
    }
}
