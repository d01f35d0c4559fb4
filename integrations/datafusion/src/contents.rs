//! A table's rows at one moment, and the indexes over them: what scans and look-ups share.
//!
//! The rows are in parts, of which the first one has most of them: a change adds a small part and marks rows as removed, and copies
//! nothing that is large.

use crate::condition::Condition;
use crate::memory::{Memory, Statement};
use crate::packing::{Packing, value_type};
use crate::runs::{Run, RunLists, TableIndex, external, names_of};
use core::cmp::Ordering;
use core::ops::{Bound, Range};
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, BooleanBufferBuilder, DynComparator, RecordBatch, RecordBatchOptions, UInt64Array,
    make_comparator, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{SortOptions, concat_batches, filter_record_batch, interleave, max, sum, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::Result;
use lanetree::Device;
use lanetree_arrow::ArrowIndex;
use std::sync::Arc;

/// The order of an index: nulls, of which only columns after the first one have any, are last.
pub(crate) const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

/// Rows that were added together.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) batch: RecordBatch,
    /// The number of its first row in the table.
    pub(crate) first: usize,
    /// Which rows are not removed; all if there is none.
    pub(crate) live: Option<BooleanBuffer>,
    _memory: Arc<Memory>,
}

impl Part {
    /// # Errors
    /// The memory pool's.
    pub(crate) fn new(batch: RecordBatch, first: usize, statement: &Statement, table: &str) -> Result<Self> {
        let memory = statement.take(&format!("rows of {table}"), bytes_of(&batch)?)?;
        Ok(Self { batch, first, live: None, _memory: Arc::new(memory) })
    }

    /// The same part, counted for a statement.
    pub(crate) fn counted(&self, statement: &Statement, table: &str) -> Result<Self> {
        let new = Self::new(self.batch.clone(), self.first, statement, table)?;
        Ok(Self { live: self.live.clone(), ..new })
    }

    /// How many rows are not removed.
    pub(crate) fn rows(&self) -> usize {
        self.live.as_ref().map_or(self.batch.num_rows(), BooleanBuffer::count_set_bits)
    }

    /// Some columns of those of some rows that are not removed.
    pub(crate) fn live_rows(&self, columns: &[usize], rows: Range<usize>) -> Result<RecordBatch> {
        let batch = self.batch.project(columns)?.slice(rows.start, rows.len());
        Ok(match &self.live {
            Some(live) => filter_record_batch(&batch, &BooleanArray::new(live.slice(rows.start, rows.len()), None))?,
            None => batch,
        })
    }

    /// All rows that are not removed.
    pub(crate) fn all_live_rows(&self) -> Result<RecordBatch> {
        match self.live {
            None => Ok(self.batch.clone()),
            Some(_) => self.live_rows(&(0..self.batch.num_columns()).collect::<Vec<_>>(), 0..self.batch.num_rows()),
        }
    }

    /// Their numbers in the table.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        let is_live = |row: &usize| self.live.as_ref().is_none_or(|live| live.value(*row));
        (0..self.batch.num_rows()).filter(is_live).map(|row| (self.first + row) as u64)
    }

    /// Those whose value of a column is null.
    fn null_numbers(&self, column: usize) -> Vec<u64> {
        let nulls = self.batch.column(column).logical_nulls().map(|nulls| !nulls.inner());
        let nulls = match (nulls, &self.live) {
            (Some(nulls), Some(live)) => Some(&nulls & live),
            (nulls, _) => nulls,
        };
        nulls.iter().flat_map(BooleanBuffer::set_indices).map(|row| (self.first + row) as u64).collect()
    }

    /// The same part without some of its rows.
    pub(crate) fn without(&self, rows: impl Iterator<Item = usize>) -> Self {
        let all = self.batch.num_rows();
        let mut bits = BooleanBufferBuilder::new(all);
        match &self.live {
            Some(live) => bits.append_buffer(live),
            None => bits.append_n(all, true),
        }
        rows.for_each(|row| bits.set_bit(row, false));
        Self { live: Some(bits.finish()), ..self.clone() }
    }
}

/// A table's rows at one moment, and the indexes over them.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) schema: SchemaRef,
    /// One at least.
    pub(crate) parts: Vec<Part>,
    pub(crate) indexes: Vec<TableIndex>,
    /// By which another process has the same rows.
    pub(crate) name: Option<Arc<str>>,
}

