//! Indexes over several devices.

use lanetree::{AnyKey, Device, DeviceKind, IndexBuilder, OrderedIndex, Replicated, Result, Sharded};

/// Where three shards or copies are.
#[derive(Clone, Copy, Debug)]
pub enum Three {
    /// All on the device: a failure of it comes to any of them.
    Together,
    /// On the emulator, each on a device of its own; on a GPU, the others on the host's first two GPUs, if it has two.
    Apart,
}

impl Three {
    pub(crate) fn devices(self, device: &Device) -> [Device; 3] {
        match (self, device.kind()) {
            (Self::Apart, DeviceKind::Emulated) => {
                [device.clone(), Device::emulated_with_seed(11), Device::emulated_with_seed(12)]
            }
            (Self::Apart, DeviceKind::Cuda) => {
                let gpu = |ordinal| Device::cuda(ordinal).unwrap_or_else(|_| device.clone());
                [device.clone(), gpu(0), gpu(1)]
            }
            _ => [device.clone(), device.clone(), device.clone()],
        }
    }
}

/// Three shards, each of which a builder makes.
#[derive(Clone, Debug)]
pub struct ShardedBuilder<B>(B, Three);

/// Three copies, each of which a builder makes.
#[derive(Clone, Debug)]
pub struct ReplicatedBuilder<B>(B, Three);

/// Together and apart.
pub fn sharded_builders<B: Clone>(builder: B) -> [ShardedBuilder<B>; 2] {
    [Three::Together, Three::Apart].map(|three| ShardedBuilder(builder.clone(), three))
}

/// Together and apart.
pub fn replicated_builders<B: Clone>(builder: B) -> [ReplicatedBuilder<B>; 2] {
    [Three::Together, Three::Apart].map(|three| ReplicatedBuilder(builder.clone(), three))
}

impl<K: AnyKey, B: IndexBuilder<Index: OrderedIndex<Domain = K>> + 'static> IndexBuilder for ShardedBuilder<B> {
    type Index = Sharded<B::Index>;

    fn build(&self, device: &Device, keys: &[K], values: &[<B::Index as OrderedIndex>::Value]) -> Result<Self::Index> {
        Sharded::build(&self.1.devices(device), self.0.clone(), keys, values)
    }
}

impl<K: AnyKey, B: IndexBuilder<Index: OrderedIndex<Domain = K>>> IndexBuilder for ReplicatedBuilder<B> {
    type Index = Replicated<B::Index>;

    fn build(&self, device: &Device, keys: &[K], values: &[<B::Index as OrderedIndex>::Value]) -> Result<Self::Index> {
        Replicated::build(&self.1.devices(device), self.0.clone(), keys, values)
    }
}
