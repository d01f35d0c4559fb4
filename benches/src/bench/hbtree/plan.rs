//! How much the figures measure.

use crate::bench::driver::within_memory;
use crate::bench::error::Result;
use crate::bench::figure::Request;
use crate::bench::session::Session;
use core::iter;
use lanetree::DeviceKind;

/// Measures something at each size that was asked for; a size for which the memory is too small leaves the others to be
/// measured.
///
/// # Errors
/// Any other.
pub(crate) fn at_each(
    session: &mut Session,
    request: &Request,
    mut measure: impl FnMut(&mut Session, u32) -> Result<()>,
) -> Result<()> {
    for &size in &request.sizes {
        let what = format!("n = 2^{size}");
        if session.has_time(&what) {
            within_memory(measure(session, size), session, &what)?;
        }
    }
    Ok(())
}

/// Queries of a small batch, or of a pool that small batches are taken from: at most the queries of a large one.
pub(crate) fn at_most(session: &Session, size: u32) -> usize {
    1 << session.plan.queries.min(size)
}

/// The sizes of buckets that are compared.
pub(crate) fn buckets(session: &Session) -> Vec<usize> {
    let sizes = if session.device.kind() == DeviceKind::Emulated { 6..=8 } else { 13..=20 };
    sizes.map(|size| 1 << size).collect()
}

/// The bucket that the others are compared with: the paper's.
pub(crate) fn usual_bucket(session: &Session) -> usize {
    if session.device.kind() == DeviceKind::Emulated { 1 << 7 } else { 1 << 14 }
}

/// The sizes of buckets that the device answers alone; 0: none.
pub(crate) fn device_buckets(session: &Session) -> Vec<usize> {
    let sizes = if session.device.kind() == DeviceKind::Emulated { 7..=8 } else { 18..=23 };
    iter::once(0).chain(sizes.map(|size| 1 << size)).collect()
}
