//! What single indexes have beside the traits.

mod cuart;
mod harmonia;
mod hybrid;

pub use cuart::{CuartBuilder, CuartHooks, cuart_builders};
pub use harmonia::{HarmoniaBuilder, HarmoniaHooks, Way, harmonia_builders};
pub use hybrid::{HybridHooks, hybrid_builders};
