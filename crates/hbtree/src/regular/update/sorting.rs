//! Batches of changes that the device sorts, and whose leaves it finds: the paper's future work ("employing GPU cycles in
//! support of parallel update query execution").

use crate::device::Descending;
use crate::options::DeviceSearch;
use crate::sorting::Sorting;
use crate::structure::InnerOnDevice;
use lanetree_frame::parallel::*;
use lanetree_frame::{Device, Result};
use lanetree_layout::{Key, KeyWord};
use lanetree_primitives::radix_argsort;
use lanetree_simt::Global;

/// Keys that one task writes at a time.
const TASK: usize = 1 << 12;

/// A batch in the order of its keys: the place that each had in the batch, with equal keys in the batch's order, and
/// the leaf of each.
#[derive(Clone, Copy)]
pub(super) struct Sorted<'a> {
    pub(super) order: &'a [u32],
    pub(super) leaves: &'a [u32],
}

/// Sorts a batch of at least one key and at most 2^32, and descends with it. `memory` is the previous batch's, if there
/// was one; after an error it is none, or usable as before.
///
/// # Errors
/// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room, and from its driver.
pub(super) fn sort_on_device<'a, K: Key, C: InnerOnDevice<K>>(
    memory: &'a mut Option<Sorting<K>>,
    device: &Device,
    copy: &C,
    count: usize,
    key: impl Fn(usize) -> K + Sync,
) -> Result<Sorted<'a>> {
    if memory.as_ref().is_none_or(|memory| memory.keys.len() < count) {
        // The old memory first: there may be no room for both.
        *memory = None;
        *memory = Some(Sorting::new(device, count.next_power_of_two())?);
    }
    let memory = memory.as_mut().expect("made just now");
    let Sorting { stream, keys, order, leaves, device_keys, sorted, device_order, device_leaves, scratch } = memory;
    let own = &mut keys[..count];
    own.par_iter_mut().with_min_len(TASK).enumerate().for_each(|(i, own)| *own = key(i));
    device_keys.upload_async(stream, 0, keys, 0..count)?;
    radix_argsort(stream, device_keys, count, 0..K::Bits::BITS, sorted, device_order, scratch)?;
    // The order is on its way back during the descent, if the device can do both.
    device_order.download_async(stream, 0..count, order, 0)?;
    let mut scratch = C::scratch(device, count)?;
    let batch = Descending {
        queries: sorted.read_on(stream)?.cast(),
        nodes: Global::null(),
        from: 0,
        count,
        leaves: device_leaves.write_on(stream)?,
    };
    // SAFETY: the buffers have room for the batch, and the addresses are for this stream.
    unsafe { copy.launch(stream, DeviceSearch::Ballot, &mut scratch, batch)? };
    device_leaves.download_async(stream, 0..count, leaves, 0)?;
    stream.synchronize()?;
    Ok(Sorted { order: &order[..count], leaves: &leaves[..count] })
}
