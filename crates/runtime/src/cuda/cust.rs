//! Lanetree and cust in one program: the same GPUs, contexts, streams and memory.
//!
//! | from cust | to cust |
//! |---|---|
//! | [`device`]: the [`Device`] of a `Context` | [`context`]: the `Context` of a [`Device`] |
//! | [`stream`]: a `cust::stream::Stream` as a [`Stream`] | |
//! | [`buffer`]: a `DeviceBuffer` as a [`Buffer`], for good | [`into_device_buffer`]: a [`Buffer`] as a `DeviceBuffer`, for good |
//! | [`Device::buffer_from_raw`]: memory that stays a `DeviceBuffer`'s | [`read_on`], [`write_on`]: a [`Buffer`]'s memory, for work in one stream |
//!
//! cust works on the calling thread's current context. Every operation of Lanetree makes the device's primary context
//! current, and leaves it so; on a thread that has none yet, `CurrentContext::set_current` does.
//!
//! What cust queues in a stream that it shares is ordered with Lanetree's work over the same buffers, if it is given their
//! addresses by [`read_on`] and [`write_on`]. cust's *synchronous* copies wait for no stream of Lanetree's: wait for
//! the stream before them.
//!
//! ```no_run
//! use cust::context::CurrentContext;
//! use cust::memory::{AsyncCopyDestination, DeviceBuffer, DeviceSlice};
//! use cust::stream::{Stream, StreamFlags};
//! # mod lanetree { pub use lanetree_runtime::{self as runtime, *}; }
//! use lanetree::Device;
//! use lanetree::runtime::cust as shared;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::cuda(0)?;
//! let context = shared::context(&device)?;
//! CurrentContext::set_current(&context)?;
//!
//! // A stream for both.
//! let theirs = Arc::new(Stream::new(StreamFlags::DEFAULT, None)?);
//! let stream = shared::stream(&device, theirs.clone())?;
//!
//! // cust's memory becomes a buffer, without a copy.
//! let mut keys = shared::buffer(&device, DeviceBuffer::from_slice(&[3_u64, 1, 2])?)?;
//! keys.fill_zero(&stream)?;
//!
//! // cust writes it next, and then Lanetree reads what it has written.
//! let (at, len) = (shared::write_on(&mut keys, &stream)?, keys.len());
//! // SAFETY: the address is for work in this stream, which is put there before the buffer is used again.
//! unsafe { DeviceSlice::from_raw_parts(at, len).async_copy_from(&[4_u64, 5, 6], &theirs)? };
//! assert_eq!(keys.to_vec()?, [4, 5, 6]);
//!
//! // And back.
//! let memory: DeviceBuffer<u64> = shared::into_device_buffer(keys)?;
//! assert_eq!(memory.as_host_vec()?, [4, 5, 6]);
//! # Ok(())
//! # }
//! ```

use super::Cuda;
use super::sys::Driver;
use crate::driver_error::Action;
use crate::machine::{Machine, RawStream};
use crate::{Buffer, Device, Error, Result, Stream};
use ::cust::context::Context;
use ::cust::memory::{DeviceBuffer, DeviceCopy, DevicePointer};
use bytemuck::Pod;
use core::any::Any;
use core::ptr::null_mut;
use std::sync::Arc;

/// The device of a context: the same that [`Device::cuda`] gives for its GPU. Makes the context the calling thread's
/// current one. The context may be dropped; the device holds on to the GPU's primary context, which it is, by itself.
///
/// # Errors
/// As [`Device::cuda`].
pub fn device(context: &Context) -> Result<Device> {
    let driver = Driver::get()?;
    let finding = || Action::Other("looking for the GPU of a cust context".into());
    let (mut wanted, mut count) = (0, 0);
    // SAFETY: cust's contexts are live while there is a value of them.
    driver.check(unsafe { driver.cuCtxSetCurrent(context.as_raw().cast()) }, finding)?;
    // SAFETY: the pointers of these calls are valid for them.
    driver.check(unsafe { driver.cuCtxGetDevice(&raw mut wanted) }, finding)?;
    // SAFETY: as above.
    driver.check(unsafe { driver.cuDeviceGetCount(&raw mut count) }, finding)?;
    for ordinal in 0..count {
        let mut known = 0;
        // SAFETY: as above.
        driver.check(unsafe { driver.cuDeviceGet(&raw mut known, ordinal) }, finding)?;
        if known == wanted {
            return Device::cuda(ordinal as u32);
        }
    }
    // The driver does not say so of a context that it has made current.
    Err(driver.error(101, finding()))
}

/// The primary context of a device, retained once more, and made the calling thread's current one.
///
/// # Errors
/// [`Error::NotAGpu`] of the host and the emulator; [`Error::Cuda`].
pub fn context(device: &Device) -> Result<Context> {
    let gpu = gpu(device, "giving cust the context of a device")?;
    // A newer driver's codes come out here, not in cust, whose enum lacks them.
    gpu.enter()?;
    let retaining = || gpu.doing("retaining the primary context of");
    Context::new(gpu.primary.cust()).map_err(|error| gpu.driver.error(error as i32, retaining()))
}

