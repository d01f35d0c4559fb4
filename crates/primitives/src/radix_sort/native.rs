//! The CPU's own path: a stable sort by the same bits.

use core::ops::Range;
use lanetree_base::parallel::*;
use lanetree_base::{AnyKey, KeyWord, Result, Word};

/// Sorts keys by a range of their bits.
///
/// # Errors
/// [`Error::Runtime`](lanetree_base::Error::Runtime) if main memory has no room for a copy.
pub(super) fn sort_keys<K: AnyKey>(keys: &mut [K], bits: Range<u32>) -> Result<()> {
    if bits.is_empty() {
        return Ok(());
    }
    let field = field(bits);
    sort_by_word(keys, |key| field(*key))
}

/// Sorts keys and their values by a range of the keys' bits.
///
/// # Errors
/// As [`sort_keys`].
pub(crate) fn sort_pairs<K: AnyKey, V: Word>(keys: &mut [K], values: &mut [V], bits: Range<u32>) -> Result<()> {
    if bits.is_empty() {
        return Ok(());
    }
    let field = field(bits);
    let mut pairs = keys.par_iter().copied().zip(values.par_iter().copied()).try_collect()?;
    sort_by_word(&mut pairs, |pair| field(pair.0))?;
    let places = keys.par_iter_mut().zip(values);
    places.zip(pairs).for_each(|((key, value), pair)| (*key, *value) = pair);
    Ok(())
}

/// Writes each element's own position to it.
pub(super) fn number<V: Word>(positions: &mut [V]) {
    positions.par_iter_mut().enumerate().for_each(|(i, position)| *position = V::truncate(i as u64));
}

/// The part of a key's order-preserving word in a range of bits, which is not empty.
fn field<K: AnyKey>(bits: Range<u32>) -> impl Fn(K) -> K::Bits + Sync {
    let Range { start, end } = bits;
    let mask = K::Bits::MAX.shr(K::Bits::BITS - (end - start));
    move |key| key.encode().shr(start).and(mask)
}
