//! Prefix sums and running maxima.

use super::TASK;
use super::check;
use super::input::Count;
use super::launch::{self, state_len};
use lanetree_base::parallel::*;
use lanetree_base::{Buffer, Device, Result, Stream};
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::scan::{CARRY_WORDS, ScanArgs, TILE};
use lanetree_layout::Word;
use lanetree_runtime::Call;

/// Scratch memory of [`exclusive_scan`] and [`inclusive_max_scan`]: 16 bytes for 4096 elements.
#[derive(Debug)]
pub struct ScanScratch {
    state: Buffer<u64>,
}

impl ScanScratch {
    /// Memory on `device` for scans of up to `count` elements, allocated now.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_base::Error::Runtime) if the device has no room.
    pub fn new(device: &Device, count: usize) -> Result<Self> {
        Ok(Self { state: device.alloc(Self::len(count))? })
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.state.bytes()
    }

    fn len(count: usize) -> usize {
        state_len((count as u64).div_ceil(TILE).max(1), CARRY_WORDS)
    }
}

/// Exclusive prefix sums: `offsets[i]` becomes the sum of `counts[..i]`, for `i` up to and including
/// `count`, so that the last one is the total. Sums are 64 bits wide, whatever the counts are, and wrap
/// around. In the stream's order; may return before it is done.
///
/// `counts` must have at least `count` elements, `offsets` one more, and `scratch` must be made for at least `count`
/// elements.
///
/// # Errors
/// [`OutputLength`](lanetree_base::Error::OutputLength) for a buffer that is too small;
/// [`Runtime`](lanetree_base::Error::Runtime) for a buffer of another device than the stream's, and from the launch;
/// [`BatchTooLarge`](lanetree_base::Error::BatchTooLarge) from 2^43 elements on.
pub fn exclusive_scan<'a, T: Word>(
    stream: &Stream,
    counts: &Buffer<T>,
    count: impl Into<Count<'a>>,
    offsets: &mut Buffer<u64>,
    scratch: &mut ScanScratch,
) -> Result<()> {
    let count = count.into();
    check::count(stream, count)?;
    check::buffer(stream, "the counts' buffer", count.at_most(), counts)?;
    check::buffer(stream, "the offsets' buffer", count.at_most().saturating_add(1), offsets)?;
    if check::is_host(stream) {
        let len = count.reached();
        let (counts, offsets) = (counts.as_slice().unwrap_or(&[]), offsets.as_mut_slice().unwrap_or(&mut []));
        let total = |counts: &[T]| counts.iter().fold(0, |sum: u64, count| sum.wrapping_add(count.widen()));
        let scan = |before: u64, counts: &[T], offsets: &mut [u64]| {
            let mut sum = before;
            for (offset, count) in offsets.iter_mut().zip(counts) {
                *offset = sum;
                // Overflows like the kernels do.
                sum = sum.wrapping_add(count.widen());
            }
            sum
        };
        offsets[len] = in_parts(&counts[..len], &mut offsets[..len], total, u64::wrapping_add, scan);
        return Ok(());
    }
    run(stream, counts, count, offsets, scratch, calls::exclusive_sum)
}

/// Running maxima: `maxima[i]` becomes the largest of `words[..=i]`, for `i` below `count`. If `words[i]` is `i + 1`
/// where a condition holds and 0 elsewhere, then `maxima[i]` is one more than the last index up to `i` where it holds;
/// 0 if there is none. In the stream's order; may return before it is done.
///
/// `words` and `maxima` must have at least `count` elements, and `scratch` must be made for that many.
///
/// # Errors
/// As [`exclusive_scan`].
pub fn inclusive_max_scan<'a, T: Word>(
    stream: &Stream,
    words: &Buffer<T>,
    count: impl Into<Count<'a>>,
    maxima: &mut Buffer<T>,
    scratch: &mut ScanScratch,
) -> Result<()> {
    let count = count.into();
    check::count(stream, count)?;
    check::buffer(stream, "the words' buffer", count.at_most(), words)?;
    check::buffer(stream, "the maxima's buffer", count.at_most(), maxima)?;
    if check::is_host(stream) {
        let len = count.reached();
        let (words, maxima) = (words.as_slice().unwrap_or(&[]), maxima.as_mut_slice().unwrap_or(&mut []));
        let largest = |words: &[T]| words.iter().copied().max().unwrap_or(T::MIN);
        let scan = |before: T, words: &[T], maxima: &mut [T]| {
            let mut largest = before;
            for (maximum, &word) in maxima.iter_mut().zip(words) {
                largest = largest.max(word);
                *maximum = largest;
            }
            largest
        };
        in_parts(&words[..len], &mut maxima[..len], largest, T::max, scan);
        return Ok(());
    }
    run(stream, words, count, maxima, scratch, calls::inclusive_max)
}

/// Scans in parts, if there is enough for two: first the total of each part, then each part with the totals before it.
/// Returns the overall total.
pub(super) fn in_parts<I: Sync, O: Copy + Default + Send + Sync>(
    input: &[I],
    output: &mut [O],
    total: impl Fn(&[I]) -> O + Sync,
    combine: impl Fn(O, O) -> O,
    scan: impl Fn(O, &[I], &mut [O]) -> O + Sync,
) -> O {
    if input.len() <= 2 * TASK {
        return scan(O::default(), input, output);
    }
    let mut totals: Vec<O> = input.par_chunks(TASK).map(&total).collect();
    let mut before = O::default();
    for total in &mut totals {
        let own = core::mem::replace(total, before);
        before = combine(before, own);
    }
    let parts = input.par_chunks(TASK).zip(output.par_chunks_mut(TASK)).zip(totals);
    parts.for_each(|((input, output), before)| {
        scan(before, input, output);
    });
    before
}

