//! Elements of an array that have changed, on their way from main memory to a device.

use crate::launch::{THREADS, over};
use crate::parallel::*;
use crate::{Error, Result};
use bytemuck::Pod;
use core::ops::Range;
use lanetree_kernels_base::calls;
use lanetree_kernels_base::elements::PutElementsArgs;
use lanetree_runtime::{Buffer, Device, DeviceKind, PinnedBuffer, Stream};

/// Words of 8 bytes in 64 bytes: elements begin at such a boundary.
const LINE: usize = 8;

/// Most words of a parcel: a mebibyte, which keeps the bus busy for longer than the driver needs to send the next one.
const MOST_WORDS: usize = (1 << 20) / 8;

/// Parts of an array at most this many bytes apart are copied together: a copy of its own costs about as much as sending that many
/// more.
const GAP: u64 = 64 << 10;

/// Pinned memory for some elements, which a kernel reads across the bus and puts in their places; it grows to the largest
/// number of elements. Its stream is its own, so that it can be filled again before others have arrived.
#[derive(Debug)]
pub struct Parcel {
    stream: Stream,
    /// Numbers of elements, to a boundary of 64 bytes, and then the elements.
    words: PinnedBuffer<u64>,
}

/// An array that parcels go to.
#[derive(Debug)]
pub struct Goal<'a, T: Pod> {
    /// The array.
    pub array: &'a mut Buffer<T>,
    /// What parcels go through on the emulator, whose kernels reach only buffers. It grows to the largest one.
    pub emulated: &'a mut Buffer<u64>,
}

impl Parcel {
    /// # Errors
    /// [`Error::Runtime`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { stream: device.stream()?, words: device.pinned(0)? })
    }

    /// Bytes of pinned memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Most elements of `words` words of 8 bytes.
    pub const fn most(words: usize) -> usize {
        // A word has the numbers of two elements.
        (MOST_WORDS - LINE) * 2 / (2 * words + 1)
    }

    /// Fills it with elements of `words` words, at most [`Parcel::most`]: `write` gets each element's place among the
    /// numbers, and its words. Waits until what was in it before is in its place.
    ///
    /// # Errors
    /// [`Error::Runtime`] where there is no memory.
    pub fn fill(
        &mut self,
        numbers: impl ExactSizeIterator<Item = u32>,
        words: usize,
        mut write: impl FnMut(usize, &mut [u64]),
    ) -> Result<()> {
        let (head, count) = (Self::head(numbers.len()), numbers.len());
        if self.words.len() < head + count * words {
            self.words = self.stream.device().pinned((head + count * words).next_power_of_two())?;
        }
        let (head, elements) = self.words.split_at_mut(head);
        let places: &mut [u32] = bytemuck::cast_slice_mut(head);
        for (i, (number, element)) in numbers.zip(elements.chunks_mut(words)).enumerate() {
            places[i] = number;
            write(i, element);
        }
        Ok(())
    }

    /// Puts the first `count` elements that it was filled with on their way to their places; no two of them have one number.
    ///
    /// # Errors
    /// [`Error::Runtime`].
    ///
    /// # Safety
    /// The array has all places.
    pub unsafe fn put<T: Pod>(&self, count: usize, words: usize, goal: &mut Goal<'_, T>) -> Result<()> {
        let (stream, head, Goal { array, emulated }) = (&self.stream, Self::head(count), goal);
        let from = if stream.device().kind() == DeviceKind::Cuda {
            self.words.read_on(stream)?
        } else {
            if emulated.len() < self.words.len() {
                **emulated = stream.device().alloc(self.words.len())?;
            }
            emulated.upload_async(stream, 0, &self.words, 0..head + count * words)?;
            emulated.read_on(stream)?
        };
        let args = PutElementsArgs {
            numbers: from.cast(),
            elements: from.byte_add(head as u64 * 8),
            count: count as u32,
            words: words as u32,
            array: array.write_on(stream)?.cast(),
        };
        // SAFETY: numbers and elements lie in the parcel, and the array has a place for each; the addresses are for this stream.
        Ok(unsafe { over(stream, (count * words) as u64, 1, THREADS)?.run(calls::put_elements(&args)) }?)
    }

    /// Waits until all is in its place.
    ///
    /// # Errors
    /// [`Error::Runtime`].
    pub fn wait(&self) -> Result<()> {
        Ok(self.stream.synchronize()?)
    }

    /// Words of `count` numbers.
    const fn head(count: usize) -> usize {
        count.div_ceil(2 * LINE) * LINE
    }
}

