//! Memory for results, copies and orders, whose size a caller decides: where there is none, a call returns an error, and the
//! process goes on. What is small whatever the batch and the index are comes from the allocator as usual.

use crate::{Error, Result};
use lanetree_runtime::{self as runtime, Device, MemoryInfo, prefer_huge_pages};

/// The error of main memory that has no room for the bytes that were requested.
pub fn out_of_memory(requested: u128) -> Error {
    let host = Device::host();
    let MemoryInfo { free, total } = host.memory().unwrap_or_default();
    runtime::Error::OutOfMemory { requested, free, total, device: host.to_string() }.into()
}

/// The system grants more memory than it has, and kills processes that use it all. So what could be any multiple of what there
/// is, such as the pairs of ranges, is compared with what is free before it is allocated.
///
/// # Errors
/// [`Error::Runtime`] if fewer bytes are free.
pub fn check_free(bytes: u128) -> Result<()> {
    // 0 where the system does not say.
    match Device::host().memory()?.free {
        free if free > 0 && bytes > u128::from(free) => Err(out_of_memory(bytes)),
        _ => Ok(()),
    }
}

/// Fewer bytes are not worth the question how many are free.
pub const FEW: usize = 1 << 24;

/// Free bytes of main memory, as far as the system reports them.
///
/// # Errors
/// [`Error::Runtime`] if the system does not say.
pub fn free_bytes() -> Result<usize> {
    Ok(match Device::host().memory()?.free {
        0 => usize::MAX,
        free => usize::try_from(free).unwrap_or(usize::MAX),
    })
}

/// Makes room for `needed` further elements, and for up to `left` more after them if there is plenty: a vector that grows later is
/// copied, or its pages are.
///
/// # Errors
/// As [`with_room`].
pub fn make_room_expecting<T>(all: &mut Vec<T>, needed: usize, left: usize) -> Result<()> {
    if all.capacity() - all.len() >= needed {
        return Ok(());
    }
    // How many are left may be what a caller's iterator claims; it is believed only if there is plenty of room.
    let expected = needed.saturating_add(left);
    let bytes = expected.saturating_mul(size_of::<T>());
    if (bytes < FEW || bytes <= free_bytes()? / 2) && make_room(all, expected).is_ok() {
        return Ok(());
    }
    make_room(all, needed)
}

/// The same of results: all `rows` that were counted so far, of which `more` bytes are still to be allocated.
///
/// # Errors
/// [`Error::TooManyRows`] if fewer bytes are free; [`Error::Runtime`] if the system does not say how many are.
pub fn check_rows(rows: u64, more: u128) -> Result<()> {
    if more < FEW as u128 {
        return Ok(());
    }
    // 0 where the system does not say.
    match Device::host().memory()?.free {
        free if free > 0 && more > u128::from(free) => Err(Error::TooManyRows { rows, bytes: more, free }),
        _ => Ok(()),
    }
}

/// An empty vector with room for `len` elements.
///
/// # Errors
/// [`Error::Runtime`] if there is no memory.
pub fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| out_of_memory(len as u128 * size_of::<T>() as u128))?;
    prefer_huge_pages(all.spare_capacity_mut());
    Ok(all)
}

/// Makes room for `more` further elements. A vector that has no room at least doubles.
///
/// # Errors
/// As [`with_room`].
pub fn make_room<T>(all: &mut Vec<T>, more: usize) -> Result<()> {
    let bytes = (all.len() as u128 + more as u128) * size_of::<T>() as u128;
    let before = all.capacity();
    all.try_reserve(more).map_err(|_| out_of_memory(bytes))?;
    if all.capacity() > before {
        prefer_huge_pages(all.spare_capacity_mut());
    }
    Ok(())
}

/// Appends an item.
///
/// # Errors
/// As [`with_room`].
#[inline]
pub fn push<T>(all: &mut Vec<T>, item: T) -> Result<()> {
    if all.len() == all.capacity() {
        make_room(all, 1)?;
    }
    all.push(item);
    Ok(())
}

/// So many zeros, as they come from the system: nobody has touched them yet.
///
/// # Errors
/// As [`with_room`].
pub fn zeroed<T: bytemuck::Zeroable>(len: usize) -> Result<Vec<T>> {
    let all = bytemuck::allocation::try_zeroed_vec(len);
    let mut all = all.map_err(|()| out_of_memory(len as u128 * size_of::<T>() as u128))?;
    prefer_huge_pages(&mut all);
    Ok(all)
}

/// A copy.
///
/// # Errors
/// As [`with_room`].
pub fn copied<T: Copy>(from: &[T]) -> Result<Vec<T>> {
    let mut all = with_room(from.len())?;
    all.extend_from_slice(from);
    Ok(all)
}

/// All items, in their order, however many they turn out to be.
///
/// # Errors
/// As [`with_room`].
pub fn collected<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let items = items.into_iter();
    let mut all = with_room(items.size_hint().0)?;
    // Not `extend`, which takes what memory it likes.
    for item in items {
        push(&mut all, item)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_lengths_are_errors() {
        for len in [1 << 60, usize::MAX] {
            let errors =
                [with_room::<u64>(len).err(), zeroed::<u64>(len).err(), make_room(&mut vec![1_u64], len).err()];
            for error in errors {
                assert!(error.is_some_and(|error| error.to_string().contains("has no room for")));
            }
        }
    }

    #[test]
    fn rows_that_main_memory_has_no_room_for_are_named() {
        check_rows(5 << 32, 8).unwrap();
        let error = check_rows(5 << 32, 5 << 60).unwrap_err().to_string();
        assert!(
            error.starts_with("main memory has no room for 21474836480 rows, which are 5764607523034234880 bytes: "),
            "{error}"
        );
    }

    #[test]
    fn vectors_have_what_they_are_asked_for() -> Result<()> {
        for len in [0, 1, 5, 1 << 15, 3 << 15 | 1] {
            assert!(with_room::<u8>(len)?.capacity() >= len);
            assert_eq!(zeroed::<u32>(len)?, vec![0; len]);
            let numbers = collected((0..len).filter(|number| number % 3 > 0))?;
            assert_eq!(numbers, (0..len).filter(|number| number % 3 > 0).collect::<Vec<_>>());
            assert_eq!(copied(&numbers)?, numbers);
        }
        Ok(())
    }
}
