//! Adding a child to a node, or to a larger copy of it if it is full.

use super::insert_args::InsertArgs;
use super::lock::TOUCHED;
use super::slot::{peek, publish};
use crate::layout::{Header, Link, LinkType, N4, N16, N48, N256};
use core::mem::offset_of;
use lanetree_simt::{GlobalMut, Hint, Order, Scope, Simt, Word};

/// Per thread. Appends a child to a node: first its link, then its byte.
///
/// # Safety
/// The thread has the node's lock, and the node has room.
#[inline(always)]
pub(super) unsafe fn append<S: Simt>(simt: S, args: &InsertArgs, node: Link, count: u32, byte: u32, child: Link) {
    let at = args.tree.address(node);
    let (links, keys) = match node.kind() {
        LinkType::N4 => (offset_of!(N4, links), offset_of!(Header, keys4)),
        LinkType::N16 => (offset_of!(N16, links), offset_of!(N16, keys)),
        _ => (offset_of!(N48, links), offset_of!(N48, slots)),
    };
    // The position and the value of the new byte among the keys; in an N48, the slot's number at the child's byte.
    let (place, key) = if node.kind() == LinkType::N48 { (byte, count + 1) } else { (count, byte) };
    // SAFETY: the words lie in the node.
    unsafe {
        publish(simt, at.byte_add(links as u64 + 8 * u64::from(count)).cast(), child);
        // In words as wide as those in which other threads read them.
        let keys = at.byte_add(keys as u64);
        if node.kind() == LinkType::N16 {
            set_byte::<S, u64>(simt, keys.cast(), place, key);
        } else {
            set_byte::<S, u32>(simt, keys.cast(), place, key);
        }
    }
}

/// Per thread. Sets a byte of an array of words; a thread that reads it sees what this thread has written before.
///
/// # Safety
/// The array has the byte, and no other thread writes to its word.
#[inline(always)]
unsafe fn set_byte<S: Simt, T: Word>(simt: S, words: GlobalMut<T>, place: u32, byte: u32) {
    let (index, shift) = (u64::from(place / T::BYTES as u32), 8 * (place % T::BYTES as u32));
    // SAFETY: the caller's promise.
    unsafe {
        let word = simt.atomic_load(words, index, Order::Relaxed, Scope::Device).widen();
        let word = word & !(0xff << shift) | u64::from(byte) << shift;
        simt.atomic_store(words, index, T::truncate(word), Order::Release, Scope::Device);
    }
}

/// Per thread. Copies a full node and one more child into a node of the next type, without slots whose children were
/// removed.
///
/// # Safety
/// The thread has the node's lock.
#[inline(always)]
pub(super) unsafe fn grow<S: Simt>(simt: S, args: &InsertArgs, node: Link, depth: u32, byte: u32, child: Link) -> Link {
    let from = args.tree.address(node);
    let kind = match node.kind() {
        LinkType::N4 => LinkType::N16,
        LinkType::N16 => LinkType::N48,
        _ => LinkType::N256,
    };
    // SAFETY: the words lie in the nodes, and the new one is this thread's until it is linked.
    unsafe {
        let link = Link::new(kind, node.span() as usize, args.supply.take(simt, kind));
        let to = args.tree.address(link);
        // If the link's span is LONG, the node's header has the depth.
        let here: u64 = peek(simt, from, offset_of!(Header, here));
        let low: u64 = peek(simt, from, offset_of!(Header, prefix));
        let high: u32 = peek(simt, from, offset_of!(Header, prefix) + 8);
        let words = to.cast::<u64>();
        let stride = kind.stride() / 8;
        let mut word = 4;
        while word < stride {
            simt.store_vector(words, word, [0, 0], Hint::Default);
            word += 2;
        }
        let count = match kind {
            LinkType::N16 => grow_n4(simt, from, to, byte, child),
            LinkType::N48 => grow_n16(simt, from, to, byte, child),
            _ => grow_n48(simt, from, to, byte, child),
        };
        // The new child follows those that were in order.
        let word = count | if kind == LinkType::N16 { TOUCHED } else { 0 };
        simt.store_vector(words, 0, [here, u64::from_halves(depth, word)], Hint::Default);
        simt.store_vector(words, 2, [low, u64::from_halves(high, 0)], Hint::Default);
        link
    }
}

