//! A stable radix sort.
//!
//! [`radix_sort`] leaves its input as it is and writes the sorted elements to other buffers of the caller's;
//! [`radix_sort_in_place`] does not, and takes less memory; [`radix_argsort`] uses the elements' positions as values.
//! The passes, one per 8 bits, alternate between the output and the scratch memory such that the last one ends in the
//! output, so out of place no number of passes needs a copy.

mod launch;
mod native;
mod restore;
mod sortable;
#[cfg(test)]
mod tests;

use core::ops::Range;
use lanetree_base::error::same_device;
use lanetree_base::pointers::optional_mut;
use lanetree_base::{AnyKey, Buffer, Device, DeviceKind, Error, KeyWord, Result, Stream, Word};
use lanetree_kernels_primitives::radix_sort::{Digits, MAX_PASSES, MAX_PORTION, RADIX};
use lanetree_simt::{Global, GlobalMut};
pub(crate) use launch::is_small;
use launch::{Arrays, Counters, Sort, smallest_tile};
pub(super) use native::sort_pairs as sort_on_host;
pub use restore::{Moved, Restored, can_be_moved};
pub use sortable::{SortInput, SortOutput};

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
    /// Memory on `device` for sorts of up to `len` keys without values, allocated now.
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

/// Sorts the first `len` elements of `input` by their keys' bits in `bits`, stably, into `sorted`. In the stream's order;
/// may return before it is done. Allocates nothing, but on the host.
///
/// The input is either keys, a `&Buffer<K>`, or pairs, `(&Buffer<K>, &Buffer<V>)`; `sorted` is the same, but mutable, and
/// has room for `len` elements. The scratch memory of a sort of pairs is for values of their type.
///
/// Bits are numbered in the key's order-preserving word ([`AnyKey::encode`]), 0 the least significant: `0..64` sorts
/// `i64`s as numbers, `56..64` by sign and the next 7 bits. An empty range copies. Each 8 bits, or part of 8, take one
/// pass over the elements.
///
/// # Errors
/// [`Error::BitRange`]; [`Error::OutputLength`] for a buffer or scratch memory that is too small;
/// [`Error::Runtime`] for a buffer of another device than the stream's, and from the launches.
pub fn radix_sort<W: Word, I: SortInput<W>>(
    stream: &Stream,
    input: I,
    len: usize,
    bits: Range<u32>,
    sorted: I::Output<'_>,
    scratch: &mut RadixSortScratch<I::Key, W>,
) -> Result<()> {
    let (keys, values) = input.parts();
    let values = values.map_or(Values::None, Values::Given);
    sort(stream, (keys, values), len, bits, sorted.parts(), scratch, MAX_PORTION)
}

/// Sorts the first `len` of `keys` by their bits in `bits`, stably, into `sorted`, and writes the position of each in
/// `keys` to `positions`. Otherwise like [`radix_sort`]. No positions are read: the first pass generates them.
///
/// # Errors
/// [`Error::PositionWidth`] for more keys than `V` can number; as [`radix_sort`].
pub fn radix_argsort<K: AnyKey, V: Word>(
    stream: &Stream,
    keys: &Buffer<K>,
    len: usize,
    bits: Range<u32>,
    sorted: &mut Buffer<K>,
    positions: &mut Buffer<V>,
    scratch: &mut RadixSortScratch<K, V>,
) -> Result<()> {
    if len.saturating_sub(1) as u64 > V::MAX.widen() {
        return Err(Error::PositionWidth { elements: len, bits: V::BITS });
    }
    sort(stream, (keys, Values::Positions), len, bits, (sorted, Some(positions)), scratch, MAX_PORTION)
}

