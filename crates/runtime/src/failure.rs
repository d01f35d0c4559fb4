//! Failures that tests inject into an emulated device.

#[cfg(feature = "emulator")]
use crate::{Device, Pool};

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
    /// This allocation, of device or pinned memory, finds no room; or this array cannot be pinned
    /// ([`HostArray::pin`](crate::HostArray::pin)). The device continues to work.
    Allocation(u64),
}

/// Tests inject failures at every point of a call, or, after some, at every so-many-th if this variable has that number.
const STRIDE: &str = "LANETREE_FAILURE_STRIDE";

/// The points that are never passed by: short calls fail at all of theirs.
const DOZEN: u64 = 12;

impl Failure {
    /// Every kind of failure; each takes its number.
    pub const KINDS: [fn(u64) -> Self; 4] = [Self::Launch, Self::Kernel, Self::Transfer, Self::Allocation];

    /// The points of a call at which tests let it fail, ascending without end: all of them, or, if the environment
    /// variable `LANETREE_FAILURE_STRIDE` is a number n, after the first dozen every n-th point. Kinds of failure then
    /// have different points.
    ///
    /// # Panics
    /// If the variable is no number above 0.
    pub fn points(kind: fn(u64) -> Self) -> impl Iterator<Item = u64> {
        let stride = std::env::var(STRIDE).map_or(1, |stride| match stride.parse::<usize>() {
            Ok(stride) if stride > 0 => stride,
            _ => panic!("{STRIDE} is {stride:?}, which is no number above 0"),
        });
        let first = match kind(0) {
            Self::Launch(_) | Self::Allocation(_) => 0,
            Self::Kernel(_) => 1,
            Self::Transfer(_) => 2,
        };
        (0..DOZEN).chain((DOZEN + first % stride as u64..).step_by(stride))
    }

    /// Does `work` again and again, each time on a new emulated device that fails at a later [point](Self::points) of it, until
    /// no failure occurs; and so for each kind of failure. After each, `check` sees what is left, on a device that works
    /// again. Returns the failures, each with the error that reported it.
    ///
    /// # Panics
    /// If `work` succeeds although its device failed, fails although it did not, or leaves memory allocated.
    #[cfg(feature = "emulator")]
    pub fn at_every_point<S, E: core::fmt::Debug>(
        set_up: impl Fn(&Device) -> S,
        work: impl Fn(&mut S) -> Result<(), E>,
        check: impl Fn(&mut S, &E),
    ) -> Vec<(Self, E)> {
        let mut failed = Vec::new();
        for kind in Self::KINDS {
            for point in Self::points(kind) {
                let failure = kind(point);
                let device = Device::emulated_with_seed(point);
                let pool = Pool::new(&device);
                // A pool that finds no room frees what it has cached and tries again, which succeeds.
                let device = if matches!(failure, Self::Allocation(_)) { device } else { pool.device() };
                let mut state = set_up(&device);
                device.inject(Some(failure));
                let result = work(&mut state);
                if device.inject(None).is_some() {
                    result.expect("an error without a failure of the device");
                    break;
                }
                let Err(error) = result else { panic!("{failure:?}: the work succeeded") };
                check(&mut state, &error);
                failed.push((failure, error));
                drop(state);
                let stats = pool.stats();
                assert_eq!((stats.in_use, stats.pinned_in_use), (0, 0), "{failure:?}: bytes still allocated");
            }
        }
        failed
    }
}
