//! What a table's scans and look-ups share.

use crate::declared::Declared;
use crate::packing::{Packing, value_type};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{exec_err, plan_datafusion_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use lanetree::Device;
use lanetree_arrow::{ArrowIndex, Nulls};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// An index over one column of a table, or over several of them.
#[derive(Debug)]
pub(crate) struct TableIndex {
    name: String,
    /// The numbers of the columns.
    columns: Vec<usize>,
    /// How several columns are one key.
    packing: Option<Packing>,
    /// Whether rows with equal values are refused.
    is_unique: bool,
    index: Arc<ArrowIndex>,
}

impl TableIndex {
    fn build(
        device: &Device,
        batch: &RecordBatch,
        name: &str,
        columns: &[usize],
        is_unique: bool,
    ) -> Result<Arc<Self>> {
        let build = |keys: &dyn Array| ArrowIndex::build(device, keys, Nulls::Skip).map_err(external);
        let (packing, index, twice) = if let [column] = *columns {
            let index = build(batch.column(column))?;
            let twice = index.len() - index.keys_len();
            (None, index, twice)
        } else {
            let own: Vec<_> = columns.iter().map(|column| batch.column(*column).clone()).collect();
            let (packing, words) = Packing::of(&own)?;
            let index = build(&words)?;
            let twice = if is_unique && !index.is_unique() { repeated(&packing, &own, &index)? } else { 0 };
            (Some(packing), index, twice)
        };
        if is_unique && twice > 0 {
            let (rows, values) = (index.len(), index.len() - twice);
            let columns = names_of(batch.schema_ref(), columns);
            return exec_err!(
                "index {name} is unique, but {rows} rows would have {values} distinct values of {columns}"
            );
        }
        let (name, columns) = (name.to_owned(), columns.to_vec());
        Ok(Arc::new(Self { name, columns, packing, is_unique, index: Arc::new(index) }))
    }

    /// The same index over other rows.
    fn rebuilt(&self, batch: &RecordBatch) -> Result<Arc<Self>> {
        Self::build(self.index.device(), batch, &self.name, &self.columns, self.is_unique)
    }
}

/// How many rows have the values of an earlier one; those with a null have nobody's.
fn repeated(packing: &Packing, columns: &[ArrayRef], index: &ArrowIndex) -> Result<u64> {
    let first = index.get(&packing.probes(columns)?).map_err(external)?;
    let is_repeated = |(row, first): (u64, Option<u64>)| first.is_some_and(|first| first != row);
    Ok((0..).zip(&first).filter(|pair| is_repeated(*pair)).count() as u64)
}

/// The name of a column, or of several ones in parentheses.
fn names_of(schema: &SchemaRef, columns: &[usize]) -> String {
    let names: Vec<_> = columns.iter().map(|column| schema.field(*column).name().as_str()).collect();
    match names[..] {
        [name] => name.to_owned(),
        _ => format!("({})", names.join(", ")),
    }
}

/// A table's rows at one moment, and the indexes over them.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) batch: RecordBatch,
    pub(crate) indexes: Vec<Arc<TableIndex>>,
    /// By which another process has the same rows.
    pub(crate) name: Option<Arc<str>>,
}

impl Contents {
    /// All indexes.
    pub(crate) fn all(self: &Arc<Self>) -> impl Iterator<Item = Indexed> {
        (0..self.indexes.len()).map(|at| Indexed { contents: self.clone(), at })
    }

    /// The index on columns, in this order.
    pub(crate) fn index_on(self: &Arc<Self>, columns: &[usize]) -> Option<Indexed> {
        self.all().find(|indexed| indexed.columns() == columns)
    }

    /// The index on a column of this name.
    pub(crate) fn index_named(self: &Arc<Self>, column: &str) -> Option<Indexed> {
        self.index_on(&[self.batch.schema_ref().index_of(column).ok()?])
    }

    /// The type of a column's values.
    pub(crate) fn value_type(&self, column: usize) -> &DataType {
        value_type(self.batch.schema_ref().field(column).data_type())
    }

    /// The names of the indexed columns.
    pub(crate) fn indexed_columns(&self) -> String {
        let schema = self.batch.schema_ref();
        let names: Vec<_> = self.indexes.iter().map(|index| names_of(schema, &index.columns)).collect();
        names.join(", ")
    }

    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index.name == name)
    }

    /// What `SHOW INDEXES` says.
    pub(crate) fn described(&self) -> impl Iterator<Item = Described> {
        self.indexes.iter().map(|index| Described {
            name: index.name.clone(),
            columns: names_of(self.batch.schema_ref(), &index.columns),
            is_unique: index.is_unique,
            bytes: index.index.bytes() + index.index.host_bytes(),
            device: index.index.device().to_string(),
        })
    }

    /// Some columns of some rows.
    pub(crate) fn take(&self, columns: &[usize], rows: &dyn Array) -> Result<Vec<ArrayRef>> {
        columns.iter().map(|&column| Ok(take(self.batch.column(column), rows, None)?)).collect()
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

    pub(crate) fn index(&self) -> &ArrowIndex {
        &self.own().index
    }

    pub(crate) fn shared_index(&self) -> Arc<ArrowIndex> {
        self.own().index.clone()
    }

    /// How many rows a value has, on the average.
    pub(crate) fn copies(&self) -> f64 {
        self.index().len() as f64 / self.index().keys_len().max(1) as f64
    }

    /// How its columns are one key, if it has several.
    pub(crate) fn packing(&self) -> Option<&Packing> {
        self.own().packing.as_ref()
    }

    /// The numbers of the indexed columns.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.own().columns
    }

    /// The name of the column, or those of all.
    pub(crate) fn column_names(&self) -> String {
        names_of(self.contents.batch.schema_ref(), self.columns())
    }
}

