//! Where things lie in memory.
//!
//! The tree is an array of nodes, all of one size, in *segments* of a fixed number of nodes; a list has the address of each
//! segment (the paper's figure 3). Node `n` is number `n % 2^shift` of segment `n / 2^shift`. So there is room for more nodes
//! when there is another segment, and no node moves. Segments that were allocated together lie behind each other, so the nodes
//! of a build are found without the list.
//!
//! A node of order `m`, an array of structures as in the paper (figure 2):
//!
//! ```text
//! +0           keys[m]      ordered words, ascending
//! +ptrs        ptrs[m]      of a leaf: values; of an inner node: children, by number (32 bits)
//! +head        count | parent | kind | mark | next
//! +stride
//! ```
//!
//! `count` is the paper's kNum, `kind` its type; `next` is its `ptrs[m]`, the leaf with the next keys. It has no `mark`, which
//! merges use on the way.
//!
//! In addition to the nodes, a tree has the *leaves in the order of their keys*: the number of each, the rank of its
//! first pair, and by node number, the position in that order. Ranks, ranges and predecessors need them; the paper has
//! none of these.
//!
//! Keys of unused slots are the largest word. An inner node's key is not below any key under its child, and below all under
//! the next child: when the node was written, the largest key there. So it is for all children but the last one, whose key may
//! be too small by now: a query beyond all keys of a node goes to its last child, whose number unused slots have, too. So a new
//! key beyond all others changes no separator, nor does a child that vanishes from the end of its parent. The largest word is a
//! key like any other: an unused slot is told from it by the count.
//!
//! A leaf may be without pairs, until the next batch merges it with others. A tree without pairs is a leaf without pairs.

use lanetree_simt::{Global, GlobalMut, Hint, Simt, Word, kernel_args};

/// The orders that a tree may have.
pub const ORDERS: core::ops::RangeInclusive<u32> = 8..=512;

/// No node.
pub const NONE: u32 = u32::MAX;

/// Most segments of a tree.
pub const MOST_SEGMENTS: usize = 64;

/// What a node is.
pub const LEAF: u32 = 0;
/// What a node is.
pub const INNER: u32 = 1;

/// Bytes of what describes a node.
const HEAD: u32 = 32;

/// Nodes begin at a multiple of this: a sector of a GPU's memory.
const ALIGNMENT: u32 = 32;

kernel_args! {
    /// Where the parts of a node lie, in bytes.
    pub struct Node {
        /// Most keys.
        pub order: u32,
        /// Values, or children.
        pub ptrs: u32,
        /// What describes it.
        pub head: u32,
        /// From one node to the next.
        pub stride: u32,
    }
}

impl Node {
    /// The node of an order.
    pub const fn of<K: Word, V: Word>(order: u32) -> Self {
        let ptrs = order * K::BYTES as u32;
        let head = (ptrs + order * V::BYTES as u32).next_multiple_of(8);
        Self { order, ptrs, head, stride: (head + HEAD).next_multiple_of(ALIGNMENT) }
    }
}

/// The words of a head, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Head {
    /// Keys in use.
    Count = 0,
    /// The parent's number; [`NONE`] for the root.
    Parent = 1,
    /// [`LEAF`] or [`INNER`].
    Kind = 2,
    /// For merges.
    Mark = 3,
    /// The leaf with the next keys, if there is one.
    Next = 4,
}

kernel_args! {
    /// The nodes of a tree that kernels read.
    pub struct Nodes {
        /// The address of each segment.
        pub list: Global<u64>,
        /// What was allocated for them, null after the last: kernels take the addresses of segments from the list, and whoever
        /// launches them takes from here what they use.
        pub segments: [Global<u8>; MOST_SEGMENTS],
        /// Nodes of a segment, as a power of two.
        pub shift: u32,
        /// Nodes from the first one on that lie behind each other where the first segment begins: as many as were allocated
        /// together.
        pub together: u32,
        /// What a node is like.
        pub node: Node,
    }
}

kernel_args! {
    /// The nodes of a tree that kernels read and write.
    pub struct NodesMut {
        /// The address of each segment.
        pub list: Global<u64>,
        /// As in [`Nodes`].
        pub segments: [GlobalMut<u8>; MOST_SEGMENTS],
        /// Nodes of a segment, as a power of two.
        pub shift: u32,
        /// Nodes from the first one on that lie behind each other where the first segment begins: as many as were allocated
        /// together.
        pub together: u32,
        /// What a node is like.
        pub node: Node,
    }
}

