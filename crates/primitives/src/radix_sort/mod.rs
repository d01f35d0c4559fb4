//! A stable radix sort.
//!
//! [`radix_sort_keys`] and [`radix_sort_pairs`] leave their input as it is and write the sorted elements to other
//! buffers of the caller's; [`radix_argsort`] uses the elements' positions as values. The passes, one per 8 bits,
//! alternate between the output and the scratch memory such that the last one ends in the output, so no number of
//! passes needs a copy.

mod launch;
mod native;
#[cfg(test)]
mod tests;

use core::ops::Range;
use lanetree_base::error::same_device;
use lanetree_base::pointers::optional;
use lanetree_base::{AnyKey, Buffer, Device, DeviceKind, Error, KeyWord, Result, Stream, Word};
use lanetree_kernels_primitives::radix_sort::{Digits, MAX_PASSES, MAX_PORTION, RADIX};
use lanetree_simt::{Global, GlobalMut};
pub(crate) use launch::is_small;
use launch::{Arrays, Counters, Sort, smallest_tile};
pub(super) use native::sort_pairs as sort_on_host;

/// Words before the states: a counter per pass, and padding so that the states begin on a line of their own.
const TICKETS: usize = 64;

/// Counts of the passes' digits, and twice the offsets that a launch leaves for the next one of its pass.
const COUNTS: usize = (MAX_PASSES + 2) * RADIX as usize;

/// Scratch memory of radix sorts of up to a number of elements: mostly spare buffers for keys and values, and counters
/// of about a fifth of a byte per element. It can be reused, for one sort at a time. On the host it is empty: sorts
/// there allocate what they need.
#[derive(Debug)]
pub struct RadixSortScratch<K: AnyKey, V: Word = u32> {
    keys: Buffer<K>,
    values: Buffer<V>,
    counts: Buffer<u64>,
    states: Buffer<u32>,
    /// Elements for which the states are enough.
    len: usize,
    multiprocessors: u32,
}

impl<K: AnyKey> RadixSortScratch<K> {
    /// For sorts of up to `len` keys without values.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room; [`Error::TooManyElements`].
    pub fn for_keys(device: &Device, len: usize) -> Result<Self> {
        Self::new(device, len, len, 0)
    }
}

impl<K: AnyKey, V: Word> RadixSortScratch<K, V> {
    /// For sorts of up to `len` pairs, or keys without values.
    ///
    /// # Errors
    /// As [`RadixSortScratch::for_keys`].
    pub fn for_pairs(device: &Device, len: usize) -> Result<Self> {
        Self::new(device, len, len, len)
    }

    /// For sorts of up to `len` pairs or keys by at most 8 bits, which take one pass and no spare buffers. Sorts in
    /// place need these, however.
    ///
    /// # Errors
    /// As [`RadixSortScratch::for_keys`].
    pub fn for_one_pass(device: &Device, len: usize) -> Result<Self> {
        Self::new(device, len, 0, 0)
    }