impl Contents {
    /// All indexes on all rows.
    pub(crate) fn all(self: &Arc<Self>) -> impl Iterator<Item = Indexed> {
        self.all_and_partial().filter(|indexed| indexed.condition().is_none())
    }

    /// All indexes, also those on some rows.
    pub(crate) fn all_and_partial(self: &Arc<Self>) -> impl Iterator<Item = Indexed> {
        (0..self.indexes.len()).map(|at| Indexed { contents: self.clone(), at })
    }

    /// The index on columns, in this order.
    pub(crate) fn index_on(self: &Arc<Self>, columns: &[usize]) -> Option<Indexed> {
        self.all().find(|indexed| indexed.columns() == columns)
    }

    /// The index on a column of this name.
    pub(crate) fn index_named(self: &Arc<Self>, column: &str) -> Option<Indexed> {
        self.index_on(&[self.schema.index_of(column).ok()?])
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(Part::rows).sum()
    }

    /// The type of a column's values.
    pub(crate) fn value_type(&self, column: usize) -> &DataType {
        value_type(self.schema.field(column).data_type())
    }

    /// The names of the indexed columns.
    pub(crate) fn indexed_columns(&self) -> String {
        let names: Vec<_> =
            self.indexes.iter().map(|index| names_of(&self.schema, &index.definition.columns)).collect();
        names.join(", ")
    }

    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index.definition.name == name)
    }

    /// What `SHOW INDEXES` says.
    pub(crate) fn described(&self) -> impl Iterator<Item = Described> {
        self.indexes.iter().map(|index| Described {
            name: index.definition.name.clone(),
            columns: names_of(&self.schema, &index.definition.columns),
            is_unique: index.definition.is_unique,
            bytes: index.bytes(),
            device: index.definition.device.to_string(),
            condition: index.definition.condition.as_ref().map(ToString::to_string),
            file: index.definition.file.as_ref().map(|file| file.display().to_string()),
        })
    }

    /// Whether all rows are one part, and none is removed.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(&self.parts[..], [part] if part.live.is_none())
    }

    /// The numbers of all rows.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(Part::numbers)
    }

    /// All rows as one batch.
    pub(crate) fn whole(&self) -> Result<RecordBatch> {
        whole(&self.schema, &self.parts)
    }

    /// The part of a row, and its number there.
    pub(crate) fn place(&self, row: usize) -> (usize, usize) {
        let part = self.parts.partition_point(|part| part.first <= row) - 1;
        (part, row - self.parts[part].first)
    }

    /// Some columns of some rows, by their numbers; nulls of a null.
    pub(crate) fn take(&self, columns: &[usize], rows: &UInt64Array) -> Result<Vec<ArrayRef>> {
        let is_beyond = |second: &Part| max(rows).is_some_and(|row| row as usize >= second.first);
        if !self.parts.get(1).is_some_and(is_beyond) {
            let own = &self.parts[0].batch;
            return columns.iter().map(|&column| Ok(take(own.column(column), rows, None)?)).collect();
        }
        let of_null = (self.parts.len(), 0);
        let places: Vec<_> = rows.iter().map(|row| row.map_or(of_null, |row| self.place(row as usize))).collect();
        let of_column = |&column: &usize| {
            let mut arrays: Vec<ArrayRef> = self.parts.iter().map(|part| part.batch.column(column).clone()).collect();
            arrays.push(new_null_array(self.schema.field(column).data_type(), 1));
            Ok(interleave(&arrays.iter().map(|array| &**array).collect::<Vec<_>>(), &places)?)
        };
        columns.iter().map(of_column).collect()
    }

    /// Rows with all columns.
    pub(crate) fn taken(&self, rows: &[u64]) -> Result<RecordBatch> {
        let columns: Vec<usize> = (0..self.schema.fields().len()).collect();
        let rows = UInt64Array::from(rows.to_vec());
        batch_of(&self.schema, self.take(&columns, &rows)?, rows.len())
    }

    /// Which row is after so many that are not removed.
    pub(crate) fn after(&self, count: usize) -> usize {
        let mut left = count;
        for part in &self.parts {
            let rows = part.rows();
            if left < rows {
                let place = match &part.live {
                    Some(live) => live.set_indices().nth(left).unwrap_or(part.batch.num_rows()),
                    None => left,
                };
                return part.first + place;
            }
            left -= rows;
        }
        self.parts.last().map_or(0, |last| last.first + last.batch.num_rows())
    }
}

