//! What a fuzzer calls: each takes bytes, and panics where something differs.

use crate::index::{CuartIndex, HarmoniaIndex, HybridIndex, Index, MirroredCuart, MirroredHarmonia};
use crate::{Case, check, parsers};
use arbitrary::{Arbitrary, Unstructured};

fn run<I: Index>(bytes: &[u8]) {
    let Ok(case) = Case::arbitrary(&mut Unstructured::new(bytes)) else { return };
    if let Err(error) = check::<I>(&case) {
        panic!("{error}\n{case:#?}");
    }
}

/// Harmonia.
pub fn harmonia(bytes: &[u8]) {
    run::<HarmoniaIndex<u32, u32>>(bytes);
}

/// Harmonia with signed keys and values of another width.
pub fn harmonia_signed(bytes: &[u8]) {
    run::<HarmoniaIndex<i64, u32>>(bytes);
}

/// Harmonia with its copy on a device.
pub fn harmonia_mirrored(bytes: &[u8]) {
    run::<MirroredHarmonia<u64, u64>>(bytes);
}

/// CuART.
pub fn cuart(bytes: &[u8]) {
    run::<CuartIndex<u64>>(bytes);
}

/// CuART with narrow values.
pub fn cuart_narrow(bytes: &[u8]) {
    run::<CuartIndex<u32>>(bytes);
}

/// CuART with its copy on a device.
pub fn cuart_mirrored(bytes: &[u8]) {
    run::<MirroredCuart<u64>>(bytes);
}

/// The two trees with short keys and long ones.
pub fn hybrid(bytes: &[u8]) {
    run::<HybridIndex<u64>>(bytes);
}

/// The parsers of packed byte strings.
pub fn byte_keys(bytes: &[u8]) {
    parsers::byte_keys(bytes);
}
