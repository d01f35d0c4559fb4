use crate::candidate::Candidate;
use crate::costs::Costs;
use crate::ddl::Planner;
use crate::distinct::IndexDistinct;
use crate::functions::{AsOf, Ranges};
use crate::replaced::CurrentTables;
use crate::scan::IndexedScanExec;
use crate::shape::moved;
use datafusion::catalog::{TableFunction, TableFunctionImpl};
use datafusion::common::JoinSide;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions, SortOrderPushdownResult,
};
use lanetree::Device;
use std::sync::Arc;

/// Puts an [`IndexLookupExec`](crate::IndexLookupExec) in place of a join that an index of an [`IndexedTable`](crate::IndexedTable) can answer, if it costs
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
/// own for joins, and one that reads distinct values from an index; `CREATE INDEX`, and for plans that were made before it a rule by which they are over the table with the index;
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
    let at = rules.iter().position(|rule| rule.name() == "aggregate_statistics").unwrap_or(0);
    rules.insert(at, Arc::new(IndexDistinct { costs }));
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
            return match scan.full(&self.costs).filter(|_| !in_order) {
                // Its own scans may be by an index, too.
                Some(full) => self.scans(full.clone(), false),
                None => Ok(node),
            };
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
        if !is_changed {
            return Ok(node);
        }
        if let (Some(outer), [child]) = (node.downcast_ref::<FilterExec>(), &children[..])
            && let Some(inner) = child.downcast_ref::<FilterExec>()
            && let Some(both) = merged(outer, inner)?
        {
            return Ok(both);
        }
        node.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    /// The look-up for a join, or the join with what a look-up would have cost; `None` if there is no look-up for it.
    fn lookup(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = Candidate::of(node) else { return Ok(None) };
        let mut sides = join.sides.map(Clone::clone);
        let (mut lookups, mut is_compared) = (Vec::new(), false);
        for (table, probe_side) in [(1, JoinSide::Left), (0, JoinSide::Right)] {
            match join.lookup(probe_side, &self.costs)? {
                Some(found) if found.comparison.prefers_look_up() => {
                    lookups.extend((found.plan.schema() == node.schema()).then_some(found));
                }
                Some(found) => {
                    if let Some(scan) = sides[table].downcast_ref::<IndexedScanExec>() {
                        sides[table] = Arc::new(scan.not_looked_up(found.comparison));
                        is_compared = true;
                    }
                }
                None => {}
            }
        }
        // If both sides are indexed, the larger one is looked up in.
        if let Some(found) = lookups.into_iter().max_by_key(|found| found.table_rows) {
            return Ok(Some(found.plan));
        }
        let as_before = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        is_compared.then(|| node.clone().replace_children(sides.into(), as_before)).transpose()
    }
}

/// Two filters as one, which tries the inner conditions first: they are the earlier ones of a statement, or those on indexed columns.
fn merged(outer: &FilterExec, inner: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if outer.fetch().is_some() || inner.fetch().is_some() {
        return Ok(None);
    }
    let place = |column: usize| inner.projection().as_ref().map_or(Some(column), |kept| kept.get(column).copied());
    let Some(outer_condition) = moved(outer.predicate().clone(), &place)? else { return Ok(None) };
    let columns = 0..inner.schema().fields().len();
    let output = outer.projection().as_ref().map_or_else(|| columns.collect(), |kept| kept.to_vec());
    let Some(output) = output.into_iter().map(place).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let both = Arc::new(BinaryExpr::new(inner.predicate().clone(), Operator::And, outer_condition));
    let filter = FilterExecBuilder::new(both, inner.input().clone())
        .apply_projection(Some(output))?
        .with_default_selectivity(outer.default_selectivity())
        .with_batch_size(outer.batch_size())
        .build()?;
    Ok(Some(Arc::new(filter)))
}

/// Whether a node is a sort that its input can do without: in order already, or read so if it is asked.
fn is_needless(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(false) };
    let is_sorted = sort.input().equivalence_properties().ordering_satisfy(sort.expr().iter().cloned())?;
    Ok(is_sorted || matches!(sort.input().try_pushdown_sort(sort.expr())?, SortOrderPushdownResult::Exact { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_plan::empty::EmptyExec;

    #[test]
    fn two_filters_as_one_keep_the_options_of_the_outer_one() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let inner = FilterExec::try_new(lit(true), Arc::new(EmptyExec::new(schema))).unwrap();
        let outer = FilterExecBuilder::new(lit(false), Arc::new(inner.clone()))
            .with_default_selectivity(7)
            .with_batch_size(11)
            .build()
            .unwrap();
        let both = merged(&outer, &inner).unwrap().unwrap();
        let both = both.downcast_ref::<FilterExec>().unwrap();
        assert_eq!((both.default_selectivity(), both.batch_size()), (7, 11));
    }
}
