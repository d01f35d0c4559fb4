//! Tables in shards by ranges of a column's values.

use crate::tables::Tables;
use async_trait::async_trait;
use core::fmt;
use core::hash::{Hash, Hasher};
use datafusion::arrow::array::{RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, Statistics, exec_datafusion_err, internal_err, project_schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Operator, TableType};
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Column, Literal};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use lanetree_datafusion::IndexedTable;
use std::sync::Arc;

/// An entry of a schema's metadata with the column by whose values a table is in shards.
pub(crate) const SHARDED: &str = "lanetree.sharded";
/// Entries of a schema's metadata with the number of rows and the checksum of each shard.
pub(crate) const SHARD: &str = "lanetree.shard.";

/// The name of a shard's file.
pub(crate) fn shard_file(table: &str, number: usize, checksum: u32) -> String {
    format!("{table}.{number:04}.{checksum:08x}.shard")
}

/// What is known of a table in shards without opening one: its file has the ranges, and the checksums of the shards.
#[derive(Debug, PartialEq)]
pub struct Shards {
    pub(crate) identity: Arc<str>,
    pub(crate) schema: SchemaRef,
    /// The number of the indexed column, by whose values rows are in one shard or another.
    pub(crate) key: usize,
    /// The smallest value of each shard but the first.
    splits: Vec<ScalarValue>,
    rows: Vec<usize>,
    pub(crate) checksums: Vec<u32>,
}

/// It is the table that its identity names.
impl Eq for Shards {}

impl Hash for Shards {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl Shards {
    /// Of a table's file, if it is that of a table in shards.
    pub(crate) fn of(identity: &str, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Option<Self>> {
        let Some(column) = schema.metadata().get(SHARDED) else { return Ok(None) };
        let wrong = |what: &str| exec_datafusion_err!("table {identity}: {what}");
        let key = schema.index_of(column)?;
        let (mut rows, mut checksums) = (Vec::new(), Vec::new());
        while let Some(entry) = schema.metadata().get(&format!("{SHARD}{}", rows.len())) {
            let parts = entry
                .split_once(' ')
                .and_then(|(rows, checksum)| Some((rows.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?)));
            let (own, checksum) = parts.ok_or_else(|| wrong(&format!("shard {} is {entry:?}", rows.len())))?;
            rows.push(own);
            checksums.push(checksum);
        }
        let mut splits = Vec::new();
        for batch in batches {
            for row in 0..batch.num_rows() {
                splits.push(ScalarValue::try_from_array(batch.column(key), row)?);
            }
        }
        // The first shard begins with all values.
        splits.splice(..splits.len().min(1), []);
        if rows.is_empty() || splits.len() + 1 != rows.len() || splits.iter().any(ScalarValue::is_null) {
            return Err(wrong(&format!("{} shards and {} ranges", rows.len(), splits.len() + 1)));
        }
        if splits.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(wrong("the ranges are not in ascending order"));
        }
        // Those of the rows, which the table's own file has in its metadata.
        let mut metadata = schema.metadata().clone();
        metadata.retain(|entry, _| !entry.starts_with(SHARDED) && !entry.starts_with(SHARD));
        let schema = Arc::new(Schema::clone(schema).with_metadata(metadata));
        Ok(Some(Self { identity: identity.into(), schema, key, splits, rows, checksums }))
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// How many rows all have.
    pub fn rows(&self) -> usize {
        self.rows.iter().sum()
    }

    pub(crate) fn key_name(&self) -> &str {
        self.schema.field(self.key).name()
    }

    pub(crate) fn key_type(&self) -> &DataType {
        self.schema.field(self.key).data_type()
    }

    /// The name of a shard's file.
    pub(crate) fn file(&self, number: usize) -> String {
        shard_file(self.identity.split('@').next().unwrap_or_default(), number, self.checksums[number])
    }

    /// An expression with a number for each key: the one that `numbers` has for its shard. It is made of what every DataFusion has.
    pub(crate) fn number_of(&self, key: &PhysicalExprRef, numbers: &dyn Fn(usize) -> u64) -> Result<PhysicalExprRef> {
        self.number_in(key, numbers, 0, self.count())
    }

    fn number_in(
        &self,
        key: &PhysicalExprRef,
        numbers: &dyn Fn(usize) -> u64,
        first: usize,
        end: usize,
    ) -> Result<PhysicalExprRef> {
        let literal = |value| -> PhysicalExprRef { Arc::new(Literal::new(value)) };
        if end - first == 1 {
            return Ok(literal(ScalarValue::UInt64(Some(numbers(first)))));
        }
        let middle = usize::midpoint(first, end);
        let split = literal(self.splits[middle - 1].clone());
        let is_below = Arc::new(BinaryExpr::new(key.clone(), Operator::Lt, split));
        let [below, above] = [(first, middle), (middle, end)].map(|(a, b)| self.number_in(key, numbers, a, b));
        Ok(Arc::new(CaseExpr::try_new(None, vec![(is_below, below?)], Some(above?))?))
    }
}

/// For each of so many partitions, a number that is put there when rows are partitioned by its hash.
pub(crate) fn numbers_of_partitions(partitions: usize) -> Result<Vec<u64>> {
    let mut numbers = vec![None; partitions];
    let column: PhysicalExprRef = Arc::new(Column::new("number", 0));
    let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::UInt64, false)]));
    let mut next = 0;
    while numbers.iter().any(Option::is_none) {
        let candidates = UInt64Array::from_iter_values(next..next + 16 * partitions as u64);
        next += candidates.len() as u64;
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(candidates)])?;
        let mut partitioner = BatchPartitioner::new_hash_partitioner(vec![column.clone()], partitions, Time::new())?;
        partitioner.partition(batch, |partition, rows| {
            if let Some(number) = rows.column(0).as_any().downcast_ref::<UInt64Array>().filter(|rows| rows.len() > 0) {
                numbers[partition].get_or_insert(number.value(0));
            }
            Ok(())
        })?;
    }
    Ok(numbers.into_iter().flatten().collect())
}

