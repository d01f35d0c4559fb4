//! The indexes: one list, from which targets, tests and names are made.

use crate::families::{
    CuartBuilder, CuartHooks, HarmoniaBuilder, HarmoniaHooks, HybridBuild, HybridHooks, cuart_builders,
    harmonia_builders, hybrid_builders,
};
use crate::{Fixed, Ordered, ordered};
use lanetree::{IndexBuilder, Key, Word};

pub use crate::families::{mirrored_cuart, mirrored_harmonia};

/// Calls a macro with all indexes: for each a name, an expression of its [`Family`](crate::Family), and how many random
/// cases a bounded run has. A new index is one line here:
///
/// ```text
/// name = $crate::indexes::fixed("name", [$crate::lanetree::Name::<u64, u32>::builder()]), 150;
/// ```
///
/// The families of the first list are made of builders ([`Ordered`](crate::Ordered)); those of the second are pairs of
/// trees, which have none: `for_each_index!(each, pairs)`.
#[macro_export]
macro_rules! for_each_index {
    ($each:ident) => {
        $each! {
            harmonia = $crate::indexes::harmonia::<u32, u32>("harmonia"), 200;
            harmonia_wide = $crate::indexes::harmonia::<u64, u64>("harmonia_wide"), 120;
            harmonia_signed = $crate::indexes::harmonia::<i64, u32>("harmonia_signed"), 120;
            cuart = $crate::indexes::cuart::<u64>("cuart"), 200;
            cuart_narrow = $crate::indexes::cuart::<u32>("cuart_narrow"), 120;
            hybrid = $crate::indexes::hybrid::<u64>("hybrid"), 120;
            sorted = $crate::indexes::fixed("sorted", [$crate::lanetree::SortedArray::<u32, u32>::builder()]), 60;
            sorted_wide = $crate::indexes::fixed("sorted_wide", [$crate::lanetree::SortedArray::<u64, u64>::builder()]), 60;
            sorted_signed = $crate::indexes::fixed("sorted_signed", [$crate::lanetree::SortedArray::<i64, u32>::builder()]), 60;
            sorted_float = $crate::indexes::fixed("sorted_float", [$crate::lanetree::SortedArray::<$crate::lanetree::F32, u64>::builder()]), 60;
        }
    };
    ($each:ident, pairs) => {
        $each! {
            harmonia_mirrored = $crate::indexes::mirrored_harmonia::<u64, u64>("harmonia_mirrored"), 120;
            cuart_mirrored = $crate::indexes::mirrored_cuart::<u64>("cuart_mirrored"), 120;
        }
    };
}

/// Any index over keys of a fixed size, with its device form.
pub fn fixed<B: IndexBuilder>(name: &'static str, builders: impl IntoIterator<Item = B>) -> Ordered<B, Fixed> {
    ordered(name, builders)
}

/// Harmonia.
pub fn harmonia<K: Key, V: Word>(name: &'static str) -> Ordered<HarmoniaBuilder<K, V>, HarmoniaHooks<K, V>> {
    ordered(name, harmonia_builders())
}

/// CuART.
pub fn cuart<V: Word>(name: &'static str) -> Ordered<CuartBuilder<V>, CuartHooks> {
    ordered(name, cuart_builders())
}

/// Two CuARTs, with short keys and with long ones.
pub fn hybrid<V: Word>(name: &'static str) -> Ordered<HybridBuild<V>, HybridHooks> {
    ordered(name, hybrid_builders())
}
