//! Failures that tests ask an emulated device for.

use crate::{Error, Result};

/// What is to go wrong on an emulated device, for tests of what comes of it: see [`Device::inject`]. Each number
/// counts from 0: with 0 the next one fails.
///
/// [`Device::inject`]: crate::Device::inject
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// This launch is refused: nothing of it runs, and [`Stream::launch`](crate::Stream::launch) returns the
    /// error. The device goes on to work.
    Launch(u64),
    /// This launch returns as if it were well, and half of its blocks run, of one none. From then on every call on the
    /// device fails but the freeing of memory, as on a GPU after an illegal access, until the next
    /// [`Device::inject`](crate::Device::inject).
    Kernel(u64),
    /// This copy to, from or within device memory, or zeroing of it, is not done and returns an error. The device
    /// goes on to work.
    Transfer(u64),
    /// This allocation, of device or page-locked memory, finds no room. The device goes on to work.
    Allocation(u64),
}

/// What is still to go wrong, and what has.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    next: Option<Failure>,
    /// The kernel that has failed, if one has, and the device with it.
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
    /// Puts another failure in the place of the last, which is given back if it was still to come; mends the
    /// device.
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

    /// Counts an allocation; whether it fails.
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
