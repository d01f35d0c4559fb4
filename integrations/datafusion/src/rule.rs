use crate::costs::{Comparison, Costs};
use crate::ddl::Planner;
use crate::functions::{AsOf, Ranges};
use crate::lookup::IndexLookupExec;
use crate::scan::IndexedScanExec;
use crate::shape::{On, Shape};
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{TableFunction, TableFunctionImpl};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, NullEquality};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use lanetree::Device;
use std::sync::Arc;

/// Puts an [`IndexLookupExec`] in place of a hash join that an index of an [`IndexedTable`](crate::IndexedTable) can answer, if it
/// costs less. `EXPLAIN` shows both costs: at the look-up, or at the scan of a table that is not looked up in.
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
/// own for joins; `CREATE INDEX`; the table functions `as_of`, `range_join` and `band_join`.
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
    builder.with_physical_optimizer_rules(rules).with_query_planner(Arc::new(planner))
}

impl PhysicalOptimizerRule for IndexLookups {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
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
    /// The look-up for a join, or the join with what a look-up would have cost; `None` if there is no look-up for it.
    fn lookup(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
        let [(left_key, right_key)] = join.on() else { return Ok(None) };
        let has_more = join.filter().is_some() || join.null_aware || join.fetch().is_some();
        if has_more || join.null_equality() != NullEquality::NullEqualsNothing {
            return Ok(None);
        }
        let (left, right) = ((join.left(), left_key), (join.right(), right_key));
        let mut sides = [join.left().clone(), join.right().clone()];
        let (mut lookups, mut is_compared) = (Vec::new(), false);
        for (at, probe_side, probes, table) in [(1, JoinSide::Left, left, right), (0, JoinSide::Right, right, left)] {
            match lookup_of(join, probe_side, probes, table, &self.costs)? {
                Some((lookup, comparison)) if comparison.prefers_look_up() => lookups.push(lookup),
                Some((_, comparison)) => {
                    if let Some(scan) = sides[at].downcast_ref::<IndexedScanExec>() {
                        sides[at] = Arc::new(scan.not_looked_up(comparison));
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

type Side<'a> = (&'a Arc<dyn ExecutionPlan>, &'a PhysicalExprRef);

/// The join as look-ups of one side in the other, and what it costs.
fn lookup_of(
    join: &HashJoinExec,
    probe_side: JoinSide,
    (probes, key): Side<'_>,
    (table, column): Side<'_>,
    costs: &Costs,
) -> Result<Option<(IndexLookupExec, Comparison)>> {
    let (Some(scan), Some(column)) = (table.downcast_ref::<IndexedScanExec>(), column.downcast_ref::<Column>()) else {
        return Ok(None);
    };
    let number = scan.columns().get(column.index());
    let Some(indexed) = number.and_then(|number| scan.contents().index_on(*number)) else { return Ok(None) };
    let key_type = match key.data_type(&probes.schema())? {
        DataType::Dictionary(_, values) => *values,
        other => other,
    };
    let is_same_type = key_type == *indexed.index().data_type();
    if !scan.is_bare() || !is_same_type || !indexed.is_sql() {
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
        condition: On::Equal { key: key.clone(), indexed: column.clone() },
        columns: scan.columns().to_vec(),
    };
    if !shape.is_lookup() {
        return Ok(None);
    }
    let output = match &join.projection {
        Some(projection) => projection.to_vec(),
        None => (0..shape.schema.fields().len()).collect(),
    };
    let statistics = StatisticsContext::new().compute(&**probes, &StatisticsArgs::new())?;
    let comparison = costs.compare(statistics.num_rows, scan.contents().batch.num_rows());
    let lookup = IndexLookupExec::new(indexed, probes.clone(), Arc::new(shape), output, Some(comparison))?;
    Ok(Some((lookup, comparison)))
}
