//! An index as the inner levels of a tree.

use super::Upper;
use crate::device::Descending;
use crate::implicit::PackedLeaves;
use crate::options::Descent;
use crate::options::DeviceSearch;
use crate::structure::{Inner, InnerOnDevice};
use core::fmt;
use core::ops::Range;
use lanetree_frame::fixed::{FixedIndex, Query, View};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::parallel::*;
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_hbtree::{NarrowArgs, calls};
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, GrantedPages, Pages};
use lanetree_simt::{Global, RankBatch};

/// An index over the largest keys of all leaves but the last, in host memory.
pub struct IndexInner<K: Key, U: Upper> {
    index: U::Index<K>,
    keys: Vec<K>,
}

impl<K: Key, U: Upper> IndexInner<K, U> {
    pub(super) fn build<V: Word>(leaves: &PackedLeaves<K::Bits, V>) -> Result<Self> {
        let lines = leaves.lines();
        let last_key = |leaf| K::decode(PackedLeaves::<K::Bits, V>::last_key(lines, leaf));
        let keys = (0..lines.len() - 1).into_par_iter().map(last_key).try_collect()?;
        Ok(Self { index: U::build(&Device::host(), &keys)?, keys })
    }
}

impl<K: Key, U: Upper> fmt::Debug for IndexInner<K, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.index.fmt(f)
    }
}

impl<K: Key, U: Upper> Inner<K> for IndexInner<K, U> {
    type OnDevice = IndexOnDevice<K, U>;

    /// The index is searched as a whole.
    fn height(&self) -> u32 {
        u32::from(!self.keys.is_empty())
    }

    fn fanout(&self) -> u32 {
        u32::MAX
    }

    fn nodes(&self) -> u64 {
        1
    }

    fn bytes(&self) -> u64 {
        self.index.bytes() + size_of_val(&self.keys[..]) as u64
    }

    fn pages(&self) -> GrantedPages {
        GrantedPages { asked: Pages::Small, granted: Pages::Small, huge_bytes: None }
    }

    fn descend(&self, _: Descent, words: &[K::Bits], levels: Range<u32>, nodes: &mut [u32]) {
        const CHUNK: usize = 256;
        let Some(index) = self.index.view().filter(|_| !levels.is_empty()) else { return };
        for (words, nodes) in words.chunks(CHUNK).zip(nodes.chunks_mut(CHUNK)) {
            let mut keys = [K::default(); CHUNK];
            keys.iter_mut().zip(words).for_each(|(key, &word)| *key = K::decode(word));
            // There are fewer leaves than 32-bit numbers.
            index.rank(&keys[..words.len()], false, |i, rank| nodes[i] = rank as u32);
        }
    }

    fn upload(&self, device: &Device) -> Result<Self::OnDevice> {
        Ok(IndexOnDevice { index: U::build(device, &self.keys)? })
    }
}

/// An index over the largest keys of all leaves but the last, on a device.
pub struct IndexOnDevice<K: Key, U: Upper> {
    index: U::Index<K>,
}

impl<K: Key, U: Upper> fmt::Debug for IndexOnDevice<K, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.index.fmt(f)
    }
}

impl<K: Key, U: Upper> InnerOnDevice<K> for IndexOnDevice<K, U> {
    /// Ranks.
    type Scratch = Buffer<u64>;

    fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    fn scratch(device: &Device, queries: usize) -> Result<Buffer<u64>> {
        Ok(device.alloc(queries)?)
    }

    fn scratch_bytes(scratch: &Buffer<u64>) -> usize {
        scratch.bytes()
    }

    unsafe fn launch(
        &self,
        stream: &Stream,
        _: DeviceSearch,
        ranks: &mut Buffer<u64>,
        Descending { queries, nodes, from, count, leaves }: Descending<K::Bits>,
    ) -> Result<()> {
        let is_known = from > 0;
        if !is_known {
            // SAFETY: the caller's contract; the scratch memory has room for the bucket.
            unsafe {
                let batch = RankBatch { queries, count: count as u64, ranks: ranks.write_on(stream)?, upper: 0 };
                self.index.launch(stream, &Default::default(), &Query::Rank(batch))?;
            }
        }
        let ranks = if is_known { Global::null() } else { ranks.read_on(stream)? };
        let args = NarrowArgs { ranks, known: nodes, count: count as u64, leaves };
        // SAFETY: ranks that were written just now, or the caller's nodes.
        Ok(unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::narrow(&args)) }?)
    }
}
