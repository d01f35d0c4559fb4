//! `lanetree._native`: what the Python package `lanetree` is written on.

mod aggregate;
mod arguments;
mod arrow;
mod buffers;
mod class;
mod codes;
mod device;
mod dlpack;
mod errors;
mod files;
mod frames;
mod groups;
mod held;
mod host;
mod input;
mod intervals;
mod join;
mod keys;
mod memory;
mod multi;
mod results;
mod strings;
mod stubs;
mod tree;
mod types;
mod words;

use pyo3::prelude::*;

/// The native part of `lanetree`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::arrow::{Column, arrow_device_export, arrow_device_import, arrow_export, arrow_import, arrow_stream};
    #[pymodule_export]
    use super::class::set_piece;
    #[pymodule_export]
    use super::codes::{encode_strings, encode_words};
    #[pymodule_export]
    use super::device::{Device, Stream};
    #[pymodule_export]
    use super::dlpack::{Exchange, dlpack_export, dlpack_import};
    #[pymodule_export]
    use super::errors::after_fork_in_child;
    #[pymodule_export]
    use super::files::{read_file, write_file};
    #[pymodule_export]
    use super::frames::{asof_rows, equal_rows};
    #[pymodule_export]
    use super::groups::Groups;
    #[pymodule_export]
    use super::intervals::Intervals;
    #[pymodule_export]
    use super::memory::{Memory, copies};
    #[pymodule_export]
    use super::multi::Multi;
    #[pymodule_export]
    use super::strings::Strings;
    #[pymodule_export]
    use super::stubs::stubs;
    #[pymodule_export]
    use super::tree::{Tree, combine, get_of, rank_of};
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python has for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
