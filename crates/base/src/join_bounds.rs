//! What joins by ranges are made of: the bounds of probes, and the column of the probes' numbers.

use crate::error::{check_bounds, check_buffer};
use crate::launch::{THREADS, over};
use crate::parallel::*;
use crate::room::zeroed;
use crate::{Error, Result};
use lanetree_kernels_base::calls;
use lanetree_kernels_base::joins::{BoundsArgs, NumbersArgs, OPEN_HIGH, OPEN_LOW, inclusive};
use lanetree_kernels_base::rows::OUTPUTS;
use lanetree_layout::{AnyKey, KeyWord};
use lanetree_runtime::{Buffer, DeviceKind, Stream};
use lanetree_simt::WARP;

/// Elements of a task of the CPU's.
const TASK: usize = 1 << 14;

/// Which of a range's bounds belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Closed {
    /// `low <= key <= high` (the default).
    #[default]
    Both,
    /// `low <= key < high`.
    Left,
    /// `low < key <= high`.
    Right,
    /// `low < key < high`.
    Neither,
}

/// How the bounds of a join's probes become inclusive bounds of ranges.
#[derive(Clone, Copy, Debug)]
pub struct JoinBounds<K: AnyKey> {
    most: K::Bits,
    reach: K::Bits,
    open: u32,
}

impl<K: AnyKey> JoinBounds<K> {
    /// Of ranges with these bounds.
    pub fn of_ranges(closed: Closed) -> Self {
        let open = match closed {
            Closed::Both => 0,
            Closed::Left => OPEN_HIGH,
            Closed::Right => OPEN_LOW,
            Closed::Neither => OPEN_LOW | OPEN_HIGH,
        };
        Self { most: K::Bits::MIN, reach: K::Bits::MIN, open }
    }

    /// Of bands: keys at most so far away, within their group.
    ///
    /// # Errors
    /// [`Error::OptionValue`] for floats.
    pub fn of_bands(distance: u64) -> Result<Self> {
        if !K::HAS_DISTANCE {
            let allowed = "keys of integers, or a join by ranges: distances of floats are not measured";
            return Err(Error::OptionValue { what: "a band of float keys", value: distance.to_string(), allowed });
        }
        Ok(Self::within(Some(distance)))
    }

    /// Of the keys of a group, or of those at most so far away: as [`of_bands`](Self::of_bands), for keys that have distances if
    /// one is given.
    pub fn within(distance: Option<u64>) -> Self {
        // The low bits in which the keys of a group differ.
        let most = <K::Bits as KeyWord>::MAX.shr(K::Bits::BITS - K::GROUP_BITS);
        let reach = distance.map_or(most, |distance| {
            let reach = K::Bits::from_parts([distance, 0]);
            if reach.parts()[0] == distance { reach } else { most }
        });
        Self { most, reach, open: 0 }
    }

    /// Whether bounds stay as they are.
    pub fn are_inclusive(&self) -> bool {
        self.open == 0 && self.reach == K::Bits::MIN
    }

    fn of(&self, low: K, high: K) -> (K, K) {
        let (low, high) = inclusive(low.encode(), high.encode(), self.most, self.reach, self.open);
        (K::decode(low), K::decode(high))
    }

    /// The bounds of as many ranges as there are lows and highs.
    ///
    /// # Errors
    /// [`Error::BoundLengths`]; [`Error::Runtime`] if main memory has no room for them.
    pub fn on_host(&self, lows: &[K], highs: &[K]) -> Result<(Vec<K>, Vec<K>)> {
        check_bounds(lows.len(), highs.len())?;
        let (mut firsts, mut lasts) = (zeroed(lows.len())?, zeroed(lows.len())?);
        self.fill(lows, highs, &mut firsts, &mut lasts);
        Ok((firsts, lasts))
    }

