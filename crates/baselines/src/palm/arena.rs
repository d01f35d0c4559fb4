//! Nodes and the memory that they lie in.
//!
//! A node is an array of pairs in the order of their keys. A leaf's pairs are keys and values. An inner node's are
//! separators and children: child `i` has the keys from separator `i` on and below separator `i + 1`. Separator 0 has no
//! meaning, since a descent compares with the others only. So one routine edits both kinds of nodes.
//!
//! ```text
//! | length, 8 bytes | key 0 … key order-1 | slot 0 … slot order-1 | unused, to the end of the cache line |
//! ```

use bytemuck::Pod;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;
use lanetree_layout::Word;
use lanetree_runtime::{HostArray, Line, Pages, prefetch};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of a node's length, which keeps the keys aligned.
const HEADER: usize = 8;

/// Nodes that a thread takes at once, so that it seldom locks the list of unused ones.
const BLOCK: u32 = 32;

/// Log2 of the nodes of the first slab. A block lies in one slab.
const FIRST: u32 = 6;

/// Slabs, each twice as large as the one before, up to 2³² nodes together.
const SLABS: usize = (32 - FIRST) as usize;

/// Lines of a node that [`Arena::prefetch`] asks for; past them, the processor notices the sequence by itself.
const PREFETCHED: usize = 8;

/// Nodes with keys `W` and slots `P`, addressed by their numbers. It grows without moving nodes, so threads may add nodes
/// while others use theirs.
pub(super) struct Arena<W, P> {
    /// The most pairs of a node.
    order: usize,
    /// Lines of a node.
    stride: usize,
    /// The first slot, in bytes from the node's start.
    slots: usize,
    slabs: [OnceLock<Slab>; SLABS],
    unused: Mutex<Unused>,
    types: PhantomData<(W, P)>,
}

/// Nodes in one piece of memory. The pointer is what nodes are reached by: a reference to all of the memory would overlap
/// the nodes that other threads write.
struct Slab {
    start: NonNull<Line>,
    _memory: HostArray<Line>,
}

// SAFETY: the pointer is to the slab's own memory, and every access to it is a node's, for which `Arena::node_mut` states
// the rule.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

/// Nodes that no tree refers to.
#[derive(Default)]
struct Unused {
    /// Nodes that were given back.
    returned: Vec<u32>,
    /// All nodes from this number on were never used.
    fresh: u32,
}

/// A node to be read.
pub(super) struct Node<'a, W, P> {
    /// The keys, as many as the node has.
    pub(super) keys: &'a [W],
    /// One slot for each key.
    pub(super) slots: &'a [P],
}

/// A node to be written.
pub(super) struct NodeMut<'a, W, P> {
    /// Pairs that the node has.
    pub(super) len: &'a mut u32,
    /// Room for the keys of a full node.
    pub(super) keys: &'a mut [W],
    /// Room for the slots of a full node.
    pub(super) slots: &'a mut [P],
}

impl<W: Word, P: Pod> Arena<W, P> {
    pub(super) fn new(order: usize) -> Self {
        let slots = (HEADER + order * W::BYTES).next_multiple_of(size_of::<P>());
        let stride = (slots + order * size_of::<P>()).div_ceil(Line::BYTES);
        let slabs = [const { OnceLock::new() }; SLABS];
        Self { order, stride, slots, slabs, unused: Mutex::default(), types: PhantomData }
    }

    /// The most pairs of a node.
    pub(super) fn order(&self) -> usize {
        self.order
    }

    /// Nodes that were ever used.
    pub(super) fn count(&self) -> usize {
        self.unused().fresh as usize
    }

    /// Nodes of these that no tree refers to now.
    #[cfg(test)]
    pub(super) fn count_unused(&self) -> usize {
        self.unused().returned.len()
    }

    /// Bytes of all nodes that were ever used.
    pub(super) fn bytes(&self) -> usize {
        self.count() * self.stride * Line::BYTES
    }

    /// A node's slab, and its first line in there.
    #[inline(always)]
    fn place(&self, node: u32) -> (usize, usize) {
        let number = u64::from(node) + (1 << FIRST);
        let slab = number.ilog2();
        ((slab - FIRST) as usize, (number - (1 << slab)) as usize * self.stride)
    }

    #[inline(always)]
    fn start(&self, node: u32) -> *mut u8 {
        let (slab, line) = self.place(node);
        let slab = self.slabs[slab].get().expect("a node's slab exists since the node was taken");
        slab.start.as_ptr().wrapping_add(line).cast()
    }

