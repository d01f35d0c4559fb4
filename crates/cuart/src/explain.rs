//! How a look-up goes, node by node.

use super::native::View;
use super::{Cuart, Link, LinkType};
use core::fmt;
use lanetree_frame::byte_keys::show;
use lanetree_frame::{Error, Result};
use lanetree_layout::Word;

/// One node or leaf on the path of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Its link.
    pub link: Link,
    /// Bytes of the key before its link.
    pub from: usize,
    /// Where a node branches; for a leaf, as `from`.
    pub depth: usize,
    /// A node's children; 0 for a leaf.
    pub children: usize,
}

/// The path of a key's look-up. `Display` prints one line per step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation<V> {
    /// The key.
    pub key: Vec<u8>,
    /// How many bytes of the key indexed the root table; 0 if the look-up started at the root.
    pub table_bytes: usize,
    /// What it came by.
    pub steps: Vec<Step>,
    /// What it found.
    pub value: Option<V>,
}

impl<V: Word> Cuart<V> {
    /// The nodes that the look-up of a key visits, and where it ends: for debugging. On the CPU, over the tree's own
    /// memory.
    ///
    /// # Errors
    /// [`Error::HostOnly`] for a tree in a GPU's memory, which the CPU cannot walk; [`Error::Lost`].
    pub fn explain(&self, key: &[u8]) -> Result<Explanation<V>> {
        let gpu = || Error::HostOnly { index: "explaining a look-up", device: self.device.to_string() };
        let tree = View::new(self.parts()?.regions().ok_or_else(gpu)?);
        let regions = &tree.regions;
        let (mut link, mut from) = regions.start(key);
        let mut out = Explanation { key: key.to_vec(), table_bytes: from, steps: Vec::new(), value: None };
        while let Some(header) = regions.header(link) {
            let depth = regions.depth(link, from);
            out.steps.push(Step { link, from, depth, children: usize::from(header.count) });
            (link, from) = match key.get(depth) {
                Some(&byte) => (regions.child(link, byte), depth + 1),
                None if key.len() == depth => (header.here, depth),
                None => (Link::NONE, depth),
            };
        }
        if let Some(leaf) = regions.leaf(link) {
            out.steps.push(Step { link, from, depth: from, children: 0 });
            out.value = (leaf.key == key).then(|| V::truncate(leaf.value));
        }
        Ok(out)
    }
}

impl<V: fmt::Display> fmt::Display for Explanation<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", show(&self.key))?;
        match self.table_bytes {
            0 => write!(f, "from the root")?,
            bytes => write!(f, "from its entry of the root table, by {bytes} bytes")?,
        }
        for step in &self.steps {
            let Step { link, from, depth, children } = *step;
            match link.kind() {
                LinkType::N4 | LinkType::N16 | LinkType::N48 | LinkType::N256 => {
                    write!(f, "\n{link:?}: bytes {from}..{depth} skipped, {children} children by byte {depth}")?;
                }
                _ => write!(f, "\n{link:?}: keys compared")?,
            }
        }
        match &self.value {
            Some(value) => write!(f, "\nfound: {value}"),
            None => write!(f, "\nnot found"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Cuart;
    use lanetree_frame::{ByteKeysBuf, Device};

    #[test]
    fn a_look_up_is_told_node_by_node() {
        let keys: ByteKeysBuf = ["romane", "romanus", "romulus"].into_iter().collect();
        let tree = Cuart::build(&Device::host(), &keys, &[1_u32, 2, 3]).unwrap();
        let explanation = tree.explain(b"romanus").unwrap();
        assert_eq!(
            explanation.to_string(),
            "\"romanus\" from the root\n\
             N4[0; 3]: bytes 0..3 skipped, 2 children by byte 3\n\
             N4[1; 1]: bytes 4..5 skipped, 2 children by byte 5\n\
             Leaf8[1; 7]: keys compared\n\
             found: 2"
        );
        assert_eq!(tree.explain(b"romxxxx").unwrap().value, None);
        assert!(tree.explain(b"ro").unwrap().to_string().ends_with("children by byte 3\nnot found"));
        let sizes = tree.stats();
        assert_eq!((sizes.nodes, sizes.leaves, sizes.order_bytes), ([2, 0, 0, 0], [3, 0, 0], 24));
        assert_eq!(sizes.bytes(), 2 * 64 + 3 * 16 + 24);
    }
}
