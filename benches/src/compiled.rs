//! The kernels that are compiled into the program.

use lanetree_simt::Module;

/// The PTX modules of all kernel crates.
pub(crate) fn modules() -> impl Iterator<Item = &'static Module> {
    let crates: [&[&Module]; 5] = [
        &lanetree_kernels_baselines::modules::MODULES,
        &lanetree_kernels_cuart::modules::MODULES,
        &lanetree_kernels_base::modules::MODULES,
        &lanetree_kernels_harmonia::modules::MODULES,
        &lanetree_kernels_primitives::modules::MODULES,
    ];
    crates.into_iter().flatten().copied()
}
