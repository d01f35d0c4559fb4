//! By which bits of their keys pairs are likely to be sorted, from a sample of these.

use crate::telling_bits;
use core::ops::Range;
use lanetree_base::{AnyKey, Buffer, KeyWord, Result};

/// Keys of a sample: enough to see that the densest keys are some forty times as dense as the average of 2^26.
const SAMPLE: usize = 2048;

/// Pieces of the buffer that the sample is taken from. Each is a copy to the host, of some 10 us.
const PIECES: usize = 8;

/// The bits by which to sort the first `len` keys first, so that few of them agree: those that would be enough if all keys
/// were as random as a sample; or, if the sample is not random in these, all below the highest one in which its keys differ.
/// All bits if sorting by fewer would not pay. Waits for work on the buffer.
pub(crate) fn likely_bits<K: AnyKey>(keys: &Buffer<K>, len: usize) -> Result<Range<u32>> {
    if len < 8 * SAMPLE {
        return Ok(0..K::Bits::BITS);
    }
    let mut sample = vec![K::MIN; SAMPLE];
    let apart = (len - SAMPLE / PIECES) / (PIECES - 1);
    for (piece, out) in sample.chunks_mut(SAMPLE / PIECES).enumerate() {
        keys.copy_range_to(piece * apart, out)?;
    }
    Ok(bits_of(sample.into_iter().map(AnyKey::encode).collect(), len))
}

/// The bits by which to sort `len` keys, of which `sample` is a sample.
fn bits_of<W: KeyWord>(mut sample: Vec<W>, len: usize) -> Range<u32> {
    sample.sort_unstable();
    let (Some(&first), Some(&last)) = (sample.first(), sample.last()) else { return 0..W::BITS };
    let bits = telling_bits(len, first.xor(last).significant_bits());
    // A local sort takes as long as one or two passes, and is not needed after a sort by all bits.
    if bits.end == W::BITS && bits.start.div_ceil(8) <= 2 {
        return 0..W::BITS;
    }
    let agree = |pair: &&[W]| pair[0] != pair[1] && pair[0].xor(pair[1]).significant_bits() <= bits.start;
    let agreeing = sample.windows(2).filter(agree).count();
    // Pairs of the sample that would agree if keys were random: each of two in one of 2^bits.
    let expected = (sample.len() * sample.len() / 2) >> bits.len().min(63);
    if agreeing > 4 + 8 * expected { 0..bits.end } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::rng;
    use rand::Rng;

    fn of(len: usize, key: impl Fn(u64) -> u64) -> Range<u32> {
        let mut rng = rng(7);
        bits_of((0..SAMPLE).map(|_| key(rng.next_u64())).collect(), len)
    }

    #[test]
    fn random_keys_are_sorted_by_few_bits() {
        assert_eq!(of(1 << 26, |random: u64| random), 40..64);
        assert_eq!(of(1 << 17, |random: u64| random), 48..64);
    }

    #[test]
    fn narrow_keys_are_sorted_by_all_bits() {
        let mut rng = rng(7);
        let words: Vec<u32> = (0..SAMPLE).map(|_| rng.next_u32()).collect();
        assert_eq!(bits_of(words.clone(), 1 << 26), 0..32);
        assert_eq!(bits_of(words.iter().map(|word| word >> 1).collect(), 1 << 26), 7..31);
        assert_eq!(bits_of(words, 1 << 17), 0..32);
    }

    #[test]
    fn bits_that_all_keys_share_are_left_out() {
        assert_eq!(of(1 << 26, |random: u64| random >> 24 | 1 << 63), 16..40);
        assert_eq!(of(1 << 26, |random: u64| random >> 38), 2..26);
        assert_eq!(of(1 << 26, |_: u64| 5), 0..0);
    }

    #[test]
    fn keys_in_clusters_are_sorted_by_all_bits_in_which_they_differ() {
        assert_eq!(of(1 << 26, |random: u64| (random >> 58) << 40 | (random & 0xffff_ffff)), 0..46);
        // As many that are equal are no cluster.
        assert_eq!(of(1 << 26, |random: u64| (random >> 58) << 58), 40..64);
    }
}
