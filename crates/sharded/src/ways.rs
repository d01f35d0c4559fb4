//! The ways of host batches to the devices.

use bytemuck::Pod;
use lanetree_frame::staging::{Lengths, PinnedStaging, Staging};
use lanetree_frame::{Device, DeviceKind};

/// The fewest queries that devices divide: fewer are soon divided by the CPU, and so with less waiting.
const FEW: usize = 1 << 15;

/// Queries of pieces of host batches: of the first ones and the last, and the most. Each is divided by itself, which takes a few
/// dozen calls of the driver, so they are longer than those of a batch for one device.
const LENGTHS: Lengths = Lengths { short: 1 << 17, long: 1 << 19, bytes: 1 << 24 };

/// Queries of a piece of a pinned batch.
const PINNED_PIECE: usize = 1 << 20;

/// A device's way, with memory that is kept for the next batch.
pub(crate) struct HostWay<K, V> {
    pub(crate) device: Device,
    pub(crate) staging: Staging,
    pub(crate) pinned: PinnedStaging<K, V>,
}

/// The ways of all devices.
pub(crate) struct HostWays<K, V> {
    pub(crate) ways: Vec<HostWay<K, V>>,
    /// The fewest queries of a batch in ordinary memory that devices divide: the constant, but on GPUs, and in tests.
    pub(crate) few: usize,
}

impl<K: Pod, V: Pod> HostWays<K, V> {
    /// The ways to these devices, of which some may be the same.
    pub(crate) fn new(devices: &[Device]) -> Self {
        let mut ways: Vec<HostWay<K, V>> = Vec::new();
        for device in devices {
            if ways.iter().all(|way| way.device != *device) {
                let (mut staging, mut pinned) = (Staging::default(), PinnedStaging::default());
                (staging.lengths, pinned.piece) = (LENGTHS, PINNED_PIECE);
                ways.push(HostWay { device: device.clone(), staging, pinned });
            }
        }
        // The CPU takes 0.6 of the time to divide a batch of 2^26 look-ups in ordinary memory, of two shards on an H100, and a third
        // of it on two: the results of all pieces go through too few threads.
        let few = if devices.iter().any(|device| device.kind() == DeviceKind::Cuda) { usize::MAX } else { FEW };
        Self { ways, few }
    }

    /// Bytes that are kept, of device memory and of pinned memory.
    pub(crate) fn bytes(&self) -> usize {
        self.ways.iter().map(|way| way.staging.bytes() + way.pinned.bytes()).sum()
    }

    /// The way to one of them.
    pub(crate) fn to(&self, device: &Device) -> &HostWay<K, V> {
        self.ways.iter().find(|way| way.device == *device).unwrap_or(&self.ways[0])
    }
}
