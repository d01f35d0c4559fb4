//! The path to a key's slot in a tree that other threads change meanwhile: every access is atomic, and a link is
//! followed only with acquire order, so that its target is visible.

use super::TreeMut;
use crate::layout::{Header, Link, LinkType, N4, N16, N48, N256, PREFIX};
use core::mem::offset_of;
use lanetree_simt::{GlobalMut, KeyRef, Order, Scope, Simt, Word, first_equal, lowest_one};

/// Per thread. Reads a word that other threads may write, or have written in the same launch, bypassing L1.
///
/// # Safety
/// The word lies in a buffer.
#[inline(always)]
pub(super) unsafe fn peek<S: Simt, T: Word>(simt: S, at: GlobalMut<u8>, byte: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { simt.atomic_load(at.byte_add(byte as u64).cast::<T>(), 0, Order::Relaxed, Scope::Device) }
}

/// Per thread. Follows a slot: the target of its link is visible afterwards.
///
/// # Safety
/// A slot for a link.
#[inline(always)]
pub(super) unsafe fn follow<S: Simt>(simt: S, slot: GlobalMut<u64>) -> Link {
    // SAFETY: the caller's promise.
    Link::from_bits(unsafe { simt.atomic_load(slot, 0, Order::Acquire, Scope::Device) })
}

/// Per thread. Sets a slot: a thread that follows it sees what this thread has written before.
///
/// # Safety
/// A slot for a link, which no other thread sets meanwhile.
#[inline(always)]
pub(super) unsafe fn publish<S: Simt>(simt: S, slot: GlobalMut<u64>, link: Link) {
    // SAFETY: the caller's promise.
    unsafe { simt.atomic_store(slot, 0, link.bits(), Order::Release, Scope::Device) }
}

/// A slot of the tree, and what it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    /// The node that has the slot; none for the root's.
    pub(super) owner: Link,
    /// Where in a key the owner branches.
    pub(super) depth: u32,
    /// The slot.
    pub(super) slot: GlobalMut<u64>,
}

impl Edge {
    /// Whether a link in the slot is an entry of the root table, if what it leads to lies below the table.
    #[inline(always)]
    pub(super) fn is_above(&self, table_bytes: u32) -> bool {
        self.owner.is_none() || self.depth < table_bytes
    }
}

impl TreeMut {
    /// The slot of the leaf of the key that ends at a node.
    #[inline(always)]
    pub(super) fn here_slot(&self, node: Link) -> GlobalMut<u64> {
        self.address(node).byte_add(offset_of!(Header, here) as u64).cast()
    }

    /// Per thread. The position in a key where a node branches, if its link is followed after the first `from` bytes.
    ///
    /// # Safety
    /// A node of the tree.
    #[inline(always)]
    pub(super) unsafe fn depth_below<S: Simt>(&self, simt: S, node: Link, from: u32) -> u32 {
        if node.span() < Link::LONG {
            return from + node.span();
        }
        // SAFETY: the node's header.
        unsafe { peek(simt, self.address(node), offset_of!(Header, depth)) }
    }

    /// Per thread. The slot of a node's child for a byte, which may be empty; `None` where it has none.
    ///
    /// # Safety
    /// A node of the tree.
    #[inline(always)]
    pub(super) unsafe fn child_slot<S: Simt>(&self, simt: S, node: Link, byte: u32) -> Option<GlobalMut<u64>> {
        let at = self.address(node);
        // SAFETY: the words lie in the node.
        let (links, slot) = unsafe {
            match node.kind() {
                LinkType::N4 => {
                    let keys: u32 = peek(simt, at, offset_of!(Header, keys4));
                    // The upper half repeats the lower half, where a match is found first.
                    (offset_of!(N4, links), first_equal(u64::from_halves(keys, keys), byte))
                }
                LinkType::N16 => {
                    let low = first_equal(peek(simt, at, offset_of!(N16, keys)), byte);
                    let high = first_equal(peek(simt, at, offset_of!(N16, keys) + 8), byte);
                    (offset_of!(N16, links), if low < 8 { low } else { 8 + high })
                }
                LinkType::N48 => {
                    let word: u32 = peek(simt, at, offset_of!(N48, slots) + (byte & !3) as usize);
                    (offset_of!(N48, links), (word >> (8 * (byte & 3)) & 0xff).wrapping_sub(1))
                }
                _ => (offset_of!(N256, links), byte),
            }
        };
        (slot < capacity(node.kind())).then(|| at.byte_add(links as u64 + 8 * u64::from(slot)).cast())
    }

