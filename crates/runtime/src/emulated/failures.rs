//! What is to go wrong on a device, and what has.

use crate::{Error, Failure, Result};

/// The failure that is still to come, and what has failed.
#[derive(Debug, Default)]
pub(super) struct Failures {
    next: Option<Failure>,
    /// The kernel that has failed, if any, and with it the device.
    failed: Option<&'static str>,
}

/// What becomes of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Runs,
    /// Half of its blocks run, rounded down.
    IsCutShort,
}

impl Failures {
    /// Replaces the injected failure, and returns the old one if it was still to come; repairs the device.
    pub(super) fn inject(&mut self, failure: Option<Failure>) -> Option<Failure> {
        self.failed = None;
        core::mem::replace(&mut self.next, failure)
    }

    /// # Errors
    /// [`Error::Injected`] once a kernel has failed.
    pub(super) fn check(&self) -> Result<()> {
        self.failed.map_or(Ok(()), |what| Err(Error::Injected { what }))
    }

    /// Counts a launch.
    ///
    /// # Errors
    /// As [`Failures::check`], and for a launch that is to be refused.
    pub(super) fn launch(&mut self, kernel: &'static str) -> Result<Fate> {
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
    pub(super) fn transfer(&mut self) -> Result<()> {
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
    pub(super) fn allocation(&mut self) -> Result<bool> {
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
