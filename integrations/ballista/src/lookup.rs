use crate::scan::{ShardScanExec, open};
use crate::shards::{Shards, numbers_of_partitions};
use crate::tables::Tables;
use core::fmt;
use datafusion::arrow::array::{AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, internal_err, plan_err, project_schema};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use lanetree_datafusion::{IndexLookupExec, IndexedScanExec, LookupParts, On};
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many probes of a shard are looked up at a time, if there are as many.
const PROBES: usize = 1 << 16;
/// More partitions than any cluster has.
const MOST_PARTITIONS: usize = 1 << 16;

/// A join with a table in shards: its input, the probes, is partitioned by the ranges of the shards, so that the probes of a partition
/// need one shard, or few. Each is opened when its first probes are there.
#[derive(Clone, Debug)]
pub struct ShardedLookupExec {
    tables: Arc<Tables>,
    shards: Arc<Shards>,
    probes: Arc<dyn ExecutionPlan>,
    parts: LookupParts,
    /// How many partitions the input was wanted to have.
    partitions: usize,
    /// By which the input is partitioned.
    partition_of: PhysicalExprRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ShardedLookupExec {
    pub(crate) fn new(
        tables: &Arc<Tables>,
        shards: &Arc<Shards>,
        probes: Arc<dyn ExecutionPlan>,
        parts: LookupParts,
        partitions: usize,
    ) -> Result<Self> {
        let On::Equal { key, .. } = &parts.condition else {
            return internal_err!("no look-up in shards but of equal values");
        };
        if partitions == 0 || partitions > MOST_PARTITIONS {
            return plan_err!("a look-up in shards has 1 to {MOST_PARTITIONS} partitions, not {partitions}");
        }
        let numbers = numbers_of_partitions(partitions)?;
        let partition_of = shards.number_of(key, &|shard| numbers[shard % numbers.len()])?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(project_schema(&parts.schema, Some(&parts.output))?),
            Partitioning::UnknownPartitioning(probes.output_partitioning().partition_count()),
            probes.pipeline_behavior(),
            probes.boundedness(),
        );
        Ok(Self {
            tables: tables.clone(),
            shards: shards.clone(),
            probes,
            parts,
            partitions,
            partition_of,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    pub(crate) fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    pub(crate) fn parts(&self) -> &LookupParts {
        &self.parts
    }

    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    fn key(&self) -> Result<&PhysicalExprRef> {
        match &self.parts.condition {
            On::Equal { key, .. } => Ok(key),
            _ => internal_err!("no look-up in shards but of equal values"),
        }
    }
}

impl DisplayAs for ShardedLookupExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardedLookupExec: join_type={}, ", self.parts.join_type)?;
        if let On::Equal { key, .. } = &self.parts.condition {
            write!(f, "key={key}, ")?;
        }
        write!(f, "table={}, shards={}", self.shards.identity, self.shards.count())
    }
}

impl ExecutionPlan for ShardedLookupExec {
    fn name(&self) -> &str {
        "ShardedLookupExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.probes]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [probes] = &children[..] else {
            return internal_err!("a look-up has one input, not {}", children.len());
        };
        let (parts, probes) = (self.parts.clone(), probes.clone());
        Ok(Arc::new(Self::new(&self.tables, &self.shards, probes, parts, self.partitions)?))
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::KeyPartitioned(vec![self.partition_of.clone()])])
    }

    fn apply_expressions(
        &self,
        apply: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply(self.key()?)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let probes = Probes {
            input: self.probes.execute(partition, context.clone())?,
            shard_of: self.shards.number_of(self.key()?, &|shard| shard as u64)?,
            waiting: BTreeMap::new(),
            is_done: false,
        };
        let groups = stream::try_unfold(probes, async |mut probes| {
            Ok::<_, DataFusionError>(probes.next().await?.map(|group| (group, probes)))
        });
        let (lookup, input_schema) = (self.clone(), self.probes.schema());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let used: Count = MetricBuilder::new(&self.metrics).counter("shards", partition);
        let mut last = None;
        let found = groups.and_then(move |(shard, batches)| {
            if last.replace(shard) != Some(shard) {
                used.add(1);
            }
            let (lookup, schema, context) = (lookup.clone(), input_schema.clone(), context.clone());
            async move { lookup.look_up(shard, batches, schema, context).await }
        });
        let found = found.try_flatten().map_ok(move |batch| batch.record_output(&metrics));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), found.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl ShardedLookupExec {
    /// The rows of probes that are all in the range of one shard.
    async fn look_up(
        &self,
        shard: usize,
        probes: Vec<RecordBatch>,
        schema: SchemaRef,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let table = open(&self.tables, &self.shards, shard).await?;
        let probes = MemorySourceConfig::try_new_exec(&[probes], schema, None)?;
        IndexLookupExec::of_parts(&table, probes, self.parts.clone())?.execute(0, context)
    }
}

/// Probes that wait for others of the same shard.
struct Probes {
    input: SendableRecordBatchStream,
    /// The number of the shard of each probe.
    shard_of: PhysicalExprRef,
    waiting: BTreeMap<usize, (Vec<RecordBatch>, usize)>,
    is_done: bool,
}

