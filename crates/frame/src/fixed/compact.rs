//! The same pairs, laid out anew.

use super::{FixedIndex, OnStream};
use lanetree_base::Result;

/// [`OrderedIndex::compact`](crate::OrderedIndex::compact) of any [`FixedIndex`].
///
/// # Errors
/// As there.
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
