//! Arrays from ordinary memory to the device.

use super::slot::{SLOTS, Slot};
use super::{Staging, spare_threads};
use crate::Result;
use crate::parallel::*;
use bytemuck::Pod;
use core::sync::atomic::{AtomicUsize, Ordering};
use lanetree_runtime::{Buffer, DeviceKind};
use std::sync::{Mutex, PoisonError};

impl Staging {
    /// Overwrites the first elements of a buffer with an array. Returns when the copy is complete.
    ///
    /// A large array goes through pinned memory, which several threads fill piece by piece. A driver copies from ordinary memory
    /// with one thread, at a fraction of what the bus carries.
    ///
    /// # Errors
    /// [`Runtime`](crate::Error::Runtime) if the buffer is too short, if there is no room for the staging memory, or from the
    /// device.
    pub fn upload<T: Pod + Send + Sync>(&self, data: &[T], to: &mut Buffer<T>) -> Result<()> {
        let device = to.device().clone();
        // The bytes of a piece of queries of 8 bytes, so that batches of these use the same memory.
        let piece = (8 * self.lengths.long / size_of::<T>().max(1)).max(1);
        // What has no bytes, as the values of a set, needs no pieces.
        let pieces = if size_of::<T>() == 0 { 1 } else { data.len().div_ceil(piece) };
        if pieces < 2 || device.kind() == DeviceKind::Host {
            return Ok(to.copy_range_from(0, data)?);
        }
        let (next, to) = (AtomicUsize::new(0), Mutex::new(to));
        let copy = |slots: &mut Vec<Slot>| -> Result<()> {
            for turn in 0.. {
                // The number of a piece only: the threads hand one another nothing by it.
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = data.chunks(piece).nth(at) else { break };
                let turn = turn % SLOTS;
                if turn == slots.len() {
                    slots.push(Slot::new(&device)?);
                }
                let slot = &mut slots[turn];
                // Its last piece is on the device.
                slot.synchronize()?;
                slot.reserve(&device, size_of_val(part), 0)?;
                bytemuck::cast_slice_mut::<u64, u8>(&mut slot.staged_input)[..size_of_val(part)]
                    .copy_from_slice(bytemuck::cast_slice(part));
                let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
                to.upload_bytes_async(&slot.stream, at * piece, &slot.staged_input, part.len())?;
            }
            slots.iter_mut().try_for_each(Slot::synchronize)
        };
        let work = || {
            let mut taken = self.take();
            let outcome = copy(&mut taken.slots);
            taken.done = outcome.is_ok();
            if outcome.is_err() {
                // The other threads need not go on.
                next.store(pieces, Ordering::Relaxed);
            }
            outcome
        };
        let threads = spare_threads().min(pieces);
        (0..threads).into_par_iter().map(|_| work()).reduce(|| Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use crate::Device;
    use crate::staging::{Lengths, Staging};
    use lanetree_runtime::Failure;

    fn staging() -> Staging {
        Staging { lengths: Lengths { short: 32, long: 64, bytes: 1000 }, ..Staging::default() }
    }

    #[test]
    fn arrays_of_any_length_arrive_whole() {
        for device in [Device::host(), Device::emulated()] {
            let staging = staging();
            for len in [0, 1, 101, 102, 103, 204, 5003] {
                let data: Vec<[u8; 5]> =
                    (0..len as u32).map(|i| [i.to_le_bytes(), [7; 4]].concat()[..5].try_into().unwrap()).collect();
                let mut to = device.upload(&vec![[9; 5]; len + 1]).unwrap();
                staging.upload(&data, &mut to).unwrap();
                let found = to.to_vec().unwrap();
                assert!(found[..len] == data && found[len] == [9; 5], "{len} on {device}");
            }
            let mut short = device.alloc::<u64>(300).unwrap();
            assert!(staging.upload(&[0; 301], &mut short).is_err());
        }
    }

    #[test]
    fn a_failure_at_any_point_is_an_error_and_the_next_array_arrives() {
        let device = Device::emulated();
        let data: Vec<u64> = (0..700).collect();
        for kind in Failure::KINDS {
            for at in 0.. {
                let (staging, mut to) = (staging(), device.alloc(700).unwrap());
                device.inject(Some(kind(at)));
                let outcome = staging.upload(&data, &mut to);
                let has_failed = device.inject(None).is_none();
                assert_eq!(outcome.is_err(), has_failed, "{:?}", kind(at));
                staging.upload(&data, &mut to).unwrap();
                assert_eq!(to.to_vec().unwrap(), data);
                if !has_failed {
                    break;
                }
            }
        }
    }
}
