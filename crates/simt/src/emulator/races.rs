//! Data races on global memory: which threads touched each word last, and what orders them.
//!
//! Two accesses of different threads to a word, one of them a write, need an order between them unless both are
//! atomic and of one width. What orders threads here:
//!
//! * in a block, barriers, and in a warp collectives, as for shared memory;
//! * anywhere, a release that an acquire has seen: a store with [`Order::Release`](crate::Order::Release), or a relaxed
//!   one after a fence, read with [`Order::Acquire`](crate::Order::Acquire), or relaxed before a fence.
//!
//! To be cheap, this keeps less than the full order, and errs only towards more order: whatever is reported is a race.
//! Releases of a launch are numbered in the order in which they happen. A thread that acquires a word knows all
//! releases up to the one that the word's value came from, not only those that happened before it: a scalar instead of
//! a vector clock. And only the last write and one read of each word are remembered.

use super::access::{Earlier, GlobalAccess, GlobalAccessKind};
use super::zeros::zeros;
use crate::WARP;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// The number of a release; 0 for none.
pub(super) type Stamp = u64;

/// The thread that accesses global memory, and what it knows.
#[derive(Clone, Copy)]
pub(super) struct Knower {
    pub(super) block: u32,
    pub(super) thread: u32,
    /// The block's clock: it advances at every barrier, collective and release.
    pub(super) time: u32,
    /// Its value after the thread's last collective.
    pub(super) met: u32,
    /// Its value after the last barrier.
    pub(super) barrier: u32,
    /// The last release that the thread knows of.
    pub(super) knows: Stamp,
}

/// An access that is remembered: thread, kind, width, block and the block's clock in one word; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag(u64);

const THREAD_BITS: u32 = 10;
const KIND_SHIFT: u32 = THREAD_BITS;
const WIDTH_SHIFT: u32 = KIND_SHIFT + 2;
const BLOCK_SHIFT: u32 = WIDTH_SHIFT + 2;
const BLOCK_BITS: u32 = 24;
const TIME_SHIFT: u32 = BLOCK_SHIFT + BLOCK_BITS;

/// Blocks past this number, and accesses of a block after this many barriers, collectives and releases, are not
/// checked.
const MOST_BLOCKS: u32 = (1 << BLOCK_BITS) - 1;
const MOST_TIME: u32 = (1 << (64 - TIME_SHIFT)) - 1;

impl Tag {
    const NONE: Self = Self(0);

    /// Block numbers begin with 1, so that no access is [`Tag::NONE`].
    #[inline]
    fn new(who: &Knower, access: GlobalAccess) -> Self {
        let width = (access.bytes / 4).trailing_zeros();
        let kind = access.kind as u64;
        Self(
            u64::from(who.thread)
                | kind << KIND_SHIFT
                | u64::from(width) << WIDTH_SHIFT
                | u64::from(who.block + 1) << BLOCK_SHIFT
                | u64::from(who.time) << TIME_SHIFT,
        )
    }

    #[inline]
    fn thread(self) -> u32 {
        self.0 as u32 & ((1 << THREAD_BITS) - 1)
    }

    #[inline]
    fn access(self) -> GlobalAccess {
        let kind = match self.0 >> KIND_SHIFT & 3 {
            0 => GlobalAccessKind::Read,
            1 => GlobalAccessKind::Write,
            2 => GlobalAccessKind::AtomicRead,
            _ => GlobalAccessKind::AtomicWrite,
        };
        GlobalAccess { kind, bytes: 4 << (self.0 >> WIDTH_SHIFT & 3) }
    }

    #[inline]
    fn block(self) -> u32 {
        (self.0 >> BLOCK_SHIFT) as u32 & ((1 << BLOCK_BITS) - 1)
    }

    #[inline]
    fn time(self) -> u32 {
        (self.0 >> TIME_SHIFT) as u32
    }

    fn earlier(self) -> Earlier {
        Earlier { block: self.block() - 1, thread: self.thread(), access: self.access() }
    }
}

/// What threads have released, as far as this orders accesses.
#[derive(Default)]
pub(super) struct Releases {
    /// How many there were.
    last: AtomicU64,
    /// By block and [party](parties). Looked up at nearly every access of a thread that knows a release.
    log: RwLock<Vec<Vec<Vec<Released>>>>,
}

/// Whose accesses a thread's release covers, as places in its block's log: in the block, those that a barrier has ordered before it;
/// in its warp, those that a collective has; and those of the thread itself.
#[inline]
fn parties(thread: u32) -> [usize; 3] {
    const MOST_WARPS: u32 = 1024 / WARP;
    [0, 1 + thread / WARP, 1 + MOST_WARPS + thread].map(|party| party as usize)
}

