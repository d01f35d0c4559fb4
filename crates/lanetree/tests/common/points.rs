//! Work that is done again for every point at which a device can fail.

use lanetree::runtime::Failure;
use lanetree::{Device, Error, Pool, Result};

/// A failure that came, and the error that told of it.
pub(crate) type Failed = (Failure, Error);

/// Does `work` again and again, each time on a new device with a failure at a later point of it, until none is
/// left; then `check` is told on what the device, mended, is left with. Gives what has failed.
pub(crate) fn at_every_point<S>(
    set_up: impl Fn(&Device) -> S,
    work: impl Fn(&mut S) -> Result<()>,
    check: impl Fn(&mut S, &Error),
) -> Vec<Failed> {
    let kinds: [fn(u64) -> Failure; 4] = [Failure::Launch, Failure::Kernel, Failure::Transfer, Failure::Allocation];
    let mut failed = Vec::new();
    for kind in kinds {
        for point in 0.. {
            let device = Device::emulated_with_seed(point);
            let pool = Pool::new(&device);
            // A pool gives back what it has cached, and the allocation succeeds.
            let device = if kind(point) == Failure::Allocation(point) { device } else { pool.device() };
            let mut state = set_up(&device);
            device.inject(Some(kind(point)));
            let result = work(&mut state);
            if device.inject(None).is_some() {
                result.expect("nothing has failed");
                break;
            }
            let Err(error) = result else { panic!("{:?} goes unnoticed", kind(point)) };
            check(&mut state, &error);
            failed.push((kind(point), error));
            drop(state);
            let stats = pool.stats();
            assert_eq!((stats.in_use, stats.pinned_in_use), (0, 0), "{:?}", kind(point));
        }
    }
    failed
}

/// How many of the failures have lost the index.
#[allow(dead_code, reason = "not every file of tests needs it")]
pub(crate) fn losses(failed: &[Failed]) -> usize {
    failed.iter().filter(|(_, error)| matches!(error, Error::Lost { .. })).count()
}
