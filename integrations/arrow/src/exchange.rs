//! Whole indexes as record batches, which files of any format have.

use crate::arrays::{array_of_keys, array_of_strings, each_window_of_strings, file_error};
use crate::error::{Error, Result, filled};
use crate::index::{ArrowIndex, Nulls};
use crate::keys::{Kind, Source, Strings, elements};
use crate::trees::NO_ROW;
use crate::values::{Values, value_type};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, UInt32Type, UInt64Type};
use arrow_array::*;
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use arrow_select::take::take;
use core::fmt;
use crc32c::crc32c_append;
use lanetree::{Cuart, Device, LaneTree, Word};
use std::sync::Arc;

/// The metadata of a file that says how many pairs were written, and the checksums of their keys and values.
pub(crate) const PAIRS: &str = "lanetree.pairs";
/// The metadata of a schema that says how many rows the column of an [`ArrowIndex`] has.
const ROWS: &str = "lanetree.rows";
/// A whole index as record batches of two columns, without nulls: for [`LaneTree`], [`Cuart`] and [`ArrowIndex`].
///
/// | index | columns |
/// |---|---|
/// | `LaneTree<K, V>` | `key`: `UInt32`, `UInt64`, `Int32`, `Int64`, `Decimal128(38, 0)` for `i128`, `Float32`, `Float64`, `FixedSizeBinary(16)` for `Bytes16`; `value`: `UInt32` or `UInt64` |
/// | `Cuart<V>` | `key`: `LargeBinary`; `value` as above |
/// | [`ArrowIndex`] | `key`: of the type of the index; `row`: `UInt64`. The number of the column's rows is in the schema's metadata, `lanetree.rows` |
///
/// An index is built from any two columns that can be these, whatever their names and order: keys of any type that
/// [`ArrowIndex`] has the same keys for (a `LaneTree<i64, _>` from timestamps, a `Cuart` from any strings).
pub trait Exchange: Sized {
    /// The schema of its batches.
    fn schema(&self) -> SchemaRef;

    /// Calls a function with all pairs in ascending order of their keys, some at a time. They take no more memory than some
    /// windows of the index.
    ///
    /// # Errors
    /// [`Error::Index`] from the index; the first error of the function, after which it is not called again.
    fn each_batch(&self, f: &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()>;

    /// Builds an index on a device, over pairs in any order. With [`Nulls::Skip`], a pair is left out if its key or its value is
    /// null. Of equal keys, a `LaneTree` and a `Cuart` keep the last pair. Takes the memory of the pairs twice in main memory.
    ///
    /// # Errors
    /// [`Error::Columns`]; [`Error::Null`] with [`Nulls::Refuse`]; [`Error::Row`]; [`Error::Index`] from the build.
    fn of_batches(device: &Device, schema: &Schema, batches: &[RecordBatch], nulls: Nulls) -> Result<Self>;
}

/// What a damaged file makes a crate panic with is an error, too.
pub(crate) fn no_panic<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(core::panic::AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it is damaged").to_owned();
        Err(file_error("read")(text))
    })
}

/// How many pairs there are, and the checksums of their keys and values.
#[derive(Default)]
pub(crate) struct Sums {
    pairs: u64,
    checksums: [u32; 2],
}

