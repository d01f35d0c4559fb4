//! Joins that look-ups may stand for.

use crate::contents::Indexed;
use crate::costs::{Comparison, Costs};
use crate::lookup::IndexLookupExec;
use crate::packing::value_type;
use crate::scan::IndexedScanExec;
use crate::shape::{Kind, On, Shape};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExprRef, conjunction, split_conjunction};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::{JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// A join that a look-up may stand for.
pub(crate) struct Candidate<'a> {
    pub(crate) sides: [&'a Arc<dyn ExecutionPlan>; 2],
    join_type: JoinType,
    /// Expressions over the left and the right side that are to be equal.
    equal: &'a [(PhysicalExprRef, PhysicalExprRef)],
    /// What else pairs are to meet.
    filter: Option<&'a JoinFilter>,
    projection: Option<Vec<usize>>,
}

/// A plan with a look-up that stands for a join.
pub(crate) struct Found {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) comparison: Comparison,
    pub(crate) table_rows: usize,
    /// How many rows a value of the index has, on the average.
    copies: f64,
}

/// What a join asks of an index.
struct Asked {
    indexed: Indexed,
    on: On,
    /// What pairs are to meet in addition, over the columns of the left and then of the right side.
    rest: Vec<PhysicalExprRef>,
    /// Whether a hash join makes all pairs that the index finds: not if it has more keys.
    are_all_joined: bool,
}