/// Sorts the first `len` elements where they are: keys, a `&mut Buffer<K>`, or pairs, `(&mut Buffer<K>, &mut Buffer<V>)`.
/// Otherwise like [`radix_sort`]. It takes less memory, but an odd number of passes ends in the scratch memory and is
/// copied back.
///
/// # Errors
/// As [`radix_sort`].
pub fn radix_sort_in_place<W: Word, O: SortOutput<W>>(
    stream: &Stream,
    elements: O,
    len: usize,
    bits: Range<u32>,
    scratch: &mut RadixSortScratch<O::Key, W>,
) -> Result<()> {
    let (keys, mut values) = elements.parts();
    let passes = check::<O::Key>(&bits)?;
    require(stream, "the keys' buffer", len, keys)?;
    if let Some(values) = &values {
        require(stream, "the values' buffer", len, values)?;
    }
    if stream.device().kind() == DeviceKind::Host {
        let keys = &mut keys.as_mut_slice().unwrap_or(&mut [])[..len];
        return match values {
            None => native::sort_keys(keys, bits),
            Some(values) => native::sort_pairs(keys, &mut values.as_mut_slice().unwrap_or(&mut [])[..len], bits),
        };
    }
    let has_values = values.is_some();
    scratch.require(stream, len, true, has_values)?;
    if bits.is_empty() {
        return Ok(());
    }
    let passes = if is_small(len) { 0 } else { passes };
    let own = (bits_of_mut(stream, keys)?, optional_mut(values.as_deref_mut(), stream)?);
    let arrays = Arrays::in_place(own, scratch.spare(stream, has_values)?, passes);
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
    unsafe { scratch.run(stream, len, bits, MAX_PORTION, &arrays, has_values)? };
    if !passes.is_multiple_of(2) {
        keys.copy_from_buffer(stream, 0, &scratch.keys, 0..len)?;
        if let Some(values) = values {
            values.copy_from_buffer(stream, 0, &scratch.values, 0..len)?;
        }
    }
    Ok(())
}

/// The values of a sort's input.
enum Values<'a, V> {
    None,
    Given(&'a Buffer<V>),
    /// The keys' positions.
    Positions,
}

/// Sorts keys alone, with values or with their positions, in portions of a limited number of elements. There are sorted
/// values unless there are no values.
fn sort<K: AnyKey, V: Word>(
    stream: &Stream,
    (keys, values): (&Buffer<K>, Values<'_, V>),
    len: usize,
    bits: Range<u32>,
    (sorted_keys, sorted_values): (&mut Buffer<K>, Option<&mut Buffer<V>>),
    scratch: &mut RadixSortScratch<K, V>,
    portion: u64,
) -> Result<()> {
    let passes = check::<K>(&bits)?;
    require(stream, "the keys' buffer", len, keys)?;
    if let Values::Given(values) = values {
        require(stream, "the values' buffer", len, values)?;
    }
    require(stream, "the sorted keys' buffer", len, sorted_keys)?;
    if let Some(values) = &sorted_values {
        require(stream, "the sorted values' buffer", len, values)?;
    }
    if stream.device().kind() == DeviceKind::Host {
        let sorted_keys = &mut sorted_keys.as_mut_slice().unwrap_or(&mut [])[..len];
        sorted_keys.copy_from_slice(&keys.as_slice().unwrap_or(&[])[..len]);
        let Some(sorted_values) = sorted_values else { return native::sort_keys(sorted_keys, bits) };
        let sorted_values = &mut sorted_values.as_mut_slice().unwrap_or(&mut [])[..len];
        match values {
            Values::Given(values) => sorted_values.copy_from_slice(&values.as_slice().unwrap_or(&[])[..len]),
            _ => native::number(sorted_values),
        }
        return native::sort_pairs(sorted_keys, sorted_values, bits);
    }
    let has_values = sorted_values.is_some();
    scratch.require(stream, len, passes > 1, passes > 1 && has_values)?;
    let values = match values {
        Values::Given(values) => values.read_on(stream)?,
        Values::None | Values::Positions => Global::null(),
    };
    let arrays = Arrays {
        input: (bits_of(stream, keys)?, values),
        output: (bits_of_mut(stream, sorted_keys)?, optional_mut(sorted_values, stream)?),
        spare: scratch.spare(stream, has_values)?,
    };
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
    unsafe { scratch.run(stream, len, bits, portion, &arrays, has_values) }
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

    /// The spare buffers.
    fn spare(&mut self, stream: &Stream, has_values: bool) -> Result<(GlobalMut<K::Bits>, GlobalMut<V>)> {
        let values = Some(&mut self.values).filter(|_| has_values);
        Ok((bits_of_mut(stream, &mut self.keys)?, optional_mut(values, stream)?))
    }

    /// Sorts pairs, or keys alone.
    ///
    /// # Safety
    /// The arrays are long enough, and for the stream.
    unsafe fn run(
        &mut self,
        stream: &Stream,
        len: usize,
        bits: Range<u32>,
        portion: u64,
        arrays: &Arrays<K::Bits, V>,
        has_values: bool,
    ) -> Result<()> {
        let sort = self.sort(stream, len, bits, portion)?;
        // SAFETY: the caller's promise about the arrays; the counters are this sort's.
        unsafe { if has_values { sort.pairs(arrays) } else { sort.keys(&arrays.keys()) } }
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