/// A table in shards. Its scans read shard by shard; joins with the column by whose values it is in shards are
/// [`ShardedLookupExec`](crate::ShardedLookupExec)s.
#[derive(Debug)]
pub struct ShardedTable {
    tables: Arc<Tables>,
    shards: Arc<Shards>,
}

impl ShardedTable {
    pub(crate) fn new(tables: &Arc<Tables>, shards: &Arc<Shards>) -> Self {
        Self { tables: tables.clone(), shards: shards.clone() }
    }

    pub(crate) fn identity(&self) -> &str {
        &self.shards.identity
    }
}

#[async_trait]
impl TableProvider for ShardedTable {
    fn schema(&self) -> SchemaRef {
        self.shards.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.shards.schema.fields().len()).collect());
        Ok(Arc::new(ShardScanExec::new(&self.tables, &self.shards, None, columns)?))
    }
}

/// Reads all rows of a shard, or of all shards, each of which is a partition then.
#[derive(Clone, Debug)]
pub struct ShardScanExec {
    tables: Arc<Tables>,
    shards: Arc<Shards>,
    only: Option<usize>,
    columns: Vec<usize>,
    properties: Arc<PlanProperties>,
}

impl ShardScanExec {
    pub(crate) fn new(
        tables: &Arc<Tables>,
        shards: &Arc<Shards>,
        only: Option<usize>,
        columns: Vec<usize>,
    ) -> Result<Self> {
        let schema = project_schema(&shards.schema, Some(&columns))?;
        if let Some(number) = only.filter(|number| *number >= shards.count()) {
            return internal_err!("no shard {number} of {}, which has {}", shards.identity, shards.count());
        }
        let partitions = if only.is_some() { 1 } else { shards.count() };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (tables, shards) = (tables.clone(), shards.clone());
        Ok(Self { tables, shards, only, columns, properties: Arc::new(properties) })
    }

    pub(crate) fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    pub(crate) fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The one shard that is read; all if there is none.
    pub(crate) fn only(&self) -> Option<usize> {
        self.only
    }
}

impl DisplayAs for ShardScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardScanExec: table={}, ", self.shards.identity)?;
        match self.only {
            Some(number) => write!(f, "shard={number}"),
            None => write!(f, "shards={}", self.shards.count()),
        }
    }
}

/// Opens a shard without keeping other tasks waiting.
pub(crate) async fn open(tables: &Arc<Tables>, shards: &Arc<Shards>, number: usize) -> Result<IndexedTable> {
    let (tables, shards) = (tables.clone(), shards.clone());
    let opened = tokio::task::spawn_blocking(move || tables.shard(&shards, number)).await;
    opened.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

impl ExecutionPlan for ShardScanExec {
    fn name(&self) -> &str {
        "ShardScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no inputs") }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let number = match self.only {
            Some(number) if partition == 0 => number,
            None if partition < self.shards.count() => partition,
            _ => return internal_err!("no partition {partition} of {}", self.name()),
        };
        let (scan, size) = (self.clone(), context.session_config().batch_size().max(1));
        let batches = stream::once(async move {
            let rows = open(&scan.tables, &scan.shards, number).await?.rows().project(&scan.columns)?;
            let schema = scan.schema();
            let batches = (0..rows.num_rows()).step_by(size).map(move |from| {
                let own = rows.slice(from, size.min(rows.num_rows() - from));
                Ok(own.with_schema(schema.clone())?)
            });
            Ok::<_, DataFusionError>(stream::iter(batches))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches.try_flatten().boxed())))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let rows = match self.only.or(args.partition()) {
            Some(number) => self.shards.rows[number],
            None => self.shards.rows(),
        };
        statistics.num_rows = Precision::Exact(rows);
        Ok(Arc::new(statistics))
    }
}
