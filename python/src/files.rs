//! Files of sorted pairs, as the library's indexes save them.

use crate::errors::{check_not_forked, raise_file};
use crate::memory::{In, Input, numpy};
use crate::types::{PyKey, PyValue, ordered, zeroed};
use lanetree::files::{Contents, types_of};
use lanetree::{AnyKey, F32, F64, Key};
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
fn write<K: Key, W: PyKey, V: PyValue>(
    path: &Path,
    keys: In<'_>,
    values: Option<In<'_>>,
    floats: bool,
    (has_several, note): About,
) -> PyResult<()> {
    let words = keys.host::<W>()?;
    let words = if floats { Cow::Owned(ordered(words)?) } else { Cow::Borrowed(words) };
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
    keys: Input<'_>,
    values: Option<Input<'_>>,
    value_bytes: usize,
    has_several: bool,
    note: String,
) -> PyResult<()> {
    check_not_forked()?;
    let (keys, values, floats) = (keys.get(), values.as_ref().map(Input::get), key.starts_with('f'));
    let write = match (key, value_bytes) {
        ("u32", 0) => write::<u32, u32, ()>,
        ("u32", 4) => write::<u32, u32, u32>,
        ("u32", 8) => write::<u32, u32, u64>,
        ("i32", 0) => write::<i32, i32, ()>,
        ("i32", 4) => write::<i32, i32, u32>,
        ("i32", 8) => write::<i32, i32, u64>,
        ("f32", 0) => write::<F32, u32, ()>,
        ("f32", 4) => write::<F32, u32, u32>,
        ("f32", 8) => write::<F32, u32, u64>,
        ("u64", 0) => write::<u64, u64, ()>,
        ("u64", 4) => write::<u64, u64, u32>,
        ("u64", 8) => write::<u64, u64, u64>,
        ("i64", 0) => write::<i64, i64, ()>,
        ("i64", 4) => write::<i64, i64, u32>,
        ("i64", 8) => write::<i64, i64, u64>,
        ("f64", 0) => write::<F64, u64, ()>,
        ("f64", 4) => write::<F64, u64, u32>,
        ("f64", 8) => write::<F64, u64, u64>,
        _ => return Err(PyTypeError::new_err(format!("no files of keys {key} and values of {value_bytes} bytes"))),
    };
    py.detach(|| write(&path, keys, values, floats, (has_several, note)))
}

/// Reads keys of type `K` as NumPy's words `W`.
fn read<K: AnyKey, W: PyKey, V: PyValue>(py: Python<'_>, path: &Path, floats: bool) -> PyResult<(Arrays, About)> {
    let (keys, values, about) = py.detach(|| -> PyResult<_> {
        let Contents { keys, values, has_several, note } = Contents::<K, V>::read(path).map_err(raise_file)?;
        let mut words = bytemuck::allocation::cast_vec::<K, W>(keys.into_owned());
        if floats {
            words.iter_mut().for_each(|word| *word = word.unorder());
        }
        Ok((words, values.into_owned(), (has_several, note)))
    })?;
    Ok(((numpy(py, keys).into_any().unbind(), V::array(py, values)), about))
}

/// The pairs of a file, after the name of their keys' type, which is as for an index; then whether a key may occur several times, and
/// the note.
#[pyfunction]
pub(crate) fn read_file(py: Python<'_>, path: PathBuf) -> PyResult<Read> {
    check_not_forked()?;
    let [key, value] = py.detach(|| types_of(&path)).map_err(raise_file)?;
    let read = match (&*key, &*value) {
        ("u32", "()") => read::<u32, u32, ()>,
        ("u32", "u32") => read::<u32, u32, u32>,
        ("u32", "u64") => read::<u32, u32, u64>,
        ("i32", "()") => read::<i32, i32, ()>,
        ("i32", "u32") => read::<i32, i32, u32>,
        ("i32", "u64") => read::<i32, i32, u64>,
        ("f32", "()") => read::<F32, u32, ()>,
        ("f32", "u32") => read::<F32, u32, u32>,
        ("f32", "u64") => read::<F32, u32, u64>,
        ("u64", "()") => read::<u64, u64, ()>,
        ("u64", "u32") => read::<u64, u64, u32>,
        ("u64", "u64") => read::<u64, u64, u64>,
        ("i64", "()") => read::<i64, i64, ()>,
        ("i64", "u32") => read::<i64, i64, u32>,
        ("i64", "u64") => read::<i64, i64, u64>,
        ("f64", "()") => read::<F64, u64, ()>,
        ("f64", "u32") => read::<F64, u64, u32>,
        ("f64", "u64") => read::<F64, u64, u64>,
        _ => return Err(raise_file(lanetree::files::Error::Types { path: Some(path), keys: key, values: value })),
    };
    let floats = key.starts_with('f');
    let ((keys, values), (has_several, note)) = read(py, &path, floats)?;
    Ok((key, keys, values, has_several, note))
}