impl Sums {
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.pairs += batch.num_rows() as u64;
        for (checksum, column) in self.checksums.iter_mut().zip(batch.columns()) {
            let values = Values::of(column)?;
            let column = values.array();
            if Kind::of(column.data_type()) == Some(Kind::Strings) {
                for string in Strings::new(column)?.batch()?.iter() {
                    *checksum = crc32c_append(*checksum, &(string.len() as u64).to_le_bytes());
                    *checksum = crc32c_append(*checksum, string);
                }
            } else if let Some(width) = width(column.data_type()) {
                *checksum = crc32c_append(*checksum, &elements(&column.to_data(), width));
            }
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::Pairs`] unless a file's metadata says the same, or nothing.
    pub(crate) fn check(&self, written: Option<&str>) -> Result<()> {
        let read = self.to_string();
        match written {
            Some(written) if written != read => Err(Error::Pairs { written: written.to_owned(), read }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [keys, values] = self.checksums;
        write!(f, "{} keys={keys:08x} values={values:08x}", self.pairs)
    }
}

/// Bytes of an element that is not a string of any length.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => Some(*width as usize),
        other => other.primitive_width(),
    }
}

fn schema_of(key: DataType, value: (&str, DataType)) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", key, false), Field::new(value.0, value.1, false)]))
}

/// A batch of a schema that was made for these columns.
fn batch_of(schema: &SchemaRef, columns: [ArrayRef; 2]) -> Result<RecordBatch> {
    RecordBatch::try_new(schema.clone(), columns.into()).map_err(file_error("written"))
}

/// The two columns of all batches, less their nulls: keys of this kind, and values of this type.
fn columns(
    schema: &Schema,
    batches: &[RecordBatch],
    (kind, value_is): (impl Fn(&DataType) -> bool, DataType),
    needed: impl fmt::Display,
    nulls: Nulls,
) -> Result<[ArrayRef; 2]> {
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type()).collect();
    let is_wanted = matches!(&types[..], [key, value] if kind(value_type(key)) && **value == value_is);
    if !is_wanted {
        let found = types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Error::Columns { found, needed: needed.to_string() });
    }
    let [keys, values] = [0, 1].map(|column| -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(column)).collect();
        if parts.is_empty() {
            return Ok(new_empty_array(types[column]));
        }
        let whole = concat(&parts).map_err(file_error::<ArrowError>("read"))?;
        match Values::of(&whole)? {
            Values::Written(values) => Ok(values),
            Values::Given(_) => Ok(whole.clone()),
        }
    });
    let (keys, values) = (keys?, values?);
    let Some(valid) = NullBuffer::union(keys.nulls(), values.nulls()).filter(|valid| valid.null_count() > 0) else {
        return Ok([keys, values]);
    };
    if let (Nulls::Refuse, Some(row)) = (nulls, valid.iter().position(|is_valid| !is_valid)) {
        return Err(Error::Null { row, nulls: valid.null_count() });
    }
    let wanted = BooleanArray::new(valid.into_inner(), None);
    let kept = |column: &ArrayRef| filter(column, &wanted).map_err(file_error::<ArrowError>("read"));
    Ok([kept(&keys)?, kept(&values)?])
}

/// A word is one of the two.
macro_rules! by_word {
    ($word:ty, $arrow:ident => $body:expr) => {
        if size_of::<$word>() == size_of::<u32>() {
            type $arrow = UInt32Type;
            $body
        } else {
            type $arrow = UInt64Type;
            $body
        }
    };
}

fn word_type<V: Word>() -> DataType {
    by_word!(V, Of => Of::DATA_TYPE)
}

/// Words as an array.
fn array_of_words<V: Word>(words: &[V]) -> ArrayRef {
    by_word!(V, Of => Arc::new(PrimitiveArray::<Of>::new(Buffer::from(bytemuck::cast_slice::<V, u8>(words)).into(), None)))
}

/// The words of an array of their type.
fn words_of<V: Word>(array: &ArrayRef) -> &[V] {
    by_word!(V, Of => bytemuck::cast_slice(array.as_primitive::<Of>().values()))
}

impl<K: Source, V: Word> Exchange for LaneTree<K, V> {
    fn schema(&self) -> SchemaRef {
        schema_of(K::TYPE, ("value", word_type::<V>()))
    }

    fn each_batch(&self, f: &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let schema = self.schema();
        lanetree::bindings::each_window(self, |keys, values| {
            let key_array = array_of_keys(&K::TYPE, keys.len(), keys.iter().copied())?;
            f(&batch_of(&schema, [key_array, array_of_words(values)])?)
        })
    }

    fn of_batches(device: &Device, schema: &Schema, batches: &[RecordBatch], nulls: Nulls) -> Result<Self> {
        let (kind, value) = (Kind::of(&K::TYPE), word_type::<V>());
        let needed = format!("keys that are {} and values of {value}", K::TYPE);
        let wanted = (|data_type: &DataType| Kind::of(data_type) == kind, value);
        let [keys, values] = columns(schema, batches, wanted, needed, nulls)?;
        Ok(Self::build(device, &K::keys(&keys.to_data())?, words_of::<V>(&values))?)
    }
}

impl<V: Word> Exchange for Cuart<V> {
    fn schema(&self) -> SchemaRef {
        schema_of(DataType::LargeBinary, ("value", word_type::<V>()))
    }

    fn each_batch(&self, f: &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let schema = self.schema();
        each_window_of_strings(self, |keys, values| {
            let key_array = array_of_strings(&DataType::LargeBinary, keys.iter())?;
            f(&batch_of(&schema, [key_array, array_of_words(values)])?)
        })
    }

    fn of_batches(device: &Device, schema: &Schema, batches: &[RecordBatch], nulls: Nulls) -> Result<Self> {
        let value = word_type::<V>();
        let needed = format!("keys that are strings and values of {value}");
        let wanted = (|data_type: &DataType| Kind::of(data_type) == Some(Kind::Strings), value);
        let [keys, values] = columns(schema, batches, wanted, needed, nulls)?;
        Ok(Self::build(device, Strings::new(&keys)?.batch()?, words_of::<V>(&values))?)
    }
}

impl Exchange for ArrowIndex {
    fn schema(&self) -> SchemaRef {
        let schema = schema_of(self.data_type().clone(), ("row", DataType::UInt64));
        let metadata = [(ROWS.to_owned(), self.rows().to_string())].into();
        Arc::new(Schema::clone(&schema).with_metadata(metadata))
    }

    fn each_batch(&self, f: &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let schema = self.schema();
        self.each_batch(|keys, rows| f(&batch_of(&schema, [keys, Arc::new(rows)])?))
    }

    /// The column is put together again, with nulls in the rows that no pair has.
    fn of_batches(device: &Device, schema: &Schema, batches: &[RecordBatch], nulls: Nulls) -> Result<Self> {
        let wanted = (|data_type: &DataType| Kind::of(data_type).is_some(), DataType::UInt64);
        let [keys, rows] =
            columns(schema, batches, wanted, "keys of a type that can be indexed and rows of UInt64", nulls)?;
        let rows = rows.as_primitive::<UInt64Type>().values();
        let count = match schema.metadata().get(ROWS).map(|count| count.parse()) {
            Some(Ok(count)) => count,
            Some(Err(_)) => return Err(file_error("read")(format!("its metadata {ROWS} is no number"))),
            None => rows.iter().max().map_or(0, |row| row.saturating_add(1)),
        };
        let row_error = |pair: usize, reason: String| Error::Row { pair, row: rows[pair], reason };
        if let Some(pair) = rows.iter().position(|row| *row >= count) {
            return Err(row_error(pair, format!("there are {count} rows")));
        }
        let mut pair_of_row = filled(NO_ROW, count as usize)?;
        for (pair, &row) in rows.iter().enumerate() {
            let before = core::mem::replace(&mut pair_of_row[row as usize], pair as u64);
            if before != NO_ROW {
                return Err(row_error(pair, format!("pair {before} is, too")));
            }
        }
        let pairs = UInt64Array::from_iter(pair_of_row.into_iter().map(|pair| (pair != NO_ROW).then_some(pair)));
        let column = take(&keys, &pairs, None).map_err(file_error::<ArrowError>("read"))?;
        Self::build(device, &column, Nulls::Skip)
    }
}
