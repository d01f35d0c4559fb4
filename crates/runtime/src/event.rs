//! Points in a stream's work: to wait for, and to measure between.

use crate::machine::RawEvent;
use crate::{Device, DeviceKind, Error, Result, Stream};
use core::ffi::c_void;
use core::fmt;
use core::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A point in a stream's work, once recorded. May be recorded again, which replaces the point.
pub struct Event {
    device: Device,
    raw: RawEvent,
    /// When it was last recorded, by the CPU's clock.
    recorded: Mutex<Option<Instant>>,
}

impl Event {
    pub(crate) fn new(device: &Device) -> Result<Self> {
        Ok(Self { device: device.clone(), raw: device.machine.create_event(true)?, recorded: Mutex::new(None) })
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The `CUevent`, for other libraries; null on the emulator and the host. It is valid for as long as the [`Event`] is.
    pub fn as_raw(&self) -> *mut c_void {
        if self.device.kind() == DeviceKind::Cuda { self.raw.0 } else { null_mut() }
    }

    pub(crate) fn raw(&self) -> RawEvent {
        self.raw
    }

    fn recorded(&self) -> Option<Instant> {
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the point after all work put into `stream` so far. Returns at once.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], and [`Error::Cuda`] from the driver.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.device.check_same(stream.device(), "recording an event")?;
        // SAFETY: both are of this device, and live.
        unsafe { self.device.machine.record_event(self.raw, stream.raw())? };
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }

    /// Waits until the work before the point is done; not at all if the event has not been recorded.
    ///
    /// # Errors
    /// [`Error::Cuda`], including the error of a kernel that failed meanwhile.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is one of this device, and lives.
        unsafe { self.device.machine.synchronize_event(self.raw) }
    }

    /// Milliseconds from `start` to `end`; waits for both. On a GPU by the GPU's clock, with a resolution of half a
    /// microsecond; on the emulator and the host by the CPU's clock, from record to record.
    ///
    /// # Errors
    /// [`Error::NotRecorded`], [`Error::WrongDevice`], and [`Error::Cuda`] from the driver.
    pub fn elapsed_ms(start: &Self, end: &Self) -> Result<f32> {
        let action = "measuring between two events";
        start.device.check_same(&end.device, action)?;
        let (Some(from), Some(to)) = (start.recorded(), end.recorded()) else {
            return Err(Error::NotRecorded { action });
        };
        // SAFETY: both are of this device, and live.
        let by_device = unsafe { start.device.machine.elapsed_ms(start.raw, end.raw)? };
        Ok(by_device.unwrap_or_else(|| (to.saturating_duration_since(from).as_secs_f64() * 1e3) as f32))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`; the event is gone.
        unsafe { self.device.machine.destroy_event(self.raw) };
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event[{}]", self.device)
    }
}