impl<'a> Candidate<'a> {
    pub(crate) fn of(node: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if node.fetch().is_some() {
            return None;
        }
        let (candidate, nulls) = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            let candidate = Self {
                sides: [join.left(), join.right()],
                join_type: *join.join_type(),
                equal: join.on(),
                filter: join.filter(),
                projection: join.projection.as_ref().map(|columns| columns.to_vec()),
            };
            ((!join.null_aware).then_some(candidate)?, join.null_equality())
        } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
            let candidate = Self {
                sides: [join.left(), join.right()],
                join_type: join.join_type(),
                equal: join.on(),
                filter: join.filter().as_ref(),
                projection: None,
            };
            (candidate, join.null_equality())
        } else {
            let join = node.downcast_ref::<NestedLoopJoinExec>()?;
            let candidate = Self {
                sides: [join.left(), join.right()],
                join_type: *join.join_type(),
                equal: &[],
                filter: Some(join.filter()?),
                projection: join.projection().as_ref().map(|columns| columns.to_vec()),
            };
            (candidate, NullEquality::NullEqualsNothing)
        };
        (nulls == NullEquality::NullEqualsNothing).then_some(candidate)
    }

    /// The join as look-ups of one side in the other, and what it costs.
    pub(crate) fn lookup(&self, probe_side: JoinSide, costs: &Costs) -> Result<Option<Found>> {
        let [left, right] = self.sides;
        let is_left = probe_side == JoinSide::Left;
        let (probes, table) = if is_left { (left, right) } else { (right, left) };
        let Some(Restricted { scan, columns, conditions }) = restricted(table)? else { return Ok(None) };
        if conditions.is_empty() {
            return self.lookup_in_all(probe_side, costs, Vec::new());
        }
        // The filter is tried on pairs; of other joins, it says which rows have one.
        if self.join_type != JoinType::Inner || self.equal.is_empty() {
            return Ok(None);
        }
        // The same join with all rows of the table, and with the columns that the conditions are on as the last ones of its side.
        let (given, mut wide) = (columns.len(), columns);
        for column in conditions.iter().flat_map(collect_columns) {
            if !wide.contains(&column.index()) {
                wide.push(column.index());
            }
        }
        let all: Arc<dyn ExecutionPlan> =
            Arc::new(IndexedScanExec::of_all(scan.contents().clone(), Some(&wide), None, 1, 1)?);
        let probe_columns = probes.schema().fields().len();
        let (left_given, left_wide) = if is_left { (probe_columns, probe_columns) } else { (given, wide.len()) };
        let place = |at: usize| if at < left_given { at } else { at - left_given + left_wide };
        let count = probe_columns + given;
        let output = self.projection.clone().unwrap_or_else(|| (0..count).collect()).into_iter().map(place).collect();
        let from = if is_left { probe_columns } else { 0 };
        let of_pairs =
            |condition| moved(condition, &|column| wide.iter().position(|own| *own == column).map(|at| from + at));
        let Some(of_pairs) = conditions.into_iter().map(of_pairs).collect::<Result<Option<Vec<_>>>>()? else {
            return Ok(None);
        };
        let sides = if is_left { [probes, &all] } else { [&all, probes] };
        let unrestricted = Candidate {
            sides,
            join_type: self.join_type,
            equal: self.equal,
            filter: self.filter,
            projection: Some(output),
        };
        let Some(found) = unrestricted.lookup_in_all(probe_side, costs, of_pairs)? else { return Ok(None) };
        let rows = |plan: &Arc<dyn ExecutionPlan>| -> Result<_> {
            Ok(StatisticsContext::new().compute(&**plan, &StatisticsArgs::new())?.num_rows)
        };
        let kept = (rows(table)?, table.is::<IndexedScanExec>());
        let comparison = costs.compare_restricted(rows(probes)?, found.table_rows, found.copies, kept);
        Ok(Some(Found { comparison, ..found }))
    }

    /// The same if the table's side is all of its rows; pairs are to meet some conditions more.
    fn lookup_in_all(
        &self,
        probe_side: JoinSide,
        costs: &Costs,
        conditions: Vec<PhysicalExprRef>,
    ) -> Result<Option<Found>> {
        let [left, right] = self.sides;
        let (probes, table) = if probe_side == JoinSide::Left { (left, right) } else { (right, left) };
        let Some((scan, columns)) = scan_of(table, false).filter(|(scan, _)| scan.is_bare()) else { return Ok(None) };
        // Probes wait until there are many, which may be never.
        if probes.boundedness().is_unbounded() {
            return Ok(None);
        }
        let Some(mut asked) = self.asked(probe_side, scan, &columns)? else { return Ok(None) };
        asked.rest.extend(conditions);
        // A pair that does not meet all conditions may be the only one of its row.
        if self.join_type != JoinType::Inner && !asked.rest.is_empty() {
            return Ok(None);
        }
        let rows = StatisticsContext::new().compute(&**probes, &StatisticsArgs::new())?.num_rows;
        let (table_rows, copies) = (scan.contents().rows(), asked.indexed.copies());
        let schema: SchemaRef = Arc::new(build_join_schema(&left.schema(), &right.schema(), &self.join_type).0);
        let output = self.projection.clone().unwrap_or_else(|| (0..schema.fields().len()).collect());
        if self.returns_table(probe_side) {
            let comparison = costs.compare_distinct(rows, table_rows, copies);
            let plan = self.distinct(asked, probe_side, columns, &output, comparison)?;
            return Ok(plan.map(|plan| Found { plan, comparison, table_rows, copies }));
        }
        let Asked { indexed, on, rest, are_all_joined } = asked;
        let shape = Shape { join_type: self.join_type, probe_side, schema, condition: on, columns };
        if !shape.is_lookup() {
            return Ok(None);
        }
        let comparison = match shape.condition {
            On::Between { .. } => costs.compare_ranges(rows, table_rows),
            // A filter returns each probe once, however many rows it has.
            _ if matches!(shape.kind(), Some(Kind::Filter { .. })) => costs.compare(rows, table_rows, 1.0, 1.0),
            _ => costs.compare(rows, table_rows, copies, if are_all_joined { copies } else { 1.0 }),
        };
        let comparison = if rest.is_empty() { comparison } else { costs.and_filter(comparison, rows, copies) };
        // The columns that are returned, and then those that only conditions are on: what is above the filter counts its columns, and what is
        // below it counts these, and the engine (55.2) takes the one for the other if it moves a projection.
        let (returned, mut wide) = (output.len(), output);
        for column in rest.iter().flat_map(collect_columns) {
            if !wide.contains(&column.index()) {
                wide.push(column.index());
            }
        }
        let place = |column: usize| wide.iter().position(|own| *own == column);
        let has_rest = !rest.is_empty();
        let Some(rest) = moved(conjunction(rest), &place)? else { return Ok(None) };
        let mut plan: Arc<dyn ExecutionPlan> =
            Arc::new(IndexLookupExec::new(indexed, probes.clone(), Arc::new(shape), wide, Some(comparison))?);
        if has_rest {
            let filter = FilterExecBuilder::new(rest, plan).apply_projection(Some((0..returned).collect()))?;
            plan = Arc::new(filter.build()?);
        }
        Ok(Some(Found { plan, comparison, table_rows, copies }))
    }

    /// Whether the join returns rows of the table, each once.
    fn returns_table(&self, probe_side: JoinSide) -> bool {
        matches!(
            (self.join_type, probe_side),
            (JoinType::LeftSemi, JoinSide::Right) | (JoinType::RightSemi, JoinSide::Left)
        )
    }

    /// The rows of the table that probes find, each once: by look-ups of the distinct keys.
    fn distinct(
        &self,
        asked: Asked,
        probe_side: JoinSide,
        columns: Vec<usize>,
        output: &[usize],
        comparison: Comparison,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Asked { indexed, on, .. } = asked;
        let [left, right] = self.sides;
        let (probes, table) = if probe_side == JoinSide::Left { (left, right) } else { (right, left) };
        let keys = match &on {
            On::Equal { key, .. } => core::slice::from_ref(key),
            On::AllEqual { keys, .. } => &keys[..],
            On::AsOf { .. } | On::Between { .. } => return Ok(None),
        };
        let name = |at: usize| format!("key {at}");
        let groups = keys.iter().enumerate().map(|(at, key)| (key.clone(), name(at))).collect();
        let groups = PhysicalGroupBy::new_single(groups);
        let aggregate = |mode, groups, input: &Arc<dyn ExecutionPlan>| {
            AggregateExec::try_new(mode, groups, Vec::new(), Vec::new(), input.clone(), probes.schema())
        };
        let partial: Arc<dyn ExecutionPlan> = Arc::new(aggregate(AggregateMode::Partial, groups.clone(), probes)?);
        let distinct: Arc<dyn ExecutionPlan> =
            Arc::new(aggregate(AggregateMode::FinalPartitioned, groups.as_final(), &partial)?);
        let key = |at: usize| Arc::new(Column::new(&name(at), at)) as PhysicalExprRef;
        let condition = match on {
            On::AllEqual { keys, indexed } => On::AllEqual { keys: (0..keys.len()).map(key).collect(), indexed },
            On::Equal { indexed, .. } => On::Equal { key: key(0), indexed },
            other => other,
        };
        let (left, right) = match probe_side {
            JoinSide::Left => (distinct.schema(), table.schema()),
            _ => (table.schema(), distinct.schema()),
        };
        let before = if probe_side == JoinSide::Left { left.fields().len() } else { 0 };
        let schema: SchemaRef = Arc::new(build_join_schema(&left, &right, &JoinType::Inner).0);
        let shape = Shape { join_type: JoinType::Inner, probe_side, schema, condition, columns };
        let output = output.iter().map(|at| at + before).collect();
        let lookup = IndexLookupExec::new(indexed, distinct, Arc::new(shape), output, Some(comparison))?;
        Ok(Some(Arc::new(lookup)))
    }

    /// What the join asks of an index of a table, some columns of which are its side.
    fn asked(&self, probe_side: JoinSide, table: &IndexedScanExec, columns: &[usize]) -> Result<Option<Asked>> {
        let [left, right] = self.sides;
        let (probes, right_from) =
            (if probe_side == JoinSide::Left { left } else { right }, left.schema().fields().len());
        let probes = probes.schema();
        let is_of_type = |key: &PhysicalExprRef, column: usize| -> Result<bool> {
            Ok(value_type(&key.data_type(&probes)?) == table.contents().value_type(column))
        };
        // Keys that equal a column of the table, that column in the scan, and its number.
        let mut equal = Vec::with_capacity(self.equal.len());
        for (at, (left, right)) in self.equal.iter().enumerate() {
            let (key, column) = if probe_side == JoinSide::Left { (left, right) } else { (right, left) };
            let column = column.downcast_ref::<Column>();
            let Some((column, number)) = column.and_then(|own| Some((own, *columns.get(own.index())?))) else {
                continue;
            };
            if is_of_type(key, number)? {
                equal.push((key, column, number, at));
            }
        }
        let conditions = |filter: Option<&JoinFilter>, used: &[usize]| -> Result<Option<Vec<_>>> {
            let all = filter.map(|filter| split_conjunction(filter.expression())).unwrap_or_default();
            let rest = all.into_iter().enumerate().filter(|(at, _)| !used.contains(at));
            let over_both = rest.map(|(_, part)| {
                moved(part.clone(), &|column| {
                    let place = filter?.column_indices().get(column)?;
                    match place.side {
                        JoinSide::Left => Some(place.index),
                        JoinSide::Right => Some(right_from + place.index),
                        JoinSide::None => None,
                    }
                })
            });
            over_both.collect()
        };
        // The index on the most columns, and of those the one whose values have the fewest rows.
        let mut best: Option<(Indexed, Vec<usize>)> = None;
        for indexed in table.contents().all() {
            let place = |column: &usize| equal.iter().position(|(.., number, _)| number == column);
            let Some(places) = indexed.columns().iter().map(place).collect::<Option<Vec<_>>>() else { continue };
            let is_better = best
                .as_ref()
                .is_none_or(|(other, of_other)| (places.len(), -indexed.copies()) > (of_other.len(), -other.copies()));
            if is_better {
                best = Some((indexed, places));
            }
        }
        if let Some((indexed, places)) = best {
            let used: Vec<_> = places.iter().map(|place| equal[*place].3).collect();
            let Some(mut rest) = conditions(self.filter, &[])? else { return Ok(None) };
            for (_, (left, right)) in self.equal.iter().enumerate().filter(|(at, _)| !used.contains(at)) {
                let right = moved(right.clone(), &|column| Some(right_from + column))?;
                let Some(right) = right else { return Ok(None) };
                rest.push(Arc::new(BinaryExpr::new(left.clone(), Operator::Eq, right)));
            }
            let (keys, indexed_columns): (Vec<_>, Vec<_>) =
                places.iter().map(|place| (equal[*place].0.clone(), equal[*place].1.clone())).unzip();
            let on = match (&keys[..], &indexed_columns[..]) {
                ([key], [indexed]) => On::Equal { key: key.clone(), indexed: indexed.clone() },
                _ => On::AllEqual { keys, indexed: indexed_columns },
            };
            return Ok(Some(Asked { indexed, on, rest, are_all_joined: used.len() == self.equal.len() }));
        }
        let (Some(filter), []) = (self.filter, self.equal) else { return Ok(None) };
        let bounds = bounds(filter, probe_side)?;
        for end in &bounds {
            let Some(indexed) = columns.get(end.column).and_then(|number| table.contents().index_on(&[*number])) else {
                continue;
            };
            let other = bounds.iter().find(|other| other.column == end.column && other.is_low != end.is_low);
            let (Some(other), true) = (other, end.is_low) else { continue };
            let number = indexed.columns()[0];
            if !is_of_type(&end.bound, number)? || !is_of_type(&other.bound, number)? {
                continue;
            }
            let used: Vec<_> = [end, other].iter().filter(|end| !end.is_strict).map(|end| end.at).collect();
            let Some(rest) = conditions(Some(filter), &used)? else { continue };
            let on = On::Between { low: end.bound.clone(), high: other.bound.clone() };
            return Ok(Some(Asked { indexed, on, rest, are_all_joined: true }));
        }
        Ok(None)
    }
}