/// The rows of some parts as one batch.
pub(crate) fn whole(schema: &SchemaRef, parts: &[Part]) -> Result<RecordBatch> {
    let live = parts.iter().map(Part::all_live_rows).collect::<Result<Vec<_>>>()?;
    match live.as_slice() {
        [batch] => Ok(batch.clone()),
        many => Ok(concat_batches(schema, many)?),
    }
}

/// An index, as `SHOW INDEXES` describes it.
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) columns: String,
    pub(crate) is_unique: bool,
    /// Of main memory and of the device's.
    pub(crate) bytes: u64,
    pub(crate) device: String,
    /// Of which rows it is, if not of all.
    pub(crate) condition: Option<String>,
    pub(crate) file: Option<String>,
}

/// A table's rows, and one of its indexes.
#[derive(Clone, Debug)]
pub(crate) struct Indexed {
    pub(crate) contents: Arc<Contents>,
    at: usize,
}

impl Indexed {
    fn own(&self) -> &TableIndex {
        &self.contents.indexes[self.at]
    }

    pub(crate) fn name(&self) -> &str {
        &self.own().definition.name
    }

    /// The name for a plan, unless it is that of the columns.
    pub(crate) fn shown_name(&self) -> String {
        let columns: Vec<_> =
            self.columns().iter().map(|column| self.contents.schema.field(*column).name().as_str()).collect();
        let name = self.name();
        if columns.join("_") == name { String::new() } else { format!(" named {name}") }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.own().definition.device
    }

    /// Of which rows it is, if not of all.
    pub(crate) fn condition(&self) -> Option<&Condition> {
        self.own().definition.condition.as_ref()
    }

    /// The type of its keys.
    pub(crate) fn key_type(&self) -> &DataType {
        self.own().runs[0].index.data_type()
    }

    /// How many rows are in it.
    pub(crate) fn len(&self) -> u64 {
        self.own().len()
    }

    /// How many rows are not in it: those whose first column is null.
    pub(crate) fn null_count(&self) -> usize {
        self.contents.rows() - self.len() as usize
    }

    /// The numbers of those; at most so many.
    pub(crate) fn null_rows(&self, most: usize) -> Vec<u64> {
        let of_part = |part: &Part| part.null_numbers(self.columns()[0]);
        match self.null_count() {
            0 => Vec::new(),
            _ => self.contents.parts.iter().flat_map(of_part).take(most).collect(),
        }
    }

    /// The one index that has all rows and no others, if there is one.
    pub(crate) fn sole(&self) -> Option<&Arc<ArrowIndex>> {
        match &self.own().runs[..] {
            [run] if run.dead.is_empty() => Some(&run.index),
            _ => None,
        }
    }

    /// Whether no value has several rows.
    pub(crate) fn is_unique(&self) -> bool {
        self.sole().is_some_and(|index| index.is_unique())
    }

    /// How many rows have the same values of its first columns, on the average.
    pub(crate) fn copies(&self, columns: usize) -> f64 {
        if let Some(copies) = columns.checked_sub(1).and_then(|at| self.own().copies.get(at)) {
            return *copies;
        }
        let runs = || self.own().runs.iter().map(|run| &run.index);
        let keys: u64 = runs().map(|index| index.keys_len()).sum();
        runs().map(|index| index.len()).sum::<u64>() as f64 / keys.max(1) as f64
    }

    /// How its columns are one key, if it has several.
    pub(crate) fn packing(&self) -> Option<&Packing> {
        self.own().packing.as_deref()
    }

