//! A node as the CPU sees it.

use lanetree_kernels_cubpt::layout::{Head, INNER, Node};
use lanetree_layout::Word;

/// A node, in words of 64 bits.
#[derive(Clone, Copy)]
pub(crate) struct NodeView<'a> {
    words: &'a [u64],
    node: Node,
}

impl<'a> NodeView<'a> {
    pub(crate) fn new(words: &'a [u64], node: Node) -> Self {
        Self { words, node }
    }

    fn part<T: Word>(self, from: u32, to: u32) -> &'a [T] {
        bytemuck::cast_slice(&self.words[from as usize / 8..to as usize / 8])
    }

    /// All slots' keys.
    pub(crate) fn keys<B: Word>(self) -> &'a [B] {
        self.part(0, self.node.ptrs)
    }

    /// Values, or children with what is stored with each.
    pub(crate) fn ptrs<P: Word>(self) -> &'a [P] {
        self.part(self.node.ptrs, self.node.head)
    }

    pub(crate) fn head(self, word: Head) -> u32 {
        let head: &[u32] = self.part(self.node.head, self.node.stride);
        head[word as usize]
    }

    pub(crate) fn count(self) -> usize {
        self.head(Head::Count) as usize
    }
}

/// Writes a node's slots and head, without its parent and what orders leaves.
pub(crate) fn write_node<B: Word, P: Word>(words: &mut [u64], node: Node, kind: u32, keys: &[B], ptrs: &[P]) {
    let (own, rest) = words.split_at_mut(node.ptrs as usize / 8);
    let own: &mut [B] = bytemuck::cast_slice_mut(own);
    own[..keys.len()].copy_from_slice(keys);
    own[keys.len()..].fill(B::MAX);
    let (own, head) = rest.split_at_mut((node.head - node.ptrs) as usize / 8);
    let own: &mut [P] = bytemuck::cast_slice_mut(own);
    own[..ptrs.len()].copy_from_slice(ptrs);
    if let (INNER, Some(&last)) = (kind, ptrs.last()) {
        own[ptrs.len()..node.order as usize].fill(last);
    }
    let head: &mut [u32] = bytemuck::cast_slice_mut(head);
    (head[Head::Count as usize], head[Head::Kind as usize]) = (keys.len() as u32, kind);
}

/// Sets a word of a node's head.
pub(crate) fn set_head(words: &mut [u64], node: Node, word: Head, value: u32) {
    let head: &mut [u32] = bytemuck::cast_slice_mut(&mut words[node.head as usize / 8..]);
    head[word as usize] = value;
}
