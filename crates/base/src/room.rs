//! Memory for results, copies and orders, whose size a caller decides: where there is none, a call returns an error, and the
//! process goes on. What is small whatever the batch and the index are comes from the allocator as usual.

use crate::parallel::*;
use crate::{Error, Result};
use lanetree_runtime::{self as runtime, Device, MemoryInfo};

/// Elements that a thread fills at a time: fewer take less time than to wake it.
const FILL: usize = 1 << 15;

/// The error of main memory that has no room for so many bytes.
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

/// An empty vector with room for so many elements.
///
/// # Errors
/// [`Error::Runtime`] if there is no memory.
pub fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| out_of_memory(len as u128 * size_of::<T>() as u128))?;
    Ok(all)
}

/// Makes room for so many more elements. A vector that has no room at least doubles.
///
/// # Errors
/// As [`with_room`].
pub fn make_room<T>(all: &mut Vec<T>, more: usize) -> Result<()> {
    let bytes = (all.len() as u128 + more as u128) * size_of::<T>() as u128;
    all.try_reserve(more).map_err(|_| out_of_memory(bytes))
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
    bytemuck::allocation::try_zeroed_vec(len).map_err(|()| out_of_memory(len as u128 * size_of::<T>() as u128))
}

/// So many copies of a value. Several threads write many of them, since the pages of new memory take most of the time.
///
/// # Errors
/// As [`with_room`].
pub fn filled<T: Copy + Send + Sync>(value: T, len: usize) -> Result<Vec<T>> {
    let mut all = with_room(len)?;
    all.spare_capacity_mut()[..len].par_chunks_mut(FILL).for_each(|part| {
        for to in part {
            to.write(value);
        }
    });
    // SAFETY: all have been written.
    unsafe { all.set_len(len) };
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
            let errors = [
                with_room::<u64>(len).err(),
                zeroed::<u64>(len).err(),
                filled(Some(7_u64), len).err(),
                make_room(&mut vec![1_u64], len).err(),
                (0..len).into_par_iter().try_collect().err(),
            ];
            for error in errors {
                assert!(error.is_some_and(|error| error.to_string().contains("has no room for")));
            }
        }
    }

    #[test]
    fn vectors_have_what_they_are_asked_for() -> Result<()> {
        for len in [0, 1, 5, FILL, 3 * FILL + 1] {
            assert!(with_room::<u8>(len)?.capacity() >= len);
            assert_eq!(zeroed::<u32>(len)?, vec![0; len]);
            assert_eq!(filled(Some(3_u8), len)?, vec![Some(3); len]);
            let numbers = collected((0..len).filter(|number| number % 3 > 0))?;
            assert_eq!(numbers, (0..len).filter(|number| number % 3 > 0).collect::<Vec<_>>());
            assert_eq!(copied(&numbers)?, numbers);
        }
        Ok(())
    }
}
