//! Ranges of GRT, one thread each: a descent to the first leaf of the range, and then a walk along the buffer, in which
//! leaves lie in the order of their keys, between the nodes above them.
//!
//! GRT's own paper is on ranges, too (Alam et al., HPCC 2016), but the CuART paper, after which this GRT is made, does
//! not say how it does them. The walk is what the layout offers: no node is entered twice, and everything that is read
//! lies side by side.

use super::child;
use crate::layout::grt::{
    Header, KEYS_OFFSET, LEAF_KEY_OFFSET, NodeType, PREFIX, PREFIX_OFFSET, leaf_bytes, leaf_value_offset,
};
use core::marker::PhantomData;
use lanetree_simt::{
    Global, GlobalMut, Hint, Kernel, KeyRef, KeysRef, LaunchBounds, Simt, Word, instance, kernel_args,
};

const BOUNDS: LaunchBounds = LaunchBounds { threads: super::THREADS, blocks: 4 };

kernel_args! {
    /// Arguments of [`Range`].
    pub struct RangeArgs<V> {
        /// The tree; null for an empty one.
        pub tree: Global<u8>,
        /// Its bytes; 0 for an empty one.
        pub tree_bytes: u64,
        /// The first keys of the ranges, inclusive: `[count]`.
        pub starts: KeysRef,
        /// The last keys, inclusive: `[count]`.
        pub ends: KeysRef,
        /// Ranges.
        pub count: u64,
        /// Most pairs of a range.
        pub limit: u64,
        /// Out: `[count * limit]`, the values of range `i` from `i * limit` on; others are not written.
        pub values: GlobalMut<V>,
        /// Out: `[count]`, the pairs of each range.
        pub lens: GlobalMut<u64>,
    }
}

/// Finds ranges and copies their values, one thread per range; any block.
#[derive(Debug)]
pub struct Range<V>(PhantomData<V>);

impl<V: Word> Kernel for Range<V> {
    type Args = RangeArgs<V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(BOUNDS);

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a range with room for its values; the tree is valid, and nobody writes to it meanwhile.
        unsafe {
            let (start, last) = (args.starts.at(simt, index), args.ends.at(simt, index));
            let mut at = if args.tree_bytes == 0 { 0 } else { first_not_below(simt, args, &start) };
            let mut len = 0;
            while at < args.tree_bytes && len < args.limit {
                let item = args.tree.byte_add(at);
                let header = header(simt, item);
                if header.kind() != NodeType::LEAF {
                    at += header.kind().node_bytes();
                    continue;
                }
                if is_below(simt, &last, item, header) {
                    break;
                }
                let value = item.byte_add(leaf_value_offset(header.len())).cast::<u64>();
                let value = V::truncate(simt.load(value, 0, Hint::ReadOnly));
                simt.store(args.values, index * args.limit + len, value, Hint::Streaming);
                len += 1;
                at += leaf_bytes(header.len());
            }
            simt.store(args.lens, index, len, Hint::Streaming);
        }
    }
}

/// Per thread. The header of a node or leaf.
///
/// # Safety
/// There is one.
#[inline(always)]
unsafe fn header<S: Simt>(simt: S, item: Global<u8>) -> Header {
    // SAFETY: the caller's promise.
    Header::from_bits(unsafe { simt.load(item.cast::<u64>(), 0, Hint::ReadOnly) })
}

/// Per thread. Where the first leaf that is not below a key lies, or a node just before it; the end of the tree if
/// there is no such leaf.
///
/// # Safety
/// The tree is valid and not empty, and the key one of the batch.
#[inline(always)]
unsafe fn first_not_below<S: Simt, V>(simt: S, args: &RangeArgs<V>, key: &KeyRef) -> u64 {
    let (mut at, mut depth) = (0, 0);
    // SAFETY: the caller's promise: links lead to nodes and leaves.
    unsafe {
        loop {
            let item = args.tree.byte_add(at);
            let head = header(simt, item);
            if head.kind() == NodeType::LEAF {
                return if is_above(simt, key, item, head) { at + leaf_bytes(head.len()) } else { at };
            }
            let (equal, prefix_is_below) = compare_prefix(simt, item, head, key, depth);
            let end = depth + head.len();
            if !equal {
                return if prefix_is_below { behind(simt, args, key, at) } else { at };
            }
            if end >= key.len() {
                return at;
            }
            let byte = key.byte(simt, end);
            let link = child(simt, item, head, byte);
            if link == 0 {
                let next = next_child(simt, item, head, byte);
                return if next == 0 { behind(simt, args, key, at) } else { next };
            }
            (at, depth) = (link, end + 1);
        }
    }
}

/// Per thread. Where what follows all below a node lies, which the way of a key leads to: the end of the tree if nothing
/// does. Descends a second time; only keys that are not in the tree need it.
///
/// # Safety
/// As for [`first_not_below`]; the key leads to the node.
#[inline(always)]
unsafe fn behind<S: Simt, V>(simt: S, args: &RangeArgs<V>, key: &KeyRef, node: u64) -> u64 {
    let (mut at, mut depth, mut found) = (0, 0, args.tree_bytes);
    while at != node {
        let item = args.tree.byte_add(at);
        // SAFETY: the caller's promise: each node has a child for the key's byte.
        unsafe {
            let head = header(simt, item);
            let end = depth + head.len();
            let byte = key.byte(simt, end);
            let next = next_child(simt, item, head, byte);
            if next != 0 {
                found = next;
            }
            (at, depth) = (child(simt, item, head, byte), end + 1);
        }
    }
    found
}