/// Sends changed elements of arrays in main memory to copies on one device. It keeps its memory from batch to batch.
#[derive(Debug, Default)]
pub struct Sender {
    parcels: Vec<Parcel>,
    /// The emulator's.
    emulated: Option<Buffer<u64>>,
}

impl Sender {
    /// Bytes of pinned memory.
    pub fn bytes(&self) -> usize {
        self.parcels.iter().map(Parcel::bytes).sum()
    }

    /// Writes the elements with these numbers into a copy of the array, which nobody else uses; returns when they are there, and how many
    /// bytes were sent. The numbers ascend; they may stand there more than once. `elements_each` elements of `T` are one element
    /// that has a number.
    ///
    /// Elements near each other are copied together; many that are far apart are gathered in pinned memory, and a kernel puts them in
    /// their places.
    ///
    /// # Errors
    /// [`Error::Runtime`] from the device: some of the elements may be there.
    ///
    /// # Panics
    /// If a number is past the end of either array.
    pub fn send<T: Pod + Sync>(
        &mut self,
        elements: &[T],
        elements_each: usize,
        numbers: &[u64],
        to: &mut Buffer<T>,
    ) -> Result<u64> {
        let each = (size_of::<T>() * elements_each) as u64;
        let end = numbers.last().map_or(0, |last| (*last as usize + 1) * elements_each);
        assert!(end <= elements.len() && end <= to.len(), "element {end} of {} and {}", elements.len(), to.len());
        let (mut copies, mut copied) = (0, 0);
        for span in spans(numbers, each) {
            (copies, copied) = (copies + 1, copied + (span.end - span.start) * each);
        }
        // Two parcels at least.
        let gathered = numbers.len() as u64 * (each + 4) + 2 * GAP;
        let fits = each.is_multiple_of(8)
            && (1..MOST_WORDS as u64 / 4).contains(&(each / 8))
            && end as u64 <= u64::from(u32::MAX);
        if to.device().kind() != DeviceKind::Host && fits && gathered < copied + copies * GAP {
            return self.gather(bytemuck::cast_slice(elements), (each / 8) as usize, numbers, to);
        }
        for span in spans(numbers, each) {
            let span = span.start as usize * elements_each..span.end as usize * elements_each;
            to.copy_range_from(span.start, &elements[span])?;
        }
        Ok(copied)
    }

    /// [`Sender::send`] by parcels.
    fn gather<T: Pod>(&mut self, elements: &[u64], words: usize, numbers: &[u64], to: &mut Buffer<T>) -> Result<u64> {
        let device = to.device().clone();
        let mut emulated = match self.emulated.take() {
            Some(buffer) => buffer,
            None => device.alloc(0)?,
        };
        let most = numbers.len().div_ceil(2 * threads()).clamp(1, Parcel::most(words));
        let mut goal = Goal { array: to, emulated: &mut emulated };
        let mut sent = 0;
        for numbers in numbers.chunks(most * 2 * threads()) {
            while self.parcels.len() < numbers.len().div_ceil(most) {
                self.parcels.push(Parcel::new(&device)?);
            }
            let filling = self.parcels.par_iter_mut().zip(numbers.par_chunks(most));
            let counts: Vec<usize> = filling.try_map_collect(|(parcel, numbers): (&mut Parcel, &[u64])| {
                let mut distinct = crate::room::with_room::<u64>(numbers.len())?;
                distinct.extend_from_slice(numbers);
                distinct.dedup();
                let at = |i: usize| distinct[i] as usize;
                let write =
                    |i: usize, element: &mut [u64]| element.copy_from_slice(&elements[at(i) * words..][..words]);
                parcel.fill(distinct.iter().map(|number| *number as u32), words, write)?;
                Ok::<_, Error>(distinct.len())
            })?;
            for (parcel, count) in self.parcels.iter().zip(counts) {
                // SAFETY: both arrays have all elements. One that stands in two parcels is the same in both.
                unsafe { parcel.put(count, words, &mut goal)? };
                sent += (count * (words * 8 + 4)) as u64;
            }
        }
        self.parcels.iter().try_for_each(Parcel::wait)?;
        self.emulated = Some(emulated);
        Ok(sent)
    }
}