    fn fill(&self, lows: &[K], highs: &[K], firsts: &mut [K], lasts: &mut [K]) {
        let out = firsts.par_chunks_mut(TASK).zip(lasts.par_chunks_mut(TASK));
        lows.par_chunks(TASK).zip(highs.par_chunks(TASK)).zip(out).for_each(|((lows, highs), (firsts, lasts))| {
            for (i, (first, last)) in firsts.iter_mut().zip(lasts).enumerate() {
                (*first, *last) = self.of(lows[i], highs[i]);
            }
        });
    }

    /// The bounds of as many ranges as there are lows and highs, in the stream's order. May return before it is done.
    ///
    /// # Errors
    /// [`Error::BoundLengths`]; [`Error::OutputLength`] for less room than ranges; [`Error::BatchTooLarge`]; [`Error::Runtime`] for
    /// buffers of another device than the stream's.
    pub fn on_stream(
        &self,
        stream: &Stream,
        lows: &Buffer<K>,
        highs: &Buffer<K>,
        firsts: &mut Buffer<K>,
        lasts: &mut Buffer<K>,
    ) -> Result<()> {
        check_bounds(lows.len(), highs.len())?;
        self.first_on_stream(stream, lows.len(), lows, highs, (firsts, lasts))
    }

    /// The bounds of the first `count` ranges, otherwise as [`on_stream`](Self::on_stream).
    ///
    /// # Errors
    /// As [`on_stream`](Self::on_stream); [`Error::OutputLength`] for fewer lows or highs.
    pub fn first_on_stream(
        &self,
        stream: &Stream,
        count: usize,
        lows: &Buffer<K>,
        highs: &Buffer<K>,
        (firsts, lasts): (&mut Buffer<K>, &mut Buffer<K>),
    ) -> Result<()> {
        check_buffer(stream.device(), "the lows' buffer", count, lows)?;
        check_buffer(stream.device(), "the highs' buffer", count, highs)?;
        check_buffer(stream.device(), "the scratch memory", count, firsts)?;
        check_buffer(stream.device(), "the scratch memory", count, lasts)?;
        if count == 0 {
            return Ok(());
        }
        if stream.device().kind() == DeviceKind::Host {
            if let (Some(lows), Some(highs), Some(firsts), Some(lasts)) =
                (lows.as_slice(), highs.as_slice(), firsts.as_mut_slice(), lasts.as_mut_slice())
            {
                self.fill(&lows[..count], &highs[..count], &mut firsts[..count], &mut lasts[..count]);
            }
            return Ok(());
        }
        let args = BoundsArgs::<K::Bits> {
            lows: lows.read_on(stream)?.cast(),
            highs: highs.read_on(stream)?.cast(),
            count: count as u64,
            out_lows: firsts.write_on(stream)?.cast(),
            out_highs: lasts.write_on(stream)?.cast(),
            open: self.open,
            padding: 0,
            reach: self.reach,
            most: self.most,
            flip: K::FLIP,
        };
        // SAFETY: the buffers were found to be long enough; the pointers are for this stream.
        unsafe { over(stream, count as u64, 1, THREADS)?.run(calls::bounds(&args))? };
        Ok(())
    }
}

