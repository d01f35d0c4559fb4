//! The ways of batches in main memory to the devices.

use bytemuck::Pod;
use lanetree_frame::Device;
use lanetree_frame::staging::{PinnedStaging, Staging};

/// Queries of a piece of a pinned batch.
const PINNED_PIECE: usize = 1 << 20;

/// The fewest queries of a batch in ordinary memory that the devices divide: some of the short pieces of each device.
pub(crate) const DIVIDED_THERE: usize = 1 << 17;

/// A device's way, with memory that is kept for the next batch.
pub(crate) struct HostWay<K, V> {
    pub(crate) device: Device,
    pub(crate) pinned: PinnedStaging<K, V>,
    /// For batches in ordinary memory.
    pub(crate) staging: Staging,
}

/// The ways of all devices.
pub(crate) struct HostWays<K, V>(pub(crate) Vec<HostWay<K, V>>);

impl<K: Pod, V: Pod> HostWays<K, V> {
    /// The ways to these devices, of which some may be the same.
    pub(crate) fn new(devices: &[Device]) -> Self {
        let mut ways: Vec<HostWay<K, V>> = Vec::new();
        for device in devices {
            if ways.iter().all(|way| way.device != *device) {
                let mut pinned = PinnedStaging::default();
                pinned.piece = PINNED_PIECE;
                ways.push(HostWay { device: device.clone(), pinned, staging: Staging::default() });
            }
        }
        let count = ways.len();
        ways.iter_mut().for_each(|way| way.staging.sharers = count);
        Self(ways)
    }
}
