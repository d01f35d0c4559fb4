//! What the bus between host and device can do at most.

use crate::bench::error::Result;
use crate::bench::session::Session;
use bytemuck::Pod;
use lanetree::DeviceKind;

/// Milliseconds that the bus takes for `there` elements to the device and `back` elements from it, both at once, from
/// and to page-locked memory: the fastest of a few. `None` without a bus.
pub(crate) fn bus<A: Pod, B: Pod>(session: &Session, there: usize, back: usize) -> Result<Option<f64>> {
    if session.device.kind() != DeviceKind::Cuda {
        return Ok(None);
    }
    let device = &session.device;
    let (input, output) = (device.pinned::<A>(there)?, device.pinned::<B>(back)?);
    let buffers = (device.alloc::<A>(there)?, device.alloc_zeroed::<B>(back)?);
    let mut state = (buffers, output, device.stream()?);
    let timing = session.time_on_cpu(
        &mut state,
        |_| (),
        |((to, from), output, second)| {
            to.upload_async(&session.stream, 0, &input, 0..there)?;
            from.download_async(second, 0..back, output, 0)?;
            session.stream.synchronize()?;
            Ok(second.synchronize()?)
        },
    )?;
    Ok(Some(timing.min_ms))
}
