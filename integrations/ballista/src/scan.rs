//! Scans of tables in shards.

use crate::shards::Shards;
use crate::tables::{Table, Tables};
use async_trait::async_trait;
use core::fmt;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err, project_schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use lanetree_datafusion::IndexedTable;
use std::sync::Arc;

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
            let rows = open(&scan.tables, &scan.shards, number).await?.rows()?.project(&scan.columns)?;
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
            Some(number) => self.shards.rows_of[number],
            None => self.shards.rows(),
        };
        statistics.num_rows = Precision::Exact(rows);
        Ok(Arc::new(statistics))
    }
}

/// What DataFusion reads a table by.
pub(crate) fn provider(tables: &Arc<Tables>, table: Table) -> Arc<dyn TableProvider> {
    match table {
        Table::Whole(table) => Arc::new(table),
        Table::Sharded(shards) => Arc::new(ShardedTable::new(tables, &shards)),
    }
}

impl Tables {
    /// A table by its name, for a session of this process: [`Tables::open`].
    ///
    /// # Errors
    /// As [`Tables::open`].
    pub fn provider(self: &Arc<Self>, name: &str) -> Result<Arc<dyn TableProvider>> {
        Ok(provider(self, self.open(name)?))
    }
}
