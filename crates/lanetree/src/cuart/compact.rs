//! Building a tree again from its leaves.

use super::Cuart;
use super::cursor::Cursor;
use crate::Result;
use crate::byte_keys::ByteKeysBuf;
use lanetree_layout::Word;
use lanetree_layout::cuart::Link;
use lanetree_runtime::{Device, DeviceKind};
use rayon::prelude::*;

impl<V: Word> Cuart<V> {
    /// Builds the tree again from its pairs where keys have come or gone: its leaves are in order then and
    /// have ranks, so that spans can be told and ranges are found without walking to their ends; and what
    /// removals have left is gone. Takes, while it lasts, the memory of both trees, and on the host of a copy of the
    /// pairs; on a device, at most 41 bytes a key.
    ///
    /// ```
    /// use lanetree::{ByteKeysBuf, Cuart, Device};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let words: ByteKeysBuf = ["car", "cart", "dog"].into_iter().collect();
    /// let mut tree = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3])?;
    /// tree.remove_many(&["car"].into_iter().collect::<ByteKeysBuf>())?;
    /// assert_eq!(tree.count_many(["ca".."dog"])?, [1]);
    /// assert!(tree.span_many(["ca".."dog"]).is_err());
    /// tree.compact()?;
    /// assert_eq!(tree.span_many(["ca".."dog"])?, [0..1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A tree on a device is built again there, with all work on the device waited for before; one with leaves in
    /// main memory, or of 2^32 keys or more, is copied to the host, built there, and copied back.
    ///
    /// # Errors
    /// [`Runtime`](crate::Error::Runtime) where there is no room. The tree is as it was then.
    pub fn compact(&mut self) -> Result<()> {
        if self.ordered {
            return Ok(());
        }
        if self.device.kind() != DeviceKind::Host {
            self.check_not_lost()?;
            if self.is_rebuilt_there() {
                let rebuilt = self.rebuilt_there()?;
                self.replace(rebuilt);
                return Ok(());
            }
            let mut host = self.to_device(&Device::host())?;
            host.compact()?;
            let copy = host.to_device(&self.device)?;
            self.replace(copy);
            return Ok(());
        }
        let (keys, values) = self.pairs();
        *self = self.options.build_sorted(&self.device, &keys, &values)?;
        Ok(())
    }

    /// Puts another tree on the same device in this one's place; what host batches have taken stays.
    pub(super) fn replace(&mut self, other: Self) {
        let batches = core::mem::take(&mut self.batches);
        *self = Self { batches, ..other };
    }

    /// All pairs in order.
    pub(super) fn pairs(&self) -> (ByteKeysBuf, Vec<V>) {
        let tree = self.view();
        let regions = &tree.regions;
        // What hangs at the root, each by a thread.
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
                keys.push(leaf.key);
                values.push(V::truncate(leaf.value));
            }
            (keys, values)
        };
        let parts: Vec<(ByteKeysBuf, Vec<V>)> = parts.par_iter().map(collect).collect();
        let (mut keys, mut values) = (ByteKeysBuf::new(), Vec::with_capacity(self.len as usize));
        for (part, part_values) in parts {
            keys.append(&part);
            values.extend(part_values);
        }
        (keys, values)
    }
}
