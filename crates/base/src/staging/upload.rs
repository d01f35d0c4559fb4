//! Arrays from ordinary memory to the device, and back.

use super::slot::Slot;
use super::{Staging, Work};
use crate::Result;
use crate::parallel::*;
use crate::room::{make_room, zeroed};
use crate::uninit::{Uninit, Written, append};
use bytemuck::Pod;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use lanetree_runtime::{Buffer, Device, DeviceKind};
use std::sync::{Mutex, PoisonError};

/// Elements that a thread makes at a time where the device's memory is main memory.
const TASK: usize = 1 << 14;

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
        if self.is_one_piece::<T>(data.len(), 1, to) {
            return Ok(to.copy_range_from(0, data)?);
        }
        self.send_pieces(data.len(), 1, to, &|range, bytes| bytes.copy_from_slice(bytemuck::cast_slice(&data[range])))
    }

    /// A new buffer with the elements of an array: see [`Staging::upload`].
    ///
    /// # Errors
    /// As [`Staging::upload`], and if the device has no room.
    pub fn buffer_of<T: Pod + Send + Sync>(&self, device: &Device, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = device.alloc(data.len())?;
        self.upload(data, &mut buffer)?;
        Ok(buffer)
    }

    /// Overwrites the first `len` elements of a buffer with what a function makes: it is called on several threads, each time
    /// with the number of the first element of a part, and the part. A part begins at a multiple of `unit` elements. What a part
    /// has before is not known. Returns when the copy is complete.
    ///
    /// Parts are made in pinned memory, from where they go to the device; so no array in main memory is needed.
    ///
    /// # Errors
    /// As [`Staging::upload`]; [`Runtime`](crate::Error::Runtime) if main memory has no room for a short array.
    ///
    /// # Panics
    /// If `unit` is 0.
    pub fn upload_made<T: Pod + Send + Sync>(
        &self,
        len: usize,
        unit: usize,
        to: &mut Buffer<T>,
        make: &(dyn Fn(usize, &mut [T]) + Sync),
    ) -> Result<()> {
        const { assert!(align_of::<T>() <= align_of::<u128>(), "pinned memory is aligned to 16 bytes at least") };
        if self.is_one_piece::<T>(len, unit, to) {
            if let Some(slice) = to.as_mut_slice().and_then(|slice| slice.get_mut(..len)) {
                let part = unit * TASK.div_ceil(unit);
                slice.par_chunks_mut(part).enumerate().for_each(|(i, slice)| make(i * part, slice));
                return Ok(());
            }
            let mut made = zeroed(len)?;
            make(0, &mut made);
            return Ok(to.copy_range_from(0, &made)?);
        }
        self.send_pieces(len, unit, to, &|range, bytes| make(range.start, bytemuck::cast_slice_mut(bytes)))
    }

    /// A new buffer with a copy of an array: [`Staging::upload`].
    ///
    /// # Errors
    /// [`Runtime`](crate::Error::Runtime) if there is no room, or from the device.
    pub fn uploaded<T: Pod + Send + Sync>(&self, device: &Device, data: &[T]) -> Result<Buffer<T>> {
        if data.len() <= self.piece::<T>(1) {
            return Ok(device.upload(data)?);
        }
        let mut to = device.alloc(data.len())?;
        self.upload(data, &mut to)?;
        Ok(to)
    }

    /// Appends elements of a buffer to a vector. Returns when the copy is complete.
    ///
    /// Many elements come back through pinned memory, from where several threads write them. A driver copies to ordinary memory
    /// with one thread, at a fraction of what the bus carries.
    ///
    /// # Errors
    /// [`Runtime`](crate::Error::Runtime) if the buffer has fewer elements, if main memory has no room, or from the device.
    pub fn append<T: Pod + Send + Sync>(&self, from: &Buffer<T>, range: Range<usize>, to: &mut Vec<T>) -> Result<()> {
        self.append_made(from, range, to, &|from, out| out.copy(from))
    }

    /// Appends what a function makes of elements of a buffer, an element of each: it is called on several threads, each time with some
    /// of them. Otherwise like [`Staging::append`].
    ///
    /// # Errors
    /// As [`Staging::append`].
    pub fn append_made<T: Pod + Send + Sync>(
        &self,
        from: &Buffer<T>,
        range: Range<usize>,
        to: &mut Vec<T>,
        make: &(dyn for<'o> Fn(&[T], Uninit<'o, T>) -> Written<'o> + Sync),
    ) -> Result<()> {
        let (len, device, piece) = (range.len(), from.device(), self.piece::<T>(1));
        make_room(to, len)?;
        if self.is_one_piece(len, 1, from) {
            // On the emulator a kernel may have failed, which the copy reports.
            let here = if device.kind() == DeviceKind::Host { from.as_slice() } else { None };
            if let Some(from) = here.and_then(|slice| slice.get(range.clone())) {
                return append(to, len, |mut out| {
                    let parts: Vec<_> = from.chunks(TASK).map(|from| (from, out.take_first(from.len()))).collect();
                    let written = parts.into_par_iter().map(|(from, out)| make(from, out));
                    Ok(written.reduce(Written::default, Written::and))
                });
            }
            let mut copied = zeroed(len)?;
            from.copy_range_to(range.start, &mut copied)?;
            return append(to, len, |out| Ok(make(&copied, out)));
        }
        append(to, len, |out| {
            let left = Mutex::new((range.start, out));
            let left = || left.lock().unwrap_or_else(PoisonError::into_inner);
            let work = Work {
                take: &|| {
                    let (start, out) = &mut *left();
                    let own = *start..*start + out.len().min(piece);
                    *start = own.end;
                    (!own.is_empty()).then(|| (own.clone(), out.take_first(own.len())))
                },
                new: &|| Slot::new(device),
                begin: &|slot, (range, _)| {
                    slot.reserve(device, 0, size_of::<T>() * range.len(), 0)?;
                    Ok(from.download_bytes_async(&slot.stream, range.clone(), &mut slot.staged_output)?)
                },
                give_up: &|| {
                    let out = &mut left().1;
                    out.take_first(out.len());
                },
            };
            work.run(threads().min(len.div_ceil(piece)), &self.slots, |slot, (range, out)| {
                let bytes = size_of::<T>() * range.len();
                Ok(make(bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(&slot.staged_output)[..bytes]), out))
            })
        })
    }

    /// A new vector of a buffer's elements: [`Staging::append`].
    ///
    /// # Errors
    /// As [`Staging::append`].
    pub fn downloaded<T: Pod + Send + Sync>(&self, from: &Buffer<T>, range: Range<usize>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.append(from, range, &mut all)?;
        Ok(all)
    }

    /// Elements of a piece: a multiple of `unit`, and about the bytes of a piece of queries of 8 bytes, so that batches of these
    /// use the same memory.
    fn piece<T>(&self, unit: usize) -> usize {
        let most = 8 * self.lengths.long / size_of::<T>().max(1);
        (most / unit).max(1) * unit
    }

    fn is_one_piece<T: Pod>(&self, len: usize, unit: usize, buffer: &Buffer<T>) -> bool {
        // What has no bytes, as the values of a set, needs no pieces.
        size_of::<T>() == 0 || len <= self.piece::<T>(unit) || buffer.device().kind() == DeviceKind::Host
    }

    /// Sends an array in pieces. `fill` is given the elements of a piece, and the pinned memory for their bytes.
    fn send_pieces<T: Pod + Send + Sync>(
        &self,
        len: usize,
        unit: usize,
        to: &mut Buffer<T>,
        fill: &(dyn Fn(Range<usize>, &mut [u8]) + Sync),
    ) -> Result<()> {
        let device = to.device().clone();
        let piece = self.piece::<T>(unit);
        let pieces = len.div_ceil(piece);
        // The number of a piece only: the threads hand one another nothing by it.
        let (next, to) = (AtomicUsize::new(0), Mutex::new(to));
        let range = |at: usize| at * piece..len.min((at + 1) * piece);
        let work = Work {
            take: &|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < pieces),
            new: &|| Slot::new(&device),
            begin: &|slot, &at| {
                let (elements, bytes) = (range(at).len(), size_of::<T>() * range(at).len());
                slot.reserve(&device, bytes, 0, 0)?;
                fill(range(at), &mut bytemuck::cast_slice_mut::<u64, u8>(&mut slot.staged_input)[..bytes]);
                let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(to.upload_bytes_async(&slot.stream, at * piece, &slot.staged_input, elements)?)
            },
            give_up: &|| next.store(pieces, Ordering::Relaxed),
        };
        work.run(threads().min(pieces), &self.slots, |_, _| Ok(Written::default())).map(drop)
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
    fn arrays_come_back_whole_behind_the_elements_before_them() {
        for device in [Device::host(), Device::emulated()] {
            let staging = staging();
            for len in [0, 1, 101, 102, 103, 204, 5003] {
                let all: Vec<[u8; 5]> =
                    (0..len as u32 + 9).map(|i| [i.to_le_bytes(), [7; 4]].concat()[..5].try_into().unwrap()).collect();
                let from = device.upload(&all).unwrap();
                let mut found = vec![[9; 5]];
                staging.append(&from, 3..len + 3, &mut found).unwrap();
                assert!(found[0] == [9; 5] && found[1..] == all[3..len + 3], "{len} on {device}");
                assert!(staging.append(&from, 10..len + 10, &mut found).is_err());
                assert_eq!(found.len(), len + 1);
            }
        }
    }

    #[test]
    fn arrays_that_are_made_on_the_way_have_parts_of_whole_units() {
        for device in [Device::host(), Device::emulated()] {
            let staging = staging();
            for (len, unit) in
                [0, 1, 63, 64, 65, 700, 5003].into_iter().flat_map(|len| [1, 7, 64, 100].map(|unit| (len, unit)))
            {
                let mut to = device.upload(&vec![9_u64; len + 1]).unwrap();
                let make = |first: usize, part: &mut [u64]| {
                    assert!(
                        first.is_multiple_of(unit) && (part.len().is_multiple_of(unit) || first + part.len() == len)
                    );
                    (first as u64..).zip(part).for_each(|(i, to)| *to = i * i);
                };
                staging.upload_made(len, unit, &mut to, &make).unwrap();
                let expected = (0..len as u64).map(|i| i * i).chain([9]);
                assert!(to.to_vec().unwrap().into_iter().eq(expected), "{len} in units of {unit} on {device}");
            }
            let mut short = device.alloc::<u64>(300).unwrap();
            for len in [301, 5000] {
                assert!(staging.upload_made(len, 1, &mut short, &|_, part| part.fill(0)).is_err());
            }
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
                let mut found = Vec::new();
                let outcome = staging.upload(&data, &mut to).and_then(|()| staging.append(&to, 0..700, &mut found));
                let has_failed = device.inject(None).is_none();
                assert_eq!(outcome.is_err(), has_failed, "{:?}", kind(at));
                assert_eq!(found.is_empty(), has_failed, "{:?}", kind(at));
                staging.upload(&data, &mut to).unwrap();
                assert_eq!(staging.downloaded(&to, 0..700).unwrap(), data);
                if !has_failed {
                    break;
                }
            }
        }
    }
}
