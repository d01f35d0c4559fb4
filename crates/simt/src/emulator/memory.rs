//! Global memory: which parts of it a launch may touch.

use super::access::GlobalAccess;
use super::fault::{FaultKind, Nearest};
use super::races::{Knower, Releases, Shadow, Stamp};
use super::zeros::zeros;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// A buffer that a kernel may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its address.
    pub start: usize,
    /// Its size.
    pub bytes: usize,
    /// Whether the kernel may write to it.
    pub writable: bool,
}

impl Region {
    #[inline]
    fn contains(&self, address: usize, bytes: usize) -> bool {
        let offset = address.wrapping_sub(self.start);
        offset < self.bytes && bytes <= self.bytes - offset
    }
}

/// What an access does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Read,
    /// Through the cache that is not coherent with writes.
    ReadOnly,
    Write,
}

/// The buffers of a launch.
pub(super) struct Memory {
    regions: Vec<Tracked>,
    pub(super) releases: Releases,
}

pub(super) struct Tracked {
    region: Region,
    /// One bit per 4 bytes of a writable region: whether this launch has written there. Starts at the multiple of
    /// [`GRANULE`] below the region.
    written: Marks,
    /// The same of what it has loaded as constant. Undefined on a GPU, whose compiler may repeat such a load or move it past a write
    /// that follows it, even if threads never see the order change here.
    constant: Marks,
    /// The threads that touched each word of a writable region last, if races are checked.
    shadow: Option<Shadow>,
    /// The release that the value of each 8 bytes comes from, or a later one; allocated at the first release.
    released: OnceLock<Vec<AtomicU64>>,
}

/// A bit per 4 bytes of a writable region.
type Marks = Vec<AtomicU64>;

/// Bytes that one word of [`Marks`] covers.
const GRANULE: usize = 4 * 64;

impl Memory {
    pub(super) fn new(regions: &[Region], races: bool) -> Self {
        let tracked = |&region: &Region| {
            let end = region.start.saturating_add(region.bytes);
            let granules = end.div_ceil(GRANULE) - region.start / GRANULE;
            // There is no race without a write.
            let shadow = (races && region.writable).then(|| Shadow::new(end.div_ceil(4) - region.start / 4));
            let marks = || zeros(if region.writable { granules } else { 0 });
            Tracked { region, written: marks(), constant: marks(), shadow, released: OnceLock::new() }
        };
        Self { regions: regions.iter().map(tracked).collect(), releases: Releases::default() }
    }

    /// Checks an access of `bytes` bytes, a power of two. In `last` the caller keeps the buffer of its last access, the
    /// likeliest for the next one.
    #[inline]
    pub(super) fn check(
        &self,
        last: &Cell<usize>,
        address: usize,
        bytes: usize,
        intent: Intent,
    ) -> Result<&Tracked, FaultKind> {
        if address & (bytes - 1) != 0 {
            return Err(FaultKind::Misaligned { address, bytes: bytes as u32 });
        }
        let fits = |tracked: &Tracked| {
            let Tracked { region, .. } = tracked;
            region.contains(address, bytes) && (intent != Intent::Write || region.writable)
        };
        let tracked = match self.regions.get(last.get()) {
            Some(tracked) if fits(tracked) => tracked,
            _ => match self.regions.iter().position(fits) {
                Some(found) => {
                    last.set(found);
                    &self.regions[found]
                }
                None => return Err(self.outside(address, bytes)),
            },
        };
        let offset = address - tracked.region.start;
        // Each marks first and looks afterwards, so that of two threads one sees the other.
        match intent {
            Intent::Write => {
                tracked.mark(&tracked.written, address, bytes);
                if tracked.is_marked(&tracked.constant, address, bytes) {
                    return Err(FaultKind::WriteOfConstant { address, offset });
                }
            }
            Intent::ReadOnly => {
                tracked.mark(&tracked.constant, address, bytes);
                if tracked.is_marked(&tracked.written, address, bytes) {
                    return Err(FaultKind::ReadOnlyOfWritten { address, offset });
                }
            }
            Intent::Read => {}
        }
        Ok(tracked)
    }

