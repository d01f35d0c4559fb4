//! Pairs from a file to a device that the CPU can't reach.

use crate::format::{Reader, WINDOW};
use crate::{Buffers, Result};
use lanetree_frame::{AnyKey, Device, Error, PinnedBuffer, Value};

/// Windows that are read at a time. With fewer pieces than the CPU has threads, some would have nothing to read.
const AT_ONCE: usize = 2 * WINDOW;

/// Reads and checks pairs into a device's buffers, for which there is room: the next ones are read while some are copied.
pub(crate) fn pairs<K: AnyKey, V: Value>(
    reader: &Reader<'_>,
    device: &Device,
    (keys, values): &mut Buffers<K, V>,
) -> Result<()> {
    let len = reader.pairs();
    let most = AT_ONCE.min(len);
    let slot = || -> Result<(PinnedBuffer<K>, PinnedBuffer<V>), lanetree_frame::runtime::Error> {
        Ok((device.pinned(most)?, device.pinned(most)?))
    };
    let (mut this, mut next) = (slot().map_err(Error::from)?, slot().map_err(Error::from)?);
    let stream = device.stream().map_err(Error::from)?;
    let mut last = None;
    for first in (0..len).step_by(AT_ONCE) {
        let count = most.min(len - first);
        // Waits for the copies from this slot.
        last = reader.read_window(first, (&mut this.0[..count], &mut this.1[..count]), last)?;
        keys.upload_async(&stream, first, &this.0, 0..count).map_err(Error::from)?;
        values.upload_async(&stream, first, &this.1, 0..count).map_err(Error::from)?;
        core::mem::swap(&mut this, &mut next);
    }
    reader.check_windows()?;
    Ok(stream.synchronize().map_err(Error::from)?)
}
