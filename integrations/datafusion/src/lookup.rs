use crate::contents::{Contents, batch_of, external};
use core::fmt;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::{concat, filter, not, prep_null_mask_filter, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType, Statistics, internal_err, project_schema};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::{ProjectionMapping, join_equivalence_properties};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExprRef};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput, Time,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt, stream};
use lanetree_arrow::Join;
use std::collections::VecDeque;
use std::sync::Arc;

/// Probes that are looked up at a time, at least, while there are more: fewer would leave most of a GPU idle.
const BATCH: usize = 1 << 16;

/// A join with an [`IndexedTable`](crate::IndexedTable): looks up keys of its input, the probes, in the table's index. Keeps the
/// order of the probes.
#[derive(Clone, Debug)]
pub struct IndexLookupExec {
    contents: Arc<Contents>,
    probes: Arc<dyn ExecutionPlan>,
    shape: Arc<Shape>,
    /// Columns of the join's own schema that are returned.
    output: Vec<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The join that an [`IndexLookupExec`] stands for.
#[derive(Debug)]
pub(crate) struct Shape {
    /// As SQL has it: of a left and a right side.
    pub(crate) join_type: JoinType,
    /// The side of the probes.
    pub(crate) probe_side: JoinSide,
    /// The schema without a projection.
    pub(crate) schema: SchemaRef,
    /// The key, over the input.
    pub(crate) key: PhysicalExprRef,
    /// The indexed column, over the table's side.
    pub(crate) indexed: Column,
    /// The columns of the table on its side of the join.
    pub(crate) columns: Vec<usize>,
}

/// What is done with probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Returned with their rows.
    Pairs(Join),
    /// Returned by themselves if they are in the table, or if they are not.
    Filter { present: bool },
}

/// Where a column of the join comes from: a column of the input, or of the table.
#[derive(Clone, Copy, Debug)]
enum Source {
    Probe(usize),
    Table(usize),
}

impl Shape {
    /// `None` for a join that returns rows of the table that no probe finds, or each row once.
    fn kind(&self) -> Option<Kind> {
        use JoinType::*;
        Some(match (self.join_type, self.probe_side) {
            (Inner, _) => Kind::Pairs(Join::Inner),
            (Left, JoinSide::Left) | (Right, JoinSide::Right) => Kind::Pairs(Join::Left),
            (LeftSemi, JoinSide::Left) | (RightSemi, JoinSide::Right) => Kind::Filter { present: true },
            (LeftAnti, JoinSide::Left) | (RightAnti, JoinSide::Right) => Kind::Filter { present: false },
            _ => return None,
        })
    }

    /// Whether a look-up can stand for the join.
    pub(crate) fn is_lookup(&self) -> bool {
        self.kind().is_some()
    }

    /// Where column `at` of the join's schema comes from, given the number of columns of the input.
    fn source(&self, at: usize, probes: usize) -> Source {
        let from_table = |at: usize| Source::Table(self.columns[at]);
        match (self.kind(), self.probe_side) {
            (Some(Kind::Filter { .. }), _) => Source::Probe(at),
            (_, JoinSide::Left) => {
                if at < probes {
                    Source::Probe(at)
                } else {
                    from_table(at - probes)
                }
            }
            _ if at < self.columns.len() => from_table(at),
            _ => Source::Probe(at - self.columns.len()),
        }
    }
}

