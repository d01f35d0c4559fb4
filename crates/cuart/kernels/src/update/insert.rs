//! Inserts on the device, the paper's future work (section 5.1): leaves and nodes are made where keys are missing,
//! nodes grow from N4 to N256, paths are split, and the root table is kept right, all by one thread per key.
//!
//! A thread descends without locks to the slot where its key belongs, locks the one node that has the slot, and checks
//! again; if the slot has changed, the thread starts again at the root. A full node is copied into a larger one under
//! its own lock and its parent's, and is *obsolete* from then on: a thread that still holds its link and wants to
//! change it starts again. So that descending threads may read what others write, a new child is appended after the
//! others, its link before its byte; [`Tidy`](super::Tidy) sorts the children at the end. A slot's byte never changes
//! while the kernel runs.
//!
//! A thread that does not get a lock tries again from the root instead of waiting, so that lanes of a warp do not block
//! each other.

use super::grow::{append, grow};
use super::insert_args::InsertArgs;
use super::lock::{COUNT_MASK, OBSOLETE, TOUCHED, try_lock, unlock};
use super::slot::{Edge, capacity, entry_index, follow, publish, root_edge};
use super::supply::{DEVICE_LEAVES, PUT_OFF, Supply, UNUSED};
use crate::layout::{Header, Leaf32, Link, LinkType, PREFIX, device_leaf_units};
use core::mem::offset_of;
use lanetree_simt::{GlobalMut, Hint, Kernel, KeyRef, Order, Scope, Simt, Word, instance};

/// Makes leaves for keys that have none, with values of 0; one thread per key; any block.
#[derive(Debug)]
pub struct Insert;

impl Kernel for Insert {
    type Args = InsertArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a key to insert.
        unsafe {
            let pick = if args.picks.is_null() { index } else { simt.load(args.picks, index, Hint::Streaming).widen() };
            let op = Operation { key: args.queries.at(simt, pick), index };
            let mut done = attempt(simt, args, op);
            while done.end == End::Retry {
                simt.spin_hint();
                done = attempt(simt, args, op);
            }
            let supply = &args.supply;
            simt.store(supply.touched, index, done.touched.bits(), Hint::Streaming);
            simt.store(supply.retired, index, done.retired.bits(), Hint::Streaming);
            if done.end == End::Present && supply.assigned != 0 {
                let place = supply.count(simt, UNUSED, 1);
                let leaf = supply.element(simt, assigned_kind(supply), index);
                simt.store(supply.unused, place, leaf, Hint::Default);
            }
        }
    }
}

/// The type of the leaves that are assigned to threads.
#[inline(always)]
fn assigned_kind(supply: &Supply) -> LinkType {
    match supply.assigned {
        n if n == LinkType::Leaf8 as u64 => LinkType::Leaf8,
        n if n == LinkType::Leaf16 as u64 => LinkType::Leaf16,
        _ => LinkType::Leaf32,
    }
}

/// A key to insert, and which of them it is.
#[derive(Clone, Copy)]
struct Operation {
    key: KeyRef,
    index: u64,
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Another thread was in the way.
    Retry,
    /// Nothing was made: the key is present, or was deferred.
    Present,
    /// The key has a leaf now.
    Made,
}

/// What an attempt did.
#[derive(Clone, Copy)]
struct Done {
    end: End,
    /// A node whose children it was the first to put out of order.
    touched: Link,
    /// A node that it has copied into a larger one.
    retired: Link,
}

impl Done {
    #[inline(always)]
    fn with(end: End) -> Self {
        Self { end, touched: Link::NONE, retired: Link::NONE }
    }

    #[inline(always)]
    fn made_if(made: bool) -> Self {
        Self::with(if made { End::Made } else { End::Retry })
    }
}