/// A stream of cust's as one of Lanetree's, which keeps it alive. For cust to launch into it, keep a clone of the
/// `Arc`. Otherwise like [`Device::stream_from_raw`]: what either puts into it runs in the order of the calls.
///
/// # Errors
/// [`Error::NotAGpu`] of the host and the emulator; [`Error::WrongDevice`] for a stream of another GPU or context;
/// [`Error::Cuda`].
pub fn stream(device: &Device, stream: Arc<::cust::stream::Stream>) -> Result<Stream> {
    const ACTION: &str = "sharing a stream of cust's";
    let gpu = gpu(device, ACTION)?;
    gpu.enter()?;
    let (raw, mut context) = (stream.as_inner(), null_mut());
    // SAFETY: cust's streams are live while there is a value of them; the pointer is valid for the call.
    let code = unsafe { gpu.driver.cuStreamGetCtx(raw.cast(), &raw mut context) };
    gpu.check(code, || gpu.doing("looking for the context of a stream on"))?;
    if context != gpu.primary.context() {
        let actual = "another GPU or context".to_owned();
        return Err(Error::WrongDevice { action: ACTION, expected: gpu.description(), actual });
    }
    Stream::foreign(device, RawStream(raw.cast()), Some(stream))
}

/// cust's memory as a buffer, which owns it from here on; nothing is copied. Waits for all work on the device, since
/// cust's copies may return before theirs is done. A pool of the handle has no part in it.
///
/// For memory that is to stay cust's, see [`Device::buffer_from_raw`], with the address of
/// `memory.as_device_ptr().as_mut_ptr()`.
///
/// # Errors
/// [`Error::NotAGpu`] of the host and the emulator; [`Error::WrongDevice`] for memory of another GPU or context;
/// [`Error::Misaligned`], which no allocation of cust's is; [`Error::Cuda`], among others the error of a kernel that failed
/// meanwhile. The memory is freed then.
pub fn buffer<T: Pod + DeviceCopy>(device: &Device, memory: DeviceBuffer<T>) -> Result<Buffer<T>> {
    let gpu = gpu(device, "making a buffer of cust's memory")?;
    gpu.synchronize()?;
    let (start, len) = (memory.as_device_ptr().as_mut_ptr(), memory.len());
    // SAFETY: memory of cust's, which is freed by `cuMemFree`. The value had it to itself, and is not reused; all work
    // over it is done.
    let buffer = unsafe { Buffer::given(device, start, len)? };
    core::mem::forget(memory);
    Ok(buffer)
}

/// A buffer's memory as cust's, which owns it from here on; nothing is copied. Waits for the streams that use the buffer.
///
/// # Errors
/// [`Error::NotAGpu`] of the host and the emulator; [`Error::NotOwned`] for memory of a [`Pool`](crate::Pool), or of
/// [`Device::buffer_from_raw`]; [`Error::Cuda`], among others the error of a kernel that failed meanwhile. The buffer is
/// dropped then.
pub fn into_device_buffer<T: Pod + DeviceCopy>(buffer: Buffer<T>) -> Result<DeviceBuffer<T>> {
    gpu(buffer.device(), "giving cust the memory of a buffer")?;
    if buffer.is_foreign() {
        let reason = "it is the caller's, lent to the buffer; use it as what it was";
        return Err(Error::NotOwned { device: buffer.device().to_string(), reason });
    }
    let len = buffer.len();
    let start = buffer.into_raw()?;
    // SAFETY: allocated by `cuMemAlloc`, as cust's is, with these elements; nobody else has it.
    Ok(unsafe { DeviceBuffer::from_raw_parts(DevicePointer::from_raw(start.addr() as u64), len) })
}

/// The address of a buffer, for work that cust puts into `stream` next and that reads: [`Buffer::lend_on`]. Null if the
/// buffer is empty. A slice of cust's comes of it by `DeviceSlice::from_raw_parts`, with the buffer's length.
///
/// # Errors
/// [`Error::NotAGpu`] of the host and the emulator; otherwise like [`Buffer::read_on`].
pub fn read_on<T: Pod + DeviceCopy>(buffer: &Buffer<T>, stream: &Stream) -> Result<DevicePointer<T>> {
    gpu(buffer.device(), "lending cust a buffer")?;
    Ok(DevicePointer::from_raw(buffer.lend_on(stream)?.addr() as u64))
}

/// The address of a buffer, for work that cust puts into `stream` next and that writes, or reads and writes:
/// [`Buffer::lend_mut_on`]. Otherwise like [`read_on`].
///
/// # Errors
/// As [`read_on`].
pub fn write_on<T: Pod + DeviceCopy>(buffer: &mut Buffer<T>, stream: &Stream) -> Result<DevicePointer<T>> {
    gpu(buffer.device(), "lending cust a buffer")?;
    Ok(DevicePointer::from_raw(buffer.lend_mut_on(stream)?.addr() as u64))
}

fn gpu<'a>(device: &'a Device, action: &'static str) -> Result<&'a Cuda> {
    let machine: &dyn Any = &*device.machine;
    machine.downcast_ref::<Cuda>().ok_or_else(|| Error::NotAGpu { action, device: device.to_string() })
}
