//! What single indexes have beside the traits, and pairs of trees, which have no builder.

mod cuart;
mod harmonia;
mod hybrid;
mod mirrored;

pub use cuart::{CuartBuilder, CuartHooks, cuart_builders};
pub use harmonia::{HarmoniaBuilder, HarmoniaHooks, Way, harmonia_builders};
pub use hybrid::{HybridBuild, HybridHooks, HybridIndex, hybrid_builders};
pub use mirrored::{
    MirroredCuart, MirroredCuartFamily, MirroredHarmonia, MirroredHarmoniaFamily, mirrored_cuart, mirrored_harmonia,
};