impl Probes {
    /// Probes of one shard, and its number: many, or all that there are.
    async fn next(&mut self) -> Result<Option<(usize, Vec<RecordBatch>)>> {
        while !self.is_done {
            match self.input.next().await {
                Some(batch) => {
                    if let Some(full) = self.add(&batch?)? {
                        return Ok(self.waiting.remove(&full).map(|(batches, _)| (full, batches)));
                    }
                }
                None => self.is_done = true,
            }
        }
        Ok(self.waiting.pop_first().map(|(shard, (batches, _))| (shard, batches)))
    }

    /// Lets a batch wait, and returns a shard that has many probes now. (Another one is returned with its next batch.)
    fn add(&mut self, batch: &RecordBatch) -> Result<Option<usize>> {
        let shards = self.shard_of.evaluate(batch)?.into_array(batch.num_rows())?;
        let shards = shards.as_primitive::<UInt64Type>().values();
        let mut full = None;
        let mut wait = |shard: usize, rows: RecordBatch| {
            let (batches, count) = self.waiting.entry(shard).or_default();
            *count += rows.num_rows();
            batches.push(rows);
            if *count >= PROBES {
                full = Some(shard);
            }
        };
        match shards.first() {
            None => {}
            Some(first) if shards.iter().all(|shard| shard == first) => wait(*first as usize, batch.clone()),
            Some(_) => {
                let mut rows_of: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
                for (row, shard) in (0..).zip(shards) {
                    rows_of.entry(*shard).or_default().push(row);
                }
                for (shard, rows) in rows_of {
                    let rows: UInt32Array = UInt32Array::from_iter_values(rows);
                    wait(shard as usize, take_record_batch(batch, &rows)?);
                }
            }
        }
        Ok(full)
    }
}

/// Puts a [`ShardedLookupExec`] in place of a hash join with the column by whose values a table is in shards, and makes of other scans
/// what Ballista can send in parts: a scan for each shard, and one partition of what is in this process. (It would read all of a leaf
/// with several partitions in each task.)
///
/// A look-up in shards is always preferred: a hash join would read all shards and send their rows.
#[derive(Debug)]
pub(crate) struct ShardedLookups;

impl PhysicalOptimizerRule for ShardedLookups {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let partitions = config.execution.target_partitions;
        let plan = plan.transform_up(|node| {
            let lookup = lookup(&node, partitions)?;
            Ok(lookup.map_or_else(|| Transformed::no(node), Transformed::yes))
        });
        let plan = plan.data()?.transform_up(|node| {
            if let Some(scan) = node.downcast_ref::<ShardScanExec>().filter(|scan| scan.only().is_none()) {
                let of = |number| {
                    let scan = ShardScanExec::new(scan.tables(), scan.shards(), Some(number), scan.columns().to_vec());
                    Ok(Arc::new(scan?) as Arc<dyn ExecutionPlan>)
                };
                let scans = (0..scan.shards().count()).map(of).collect::<Result<Vec<_>>>()?;
                return Ok(Transformed::yes(match &scans[..] {
                    [only] => only.clone(),
                    _ => UnionExec::try_new(scans)?,
                }));
            }
            match node.downcast_ref::<IndexedScanExec>() {
                Some(scan) => Ok(Transformed::yes(Arc::new(scan.in_one_partition()))),
                None => Ok(Transformed::no(node)),
            }
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "sharded_lookups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The look-up for a join; `None` if there is none for it.
fn lookup(node: &Arc<dyn ExecutionPlan>, partitions: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let [(left_key, right_key)] = join.on() else { return Ok(None) };
    let has_more = join.filter().is_some() || join.null_aware || join.fetch().is_some();
    if has_more || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let (left, right) = ((join.left(), left_key), (join.right(), right_key));
    for (probe_side, (probes, key), (table, column)) in [(JoinSide::Left, left, right), (JoinSide::Right, right, left)]
    {
        let (Some(scan), Some(column)) = (table.downcast_ref::<ShardScanExec>(), column.downcast_ref::<Column>())
        else {
            continue;
        };
        let shards = scan.shards();
        let is_key = scan.only().is_none() && scan.columns().get(column.index()) == Some(&shards.key);
        let is_kind = match join.join_type() {
            JoinType::Inner => true,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => probe_side == JoinSide::Left,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => probe_side == JoinSide::Right,
            _ => false,
        };
        if !is_key
            || !is_kind
            || key.data_type(&probes.schema())? != *shards.key_type()
            || probes.boundedness().is_unbounded()
        {
            continue;
        }
        let schema = join.join_schema().clone();
        let output = match &join.projection {
            Some(projection) => projection.to_vec(),
            None => (0..schema.fields().len()).collect(),
        };
        let parts = LookupParts {
            index: vec![shards.key],
            join_type: *join.join_type(),
            probe_side,
            schema,
            condition: On::Equal { key: key.clone(), indexed: column.clone() },
            columns: scan.columns().to_vec(),
            output,
            filters: Vec::new(),
        };
        let lookup = ShardedLookupExec::new(scan.tables(), shards, probes.clone(), parts, partitions)?;
        return Ok(Some(Arc::new(lookup)));
    }
    Ok(None)
}
