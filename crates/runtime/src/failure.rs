//! Failures that tests inject into an emulated device.

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
