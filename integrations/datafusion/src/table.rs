use crate::asked::{asked, best};
use crate::condition::unqualified;
use crate::contents::ASCENDING;
use crate::declared::Declared;
use crate::dml::Change;
use crate::insert::Insert;
use crate::memory::Statement;
use crate::saved::IndexFile;
use crate::scan::{IndexedScanExec, Wanted};
use crate::shared::{NewIndex, Shared};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Constraints, DFSchema, SchemaExt, Statistics, not_impl_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use lanetree::Device;
use lanetree_arrow::ArrowIndex;
use std::path::Path;
use std::sync::Arc;

/// A table in memory with indexes on some of its columns.
///
/// `INSERT INTO`, `INSERT OVERWRITE`, `DELETE` and `UPDATE` change it: all rows of a statement at once, or none. A query sees the table as
/// it was when the query was planned.
///
/// A statement that changes fewer than one row in 16 adds its new rows as a part with small indexes of its own, and marks the old ones as
/// removed; queries read all parts. A part that is not 16 times as large as those after it together is made one with them. A statement
/// that changes more rows builds the indexes again over all rows; an `UPDATE` leaves those on other columns as they are. Rows that are
/// updated may come after all others. All that is built is built on threads beside the runtime's workers. A statement that is cancelled
/// before its end leaves the table as before.
///
/// Rows and indexes that statements make are counted in their session's memory pool, from before they are made until the last query that
/// reads them has ended; what [`IndexedTable::new`] makes, after [`IndexedTable::in_memory_pool`].
///
/// In a session without [`with_index_lookups`](crate::with_index_lookups), DataFusion (55.2) hands the table no condition that is never
/// true, or that has a subquery: `DELETE FROM t WHERE false` removes all rows then, as of DataFusion's own tables.
#[derive(Clone, Debug)]
pub struct IndexedTable {
    shared: Arc<Shared>,
}

impl IndexedTable {
    /// A table of batches of one schema, with an index on a column, on a device. The rows are copied into one batch, unless they
    /// are one. Returns when the index is complete.
    ///
    /// # Errors
    /// A plan error if there is no such column, and for a column of floats; [`lanetree_arrow::Error`] as an external error: for a type
    /// without keys, and if the device or main memory has no room; an Arrow error for batches of other schemas.
    pub fn new(device: &Device, schema: SchemaRef, batches: &[RecordBatch], column: &str) -> Result<Self> {
        let shared = Shared::new(schema, batches, Declared::default(), &Statement::default(), None)?;
        shared.add_index(&NewIndex::on(device, column, &[column]), false, None)?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Counts the rows and the indexes that there are in a pool while they exist, and all that is added without a session.
    ///
    /// # Errors
    /// The pool's, if it has no room; it names the index. The table is as before then.
    pub fn in_memory_pool(self, pool: &Arc<dyn MemoryPool>) -> Result<Self> {
        self.shared.count_in(pool)?;
        Ok(self)
    }

    /// Adds an index on another column, named as the column is. Returns when it is complete.
    ///
    /// # Errors
    /// As [`IndexedTable::new`]; a plan error if the column has an index.
    pub fn add_index(&self, device: &Device, column: &str) -> Result<()> {
        self.add_named_index(device, column, &[column])
    }

    /// Adds one index on several columns together, named as the columns are with `_` between them. Its order is that of the first
    /// column, then that of the second, and so on. It answers conditions on its first columns: one of `a` and `b` answers `a = 1`, `a < 1`,
    /// `a = 1 AND b = 2`, `a IN (1, 2) AND b BETWEEN 3 AND 4`; and joins that equate all of its columns. Returns when it is complete.
    ///
    /// Columns are of integers, dates, times or decimals, whose values need up to 128 bits together: two of 64 bits, or four of 32.
    ///
    /// # Errors
    /// As [`IndexedTable::new`]; a plan error for columns of other types, or of more bits, and if there is an index on the same columns in
    /// the same order; an execution error if values of 128 bits and nulls have no room together.
    pub fn add_index_on(&self, device: &Device, columns: &[&str]) -> Result<()> {
        self.add_named_index(device, &columns.join("_"), columns)
    }

    /// Adds an index of a name of its own, on one column or on several together, as `CREATE INDEX name ON table (...)` does.
    ///
    /// # Errors
    /// As [`IndexedTable::add_index_on`]; a plan error if there is an index of this name.
    pub fn add_named_index(&self, device: &Device, name: &str, columns: &[&str]) -> Result<()> {
        self.shared.add_index(&NewIndex::on(device, name, columns), false, None).map(drop)
    }

    /// As [`IndexedTable::add_named_index`], with `UNIQUE`: rows with equal values are refused, nulls apart, now and by each change.
    ///
    /// # Errors
    /// The same; an execution error if rows have equal values.
    pub fn add_unique_index(&self, device: &Device, name: &str, columns: &[&str]) -> Result<()> {
        let new = NewIndex { is_unique: true, ..NewIndex::on(device, name, columns) };
        self.shared.add_index(&new, false, None).map(drop)
    }

    /// As [`IndexedTable::add_named_index`], with a file for the index, as `WITH (file = '…')` has it: it is loaded if the file has the order
    /// of these rows, and built and saved otherwise. See [the crate](crate#files).
    ///
    /// # Errors
    /// The same; the system's if the file can't be read or written, and a plan error if it is another program's.
    pub fn add_saved_index(&self, device: &Device, name: &str, columns: &[&str], file: &Path) -> Result<IndexFile> {
        let new = NewIndex { file: Some(file), ..NewIndex::on(device, name, columns) };
        // (An index that is there already is an error.)
        Ok(self.shared.add_index(&new, false, None)?.unwrap_or(IndexFile::Loaded))
    }

    /// Takes the index of a name away, which is its column's unless it was given another. The rows stay, and so does the
    /// index for the queries that were planned with it. In SQL, that is `DROP INDEX`: see [`sql`](crate::sql).
    ///
    /// # Errors
    /// A plan error if there is no such index.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.shared.drop_index(name)
    }

