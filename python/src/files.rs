//! Files of sorted pairs, as the library's indexes save them.

use crate::class::with_all_types;
use crate::errors::{check_not_forked, raise_file};
use crate::input::{In, Input};
use crate::keys;
use crate::types::{PyKey, PyValue, ordered, zeroed};
use lanetree::AnyKey;
use lanetree::files::{Contents, types_of};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Pairs as arrays of NumPy: the keys, and the values or nothing.
type Arrays = (Py<PyAny>, Py<PyAny>);

/// Whether a key may occur several times, and text for whoever reads the file.
type About = (bool, String);

/// What a file has: the name of its keys' type, its keys, its values, and about it.
type Read = (String, Py<PyAny>, Py<PyAny>, bool, String);

/// Writes keys of type `K` that NumPy has as words `W`.
fn write<K: AnyKey, W: PyKey, V: PyValue>(
    path: &Path,
    keys: In<'_>,
    values: Option<In<'_>>,
    is_other: bool,
    (has_several, note): About,
) -> PyResult<()> {
    let words = keys.host::<W>()?;
    let words = if is_other { Cow::Owned(ordered(words)?) } else { Cow::Borrowed(words) };
    let keys = bytemuck::cast_slice::<W, K>(&words);
    let values = match values {
        Some(values) => Cow::Borrowed(values.host::<V>()?),
        None => Cow::Owned(zeroed(keys.len())?),
    };
    Contents { keys: keys.into(), values, has_several, note }.write(path).map_err(raise_file)
}

/// Writes pairs whose keys ascend, strictly unless a key may occur several times. Keys are named as for an index.
#[pyfunction]
#[pyo3(signature = (path, key, keys, values, value_bytes, has_several, note))]
#[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
pub(crate) fn write_file(
    py: Python<'_>,
    path: PathBuf,
    key: &str,
    keys: Input,
    values: Option<Input>,
    value_bytes: usize,
    has_several: bool,
    note: String,
) -> PyResult<()> {
    check_not_forked()?;
    let (keys, values, is_other) = (keys.get(), values.as_ref().map(Input::get), keys::is_other(key));
    let about = (has_several, note);
    let written = py.detach(
        || with_all_types!(key, value_bytes, [0 (), 4 u32, 8 u64], write::<Own, K, V>(&path, keys, values, is_other, about)),
    );
    written.unwrap_or_else(|| {
        Err(PyTypeError::new_err(format!("no files of keys {key} and values of {value_bytes} bytes")))
    })
}

/// Reads keys of type `K` as NumPy's words `W`.
fn read<K: AnyKey, W: PyKey, V: PyValue>(py: Python<'_>, path: &Path, is_other: bool) -> PyResult<(Arrays, About)> {
    let (keys, values, about) = py.detach(|| -> PyResult<_> {
        let Contents { keys, values, has_several, note } = Contents::<K, V>::read(path).map_err(raise_file)?;
        let mut words = bytemuck::allocation::cast_vec::<K, W>(keys.into_owned());
        if is_other {
            words.iter_mut().for_each(|word| *word = word.unorder());
        }
        Ok((words, values.into_owned(), (has_several, note)))
    })?;
    Ok(((W::numpy(py, keys), V::array(py, values)), about))
}

/// The pairs of a file, after the name of their keys' type, which is as for an index; then whether a key may occur several times, and
/// the note.
#[pyfunction]
pub(crate) fn read_file(py: Python<'_>, path: PathBuf) -> PyResult<Read> {
    check_not_forked()?;
    let [key, value] = py.detach(|| types_of(&path)).map_err(raise_file)?;
    let is_other = keys::is_other(&key);
    let read = with_all_types!(&*key, &*value, ["()" (), "u32" u32, "u64" u64], read::<Own, K, V>(py, &path, is_other));
    let Some(read) = read else {
        return Err(raise_file(lanetree::files::Error::Types { path: Some(path), keys: key, values: value }));
    };
    let ((keys, values), (has_several, note)) = read?;
    Ok((key, keys, values, has_several, note))
}
