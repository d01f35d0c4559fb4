//! Codes of columns: numbers from 0 on that are equal where elements are, over all chunks of all columns of a call.

use crate::arrow::Column;
use crate::errors::value_error;
use crate::host::numpy;
use crate::input::Input;
use crate::types::{gather, room, zeroed};
use ahash::RandomState;
use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, GenericByteArray, GenericByteViewArray, make_array};
use arrow_schema::DataType;
use core::hash::Hash;
use core::ops::Range;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use lanetree::bindings::parallel::*;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;

/// The code of a null, until it is known how many others there are.
const NULL: u32 = u32::MAX;
/// Rows for which a dictionary of their own is worth it.
const PART: usize = 1 << 16;

/// Distinct elements, by code.
struct Dictionary<K> {
    /// Codes by parts of hashes, which stand beside them: a table that grows hashes nothing again.
    codes: HashTable<(u32, u32)>,
    distinct: Vec<(u32, K)>,
}

impl<K: Copy + Eq> Dictionary<K> {
    fn new() -> Self {
        Self { codes: HashTable::new(), distinct: Vec::new() }
    }

    /// The code of an element of this hash, which is the next one if it is new.
    fn code(&mut self, hash: u32, key: K) -> u32 {
        let spread = |hash: u32| u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let Self { codes, distinct } = self;
        let is_it = |&(its, code): &(u32, u32)| its == hash && distinct[code as usize].1 == key;
        match codes.entry(spread(hash), is_it, |&(hash, _)| spread(hash)) {
            Entry::Occupied(found) => found.get().1,
            Entry::Vacant(place) => {
                let code = distinct.len() as u32;
                place.insert((hash, code));
                distinct.push((hash, key));
                code
            }
        }
    }
}

/// Writes the codes of elements within a part, and returns the distinct ones with their hashes, in the order of their codes.
fn encode_part<K: Copy + Eq + Hash>(keys: impl Iterator<Item = Option<K>>, codes: &mut [u32]) -> Vec<(u32, K)> {
    // The same seeds each time, so that the time that a call takes is the same, too.
    let (mut known, hashes) = (Dictionary::new(), RandomState::with_seeds(1, 2, 3, 4));
    for (code, key) in codes.iter_mut().zip(keys) {
        *code = key.map_or(NULL, |key| known.code((hashes.hash_one(key) >> 32) as u32, key));
    }
    known.distinct
}

/// Columns whose elements have codes: chunks, in order.
trait Chunk: Sync {
    type Key<'a>: Copy + Eq + Hash + Send + Sync
    where
        Self: 'a;

    fn rows(&self) -> usize;
    /// The codes of a range of rows, as of `encode_part`.
    fn encode<'a>(&'a self, rows: Range<usize>, codes: &mut [u32]) -> Vec<(u32, Self::Key<'a>)>;
}

/// Codes of the rows of all chunks, and how many there are; those of nulls are equal to that number.
fn encode<C: Chunk>(chunks: &[C]) -> PyResult<(Vec<u32>, u32)> {
    let total = chunks.iter().map(Chunk::rows).sum::<usize>();
    if total >= NULL as usize {
        return Err(value_error(format!("{total} rows in both tables: joins take fewer than {NULL}")));
    }
    // A part of its own for each thread: all dictionaries are merged, one after another.
    let most = total.div_ceil(threads()).max(PART);
    let (mut codes, mut parts) = (zeroed::<u32>(total)?, Vec::new());
    let mut rest = &mut *codes;
    for chunk in chunks {
        for start in (0..chunk.rows()).step_by(most) {
            let rows = start..chunk.rows().min(start + most);
            let (own, others) = rest.split_at_mut(rows.len());
            parts.push((chunk, rows, own));
            rest = others;
        }
    }
    let parts = parts.into_par_iter().map(|(chunk, rows, codes)| (chunk.encode(rows, codes), codes)).collect();
    let mut known = Dictionary::new();
    let mut maps = room(parts.len())?;
    for (own, codes) in parts {
        let map = gather(own.len(), own.iter().map(|&(hash, key)| known.code(hash, key)))?;
        maps.push((map, codes));
    }
    let count = known.distinct.len() as u32;
    maps.into_par_iter().for_each(|(map, codes)| {
        codes.iter_mut().for_each(|code| *code = if *code == NULL { count } else { map[*code as usize] });
    });
    Ok((codes, count))
}

