//! Room for new buckets after a tree's buckets.

use crate::LaneTree;
use crate::options::MORE;
use crate::parts::Shape;
use lanetree_frame::{Result, Stream};
use lanetree_kernels_lane_tree::layout::{buckets_in_words, words_of_buckets};
use lanetree_layout::{AnyKey, Value};

/// If there is no room for more buckets, and more than one in this number of buckets would be unused, the tree is
/// rebuilt. If there is room, only when half of the buckets would be unused.
const MOST_UNUSED: u64 = 8;

/// So few buckets without a node are no reason: 16 KiB.
const FEW_UNUSED: u64 = 256;

/// The buckets that nodes get, and those that they leave for them.
#[derive(Clone, Copy)]
pub(super) struct NewBuckets {
    pub(super) new: u64,
    pub(super) old: u64,
}

impl NewBuckets {
    /// Notes them. There is room for these buckets.
    pub(super) fn add_to<K>(self, shape: &mut Shape<K>) {
        shape.buckets += self.new as u32;
        shape.unused += self.old as u32;
    }
}

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Makes room for new buckets after the tree's buckets. If too many buckets would then be unused, makes no room and
    /// returns false.
    pub(super) fn reserve_buckets(&mut self, stream: &Stream, NewBuckets { new, old }: NewBuckets) -> Result<bool> {
        let device = self.device.clone();
        let parts = self.parts.get_mut()?;
        let (buckets, needed) = (u64::from(parts.shape.buckets), u64::from(parts.shape.buckets) + new);
        let unused = u64::from(parts.shape.unused) + old;
        let has_room = needed <= buckets_in_words::<K::Bits, V>(parts.buckets.len() as u64);
        let counted = unused.saturating_sub(FEW_UNUSED);
        if needed > u64::from(u32::MAX) || counted * if has_room { 2 } else { MOST_UNUSED } > needed {
            return Ok(false);
        }
        if has_room {
            return Ok(true);
        }
        let room = (needed + needed / MORE).min(u64::from(u32::MAX));
        let mut to = device.alloc(words_of_buckets::<K::Bits, V>(room) as usize)?;
        to.copy_from_buffer(stream, 0, &parts.buckets, 0..words_of_buckets::<K::Bits, V>(buckets) as usize)?;
        parts.buckets = to;
        Ok(true)
    }
}
