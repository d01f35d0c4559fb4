//! The tree with short keys on a device and long ones on the host: prefixes.

use crate::Hooks;
use lanetree::cuart::{Hybrid, HybridBuilder};
use lanetree::{ByteKeysBuf, ByteRanges, Result, Word};

/// Lengths up to which the device has a key: the longest, the shortest, and others.
pub fn hybrid_builders<V: Word>() -> Vec<HybridBuilder<V>> {
    [32, 8, 1, 13].map(|max| Hybrid::builder().max_device_key(max)).to_vec()
}

/// The prefixes of both trees.
#[derive(Clone, Copy, Debug)]
pub struct HybridHooks;

impl<V: Word> Hooks<Hybrid<V>> for HybridHooks {
    fn start(_: &Hybrid<V>, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn prefix(&self, index: &Hybrid<V>, prefixes: &[Vec<u8>]) -> Option<Result<ByteRanges<V>>> {
        Some(index.prefix_many(&prefixes.iter().collect::<ByteKeysBuf>()))
    }
}
