//! Distinct values from an index: of each value one row is read.

use crate::candidate::scan_of;
use crate::contents::ASCENDING;
use crate::costs::Costs;
use crate::scan::{IndexedScanExec, Rows, Wanted};
use crate::select::most_distinct;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateOutputMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// Puts a scan by an index, which reads a row of each distinct key, in place of `DISTINCT` and of `GROUP BY` without aggregates. A scan of
/// all rows may be put back by [`IndexLookups`](crate::IndexLookups), if that costs less.
///
/// It must run before the engine answers counts from statistics: a count of distinct values is one then.
#[derive(Debug)]
pub(crate) struct IndexDistinct {
    pub(crate) costs: Costs,
}

impl PhysicalOptimizerRule for IndexDistinct {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let scan = self.distinct(&node)?;
            Ok(scan.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "index_distinct"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl IndexDistinct {
    fn distinct(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(aggregate) = of_rows(node) else { return Ok(None) };
        let groups = aggregate.group_expr().expr();
        let Some((scan, numbers)) = scan_of(aggregate.input(), true).filter(|(scan, _)| !scan.is_limited) else {
            return Ok(None);
        };
        // The numbers of the columns in the table, in the order of the groups.
        let number =
            |(expr, _): &(PhysicalExprRef, String)| numbers.get(expr.downcast_ref::<Column>()?.index()).copied();
        let Some(columns) = groups.iter().map(number).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let is_key = |wanted: &Wanted| {
            let own = wanted.indexed.columns();
            let is_null_one_key = own.len() == 1 || !wanted.filters[0].nulls() || wanted.indexed.null_count() == 0;
            own.len() == columns.len() && own.iter().all(|column| columns.contains(column)) && is_null_one_key
        };
        let wanted = match &scan.rows {
            Rows::All => scan.contents.all().map(|indexed| Wanted::all(indexed, ASCENDING)).find(is_key),
            Rows::Wanted(wanted) => Some(wanted.clone()).filter(|wanted| !wanted.is_distinct && is_key(wanted)),
        };
        let Some(wanted) = wanted else { return Ok(None) };
        let is_known = wanted.indexed.sole().is_some();
        // Keys of several parts are compared to be counted: not if they are many.
        let most = most_distinct(&wanted.indexed, &wanted.filters)?;
        if !is_known && self.costs.prefers_full_scan(most, scan.contents.rows()) {
            return Ok(None);
        }
        let wanted = Wanted { is_distinct: true, ..wanted };
        let count = wanted.count()?;
        let distinct = IndexedScanExec::of_some(wanted, Some(&columns), None, count)?;
        let (names, schema) = (groups.iter().map(|(_, name)| name.clone()), distinct.schema());
        let own: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let full = renamed(node.clone(), own.into_iter())?;
        let new = renamed(Arc::new(distinct.or_full(full)), names)?;
        Ok((new.schema() == node.schema()).then_some(new))
    }
}

/// The aggregate over all rows, if a node returns each group once and nothing else.
fn of_rows(node: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    let is_bare = |node: &&AggregateExec| {
        let groups = node.group_expr();
        node.aggr_expr().is_empty() && node.limit_options().is_none() && groups.is_single() && !groups.is_empty()
    };
    let last = node.downcast_ref::<AggregateExec>().filter(is_bare)?;
    let first = match last.mode().input_mode() {
        AggregateInputMode::Raw => last,
        AggregateInputMode::Partial => last.input().downcast_ref::<AggregateExec>().filter(is_bare)?,
    };
    let is_whole = last.mode().output_mode() == AggregateOutputMode::Final;
    (is_whole && first.mode().input_mode() == AggregateInputMode::Raw).then_some(first)
}

/// A plan with other names of its columns.
fn renamed(plan: Arc<dyn ExecutionPlan>, names: impl Iterator<Item = String>) -> Result<Arc<dyn ExecutionPlan>> {
    let (schema, names) = (plan.schema(), names.collect::<Vec<_>>());
    if schema.fields().iter().map(|field| field.name()).eq(&names) {
        return Ok(plan);
    }
    let column = |(at, alias): (usize, String)| ProjectionExpr {
        expr: Arc::new(Column::new(schema.field(at).name(), at)),
        alias,
    };
    Ok(Arc::new(ProjectionExec::try_new(names.into_iter().enumerate().map(column), plan)?))
}
