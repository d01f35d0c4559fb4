use crate::contents::{ASCENDING, Contents, Indexed, batch_of};
use crate::costs::{Comparison, Costs};
use crate::ranges::ColumnFilter;
use crate::select::{self, OrderedRows};
use core::fmt;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, Statistics, internal_err, project_schema};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{ConstExpr, EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult};
use futures::stream;
use std::sync::Arc;

/// Reads rows of an [`IndexedTable`](crate::IndexedTable): all of them in the table's order, or those that the index finds, in
/// the order of the indexed columns.
#[derive(Clone, Debug)]
pub struct IndexedScanExec {
    pub(crate) contents: Arc<Contents>,
    /// The table's columns that are read.
    pub(crate) columns: Vec<usize>,
    pub(crate) rows: Rows,
    /// How many rows are read.
    pub(crate) count: usize,
    pub(crate) is_limited: bool,
    /// Why a join does not look up in the index.
    not_looked_up: Option<Comparison>,
    /// The same rows by a scan of the whole table.
    full: Option<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

#[derive(Clone, Debug)]
pub(crate) enum Rows {
    All,
    Wanted(Wanted),
}

/// What an index is asked.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) indexed: Indexed,
    /// On its first columns.
    pub(crate) filters: Arc<[ColumnFilter]>,
    /// The filters as the plan shows them.
    pub(crate) texts: Vec<String>,
    /// Whether one row of each distinct key is wanted, and all nulls are one key.
    pub(crate) is_distinct: bool,
    /// The order of the rows: the index's, or that backwards. Of columns after the first one, nulls are last in the index.
    pub(crate) order: SortOptions,
}

impl Wanted {
    /// All rows, in an order.
    pub(crate) fn all(indexed: Indexed, order: SortOptions) -> Self {
        Self { indexed, filters: [ColumnFilter::default()].into(), texts: Vec::new(), is_distinct: false, order }
    }

    fn rows(&self, most: usize) -> Result<OrderedRows> {
        match self.is_distinct {
            true => select::distinct(&self.indexed, &self.filters, self.order),
            false => select::rows(&self.indexed, &self.filters, most, self.order),
        }
    }

    /// How many rows they are.
    pub(crate) fn count(&self) -> Result<usize> {
        match self.is_distinct {
            true => match select::count_distinct(&self.indexed, &self.filters)? {
                Some(count) => Ok(count),
                None => Ok(self.rows(usize::MAX)?.len()),
            },
            false => select::count(&self.indexed, &self.filters),
        }
    }

    /// Whether all rows that are found have one value of the index's column `at`.
    fn is_constant(&self, at: usize) -> bool {
        self.filters.get(at).is_some_and(ColumnFilter::is_constant)
    }

    /// Whether rows may be found whose column `at` of the index is null.
    fn may_have_null(&self, at: usize) -> bool {
        let is_nullable = self.indexed.contents.schema.field(self.indexed.columns()[at]).is_nullable();
        is_nullable && self.filters.get(at).is_none_or(ColumnFilter::nulls)
    }

    /// Whether the rows are in the wanted order of the index's column `at`, given equal values of those before it.
    fn has_order_of(&self, at: usize) -> bool {
        match at {
            // Rows whose first column is null are put where they are wanted.
            0 => true,
            _ => !self.may_have_null(at) || self.order.nulls_first == self.order.descending,
        }
    }

    /// Whether the order says nothing of columns after `at`: rows whose first column is null are in the table's order.
    fn ends_order(&self, at: usize) -> bool {
        at == 0 && self.may_have_null(0) && self.indexed.null_count() > 0
    }
}

impl IndexedScanExec {
    /// A scan of all rows, in up to so many partitions, each of which has a batch at least.
    pub(crate) fn of_all(
        contents: Arc<Contents>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
        partitions: usize,
        batch_size: usize,
    ) -> Result<Self> {
        let count = limit.unwrap_or(usize::MAX).min(contents.rows());
        let partitions = partitions.min(count.div_ceil(batch_size.max(1))).max(1);
        Self::new(contents, projection, Rows::All, (count, limit), partitions)
    }

    /// A scan of what an index is asked, which is so many rows.
    pub(crate) fn of_some(
        wanted: Wanted,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
        count: usize,
    ) -> Result<Self> {
        let count = limit.unwrap_or(usize::MAX).min(count);
        let contents = wanted.indexed.contents.clone();
        Self::new(contents, projection, Rows::Wanted(wanted), (count, limit), 1)
    }

    /// The same scan, whose display says why a join does not look up in the index.
    pub(crate) fn not_looked_up(&self, comparison: Comparison) -> Self {
        Self { not_looked_up: Some(comparison), ..self.clone() }
    }

    /// The same scan, in whose place another plan may be put: see [`IndexedScanExec::full`].
    pub(crate) fn or_full(self, full: Arc<dyn ExecutionPlan>) -> Self {
        Self { full: Some(full), ..self }
    }

