//! A pool's blocks of one kind of memory: which of them are lent, and which are free.

use core::ptr::NonNull;
use std::collections::{BTreeSet, HashMap};

/// Block sizes are multiples of this: the driver's granularity for small allocations.
const GRAIN: usize = 512;

/// Bytes that an arena may hold however little was in use: such a small cache is not worth returning to the driver.
const SMALL: usize = 16 << 20;

/// The first byte of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Address(pub(super) NonNull<u8>);

// SAFETY: only a number here; code that reads or writes the block must justify that.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// A free block. Blocks are ordered as they are searched: by size, and within one size the one that has been free
/// longest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Block {
    pub(super) bytes: usize,
    /// When it came back, in the pool's epochs.
    returned: u64,
    pub(super) at: Address,
}

/// What a search for a block finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// A block that no work can touch any more; it is now lent.
    Ready(Address),
    /// Only blocks that the device may still be working on.
    Pending,
    /// None of a fitting size.
    Nothing,
}

/// Blocks of one kind of memory.
#[derive(Debug, Default)]
pub(super) struct Arena {
    cached: BTreeSet<Block>,
    lent: HashMap<Address, Lent>,
    pub(super) in_use: usize,
    pub(super) cached_bytes: usize,
    /// The most that was ever in use.
    most: usize,
    /// What was asked for of the blocks that are lent.
    requested: usize,
    /// The most of that, since [`Arena::restart_peak`].
    pub(super) peak: usize,
}

/// Bytes of a block that is lent.
#[derive(Debug)]
struct Lent {
    block: usize,
    /// So many were asked for.
    requested: usize,
}

/// The size of a new block: a multiple of an eighth of the largest power of two in it, and of [`GRAIN`]. That
/// is eight sizes from one power of two to the next, so that blocks of varying requests fit one another.
pub(super) fn block_bytes(bytes: usize) -> usize {
    let power = 1 << bytes.max(1).ilog2();
    bytes.next_multiple_of((power / 8).max(GRAIN))
}

impl Arena {
    /// Lends the smallest fitting block that was returned before the epoch `waited`, so that no work uses it. A block
    /// fits if it is at most a quarter larger than the request, or has the size of a new block for it.
    pub(super) fn find(&mut self, bytes: usize, waited: u64) -> Found {
        let largest = block_bytes(bytes).max(bytes + bytes / 4);
        let least = Block { bytes, returned: 0, at: Address(NonNull::dangling()) };
        let mut fitting = self.cached.range(least..).take_while(|block| block.bytes <= largest).copied().peekable();
        if fitting.peek().is_none() {
            return Found::Nothing;
        }
        let Some(block) = fitting.find(|block| block.returned < waited) else { return Found::Pending };
        self.forget(&block);
        self.in_use += block.bytes;
        self.lend(block.at, block.bytes, bytes);
        Found::Ready(block.at)
    }

    /// Takes a block back; work launched before the epoch `returned + 1` may still touch it.
    pub(super) fn give_back(&mut self, at: Address, returned: u64) {
        let Lent { block: bytes, requested } = self.lent.remove(&at).expect("a block that comes back was lent");
        self.requested -= requested;
        self.in_use -= bytes;
        self.cached_bytes += bytes;
        self.cached.insert(Block { bytes, returned, at });
    }

    /// Counts a new block of this size as in use before it is allocated. Returns the blocks that must be freed for it:
    /// those that have been free longest, until the arena holds at most `limit` and at most twice what has been in use
    /// at once.
    ///
    /// # Errors
    /// The bytes in use, if this block would raise them above `limit`.
    pub(super) fn reserve(&mut self, bytes: usize, limit: usize) -> Result<Vec<Block>, usize> {
        let in_use = self.in_use.saturating_add(bytes);
        if in_use > limit {
            return Err(self.in_use);
        }
        self.in_use = in_use;
        let most = self.most.max(in_use).saturating_mul(2).max(SMALL).min(limit);
        let mut gone = Vec::new();
        while self.in_use.saturating_add(self.cached_bytes) > most {
            let Some(oldest) = self.cached.iter().min_by_key(|block| block.returned).copied() else { break };
            self.forget(&oldest);
            gone.push(oldest);
        }
        Ok(gone)
    }

    /// Undoes what [`Arena::reserve`] has counted.
    pub(super) fn cancel(&mut self, bytes: usize) {
        self.in_use -= bytes;
    }

    /// Marks a block as lent that is counted already, to a buffer of `requested` bytes.
    pub(super) fn lend(&mut self, at: Address, block: usize, requested: usize) {
        self.most = self.most.max(self.in_use);
        self.requested += requested;
        self.peak = self.peak.max(self.requested);
        self.lent.insert(at, Lent { block, requested });
    }

    /// Forgets what was asked for earlier: the peak begins at what is lent now.
    pub(super) fn restart_peak(&mut self) {
        self.peak = self.requested;
    }

    /// All free blocks; the arena no longer holds them.
    pub(super) fn drain(&mut self) -> Vec<Block> {
        self.cached_bytes = 0;
        core::mem::take(&mut self.cached).into_iter().collect()
    }