/// Writes the probe column of a join: `numbers[j]` becomes the number of the probe of match `j`, for as many matches as `numbers`
/// has elements. The matches of probe `i`, of `probes` probes, are from `offsets[i]` to `offsets[i + 1]`; offsets ascend from 0. If
/// they don't, the numbers are unspecified, but are below `probes`. Runs in the stream's order and may return before it is done.
/// Allocates nothing.
///
/// ```
/// use lanetree::{Device, number_matches};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let (stream, offsets) = (device.stream()?, device.upload(&[0_u64, 2, 2, 3])?);
/// let mut numbers = device.alloc(3)?;
/// number_matches(&stream, &offsets, 3, &mut numbers)?;
/// assert_eq!(numbers.to_vec()?, [0, 0, 2]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::OutputLength`] for fewer offsets than one more than probes; [`Error::BatchTooLarge`]; [`Error::Runtime`] for buffers of
/// another device than the stream's.
pub fn number_matches(stream: &Stream, offsets: &Buffer<u64>, probes: usize, numbers: &mut Buffer<u64>) -> Result<()> {
    check_buffer(stream.device(), "the offsets' buffer", probes.saturating_add(1), offsets)?;
    check_buffer(stream.device(), "the buffer of the probes' numbers", 0, numbers)?;
    let capacity = numbers.len();
    if probes == 0 || capacity == 0 {
        return Ok(());
    }
    if stream.device().kind() == DeviceKind::Host {
        if let (Some(offsets), Some(numbers)) = (offsets.as_slice(), numbers.as_mut_slice()) {
            number_on_host(&offsets[..=probes], numbers);
        }
        return Ok(());
    }
    let args = NumbersArgs {
        offsets: offsets.read_on(stream)?,
        count: probes as u64,
        capacity: capacity as u64,
        numbers: numbers.write_on(stream)?,
    };
    let warps = (capacity as u64).div_ceil(OUTPUTS);
    // SAFETY: the buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, warps, WARP, THREADS)?.run(calls::numbers(&args))? };
    Ok(())
}