impl Chunk for &[u64] {
    type Key<'a>
        = u64
    where
        Self: 'a;

    fn rows(&self) -> usize {
        self.len()
    }
    fn encode(&self, rows: Range<usize>, codes: &mut [u32]) -> Vec<(u32, u64)> {
        encode_part(self[rows].iter().map(|&word| Some(word)), codes)
    }
}

/// A chunk of strings or of byte strings.
trait Bytes: Send + Sync {
    fn count(&self) -> usize;
    fn codes<'a>(&'a self, rows: Range<usize>, codes: &mut [u32]) -> Vec<(u32, &'a [u8])>;
}

macro_rules! bytes {
    ($($array:ident, $of:ident;)*) => {$(
        impl<T: $of<Native: AsRef<[u8]>>> Bytes for $array<T> {
            fn count(&self) -> usize {
                self.len()
            }
            fn codes<'a>(&'a self, rows: Range<usize>, codes: &mut [u32]) -> Vec<(u32, &'a [u8])> {
                let key = |row| (!self.is_null(row)).then(|| <T::Native as AsRef<[u8]>>::as_ref(self.value(row)));
                encode_part(rows.map(key), codes)
            }
        }
    )*};
}
bytes! { GenericByteArray, ByteArrayType; GenericByteViewArray, ByteViewType; }

impl Chunk for Arc<dyn Bytes> {
    type Key<'a> = &'a [u8];

    fn rows(&self) -> usize {
        self.count()
    }
    fn encode<'a>(&'a self, rows: Range<usize>, codes: &mut [u32]) -> Vec<(u32, &'a [u8])> {
        self.codes(rows, codes)
    }
}

fn bytes_of(column: &Column) -> PyResult<Arc<dyn Bytes>> {
    let array = make_array(column.data().clone());
    Ok(match array.data_type() {
        DataType::Utf8 => Arc::new(array.as_string::<i32>().clone()),
        DataType::LargeUtf8 => Arc::new(array.as_string::<i64>().clone()),
        DataType::Utf8View => Arc::new(array.as_string_view().clone()),
        DataType::Binary => Arc::new(array.as_binary::<i32>().clone()),
        DataType::LargeBinary => Arc::new(array.as_binary::<i64>().clone()),
        DataType::BinaryView => Arc::new(array.as_binary_view().clone()),
        other => return Err(PyTypeError::new_err(format!("columns of Arrow's type {other} are no strings"))),
    })
}

/// Codes of the strings of all chunks, and how many there are, which is the code of nulls.
#[pyfunction]
#[pyo3(signature = (chunks))]
pub(crate) fn encode_strings(py: Python<'_>, chunks: Vec<PyRef<'_, Column>>) -> PyResult<(Py<PyAny>, u32)> {
    let chunks = chunks.iter().map(|chunk| bytes_of(chunk)).collect::<PyResult<Vec<_>>>()?;
    let (codes, count) = py.detach(|| encode(&chunks))?;
    Ok((numpy(py, codes), count))
}

/// Codes of the words, of 64 bits, of all arrays, and how many there are.
#[pyfunction]
#[pyo3(signature = (arrays))]
pub(crate) fn encode_words(py: Python<'_>, arrays: Vec<Input>) -> PyResult<(Py<PyAny>, u32)> {
    let words = arrays.iter().map(|array| array.get().host::<u64>()).collect::<PyResult<Vec<_>>>()?;
    let (codes, count) = py.detach(|| encode(&words))?;
    Ok((numpy(py, codes), count))
}