    /// The numbers of the indexed columns.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.own().definition.columns
    }

    /// The name of the column, or those of all.
    pub(crate) fn column_names(&self) -> String {
        names_of(&self.contents.schema, self.columns())
    }

    fn runs(&self) -> impl Iterator<Item = (&Part, &Run)> {
        self.contents.parts.iter().zip(&self.own().runs)
    }

    /// The rows of each range of keys in each part.
    pub(crate) fn lists(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<Vec<RunLists>> {
        self.runs().map(|(part, run)| run.lists(starts, ends, part.first as u64)).collect()
    }

    /// Compares two rows by their keys, nulls last.
    fn comparator(&self) -> Result<impl Fn(u64, u64) -> Ordering> {
        let parts = &self.contents.parts;
        let mut of_parts: Vec<Vec<DynComparator>> = Vec::new();
        for (a, b) in parts.iter().flat_map(|a| parts.iter().map(move |b| (&a.batch, &b.batch))) {
            let of_column = |column: &usize| Ok(make_comparator(a.column(*column), b.column(*column), ASCENDING)?);
            of_parts.push(self.columns().iter().map(of_column).collect::<Result<_>>()?);
        }
        Ok(move |a: u64, b: u64| {
            let ((of_a, a), (of_b, b)) = (self.contents.place(a as usize), self.contents.place(b as usize));
            let columns = &of_parts[of_a * self.contents.parts.len() + of_b];
            columns.iter().map(|compare| compare(a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        })
    }

    /// The rows of disjoint, ascending ranges of keys, in the order of the keys or in the reverse one; at most so many.
    pub(crate) fn ordered(&self, lists: &[RunLists], most: usize, descending: bool) -> Result<Vec<u64>> {
        self.merged(lists.iter().map(|of_run| of_run.ordered(most, descending)).collect(), most, descending)
    }

    /// A row of each key of disjoint, ascending ranges, in the order of the keys.
    pub(crate) fn distinct(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<Vec<u64>> {
        let of_runs = self.runs().map(|(part, run)| run.distinct(starts, ends, part.first as u64));
        let mut merged = self.merged(of_runs.collect::<Result<_>>()?, usize::MAX, false)?;
        if self.own().runs.len() > 1 {
            let compare = self.comparator()?;
            merged.dedup_by(|row, before| compare(*row, *before).is_eq());
        }
        Ok(merged)
    }

    /// How many keys disjoint ranges have, or more: one is counted for each part in which it has a row, removed or not.
    pub(crate) fn most_distinct(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<usize> {
        let of_run = |(_, run): (_, &Run)| run.index.count_keys(starts, ends).map_err(external);
        self.runs().map(|run| Ok(sum(&of_run(run)?).unwrap_or(0) as usize)).sum()
    }

    /// Rows that are in order in each part, in the order of all.
    fn merged(&self, mut ordered: Vec<Vec<u64>>, most: usize, descending: bool) -> Result<Vec<u64>> {
        ordered.retain(|rows| !rows.is_empty());
        if ordered.len() < 2 {
            return Ok(ordered.pop().unwrap_or_default());
        }
        let compare = self.comparator()?;
        // Rows of one key ascend, too.
        let is_before = |a: u64, b: u64| compare(a, b).then(a.cmp(&b)).is_lt() != descending;
        // The last parts are the smallest ones.
        let mut merged = ordered.pop().unwrap_or_default();
        while let Some(older) = ordered.pop() {
            let (newer, mut left) = (merged, &older[..]);
            merged = Vec::with_capacity(newer.len() + older.len());
            for row in newer {
                let (before, after) = left.split_at(left.partition_point(|other| is_before(*other, row)));
                merged.extend_from_slice(before);
                merged.push(row);
                left = after;
            }
            merged.extend_from_slice(left);
            merged.truncate(most);
        }
        Ok(merged)
    }

    /// The row whose value is the nearest to each key: not below it if `forward`, and otherwise not above it. Of equal values, the first
    /// row if `forward`, or the last one.
    pub(crate) fn neighbors(&self, keys: &ArrayRef, forward: bool) -> Result<UInt64Array> {
        if let Some(index) = self.sole() {
            return if forward { index.successor(keys) } else { index.predecessor(keys) }.map_err(external);
        }
        let key = Bound::Included(&**keys as &dyn Array);
        let (starts, ends) = if forward { (key, Bound::Unbounded) } else { (Bound::Unbounded, key) };
        let (lists, compare) = (self.lists(starts, ends)?, self.comparator()?);
        let nearest = |key: usize| {
            let found = lists.iter().filter(|of_run| of_run.lists.is_valid(key)).filter_map(|of_run| {
                let places = of_run.list(key);
                of_run.next_to(if forward { places.start } else { places.end }, forward)
            });
            let order = |a: &u64, b: &u64| compare(*a, *b).then(a.cmp(b));
            if forward { found.min_by(order) } else { found.max_by(order) }
        };
        Ok((0..keys.len()).map(nearest).collect())
    }
}

/// A batch that may have no columns.
pub(crate) fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Bytes of a batch's own rows; it may be a part of a larger one.
pub(crate) fn bytes_of(batch: &RecordBatch) -> Result<usize> {
    batch.columns().iter().map(|column| Ok(column.to_data().get_slice_memory_size()?)).sum()
}
