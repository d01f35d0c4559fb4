//! Staging of batches in main memory, on each device.

use bytemuck::Pod;
use lanetree_frame::Device;
use lanetree_frame::staging::{PinnedStaging, Staging};

/// Queries of a piece of a pinned batch.
const PINNED_PIECE: usize = 1 << 20;

/// The fewest queries of a batch in ordinary memory that the devices partition: a few of the short pieces of each device.
pub(crate) const MIN_STAGED: usize = 1 << 17;

/// A device's staging memory, kept for the next batch.
pub(crate) struct DeviceStaging<K, V> {
    pub(crate) device: Device,
    pub(crate) pinned: PinnedStaging<K, V>,
    /// For batches in ordinary memory.
    pub(crate) staging: Staging,
}

/// Staging on all devices.
pub(crate) struct HostStaging<K, V>(pub(crate) Vec<DeviceStaging<K, V>>);

impl<K: Pod, V: Pod> HostStaging<K, V> {
    /// Staging on each of these devices, once if it is named several times.
    pub(crate) fn new<'d>(devices: impl Iterator<Item = &'d Device>) -> Self {
        let mut all: Vec<DeviceStaging<K, V>> = Vec::new();
        for device in devices {
            if all.iter().all(|of_device| of_device.device != *device) {
                let mut pinned = PinnedStaging::default();
                pinned.piece = PINNED_PIECE;
                all.push(DeviceStaging { device: device.clone(), pinned, staging: Staging::default() });
            }
        }
        let count = all.len();
        all.iter_mut().for_each(|of_device| of_device.staging.sharers = count);
        Self(all)
    }
}
