use crate::contents::{Indexed, bytes_of};
use crate::costs::{BATCH, Comparison};
use crate::found::{Answers, Found, Lists, Output};
use crate::pairs::PairFilter;
use crate::runs::external;
use crate::shape::{Kind, On, Shape};
use core::fmt;
use core::ops::Bound;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::{concat, filter, is_not_null, not, prep_null_mask_filter};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, Statistics, internal_err, project_schema};
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
use lanetree::DeviceKind;
use lanetree_arrow::Join;
use std::collections::VecDeque;
use std::sync::Arc;

/// Of pairs that a filter is tried on, so many are taken to pass: as the engine has it of rows.
const FILTERED: f64 = 0.2;

/// A join with an [`IndexedTable`](crate::IndexedTable): looks up keys of its input, the probes, in one of the table's indexes.
/// Keeps the order of the probes.
#[derive(Clone, Debug)]
pub struct IndexLookupExec {
    pub(crate) indexed: Indexed,
    probes: Arc<dyn ExecutionPlan>,
    pub(crate) shape: Arc<Shape>,
    /// Why it is no hash join.
    comparison: Option<Comparison>,
    /// Columns of the join's own schema that are returned.
    pub(crate) output: Vec<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IndexLookupExec {
    /// A join of this shape, with `output` of its columns.
    pub(crate) fn new(
        indexed: Indexed,
        probes: Arc<dyn ExecutionPlan>,
        shape: Arc<Shape>,
        output: Vec<usize>,
        comparison: Option<Comparison>,
    ) -> Result<Self> {
        let table = project_schema(&indexed.contents.schema, Some(&shape.columns))?;
        let (given, table) = (probes.equivalence_properties().clone(), EquivalenceProperties::new(table));
        let is_left = shape.probe_side == JoinSide::Left;
        let (left, right) = if is_left { (given, table) } else { (table, given) };
        let pair = |(key, indexed): (&PhysicalExprRef, &Column)| -> (PhysicalExprRef, PhysicalExprRef) {
            let (key, indexed) = (key.clone(), Arc::new(indexed.clone()));
            if is_left { (key, indexed) } else { (indexed, key) }
        };
        let on: Vec<_> = match &shape.condition {
            On::Equal { key, indexed } => vec![pair((key, indexed))],
            On::AllEqual { keys, indexed } => keys.iter().zip(indexed).map(pair).collect(),
            On::AsOf { .. } | On::Between { .. } => Vec::new(),
        };
        let joined = join_equivalence_properties(
            left,
            right,
            &shape.join_type,
            shape.schema.clone(),
            &[is_left, !is_left],
            Some(shape.probe_side),
            &on,
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
            indexed,
            probes,
            shape,
            comparison,
            output,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same join of other probes, or with other columns of the join's own schema.
    fn with(&self, probes: Arc<dyn ExecutionPlan>, output: Vec<usize>) -> Result<Self> {
        Self::new(self.indexed.clone(), probes, self.shape.clone(), output, self.comparison)
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
        let Shape { join_type, condition, schema, filters, .. } = &*self.shape;
        write!(f, "IndexLookupExec: join_type={join_type}, ")?;
        match condition {
            On::Equal { key, .. } => write!(f, "key={key}")?,
            On::AllEqual { keys, .. } => {
                let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
                write!(f, "key=({})", keys.join(", "))?
            }
            On::AsOf { key, forward: false } => write!(f, "last_up_to={key}")?,
            On::AsOf { key, forward: true } => write!(f, "first_from={key}")?,
            On::Between { low, high } => write!(f, "between={low} AND {high}")?,
        }
        let (columns, name) = (self.indexed.column_names(), self.indexed.shown_name());
        write!(f, ", index={columns}{name}, device={}", self.indexed.device())?;
        if !filters.is_empty() {
            let filters: Vec<_> = filters.iter().map(ToString::to_string).collect();
            write!(f, ", pair_filters=[{}]", filters.join(", "))?;
        }
        if let Some(comparison) = &self.comparison {
            write!(f, ", {comparison}")?;
        }
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
        Ok(Arc::new(self.with(probes, self.output.clone())?))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut all: Vec<_> = match &self.shape.condition {
            On::Equal { key, .. } | On::AsOf { key, .. } => vec![key],
            On::AllEqual { keys, .. } => keys.iter().collect(),
            On::Between { low, high } => vec![low, high],
        };
        all.extend(&self.shape.filters);
        all.into_iter().try_fold(TreeNodeRecursion::Continue, |so_far, expr| so_far.visit_sibling(|| f(expr)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.probes.execute(partition, context.clone())?;
        let (probes, kind) = (self.probes.schema(), self.kind()?);
        let sources = self.output.iter().map(|at| self.shape.source(*at, probes.fields().len())).collect();
        let labelled = || {
            let device = self.indexed.device().to_string();
            MetricBuilder::new(&self.metrics).with_new_label("device", device)
        };
        let output = Output {
            indexed: self.indexed.clone(),
            sources,
            schema: self.schema(),
            filter: PairFilter::of(&self.shape, &probes, &self.indexed.contents.schema, kind)?,
            batch_size: context.session_config().batch_size().max(1),
        };
        let lookup = Lookup {
            condition: self.shape.condition.clone(),
            kind,
            output,
            memory: MemoryConsumer::new(format!("IndexLookupExec[{partition}]")).register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            probe_rows: labelled().counter("probe_rows", partition),
            probe_batches: labelled().counter("probe_batches", partition),
            lookup_time: labelled().subset_time("lookup_time", partition),
            bus_bytes: labelled().counter("bus_bytes", partition),
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
        let (condition, is_filtered) = (&self.shape.condition, !self.shape.filters.is_empty());
        let has_one = match condition {
            On::Equal { .. } | On::AllEqual { .. } => self.indexed.is_unique() && has_one_key(condition, &self.indexed),
            On::AsOf { .. } => true,
            On::Between { .. } => false,
        };
        let copies = if has_one { 1.0 } else { self.indexed.copies(condition.keys()).max(1.0) };
        let passing = if is_filtered { copies * FILTERED } else { copies };
        statistics.num_rows = match self.kind()? {
            Kind::Pairs(Join::Left) if has_one => probes,
            Kind::Pairs(Join::Left) => probes.with_estimated_selectivity(passing.max(1.0)),
            Kind::Pairs(_) => probes.with_estimated_selectivity(passing),
            Kind::Filter { .. } => probes.to_inexact(),
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
        let lookup = self.with(self.probes.clone(), output)?;
        // An alias may have other metadata.
        Ok((lookup.schema() == projection.schema()).then(|| Arc::new(lookup) as _))
    }
}

/// What a partition's look-ups take.
struct Lookup {
    condition: On,
    kind: Kind,
    output: Output,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
    probe_rows: Count,
    probe_batches: Count,
    lookup_time: Time,
    /// Of keys and answers, as arrow has them: 0 where the index is in main memory.
    bus_bytes: Count,
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

impl State {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while let Some(found) = self.found.front_mut() {
                let timer = self.lookup.metrics.elapsed_compute().timer();
                if let Some(batch) = found.next(&self.lookup.output)? {
                    return Ok(Some(batch.record_output(&self.lookup.metrics)));
                }
                timer.done();
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

impl Lookup {
    /// Looks up batches together.
    fn find(&self, batches: Vec<RecordBatch>) -> Result<VecDeque<Found>> {
        let _timer = self.metrics.elapsed_compute().timer();
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        self.probe_rows.add(count);
        self.probe_batches.add(1);
        // An answer has up to two words for each probe and each part of the rows, however many rows it has.
        let parts = self.indexed().contents.parts.len();
        self.memory.try_grow(count * 2 * size_of::<u64>() * parts)?;
        let is_filtered = self.output.filter.is_some();
        let mut answers = match self.kind {
            Kind::Filter { present } if !is_filtered => Answers::Mask(Some(self.mask(&batches, present)?)),
            kind => {
                let join = if let Kind::Pairs(join) = kind
                    && !is_filtered
                {
                    join
                } else {
                    Join::Inner
                };
                match self.lists(&batches, join)? {
                    Some(lists) => Answers::Lists(lists),
                    None => self.single(&batches, join)?,
                }
            }
        };
        let mut first = 0;
        let each = batches.into_iter().map(|probes| {
            let of_batch = answers.of(first, probes.num_rows());
            first += probes.num_rows();
            Found::new(probes, of_batch)
        });
        Ok(each.collect())
    }

    /// Which probes are in the table, or are not.
    fn mask(&self, batches: &[RecordBatch], present: bool) -> Result<BooleanArray> {
        let (first, last) = self.ends(batches)?;
        let mask = match self.indexed().sole().filter(|_| has_one_key(&self.condition, self.indexed())) {
            Some(index) => {
                let mask = self.timed(|| index.contains(&first).map_err(external))?;
                self.crossed(&[&first, &mask])?;
                // A null is not in the table.
                if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask }
            }
            None => self.lists_of(&first, &last, Join::Inner)?.mask(),
        };
        if present { Ok(mask) } else { Ok(not(&mask)?) }
    }

    /// All rows of each probe, if a probe may have several.
    fn lists(&self, batches: &[RecordBatch], join: Join) -> Result<Option<Lists>> {
        let is_one = has_one_key(&self.condition, self.indexed()) && self.indexed().is_unique();
        if is_one || matches!(self.condition, On::AsOf { .. }) {
            return Ok(None);
        }
        let (first, last) = self.ends(batches)?;
        self.lists_of(&first, &last, join).map(Some)
    }

    fn lists_of(&self, low: &ArrayRef, high: &ArrayRef, join: Join) -> Result<Lists> {
        let (start, end) = (Bound::Included(&**low as &dyn Array), Bound::Included(&**high as &dyn Array));
        let lists = self.timed(|| self.indexed().lists(start, end))?;
        // Both ends of each list come back; the rows are in main memory.
        for _ in &lists {
            self.crossed(&[low, high])?;
            self.bus_bytes.add(if self.is_beyond_a_bus() { 2 * size_of::<u64>() * low.len() } else { 0 });
        }
        Ok(Lists::new(lists, join))
    }

    /// The row that each probe matches; none matches several.
    fn single(&self, batches: &[RecordBatch], join: Join) -> Result<Answers> {
        let On::AsOf { key, forward } = &self.condition else {
            let (keys, _) = self.ends(batches)?;
            let Some(index) = self.indexed().sole() else {
                return internal_err!("an index of several parts has lists");
            };
            let (probes, rows) = self.timed(|| index.join(&keys, join).map_err(external))?;
            self.crossed(&[&keys, &probes, &rows])?;
            return Ok(Answers::Pairs { first: 0, probes, rows });
        };
        let keys = keys_of(key, batches)?;
        let rows = self.timed(|| self.indexed().neighbors(&keys, *forward))?;
        self.crossed(&[&keys, &rows])?;
        let probes = UInt64Array::from_iter_values(0..rows.len() as u64);
        if join == Join::Left || rows.null_count() == 0 {
            return Ok(Answers::Pairs { first: 0, probes, rows });
        }
        let hits = is_not_null(&rows)?;
        let hit = |numbers| -> Result<UInt64Array> { Ok(filter(numbers, &hits)?.as_primitive::<UInt64Type>().clone()) };
        Ok(Answers::Pairs { first: 0, probes: hit(&probes)?, rows: hit(&rows)? })
    }

    fn indexed(&self) -> &Indexed {
        &self.output.indexed
    }

    /// The first and the last key of the index that each probe matches.
    fn ends(&self, batches: &[RecordBatch]) -> Result<(ArrayRef, ArrayRef)> {
        match (&self.condition, self.indexed().packing()) {
            (On::Equal { key, .. }, None) => keys_of(key, batches).map(|keys| (keys.clone(), keys)),
            (On::Between { low, high }, None) => Ok((keys_of(low, batches)?, keys_of(high, batches)?)),
            (On::AllEqual { keys, .. }, Some(packing)) => {
                packing.probes(&keys.iter().map(|key| keys_of(key, batches)).collect::<Result<Vec<_>>>()?)
            }
            _ => internal_err!("no keys of {} for a look-up", self.indexed().column_names()),
        }
    }

    fn is_beyond_a_bus(&self) -> bool {
        self.indexed().device().kind() != DeviceKind::Host
    }

    /// Counts what went to the device or came back.
    fn crossed(&self, arrays: &[&dyn Array]) -> Result<()> {
        if self.is_beyond_a_bus() {
            for array in arrays {
                self.bus_bytes.add(array.to_data().get_slice_memory_size()?);
            }
        }
        Ok(())
    }

    fn timed<T>(&self, look_up: impl FnOnce() -> Result<T>) -> Result<T> {
        let _timer = self.lookup_time.timer();
        look_up()
    }
}

/// Whether each probe asks for the rows of one key of the index.
fn has_one_key(condition: &On, indexed: &Indexed) -> bool {
    match condition {
        On::Equal { .. } => true,
        On::AllEqual { keys, .. } => keys.len() == indexed.columns().len(),
        On::AsOf { .. } | On::Between { .. } => false,
    }
}

/// What an expression is for all rows of batches.
fn keys_of(key: &PhysicalExprRef, batches: &[RecordBatch]) -> Result<ArrayRef> {
    let keys: Result<Vec<ArrayRef>> =
        batches.iter().map(|batch| key.evaluate(batch)?.into_array(batch.num_rows())).collect();
    Ok(match &keys?[..] {
        [keys] => keys.clone(),
        many => concat(&many.iter().map(|keys| &**keys).collect::<Vec<_>>())?,
    })
}