/// The scan of a table under a node, and the numbers of the columns of that node; some may have been moved or left out, and have other
/// names if those do not matter.
pub(crate) fn scan_of(node: &Arc<dyn ExecutionPlan>, any_names: bool) -> Option<(&IndexedScanExec, Vec<usize>)> {
    if let Some(scan) = node.downcast_ref::<IndexedScanExec>() {
        return Some((scan, scan.columns().to_vec()));
    }
    let projection = node.downcast_ref::<ProjectionExec>()?;
    let scan = projection.input().downcast_ref::<IndexedScanExec>()?;
    let column = |expr: &ProjectionExpr| {
        let column = if any_names { expr.expr.downcast_ref::<Column>()?.index() } else { same_column(expr)? };
        scan.columns().get(column).copied()
    };
    Some((scan, projection.expr().iter().map(column).collect::<Option<_>>()?))
}

/// The number of a column that a projection leaves as it is.
fn same_column(expr: &ProjectionExpr) -> Option<usize> {
    expr.expr.downcast_ref::<Column>().filter(|column| column.name() == expr.alias).map(Column::index)
}

/// A side of a join that is some rows of a table.
struct Restricted<'a> {
    scan: &'a IndexedScanExec,
    /// The numbers of the side's columns.
    columns: Vec<usize>,
    /// Which rows, over columns by their numbers in the table.
    conditions: Vec<PhysicalExprRef>,
}

