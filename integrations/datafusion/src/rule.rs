use crate::contents::Indexed;
use crate::costs::{Comparison, Costs};
use crate::ddl::Planner;
use crate::functions::{AsOf, Ranges};
use crate::lookup::IndexLookupExec;
use crate::packing::value_type;
use crate::replaced::CurrentTables;
use crate::scan::IndexedScanExec;
use crate::shape::{Kind, On, Shape};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{TableFunction, TableFunctionImpl};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExprRef, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions, SortOrderPushdownResult,
};
use lanetree::Device;
use std::sync::Arc;

/// Puts an [`IndexLookupExec`] in place of a join that an index of an [`IndexedTable`](crate::IndexedTable) can answer, if it costs
/// less: of a hash join or a sort-merge join, or of a nested-loop join whose condition is that an indexed column is between two values.
/// Puts a scan of the whole table in place of one by an index that finds most of it. `EXPLAIN` shows both costs: at the look-up, or at the scan of a table that is not looked up in.
///
/// It must run before DataFusion chooses sides and partitions its inputs: [`with_index_lookups`] puts it there.
#[derive(Debug, Default)]
pub struct IndexLookups {
    costs: Costs,
}

impl IndexLookups {
    /// With costs that were measured.
    pub fn new(costs: Costs) -> Self {
        Self { costs }
    }
}

/// Adds to a session, with indexes on [`Device::best`] and the default [`Costs`]: the rule [`IndexLookups`], before DataFusion's
/// own for joins; `CREATE INDEX`, and for plans that were made before it a rule by which they are over the table with the index;
/// the table functions `as_of`, `range_join` and `band_join`. `DELETE` and `UPDATE` of tables in memory are refused if their conditions
/// have subqueries.
pub fn with_index_lookups(builder: SessionStateBuilder) -> SessionStateBuilder {
    with_index_lookups_on(builder, &Device::best(), Costs::default())
}

/// As [`with_index_lookups`]: `CREATE INDEX` builds on a device, and joins are chosen by costs that were measured.
pub fn with_index_lookups_on(mut builder: SessionStateBuilder, device: &Device, costs: Costs) -> SessionStateBuilder {
    let mut rules = builder.physical_optimizers().take().unwrap_or_default().rules;
    let at = rules.iter().position(|rule| rule.name() == "join_selection").unwrap_or(0);
    rules.insert(at, Arc::new(IndexLookups { costs }));
    let planner = Planner::new(device, builder.query_planner().take());
    let functions: [(&str, Arc<dyn TableFunctionImpl>); 3] = [
        ("as_of", Arc::new(AsOf {})),
        ("range_join", Arc::new(Ranges::Between)),
        ("band_join", Arc::new(Ranges::Band)),
    ];
    let own =
        functions.map(|(name, function)| (name.to_owned(), Arc::new(TableFunction::new(name.to_owned(), function))));
    builder.table_functions().get_or_insert_default().extend(own);
    builder
        .with_analyzer_rule(Arc::new(CurrentTables))
        .with_physical_optimizer_rules(rules)
        .with_query_planner(Arc::new(planner))
}

impl PhysicalOptimizerRule for IndexLookups {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.scans(plan, false)?
            .transform_up(|node| {
                let lookup = self.lookup(&node)?;
                Ok(lookup.map_or_else(|| Transformed::no(node), Transformed::yes))
            })
            .data()
    }

    fn name(&self) -> &str {
        "index_lookups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl IndexLookups {
    /// The plan with scans of whole tables where those cost less than an index that finds most of the rows. One whose order is wanted, or
    /// of which only the first rows are, stays.
    fn scans(&self, node: Arc<dyn ExecutionPlan>, in_order: bool) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(scan) = node.downcast_ref::<IndexedScanExec>() {
            return Ok(scan.full(&self.costs).filter(|_| !in_order).cloned().unwrap_or(node));
        }
        let takes_first = node.is::<GlobalLimitExec>() || node.is::<LocalLimitExec>() || is_needless(&node)?;
        let keeps_order = node.is::<ProjectionExec>() || node.is::<FilterExec>();
        let required = node.required_input_ordering();
        let (mut children, mut is_changed) = (Vec::new(), false);
        for (child, required) in node.children().into_iter().zip(required) {
            let wants_order = takes_first || required.is_some() || keeps_order && in_order;
            let new = self.scans(child.clone(), wants_order)?;
            is_changed |= !Arc::ptr_eq(&new, child);
            children.push(new);
        }
        let as_before = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        if is_changed { node.replace_children(children, as_before) } else { Ok(node) }
    }

    /// The look-up for a join, or the join with what a look-up would have cost; `None` if there is no look-up for it.
    fn lookup(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = Candidate::of(node) else { return Ok(None) };
        let mut sides = join.sides.map(Clone::clone);
        let (mut lookups, mut is_compared) = (Vec::new(), false);
        for (table, probe_side) in [(1, JoinSide::Left), (0, JoinSide::Right)] {
            match join.lookup(probe_side, &self.costs)? {
                Some((lookup, comparison)) if comparison.prefers_look_up() => lookups.push(lookup),
                Some((_, comparison)) => {
                    if let Some(scan) = sides[table].downcast_ref::<IndexedScanExec>() {
                        sides[table] = Arc::new(scan.not_looked_up(comparison));
                        is_compared = true;
                    }
                }
                None => {}
            }
        }
        // If both sides are indexed, the larger one is looked up in.
        if let Some(lookup) = lookups.into_iter().max_by_key(IndexLookupExec::table_rows) {
            return Ok(Some(Arc::new(lookup)));
        }
        let as_before = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        is_compared.then(|| node.clone().replace_children(sides.into(), as_before)).transpose()
    }
}