/// Accesses before a time of the block's clock are released by a stamp. Both ascend.
struct Released {
    before: u32,
    stamp: Stamp,
}

impl Releases {
    /// Whether there were any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.last.load(Ordering::Relaxed) > 0
    }

    /// Notes that a thread releases what it has done, and what it knows to be done.
    pub(super) fn release(&self, who: &Knower) -> Stamp {
        let mut log = self.log.write().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.last.load(Ordering::Relaxed) + 1;
        self.last.store(stamp, Ordering::Relaxed);
        if who.block >= MOST_BLOCKS {
            // Its accesses are not checked.
            return stamp;
        }
        let of_block = at(&mut log, who.block as usize);
        for (party, before) in parties(who.thread).into_iter().zip([who.barrier, who.met, who.time + 1]) {
            let released = at(of_block, party);
            if released.last().map_or(0, |last| last.before) < before {
                released.push(Released { before, stamp });
            }
        }
        stamp
    }

    /// Whether an access was released by a stamp that is known.
    #[cold]
    fn covers(&self, tag: Tag, knows: Stamp) -> bool {
        let log = self.log.read().unwrap_or_else(PoisonError::into_inner);
        let Some(of_block) = log.get(tag.block() as usize - 1) else { return false };
        parties(tag.thread()).into_iter().filter_map(|party| of_block.get(party)).any(|released| {
            let first = released.partition_point(|released| released.before <= tag.time());
            released.get(first).is_some_and(|released| released.stamp <= knows)
        })
    }
}

/// An element of a list that grows as far as it is asked for.
fn at<T>(list: &mut Vec<Vec<T>>, index: usize) -> &mut Vec<T> {
    if list.len() <= index {
        list.resize_with(index + 1, Vec::new);
    }
    &mut list[index]
}

/// For each 4 bytes of a writable buffer, the last write and one read.
pub(super) struct Shadow(Vec<AtomicU64>);

impl Shadow {
    /// Of that many words of 4 bytes.
    pub(super) fn new(words: usize) -> Self {
        Self(zeros(2 * words))
    }

    /// Notes an access that begins at a word; returns the word on which it races, and with what.
    #[inline]
    pub(super) fn touch(
        &self,
        first: usize,
        access: GlobalAccess,
        who: &Knower,
        releases: &Releases,
    ) -> Result<(), (usize, Earlier)> {
        if who.time > MOST_TIME || who.block >= MOST_BLOCKS {
            return Ok(());
        }
        let own = Tag::new(who, access);
        let words = access.bytes as usize / 4;
        let touched = self.0.get(2 * first..2 * (first + words)).unwrap_or(&[]);
        for (word, pair) in touched.as_chunks().0.iter().enumerate() {
            let [write, read]: &[AtomicU64; 2] = pair;
            let race = |tag: Tag| tag != Tag::NONE && !access.agrees(tag.access()) && !ordered(tag, who, releases);
            // Each thread notes its own access before it looks for others: of two at the same time, at least one sees
            // the other.
            let written = if access.kind.writes() {
                let written = Tag(write.swap(own.0, Ordering::SeqCst));
                let seen = Tag(read.load(Ordering::SeqCst));
                if race(seen) {
                    return Err((first + word, seen.earlier()));
                }
                written
            } else {
                let seen = Tag(read.load(Ordering::Relaxed));
                if seen == Tag::NONE || displaces(access, seen, who, releases) {
                    read.swap(own.0, Ordering::SeqCst);
                }
                Tag(write.load(Ordering::SeqCst))
            };
            if race(written) {
                return Err((first + word, written.earlier()));
            }
        }
        Ok(())
    }
}

/// Whether a read should replace the remembered one: everything that races with that one also races with it, or more
/// does.
#[inline]
fn displaces(access: GlobalAccess, seen: Tag, who: &Knower, releases: &Releases) -> bool {
    let seen_access = seen.access();
    if seen_access.kind.is_atomic() {
        !access.kind.is_atomic() || access.bytes != seen_access.bytes || ordered(seen, who, releases)
    } else {
        !access.kind.is_atomic() && ordered(seen, who, releases)
    }
}

/// Whether an earlier access may be ordered before one by `who` now.
#[inline]
fn ordered(tag: Tag, who: &Knower, releases: &Releases) -> bool {
    if tag.block() == who.block + 1 {
        let (thread, time) = (tag.thread(), tag.time());
        if thread == who.thread || time < who.barrier || (thread / WARP == who.thread / WARP && time < who.met) {
            return true;
        }
    }
    who.knows > 0 && releases.covers(tag, who.knows)
}
