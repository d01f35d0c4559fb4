//! Rebuilding a tree from its leaves.

use super::cursor::Cursor;
use super::parts::Parts;
use super::{Builder, Cuart};
use lanetree_frame::byte_keys::ByteKeysBuf;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{push, with_room};
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::layout::Link;
use lanetree_layout::Word;
use lanetree_runtime::{Device, DeviceKind};

impl<V: Word> Cuart<V> {
    /// Rebuilds the tree from its pairs if keys were inserted or removed. Afterwards its leaves are in order and have
    /// ranks, so spans are available and ranges are found without walking to their ends; what removals have left behind
    /// is freed. Returns by how many bytes the tree has become smaller; 0 if it has not. Meanwhile it takes the memory of both trees, plus on the host a copy of the pairs, and on a device at
    /// most 41 bytes per key.
    ///
    /// ```
    /// use lanetree::{ByteKeysBuf, Cuart, Device};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let words: ByteKeysBuf = ["car", "cart", "dog"].into_iter().collect();
    /// let mut tree = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3])?;
    /// tree.remove_many(&["car"].into_iter().collect::<ByteKeysBuf>())?;
    /// assert_eq!(tree.count_range_many(["ca".."dog"])?, [1]);
    /// assert!(tree.span_many(["ca".."dog"]).is_err());
    /// tree.compact()?;
    /// assert_eq!(tree.span_many(["ca".."dog"])?, [0..1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A tree on a device is rebuilt there, after waiting for all work on the device. A tree with leaves in main
    /// memory, or with 2^32 or more keys, is copied to the host, rebuilt there, and copied back.
    ///
    /// # Errors
    /// [`Error::Runtime`] if there is no room, or from the device: the tree is unchanged. [`Error::Lost`].
    pub fn compact(&mut self) -> Result<u64> {
        let (before, tree) = (self.stats().bytes(), self.parts()?);
        if tree.ordered {
            return Ok(0);
        }
        match tree.rebuilt(&self.options) {
            Ok(rebuilt) => self.parts.replace(rebuilt),
            // What the device found is no tree.
            Err(error @ Error::Lost { .. }) => return self.parts.change(|_| Err(error)),
            Err(error) => return Err(error),
        }
        Ok(before.saturating_sub(self.stats().bytes()))
    }
}

impl Parts {
    /// The tree rebuilt from its pairs.
    pub(super) fn rebuilt<V: Word>(&self, options: &Builder<V>) -> Result<Self> {
        if self.device.kind() == DeviceKind::Host {
            let (keys, values) = self.pairs::<V>()?;
            return options.build_sorted(&self.device, &keys, &values)?.parts.into_inner();
        }
        if self.is_rebuilt_there() {
            return self.rebuilt_there(options);
        }
        self.to_device(&Device::host())?.rebuilt(options)?.to_device(&self.device)
    }

    /// All pairs in order.
    pub(super) fn pairs<V: Word>(&self) -> Result<(ByteKeysBuf, Vec<V>)> {
        let tree = self.view();
        let regions = &tree.regions;
        // The root's children, one per thread.
        let mut parts: Vec<Link> = Vec::new();
        match regions.header(regions.root) {
            None => parts.push(regions.root),
            Some(header) => {
                parts.push(header.here);
                let mut next = regions.child_from(regions.root, 0);
                while let Some((byte, child)) = next {
                    parts.push(child);
                    next = byte.checked_add(1).and_then(|byte| regions.child_from(regions.root, byte));
                }
            }
        }
        let collect = |&link: &Link| {
            let leaves = Cursor::under(tree, link);
            let (mut keys, mut values) = (ByteKeysBuf::new(), Vec::new());
            for leaf in leaves {
                keys.try_push(leaf.key)?;
                push(&mut values, V::truncate(leaf.value))?;
            }
            Ok((keys, values))
        };
        let parts = parts.par_iter().map(collect).collect().into_iter().collect::<Result<Vec<_>>>()?;
        let keys = ByteKeysBuf::concat(parts.iter().map(|part| &part.0))?;
        let mut values = with_room(self.len as usize)?;
        parts.iter().for_each(|part| values.extend_from_slice(&part.1));
        Ok((keys, values))
    }
}
