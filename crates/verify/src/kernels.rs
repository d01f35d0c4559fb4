//! What the program knows of kernels: how they are chosen, and what of them is compiled into the program. No other file
//! names the crates that kernels are in.

pub(crate) use lanetree_kernels_harmonia::group_widths;

use lanetree_simt::Module;

/// The modules that are part of the program.
fn modules() -> impl Iterator<Item = &'static Module> {
    lanetree::modules().chain(lanetree_baselines::MODULES).chain(lanetree_joins::MODULES)
}

/// The symbols of their kernels.
pub(crate) fn symbols() -> impl Iterator<Item = &'static str> {
    modules().flat_map(Module::symbols)
}

/// The lines of their texts, each with its end.
pub(crate) fn lines() -> impl Iterator<Item = &'static str> {
    modules().flat_map(|module| module.ptx.split_inclusive('\n'))
}
