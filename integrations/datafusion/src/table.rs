use crate::contents::{Contents, Indexed, Shared};
use crate::filter::{Condition, Wanted};
use crate::insert::Insert;
use crate::scan::IndexedScanExec;
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, SchemaExt, Statistics, not_impl_err, plan_datafusion_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use lanetree::Device;
use lanetree_arrow::ArrowIndex;
use std::sync::Arc;

/// A table in memory with indexes on some of its columns.
///
/// `INSERT INTO` and `INSERT OVERWRITE` change it: all rows of a statement are there at once, or none. The indexes are built
/// again over all rows, so insert many at a time. A query sees the table as it was when the query was planned.
#[derive(Clone, Debug)]
pub struct IndexedTable {
    shared: Arc<Shared>,
}

impl IndexedTable {
    /// A table of batches of one schema, with an index on a column, on a device. The rows are copied into one batch, unless they
    /// are one. Returns when the index is complete.
    ///
    /// # Errors
    /// A plan error if there is no such column; [`lanetree_arrow::Error`] as an external error: for a type without keys, and if
    /// the device or main memory has no room; an Arrow error for batches of other schemas.
    pub fn new(device: &Device, schema: SchemaRef, batches: &[RecordBatch], column: &str) -> Result<Self> {
        let shared = Shared::new(schema, batches)?;
        shared.add_index(device, column, column, false, false)?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Adds an index on another column, named as the column is. Returns when it is complete.
    ///
    /// # Errors
    /// As [`IndexedTable::new`]; a plan error if the column has an index.
    pub fn add_index(&self, device: &Device, column: &str) -> Result<()> {
        self.shared.add_index(device, column, column, false, false)
    }

    /// Takes the index of a name away, which is its column's unless `CREATE INDEX` gave it another. The rows stay, and so does the
    /// index for the queries that were planned with it. (The engine's SQL has no `DROP INDEX`.)
    ///
    /// # Errors
    /// A plan error if there is no such index.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.shared.drop_index(name)
    }

    /// The index on a column: from its values to numbers of rows. It is that of the current [`IndexedTable::rows`], until rows
    /// are inserted.
    pub fn index(&self, column: &str) -> Option<Arc<ArrowIndex>> {
        self.shared.contents().index_named(column).map(|indexed| indexed.shared_index())
    }

    /// The table with a name by which another process has the same rows and indexes, so that plans over it can be sent there:
    /// [`LookupParts`](crate::LookupParts) and [`ScanParts`](crate::ScanParts). `INSERT` takes the name away.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        self.shared.set_name(name);
        self
    }

    /// The name that was given, unless rows were inserted since.
    pub fn name(&self) -> Option<Arc<str>> {
        self.shared.contents().name.clone()
    }

    /// The names of the indexed columns.
    pub fn indexed_columns(&self) -> Vec<String> {
        let contents = self.shared.contents();
        let schema = contents.batch.schema();
        (0..schema.fields().len())
            .filter(|column| contents.index_on(*column).is_some())
            .map(|column| schema.field(column).name().clone())
            .collect()
    }

    /// All rows.
    pub fn rows(&self) -> RecordBatch {
        self.shared.contents().batch.clone()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn of(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }
}

/// The index that answers a filter, and the condition on its column.
fn condition(contents: &Arc<Contents>, filter: &Expr) -> Option<(Indexed, Condition)> {
    let columns = filter.column_refs();
    let (Some(column), 1) = (columns.iter().next(), columns.len()) else { return None };
    let indexed = contents.index_named(&column.name).filter(Indexed::is_sql)?;
    let condition = Condition::of(filter, indexed.column_name(), indexed.index().data_type())?;
    Some((indexed, condition))
}

/// A filter on the table's own schema, whose columns have no qualifiers.
fn unqualified(filter: Expr) -> Result<Expr> {
    let bare = |expr: Expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        other => Ok(Transformed::no(other)),
    };
    filter.transform(bare).data()
}

#[async_trait]
impl TableProvider for IndexedTable {
    fn schema(&self) -> SchemaRef {
        self.shared.schema.clone()
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
        let contents = self.shared.contents();
        if filters.is_empty() {
            let (partitions, batch_size) = (state.config().target_partitions(), state.config().batch_size());
            return Ok(Arc::new(IndexedScanExec::of_all(contents, projection, limit, partitions, batch_size)?));
        }
        // What is wanted of each index, and by which filters.
        let mut asked: Vec<(Indexed, Wanted, Vec<&Expr>)> = Vec::new();
        for filter in filters {
            let (indexed, condition) = condition(&contents, filter)
                .ok_or_else(|| plan_datafusion_err!("no index on {} answers {filter}", contents.indexed_columns()))?;
            let at = asked.iter().position(|(other, ..)| other.column() == indexed.column()).unwrap_or_else(|| {
                asked.push((indexed, Wanted::default(), Vec::new()));
                asked.len() - 1
            });
            asked[at].1.restrict(condition);
            asked[at].2.push(filter);
        }
        // The index that finds the fewest rows; the others' filters are tried on those.
        let mut best = (usize::MAX, 0);
        for (at, (indexed, wanted, _)) in asked.iter().enumerate() {
            best = best.min((wanted.count(indexed)?, at));
        }
        let (count, best) = best;
        let (indexed, wanted, own) = asked.swap_remove(best);
        let names = own.iter().map(ToString::to_string).collect();
        let rest_columns: Vec<_> = asked.iter().map(|(indexed, ..)| indexed.column()).collect();
        let rest = asked.into_iter().flat_map(|(.., filters)| filters).cloned().map(unqualified);
        let Some(rest) = conjunction(rest.collect::<Result<Vec<_>>>()?) else {
            return Ok(Arc::new(IndexedScanExec::of_some(indexed, projection, limit, (wanted, count), names)?));
        };
        // They may need columns that are not wanted.
        let wide = projection.map(|columns| {
            let mut wide = columns.clone();
            for column in rest_columns {
                if !wide.contains(&column) {
                    wide.push(column);
                }
            }
            wide
        });
        let scan = IndexedScanExec::of_some(indexed, wide.as_ref(), None, (wanted, count), names)?;
        let predicate = state.create_physical_expr(rest, &DFSchema::try_from(scan.schema())?)?;
        // The wanted columns are the first ones.
        let output = projection.map(|columns| (0..columns.len()).collect());
        let filter = FilterExecBuilder::new(predicate, Arc::new(scan)).apply_projection(output)?;
        Ok(Arc::new(filter.build()?))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let contents = self.shared.contents();
        let support = |filter: &&Expr| match condition(&contents, filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(&self.shared.schema);
        statistics.num_rows = Precision::Exact(self.shared.contents().batch.num_rows());
        Some(statistics)
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.shared.schema.logically_equivalent_names_and_types(&input.schema())?;
        let overwrite = match insert_op {
            InsertOp::Append => false,
            InsertOp::Overwrite => true,
            InsertOp::Replace => return not_impl_err!("REPLACE INTO a table with indexes"),
        };
        let insert = Insert { shared: self.shared.clone(), overwrite };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(insert), None)))
    }
}