/// The rows of a table that are a side of a join; `None` if conditions on rows do not say which.
fn restricted(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Restricted<'_>>> {
    if let Some(scan) = node.downcast_ref::<IndexedScanExec>() {
        let all = || Restricted { scan, columns: scan.columns().to_vec(), conditions: Vec::new() };
        return scan.as_filter().map_or_else(|| Ok(scan.is_bare().then(all)), restricted);
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let Some(mut input) = restricted(projection.input())? else { return Ok(None) };
        let columns = projection.expr().iter().map(|expr| input.columns.get(same_column(expr)?).copied());
        return Ok(columns.collect::<Option<_>>().map(|columns| {
            input.columns = columns;
            input
        }));
    }
    let Some(filter) = node.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none()) else {
        return Ok(None);
    };
    let Some(mut input) = restricted(filter.input())? else { return Ok(None) };
    let condition = filter.predicate();
    let over_table = moved(condition.clone(), &|column| input.columns.get(column).copied())?;
    let Some(over_table) = over_table.filter(|condition| !is_volatile(condition)) else { return Ok(None) };
    input.conditions.push(over_table);
    if let Some(projection) = filter.projection().as_ref() {
        input.columns = projection.iter().map(|column| input.columns[*column]).collect();
    }
    Ok(Some(input))
}