/// The number of each match's probe on the host, in parallel.
pub(crate) fn number_on_host(offsets: &[u64], numbers: &mut [u64]) {
    let probes = offsets.len() - 1;
    let total = usize::try_from(offsets[probes]).unwrap_or(usize::MAX).min(numbers.len());
    numbers[..total].par_chunks_mut(TASK).enumerate().for_each(|(task, numbers)| {
        let first = (task * TASK) as u64;
        let mut probe = offsets[..probes].partition_point(|&offset| offset <= first).saturating_sub(1);
        for (number, at) in numbers.iter_mut().zip(first..) {
            while probe + 1 < probes && offsets[probe + 1] <= at {
                probe += 1;
            }
            *number = probe as u64;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JoinRows;
    use lanetree_runtime::Device;

    #[test]
    fn probes_are_numbered_on_every_device_as_far_as_there_is_room() {
        for device in [Device::host(), Device::emulated()] {
            let stream = device.stream().unwrap();
            // As many rows as a warp reads the offsets of, and more, so that its outputs search.
            let mut sparse = vec![0; 20_000];
            [sparse[0], sparse[1], sparse[9_000], sparse[19_990]] = [70, 1, 100, 500];
            let mixed: Vec<u64> = (0..3000).map(|i| [4, 0, 0, 1, 2, 0, 9][i * i % 7]).collect();
            // Empty rows before all others, between, and after them; rows that end with a warp's outputs, or next to that.
            let empty_first: Vec<u64> = [0; 700].into_iter().chain([1, 0, 2]).chain([0; 700]).collect();
            let all = [&[][..], &[0], &[3], &[0, 0, 5, 0, 1], &[255, 1, 0, 0, 700, 0, 256, 3, 0], &[1; 1000]];
            let by_warps = [&[512][..], &[511], &[513, 0], &[511, 1, 0, 0, 512, 1], &[0, 513, 511, 0, 0, 1024, 3]];
            let more = [&[2000, 0, 0, 1][..], &[0, 1 << 20, 0, 5], &sparse, &mixed, &empty_first];
            for counts in all.into_iter().chain(by_warps).chain(more) {
                let mut offsets = vec![0_u64];
                offsets.extend(counts.iter().scan(0, |sum: &mut u64, count| {
                    *sum += count;
                    Some(*sum)
                }));
                let total = offsets[counts.len()] as usize;
                let matches = JoinRows { offsets, rows: vec![(); total] };
                let expected = matches.probes().unwrap();
                let offsets = device.upload(&matches.offsets).unwrap();
                for room in [total + 40, total, total / 2] {
                    let mut numbers = device.upload(&vec![u64::MAX; room]).unwrap();
                    number_matches(&stream, &offsets, counts.len(), &mut numbers).unwrap();
                    let (numbers, written) = (numbers.to_vec().unwrap(), room.min(total));
                    assert_eq!(numbers[..written], expected[..written], "{counts:?} on {device}");
                    assert!(numbers[written..].iter().all(|&number| number == u64::MAX), "{counts:?} on {device}");
                }
            }
            // More matches than 32 bits count, and room for few of them.
            let offsets = device.upload(&[0, 3, 3, 5 << 32, 9 << 32]).unwrap();
            let mut numbers = device.upload(&[u64::MAX; 1025]).unwrap();
            number_matches(&stream, &offsets, 4, &mut numbers).unwrap();
            let numbers = numbers.to_vec().unwrap();
            assert!(numbers[..3] == [0; 3] && numbers[3..].iter().all(|&number| number == 2), "on {device}");
            let error = number_matches(&stream, &device.alloc(4).unwrap(), 4, &mut device.alloc(1).unwrap());
            let text = "the offsets' buffer holds 4 elements, but 5 are needed; allocate at least 5";
            assert_eq!(error.unwrap_err().to_string(), text);
        }
    }

    /// Offsets are a caller's: whatever they are, only numbers of probes are written, and only where they belong.
    #[test]
    fn offsets_that_do_not_ascend_give_numbers_of_probes() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut all: Vec<Vec<u64>> = vec![
            vec![0, 600, 100, 1000],
            vec![0, u64::MAX, 1, 1000],
            vec![u64::MAX; 4],
            vec![900, 700, 500, 300],
            vec![5, 5, 5, 1000],
            vec![0, 512, 512, 0, 512, 1000],
            (0..40_000).rev().collect(),
        ];
        all.extend((0..20).map(|_| (0..2000).map(|_| random(3000)).chain([2500]).collect()));
        for device in [Device::host(), Device::emulated()] {
            let stream = device.stream().unwrap();
            for offsets in &all {
                let probes = offsets.len() - 1;
                let mut numbers = device.upload(&[u64::MAX; 1000]).unwrap();
                number_matches(&stream, &device.upload(offsets).unwrap(), probes, &mut numbers).unwrap();
                let written = (offsets[probes] as usize).min(1000);
                let numbers = numbers.to_vec().unwrap();
                assert!(numbers[..written].iter().all(|&number| number < probes as u64), "{offsets:?} on {device}");
                assert!(numbers[written..].iter().all(|&number| number == u64::MAX), "{offsets:?} on {device}");
            }
        }
    }

    /// What writes two numbers at once may not where these begin at no multiple of 16 bytes.
    #[test]
    fn probes_are_numbered_in_memory_that_begins_anywhere() {
        for device in [Device::host(), Device::emulated()] {
            let stream = device.stream().unwrap();
            let offsets = device.upload(&[0_u64, 2, 2, 600, 1000]).unwrap();
            for skipped in [0, 1] {
                let mut memory = vec![u128::MAX; 600];
                let words: &mut [u64] = bytemuck::cast_slice_mut(&mut memory);
                // SAFETY: the vector has 1001 elements from there on, and nothing else uses them before the buffer is
                // gone.
                let mut numbers = unsafe { device.buffer_from_raw(words[skipped..].as_mut_ptr(), 1001) }.unwrap();
                number_matches(&stream, &offsets, 4, &mut numbers).unwrap();
                numbers.into_raw().unwrap();
                let expected = |i| match i {
                    0..2 => 0,
                    2..600 => 2,
                    600..1000 => 3,
                    _ => u64::MAX,
                };
                assert!(words[..skipped].iter().all(|&word| word == u64::MAX), "on {device}, {skipped} skipped");
                let written = &words[skipped..];
                assert!((0..written.len()).all(|i| written[i] == expected(i)), "on {device}, {skipped} skipped");
            }
        }
    }
}