    /// Per thread. Where a key diverges from the path between `from` and a node that branches at `depth`; they agree up
    /// to `from`. Returns the position, at most the key's length, and the path's byte there; `Ok` if they do not
    /// diverge; `Err(None)` if the path is longer than the node holds and no leaf gives it.
    ///
    /// # Safety
    /// A node of the tree.
    #[inline(always)]
    pub(super) unsafe fn part<S: Simt>(
        &self,
        simt: S,
        key: KeyRef,
        node: Link,
        from: u32,
        depth: u32,
    ) -> Result<(), Option<(u32, u32)>> {
        if from == depth {
            return Ok(());
        }
        let at = self.address(node);
        // SAFETY: the words lie in the node's header; the key has the bytes up to its length.
        unsafe {
            if depth - from > PREFIX as u32 {
                let leaf = self.some_leaf(simt, node).ok_or(None)?;
                let (position, byte) = self.part_from_leaf(simt, key, leaf, from);
                return if position < depth { Err(Some((position, byte))) } else { Ok(()) };
            }
            let low: u64 = peek(simt, at, offset_of!(Header, prefix));
            let high: u32 = peek(simt, at, offset_of!(Header, prefix) + 8);
            let mut position = from;
            while position < depth {
                let place = PREFIX as u32 - (depth - position);
                let byte = if place < 8 { (low >> (8 * place)) as u32 } else { high >> (8 * (place - 8)) } & 0xff;
                if position == key.len() || key.byte(simt, position) != byte {
                    return Err(Some((position, byte)));
                }
                position += 1;
            }
        }
        Ok(())
    }

    /// Per thread. Where a key and the key of a leaf on the device diverge; they agree up to `from`. Returns the
    /// position, at most the end of the shorter one, and the leaf's byte there, or 0 at its end.
    ///
    /// # Safety
    /// A leaf of the tree.
    #[inline(always)]
    pub(super) unsafe fn part_from_leaf<S: Simt>(&self, simt: S, key: KeyRef, leaf: Link, from: u32) -> (u32, u32) {
        let at = self.address(leaf);
        // SAFETY: the words lie in the leaf.
        unsafe {
            let len = self.leaf_len(simt, leaf);
            let first = if leaf.kind() == LinkType::DeviceLeaf { 24 } else { 0 };
            let end = if len < key.len() { len } else { key.len() };
            // In words of 8 bytes, like removals: atomics of different widths are not atomic to each other.
            let read = |word: u32| peek::<S, u64>(simt, at, first + 8 * word as usize);
            let mut word = from / 8;
            let mut position = end;
            while 8 * word < end {
                let differences = read(word) ^ key.word(simt, 8 * word);
                if differences != 0 {
                    position = 8 * word + lowest_one(differences) / 8;
                    break;
                }
                word += 1;
            }
            position = if position < end { position } else { end };
            if position == len {
                return (position, 0);
            }
            (position, (read(position / 8) >> (8 * (position % 8))) as u32 & 0xff)
        }
    }

    /// Per thread. The length of a device leaf's key.
    ///
    /// # Safety
    /// A leaf of the tree.
    #[inline(always)]
    pub(super) unsafe fn leaf_len<S: Simt>(&self, simt: S, leaf: Link) -> u32 {
        if leaf.kind() != LinkType::DeviceLeaf {
            return leaf.span();
        }
        // SAFETY: the second word of a dynamically sized leaf.
        unsafe { peek::<S, u64>(simt, self.address(leaf), 8) as u32 }
    }

    /// Per thread. Some leaf under a node, if the first link of each node on the way leads to one.
    ///
    /// # Safety
    /// A node of the tree.
    #[inline(always)]
    unsafe fn some_leaf<S: Simt>(&self, simt: S, node: Link) -> Option<Link> {
        let mut link = node;
        // SAFETY: slots of nodes of the tree.
        unsafe {
            while link.kind().is_node() {
                let here = follow(simt, self.here_slot(link));
                let links = match link.kind() {
                    LinkType::N4 => offset_of!(N4, links),
                    LinkType::N16 => offset_of!(N16, links),
                    LinkType::N48 => offset_of!(N48, links),
                    _ => offset_of!(N256, links),
                };
                let slots = self.address(link).byte_add(links as u64);
                let count = capacity(link.kind());
                let (mut next, mut slot) = (here, 0);
                while next.is_none() && slot < count {
                    next = follow(simt, slots.byte_add(8 * u64::from(slot)).cast());
                    slot += 1;
                }
                link = next;
            }
        }
        (!link.is_none()).then_some(link)
    }
}

/// The most children of a node type.
#[inline(always)]
pub(super) const fn capacity(kind: LinkType) -> u32 {
    match kind {
        LinkType::N4 => 4,
        LinkType::N16 => 16,
        LinkType::N48 => 48,
        _ => 256,
    }
}

/// The slot of the root, for the way down.
#[inline(always)]
pub(super) fn root_edge(root: GlobalMut<u64>) -> Edge {
    Edge { owner: Link::NONE, depth: 0, slot: root }
}

/// Per thread. A key's index in the root table; for keys that are long enough.
///
/// # Safety
/// The key is one of the batch.
#[inline(always)]
pub(super) unsafe fn entry_index<S: Simt>(simt: S, key: KeyRef, table_bytes: u32) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { key.word(simt, 0) }.swap_bytes() >> (64 - 8 * table_bytes)
}
