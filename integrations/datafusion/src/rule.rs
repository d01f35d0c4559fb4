use crate::lookup::{IndexLookupExec, Shape};
use crate::scan::IndexedScanExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, NullEquality};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// Puts an [`IndexLookupExec`] in place of a hash join that the index of an [`IndexedTable`](crate::IndexedTable) can answer.
///
/// It must run before DataFusion chooses sides and partitions its inputs: [`with_index_lookups`] puts it there.
#[derive(Debug, Default)]
pub struct IndexLookups {}

/// Adds [`IndexLookups`] to the rules of a session, before DataFusion's own for joins.
pub fn with_index_lookups(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules = builder.physical_optimizers().take().unwrap_or_default().rules;
    let at = rules.iter().position(|rule| rule.name() == "join_selection").unwrap_or(0);
    rules.insert(at, Arc::new(IndexLookups {}));
    builder.with_physical_optimizer_rules(rules)
}

impl PhysicalOptimizerRule for IndexLookups {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let lookup = node.downcast_ref::<HashJoinExec>().map(lookup).transpose()?.flatten();
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

/// The look-up for a join, if there is one.
fn lookup(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let [(left_key, right_key)] = join.on() else { return Ok(None) };
    let has_more = join.filter().is_some() || join.null_aware || join.fetch().is_some();
    if has_more || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let (left, right) = ((join.left(), left_key), (join.right(), right_key));
    let mut lookups = Vec::new();
    for (probe_side, probes, table) in [(JoinSide::Left, left, right), (JoinSide::Right, right, left)] {
        lookups.extend(lookup_of(join, probe_side, probes, table)?);
    }
    // If both sides are indexed, the larger one is looked up in.
    let best = lookups.into_iter().max_by_key(IndexLookupExec::table_rows);
    Ok(best.map(|lookup| Arc::new(lookup) as _))
}

type Side<'a> = (&'a Arc<dyn ExecutionPlan>, &'a PhysicalExprRef);

/// The join as look-ups of one side in the other.
fn lookup_of(
    join: &HashJoinExec,
    probe_side: JoinSide,
    (probes, key): Side<'_>,
    (table, indexed): Side<'_>,
) -> Result<Option<IndexLookupExec>> {
    let (Some(scan), Some(indexed)) = (table.downcast_ref::<IndexedScanExec>(), indexed.downcast_ref::<Column>())
    else {
        return Ok(None);
    };
    let contents = scan.contents();
    let is_indexed = scan.columns().get(indexed.index()) == Some(&contents.column);
    let is_same_type = key.data_type(&probes.schema())? == *contents.index.data_type();
    if !scan.is_bare() || !is_indexed || !is_same_type || !contents.is_sql() {
        return Ok(None);
    }
    // Probes wait until there are many, which may be never.
    if probes.boundedness().is_unbounded() {
        return Ok(None);
    }
    let shape = Shape {
        join_type: *join.join_type(),
        probe_side,
        schema: join.join_schema().clone(),
        key: key.clone(),
        indexed: indexed.clone(),
        columns: scan.columns().to_vec(),
    };
    if !shape.is_lookup() {
        return Ok(None);
    }
    let output = match &join.projection {
        Some(projection) => projection.to_vec(),
        None => (0..shape.schema.fields().len()).collect(),
    };
    IndexLookupExec::new(contents.clone(), probes.clone(), Arc::new(shape), output).map(Some)
}
