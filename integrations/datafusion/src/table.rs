use crate::contents::{Contents, external};
use crate::filter::{Condition, Wanted};
use crate::scan::IndexedScanExec;
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Statistics, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use lanetree::Device;
use lanetree_arrow::{ArrowIndex, Nulls};
use std::sync::Arc;

/// A table in memory with an index on one column. Its rows do not change.
#[derive(Debug)]
pub struct IndexedTable {
    contents: Arc<Contents>,
}

impl IndexedTable {
    /// A table of batches of one schema, with an index on a column, on a device. The rows are copied into one batch, unless they
    /// are one. Returns when the index is complete.
    ///
    /// # Errors
    /// A plan error if there is no such column; [`lanetree_arrow::Error`] as an external error: for a type without keys, and if
    /// the device or main memory has no room; an Arrow error for batches of other schemas.
    pub fn new(device: &Device, schema: SchemaRef, batches: &[RecordBatch], column: &str) -> Result<Self> {
        let column = schema.index_of(column).map_err(|_| {
            let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            plan_datafusion_err!("no column {column} to index: choose one of {}", names.join(", "))
        })?;
        let batch = match batches {
            [batch] if batch.schema_ref() == &schema => batch.clone(),
            _ => concat_batches(&schema, batches)?,
        };
        let index = ArrowIndex::build(device, batch.column(column), Nulls::Skip).map_err(external)?;
        Ok(Self { contents: Arc::new(Contents { batch, column, index }) })
    }

    /// The index: from values of the column to numbers of rows.
    pub fn index(&self) -> &ArrowIndex {
        &self.contents.index
    }

    /// All rows.
    pub fn rows(&self) -> &RecordBatch {
        &self.contents.batch
    }

    fn condition(&self, filter: &Expr) -> Option<Condition> {
        let contents = &self.contents;
        let condition = || Condition::of(filter, contents.column_name(), contents.index.data_type());
        contents.is_sql().then(condition).flatten()
    }
}

#[async_trait]
impl TableProvider for IndexedTable {
    fn schema(&self) -> SchemaRef {
        self.contents.batch.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut wanted = Wanted::default();
        for filter in filters {
            let condition = self.condition(filter).ok_or_else(|| {
                plan_datafusion_err!("the index on {} can't answer {filter}", self.contents.column_name())
            })?;
            wanted.restrict(condition);
        }
        let filter = filters.iter().map(ToString::to_string).collect();
        let partitions = state.config().target_partitions();
        let batch_size = state.config().batch_size();
        let contents = self.contents.clone();
        let scan = match filters.is_empty() {
            true => IndexedScanExec::of_all(contents, projection, limit, partitions, batch_size)?,
            false => IndexedScanExec::of_some(contents, projection, limit, wanted, filter)?,
        };
        Ok(Arc::new(scan))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.condition(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(self.contents.batch.schema_ref());
        statistics.num_rows = Precision::Exact(self.contents.batch.num_rows());
        Some(statistics)
    }
}
