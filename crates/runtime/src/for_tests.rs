//! The GPU that tests ask for.

use crate::{Error, Result};
use std::io::Write;

/// The environment variable that demands a GPU of tests that can do without one.
const REQUIRED: &str = "LANETREE_REQUIRE_GPU";

/// What a test has asked for on a GPU. If there is no GPU, or the program was built without the feature `cuda`, it is `None`,
/// and a line on the standard error says that the test was skipped.
///
/// # Panics
/// If there is none and the environment variable `LANETREE_REQUIRE_GPU` is set; for any other error.
#[track_caller]
pub fn gpu_or_skip<T>(asked: Result<T>) -> Option<T> {
    found(asked, std::env::var_os(REQUIRED).is_some())
}

#[track_caller]
fn found<T>(asked: Result<T>, is_required: bool) -> Option<T> {
    match asked {
        Ok(found) => Some(found),
        Err(error @ (Error::CudaNotCompiled | Error::NoDriver { .. } | Error::NoDevice { .. })) if !is_required => {
            let thread = std::thread::current();
            let line = format!("SKIPPED, no GPU: {}: {error}\n", thread.name().unwrap_or("a test"));
            // Not `eprintln!`, which the test harness hides; and all of it at once.
            let _ = std::io::stderr().write_all(line.as_bytes());
            None
        }
        Err(error) => panic!("no GPU for a test that needs one, or {REQUIRED} is set: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_is_required_and_missing_fails_a_test() {
        assert_eq!(found(Ok(7), true), Some(7));
        for error in [|| Error::CudaNotCompiled, || Error::NoDevice { visible: None }] {
            assert_eq!(found::<()>(Err(error()), false), None);
            assert!(std::panic::catch_unwind(|| found::<()>(Err(error()), true)).is_err());
        }
        let other = || Error::NoSuchDevice { ordinal: 3, count: 1 };
        assert!(std::panic::catch_unwind(|| found::<()>(Err(other()), false)).is_err());
    }
}