/// Whether a node is a sort that its input can do without: in order already, or read so if it is asked.
fn is_needless(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(false) };
    let is_sorted = sort.input().equivalence_properties().ordering_satisfy(sort.expr().iter().cloned())?;
    Ok(is_sorted || matches!(sort.input().try_pushdown_sort(sort.expr())?, SortOrderPushdownResult::Exact { .. }))
}

/// A join that a look-up may stand for.
struct Candidate<'a> {
    sides: [&'a Arc<dyn ExecutionPlan>; 2],
    join_type: JoinType,
    condition: Condition<'a>,
    projection: Option<Vec<usize>>,
}

enum Condition<'a> {
    /// Of expressions over the left and the right side.
    Equal(&'a [(PhysicalExprRef, PhysicalExprRef)]),
    /// Anything.
    Filter(&'a JoinFilter),
}

impl<'a> Candidate<'a> {
    fn of(node: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let equal = |on: &'a [(PhysicalExprRef, PhysicalExprRef)], nulls: NullEquality| {
            (nulls == NullEquality::NullEqualsNothing).then_some(Condition::Equal(on))
        };
        if node.fetch().is_some() {
            return None;
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            let is_plain = join.filter().is_none() && !join.null_aware;
            Some(Self {
                sides: [join.left(), join.right()],
                join_type: *join.join_type(),
                condition: equal(join.on(), join.null_equality()).filter(|_| is_plain)?,
                projection: join.projection.as_ref().map(|columns| columns.to_vec()),
            })
        } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
            Some(Self {
                sides: [join.left(), join.right()],
                join_type: join.join_type(),
                condition: equal(join.on(), join.null_equality()).filter(|_| join.filter().is_none())?,
                projection: None,
            })
        } else {
            let join = node.downcast_ref::<NestedLoopJoinExec>()?;
            Some(Self {
                sides: [join.left(), join.right()],
                join_type: *join.join_type(),
                condition: Condition::Filter(join.filter()?),
                projection: join.projection().as_ref().map(|columns| columns.to_vec()),
            })
        }
    }

    /// The join as look-ups of one side in the other, and what it costs.
    fn lookup(&self, probe_side: JoinSide, costs: &Costs) -> Result<Option<(IndexLookupExec, Comparison)>> {
        let [left, right] = self.sides;
        let (probes, table) = if probe_side == JoinSide::Left { (left, right) } else { (right, left) };
        let Some((scan, columns)) = scan_of(table) else { return Ok(None) };
        let Some((indexed, condition)) = self.condition.on(probe_side, scan, &columns)? else { return Ok(None) };
        if !scan.is_bare() {
            return Ok(None);
        }
        let keys = match &condition {
            On::Equal { key, .. } | On::AsOf { key, .. } => vec![key],
            On::AllEqual { keys, .. } => keys.iter().collect(),
            On::Between { low, high } => vec![low, high],
        };
        // The first column is that of both bounds of a range.
        let indexed_columns = indexed.columns().iter().chain(indexed.columns());
        for (key, column) in keys.into_iter().zip(indexed_columns) {
            if value_type(&key.data_type(&probes.schema())?) != indexed.contents.value_type(*column) {
                return Ok(None);
            }
        }
        // Probes wait until there are many, which may be never.
        if probes.boundedness().is_unbounded() {
            return Ok(None);
        }
        let schema: SchemaRef = Arc::new(build_join_schema(&left.schema(), &right.schema(), &self.join_type).0);
        let shape = Shape { join_type: self.join_type, probe_side, schema, condition, columns };
        if !shape.is_lookup() {
            return Ok(None);
        }
        let output = self.projection.clone().unwrap_or_else(|| (0..shape.schema.fields().len()).collect());
        let rows = StatisticsContext::new().compute(&**probes, &StatisticsArgs::new())?.num_rows;
        let table = scan.contents().rows();
        let comparison = match shape.condition {
            On::Between { .. } => costs.compare_ranges(rows, table),
            // A filter returns each probe once, however many rows it has.
            _ if matches!(shape.kind(), Some(Kind::Filter { .. })) => costs.compare(rows, table, 1.0),
            _ => costs.compare(rows, table, indexed.copies()),
        };
        let lookup = IndexLookupExec::new(indexed, probes.clone(), Arc::new(shape), output, Some(comparison))?;
        Ok(Some((lookup, comparison)))
    }
}

