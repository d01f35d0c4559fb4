//! Memory that the CPU can reach.

use crate::MemoryInfo;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Every allocation starts at a multiple of this, like the CUDA driver's, so that an alignment that holds here holds
/// there too.
pub(crate) const ALIGNMENT: usize = 256;

/// Bytes after every allocation that belong to no other: an access past the end by less than this reaches no other
/// allocation.
const GUARD: usize = 256;

/// Alignment requested from the allocator. Up to this alignment it returns fresh zero pages for large blocks; with 256
/// it would write every byte, which takes seconds for an array of many gigabytes.
const MALLOC_ALIGNMENT: usize = 16;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(ALIGNMENT + GUARD)?, MALLOC_ALIGNMENT).ok()
}

/// Allocates `bytes` zeroed bytes at a multiple of [`ALIGNMENT`]; `None` if there is no memory.
pub(crate) fn alloc(bytes: usize) -> Option<NonNull<u8>> {
    let layout = layout(bytes)?;
    // SAFETY: the layout's size is not zero, since the guard is part of it.
    let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    advise_huge_pages(base, layout.size());
    // 16 to 256, since `base` is a multiple of 16: there is room for the offset in front.
    let offset = ALIGNMENT - base.as_ptr().addr() % ALIGNMENT;
    // SAFETY: the block is `ALIGNMENT + GUARD` bytes longer than `bytes`; `offset` is at most the first.
    let start = unsafe { base.add(offset) };
    // SAFETY: 8 bytes inside the block, in front of `start`, aligned since `start` is.
    unsafe { start.cast::<usize>().sub(1).write(offset) };
    Some(start)
}

/// Blocks of at least this many bytes are backed by huge pages, if the system has them.
#[cfg(target_os = "linux")]
const HUGE: usize = 8 << 20;

/// Asks for huge pages for a block that has not been touched yet. A region of gigabytes then takes hundreds of page
/// faults instead of hundreds of thousands, which took longer than copying a tree into it; and a random look-up is less
/// likely to miss the TLB.
#[cfg(target_os = "linux")]
fn advise_huge_pages(base: NonNull<u8>, bytes: usize) {
    const PAGE: usize = 4096;
    if bytes < HUGE {
        return;
    }
    let start = base.as_ptr().wrapping_add(base.as_ptr().addr().wrapping_neg() % PAGE);
    let bytes = bytes - (start.addr() - base.as_ptr().addr());
    // SAFETY: whole pages inside a live block, whose contents the advice does not change. A system without huge pages,
    // or with larger ones, rejects the advice, which does no harm.
    unsafe { libc::madvise(start.cast(), bytes / PAGE * PAGE, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: NonNull<u8>, _: usize) {}

/// Frees an allocation.
///
/// # Safety
/// `start` comes from [`alloc`] with the same `bytes`, and is not reused.
pub(crate) unsafe fn free(start: NonNull<u8>, bytes: usize) {
    // SAFETY: `alloc` wrote the offset there.
    let offset = unsafe { start.cast::<usize>().sub(1).read() };
    let layout = layout(bytes).expect("the layout of a live allocation is valid");
    // SAFETY: `offset` bytes in front of `start` is what the allocator returned for this layout.
    unsafe { dealloc(start.sub(offset).as_ptr(), layout) };
}

/// The machine's memory as the operating system reports it; zeros if it does not.
pub(crate) fn memory() -> MemoryInfo {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    MemoryInfo { free: field("MemAvailable:").unwrap_or(0), total: field("MemTotal:").unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_zeroed_and_apart() {
        let sizes = [1, 7, 255, 256, 257, 4096, 1 << 20, 3 << 20, 9 << 20];
        let blocks: Vec<_> = sizes.iter().map(|&bytes| (alloc(bytes).unwrap(), bytes)).collect();
        for &(start, bytes) in &blocks {
            assert!(start.addr().get().is_multiple_of(ALIGNMENT));
            // SAFETY: the allocation has `bytes` bytes, all initialised.
            let contents = unsafe { core::slice::from_raw_parts(start.as_ptr(), bytes) };
            assert!(contents.iter().all(|&byte| byte == 0));
            // SAFETY: as above.
            unsafe { start.write_bytes(0xff, bytes) };
        }
        for &(a, bytes) in &blocks {
            for &(b, _) in blocks.iter().filter(|&&(b, _)| b > a) {
                assert!(b.addr().get() - a.addr().get() >= bytes + GUARD);
            }
        }
        for (start, bytes) in blocks {
            // SAFETY: allocated above with this size, and used no more.
            unsafe { free(start, bytes) };
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(alloc(usize::MAX).is_none());
        assert!(alloc(isize::MAX as usize).is_none());
        assert!(alloc(1 << 60).is_none());
    }
}