    pub(crate) fn new(device: &Device, len: usize, spare_keys: usize, spare_values: usize) -> Result<Self> {
        let tiles = (len as u64).div_ceil(smallest_tile::<K::Bits, V>());
        let on_device = |elements: usize| if device.kind() == DeviceKind::Host { 0 } else { elements };
        let states = u32::try_from(tiles).ok().and_then(|tiles| (tiles as usize).checked_mul(RADIX as usize));
        let states = states.ok_or(Error::TooManyElements { elements: len })?;
        Ok(Self {
            keys: device.alloc(on_device(spare_keys))?,
            values: device.alloc(on_device(spare_values))?,
            counts: device.alloc(on_device(COUNTS))?,
            states: device.alloc(on_device(TICKETS + states))?,
            len,
            multiprocessors: device.properties()?.multiprocessors,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes() + self.counts.bytes() + self.states.bytes()
    }
}

/// Sorts the first `len` of `keys` by their bits in `bits`, stably, into `sorted`. In the stream's order; may
/// return before it is done. Allocates nothing, but on the host.
///
/// Bits are those of the key's order-preserving word ([`AnyKey::encode`]), 0 the least significant: `0..64`
/// sorts `i64`s as numbers, `56..64` by sign and the next 7 bits. An empty range copies. Each 8 bits, or part of 8,
/// take one pass over the elements.
///
/// # Errors
/// [`Error::BitRange`]; [`Error::OutputLength`] for a buffer or scratch memory that is too small;
/// [`Error::Runtime`] for a buffer of another device than the stream's, and from the launches.
pub fn radix_sort_keys<K: AnyKey, V: Word>(
    stream: &Stream,
    keys: &Buffer<K>,
    len: usize,
    bits: Range<u32>,
    sorted: &mut Buffer<K>,
    scratch: &mut RadixSortScratch<K, V>,
) -> Result<()> {
    let passes = check::<K>(&bits)?;
    require(stream, "the keys' buffer", len, keys)?;
    require(stream, "the sorted keys' buffer", len, sorted)?;
    if stream.device().kind() == DeviceKind::Host {
        let (keys, sorted) = (keys.as_slice().unwrap_or(&[]), sorted.as_mut_slice().unwrap_or(&mut []));
        sorted[..len].copy_from_slice(&keys[..len]);
        return native::sort_keys(&mut sorted[..len], bits);
    }
    scratch.require(stream, len, passes > 1, false)?;
    let arrays = Arrays {
        input: (bits_of(stream, keys)?, Global::null()),
        output: (bits_of_mut(stream, sorted)?, GlobalMut::null()),
        spare: (bits_of_mut(stream, &mut scratch.keys)?, GlobalMut::null()),
    };
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
    unsafe { scratch.sort(stream, len, bits, MAX_PORTION)?.keys(&arrays) }
}

/// Sorts the first `len` pairs of a key and a value by the keys' bits in `bits`, stably, into `sorted`. Otherwise like
/// [`radix_sort_keys`].
///
/// # Errors
/// As [`radix_sort_keys`].
pub fn radix_sort_pairs<K: AnyKey, V: Word>(
    stream: &Stream,
    (keys, values): (&Buffer<K>, &Buffer<V>),
    len: usize,
    bits: Range<u32>,
    sorted: (&mut Buffer<K>, &mut Buffer<V>),
    scratch: &mut RadixSortScratch<K, V>,
) -> Result<()> {
    require(stream, "the values' buffer", len, values)?;
    sort_pairs(stream, (keys, Some(values)), len, bits, sorted, scratch, MAX_PORTION)
}

/// Sorts the first `len` of `keys` by their bits in `bits`, stably, into `sorted.0`, and writes the position of each in
/// `keys` to `sorted.1`. Otherwise like [`radix_sort_keys`]. No positions are read: the first pass generates them.
///
/// # Errors
/// [`Error::PositionWidth`] for more keys than `V` can number; as [`radix_sort_keys`].
pub fn radix_argsort<K: AnyKey, V: Word>(
    stream: &Stream,
    keys: &Buffer<K>,
    len: usize,
    bits: Range<u32>,
    sorted: (&mut Buffer<K>, &mut Buffer<V>),
    scratch: &mut RadixSortScratch<K, V>,
) -> Result<()> {
    if len.saturating_sub(1) as u64 > V::MAX.widen() {
        return Err(Error::PositionWidth { elements: len, bits: V::BITS });
    }
    sort_pairs(stream, (keys, None), len, bits, sorted, scratch, MAX_PORTION)
}

/// Sorts the first `len` of `keys` in place. Otherwise like [`radix_sort_keys`]. It takes less memory, but an odd
/// number of passes ends in the scratch memory and is copied back.
///
/// # Errors
/// As [`radix_sort_keys`].
pub fn radix_sort_keys_in_place<K: AnyKey, V: Word>(
    stream: &Stream,
    keys: &mut Buffer<K>,
    len: usize,
    bits: Range<u32>,
    scratch: &mut RadixSortScratch<K, V>,
) -> Result<()> {
    let passes = check::<K>(&bits)?;
    require(stream, "the keys' buffer", len, keys)?;
    if stream.device().kind() == DeviceKind::Host {
        return native::sort_keys(&mut keys.as_mut_slice().unwrap_or(&mut [])[..len], bits);
    }
    scratch.require(stream, len, true, false)?;
    if bits.is_empty() {
        return Ok(());
    }
    let passes = if is_small(len) { 0 } else { passes };
    let own = (bits_of_mut(stream, keys)?, GlobalMut::null());
    let arrays = Arrays::in_place(own, (bits_of_mut(stream, &mut scratch.keys)?, GlobalMut::null()), passes);
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
    unsafe { scratch.sort(stream, len, bits, MAX_PORTION)?.keys(&arrays)? };
    if !passes.is_multiple_of(2) {
        keys.copy_from_buffer(stream, 0, &scratch.keys, 0..len)?;
    }
    Ok(())
}

/// Sorts the first `len` pairs in place. Otherwise like [`radix_sort_keys_in_place`].
///
/// # Errors
/// As [`radix_sort_keys`].
pub fn radix_sort_pairs_in_place<K: AnyKey, V: Word>(
    stream: &Stream,
    (keys, values): (&mut Buffer<K>, &mut Buffer<V>),
    len: usize,
    bits: Range<u32>,
    scratch: &mut RadixSortScratch<K, V>,
) -> Result<()> {
    let passes = check::<K>(&bits)?;
    require(stream, "the keys' buffer", len, keys)?;
    require(stream, "the values' buffer", len, values)?;
    if stream.device().kind() == DeviceKind::Host {
        let keys = keys.as_mut_slice().unwrap_or(&mut []);
        let values = values.as_mut_slice().unwrap_or(&mut []);
        return native::sort_pairs(&mut keys[..len], &mut values[..len], bits);
    }
    scratch.require(stream, len, true, true)?;
    if bits.is_empty() {
        return Ok(());
    }
    let passes = if is_small(len) { 0 } else { passes };
    let own = (bits_of_mut(stream, keys)?, values.write_on(stream)?);
    let spare = (bits_of_mut(stream, &mut scratch.keys)?, scratch.values.write_on(stream)?);
    let arrays = Arrays::in_place(own, spare, passes);
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
    unsafe { scratch.sort(stream, len, bits, MAX_PORTION)?.pairs(&arrays)? };
    if !passes.is_multiple_of(2) {
        keys.copy_from_buffer(stream, 0, &scratch.keys, 0..len)?;
        values.copy_from_buffer(stream, 0, &scratch.values, 0..len)?;
    }
    Ok(())
}

/// Sorts pairs, or keys with their positions, in portions of a limited number of elements.
fn sort_pairs<K: AnyKey, V: Word>(
    stream: &Stream,
    (keys, values): (&Buffer<K>, Option<&Buffer<V>>),
    len: usize,
    bits: Range<u32>,
    (sorted_keys, sorted_values): (&mut Buffer<K>, &mut Buffer<V>),
    scratch: &mut RadixSortScratch<K, V>,
    portion: u64,
) -> Result<()> {
    let passes = check::<K>(&bits)?;
    require(stream, "the keys' buffer", len, keys)?;
    require(stream, "the sorted keys' buffer", len, sorted_keys)?;
    require(stream, "the sorted values' buffer", len, sorted_values)?;
    if stream.device().kind() == DeviceKind::Host {
        let sorted_keys = &mut sorted_keys.as_mut_slice().unwrap_or(&mut [])[..len];
        let sorted_values = &mut sorted_values.as_mut_slice().unwrap_or(&mut [])[..len];
        sorted_keys.copy_from_slice(&keys.as_slice().unwrap_or(&[])[..len]);
        match values {
            Some(values) => sorted_values.copy_from_slice(&values.as_slice().unwrap_or(&[])[..len]),
            None => native::number(sorted_values),
        }
        return native::sort_pairs(sorted_keys, sorted_values, bits);
    }
    scratch.require(stream, len, passes > 1, passes > 1)?;
    let arrays = Arrays {
        input: (bits_of(stream, keys)?, optional(values, stream)?),
        output: (bits_of_mut(stream, sorted_keys)?, sorted_values.write_on(stream)?),
        spare: (bits_of_mut(stream, &mut scratch.keys)?, scratch.values.write_on(stream)?),
    };
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
    unsafe { scratch.sort(stream, len, bits, portion)?.pairs(&arrays) }
}

/// The number of passes over a range of bits.
fn check<K: AnyKey>(bits: &Range<u32>) -> Result<u32> {
    let (&Range { start, end }, width) = (bits, K::Bits::BITS);
    if start > end || end > width {
        return Err(Error::BitRange { start, end, width });
    }
    Ok(Digits::of(start..end).passes())
}

fn require<T: bytemuck::Pod>(stream: &Stream, what: &'static str, len: usize, buffer: &Buffer<T>) -> Result<()> {
    if buffer.len() < len {
        return Err(Error::OutputLength { what, expected: len, actual: buffer.len() });
    }
    same_device(stream.device(), buffer.device(), what)
}

impl<K: AnyKey, V: Word> RadixSortScratch<K, V> {
    fn require(&self, stream: &Stream, len: usize, spare_keys: bool, spare_values: bool) -> Result<()> {
        if self.len < len {
            let what = "the radix sort's scratch memory";
            return Err(Error::OutputLength { what, expected: len, actual: self.len });
        }
        require(stream, "the radix sort's scratch memory", 0, &self.states)?;
        require(stream, "the radix sort's spare-key buffer", if spare_keys { len } else { 0 }, &self.keys)?;
        require(stream, "the radix sort's spare-value buffer", if spare_values { len } else { 0 }, &self.values)
    }

    /// A sort that uses the counters, which it clears.
    fn sort<'a>(
        &'a mut self,
        stream: &'a Stream,
        len: usize,
        bits: Range<u32>,
        portion: u64,
    ) -> Result<Sort<'a, K::Bits>> {
        let counters = if is_small(len) {
            None
        } else {
            self.counts.fill_zero(stream)?;
            Some(Counters { counts: self.counts.write_on(stream)?, states: self.states.write_on(stream)? })
        };
        let mask = mask_of(&bits);
        let (digits, multiprocessors) = (Digits::of(bits), self.multiprocessors);
        Ok(Sort { stream, len: len as u64, digits, flip: K::FLIP, mask, counters, multiprocessors, portion })
    }
}

/// The word in which the bits of a range, which lie inside it, are set.
fn mask_of<W: KeyWord>(bits: &Range<u32>) -> W {
    let below = |bit: u32| if bit == 0 { W::MIN } else { W::MAX.shr(W::BITS - bit) };
    below(bits.end).xor(below(bits.start))
}

fn bits_of<K: AnyKey>(stream: &Stream, keys: &Buffer<K>) -> Result<Global<K::Bits>> {
    Ok(keys.read_on(stream)?.cast())
}

fn bits_of_mut<K: AnyKey>(stream: &Stream, keys: &mut Buffer<K>) -> Result<GlobalMut<K::Bits>> {
    Ok(keys.write_on(stream)?.cast())
}
