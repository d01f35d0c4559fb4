//! Conditions on a table's rows: those that an index on some rows has, and those of changes.

use core::fmt;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{not, nullif, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, TableReference, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableSource, Volatility,
};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Which rows an index is of: those that meet all parts.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// As the optimizer makes them of the filters of a query, over columns without qualifiers.
    parts: Vec<Expr>,
    /// All of them, over the columns of the table.
    expr: PhysicalExprRef,
}

impl Condition {
    /// Of a table, as its rows would be asked for by `WHERE`.
    ///
    /// # Errors
    /// The planner's; a plan error for subqueries, for values that change, and if all rows meet the condition or none does.
    pub(crate) async fn of(context: &SessionContext, table: &TableReference, sql: &str) -> Result<Self> {
        let (state, schema) = (context.state(), context.table_provider(table.clone()).await?.schema());
        let rows = LogicalPlanBuilder::scan(table.clone(), Arc::new(Rows(schema.clone())), None)?;
        let expr = state.create_logical_expr(sql, rows.schema())?;
        // Before the optimizer, which computes what is the same for all rows of a query.
        if expr.exists(|part| Ok(changes(part)))? {
            return plan_err!("WHERE {sql} of an index: give a condition that has one value for each row, always");
        }
        let LogicalPlan::TableScan(scan) = state.optimize(&rows.filter(expr)?.build()?)? else {
            return plan_err!("WHERE {sql} of an index: give a condition on the table's columns that some rows meet");
        };
        let parts = scan.filters.into_iter().map(unqualified).collect::<Result<Vec<_>>>()?;
        let Some(all) = conjunction(parts.clone()) else {
            return plan_err!("WHERE {sql} of an index: all rows meet it, so leave it out");
        };
        Ok(Self { parts, expr: state.create_physical_expr(all, &DFSchema::try_from(schema)?)? })
    }

    /// The numbers of the filters that ask for rows that meet it; `None` if others may be asked for.
    pub(crate) fn implied(&self, filters: &[&Expr]) -> Option<Vec<usize>> {
        let filters = filters.iter().map(|filter| unqualified((*filter).clone()).ok()).collect::<Vec<_>>();
        self.parts.iter().map(|part| filters.iter().position(|filter| filter.as_ref() == Some(part))).collect()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.parts == other.parts
    }

    /// Whether it is over a column.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.parts.iter().flat_map(Expr::column_refs).any(|own| own.name == column)
    }

    /// Keys of a batch's rows, and nulls for rows that don't meet it.
    pub(crate) fn keys(&self, keys: &ArrayRef, batch: &RecordBatch) -> Result<ArrayRef> {
        Ok(nullif(keys, &not(&mask(&self.expr, batch)?)?)?)
    }
}

/// The columns of a table's rows. A condition is planned over these, not over the tables that a view reads, and comes back as the filters
/// of the scan, before the optimizer takes out of it what it has twice.
struct Rows(SchemaRef);

impl TableSource for Rows {
    fn schema(&self) -> SchemaRef {
        self.0.clone()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

/// Whether an expression may have another value for the same row: in another statement, as `now()`, or in the same one, as `random()`.
fn changes(expr: &Expr) -> bool {
    let volatility = match expr {
        Expr::ScalarFunction(function) => function.func.signature().volatility,
        Expr::HigherOrderFunction(function) => function.func.signature().volatility,
        Expr::ScalarVariable(..) => return true,
        _ => return false,
    };
    volatility != Volatility::Immutable
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.parts.iter().map(ToString::to_string).collect();
        f.write_str(&parts.join(" AND "))
    }
}

/// Which rows of a batch meet a condition: not those for which it is null.
pub(crate) fn mask(condition: &PhysicalExprRef, batch: &RecordBatch) -> Result<BooleanArray> {
    let mask = condition.evaluate(batch)?.into_array(batch.num_rows())?;
    let Some(mask) = mask.as_boolean_opt() else {
        return plan_err!("the condition {condition} is {}: give one that is true or false", mask.data_type());
    };
    Ok(if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() })
}

/// A filter on the table's own schema, whose columns have no qualifiers.
pub(crate) fn unqualified(filter: Expr) -> Result<Expr> {
    let bare = |expr: Expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        other => Ok(Transformed::no(other)),
    };
    filter.transform(bare).data()
}