    /// The index on a column, if it has one: from its values to numbers of rows. It is that of the current [`IndexedTable::rows`], until
    /// the table is changed. After small changes this builds the indexes again, over all rows.
    ///
    /// # Errors
    /// If there is no room for that.
    pub fn index(&self, column: &str) -> Result<Option<Arc<ArrowIndex>>> {
        if self.shared.contents().index_named(column).is_none() {
            return Ok(None);
        }
        Ok(self.shared.compacted()?.index_named(column).and_then(|indexed| indexed.sole().cloned()))
    }

    /// The table with a name by which another process has the same rows and indexes, so that plans over it can be sent there:
    /// [`LookupParts`](crate::LookupParts) and [`ScanParts`](crate::ScanParts). A change of rows takes the name away.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        self.shared.set_name(name);
        self
    }

    /// The name that was given, unless rows were changed since.
    pub fn name(&self) -> Option<Arc<str>> {
        self.shared.contents().name.clone()
    }

    /// The names of the columns that have an index of their own.
    pub fn indexed_columns(&self) -> Vec<String> {
        let contents = self.shared.contents();
        let schema = &contents.schema;
        (0..schema.fields().len())
            .filter(|column| contents.index_on(&[*column]).is_some())
            .map(|column| schema.field(column).name().clone())
            .collect()
    }

    /// All rows. After small changes this copies them, and builds the indexes again.
    ///
    /// # Errors
    /// If there is no room for that.
    pub fn rows(&self) -> Result<RecordBatch> {
        self.shared.compacted()?.whole()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.shared.contents().rows()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn of(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }
}

impl IndexedTable {
    /// Some columns of the rows of a scan that meet filters.
    fn filtered(
        &self,
        state: &dyn Session,
        filters: Vec<Expr>,
        projection: Option<&Vec<usize>>,
        scan: impl Fn(Option<&Vec<usize>>) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut of_filters = Vec::new();
        for column in filters.iter().flat_map(|filter| filter.column_refs()) {
            of_filters.push(self.shared.schema.index_of(&column.name)?);
        }
        of_filters.sort_unstable();
        let filters = filters.into_iter().map(unqualified).collect::<Result<Vec<_>>>()?;
        let Some(condition) = conjunction(filters) else { return scan(projection) };
        // Filters may need columns that are not wanted.
        let wide = projection.map(|columns| {
            let mut wide = columns.clone();
            for column in of_filters {
                if !wide.contains(&column) {
                    wide.push(column);
                }
            }
            wide
        });
        let scan = scan(wide.as_ref())?;
        let predicate = state.create_physical_expr(condition, &DFSchema::try_from(scan.schema())?)?;
        // The wanted columns are the first ones.
        let output = projection.map(|columns| (0..columns.len()).collect());
        let filter = FilterExecBuilder::new(predicate, scan).apply_projection(output)?;
        Ok(Arc::new(filter.build()?))
    }
}

#[async_trait]
impl TableProvider for IndexedTable {
    fn schema(&self) -> SchemaRef {
        self.shared.schema.clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.shared.declared.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.shared.declared.definition.as_deref()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.shared.declared.defaults.get(column)
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
        // The other filters are tried on the rows that the index finds.
        let Some((asked, count)) = best(&contents, &filters.iter().collect::<Vec<_>>())? else {
            // An index was dropped since it was to answer the filters.
            return self.filtered(state, filters.to_vec(), projection, |wide| {
                Ok(Arc::new(IndexedScanExec::of_all(contents.clone(), wide, None, 1, state.config().batch_size())?))
            });
        };
        let is_own = |number: &usize| asked.own.contains(number);
        let of = |numbers: Vec<usize>| -> Vec<Expr> { numbers.iter().map(|number| filters[*number].clone()).collect() };
        let (own, rest): (Vec<_>, Vec<_>) = (0..filters.len()).partition(is_own);
        let (own, rest) = (of(own), of(rest));
        let limit = limit.filter(|_| rest.is_empty());
        let texts: Vec<_> = own.iter().map(ToString::to_string).collect();
        self.filtered(state, rest, projection, |wide| {
            let full = self.filtered(state, own.clone(), wide, |wider| {
                let (partitions, batch_size) = (state.config().target_partitions(), state.config().batch_size());
                Ok(Arc::new(IndexedScanExec::of_all(contents.clone(), wider, None, partitions, batch_size)?))
            })?;
            let (indexed, filters) = (asked.indexed.clone(), asked.wanted.clone().into());
            let wanted = Wanted { indexed, filters, texts: texts.clone(), is_distinct: false, order: ASCENDING };
            Ok(Arc::new(IndexedScanExec::of_some(wanted, wide, limit, count)?.or_full(full)))
        })
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let contents = self.shared.contents();
        let asked = asked(&contents, filters);
        let support = |number: usize| match asked.iter().any(|asked| asked.own.contains(&number)) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok((0..filters.len()).map(support).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(&self.shared.schema);
        statistics.num_rows = Precision::Exact(self.len());
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

    async fn delete_from(&self, state: &dyn Session, filters: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Change::delete(&self.shared, state, filters)?.plan())
    }

    async fn update(
        &self,
        state: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Change::update(&self.shared, state, assignments, filters)?.plan())
    }
}
