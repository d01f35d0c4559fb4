//! The classes of indexes as `_native.pyi` has them.

use crate::groups::Groups;
use crate::intervals::Intervals;
use crate::multi::Multi;
use crate::strings::Strings;
use crate::tree::Tree;
use pyo3::prelude::*;

/// What the tables of calls say about `_native.pyi`, for the test that compares the two.
#[pyfunction]
pub(crate) fn stubs() -> String {
    [Tree::stub(), Multi::stub(), Intervals::stub(), Groups::stub(), Strings::stub()].join("\n")
}