/// Numbers of changed elements, in ascending order, as the spans that are copied: elements with few others between them share
/// one.
fn spans(numbers: &[u64], bytes_each: u64) -> impl Iterator<Item = Range<u64>> {
    spans_within(numbers, GAP / bytes_each.max(1))
}

/// Elements with at most `gap` others between them share a span.
fn spans_within(numbers: &[u64], gap: u64) -> impl Iterator<Item = Range<u64>> {
    let near = move |a: &u64, b: &u64| b - a <= gap + 1;
    numbers.chunk_by(near).map(|span| span[0]..span[span.len() - 1] + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_far_apart_are_copied_apart() {
        let all =
            |numbers: &[u64], gap| spans_within(numbers, gap).map(|span| (span.start, span.end)).collect::<Vec<_>>();
        assert_eq!(all(&[], 3), []);
        assert_eq!(all(&[4], 3), [(4, 5)]);
        assert_eq!(all(&[0, 1, 1, 5, 10, 11], 3), [(0, 6), (10, 12)]);
        assert_eq!(all(&[0, 1, 5, 10, 11], 0), [(0, 2), (5, 6), (10, 12)]);
        assert_eq!(all(&[4, 4], 0), [(4, 5)]);
    }

    #[test]
    fn changed_elements_are_as_in_main_memory_and_others_as_they_were() -> Result<()> {
        for device in [Device::host(), Device::emulated()] {
            let mut sender = Sender::default();
            for (each, len) in [(1, 40_000), (3, 300_000), (16, 1 << 20)] {
                let elements: Vec<u64> = (0..len as u64).map(|i| i * 3 + 1).collect();
                let count = len / each;
                // One, neighbours, every 37th, all twice, none.
                let some: [Vec<u64>; 5] = [
                    vec![count as u64 - 1],
                    (5..40).collect(),
                    (0..count as u64).step_by(37).collect(),
                    (0..2 * count as u64).map(|i| i / 2).collect(),
                    vec![],
                ];
                for (numbers, parcels) in some.iter().zip([false, false, len > 1 << 18, false, false]) {
                    let mut to = device.upload(&vec![0_u64; len])?;
                    let sent = sender.send(&elements, each, numbers, &mut to)?;
                    let copied = to.to_vec()?;
                    let mut expected = vec![0; len];
                    for number in numbers {
                        let span = *number as usize * each..(*number as usize + 1) * each;
                        expected[span.clone()].copy_from_slice(&elements[span]);
                    }
                    if parcels && device.kind() != DeviceKind::Host {
                        assert_eq!(copied, expected);
                        assert_eq!(sent, numbers.len() as u64 * (each as u64 * 8 + 4));
                    } else {
                        // What lies between two is sent with them, as it is in main memory.
                        assert!(copied.iter().zip(&expected).zip(&elements).all(|((a, b), c)| a == b || a == c));
                        assert!(expected.iter().zip(&copied).all(|(wanted, is)| *wanted == 0 || wanted == is));
                    }
                }
            }
        }
        Ok(())
    }
}