fn run<I: Word, O: Word>(
    stream: &Stream,
    input: &Buffer<I>,
    count: Count<'_>,
    output: &mut Buffer<O>,
    scratch: &mut ScanScratch,
    chooser: impl for<'a> FnOnce(&'a ScanArgs<I, O>) -> Call<'a>,
) -> Result<()> {
    check::buffer(stream, "the scratch memory", ScanScratch::len(count.at_most()), &scratch.state)?;
    let launch = launch::tiles(stream, count.at_most(), TILE)?;
    launch::reset(launch, &mut scratch.state, CARRY_WORDS)?;
    let args = ScanArgs {
        input: input.read_on(stream)?,
        count: count.argument(stream)?,
        state: scratch.state.write_on(stream)?,
        output: output.write_on(stream)?,
    };
    // SAFETY: the callers check input and output, and the scratch memory was checked here; every pointer is for this
    // stream; the callers' choosers name a scan of these arguments.
    Ok(unsafe { launch.run(chooser(&args)) }?)
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{devices, is_thorough, message, poisoned, rng, stream, written};
    use super::*;
    use rand::Rng;

    const COUNTS: [usize; 12] = [0, 1, 2, 63, 64, 65, 511, 4095, 4096, 4097, 9000, 70_001];

    fn prefix_sums<T: Word>(shift: u32) {
        for device in devices() {
            let stream = stream(&device);
            let mut scratch = ScanScratch::new(&device, 70_001).unwrap();
            for count in COUNTS.into_iter().filter(|&count| is_thorough(&device) || count > 4000) {
                let mut rng = rng(count);
                let words: Vec<T> = (0..count + 3).map(|_| T::truncate(rng.next_u64() >> shift)).collect();
                let mut offsets = poisoned(&device, count + 4);
                exclusive_scan(&stream, &device.upload(&words).unwrap(), count, &mut offsets, &mut scratch).unwrap();
                let mut expected = vec![0_u64];
                for word in &words[..count] {
                    expected.push(expected.last().unwrap().wrapping_add(word.widen()));
                }
                assert!(written(&offsets, count + 1) == expected, "{count} counts on {device}");
            }
        }
    }

    #[test]
    fn prefix_sums_of_any_length_on_every_device() {
        prefix_sums::<u32>(0);
        prefix_sums::<u64>(24);
    }

    #[test]
    fn prefix_sums_wrap_around() {
        prefix_sums::<u64>(0);
    }

    fn running_maxima<T: Word>() {
        for device in devices() {
            let stream = stream(&device);
            for count in COUNTS.into_iter().filter(|&count| is_thorough(&device) || count > 4000) {
                let mut rng = rng(count);
                let mark =
                    |i: usize| if rng.next_u32().is_multiple_of(1000) { T::truncate(i as u64 + 1) } else { T::MIN };
                let mut words: Vec<T> = (0..count).map(mark).collect();
                if let Some(word) = words.get_mut(count / 2) {
                    *word = T::truncate(T::MAX.widen() - 7);
                }
                let mut maxima = poisoned(&device, count + 3);
                let mut scratch = ScanScratch::new(&device, count).unwrap();
                inclusive_max_scan(&stream, &device.upload(&words).unwrap(), count, &mut maxima, &mut scratch).unwrap();
                let expected: Vec<T> = words
                    .iter()
                    .scan(T::MIN, |largest, &word| {
                        *largest = word.max(*largest);
                        Some(*largest)
                    })
                    .collect();
                assert!(written(&maxima, count) == expected, "{count} words on {device}");
            }
        }
    }

    #[test]
    fn running_maxima_of_any_length_on_every_device() {
        running_maxima::<u32>();
        running_maxima::<u64>();
    }

    #[test]
    fn a_count_may_be_on_the_device() {
        for device in devices() {
            let (stream, counts) = (stream(&device), device.upload(&[1_u32; 9000]).unwrap());
            let mut scratch = ScanScratch::new(&device, 9000).unwrap();
            for (found, len) in [(0, 0), (1, 1), (4096, 4096), (5000, 5000), (u64::MAX, 9000)] {
                let count = Count::Device { count: &device.upload(&[found, 7]).unwrap(), at_most: 9000 };
                let mut offsets = poisoned(&device, 9001);
                exclusive_scan(&stream, &counts, count, &mut offsets, &mut scratch).unwrap();
                assert_eq!(written(&offsets, len + 1), (0..=len as u64).collect::<Vec<_>>(), "{found} on {device}");
            }
        }
    }

    #[test]
    fn short_buffers_are_refused() {
        for device in devices() {
            let stream = stream(&device);
            let (counts, none) = (device.upload(&[1_u64; 4]).unwrap(), device.alloc::<u64>(0).unwrap());
            let (mut offsets, mut enough) = (device.alloc(4).unwrap(), device.alloc(5).unwrap());
            let mut scratch = ScanScratch::new(&device, 4).unwrap();
            assert_eq!(
                message(exclusive_scan(&stream, &counts, 4, &mut offsets, &mut scratch)),
                "the offsets' buffer holds 4 elements, but 5 are needed; allocate at least 5"
            );
            let count = Count::Device { count: &none, at_most: 4 };
            assert_eq!(
                message(exclusive_scan(&stream, &counts, count, &mut enough, &mut scratch)),
                "the count's buffer holds 0 elements, but 1 is needed; allocate at least 1"
            );
        }
    }
}