impl Nodes {
    /// Per thread. Where a node lies.
    ///
    /// # Safety
    /// It is one of the tree's.
    #[inline(always)]
    pub unsafe fn at<S: Simt>(&self, simt: S, number: u32) -> NodeRef {
        let (mut segment, mut within) = (self.segments[0], number);
        if number >= self.together {
            // SAFETY: the caller's.
            let address = unsafe { simt.load(self.list, u64::from(number >> self.shift), Hint::ReadOnly) };
            segment = Global::new(core::ptr::with_exposed_provenance(address as usize));
            within = number & ((1 << self.shift) - 1);
        }
        NodeRef { start: segment.byte_add(u64::from(within) * u64::from(self.node.stride)), node: self.node }
    }
}

impl NodesMut {
    /// Per thread. Where a node lies, to be read while others are written.
    ///
    /// # Safety
    /// As [`Nodes::at`].
    #[inline(always)]
    pub unsafe fn at<S: Simt>(&self, simt: S, number: u32) -> NodeMut {
        let (mut segment, mut within) = (self.segments[0], number);
        if number >= self.together {
            // SAFETY: the caller's.
            let address = unsafe { simt.load(self.list, u64::from(number >> self.shift), Hint::ReadOnly) };
            segment = GlobalMut::new(core::ptr::with_exposed_provenance_mut(address as usize));
            within = number & ((1 << self.shift) - 1);
        }
        NodeMut { start: segment.byte_add(u64::from(within) * u64::from(self.node.stride)), node: self.node }
    }
}

/// A node that nobody writes.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef {
    start: Global<u8>,
    node: Node,
}

impl NodeRef {
    /// The keys.
    #[inline(always)]
    pub fn keys<K: Word>(self) -> Global<K> {
        self.start.cast()
    }

    /// A leaf's values.
    #[inline(always)]
    pub fn values<V: Word>(self) -> Global<V> {
        self.start.byte_add(u64::from(self.node.ptrs)).cast()
    }

    /// An inner node's children.
    #[inline(always)]
    pub fn children(self) -> Global<u32> {
        self.values()
    }

    /// Per thread. A word of the head.
    ///
    /// # Safety
    /// The node is one of a tree's that nobody writes.
    #[inline(always)]
    pub unsafe fn head<S: Simt>(self, simt: S, word: Head) -> u32 {
        // SAFETY: the caller's.
        unsafe { simt.load(self.start.byte_add(u64::from(self.node.head)).cast(), word as u64, Hint::ReadOnly) }
    }
}

/// A node of a tree that is being changed.
#[derive(Clone, Copy, Debug)]
pub struct NodeMut {
    start: GlobalMut<u8>,
    node: Node,
}

impl NodeMut {
    /// The keys.
    #[inline(always)]
    pub fn keys<K: Word>(self) -> GlobalMut<K> {
        self.start.cast()
    }

    /// A leaf's values, or an inner node's children, as words.
    #[inline(always)]
    pub fn ptrs<P: Word>(self) -> GlobalMut<P> {
        self.start.byte_add(u64::from(self.node.ptrs)).cast()
    }

    /// The head.
    #[inline(always)]
    fn head(self) -> GlobalMut<u32> {
        self.start.byte_add(u64::from(self.node.head)).cast()
    }

    /// Per thread. A word of the head.
    ///
    /// # Safety
    /// The node is one of the tree's, and no other thread writes the word.
    #[inline(always)]
    pub unsafe fn get<S: Simt>(self, simt: S, word: Head) -> u32 {
        // SAFETY: the caller's.
        unsafe { simt.load(self.head().as_const(), word as u64, Hint::Default) }
    }

    /// Per thread. Writes a word of the head.
    ///
    /// # Safety
    /// The node is one of the tree's, and no other thread accesses the word.
    #[inline(always)]
    pub unsafe fn set<S: Simt>(self, simt: S, word: Head, value: u32) {
        // SAFETY: the caller's.
        unsafe { simt.store(self.head(), word as u64, value, Hint::Default) };
    }

    /// Per thread. Lane `lane` of at least 8 writes its word of a new head, the first ones in the order of [`Head`].
    ///
    /// # Safety
    /// As [`NodeMut::set`], for all words.
    #[inline(always)]
    pub unsafe fn set_all<S: Simt>(self, simt: S, lane: u32, words: [u32; 5]) {
        let mut word = 0;
        for (place, value) in words.into_iter().enumerate() {
            if lane == place as u32 {
                word = value;
            }
        }
        if lane < HEAD / 4 {
            // SAFETY: the caller's; `lane` is a word of the head.
            unsafe { simt.store(self.head(), u64::from(lane), word, Hint::Default) };
        }
    }
}
