//! The kernels that are compiled into the program. No other file names the crates that they are in.

use lanetree_simt::Module;

/// The modules that are part of the program.
fn modules() -> impl Iterator<Item = &'static Module> {
    lanetree::modules().chain(lanetree_baselines::MODULES).chain(lanetree_joins::MODULES)
}

/// The symbols of their kernels.
pub(crate) fn symbols() -> impl Iterator<Item = &'static str> {
    modules().flat_map(Module::symbols)
}
