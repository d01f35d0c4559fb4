//! New indexes from an index's own pairs, or none.

use super::{FixedIndex, OnStream};
use lanetree_base::Result;

/// [`OrderedIndex::compact`](crate::OrderedIndex::compact) of any [`FixedIndex`].
///
/// # Errors
/// [`Error::Lost`](lanetree_base::Error::Lost); [`Error::Runtime`](lanetree_base::Error::Runtime) if the device has no room for
/// the pairs and a second index, or from the device: the index is as it was.
pub fn compact<I: FixedIndex>(index: &mut I) -> Result<u64> {
    let before = index.bytes();
    *index = copy(index)?;
    Ok(before.saturating_sub(index.bytes()))
}

/// A second index with the same pairs and options, on the same device, laid out as a build lays it out.
///
/// # Errors
/// [`Error::Lost`](lanetree_base::Error::Lost); [`Error::Runtime`](lanetree_base::Error::Runtime) if the device has no room for
/// a copy of the pairs and the second index, or from the device.
pub fn copy<I: FixedIndex>(index: &I) -> Result<I> {
    index.check_not_lost()?;
    let (len, device) = (index.len() as usize, index.device());
    let stream = device.stream()?;
    let (mut keys, mut values) = (device.alloc(len)?, device.alloc(len)?);
    OnStream::new(index, &stream).pairs(&mut keys, &mut values)?;
    // SAFETY: an index's pairs ascend strictly, as its implementation promises, and the stream copies them before it reads them.
    unsafe { index.build_like(&stream, (&keys, &values), len) }
}

/// Removes all pairs and gives back their memory; the index keeps its options.
///
/// # Errors
/// [`Error::Lost`](lanetree_base::Error::Lost); [`Error::Runtime`](lanetree_base::Error::Runtime) from the device: the index is
/// as it was.
pub fn clear<I: FixedIndex>(index: &mut I) -> Result<()> {
    index.check_not_lost()?;
    let device = index.device();
    let (stream, keys, values) = (device.stream()?, device.alloc(0)?, device.alloc(0)?);
    // SAFETY: no pairs.
    *index = unsafe { index.build_like(&stream, (&keys, &values), 0)? };
    Ok(())
}