impl IndexLookupExec {
    /// A join of this shape, with `output` of its columns.
    pub(crate) fn new(
        contents: Arc<Contents>,
        probes: Arc<dyn ExecutionPlan>,
        shape: Arc<Shape>,
        output: Vec<usize>,
    ) -> Result<Self> {
        let table = project_schema(contents.batch.schema_ref(), Some(&shape.columns))?;
        let given = probes.equivalence_properties().clone();
        let indexed: PhysicalExprRef = Arc::new(shape.indexed.clone());
        let (table, key) = (EquivalenceProperties::new(table), shape.key.clone());
        let is_left = shape.probe_side == JoinSide::Left;
        let (left, right, on) = match is_left {
            true => (given, table, (key, indexed)),
            false => (table, given, (indexed, key)),
        };
        let joined = join_equivalence_properties(
            left,
            right,
            &shape.join_type,
            shape.schema.clone(),
            &[is_left, !is_left],
            Some(shape.probe_side),
            &[on],
        )?;
        let mapping = ProjectionMapping::from_indices(&output, &shape.schema)?;
        let equivalences = joined.project(&mapping, project_schema(&shape.schema, Some(&output))?);
        let partitions = probes.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(partitions),
            probes.pipeline_behavior(),
            probes.boundedness(),
        );
        Ok(Self {
            contents,
            probes,
            shape,
            output,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// How many rows the table has.
    pub(crate) fn table_rows(&self) -> usize {
        self.contents.batch.num_rows()
    }

    fn kind(&self) -> Result<Kind> {
        match self.shape.kind() {
            Some(kind) => Ok(kind),
            None => internal_err!("no look-up for a {} join", self.shape.join_type),
        }
    }
}

impl DisplayAs for IndexLookupExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { join_type, key, schema, .. } = &*self.shape;
        let (index, device) = (self.contents.column_name(), self.contents.index.device());
        write!(f, "IndexLookupExec: join_type={join_type}, key={key}, index={index}, device={device}")?;
        let names: Vec<_> = self.output.iter().map(|at| format!("{}@{at}", schema.field(*at).name())).collect();
        write!(f, ", projection=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for IndexLookupExec {
    fn name(&self) -> &str {
        "IndexLookupExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.probes]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(probes), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a look-up has one input");
        };
        Ok(Arc::new(Self::new(self.contents.clone(), probes, self.shape.clone(), self.output.clone())?))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        f(&self.shape.key)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.probes.execute(partition, context.clone())?;
        let probe_columns = self.probes.schema().fields().len();
        let sources = self.output.iter().map(|at| self.shape.source(*at, probe_columns)).collect();
        let labelled = || {
            let device = self.contents.index.device().to_string();
            MetricBuilder::new(&self.metrics).with_new_label("device", device)
        };
        let lookup = Lookup {
            contents: self.contents.clone(),
            key: self.shape.key.clone(),
            kind: self.kind()?,
            sources,
            schema: self.schema(),
            batch_size: context.session_config().batch_size().max(1),
            memory: MemoryConsumer::new(format!("IndexLookupExec[{partition}]")).register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            probe_rows: labelled().counter("probe_rows", partition),
            probe_batches: labelled().counter("probe_batches", partition),
            lookup_time: labelled().subset_time("lookup_time", partition),
        };
        let state = State { input: Some(input), waiting: Vec::new(), waiting_rows: 0, found: VecDeque::new(), lookup };
        let batches = stream::try_unfold(state, async |mut state| Ok(state.next().await?.map(|batch| (batch, state))));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let probes = inputs.first().map_or(Precision::Absent, |input| input.num_rows);
        statistics.num_rows = match (self.kind()?, self.contents.index.is_unique()) {
            (Kind::Pairs(Join::Left), true) => probes,
            _ => probes.to_inexact(),
        };
        Ok(Arc::new(statistics))
    }

    /// Columns that are not wanted are not made.
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let own = |expr: &ProjectionExpr| {
            let column = expr.expr.downcast_ref::<Column>()?;
            (column.name() == expr.alias).then(|| self.output[column.index()])
        };
        let Some(output) = projection.expr().iter().map(own).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let lookup = Self::new(self.contents.clone(), self.probes.clone(), self.shape.clone(), output)?;
        // An alias may have other metadata.
        Ok((lookup.schema() == projection.schema()).then(|| Arc::new(lookup) as _))
    }
}

/// What a partition's look-ups take.
struct Lookup {
    contents: Arc<Contents>,
    key: PhysicalExprRef,
    kind: Kind,
    sources: Vec<Source>,
    schema: SchemaRef,
    batch_size: usize,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
    probe_rows: Count,
    probe_batches: Count,
    lookup_time: Time,
}

/// A partition: input that waits to be looked up, and what was found and not yet returned.
struct State {
    /// Until it has ended.
    input: Option<SendableRecordBatchStream>,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    found: VecDeque<Found>,
    lookup: Lookup,
}

/// A batch of the input, and what was found for it and not yet returned.
struct Found {
    probes: RecordBatch,
    answers: Answers,
}

enum Answers {
    /// Numbers of probes, from that of the batch's first one on, and of rows of the table.
    Pairs { first: u64, probes: UInt64Array, rows: UInt64Array },
    /// Which probes are returned, until they are.
    Mask(Option<BooleanArray>),
}

impl State {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while let Some(found) = self.found.front_mut() {
                if let Some(batch) = self.lookup.make(found)? {
                    return Ok(Some(batch.record_output(&self.lookup.metrics)));
                }
                self.found.pop_front();
            }
            self.lookup.memory.free();
            while self.waiting_rows < BATCH
                && let Some(input) = &mut self.input
            {
                match input.next().await.transpose()? {
                    Some(batch) => {
                        self.lookup.memory.try_grow(bytes_of(&batch)?)?;
                        self.waiting_rows += batch.num_rows();
                        self.waiting.push(batch);
                    }
                    None => self.input = None,
                }
            }
            if self.waiting.is_empty() {
                return Ok(None);
            }
            self.waiting_rows = 0;
            self.found = self.lookup.find(core::mem::take(&mut self.waiting))?;
        }
    }
}

