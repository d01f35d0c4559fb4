//! Lanetree's kernels as PTX text.
//!
//! The text is generated: `cargo xtask ptx` compiles the crates in `crates/kernels` and writes the
//! modules here, `cargo xtask ptx --check` says whether they are what the sources compile to. Nobody
//! needs a GPU compiler to use them: the driver translates PTX for the card at hand when a module is
//! loaded. `manifest.json` says what each was compiled from, by which compiler, and how many registers
//! each kernel needs.
//!
//! A module is what the driver loads at once; an index has one per choice of key, value and fanout, so
//! that a program pays only for those it uses. The symbol of a kernel is its module's name, two
//! underscores, and the kernel's own name.

/// Makes the table out of the modules' names.
macro_rules! modules {
    ($($name:ident,)*) => {
        pub(crate) static MODULES: [crate::Module; <[&str]>::len(&[$(stringify!($name)),*])] = [
            $(crate::Module {
                name: stringify!($name),
                ptx: include_str!(concat!("../modules/", stringify!($name), ".ptx")),
            },)*
        ];
    };
}

mod modules;

/// A PTX module: kernels that are loaded together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Module {
    /// The name: what the symbols of its kernels have before the double underscore.
    pub name: &'static str,
    /// The text, for the driver's compiler.
    pub ptx: &'static str,
}

impl Module {
    /// The symbols of the module's kernels, sorted.
    pub fn symbols(&self) -> impl Iterator<Item = &'static str> {
        let entries = self.ptx.lines().filter_map(|line| line.strip_prefix(".visible .entry "));
        entries.map(|line| line.split('(').next().unwrap_or(line).trim_end())
    }
}

/// The name and the length of the text; not the text.
impl core::fmt::Debug for Module {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Module").field("name", &self.name).field("bytes", &self.ptx.len()).finish()
    }
}

/// Every module, sorted by name.
pub fn modules() -> &'static [Module] {
    &modules::MODULES
}

/// The module of that name; `None` where there is none.
///
/// ```
/// assert_eq!(lanetree_ptx::module("no such module"), None);
/// for module in lanetree_ptx::modules() {
///     assert_eq!(lanetree_ptx::module(module.name), Some(module));
/// }
/// ```
pub fn module(name: &str) -> Option<&'static Module> {
    let index = modules().binary_search_by(|module| module.name.cmp(name)).ok()?;
    Some(&modules()[index])
}
