//! Mappings of host memory in pages of a chosen size.
//!
//! A random read of a large array misses the TLB, of the CPU and of a GPU that reads across the bus. With pages of
//! 2 MiB one entry of a TLB covers 512 times as much.

use core::fmt;
use core::ptr::NonNull;
use memmap2::MmapMut;
#[cfg(target_os = "linux")]
use memmap2::{Advice, MmapOptions};
use std::io;

/// Bytes that every mapping is a multiple of, and begins at a multiple of. Systems with larger pages round up.
pub(crate) const SMALL: usize = 4096;

/// Bytes of a huge page.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// Which pages an array in host memory is to have.
///
/// Only Linux has a choice. Elsewhere, and in an array of less than 2 MiB, which would leave most of a huge page empty,
/// pages are [`Small`](Pages::Small).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Pages {
    /// The system's ordinary pages: 4 KiB on x86-64. They stay small even where the system gives huge pages to all.
    Small,
    /// Pages of 2 MiB where the system has them when the array is first touched, and small pages elsewhere (on Linux
    /// `madvise` with `MADV_HUGEPAGE`). The administrator need not reserve anything.
    #[default]
    Transparent,
    /// Pages of 2 MiB from hugetlbfs. The administrator reserves them, with `sysctl vm.nr_hugepages`, say. If there are not
    /// enough, the array has [`Transparent`](Pages::Transparent) pages.
    Huge,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "small pages",
            Self::Transparent => "transparent huge pages",
            Self::Huge => "reserved huge pages",
        })
    }
}

/// Which pages the system has granted to an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GrantedPages {
    /// What the caller asked for.
    pub asked: Pages,
    /// What the array has: `asked`, or what comes next, from [`Pages::Huge`] by [`Pages::Transparent`] to
    /// [`Pages::Small`].
    pub granted: Pages,
    /// Bytes that are in huge pages now: whole pages that have been touched, so it may be less than the array has, or more
    /// by the rest of the last page. `None` if the system does not say, or the array is empty.
    pub huge_bytes: Option<u64>,
}

impl fmt::Display for GrantedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, granted, huge_bytes } = self;
        if asked == granted {
            write!(f, "{asked}, as asked")?;
        } else {
            write!(f, "{granted} in place of the {asked} that were asked for")?;
        }
        match huge_bytes {
            Some(bytes) => write!(f, "; {bytes} bytes are in huge pages now"),
            None => Ok(()),
        }
    }
}