/// Bytes of a batch's own rows; it may be a part of a larger one.
fn bytes_of(batch: &RecordBatch) -> Result<usize> {
    batch.columns().iter().map(|column| Ok(column.to_data().get_slice_memory_size()?)).sum()
}

impl Lookup {
    /// Looks up batches together.
    fn find(&self, batches: Vec<RecordBatch>) -> Result<VecDeque<Found>> {
        let _timer = self.metrics.elapsed_compute().timer();
        let keys: Result<Vec<ArrayRef>> =
            batches.iter().map(|batch| self.key.evaluate(batch)?.into_array(batch.num_rows())).collect();
        let keys = keys?;
        let keys = match &keys[..] {
            [keys] => keys.clone(),
            many => concat(&many.iter().map(|keys| &**keys).collect::<Vec<_>>())?,
        };
        self.probe_rows.add(keys.len());
        self.probe_batches.add(1);
        let index = &self.contents.index;
        let mut first = 0;
        Ok(match self.kind {
            Kind::Pairs(join) => {
                let (mut probes, mut rows) = self.timed(|| index.join(&keys, join))?;
                self.memory.try_grow(2 * size_of_val(&probes.values()[..]))?;
                let mut found = VecDeque::with_capacity(batches.len());
                for batch in batches {
                    let end = first + batch.num_rows() as u64;
                    let of_batch = probes.values().partition_point(|probe| *probe < end);
                    let (own, own_rows);
                    (own, probes) = split(&probes, of_batch);
                    (own_rows, rows) = split(&rows, of_batch);
                    found.push_back(Found {
                        probes: batch,
                        answers: Answers::Pairs { first, probes: own, rows: own_rows },
                    });
                    first = end;
                }
                found
            }
            Kind::Filter { present } => {
                let mut mask = self.timed(|| index.contains(&keys))?;
                if mask.null_count() > 0 {
                    // A null is not in the table.
                    mask = prep_null_mask_filter(&mask);
                }
                if !present {
                    mask = not(&mask)?;
                }
                let each = batches.into_iter().map(|batch| {
                    let own = mask.slice(first as usize, batch.num_rows());
                    first += batch.num_rows() as u64;
                    Found { probes: batch, answers: Answers::Mask(Some(own)) }
                });
                each.collect()
            }
        })
    }

    fn timed<T>(&self, look_up: impl FnOnce() -> lanetree_arrow::Result<T>) -> Result<T> {
        let _timer = self.lookup_time.timer();
        look_up().map_err(external)
    }

    /// The next batch of results, if there are more.
    fn make(&self, found: &mut Found) -> Result<Option<RecordBatch>> {
        let _timer = self.metrics.elapsed_compute().timer();
        let batch = &found.probes;
        match &mut found.answers {
            Answers::Pairs { probes, .. } if probes.is_empty() => Ok(None),
            Answers::Pairs { first, probes, rows } => {
                let count = probes.len().min(self.batch_size);
                let (own, own_rows);
                (own, *probes) = split(probes, count);
                (own_rows, *rows) = split(rows, count);
                let own = if *first == 0 { own } else { own.unary(|probe| probe - *first) };
                // As with distinct values that are all there.
                let is_whole =
                    count == batch.num_rows() && own.values().iter().zip(0..).all(|(probe, at)| *probe == at);
                let column = |source: &Source| match *source {
                    Source::Probe(at) if is_whole => Ok(batch.column(at).clone()),
                    Source::Probe(at) => Ok(take(batch.column(at), &own, None)?),
                    Source::Table(at) => Ok(take(self.contents.batch.column(at), &own_rows, None)?),
                };
                let columns = self.sources.iter().map(column).collect::<Result<_>>()?;
                batch_of(&self.schema, columns, count).map(Some)
            }
            Answers::Mask(mask) => {
                let Some(mask) = mask.take() else { return Ok(None) };
                let count = mask.true_count();
                let column = |source: &Source| match *source {
                    Source::Probe(at) if count == batch.num_rows() => Ok(batch.column(at).clone()),
                    Source::Probe(at) => Ok(filter(batch.column(at), &mask)?),
                    Source::Table(_) => internal_err!("such a join has no columns of the table"),
                };
                match count {
                    0 => Ok(None),
                    _ => {
                        batch_of(&self.schema, self.sources.iter().map(column).collect::<Result<_>>()?, count).map(Some)
                    }
                }
            }
        }
    }
}

/// The first `count` elements, and the others.
fn split(array: &UInt64Array, count: usize) -> (UInt64Array, UInt64Array) {
    (array.slice(0, count), array.slice(count, array.len() - count))
}
