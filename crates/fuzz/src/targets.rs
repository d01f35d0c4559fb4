//! The indexes that are put through cases, by name.

use crate::index::{CuartIndex, HarmoniaIndex, HybridIndex, MirroredCuart, MirroredHarmonia};
use crate::{Case, Tally, check};
use arbitrary::{Arbitrary, Unstructured};

/// Runs a case, and says what differs.
pub type Target = fn(&Case) -> Result<Tally, String>;

/// Harmonia.
pub fn harmonia(case: &Case) -> Result<Tally, String> {
    check::<HarmoniaIndex<u32, u32>>(case)
}

/// Harmonia, with wide words.
pub fn harmonia_wide(case: &Case) -> Result<Tally, String> {
    check::<HarmoniaIndex<u64, u64>>(case)
}

/// Harmonia, with signed keys and values of another width.
pub fn harmonia_signed(case: &Case) -> Result<Tally, String> {
    check::<HarmoniaIndex<i64, u32>>(case)
}

/// Harmonia, with its copy on a device.
pub fn harmonia_mirrored(case: &Case) -> Result<Tally, String> {
    check::<MirroredHarmonia<u64, u64>>(case)
}

/// CuART.
pub fn cuart(case: &Case) -> Result<Tally, String> {
    check::<CuartIndex<u64>>(case)
}

/// CuART, with narrow values.
pub fn cuart_narrow(case: &Case) -> Result<Tally, String> {
    check::<CuartIndex<u32>>(case)
}

/// CuART, with its copy on a device.
pub fn cuart_mirrored(case: &Case) -> Result<Tally, String> {
    check::<MirroredCuart<u64>>(case)
}

/// The two trees with short keys and with long ones.
pub fn hybrid(case: &Case) -> Result<Tally, String> {
    check::<HybridIndex<u64>>(case)
}

/// Runs the case that bytes stand for: what a fuzzer calls.
///
/// # Panics
/// Where something differs.
pub fn on_bytes(target: Target, bytes: &[u8]) {
    let Ok(case) = Case::arbitrary(&mut Unstructured::new(bytes)) else { return };
    if let Err(error) = target(&case) {
        panic!("{error}\n{case:#?}");
    }
}
