//! Joins that look-ups may stand for.

use crate::contents::Indexed;
use crate::costs::{Comparison, Costs};
use crate::lookup::IndexLookupExec;
use crate::packing::value_type;
use crate::scan::IndexedScanExec;
use crate::shape::{Kind, On, Shape, moved};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNotNullExpr};
use datafusion::physical_expr::{PhysicalExprRef, split_conjunction};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::FilterExec;
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
    /// Whether it stands for `NOT IN`: no row differs from a null.
    is_null_aware: bool,
}

/// A plan with a look-up that stands for a join.
pub(crate) struct Found {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) comparison: Comparison,
    pub(crate) table_rows: usize,
}

/// What a join asks of an index.
struct Asked {
    indexed: Indexed,
    on: On,
    /// What pairs are to meet in addition, over the columns of the probes and then all columns of the table.
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
                is_null_aware: join.null_aware,
            };
            (candidate, join.null_equality())
        } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
            let candidate = Self {
                sides: [join.left(), join.right()],
                join_type: join.join_type(),
                equal: join.on(),
                filter: join.filter().as_ref(),
                projection: None,
                is_null_aware: false,
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
                is_null_aware: false,
            };
            (candidate, NullEquality::NullEqualsNothing)
        };
        (nulls == NullEquality::NullEqualsNothing).then_some(candidate)
    }

    /// The probes and the table, of the sides.
    fn roles(&self, probe_side: JoinSide) -> [&'a Arc<dyn ExecutionPlan>; 2] {
        let [left, right] = self.sides;
        if probe_side == JoinSide::Left { [left, right] } else { [right, left] }
    }

    /// The join as look-ups of one side in the other, and what it costs.
    pub(crate) fn lookup(&self, probe_side: JoinSide, costs: &Costs) -> Result<Option<Found>> {
        let [probes, table] = self.roles(probe_side);
        let Some(side) = restricted(table)? else { return Ok(None) };
        // Probes wait until there are many, which may be never. A nested-loop join of some rows has no costs.
        if probes.boundedness().is_unbounded() || self.equal.is_empty() && !side.conditions.is_empty() {
            return Ok(None);
        }
        let Some(mut asked) = self.asked(probe_side, side.scan, &side.columns)? else { return Ok(None) };
        let comparison = self.compared(probe_side, costs, &asked, &side)?;
        let Restricted { scan, columns, conditions } = side;
        // Rows that the table's own conditions leave out may be errors for the others.
        let of_pairs = |column| Some(probes.schema().fields().len() + column);
        let conditions = conditions.into_iter().map(|condition| moved(condition, &of_pairs));
        let Some(mut filters) = conditions.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
        filters.append(&mut asked.rest);
        asked.rest = filters;
        let plan = match self.returns_table(probe_side) {
            true => self.distinct(asked, probe_side, columns, comparison)?,
            false => self.looked_up(asked, probe_side, columns, comparison)?,
        };
        Ok(plan.map(|plan| Found { plan: Arc::new(plan), comparison, table_rows: scan.contents().rows() }))
    }

    /// What look-ups in a table cost, and the join that they stand for.
    fn compared(
        &self,
        probe_side: JoinSide,
        costs: &Costs,
        asked: &Asked,
        side: &Restricted<'_>,
    ) -> Result<Comparison> {
        let [probes, table] = self.roles(probe_side);
        let rows = |plan: &Arc<dyn ExecutionPlan>| -> Result<_> {
            Ok(StatisticsContext::new().compute(&**plan, &StatisticsArgs::new())?.num_rows)
        };
        let (count, copies) = (rows(probes)?, asked.indexed.copies(asked.on.keys()));
        let table_rows = side.scan.contents().rows();
        let (kind, returns_table) = (Kind::of(self.join_type, probe_side), self.returns_table(probe_side));
        // Without a filter, it returns each probe once, however many rows it has.
        let made = if matches!(kind, Some(Kind::Filter { .. })) && asked.rest.is_empty() { 1.0 } else { copies };
        let joined = if asked.are_all_joined && !returns_table { made } else { 1.0 };
        let mut comparison = match asked.on {
            On::Between { .. } => costs.compare_ranges(count, table_rows),
            _ if side.conditions.is_empty() => costs.compare(count, table_rows, made, joined),
            _ => {
                let kept = (rows(table)?, table.is::<IndexedScanExec>());
                costs.compare_restricted(count, table_rows, copies, kept)
            }
        };
        if !asked.rest.is_empty() {
            comparison = costs.and_filter(comparison, count, copies);
        }
        Ok(if returns_table { costs.and_distinct(comparison, count) } else { comparison })
    }

    /// The join's own schema, and which of its columns are returned.
    fn schema(&self) -> (SchemaRef, Vec<usize>) {
        let [left, right] = self.sides;
        let schema: SchemaRef = Arc::new(build_join_schema(&left.schema(), &right.schema(), &self.join_type).0);
        let output = self.projection.clone().unwrap_or_else(|| (0..schema.fields().len()).collect());
        (schema, output)
    }

    /// The look-up of each probe.
    fn looked_up(
        &self,
        asked: Asked,
        probe_side: JoinSide,
        columns: Vec<usize>,
        comparison: Comparison,
    ) -> Result<Option<IndexLookupExec>> {
        let mut probes = self.roles(probe_side)[0].clone();
        let Asked { indexed, on: condition, rest: filters, .. } = asked;
        if self.is_null_aware {
            let (On::Equal { key, .. }, []) = (&condition, &filters[..]) else { return Ok(None) };
            // (A null is not among no rows.)
            if indexed.contents.rows() == 0 || indexed.null_count() > 0 {
                return Ok(None);
            }
            probes = Arc::new(FilterExec::try_new(Arc::new(IsNotNullExpr::new(key.clone())), probes)?);
        }
        let (schema, output) = self.schema();
        let shape = Shape { join_type: self.join_type, probe_side, schema, condition, columns, filters };
        if !shape.is_lookup() {
            return Ok(None);
        }
        IndexLookupExec::new(indexed, probes, Arc::new(shape), output, Some(comparison)).map(Some)
    }

    /// Whether the join returns rows of the table, each once.
    fn returns_table(&self, probe_side: JoinSide) -> bool {
        matches!(
            (self.join_type, probe_side),
            (JoinType::LeftSemi, JoinSide::Right) | (JoinType::RightSemi, JoinSide::Left)
        )
    }

    /// The rows of the table that probes find, each once: by look-ups of the distinct keys; `None` if conditions are on the probes, too.
    fn distinct(
        &self,
        asked: Asked,
        probe_side: JoinSide,
        columns: Vec<usize>,
        comparison: Comparison,
    ) -> Result<Option<IndexLookupExec>> {
        let Asked { indexed, on, rest, .. } = asked;
        let [probes, table] = self.roles(probe_side);
        let keys = match &on {
            On::Equal { key, .. } => core::slice::from_ref(key),
            On::AllEqual { keys, .. } => &keys[..],
            On::AsOf { .. } | On::Between { .. } => return Ok(None),
        };
        let (before, count) = (probes.schema().fields().len(), keys.len());
        let of_table = |column: usize| column.checked_sub(before).map(|column| count + column);
        let filters = rest.into_iter().map(|condition| moved(condition, &of_table));
        let Some(filters) = filters.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
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
        let shape = Shape { join_type: JoinType::Inner, probe_side, schema, condition, columns, filters };
        let output = self.schema().1.into_iter().map(|at| at + before).collect();
        IndexLookupExec::new(indexed, distinct, Arc::new(shape), output, Some(comparison)).map(Some)
    }

    /// What the join asks of an index of a table, some columns of which are its side.
    fn asked(&self, probe_side: JoinSide, table: &IndexedScanExec, columns: &[usize]) -> Result<Option<Asked>> {
        let probes = self.roles(probe_side)[0].schema();
        let of_table = |column: usize| Some(probes.fields().len() + columns.get(column)?);
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
                    if place.side == probe_side { Some(place.index) } else { of_table(place.index) }
                })
            });
            over_both.collect()
        };
        // The index whose first columns are the most keys, of those one that has no others, and of those the one with the fewest rows.
        let rank = |indexed: &Indexed, places: &[usize]| {
            (places.len(), places.len() == indexed.columns().len(), -indexed.copies(places.len()))
        };
        let mut best: Option<(Indexed, Vec<usize>)> = None;
        for indexed in table.contents().all() {
            let place = |column: &usize| equal.iter().position(|(.., number, _)| number == column);
            let places: Vec<_> = indexed.columns().iter().map_while(place).collect();
            let own = rank(&indexed, &places);
            if !places.is_empty() && best.as_ref().is_none_or(|(other, of_other)| own > rank(other, of_other)) {
                best = Some((indexed, places));
            }
        }
        if let Some((indexed, places)) = best {
            let used: Vec<_> = places.iter().map(|place| equal[*place].3).collect();
            let Some(mut rest) = conditions(self.filter, &[])? else { return Ok(None) };
            for (_, (left, right)) in self.equal.iter().enumerate().filter(|(at, _)| !used.contains(at)) {
                let (key, own) = if probe_side == JoinSide::Left { (left, right) } else { (right, left) };
                let Some(own) = moved(own.clone(), &of_table)? else { return Ok(None) };
                rest.push(Arc::new(BinaryExpr::new(key.clone(), Operator::Eq, own)));
            }
            let (mut keys, mut indexed_columns): (Vec<_>, Vec<_>) =
                places.iter().map(|place| (equal[*place].0.clone(), equal[*place].1.clone())).unzip();
            let on = if indexed.packing().is_none() {
                On::Equal { key: keys.remove(0), indexed: indexed_columns.remove(0) }
            } else {
                On::AllEqual { keys, indexed: indexed_columns }
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