    /// Asks the caches for a node.
    #[inline(always)]
    pub(super) fn prefetch(&self, node: u32) {
        let start = self.start(node).cast::<Line>();
        for line in 0..self.stride.min(PREFETCHED) {
            prefetch(start.wrapping_add(line));
        }
    }

    #[inline(always)]
    pub(super) fn node(&self, node: u32) -> Node<'_, W, P> {
        let start = self.start(node);
        // SAFETY: the slab has `stride` lines at `start`, zeroed at first: a length, `order` keys and `order` slots, each
        // aligned, of types that take any bytes. Whoever writes the node keeps the rule of `node_mut`: nobody reads it
        // meanwhile. The length is at most `order`; `min` makes that hold whatever was written.
        unsafe {
            let len = (*start.cast::<u32>() as usize).min(self.order);
            Node {
                keys: slice::from_raw_parts(start.add(HEADER).cast(), len),
                slots: slice::from_raw_parts(start.add(self.slots).cast(), len),
            }
        }
    }

    /// # Safety
    /// Until the reference ends, nobody else has a reference to this node.
    #[inline(always)]
    pub(super) unsafe fn node_mut(&self, node: u32) -> NodeMut<'_, W, P> {
        let start = self.start(node);
        // SAFETY: memory and types as in `node`. The three parts are disjoint, and by this function's contract the node
        // is the caller's alone.
        unsafe {
            NodeMut {
                len: &mut *start.cast(),
                keys: slice::from_raw_parts_mut(start.add(HEADER).cast(), self.order),
                slots: slice::from_raw_parts_mut(start.add(self.slots).cast(), self.order),
            }
        }
    }

    fn unused(&self) -> MutexGuard<'_, Unused> {
        // Whoever panicked did so before or after an update of the list, never within.
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that this many unused nodes have memory that the system has supplied and cleared.
    pub(super) fn reserve(&self, nodes: usize) {
        let mut taken = Vec::new();
        while taken.len() < nodes {
            self.take_block(&mut taken);
        }
        for &number in &taken {
            // SAFETY: the node was just taken, so nobody else knows it.
            let node = unsafe { self.node_mut(number) };
            *node.len = 0;
            node.keys.fill(W::MIN);
            node.slots.fill(P::zeroed());
        }
        // In this order, the first ones taken are the first to be taken again.
        self.unused().returned.extend(taken.chunks(BLOCK as usize).rev().flatten());
    }

    /// Takes [`BLOCK`] nodes, the one to be used first last: those that were given back before fresh ones.
    ///
    /// # Panics
    /// Without memory for them, or past 2³² nodes.
    fn take_block(&self, nodes: &mut Vec<u32>) {
        let mut unused = self.unused();
        if !unused.returned.is_empty() {
            let kept = unused.returned.len().saturating_sub(BLOCK as usize);
            nodes.extend(unused.returned.drain(kept..));
            return;
        }
        let first = unused.fresh;
        unused.fresh = first.checked_add(BLOCK).expect("a tree has fewer than 2^32 nodes");
        let (slab, _) = self.place(first);
        self.slabs[slab].get_or_init(|| Slab::new(self.stride << (slab as u32 + FIRST)));
        nodes.extend((first..unused.fresh).rev());
    }
}

impl Slab {
    fn new(lines: usize) -> Self {
        let mut memory: HostArray<Line> = HostArray::zeroed(lines, Pages::Transparent).expect("memory for a baseline");
        let start = NonNull::new(memory.as_mut_ptr()).expect("a slab has lines");
        Self { start, _memory: memory }
    }
}

/// A thread's own unused nodes, which go back to the arena in the end.
pub(super) struct Pocket<'a, W: Word, P: Pod> {
    arena: &'a Arena<W, P>,
    nodes: Vec<u32>,
}

impl<'a, W: Word, P: Pod> Pocket<'a, W, P> {
    pub(super) fn new(arena: &'a Arena<W, P>) -> Self {
        Self { arena, nodes: Vec::new() }
    }

    /// A node that nobody else has.
    pub(super) fn take(&mut self) -> u32 {
        if self.nodes.is_empty() {
            self.arena.take_block(&mut self.nodes);
        }
        self.nodes.pop().expect("a block has nodes")
    }

    /// Takes back a node that nobody refers to any more.
    pub(super) fn put(&mut self, node: u32) {
        self.nodes.push(node);
    }
}

impl<W: Word, P: Pod> Drop for Pocket<'_, W, P> {
    fn drop(&mut self) {
        self.arena.unused().returned.append(&mut self.nodes);
    }
}