/// Asks for huge pages under memory that was just allocated and not touched yet, such as `vec![0; len]`: the system then finds
/// it with hundreds of page faults instead of hundreds of thousands, which takes longer than most things that are written there.
/// Changes no bytes. Does nothing for less than 32 MiB, which an allocator may have handed out before, and but on Linux.
pub fn prefer_huge_pages<T>(memory: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        /// From here on the allocator of the C library maps new memory.
        const FEWEST: usize = 32 << 20;
        let (start, bytes) = (memory.as_mut_ptr().cast::<u8>(), size_of_val(memory));
        let offset = start.addr().next_multiple_of(HUGE) - start.addr();
        let whole = bytes.saturating_sub(offset) / HUGE * HUGE;
        if bytes >= FEWEST && whole > 0 {
            // SAFETY: whole huge pages inside the slice; advice leaves the bytes as they are. A system without huge pages rejects
            // it, which does no harm.
            unsafe { libc::madvise(start.add(offset).cast(), whole, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Zeroed memory of this process alone. Unmapped on drop.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    /// Bytes from `start` on: whole pages.
    #[cfg(target_os = "linux")]
    bytes: usize,
    granted: Pages,
    /// What `start` points into.
    _map: MmapMut,
}

// SAFETY: the mapping owns its memory, and has no access to it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first byte: at a multiple of 2 MiB in a mapping that was to have huge pages and has at least 2 MiB, else of
    /// [`SMALL`].
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The pages that the system has agreed to.
    pub(crate) fn granted(&self) -> Pages {
        self.granted
    }
}

#[cfg(not(target_os = "linux"))]
impl Mapping {
    /// Maps at least `bytes` > 0 bytes, in small pages.
    pub(crate) fn new(bytes: usize, _: Pages) -> io::Result<Self> {
        let mut map = MmapMut::map_anon(bytes)?;
        let start = NonNull::new(map.as_mut_ptr()).expect("no mapping begins at null");
        Ok(Self { start, granted: Pages::Small, _map: map })
    }

    /// Bytes in huge pages; only Linux says.
    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        None
    }
}

#[cfg(target_os = "linux")]
impl Mapping {
    /// Maps at least `bytes` > 0 bytes, at most `isize::MAX`. The system commits a page when it is first touched.
    pub(crate) fn new(bytes: usize, asked: Pages) -> io::Result<Self> {
        match asked {
            _ if bytes < HUGE => Self::small(bytes),
            Pages::Small => Self::small(bytes),
            Pages::Transparent => Self::transparent(bytes),
            // The system reserves the pages at once. So it refuses here, and not when they are touched.
            Pages::Huge => Self::reserved(bytes).or_else(|_| Self::transparent(bytes)),
        }
    }

    fn small(bytes: usize) -> io::Result<Self> {
        let map = MmapMut::map_anon(bytes.next_multiple_of(SMALL))?;
        // Systems that give huge pages to all who do not object. One without huge pages rejects the advice, which does
        // no harm.
        let _ = map.advise(Advice::NoHugePage);
        Ok(Self::at(map, 0, bytes.next_multiple_of(SMALL), Pages::Small))
    }

    fn transparent(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(HUGE);
        // One more huge page, to align the start. One more small page, so that at least one is left over at either end:
        // the system joins neighbours with the same advice to one area, and `huge_bytes` would count theirs.
        let map = MmapMut::map_anon(bytes.checked_add(HUGE + SMALL).ok_or(io::ErrorKind::OutOfMemory)?)?;
        let offset = HUGE - map.as_ptr().addr() % HUGE;
        let advised = map.advise_range(Advice::HugePage, offset, bytes).is_ok();
        let granted = if advised && has_transparent() { Pages::Transparent } else { Pages::Small };
        Ok(Self::at(map, offset, bytes, granted))
    }

    fn reserved(bytes: usize) -> io::Result<Self> {
        // A multiple, since the system unmaps whole pages only.
        let bytes = bytes.next_multiple_of(HUGE);
        let map = MmapOptions::new().len(bytes).huge(Some(HUGE.ilog2() as u8)).map_anon()?;
        Ok(Self::at(map, 0, bytes, Pages::Huge))
    }

    fn at(mut map: MmapMut, offset: usize, bytes: usize, granted: Pages) -> Self {
        let start = NonNull::from(&mut map[offset..][..bytes]).cast();
        Self { start, bytes, granted, _map: map }
    }

    /// Bytes in huge pages now, as the system says.
    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        let start = self.start.addr().get();
        let smaps = std::fs::File::open("/proc/self/smaps").ok()?;
        huge_bytes_in(io::BufReader::new(smaps), start..start + self.bytes)
    }
}

/// Whether the system gives huge pages to those who ask. It takes the advice even where the administrator has turned them
/// off.
#[cfg(target_os = "linux")]
fn has_transparent() -> bool {
    let setting = |file| std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{file}")).ok();
    // Since Linux 6.8 each size has a setting of its own, which may refer to the old one.
    let of_size = setting("hugepages-2048kB/enabled").filter(|text| !text.contains("[inherit]"));
    of_size.or_else(|| setting("enabled")).is_none_or(|text| !text.contains("[never]"))
}

