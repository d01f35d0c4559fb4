//! Memory that the CPU can reach.

use crate::MemoryInfo;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::OnceLock;

/// Every allocation starts at a multiple of this, like the CUDA driver's, so that an alignment that holds here holds
/// there too.
pub(crate) const ALIGNMENT: usize = 256;

/// Bytes after every allocation that belong to no other: an access past the end by less than this reaches no other
/// allocation.
const GUARD: usize = 256;

/// Alignment requested from the allocator. Up to this alignment it returns fresh zero pages for large blocks; with 256
/// it would write every byte, which takes seconds for an array of many gigabytes where blocks are not mapped.
const MALLOC_ALIGNMENT: usize = 16;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(ALIGNMENT + GUARD)?, MALLOC_ALIGNMENT).ok()
}

/// Allocates `bytes` zeroed bytes at a multiple of [`ALIGNMENT`]; `None` if there is no memory.
pub(crate) fn alloc(bytes: usize) -> Option<NonNull<u8>> {
    #[cfg(target_os = "linux")]
    if bytes >= mapped::FEWEST {
        return mapped::alloc(bytes);
    }
    // SAFETY: the layout's size is not zero, since the guard is part of it.
    let base = NonNull::new(unsafe { alloc_zeroed(layout(bytes)?) })?;
    // 16 to 256, since `base` is a multiple of 16: there is room for the offset in front.
    let offset = ALIGNMENT - base.as_ptr().addr() % ALIGNMENT;
    // SAFETY: the block is `ALIGNMENT + GUARD` bytes longer than `bytes`; `offset` is at most the first.
    let start = unsafe { base.add(offset) };
    // SAFETY: 8 bytes inside the block, in front of `start`, aligned since `start` is.
    unsafe { start.cast::<usize>().sub(1).write(offset) };
    Some(start)
}

/// Frees an allocation.
///
/// # Safety
/// `start` comes from [`alloc`] with the same `bytes`, and is not reused.
pub(crate) unsafe fn free(start: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= mapped::FEWEST {
        // SAFETY: the caller's contract; `alloc` mapped a block of `bytes` bytes.
        return unsafe { mapped::free(start, bytes) };
    }
    // SAFETY: `alloc` wrote the offset there.
    let offset = unsafe { start.cast::<usize>().sub(1).read() };
    let layout = layout(bytes).expect("the layout of a live allocation is valid");
    // SAFETY: `offset` bytes in front of `start` is what the allocator returned for this layout.
    unsafe { dealloc(start.sub(offset).as_ptr(), layout) };
}

/// Large blocks, in huge pages if the system has them. A region of gigabytes then takes hundreds of page faults instead of
/// hundreds of thousands, which took longer than copying a tree into it; and a random look-up is less likely to miss the TLB.
///
/// They are mapped and not taken from the allocator: it may return memory that was freed before, up to 32 MiB a block, whose
/// pages stay small whatever they are advised to be.
#[cfg(target_os = "linux")]
mod mapped {
    use super::GUARD;
    use core::ptr::NonNull;

    /// Bytes of a huge page.
    const HUGE: usize = 2 << 20;

    /// Blocks of at least this many bytes are mapped.
    pub(super) const FEWEST: usize = 2 * HUGE;

    /// Bytes that are mapped for a block: it begins with a huge page, and in front of it is the distance to the mapping's start.
    fn mapped(bytes: usize) -> Option<usize> {
        bytes.checked_add(GUARD + HUGE).filter(|&bytes| isize::try_from(bytes).is_ok())
    }

    pub(super) fn alloc(bytes: usize) -> Option<NonNull<u8>> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, anywhere.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), mapped(bytes)?, access, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        // A small page to `HUGE`, since mappings begin with a page.
        let offset = HUGE - base.addr() % HUGE;
        // SAFETY: inside the mapping, which is longer than the block by a huge page.
        let start = unsafe { NonNull::new(base.cast::<u8>())?.add(offset) };
        // SAFETY: whole huge pages of the mapping, which has not been touched yet. A system without huge pages, or with others,
        // rejects the advice, which does no harm.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes / HUGE * HUGE, libc::MADV_HUGEPAGE) };
        // SAFETY: 8 bytes in front of `start`, inside the mapping, aligned since `start` is.
        unsafe { start.cast::<usize>().sub(1).write(offset) };
        Some(start)
    }

    /// # Safety
    /// `start` comes from [`alloc`] with the same `bytes`, and is not reused.
    pub(super) unsafe fn free(start: NonNull<u8>, bytes: usize) {
        let bytes = mapped(bytes).expect("the bytes of a live allocation are valid");
        // SAFETY: `alloc` wrote the offset there, and mapped this number of bytes from there on.
        let status = unsafe {
            let offset = start.cast::<usize>().sub(1).read();
            libc::munmap(start.sub(offset).as_ptr().cast(), bytes)
        };
        debug_assert_eq!(status, 0, "a live mapping can be unmapped");
    }
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

/// The machine's bytes in all, which do not change; 0 if unknown.
pub(crate) fn total() -> u64 {
    static TOTAL: OnceLock<u64> = OnceLock::new();
    *TOTAL.get_or_init(|| memory().total)
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

    /// The allocator would return what was freed, whose pages are small.
    #[cfg(target_os = "linux")]
    #[test]
    fn large_blocks_begin_with_a_huge_page_whatever_was_freed_before() {
        drop(vec![1_u8; 30 << 20]);
        for bytes in [4 << 20, 5 << 20, 20 << 20] {
            let start = alloc(bytes).unwrap();
            assert!(start.addr().get().is_multiple_of(2 << 20), "{bytes} bytes");
            // SAFETY: allocated with this size, and used no more.
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
