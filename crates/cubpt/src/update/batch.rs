//! A batch of changes on the device, and where they belong.

use super::sums::Sums;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, NetChange, Result, Stream};
use lanetree_kernels_cubpt::{IN_FLIGHT, PUT, PUT_IF_PRESENT, REMOVE, SearchArgs, TreeRef, calls};
use lanetree_layout::{Key, Word};
use lanetree_runtime::Buffer;

/// Changes, one for each key, in ascending order.
pub(super) struct Changes<K, V> {
    pub(super) keys: Buffer<K>,
    pub(super) values: Buffer<V>,
    kinds: Buffer<u32>,
}

impl<K: Key, V: Word> Changes<K, V> {
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(super) fn upload(device: &Device, changes: &[(K::Bits, NetChange<V>)]) -> Result<Self> {
        let keys: Vec<K> = changes.iter().map(|change| K::decode(change.0)).collect();
        let (kinds, values): (Vec<u32>, Vec<V>) = changes
            .iter()
            .map(|change| match change.1 {
                NetChange::Put(value) => (PUT, value),
                NetChange::PutIfPresent(value) => (PUT_IF_PRESENT, value),
                NetChange::Remove => (REMOVE, V::MIN),
            })
            .unzip();
        Ok(Self { keys: device.upload(&keys)?, values: device.upload(&values)?, kinds: device.upload(&kinds)? })
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

/// Where changes belong, and what they do.
pub(super) struct Found {
    pub(super) leaves: Buffer<u32>,
    pub(super) slots: Buffer<u32>,
    /// The inserts before each change, and which ones insert.
    pub(super) inserts: Sums,
    pub(super) insert_mask: Buffer<u32>,
    pub(super) removals: Sums,
    /// 1 for a change that removes a pair; for one that replaces a value.
    pub(super) removes: Buffer<u32>,
    pub(super) replaces: Buffer<u32>,
    /// Values that are replaced.
    pub(super) replaced: u64,
}

impl Found {
    /// Searches for changes, at least one: the paper's first stage. Waits for what they do.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn search<K: Key, V: Word>(
        stream: &Stream,
        tree: TreeRef<K::Bits>,
        changes: &Changes<K, V>,
    ) -> Result<Self> {
        let (device, count) = (stream.device(), changes.len());
        let words = || device.alloc::<u32>(count);
        let [mut leaves, mut slots, mut inserts] = [words()?, words()?, words()?];
        let [mut removes, mut replaces] = [words()?, words()?];
        let mut insert_mask = device.alloc(count.div_ceil(32))?;
        let args = SearchArgs {
            tree,
            keys: changes.keys.read_on(stream)?.cast(),
            kinds: changes.kinds.read_on(stream)?,
            count: count as u64,
            leaves: leaves.write_on(stream)?,
            slots: slots.write_on(stream)?,
            inserts: inserts.write_on(stream)?,
            insert_mask: insert_mask.write_on(stream)?,
            removals: removes.write_on(stream)?,
            replacements: replaces.write_on(stream)?,
        };
        let threads = count.div_ceil(IN_FLIGHT) as u64;
        // SAFETY: the tree is valid, and there is a place for each change.
        unsafe { launch::over(stream, threads, 1, THREADS)?.run(calls::search(&args)) }?;
        let (inserts, removals) = (Sums::of(stream, &inserts)?, Sums::of(stream, &removes)?);
        let replaced = Sums::of(stream, &replaces)?.total;
        Ok(Self { leaves, slots, inserts, insert_mask, removals, removes, replaces, replaced })
    }
}