    /// The plan that reads the whole table for the rows, if that costs less.
    pub(crate) fn full(&self, costs: &Costs) -> Option<&Arc<dyn ExecutionPlan>> {
        let is_dear = costs.prefers_full_scan(self.count, self.contents.rows());
        self.full.as_ref().filter(|_| is_dear && !self.is_limited)
    }

    pub(crate) fn new(
        contents: Arc<Contents>,
        projection: Option<&Vec<usize>>,
        rows: Rows,
        (count, limit): (usize, Option<usize>),
        partitions: usize,
    ) -> Result<Self> {
        let schema = project_schema(&contents.schema, projection)?;
        let columns = projection.cloned().unwrap_or_else(|| (0..contents.schema.fields().len()).collect());
        let mut equivalences = EquivalenceProperties::new(schema);
        if let Rows::Wanted(wanted) = &rows {
            let mut ordering = Vec::new();
            for (number, column) in wanted.indexed.columns().iter().enumerate() {
                let is_one = wanted.is_constant(number);
                let at = columns.iter().position(|own| own == column);
                let expr = at.map(|at| -> Arc<dyn PhysicalExpr> {
                    Arc::new(Column::new(contents.schema.field(*column).name(), at))
                });
                match expr {
                    // Rows are in the order of the columns after it.
                    Some(expr) if is_one => equivalences.add_constants([ConstExpr::from(expr)])?,
                    None if is_one => {}
                    Some(expr) if wanted.has_order_of(number) => {
                        ordering.push(PhysicalSortExpr::new(expr, wanted.order));
                    }
                    _ => break,
                }
                if wanted.ends_order(number) {
                    break;
                }
            }
            equivalences.add_ordering(ordering);
        }
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        let properties =
            PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded);
        Ok(Self {
            contents,
            columns,
            rows,
            count,
            is_limited: limit.is_some(),
            not_looked_up: None,
            full: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same scan with all rows in one partition: for engines that send a plan's partitions to several processes, which cannot
    /// divide a scan that they do not know.
    #[must_use]
    pub fn in_one_partition(&self) -> Self {
        let properties =
            PlanProperties::clone(&self.properties).with_partitioning(Partitioning::UnknownPartitioning(1));
        Self { properties: Arc::new(properties), ..self.clone() }
    }

    /// The same rows in an order that an index has; `None` if there is none.
    fn ordered(&self, order: &[PhysicalSortExpr]) -> Result<Option<Self>> {
        // A limit has chosen the rows already.
        if self.is_limited {
            return Ok(None);
        }
        let Some(options) = order.first().map(|first| first.options) else { return Ok(None) };
        let candidates = match &self.rows {
            Rows::Wanted(wanted) => vec![Wanted { order: options, ..wanted.clone() }],
            Rows::All => self.contents.all().map(|indexed| Wanted::all(indexed, options)).collect(),
        };
        for wanted in candidates {
            let scan = Self::of_some(wanted, Some(&self.columns), None, self.count)?;
            if scan.properties.equivalence_properties().ordering_satisfy(order.iter().cloned())? {
                return Ok(Some(scan));
            }
        }
        Ok(None)
    }

    /// Adds what indexes know of their first columns: the smallest and the largest value, and how many distinct values and nulls there are.
    fn add_ends(&self, statistics: &mut Statistics) -> Result<()> {
        let known = match &self.rows {
            Rows::All => self.contents.all().map(|indexed| Wanted::all(indexed, ASCENDING)).collect(),
            Rows::Wanted(wanted) => vec![wanted.clone()],
        };
        for Wanted { indexed, filters, is_distinct, .. } in known {
            let [filter] = &filters[..] else { continue };
            let column = indexed.columns()[0];
            let is_plain = !matches!(self.contents.schema.field(column).data_type(), DataType::Dictionary(..));
            let Some(at) = self.columns.iter().position(|own| *own == column).filter(|_| is_plain) else { continue };
            let of_column = &mut statistics.column_statistics[at];
            let nulls = if filter.nulls() { indexed.null_count() } else { 0 };
            of_column.null_count = Precision::Exact(if is_distinct { nulls.min(1) } else { nulls });
            // (More ranges are asked for once, and not each time that something is estimated.)
            if filter.ranges().len() > 1 {
                continue;
            }
            if indexed.packing().is_none()
                && let Some(distinct) = select::count_distinct(&indexed, &filters)?
            {
                of_column.distinct_count = Precision::Exact(distinct - nulls.min(1));
            }
            let Some(ends) = select::ends(&indexed, filter)? else { continue };
            let values = &self.contents.take(&[column], &ends)?[0];
            of_column.min_value = Precision::Exact(ScalarValue::try_from_array(values, 0)?);
            of_column.max_value = Precision::Exact(ScalarValue::try_from_array(values, 1)?);
        }
        Ok(())
    }

    /// A plan that reads the whole table and filters it, if the scan stands for one.
    pub(crate) fn as_filter(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        let is_filter = matches!(&self.rows, Rows::Wanted(wanted) if !wanted.is_distinct);
        self.full.as_ref().filter(|_| is_filter && !self.is_limited)
    }

    pub(crate) fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    /// The table's columns that are read.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether it reads all rows.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.rows, Rows::All) && !self.is_limited
    }
}

impl DisplayAs for IndexedScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rows {
            Rows::All => {
                write!(f, "IndexedScanExec: indexes=[{}], rows={}", self.contents.indexed_columns(), self.count)?
            }
            Rows::Wanted(Wanted { indexed, texts, order, is_distinct, .. }) => {
                let (column, device) = (indexed.column_names(), indexed.device());
                let name = indexed.shown_name();
                let order = if order.descending { ", descending" } else { "" };
                let distinct = if *is_distinct { ", distinct" } else { "" };
                write!(f, "IndexedScanExec: index={column}{name}{order}{distinct}, rows={}", self.count)?;
                write!(f, ", filters=[{}], device={device}", texts.join(", "))?
            }
        }
        let schema = &self.contents.schema;
        let names: Vec<_> = self.columns.iter().map(|column| schema.field(*column).name().as_str()).collect();
        write!(f, ", projection=[{}]", names.join(", "))?;
        match &self.not_looked_up {
            Some(comparison) => write!(f, ", not looked up: {comparison}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for IndexedScanExec {
    fn name(&self) -> &str {
        "IndexedScanExec"
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
        let partitions = self.properties.partitioning.partition_count();
        if partition >= partitions {
            return internal_err!("partition {partition} of {partitions}");
        }
        let bound = |partition: usize| {
            let count = (self.count as u128 * partition as u128 / partitions as u128) as usize;
            if matches!(self.rows, Rows::All) { self.contents.after(count) } else { count }
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let counter = |name| match &self.rows {
            Rows::All => Count::new(),
            Rows::Wanted(_) => MetricBuilder::new(&self.metrics).counter(name, partition),
        };
        counter("rows_estimated").add(self.count);
        let rows_found = counter("rows_found");
        let reader = Reader {
            scan: self.clone(),
            schema: self.schema(),
            found: None,
            next: bound(partition),
            end: bound(partition + 1),
            batch_size: context.session_config().batch_size().max(1),
            metrics,
            rows_found,
        };
        let batches = stream::try_unfold(reader, async |mut reader| Ok(reader.read()?.map(|batch| (batch, reader))));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn fetch(&self) -> Option<usize> {
        self.is_limited.then_some(self.count)
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let is_one = self.properties.partitioning.partition_count() == 1;
        let count = limit.filter(|_| is_one)?.min(self.count);
        Some(Arc::new(Self { count, is_limited: true, ..self.clone() }))
    }

    /// Rows of an index are in its order, and backwards in the reverse one.
    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        Ok(match self.ordered(order)? {
            Some(scan) => SortOrderPushdownResult::Exact { inner: Arc::new(scan) },
            None => SortOrderPushdownResult::Unsupported,
        })
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = match args.partition() {
            Some(_) if self.properties.partitioning.partition_count() > 1 => Precision::Absent,
            _ => Precision::Exact(self.count),
        };
        if statistics.num_rows != Precision::Absent && !self.is_limited {
            self.add_ends(&mut statistics)?;
        }
        Ok(Arc::new(statistics))
    }
}

/// What is left to read of a partition.
struct Reader {
    scan: IndexedScanExec,
    schema: SchemaRef,
    /// The rows that the index has found, from the first read on.
    found: Option<OrderedRows>,
    /// Of the found rows, or of all rows, removed ones among them.
    next: usize,
    end: usize,
    batch_size: usize,
    metrics: BaselineMetrics,
    rows_found: Count,
}

impl Reader {
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let IndexedScanExec { contents, columns, count, .. } = &self.scan;
        while self.next < self.end {
            let mut rows = (self.end - self.next).min(self.batch_size);
            let batch = match &self.scan.rows {
                Rows::All => {
                    let (part, first) = contents.place(self.next);
                    let part = &contents.parts[part];
                    rows = rows.min(part.batch.num_rows() - first);
                    part.live_rows(columns, first..first + rows)?
                }
                Rows::Wanted(wanted) => {
                    let found = match &mut self.found {
                        Some(found) => found,
                        none => {
                            let found = wanted.rows(*count)?;
                            self.rows_found.add(found.len());
                            none.insert(found)
                        }
                    };
                    // (They were counted when the plan was made, and do not change.)
                    let own = found.slice(self.next, rows);
                    rows = own.len();
                    if rows == 0 {
                        return internal_err!("an index has fewer rows than it counted: {} of {}", self.next, self.end);
                    }
                    batch_of(&self.schema, contents.take(columns, &own)?, rows)?
                }
            };
            self.next += rows;
            if batch.num_rows() > 0 {
                return Ok(Some(batch.record_output(&self.metrics)));
            }
        }
        Ok(None)
    }
}
