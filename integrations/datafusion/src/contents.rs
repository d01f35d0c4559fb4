//! What a table's scans and look-ups share.

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{concat_batches, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{exec_err, plan_datafusion_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use lanetree::Device;
use lanetree_arrow::{ArrowIndex, Nulls};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// An index over one column of a table.
#[derive(Debug)]
pub(crate) struct ColumnIndex {
    name: String,
    /// The number of the column.
    column: usize,
    /// Whether rows with equal values are refused.
    is_unique: bool,
    index: Arc<ArrowIndex>,
}

impl ColumnIndex {
    fn build(device: &Device, batch: &RecordBatch, name: &str, column: usize, is_unique: bool) -> Result<Arc<Self>> {
        let index = ArrowIndex::build(device, batch.column(column), Nulls::Skip).map_err(external)?;
        if is_unique && !index.is_unique() {
            let (rows, values) = (index.len(), index.keys_len());
            let column = batch.schema_ref().field(column).name();
            return exec_err!(
                "index {name} is unique, but {rows} rows would have {values} distinct values of {column}"
            );
        }
        Ok(Arc::new(Self { name: name.to_owned(), column, is_unique, index: Arc::new(index) }))
    }
}

/// A table's rows at one moment, and the indexes over them.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) batch: RecordBatch,
    pub(crate) indexes: Vec<Arc<ColumnIndex>>,
    /// By which another process has the same rows.
    pub(crate) name: Option<Arc<str>>,
}

impl Contents {
    /// The index on a column.
    pub(crate) fn index_on(self: &Arc<Self>, column: usize) -> Option<Indexed> {
        let at = self.indexes.iter().position(|index| index.column == column)?;
        Some(Indexed { contents: self.clone(), at })
    }

    /// The index on a column of this name.
    pub(crate) fn index_named(self: &Arc<Self>, column: &str) -> Option<Indexed> {
        self.index_on(self.batch.schema_ref().index_of(column).ok()?)
    }

    /// The names of the indexed columns.
    pub(crate) fn indexed_columns(&self) -> String {
        let schema = self.batch.schema_ref();
        let names: Vec<_> = self.indexes.iter().map(|index| schema.field(index.column).name().as_str()).collect();
        names.join(", ")
    }

    /// Some columns of some rows.
    pub(crate) fn take(&self, columns: &[usize], rows: &dyn Array) -> Result<Vec<ArrayRef>> {
        columns.iter().map(|&column| Ok(take(self.batch.column(column), rows, None)?)).collect()
    }
}

/// A table's rows, and one of its indexes.
#[derive(Clone, Debug)]
pub(crate) struct Indexed {
    pub(crate) contents: Arc<Contents>,
    at: usize,
}

impl Indexed {
    fn own(&self) -> &ColumnIndex {
        &self.contents.indexes[self.at]
    }

    pub(crate) fn index(&self) -> &ArrowIndex {
        &self.own().index
    }

    pub(crate) fn shared_index(&self) -> Arc<ArrowIndex> {
        self.own().index.clone()
    }

    /// The number of the indexed column.
    pub(crate) fn column(&self) -> usize {
        self.own().column
    }

    pub(crate) fn column_name(&self) -> &str {
        self.contents.batch.schema_ref().field(self.column()).name()
    }

    /// Whether SQL's equality and order of the column are the index's.
    pub(crate) fn is_sql(&self) -> bool {
        !matches!(self.index().data_type(), DataType::Float32 | DataType::Float64)
    }
}

/// A table that changes as a whole: who has taken its contents keeps them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) schema: SchemaRef,
    current: RwLock<Arc<Contents>>,
    /// Held by the one change that is made at a time. Readers don't wait for it.
    changes: Mutex<()>,
}

impl Shared {
    /// A table without indexes.
    pub(crate) fn new(schema: SchemaRef, batches: &[RecordBatch]) -> Result<Self> {
        let batch = match batches {
            [batch] if batch.schema_ref() == &schema => batch.clone(),
            _ => concat_batches(&schema, batches)?,
        };
        let contents = Contents { batch, indexes: Vec::new(), name: None };
        Ok(Self { schema, current: RwLock::new(Arc::new(contents)), changes: Mutex::new(()) })
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
        column: &str,
        is_unique: bool,
        if_not_exists: bool,
    ) -> Result<()> {
        let number = self.schema.index_of(column).map_err(|_| {
            let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            plan_datafusion_err!("no column {column} to index: choose one of {}", names.join(", "))
        })?;
        self.change(|Contents { batch, indexes, name: table }| {
            let mut indexes = indexes.clone();
            let is_there = indexes.iter().any(|index| index.name == name);
            if is_there && !if_not_exists {
                return plan_err!("there is an index {name}: choose another name, or say IF NOT EXISTS");
            }
            if !is_there {
                if let Some(other) = indexes.iter().find(|index| index.column == number) {
                    return plan_err!("column {column} has an index, {}: one is enough", other.name);
                }
                indexes.push(ColumnIndex::build(device, batch, name, number, is_unique)?);
            }
            Ok(Contents { batch: batch.clone(), indexes, name: table.clone() })
        })
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

    /// Adds rows, or puts them in place of all others, and builds the indexes over what there is then.
    pub(crate) fn insert(&self, rows: &[RecordBatch], overwrite: bool) -> Result<()> {
        self.change(|Contents { batch, indexes, .. }| {
            let old = if overwrite { None } else { Some(batch) };
            let batch = concat_batches(&self.schema, old.into_iter().chain(rows))?;
            let rebuilt = indexes
                .iter()
                .map(|old| ColumnIndex::build(old.index.device(), &batch, &old.name, old.column, old.is_unique));
            Ok(Contents { indexes: rebuilt.collect::<Result<_>>()?, batch, name: None })
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