    /// Why an access fits no buffer.
    #[cold]
    fn outside(&self, address: usize, bytes: usize) -> FaultKind {
        let regions = || self.regions.iter().map(|tracked| tracked.region);
        if let Some(region) = regions().find(|region| region.contains(address, bytes)) {
            return FaultKind::WriteToReadOnly { address, offset: address - region.start };
        }
        let distance = |region: &Region| {
            let (first, end) = (region.start, region.start.saturating_add(region.bytes));
            if address < first { first - address } else { address.saturating_sub(end) }
        };
        let nearest = regions().enumerate().min_by_key(|(_, region)| distance(region));
        let nearest = nearest.map(|(index, region)| Nearest {
            region: index,
            bytes: region.bytes,
            offset: address as i128 - region.start as i128,
        });
        FaultKind::GlobalOutOfBounds { address, bytes: bytes as u32, nearest }
    }
}

impl Tracked {
    /// Notes an access that was checked, and finds what it races with.
    #[inline]
    pub(super) fn touch(
        &self,
        address: usize,
        access: GlobalAccess,
        who: &Knower,
        releases: &Releases,
    ) -> Result<(), FaultKind> {
        let Some(shadow) = &self.shadow else { return Ok(()) };
        shadow.touch(address / 4 - self.region.start / 4, access, who, releases).map_err(|(word, earlier)| {
            let address = 4 * (self.region.start / 4 + word);
            let offset = address.saturating_sub(self.region.start);
            if access.kind.is_atomic() && earlier.access.kind.is_atomic() {
                FaultKind::MixedWidths { address, offset, access, earlier }
            } else {
                FaultKind::GlobalRace { address, offset, access, earlier }
            }
        })
    }

    /// Whether races are looked for here.
    #[inline]
    pub(super) fn is_shadowed(&self) -> bool {
        self.shadow.is_some()
    }

    /// The release of the 8 bytes with an address.
    #[inline]
    fn released(&self, address: usize) -> Option<&AtomicU64> {
        let words = (self.region.start + self.region.bytes).div_ceil(8) - self.region.start / 8;
        self.released.get_or_init(|| zeros(words)).get(address / 8 - self.region.start / 8)
    }

    /// Notes that the next store publishes a release. This is noted before the store, and relaxed stores leave it in
    /// place, so a thread that reads the value finds this release or a later one.
    pub(super) fn publish(&self, address: usize, stamp: Stamp) {
        if let Some(released) = self.released(address) {
            released.fetch_max(stamp, Ordering::Relaxed);
        }
    }

    /// The release that the preceding load has read, or a later one.
    pub(super) fn published(&self, address: usize) -> Stamp {
        let index = address / 8 - self.region.start / 8;
        let released = self.released.get().and_then(|released| released.get(index));
        released.map_or(0, |released| released.load(Ordering::Relaxed))
    }

    #[inline]
    fn bits<'m>(&self, marks: &'m Marks, address: usize, bytes: usize) -> (Option<&'m AtomicU64>, u64) {
        let granule = address / GRANULE - self.region.start / GRANULE;
        // Aligned to its size, at most 16 bytes: never in two granules.
        let mask = (1 << (bytes / 4)) - 1;
        (marks.get(granule), mask << (address % GRANULE / 4))
    }

    #[inline]
    fn mark(&self, marks: &Marks, address: usize, bytes: usize) {
        if let (Some(word), bits) = self.bits(marks, address, bytes)
            && word.load(Ordering::Relaxed) & bits != bits
        {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    #[inline]
    fn is_marked(&self, marks: &Marks, address: usize, bytes: usize) -> bool {
        let (word, bits) = self.bits(marks, address, bytes);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & bits != 0)
    }
}
