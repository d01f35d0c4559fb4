//! `DELETE` and `UPDATE`.

use crate::contents::{Shared, bytes_of};
use crate::table::IndexedTable;
use async_trait::async_trait;
use core::fmt;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{filter_record_batch, interleave, not, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, WriteOp, lit};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use std::sync::Arc;

/// A plan whose changes of tables in memory, indexed or not, are those of their statements.
///
/// The engine hands a table the filters of its scan, and leaves out what else the optimizer has made of the condition: of one that is
/// never true, or that became a join, nothing is left, which would change all rows.
///
/// # Errors
/// A plan error for a subquery in the condition, and for `LIMIT`.
pub(crate) fn guarded(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down(|node| match node {
        LogicalPlan::Dml(mut statement) if is_guarded(&statement) => {
            let is_changed = !may_change(&statement)?;
            if is_changed {
                let scan = LogicalPlanBuilder::scan(statement.table_name.clone(), statement.target.clone(), None)?;
                statement.input = Arc::new(scan.filter(lit(false))?.build()?);
            }
            Ok(Transformed::new(LogicalPlan::Dml(statement), is_changed, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn is_guarded(statement: &DmlStatement) -> bool {
    let is_in_memory = |table: Arc<dyn TableProvider>| table.is::<IndexedTable>() || table.is::<MemTable>();
    source_as_provider(&statement.target).is_ok_and(is_in_memory)
        && matches!(statement.op, WriteOp::Delete | WriteOp::Update)
}

/// Whether a statement has any rows to change; an error if they are not those of filters on the table alone.
fn may_change(statement: &DmlStatement) -> Result<bool> {
    let (mut input, name) = (&statement.input, statement.op.name().to_uppercase());
    loop {
        input = match &**input {
            LogicalPlan::EmptyRelation(_) => return Ok(false),
            LogicalPlan::TableScan(scan) if scan.fetch.is_none() => return Ok(true),
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::TableScan(_) | LogicalPlan::Limit(_) | LogicalPlan::Sort(_) => {
                return not_impl_err!("{name} with LIMIT: choose the rows by conditions on their columns");
            }
            _ => return not_impl_err!("{name} with a subquery: run the query first, and give its values in a list"),
        }
    }
}

/// Changes rows of a table that meet a condition: all at once, or none.
#[derive(Debug)]
pub(crate) struct Change {
    shared: Arc<Shared>,
    condition: PhysicalExprRef,
    /// The new values of columns, by their numbers; `None` removes the rows.
    assignments: Option<Vec<(usize, PhysicalExprRef)>>,
}

impl Change {
    pub(crate) fn delete(shared: &Arc<Shared>, session: &dyn Session, filters: Vec<Expr>) -> Result<Self> {
        let condition = expression(shared, session, condition(filters))?;
        Ok(Self { shared: shared.clone(), condition, assignments: None })
    }

    pub(crate) fn update(
        shared: &Arc<Shared>,
        session: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Self> {
        let condition = expression(shared, session, condition(filters))?;
        let number = |name: &str| {
            let names = || shared.schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
            let number = shared.schema.index_of(name);
            number.map_err(|_| plan_datafusion_err!("no column {name} to update: choose one of {}", names().join(", ")))
        };
        let assignments = assignments.into_iter();
        let assignments = assignments.map(|(name, value)| Ok((number(&name)?, expression(shared, session, value)?)));
        Ok(Self { shared: shared.clone(), condition, assignments: Some(assignments.collect::<Result<_>>()?) })
    }

    /// A plan that makes the change when it is executed, and returns the number of rows.
    pub(crate) fn plan(self) -> Arc<dyn ExecutionPlan> {
        // A sink has an input.
        let input = Arc::new(EmptyExec::new(self.shared.schema.clone()));
        Arc::new(DataSinkExec::new(input, Arc::new(self), None))
    }

    /// The rows of a batch after the change, and how many are changed.
    fn apply(&self, batch: &RecordBatch) -> Result<(RecordBatch, u64)> {
        let mask = self.condition.evaluate(batch)?.into_array(batch.num_rows())?;
        let Some(mask) = mask.as_boolean_opt() else {
            return plan_err!(
                "the condition {} is {}: give one that is true or false",
                self.condition,
                mask.data_type()
            );
        };
        // A condition that is null is not met.
        let mask = if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() };
        let count = mask.true_count() as u64;
        let changed = match &self.assignments {
            _ if count == 0 => batch.clone(),
            None => filter_record_batch(batch, &not(&mask)?)?,
            Some(assignments) => updated(batch, &mask, assignments)?,
        };
        Ok((changed, count))
    }
}

/// What filters ask together.
fn condition(filters: Vec<Expr>) -> Expr {
    conjunction(filters).unwrap_or_else(|| lit(true))
}

fn expression(shared: &Shared, session: &dyn Session, expr: Expr) -> Result<PhysicalExprRef> {
    session.create_physical_expr(expr, &DFSchema::try_from(shared.schema.clone())?)
}

/// New values are computed for the rows of the mask alone: others may have none.
fn updated(batch: &RecordBatch, mask: &BooleanArray, assignments: &[(usize, PhysicalExprRef)]) -> Result<RecordBatch> {
    let chosen = filter_record_batch(batch, mask)?;
    let mut next = 0..chosen.num_rows();
    let place = |row: usize| mask.value(row).then(|| next.next()).flatten().map_or((0, row), |new| (1, new));
    let places: Vec<_> = (0..batch.num_rows()).map(place).collect();
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    for (number, value) in assignments {
        let values = value.evaluate(&chosen)?.into_array(chosen.num_rows())?;
        columns[*number] = interleave(&[batch.column(*number), &values], &places)?;
    }
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

impl DisplayAs for Change {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = &self.shared.schema;
        match &self.assignments {
            None => f.write_str("delete")?,
            Some(assignments) => {
                let assigned =
                    assignments.iter().map(|(number, value)| format!("{} = {value}", schema.field(*number).name()));
                write!(f, "update {}", assigned.collect::<Vec<_>>().join(", "))?
            }
        }
        write!(f, " where {}, indexes=[{}]", self.condition, self.shared.contents().indexed_columns())
    }
}

#[async_trait]
impl DataSink for Change {
    fn schema(&self) -> &SchemaRef {
        &self.shared.schema
    }

    async fn write_all(&self, _: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let memory = MemoryConsumer::new("IndexedTable: rows after a change").register(context.memory_pool());
        let mut count = 0;
        self.shared.change_rows(|batch| {
            memory.try_grow(bytes_of(batch)?)?;
            let changed;
            (changed, count) = self.apply(batch)?;
            Ok(changed)
        })?;
        Ok(count)
    }
}