/// Of a range of addresses, the bytes in huge pages. `smaps` is the text of `/proc/self/smaps`: for each area, in the order
/// of their addresses, a line with its range and a line for each number. `None` if the range is in no area.
#[cfg(target_os = "linux")]
fn huge_bytes_in(smaps: impl io::BufRead, range: core::ops::Range<usize>) -> Option<u64> {
    // An area has either kind of page. After a fork reserved pages are shared.
    const FIELDS: [&str; 3] = ["AnonHugePages:", "Private_Hugetlb:", "Shared_Hugetlb:"];
    let address = |digits: &str| usize::from_str_radix(digits, 16).ok();
    let (mut sum, mut overlap) = (None, 0);
    for line in smaps.lines() {
        let line = line.ok()?;
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        let area = first.split_once('-').and_then(|(start, end)| Some(address(start)?..address(end)?));
        if let Some(area) = area {
            if area.start >= range.end {
                break;
            }
            overlap = area.end.min(range.end).saturating_sub(area.start.max(range.start)) as u64;
            if overlap > 0 {
                sum.get_or_insert(0);
            }
        } else if overlap > 0 && FIELDS.contains(&first) {
            let kib: u64 = words.next()?.parse().ok()?;
            *sum.get_or_insert(0) += (kib << 10).min(overlap);
        }
    }
    sum
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const SMAPS: &str = "\
5568a000-5568c000 r--p 00000000 fd:00 1234 /bin/name-with-dash
AnonHugePages:         0 kB
VmFlags: rd mr mw me
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      2048 kB
Private_Hugetlb:       0 kB
7f0000400000-7f0000800000 rw-p 00000000 00:0f 5678 /anon_hugepage (deleted)
AnonHugePages:         0 kB
Shared_Hugetlb:     2048 kB
Private_Hugetlb:    2048 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
AnonHugePages:      4096 kB
";

    #[test]
    fn advice_changes_no_bytes() {
        for words in [0, 1, 1 << 18, (32 << 17) + 1, 40 << 17] {
            let mut memory = vec![0_u64; words];
            prefer_huge_pages(&mut memory);
            assert!(memory.iter().all(|&word| word == 0));
            memory.fill(7);
            prefer_huge_pages(&mut memory[words / 3..]);
            assert!(memory.iter().all(|&word| word == 7), "{words}");
        }
    }

    #[test]
    fn huge_bytes_are_those_of_the_areas_of_the_range() {
        let of = |range| huge_bytes_in(SMAPS.as_bytes(), range);
        let base = 0x7f00_0000_0000;
        assert_eq!(of(base..base + (4 << 20)), Some(2 << 20));
        assert_eq!(of(base + (4 << 20)..base + (8 << 20)), Some(4 << 20));
        assert_eq!(of(base..base + (8 << 20)), Some(6 << 20), "two areas");
        assert_eq!(of(base..base + SMALL), Some(SMALL as u64), "at most the range itself");
        assert_eq!(of(0x5568_a000..0x5568_b000), Some(0));
        assert_eq!(of(0x1000..0x2000), None);
        assert_eq!(of(base + (8 << 20)..base + (9 << 20)), None);
    }

    #[test]
    fn neighbours_are_counted_apart() {
        let mappings: Vec<Mapping> = (0..8).map(|_| Mapping::new(HUGE, Pages::Transparent).unwrap()).collect();
        // SAFETY: mappings of `HUGE` bytes, which nobody else uses.
        mappings.iter().step_by(2).for_each(|mapping| unsafe { mapping.start().write_bytes(1, HUGE) });
        for (mapping, is_touched) in mappings.iter().zip([true, false].into_iter().cycle()) {
            let Some(bytes) = mapping.huge_bytes() else { continue };
            assert!(bytes <= if is_touched { HUGE as u64 } else { 0 }, "{bytes}");
        }
    }

    #[test]
    fn what_the_system_refuses_is_an_error() {
        for pages in [Pages::Small, Pages::Transparent, Pages::Huge] {
            assert!(Mapping::new(isize::MAX as usize, pages).is_err());
        }
    }
}
