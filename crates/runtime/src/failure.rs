//! Failures that tests inject into an emulated device.

use crate::{Error, Result};

/// A failure to inject into an emulated device, for tests of error handling: see [`Device::inject`]. Each number counts
/// from 0: with 0 the next one fails.
///
/// [`Device::inject`]: crate::Device::inject
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// This launch is rejected: nothing of it runs, and [`Stream::launch`](crate::Stream::launch) returns the error.
    /// The device continues to work.
    Launch(u64),
    /// This launch returns success, but only half of its blocks run (none of a single one). From then on every call on
    /// the device except freeing memory fails, as on a GPU after an illegal access, until the next
    /// [`Device::inject`](crate::Device::inject).
    Kernel(u64),
    /// This copy to, from or within device memory, or zeroing of it, is not done and returns an error. The device
    /// continues to work.
    Transfer(u64),
    /// This allocation, of device or pinned memory, finds no room. The device continues to work.
    Allocation(u64),
}

/// The failure that is still to come, and what has failed.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    next: Option<Failure>,
    /// The kernel that has failed, if any, and with it the device.
    failed: Option<&'static str>,
}

/// What becomes of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Runs,
    /// Half of its blocks run, rounded down.
    IsCutShort,
}

impl Failures {
    /// Replaces the injected failure, and returns the old one if it was still to come; repairs the device.
    pub(crate) fn inject(&mut self, failure: Option<Failure>) -> Option<Failure> {
        self.failed = None;
        core::mem::replace(&mut self.next, failure)
    }

    /// # Errors
    /// [`Error::Injected`] once a kernel has failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.map_or(Ok(()), |what| Err(Error::Injected { what }))
    }

    /// Counts a launch.
    ///
    /// # Errors
    /// As [`Failures::check`], and for a launch that is to be refused.
    pub(crate) fn launch(&mut self, kernel: &'static str) -> Result<Fate> {
        self.check()?;
        match &mut self.next {
            Some(Failure::Launch(0)) => {
                self.next = None;
                return Err(Error::Injected { what: kernel });
            }
            Some(Failure::Kernel(0)) => {
                (self.next, self.failed) = (None, Some(kernel));
                return Ok(Fate::IsCutShort);
            }
            Some(Failure::Launch(before) | Failure::Kernel(before)) => *before -= 1,
            _ => {}
        }
        Ok(Fate::Runs)
    }

    /// Counts a copy or a zeroing.
    ///
    /// # Errors
    /// As [`Failures::check`], and for one that is to fail.
    pub(crate) fn transfer(&mut self) -> Result<()> {
        self.check()?;
        match &mut self.next {
            Some(Failure::Transfer(0)) => {
                self.next = None;
                return Err(Error::Injected { what: "a transfer" });
            }
            Some(Failure::Transfer(before)) => *before -= 1,
            _ => {}
        }
        Ok(())
    }

    /// Counts an allocation; returns whether it fails.
    ///
    /// # Errors
    /// As [`Failures::check`].
    pub(crate) fn allocation(&mut self) -> Result<bool> {
        self.check()?;
        match &mut self.next {
            Some(Failure::Allocation(0)) => {
                self.next = None;
                return Ok(true);
            }
            Some(Failure::Allocation(before)) => *before -= 1,
            _ => {}
        }
        Ok(false)
    }
}
