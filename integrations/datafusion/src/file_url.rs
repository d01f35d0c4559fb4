//! Files by their names.

use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use std::path::{Path, absolute};
use url::Url;

/// The URL of a file or a folder of this machine, for DataFusion's calls that take "a path". They take a path with `*`, `?` or `[`
/// for a pattern, and read other files than the one of that name; a URL they take as it is.
///
/// # Errors
/// For a path without an absolute form, as of the empty one.
pub fn file_url(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let full = absolute(path).map_err(|error| plan_datafusion_err!("{}: {error}", path.display()))?;
    let url = if full.is_dir() { Url::from_directory_path(&full) } else { Url::from_file_path(&full) };
    url.map(String::from).map_err(|()| plan_datafusion_err!("{} has no URL: name a file", path.display()))
}
