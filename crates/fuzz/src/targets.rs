//! The indexes that are put through cases, by name.

use crate::index::{CuartIndex, HarmoniaIndex, HybridIndex, MirroredCuart, MirroredHarmonia};
use crate::{Case, Tally, check};
use arbitrary::{Arbitrary, Unstructured};

/// Runs a case, and says what differs.
pub type Target = fn(&Case) -> Result<Tally, String>;

/// Harmonia.
pub const HARMONIA: Target = check::<HarmoniaIndex<u32, u32>>;
/// Harmonia, with wide words.
pub const HARMONIA_WIDE: Target = check::<HarmoniaIndex<u64, u64>>;
/// Harmonia, with signed keys and values of another width.
pub const HARMONIA_SIGNED: Target = check::<HarmoniaIndex<i64, u32>>;
/// Harmonia, with its copy on a device.
pub const HARMONIA_MIRRORED: Target = check::<MirroredHarmonia<u64, u64>>;
/// CuART.
pub const CUART: Target = check::<CuartIndex<u64>>;
/// CuART, with narrow values.
pub const CUART_NARROW: Target = check::<CuartIndex<u32>>;
/// CuART, with its copy on a device.
pub const CUART_MIRRORED: Target = check::<MirroredCuart<u64>>;
/// The two trees with short keys and with long ones.
pub const HYBRID: Target = check::<HybridIndex<u64>>;

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