/// Per thread. Descends from the root and inserts a key.
///
/// # Safety
/// As for [`Insert`].
#[inline(always)]
unsafe fn attempt<S: Simt>(simt: S, args: &InsertArgs, op: Operation) -> Done {
    let (tree, key) = (&args.tree, op.key);
    let mut edge = root_edge(args.root);
    let mut from = 0;
    // SAFETY: links of the tree lead to published nodes and leaves, and keys of leaves do not change.
    unsafe {
        loop {
            let link = follow(simt, edge.slot);
            if link.is_none() {
                return Done::made_if(fill(simt, args, op, edge));
            }
            if !link.kind().is_node() {
                let (position, byte) = tree.part_from_leaf(simt, key, link, from);
                let len = tree.leaf_len(simt, link);
                if position == len && len == key.len() {
                    return Done::with(End::Present);
                }
                let old = Old { from_above: link, link, byte, ends: position == len };
                return Done::made_if(split(simt, args, op, edge, from, position, old));
            }
            let depth = tree.depth_below(simt, link, from);
            match tree.part(simt, key, link, from, depth) {
                Ok(()) => {}
                Err(None) => {
                    args.supply.count(simt, PUT_OFF, 1);
                    return Done::with(End::Present);
                }
                Err(Some((position, byte))) => {
                    let below = Link::new(link.kind(), (depth - position - 1) as usize, link.index());
                    let old = Old { from_above: link, link: below, byte, ends: false };
                    return Done::made_if(split(simt, args, op, edge, from, position, old));
                }
            }
            let slot = if depth == key.len() {
                Some(tree.here_slot(link))
            } else {
                tree.child_slot(simt, link, key.byte(simt, depth))
            };
            let Some(slot) = slot else {
                return add(simt, args, op, edge, link, depth);
            };
            edge = Edge { owner: link, depth, slot };
            from = if depth == key.len() { depth } else { depth + 1 };
        }
    }
}

/// The word with the lock of an edge's owner.
#[inline(always)]
fn lock_of(args: &InsertArgs, owner: Link) -> GlobalMut<u32> {
    if owner.is_none() {
        return args.root.byte_add(8).cast();
    }
    args.tree.address(owner).byte_add(offset_of!(Header, count) as u64).cast()
}

/// Per thread. Sets a key's entry of the root table to a link that is followed from `from`, if the link leads past the
/// table's bytes. Called before the link is published: a thread that follows the link may set the same entry, and must
/// come later.
///
/// # Safety
/// The thread has the lock of the slot's owner, above the table's bytes.
#[inline(always)]
unsafe fn set_entry<S: Simt>(simt: S, args: &InsertArgs, key: KeyRef, edge: Edge, link: Link, depth: u32) {
    let bytes = args.tree.as_ref().table_bytes;
    if bytes == 0 || !edge.is_above(bytes) || key.len() < bytes {
        return;
    }
    let entry = match link.kind().is_node() {
        true if depth < bytes => return,
        true => Link::new(link.kind(), (depth - bytes) as usize, link.index()),
        false => link,
    };
    // SAFETY: there is an entry for every prefix of a key; the thread that may set it holds the lock.
    unsafe {
        let index = entry_index(simt, key, bytes);
        simt.atomic_store(args.tree.table(), index, entry.bits(), Order::Relaxed, Scope::Device);
    }
}

/// Per thread. Links a new leaf at an empty slot.
///
/// # Safety
/// As for [`Insert`]; the edge is where the key belongs.
#[inline(always)]
unsafe fn fill<S: Simt>(simt: S, args: &InsertArgs, op: Operation, edge: Edge) -> bool {
    let key = op.key;
    let lock = lock_of(args, edge.owner);
    // SAFETY: the slot's owner is locked while it is written to.
    unsafe {
        let Some(mut word) = try_lock(simt, lock) else { return false };
        let still = follow(simt, edge.slot).is_none();
        if still {
            let leaf = make_leaf(simt, args, op);
            set_entry(simt, args, key, edge, leaf, 0);
            publish(simt, edge.slot, leaf);
            // A full node's empty slots are those without a child, or whose child was removed.
            if edge.owner.kind() == LinkType::N256 && edge.depth < key.len() && word & COUNT_MASK < 256 {
                word += 1;
            }
        }
        unlock(simt, lock, word);
        still
    }
}

/// The content of a slot above which a new node is inserted.
struct Old {
    /// Its link as it is.
    from_above: Link,
    /// Its link from the new node on.
    link: Link,
    /// The byte of the new node's link to it.
    byte: u32,
    /// Whether it is a leaf whose key ends at the new node.
    ends: bool,
}

