//! Rebuilding an index from its own pairs.

use super::{FixedIndex, OnStream};
use lanetree_base::Result;

/// [`OrderedIndex::compact`](crate::OrderedIndex::compact) of any [`FixedIndex`].
///
/// # Errors
/// [`Error::Lost`](lanetree_base::Error::Lost); [`Error::Runtime`](lanetree_base::Error::Runtime) if the device has no room for
/// the pairs and a second index, or from the device: the index is as it was.
pub fn compact<I: FixedIndex>(index: &mut I) -> Result<u64> {
    index.check_not_lost()?;
    let (before, len, device) = (index.bytes(), index.len() as usize, index.device());
    let stream = device.stream()?;
    let (mut keys, mut values) = (device.alloc(len)?, device.alloc(len)?);
    OnStream::new(index, &stream).pairs(&mut keys, &mut values)?;
    // SAFETY: an index's pairs ascend strictly, as its implementation promises, and the stream copies them before it reads them.
    let anew = unsafe { index.build_like(&stream, (&keys, &values), len)? };
    *index = anew;
    Ok(before.saturating_sub(index.bytes()))
}
