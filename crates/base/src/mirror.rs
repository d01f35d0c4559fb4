//! An index on the host that takes updates, and its copy on a device that answers queries.

use crate::UpdateReport;

/// Changed memory at most this many bytes apart is sent together: a copy of its own costs about as much as sending that
/// many more.
pub const GAP: u64 = 64 << 10;

/// What a batch did to both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorReport {
    /// What it did to the pairs.
    pub update: UpdateReport,
    /// Bytes sent to the device.
    pub bytes_sent: u64,
}