/// Per thread. The children of an N4 and one more, in an N16 of zeros: how many they are.
///
/// # Safety
/// Nobody else writes to the nodes.
#[inline(always)]
unsafe fn grow_n4<S: Simt>(simt: S, from: GlobalMut<u8>, to: GlobalMut<u8>, byte: u32, child: Link) -> u32 {
    let links = to.byte_add(offset_of!(N16, links) as u64).cast::<u64>();
    let (mut count, mut keys) = (0, 0_u64);
    // SAFETY: the words lie in the nodes.
    unsafe {
        let old: u32 = peek(simt, from, offset_of!(Header, keys4));
        let mut slot = 0_u32;
        while slot < 4 {
            let link: u64 = peek(simt, from, offset_of!(N4, links) + 8 * slot as usize);
            if link != 0 {
                simt.store(links, u64::from(count), link, Hint::Default);
                keys |= u64::from(old >> (8 * slot) & 0xff) << (8 * count);
                count += 1;
            }
            slot += 1;
        }
        simt.store(links, u64::from(count), child.bits(), Hint::Default);
        // The last one is repeated, and matches first where it is.
        let repeated = u64::from(byte) * (u64::MAX / 0xff);
        keys |= repeated << (8 * count);
        simt.store_vector(to.byte_add(offset_of!(N16, keys) as u64).cast::<u64>(), 0, [keys, repeated], Hint::Default);
    }
    count + 1
}

/// Per thread. The children of an N16 and one more, in an N48 of zeros: how many they are.
///
/// # Safety
/// Nobody else writes to the nodes.
#[inline(always)]
unsafe fn grow_n16<S: Simt>(simt: S, from: GlobalMut<u8>, to: GlobalMut<u8>, byte: u32, child: Link) -> u32 {
    let mut count = 0;
    // SAFETY: the words lie in the nodes.
    unsafe {
        let mut slot = 0_u32;
        while slot < 16 {
            let keys: u64 = peek(simt, from, offset_of!(N16, keys) + (slot & !7) as usize);
            let link: u64 = peek(simt, from, offset_of!(N16, links) + 8 * slot as usize);
            if link != 0 {
                put_n48(simt, to, count, (keys >> (8 * (slot % 8))) as u32 & 0xff, link);
                count += 1;
            }
            slot += 1;
        }
        put_n48(simt, to, count, byte, child.bits());
    }
    count + 1
}

/// Per thread. Sets a child of an N48 that only this thread sees.
///
/// # Safety
/// `count < 48`, and the byte has no child.
#[inline(always)]
unsafe fn put_n48<S: Simt>(simt: S, to: GlobalMut<u8>, count: u32, byte: u32, link: u64) {
    let slots = to.byte_add(offset_of!(N48, slots) as u64).cast::<u32>();
    // SAFETY: the words lie in the node.
    unsafe {
        simt.store(to.byte_add(offset_of!(N48, links) as u64).cast::<u64>(), u64::from(count), link, Hint::Default);
        let index = u64::from(byte / 4);
        let word = simt.load(slots.as_const(), index, Hint::Default) | (count + 1) << (8 * (byte % 4));
        simt.store(slots, index, word, Hint::Default);
    }
}

/// Per thread. The children of an N48 and one more, in an N256 of zeros: how many they are.
///
/// # Safety
/// Nobody else writes to the nodes.
#[inline(always)]
unsafe fn grow_n48<S: Simt>(simt: S, from: GlobalMut<u8>, to: GlobalMut<u8>, byte: u32, child: Link) -> u32 {
    let links = to.byte_add(offset_of!(N256, links) as u64).cast::<u64>();
    let mut count = 1;
    // SAFETY: the words lie in the nodes.
    unsafe {
        let mut other = 0_u32;
        while other < 256 {
            let slots: u32 = peek(simt, from, offset_of!(N48, slots) + (other & !3) as usize);
            let slot = slots >> (8 * (other % 4)) & 0xff;
            if slot != 0 {
                let link: u64 = peek(simt, from, offset_of!(N48, links) + 8 * (slot - 1) as usize);
                simt.store(links, u64::from(other), link, Hint::Default);
                count += u32::from(link != 0);
            }
            other += 1;
        }
        simt.store(links, u64::from(byte), child.bits(), Hint::Default);
    }
    count
}
