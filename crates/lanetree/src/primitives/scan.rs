//! Exclusive prefix sums.

use crate::error::same_device;
use crate::{Buffer, Device, Error, Result, Stream};
use lanetree_kernels_primitives::scan::{ScanArgs, SumOffsets, THREADS, TILE, TileSums, Tiles};
use lanetree_runtime::DeviceKind;
use lanetree_simt::{Instance, LaunchShape};

/// Scratch memory of [`exclusive_scan`]: its bytes are an 2048th part of the counts'.
#[derive(Debug)]
pub struct ScanScratch {
    sums: Buffer<u64>,
}

impl ScanScratch {
    /// Enough for `count` counts.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room.
    pub fn new(device: &Device, count: usize) -> Result<Self> {
        Ok(Self { sums: device.alloc(count.div_ceil(TILE as usize))? })
    }
}

/// Exclusive prefix sums: `offsets[i]` becomes the sum of `counts[..i]`, for `i` up to and including
/// `count`, so that the last one is the total. In the stream's order; may return before it is done.
///
/// `counts` must have at least `count` elements, `offsets` one more, and `scratch` be made for as many.
///
/// # Errors
/// [`Error::OutputLength`] for a buffer that is too small; [`Error::Runtime`] for a buffer of another
/// device than the stream's, and from the launch.
pub fn exclusive_scan(
    stream: &Stream,
    counts: &Buffer<u64>,
    count: usize,
    offsets: &mut Buffer<u64>,
    scratch: &mut ScanScratch,
) -> Result<()> {
    let tiles = count.div_ceil(TILE as usize);
    for (what, expected, found, device) in [
        ("the counts", count, counts.len(), counts.device()),
        ("the offsets", count.saturating_add(1), offsets.len(), offsets.device()),
        ("the scratch memory", tiles, scratch.sums.len(), scratch.sums.device()),
    ] {
        if found < expected {
            return Err(Error::OutputLength { what, expected, found });
        }
        same_device(stream.device(), device, what)?;
    }
    if stream.device().kind() == DeviceKind::Host {
        let (counts, offsets) = (counts.as_slice().unwrap_or(&[]), offsets.as_mut_slice().unwrap_or(&mut []));
        let mut sum = 0_u64;
        for (offset, &count) in offsets.iter_mut().zip(&counts[..count]) {
            *offset = sum;
            // As the kernels do, should it overflow.
            sum = u64::wrapping_add(sum, count);
        }
        offsets[count] = sum;
        return Ok(());
    }
    let args = ScanArgs {
        counts: counts.global(),
        count: count as u64,
        sums: scratch.sums.global_mut(),
        offsets: offsets.global_mut(),
    };
    launch::<TileSums>(stream, tiles, &args)?;
    launch::<SumOffsets>(stream, 1, &args)?;
    launch::<Tiles>(stream, tiles, &args)
}

fn launch<I: Instance<Args = ScanArgs>>(stream: &Stream, blocks: usize, args: &ScanArgs) -> Result<()> {
    if blocks == 0 {
        return Ok(());
    }
    let blocks = u32::try_from(blocks).map_err(|_| Error::BatchTooLarge { queries: args.count as usize })?;
    let shape = LaunchShape { blocks, threads: THREADS, dynamic_shared: 0 };
    // SAFETY: the buffers are as long as the kernels ask, checked by the caller; dropping one waits.
    Ok(unsafe { stream.launch::<I>(shape, args) }?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_sums_of_any_length_on_every_device() {
        for device in [Device::host(), Device::emulated()] {
            let stream = device.stream().unwrap();
            for count in [0, 1, 255, 256, 257, 2047, 2048, 2049, 5000] {
                let counts: Vec<u64> = (0..count as u64).map(|i| (i * 7919) % 13 + ((i % 5) << 40)).collect();
                let mut offsets = device.alloc(count + 1).unwrap();
                let mut scratch = ScanScratch::new(&device, count).unwrap();
                exclusive_scan(&stream, &device.upload(&counts).unwrap(), count, &mut offsets, &mut scratch).unwrap();
                let mut expected = vec![0];
                for n in &counts {
                    expected.push(expected.last().unwrap() + n);
                }
                assert_eq!(offsets.to_vec().unwrap(), expected, "{count} counts on {device}");
            }
        }
    }

    #[test]
    fn short_buffers_are_refused() {
        let device = Device::host();
        let stream = device.stream().unwrap();
        let counts = device.upload(&[1_u64; 4]).unwrap();
        let mut offsets = device.alloc(4).unwrap();
        let mut scratch = ScanScratch::new(&device, 4).unwrap();
        let error = exclusive_scan(&stream, &counts, 4, &mut offsets, &mut scratch).unwrap_err();
        assert_eq!(error.to_string(), "the offsets has room for 4 elements, and 5 are needed");
    }
}
