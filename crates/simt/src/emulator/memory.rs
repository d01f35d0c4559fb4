//! Global memory: which of it a launch may touch.

use super::fault::{FaultKind, Nearest};
use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};

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
}

struct Tracked {
    region: Region,
    /// A bit for each 4 bytes of a writable region: whether this launch has written there. Begins at
    /// the multiple of [`GRANULE`] below the region.
    written: Vec<AtomicU64>,
}

/// Bytes for which one word of [`Tracked::written`] stands.
const GRANULE: usize = 4 * 64;

impl Memory {
    pub(super) fn new(regions: &[Region]) -> Self {
        let tracked = |&region: &Region| {
            let end = region.start.saturating_add(region.bytes);
            let granules = end.div_ceil(GRANULE) - region.start / GRANULE;
            Tracked { region, written: zeros(if region.writable { granules } else { 0 }) }
        };
        Self { regions: regions.iter().map(tracked).collect() }
    }

    /// Checks an access of `bytes` bytes, a power of two. `last` is where the caller remembers the
    /// buffer of its last access, the likeliest for the next.
    #[inline]
    pub(super) fn check(
        &self,
        last: &Cell<usize>,
        address: usize,
        bytes: usize,
        intent: Intent,
    ) -> Result<(), FaultKind> {
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
        match intent {
            Intent::Write => tracked.mark(address, bytes),
            Intent::ReadOnly if tracked.is_marked(address, bytes) => {
                let offset = address - tracked.region.start;
                return Err(FaultKind::ReadOnlyOfWritten { address, offset });
            }
            Intent::Read | Intent::ReadOnly => {}
        }
        Ok(())
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
    #[inline]
    fn bits(&self, address: usize, bytes: usize) -> (Option<&AtomicU64>, u64) {
        let granule = address / GRANULE - self.region.start / GRANULE;
        // Aligned to its size, at most 16 bytes: never in two granules.
        let mask = (1 << (bytes / 4)) - 1;
        (self.written.get(granule), mask << (address % GRANULE / 4))
    }

    #[inline]
    fn mark(&self, address: usize, bytes: usize) {
        if let (Some(word), bits) = self.bits(address, bytes)
            && word.load(Ordering::Relaxed) & bits != bits
        {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    #[inline]
    fn is_marked(&self, address: usize, bytes: usize) -> bool {
        let (word, bits) = self.bits(address, bytes);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & bits != 0)
    }
}

/// Zeros that cost nothing until touched: the allocator hands out large ones untouched.
fn zeros(len: usize) -> Vec<AtomicU64> {
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
    let mut zeros = ManuallyDrop::new(vec![0_u64; len]);
    // SAFETY: the parts of a vector that is not dropped; `AtomicU64` has the size and bit validity of
    // `u64`, and here its alignment.
    unsafe { Vec::from_raw_parts(zeros.as_mut_ptr().cast(), zeros.len(), zeros.capacity()) }
}
