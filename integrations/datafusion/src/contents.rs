//! What a table's scans and look-ups share.

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use lanetree_arrow::ArrowIndex;

/// A table's rows, and the index over one of its columns.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) batch: RecordBatch,
    /// The number of the indexed column.
    pub(crate) column: usize,
    pub(crate) index: ArrowIndex,
}

impl Contents {
    pub(crate) fn column_name(&self) -> &str {
        self.batch.schema_ref().field(self.column).name()
    }

    /// Whether SQL's equality and order of the column are the index's.
    pub(crate) fn is_sql(&self) -> bool {
        !matches!(self.index.data_type(), DataType::Float32 | DataType::Float64)
    }

    /// Some columns of some rows.
    pub(crate) fn take(&self, columns: &[usize], rows: &dyn Array) -> Result<Vec<ArrayRef>> {
        columns.iter().map(|&column| Ok(take(self.batch.column(column), rows, None)?)).collect()
    }
}

/// A batch that may have no columns.
pub(crate) fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

pub(crate) fn external(error: lanetree_arrow::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