/// A table that changes as a whole: who has taken its contents keeps them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) schema: SchemaRef,
    pub(crate) declared: Declared,
    current: RwLock<Arc<Contents>>,
    /// Held by the one change that is made at a time. Readers don't wait for it.
    changes: Mutex<()>,
}

impl Shared {
    /// A table without indexes.
    pub(crate) fn new(schema: SchemaRef, batches: &[RecordBatch], declared: Declared) -> Result<Self> {
        let batch = match batches {
            [batch] if batch.schema_ref() == &schema => batch.clone(),
            _ => concat_batches(&schema, batches)?,
        };
        let contents = Contents { batch, indexes: Vec::new(), name: None };
        Ok(Self { schema, declared, current: RwLock::new(Arc::new(contents)), changes: Mutex::new(()) })
    }

    pub(crate) fn contents(&self) -> Arc<Contents> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other contents in the place of the current ones; an error leaves those.
    fn change(&self, make: impl FnOnce(&Contents) -> Result<Contents>) -> Result<()> {
        let _one_at_a_time = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = Arc::new(make(&self.contents())?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = contents;
        Ok(())
    }

    /// Adds an index. With `if_not_exists`, one of its name is left as it is.
    pub(crate) fn add_index(
        &self,
        device: &Device,
        name: &str,
        columns: &[&str],
        is_unique: bool,
        if_not_exists: bool,
    ) -> Result<()> {
        let number_of = |column: &&str| {
            self.schema.index_of(column).map_err(|_| {
                let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
                plan_datafusion_err!("no column {column} to index: choose one of {}", names.join(", "))
            })
        };
        let numbers = columns.iter().map(number_of).collect::<Result<Vec<_>>>()?;
        if numbers.is_empty() {
            return plan_err!("an index without columns: name one at least");
        }
        if let Some(at) = (1..numbers.len()).find(|at| numbers[..*at].contains(&numbers[*at])) {
            return plan_err!("column {} is twice in the index: name it once", columns[at]);
        }
        self.check_types(&numbers)?;
        if numbers.len() > 1 {
            let types: Vec<_> = numbers.iter().map(|number| self.schema.field(*number).data_type()).collect();
            Packing::check(&columns.iter().copied().zip(types).collect::<Vec<_>>())?;
        }
        self.change(|Contents { batch, indexes, name: table }| {
            let mut indexes = indexes.clone();
            let is_there = indexes.iter().any(|index| index.name == name);
            if is_there && !if_not_exists {
                return plan_err!("there is an index {name}: choose another name, or say IF NOT EXISTS");
            }
            if !is_there {
                if let Some(other) = indexes.iter().find(|index| index.columns == numbers) {
                    let (columns, name) = (names_of(&self.schema, &numbers), &other.name);
                    return plan_err!("column {columns} has an index, {name}: one is enough");
                }
                indexes.push(TableIndex::build(device, batch, name, &numbers, is_unique)?);
            }
            Ok(Contents { batch: batch.clone(), indexes, name: table.clone() })
        })
    }

    /// # Errors
    /// A plan error for the first column of floats.
    fn check_types(&self, columns: &[usize]) -> Result<()> {
        for field in columns.iter().map(|column| self.schema.field(*column)) {
            if value_type(field.data_type()).is_floating() {
                let (name, data_type) = (field.name(), field.data_type());
                return plan_err!(
                    "column {name} is {data_type}, and no index has SQL's order of floats, where -0.0 equals 0.0: index a column of \
                     decimals or integers"
                );
            }
        }
        Ok(())
    }

    /// Takes an index away.
    pub(crate) fn drop_index(&self, name: &str) -> Result<()> {
        self.change(|Contents { batch, indexes, name: table }| {
            let mut rest = indexes.clone();
            rest.retain(|index| index.name != name);
            if rest.len() == indexes.len() {
                let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
                return plan_err!("no index {name} to drop: choose one of {}", names.join(", "));
            }
            Ok(Contents { batch: batch.clone(), indexes: rest, name: table.clone() })
        })
    }

    /// Says by which name another process has the same rows.
    pub(crate) fn set_name(&self, name: &str) {
        let named = self.change(|Contents { batch, indexes, .. }| {
            Ok(Contents { batch: batch.clone(), indexes: indexes.clone(), name: Some(name.into()) })
        });
        debug_assert!(named.is_ok());
    }

    /// Puts other rows in the place of the current ones. Indexes on columns that are still the same arrays stay; the others are
    /// built again.
    pub(crate) fn change_rows(&self, make: impl FnOnce(&RecordBatch) -> Result<RecordBatch>) -> Result<()> {
        self.change(|old| {
            let batch = make(&old.batch)?;
            let is_same = |column: &usize| Arc::ptr_eq(old.batch.column(*column), batch.column(*column));
            let index = |index: &Arc<TableIndex>| match index.columns.iter().all(is_same) {
                true => Ok(index.clone()),
                false => index.rebuilt(&batch),
            };
            let indexes = old.indexes.iter().map(index).collect::<Result<_>>()?;
            let name = old.name.clone().filter(|_| (0..batch.num_columns()).all(|column| is_same(&column)));
            Ok(Contents { indexes, batch, name })
        })
    }

    /// Adds rows, or puts them in place of all others.
    pub(crate) fn insert(&self, rows: &[RecordBatch], overwrite: bool) -> Result<()> {
        self.change_rows(|batch| {
            let old = if overwrite { None } else { Some(batch) };
            Ok(concat_batches(&self.schema, old.into_iter().chain(rows))?)
        })
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

pub(crate) fn external(error: lanetree_arrow::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