/// Per thread. Inserts a node where a key and the slot's content diverge, and links both under it.
///
/// # Safety
/// As for [`Insert`]; the edge's link was `old`'s, followed from `from`, and the key agrees with it up to `depth`.
#[inline(always)]
unsafe fn split<S: Simt>(
    simt: S,
    args: &InsertArgs,
    op: Operation,
    edge: Edge,
    from: u32,
    depth: u32,
    old: Old,
) -> bool {
    let key = op.key;
    let lock = lock_of(args, edge.owner);
    // SAFETY: the slot's owner is locked while it is written to; the new node is this thread's until it is linked.
    unsafe {
        let Some(word) = try_lock(simt, lock) else { return false };
        let still = follow(simt, edge.slot).bits() == old.from_above.bits();
        if still {
            let leaf = make_leaf(simt, args, op);
            let ends = depth == key.len();
            let (own, other) = (if ends { None } else { Some((key.byte(simt, depth), leaf)) }, (old.byte, old.link));
            let here = if ends {
                leaf
            } else if old.ends {
                old.link
            } else {
                Link::NONE
            };
            let (first, second) = match own {
                None => (other, None),
                Some(own) if old.ends => (own, None),
                Some(own) if own.0 < other.0 => (own, Some(other)),
                Some(own) => (other, Some(own)),
            };
            let last = second.map_or(first.0, |child| child.0);
            let index = args.supply.take(simt, LinkType::N4);
            let link = Link::new(LinkType::N4, (depth - from) as usize, index);
            let at = args.tree.address(link);
            let (low, high) = path_before(simt, key, depth);
            let count = 1 + u32::from(second.is_some());
            let keys = first.0 | last << 8 | last << 16 | last << 24;
            let words = at.cast::<u64>();
            simt.store_vector(words, 0, [here.bits(), u64::from_halves(depth, count)], Hint::Default);
            simt.store_vector(words, 2, [low, u64::from_halves(high, keys)], Hint::Default);
            let second = second.map_or(0, |child| child.1.bits());
            simt.store_vector(words, 4, [first.1.bits(), second], Hint::Default);
            simt.store_vector(words, 6, [0, 0], Hint::Default);
            set_entry(simt, args, key, edge, link, depth);
            if depth < args.tree.as_ref().table_bytes {
                // The new leaf lies past the table's bytes and its node does not: the old content keeps its entries.
                set_entry(simt, args, key, edge, leaf, 0);
            }
            publish(simt, edge.slot, link);
        }
        unlock(simt, lock, word);
        still
    }
}

/// Per thread. The last 12 bytes of a key before `depth`, preceded by zeros if there are fewer: the first 8, and the
/// other 4.
///
/// # Safety
/// `depth` is at most the key's length.
#[inline(always)]
unsafe fn path_before<S: Simt>(simt: S, key: KeyRef, depth: u32) -> (u64, u32) {
    let (mut low, mut high) = (0, 0);
    let mut place = PREFIX as u32 - if depth < PREFIX as u32 { depth } else { PREFIX as u32 };
    while place < PREFIX as u32 {
        // SAFETY: a byte of the key.
        let byte = unsafe { key.byte(simt, depth + place - PREFIX as u32) };
        if place < 8 {
            low |= u64::from(byte) << (8 * place);
        } else {
            high |= byte << (8 * (place - 8));
        }
        place += 1;
    }
    (low, high)
}

/// Per thread. Makes a leaf; its value is 0.
///
/// # Safety
/// As for [`Insert`].
#[inline(always)]
unsafe fn make_leaf<S: Simt>(simt: S, args: &InsertArgs, op: Operation) -> Link {
    let (key, len) = (op.key, op.key.len());
    // SAFETY: the leaf is this thread's until it is linked.
    unsafe {
        let Some(kind) = LinkType::of_key(len as usize) else {
            return make_device_leaf(simt, args, key);
        };
        let supply = &args.supply;
        let index = if supply.assigned == 0 { supply.take(simt, kind) } else { supply.element(simt, kind, op.index) };
        let link = Link::new(kind, len as usize, index);
        let at = args.tree.address(link).cast::<u64>();
        if kind == LinkType::Leaf8 {
            simt.store_vector(at, 0, [key.word(simt, 0), 0], Hint::Default);
            return link;
        }
        simt.store_vector(at, 0, [key.word(simt, 0), key.word(simt, 8)], Hint::Default);
        if kind == LinkType::Leaf32 {
            simt.store_vector(at, 2, [key.word(simt, 16), key.word(simt, 24)], Hint::Default);
            simt.store_vector(at, 6, [0, 0], Hint::Default);
        }
        simt.store_vector(at, if kind == LinkType::Leaf32 { LEAF32_VALUE } else { 2 }, [0, 0], Hint::Default);
        link
    }
}