/// Per thread. The link to a node's child for the next byte above `byte` for which it has one, or 0.
///
/// # Safety
/// A node of the tree, and its header.
#[inline(always)]
unsafe fn next_child<S: Simt>(simt: S, node: Global<u8>, head: Header, byte: u32) -> u64 {
    let kind = head.kind();
    let links = node.byte_add(kind.links_offset()).cast::<u64>();
    // SAFETY: the keys, slots and links lie in the node.
    unsafe {
        if kind == NodeType::N4 || kind == NodeType::N16 {
            let keys = node.byte_add(KEYS_OFFSET).cast::<u32>();
            let mut slot = 0;
            while slot < head.count() {
                let key = simt.load(keys, u64::from(slot / 4), Hint::ReadOnly) >> (slot % 4 * 8) & 0xff;
                if key > byte {
                    return simt.load(links, u64::from(slot), Hint::ReadOnly);
                }
                slot += 1;
            }
            return 0;
        }
        let mut next = byte + 1;
        while next < 256 {
            let link = child(simt, node, head, next);
            if link != 0 {
                return link;
            }
            next += 1;
        }
        0
    }
}

/// Per thread. Whether a key continues with a node's prefix from `depth` on, as far as both go; and if not, whether the
/// prefix is below it. A key that ends in the prefix continues with it.
///
/// # Safety
/// A node of the tree and its header, and the key is one of the batch.
#[inline(always)]
unsafe fn compare_prefix<S: Simt>(simt: S, node: Global<u8>, head: Header, key: &KeyRef, depth: u32) -> (bool, bool) {
    let common = head.len().min(key.len() - depth);
    let mut at = 0;
    // SAFETY: the caller's promise; some leaf follows every node, and has the whole prefix.
    unsafe {
        let first = simt.load(node.byte_add(PREFIX_OFFSET).cast::<u64>(), 0, Hint::ReadOnly);
        while at < common {
            let byte = if at < 8 {
                (first >> (8 * at)) as u32 & 0xff
            } else if at < PREFIX as u32 {
                (head.prefix_rest() >> (8 * (at - 8))) as u32 & 0xff
            } else {
                let (leaf, index) = (first_leaf(simt, node, head), depth + at);
                let word =
                    simt.load(leaf.byte_add(LEAF_KEY_OFFSET).cast::<u32>(), u64::from(index / 4), Hint::ReadOnly);
                word >> (index % 4 * 8) & 0xff
            };
            let expected = key.byte(simt, depth + at);
            if byte != expected {
                return (false, byte < expected);
            }
            at += 1;
        }
    }
    (true, false)
}

/// Per thread. The first leaf below a node: it follows the nodes on the way to it.
///
/// # Safety
/// A node of the tree, and its header.
#[inline(always)]
unsafe fn first_leaf<S: Simt>(simt: S, node: Global<u8>, head: Header) -> Global<u8> {
    let (mut item, mut kind) = (node, head.kind());
    while kind != NodeType::LEAF {
        item = item.byte_add(kind.node_bytes());
        // SAFETY: a node has something below it, which follows it.
        kind = unsafe { header(simt, item) }.kind();
    }
    item
}

/// Per thread. Whether a key is below that of a leaf.
///
/// # Safety
/// A leaf of the tree and its header, and the key is one of the batch.
#[inline(always)]
unsafe fn is_below<S: Simt>(simt: S, key: &KeyRef, leaf: Global<u8>, head: Header) -> bool {
    // SAFETY: the caller's promise.
    let (ours, theirs) = unsafe { first_difference(simt, key, leaf, head) };
    ours < theirs || ours == theirs && key.len() < head.len()
}

/// Per thread. Whether a key is above that of a leaf.
///
/// # Safety
/// As for [`is_below`].
#[inline(always)]
unsafe fn is_above<S: Simt>(simt: S, key: &KeyRef, leaf: Global<u8>, head: Header) -> bool {
    // SAFETY: the caller's promise.
    let (ours, theirs) = unsafe { first_difference(simt, key, leaf, head) };
    ours > theirs || ours == theirs && key.len() > head.len()
}

/// Per thread. The first words of a key and of a leaf's that differ, up to the shorter one's end, as numbers in the
/// order of their bytes; equal if there are none. Zeros fill the last words.
///
/// # Safety
/// As for [`is_below`].
#[inline(always)]
unsafe fn first_difference<S: Simt>(simt: S, key: &KeyRef, leaf: Global<u8>, head: Header) -> (u64, u64) {
    let words = leaf.byte_add(LEAF_KEY_OFFSET).cast::<u64>();
    let end = key.len().min(head.len());
    let mut at = 0;
    while at < end {
        // SAFETY: the words lie in both keys.
        let (ours, theirs) = unsafe { (key.word(simt, at), simt.load(words, u64::from(at / 8), Hint::ReadOnly)) };
        if ours != theirs {
            return (ours.swap_bytes(), theirs.swap_bytes());
        }
        at += 8;
    }
    (0, 0)
}

instance!(grt__range_u32, grt, Range<u32>);
instance!(grt__range_u64, grt, Range<u64>);
