//! The mapping of a tree with pointers: in order, each node in front of what lies below it.

use crate::art::{Art, ArtRef};
use lanetree_kernels_baselines::layout::grt::{
    HERE_OFFSET, Header, KEYS_OFFSET, LEAF_KEY_OFFSET, NodeType, leaf_bytes, leaf_value_offset,
};
use lanetree_layout::Word;
use lanetree_runtime::{Error, Result};

/// The buffer, in words. Nodes' types go by their numbers of children, whatever the tree has.
///
/// # Errors
/// [`Error::OutOfRange`] for a key of 4 GiB and more.
pub(super) fn map<V: Word>(art: &Art) -> Result<Vec<u64>> {
    let mut words = Vec::new();
    // What is yet to be laid out, and the word of its link; the root has none.
    let mut stack: Vec<(ArtRef<'_>, Option<usize>)> = Vec::new();
    stack.extend(art.root().map(|root| (root, None)));
    while let Some((next, link)) = stack.pop() {
        let at = words.len();
        if let Some(link) = link {
            words[link] = 8 * at as u64;
        }
        let node = match next {
            ArtRef::Leaf(key, value) => {
                words.resize(at + leaf_words(key)?, 0);
                write_leaf(&mut words[at..], key, V::truncate(value).widen());
                continue;
            }
            ArtRef::Node(node) => node,
        };
        let count = node.children().count();
        let kind = NodeType::of_children(count);
        words.resize(at + word(kind.node_bytes()), 0);
        // Shorter than some key, of which all were seen to be short enough, or will be.
        let header = Header::node(kind, count, node.prefix_len() as u32, node.stored_prefix());
        words[at..at + 2].copy_from_slice(&header);
        let from = stack.len();
        stack.extend(node.here().map(|here| (here, Some(at + word(HERE_OFFSET)))));
        for (slot, (byte, child)) in node.children().enumerate() {
            stack.push((child, Some(at + enter(&mut words[at..], kind, slot, byte))));
        }
        stack[from..].reverse();
    }
    Ok(words)
}

/// Enters the byte of a node's child `slot` into the node, and returns the word of the child's link there.
pub(super) fn enter(node: &mut [u64], kind: NodeType, slot: usize, byte: u8) -> usize {
    let keys: &mut [u8] = bytemuck::cast_slice_mut(&mut node[word(KEYS_OFFSET)..]);
    let link = match kind {
        NodeType::N256 => usize::from(byte),
        NodeType::N48 => {
            keys[usize::from(byte)] = slot as u8 + 1;
            slot
        }
        _ => {
            keys[slot] = byte;
            slot
        }
    };
    word(kind.links_offset()) + link
}

/// Words of a key's leaf.
///
/// # Errors
/// [`Error::OutOfRange`] for a key of 4 GiB and more.
pub(super) fn leaf_words(key: &[u8]) -> Result<usize> {
    let len = u32::try_from(key.len()).map_err(|_| Error::OutOfRange {
        action: "mapping a key for GRT",
        start: 0,
        len: key.len(),
        buffer_len: u32::MAX as usize,
    })?;
    Ok(word(leaf_bytes(len)))
}

/// Writes a leaf to the first words of a slice of zeros; its key is short enough.
pub(super) fn write_leaf(words: &mut [u64], key: &[u8], value: u64) {
    let len = key.len() as u32;
    words[0] = Header::leaf(len).bits();
    words[word(leaf_value_offset(len))] = value;
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words[word(LEAF_KEY_OFFSET)..]);
    bytes[..key.len()].copy_from_slice(key);
}

/// The word at a byte offset, which is a multiple of 8.
pub(super) fn word(offset: u64) -> usize {
    (offset / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 1 of the CuART paper, in small: nodes and leaves in the order of the keys, without gaps.
    #[test]
    fn a_tree_is_laid_out_in_order() {
        let art = Art::new([(&b"ab"[..], 1), (b"abcde", 2), (b"abcdf", 3), (b"abd", 4)]);
        let words = map::<u64>(&art).unwrap();
        let offsets = [0, 64, 96, 160, 192, 224];
        assert_eq!(8 * words.len(), 256);
        let headers = offsets.map(|at| Header::from_bits(words[at / 8]));
        assert_eq!(
            headers.map(Header::kind),
            [NodeType::N4, NodeType::LEAF, NodeType::N4, NodeType::LEAF, NodeType::LEAF, NodeType::LEAF]
        );
        assert_eq!(headers.map(Header::len), [2, 2, 1, 5, 5, 3]);
        // The root: "ab" ends at it, then "c" and "d".
        assert_eq!(words[2..6], [64, 0x6463, 96, 224]);
        assert_eq!(words[96 / 8 + 1..96 / 8 + 6], [0x64, 0, 0x6665, 160, 192]);
        assert_eq!(words[160 / 8 + 1..160 / 8 + 4], [u64::from_le_bytes(*b"abcde\0\0\0"), 2, 0]);
    }

    #[test]
    fn values_are_cut_to_their_width() {
        let art = Art::new([("k", u64::MAX)]);
        assert_eq!(map::<u32>(&art).unwrap()[2], u64::from(u32::MAX));
        assert_eq!(map::<u64>(&art).unwrap()[2], u64::MAX);
        assert_eq!(map::<u64>(&Art::default()).unwrap(), []);
    }
}