const LEAF32_VALUE: u64 = offset_of!(Leaf32, value) as u64 / 8;

/// Per thread. Makes a dynamically sized leaf; its value is 0.
///
/// # Safety
/// As for [`Insert`].
#[inline(always)]
unsafe fn make_device_leaf<S: Simt>(simt: S, args: &InsertArgs, key: KeyRef) -> Link {
    let units = device_leaf_units(key.len() as usize) as u64;
    // SAFETY: the leaf is this thread's until it is linked.
    unsafe {
        args.supply.count(simt, DEVICE_LEAVES, 1);
        let index = args.supply.units + args.supply.count(simt, LinkType::DeviceLeaf as u64 - 1, units);
        let link = Link::new(LinkType::DeviceLeaf, key.len() as usize, index);
        let at = args.tree.address(link).cast::<u64>();
        simt.store_vector(at, 0, [0, u64::from(key.len())], Hint::Default);
        simt.store(at, 2, 0, Hint::Default);
        let mut word = 3;
        while word < 2 * units {
            simt.store(at, word, key.word(simt, 8 * (word as u32 - 3)), Hint::Default);
            word += 1;
        }
        link
    }
}

/// Per thread. Adds a child for a byte that a node has no slot for; a full node is copied into a larger one.
///
/// # Safety
/// As for [`Insert`]; the edge's link leads to the node, which branches at `depth`, where the key belongs.
#[inline(always)]
unsafe fn add<S: Simt>(simt: S, args: &InsertArgs, op: Operation, edge: Edge, node: Link, depth: u32) -> Done {
    let (tree, key) = (&args.tree, op.key);
    let lock = lock_of(args, node);
    // SAFETY: the node is locked while it is written to, and its parent when its link is.
    unsafe {
        let byte = key.byte(simt, depth);
        let Some(word) = try_lock(simt, lock) else { return Done::with(End::Retry) };
        if tree.child_slot(simt, node, byte).is_some() {
            unlock(simt, lock, word);
            return Done::with(End::Retry);
        }
        let count = word & COUNT_MASK;
        if count < capacity(node.kind()) {
            let leaf = make_leaf(simt, args, op);
            set_entry(simt, args, key, Edge { owner: node, depth, ..edge }, leaf, 0);
            append(simt, args, node, count, byte, leaf);
            // Noted once: the node's children are out of order.
            let first = word & TOUCHED == 0 && capacity(node.kind()) <= 16;
            unlock(simt, lock, (word | if first { TOUCHED } else { 0 }) + 1);
            return Done { touched: if first { node } else { Link::NONE }, ..Done::with(End::Made) };
        }
        let parent = lock_of(args, edge.owner);
        let Some(parent_word) = try_lock(simt, parent) else {
            unlock(simt, lock, word);
            return Done::with(End::Retry);
        };
        let mut done = Done::with(End::Retry);
        let link = follow(simt, edge.slot);
        let still = link.bits() == node.bits();
        if still {
            let leaf = make_leaf(simt, args, op);
            let grown = grow(simt, args, node, depth, byte, leaf);
            set_entry(simt, args, key, edge, grown, depth);
            set_entry(simt, args, key, Edge { owner: node, depth, ..edge }, leaf, 0);
            publish(simt, edge.slot, grown);
            let touched = if grown.kind() == LinkType::N16 { grown } else { Link::NONE };
            done = Done { end: End::Made, touched, retired: node };
        }
        unlock(simt, parent, parent_word);
        unlock(simt, lock, if still { word | OBSOLETE } else { word });
        done
    }
}

instance!(cuart_update__insert, cuart_update, Insert);
