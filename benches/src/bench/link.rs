//! What the links between devices can do at most.

use crate::bench::error::Result;
use crate::bench::session::Session;
use lanetree::runtime::PeerPart;
use lanetree::{Buffer, Device, Stream};

/// Bytes of each copy.
const BYTES: usize = 1 << 28;

/// An end of a link: what goes out, what comes in, and the streams of these copies.
struct End {
    out: Buffer<u64>,
    input: Buffer<u64>,
    streams: [Stream; 2],
}

/// Bytes that go in a millisecond from the first of several devices to the others, while as many come back: the fastest of a few, by
/// copies. `None` for one device.
pub(crate) fn link(session: &Session, devices: &[Device]) -> Result<Option<f64>> {
    let Some((first, others)) = devices.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Ok(None);
    };
    let words = match session.device.kind() {
        lanetree::DeviceKind::Cuda => BYTES / 8,
        _ => 1 << 10,
    };
    let end = |device: &Device| -> Result<End> {
        let streams = [device.stream()?, device.stream()?];
        Ok(End { out: device.alloc_zeroed(words)?, input: device.alloc_zeroed(words)?, streams })
    };
    let mut links = others.iter().map(|other| Ok((end(first)?, end(other)?))).collect::<Result<Vec<_>>>()?;
    let timing = session.time_on_cpu(
        &mut links,
        |_| (),
        |links| {
            for (one, other) in &mut *links {
                copy(&one.out, &one.streams[0], &mut other.input, &other.streams[1])?;
                copy(&other.out, &other.streams[0], &mut one.input, &one.streams[1])?;
            }
            let mut ends = links.iter().flat_map(|(one, other)| [one, other]);
            ends.try_for_each(|end| Ok(end.streams[1].synchronize()?))
        },
    )?;
    Ok(Some((links.len() * words * 8) as f64 / timing.min_ms))
}

/// Copies a whole buffer, in the order of a stream of its device.
fn copy(from: &Buffer<u64>, stream: &Stream, to: &mut Buffer<u64>, to_stream: &Stream) -> Result<()> {
    let range = 0..from.len();
    Ok(to.copy_from_peers(to_stream, &[PeerPart { from, range, stream, at: 0 }])?)
}