impl Condition<'_> {
    /// What it asks of an index of a table, some columns of which are its side, and of which one.
    fn on(&self, probe_side: JoinSide, table: &IndexedScanExec, columns: &[usize]) -> Result<Option<(Indexed, On)>> {
        let number = |column: usize| columns.get(column).copied();
        let index_on = |columns: &[usize]| table.contents().index_on(columns);
        match *self {
            Self::Equal(pairs) => {
                // Keys, columns of the scan, and their numbers in the table.
                let mut on = Vec::with_capacity(pairs.len());
                for (left, right) in pairs {
                    let (key, column) = if probe_side == JoinSide::Left { (left, right) } else { (right, left) };
                    let Some(column) = column.downcast_ref::<Column>() else { return Ok(None) };
                    let Some(number) = number(column.index()) else { return Ok(None) };
                    on.push((key, column, number));
                }
                if let [(key, column, number)] = on[..] {
                    let on = On::Equal { key: key.clone(), indexed: column.clone() };
                    return Ok(index_on(&[number]).map(|indexed| (indexed, on)));
                }
                // In any order.
                let place = |column: &usize| on.iter().position(|(.., number)| number == column);
                let places = |indexed: Indexed| {
                    let places: Option<Vec<_>> = indexed.columns().iter().map(place).collect();
                    Some((places.filter(|places| places.len() == on.len())?, indexed))
                };
                Ok(table.contents().all().find_map(places).map(|(places, indexed)| {
                    let keys = places.iter().map(|place| on[*place].0.clone()).collect();
                    let columns = places.iter().map(|place| on[*place].1.clone()).collect();
                    (indexed, On::AllEqual { keys, indexed: columns })
                }))
            }
            Self::Filter(filter) => {
                Ok(between(filter, probe_side)?.and_then(|(column, on)| Some((index_on(&[number(column)?])?, on))))
            }
        }
    }
}

/// The scan of a table that is a side of a join, and the numbers of the columns of that side; some may have been moved or left out.
fn scan_of(side: &Arc<dyn ExecutionPlan>) -> Option<(&IndexedScanExec, Vec<usize>)> {
    if let Some(scan) = side.downcast_ref::<IndexedScanExec>() {
        return Some((scan, scan.columns().to_vec()));
    }
    let projection = side.downcast_ref::<ProjectionExec>()?;
    let scan = projection.input().downcast_ref::<IndexedScanExec>()?;
    let column = |expr: &ProjectionExpr| {
        let column = expr.expr.downcast_ref::<Column>().filter(|column| column.name() == expr.alias)?;
        scan.columns().get(column.index()).copied()
    };
    Some((scan, projection.expr().iter().map(column).collect::<Option<_>>()?))
}

/// `column >= low AND column <= high`, in any order and direction, with a column of the table and expressions over the probes.
fn between(filter: &JoinFilter, probe_side: JoinSide) -> Result<Option<(usize, On)>> {
    let of_table = |expr: &PhysicalExprRef| {
        let place = filter.column_indices().get(expr.downcast_ref::<Column>()?.index())?;
        (place.side != probe_side).then_some(place.index)
    };
    let (mut column, mut low, mut high) = (None, None, None);
    for part in split_conjunction(filter.expression()) {
        let Some(part) = part.downcast_ref::<BinaryExpr>() else { return Ok(None) };
        let (number, operator, bound) = match (of_table(part.left()), of_table(part.right())) {
            (Some(number), None) => (number, Some(*part.op()), part.right()),
            (None, Some(number)) => (number, part.op().swap(), part.left()),
            _ => return Ok(None),
        };
        let end = match operator {
            Some(Operator::GtEq) => &mut low,
            Some(Operator::LtEq) => &mut high,
            _ => return Ok(None),
        };
        if end.is_some() || column.is_some_and(|other| other != number) {
            return Ok(None);
        }
        let Some(bound) = over_probes(bound, filter, probe_side)? else { return Ok(None) };
        (column, *end) = (Some(number), Some(bound));
    }
    Ok(match (column, low, high) {
        (Some(column), Some(low), Some(high)) => Some((column, On::Between { low, high })),
        _ => None,
    })
}

/// An expression of a filter, over the probes themselves; `None` if it is of the table, too, or has another value each time.
fn over_probes(expr: &PhysicalExprRef, filter: &JoinFilter, probe_side: JoinSide) -> Result<Option<PhysicalExprRef>> {
    let mut is_over_probes = true;
    let over = expr.clone().transform(|node| {
        is_over_probes &= !node.is_volatile_node();
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let Some(place) = filter.column_indices().get(column.index()).filter(|place| place.side == probe_side) else {
            is_over_probes = false;
            return Ok(Transformed::no(node));
        };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place.index)) as PhysicalExprRef))
    })?;
    Ok(is_over_probes.then_some(over.data))
}