    fn forget(&mut self, block: &Block) {
        self.cached.remove(block);
        self.cached_bytes -= block.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses without memory: an arena does not look into its blocks.
    fn address(number: usize) -> Address {
        Address(NonNull::without_provenance(core::num::NonZero::new(number * 1024).unwrap()))
    }

    /// Lends a new block.
    fn new_block(arena: &mut Arena, number: usize, bytes: usize) {
        assert_eq!(arena.reserve(bytes, usize::MAX), Ok(Vec::new()));
        arena.lend(address(number), bytes, bytes);
    }

    #[test]
    fn blocks_are_little_larger_than_requests_and_of_few_sizes() {
        for (bytes, expected) in [
            (1, 512),
            (512, 512),
            (513, 1024),
            (4096, 4096),
            (4097, 4608),
            (8193, 9216),
            (1 << 30, 1 << 30),
            ((1 << 30) + 1, 9 << 27),
        ] {
            assert_eq!(block_bytes(bytes), expected, "{bytes}");
        }
        let mut sizes = BTreeSet::new();
        for bytes in (1..100_000).chain((17..45).flat_map(|shift| (1 << shift) - 3..(1 << shift) + 3)) {
            let block = block_bytes(bytes);
            assert!(block >= bytes && (block < bytes + GRAIN || block <= bytes + bytes / 8), "{bytes}: {block}");
            assert_eq!(block_bytes(block), block);
            sizes.insert(block);
        }
        assert!(sizes.range(1 << 12..1 << 16).count() == 4 * 8, "{sizes:?}");
        // Beyond what any machine has; without overflow.
        assert!(block_bytes(isize::MAX as usize) > isize::MAX as usize);
    }

    #[test]
    fn the_smallest_fitting_block_that_is_ready_is_lent() {
        let mut arena = Arena::default();
        for (number, bytes) in [(1, 10_240), (2, 8192), (3, 9216), (4, 8192)] {
            new_block(&mut arena, number, bytes);
        }
        assert_eq!((arena.in_use, arena.cached_bytes), (35_840, 0));
        assert_eq!(arena.find(8192, 100), Found::Nothing, "all are lent");
        for (number, returned) in [(1, 0), (2, 5), (3, 1), (4, 4)] {
            arena.give_back(address(number), returned);
        }
        assert_eq!((arena.in_use, arena.cached_bytes), (0, 35_840));
        assert_eq!(arena.find(8192, 0), Found::Pending);
        assert_eq!(arena.find(8192, 1), Found::Ready(address(1)), "a quarter more fits, and 1 is the only one ready");
        assert_eq!(arena.find(8192, 5), Found::Ready(address(4)));
        assert_eq!(arena.find(8192, 5), Found::Ready(address(3)));
        assert_eq!(arena.find(8192, 5), Found::Pending);
        assert_eq!(arena.find(6000, 9), Found::Nothing, "8192 are more than a quarter more");
        assert_eq!(arena.find(8193, 9), Found::Nothing);
        assert_eq!(arena.find(6554, 9), Found::Ready(address(2)));
        assert_eq!((arena.in_use, arena.cached_bytes), (35_840, 0));
    }

    #[test]
    fn a_limit_holds_for_all_blocks_and_cached_ones_go_first() {
        let mut arena = Arena::default();
        for number in 1..=4 {
            new_block(&mut arena, number, 1024);
        }
        for number in [2, 1, 3] {
            arena.give_back(address(number), 10 - number as u64);
        }
        assert_eq!(arena.reserve(4096, 5000), Err(1024));
        assert_eq!((arena.in_use, arena.cached_bytes), (1024, 3072), "an error changes nothing");
        let gone = arena.reserve(2048, 5000).unwrap();
        assert_eq!(gone.iter().map(|block| block.at).collect::<Vec<_>>(), [address(3), address(2)]);
        assert_eq!((arena.in_use, arena.cached_bytes), (3072, 1024));
        arena.cancel(2048);
        assert_eq!((arena.in_use, arena.cached_bytes), (1024, 1024));
    }

    #[test]
    fn no_more_is_held_than_twice_what_was_in_use_at_once() {
        // A region that grows by a tenth each time, and the one before it, which is given back.
        let (mut arena, mut bytes) = (Arena::default(), 1 << 20);
        for number in 1..200 {
            bytes = block_bytes(bytes + bytes / 10);
            if bytes > 1 << 40 {
                break;
            }
            if arena.find(bytes, u64::MAX) == Found::Nothing {
                arena.reserve(bytes, usize::MAX).unwrap();
                arena.lend(address(number), bytes, bytes);
            }
            if number > 1 {
                arena.give_back(address(number - 1), number as u64);
            }
            let held = arena.in_use + arena.cached_bytes;
            assert!(held <= (2 * arena.most).max(SMALL), "{held} held, {} in use", arena.in_use);
        }
        assert!(arena.cached_bytes > 0 && arena.in_use > 1 << 38);
    }

    #[test]
    fn all_can_be_drained() {
        let mut arena = Arena::default();
        new_block(&mut arena, 1, 512);
        new_block(&mut arena, 2, 512);
        arena.give_back(address(1), 3);
        assert_eq!(arena.drain(), [Block { bytes: 512, returned: 3, at: address(1) }]);
        assert_eq!((arena.in_use, arena.cached_bytes), (512, 0));
        assert_eq!(arena.find(512, u64::MAX), Found::Nothing);
    }
}