/// Whether an expression may have another value each time.
fn is_volatile(expr: &PhysicalExprRef) -> bool {
    expr.is_volatile_node() || expr.children().into_iter().any(is_volatile)
}

/// A condition by which a column of the table is not on one side of an expression over the probes.
struct End {
    /// The number of the condition.
    at: usize,
    /// On the table's side.
    column: usize,
    bound: PhysicalExprRef,
    is_low: bool,
    /// Whether the column is not equal to the expression either.
    is_strict: bool,
}

/// The conditions of a filter that bound a column of the table.
fn bounds(filter: &JoinFilter, probe_side: JoinSide) -> Result<Vec<End>> {
    let of_table = |expr: &PhysicalExprRef| {
        let place = filter.column_indices().get(expr.downcast_ref::<Column>()?.index())?;
        (place.side != probe_side).then_some(place.index)
    };
    let mut bounds = Vec::new();
    for (at, part) in split_conjunction(filter.expression()).into_iter().enumerate() {
        let Some(part) = part.downcast_ref::<BinaryExpr>() else { continue };
        let (column, operator, bound) = match (of_table(part.left()), of_table(part.right())) {
            (Some(column), None) => (column, Some(*part.op()), part.right()),
            (None, Some(column)) => (column, part.op().swap(), part.left()),
            _ => continue,
        };
        let (is_low, is_strict) = match operator {
            Some(Operator::GtEq) => (true, false),
            Some(Operator::Gt) => (true, true),
            Some(Operator::LtEq) => (false, false),
            Some(Operator::Lt) => (false, true),
            _ => continue,
        };
        let over_probes = moved(bound.clone(), &|column| {
            let place = filter.column_indices().get(column)?;
            (place.side == probe_side).then_some(place.index)
        })?;
        if let Some(bound) = over_probes.filter(|bound| !is_volatile(bound)) {
            bounds.push(End { at, column, bound, is_low, is_strict });
        }
    }
    Ok(bounds)
}

/// An expression over columns at other places; `None` if one has no place.
fn moved(expr: PhysicalExprRef, place: &dyn Fn(usize) -> Option<usize>) -> Result<Option<PhysicalExprRef>> {
    let mut has_places = true;
    let moved = expr.transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let Some(at) = place(column.index()) else {
            has_places = false;
            return Ok(Transformed::no(node));
        };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as PhysicalExprRef))
    });
    Ok(Some(moved.data()?).filter(|_| has_places))
}
