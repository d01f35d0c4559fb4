//! `DELETE` and `UPDATE`.

use crate::asked::best;
use crate::condition::mask;
use crate::contents::{ASCENDING, Contents, bytes_of};
use crate::memory::Statement;
use crate::select;
use crate::shared::Shared;
use crate::table::IndexedTable;
use async_trait::async_trait;
use core::fmt;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{filter_record_batch, interleave, not};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, not_impl_err, plan_datafusion_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::error::Result;
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
#[derive(Clone, Debug)]
pub(crate) struct Change {
    shared: Arc<Shared>,
    /// What the condition is made of.
    filters: Vec<Expr>,
    condition: PhysicalExprRef,
    /// The new values of columns, by their numbers; `None` removes the rows.
    assignments: Option<Vec<(usize, PhysicalExprRef)>>,
}

impl Change {
    pub(crate) fn delete(shared: &Arc<Shared>, session: &dyn Session, filters: Vec<Expr>) -> Result<Self> {
        let condition = expression(shared, session, condition(filters.clone()))?;
        Ok(Self { shared: shared.clone(), filters, condition, assignments: None })
    }

    pub(crate) fn update(
        shared: &Arc<Shared>,
        session: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Self> {
        let condition = expression(shared, session, condition(filters.clone()))?;
        let number = |name: &str| {
            let names = || shared.schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>();
            let number = shared.schema.index_of(name);
            number.map_err(|_| plan_datafusion_err!("no column {name} to update: choose one of {}", names().join(", ")))
        };
        let assignments = assignments.into_iter();
        let assignments = assignments.map(|(name, value)| Ok((number(&name)?, expression(shared, session, value)?)));
        let assignments = Some(assignments.collect::<Result<_>>()?);
        Ok(Self { shared: shared.clone(), filters, condition, assignments })
    }

    /// A plan that makes the change when it is executed, and returns the number of rows.
    pub(crate) fn plan(self) -> Arc<dyn ExecutionPlan> {
        // A sink has an input.
        let input = Arc::new(EmptyExec::new(self.shared.schema.clone()));
        Arc::new(DataSinkExec::new(input, Arc::new(self), None))
    }

    /// The numbers of the rows that meet the condition, ascending; found by an index, if one answers a part of the condition.
    fn chosen(&self, contents: &Arc<Contents>) -> Result<Vec<u64>> {
        let asked = best(contents, &self.filters.iter().collect::<Vec<_>>())?;
        if let Some((asked, count)) = asked.filter(|(_, count)| Shared::is_small(contents, *count)) {
            let found = select::rows(&asked.indexed, &asked.wanted, count, ASCENDING)?;
            let mut found: Vec<u64> = found.numbers().collect();
            found.sort_unstable();
            let mask = mask(&self.condition, &contents.taken(&found)?)?;
            return Ok(mask.values().set_indices().map(|at| found[at]).collect());
        }
        let mut chosen = Vec::new();
        for part in &contents.parts {
            // The condition may be an error for rows that are removed.
            let mask = mask(&self.condition, &part.all_live_rows()?)?;
            match part.live {
                None => chosen.extend(mask.values().set_indices().map(|row| (part.first + row) as u64)),
                Some(_) => {
                    let numbers = part.numbers().zip(mask.values());
                    chosen.extend(numbers.filter_map(|(row, is_chosen)| is_chosen.then_some(row)));
                }
            }
        }
        Ok(chosen)
    }

    /// The contents after the change, if any row is changed, and how many are.
    fn apply(&self, old: &Arc<Contents>, statement: &Statement) -> Result<(Option<Contents>, u64)> {
        let chosen = self.chosen(old)?;
        let count = chosen.len() as u64;
        if chosen.is_empty() {
            return Ok((None, 0));
        }
        if Shared::is_small(old, chosen.len()) {
            let new_rows = |assignments| assigned(&old.taken(&chosen)?, assignments);
            let added = self.assignments.as_deref().map(new_rows).transpose()?;
            return Ok((Some(self.shared.changed(old, &chosen, added, statement)?), count));
        }
        let bytes = old.parts.iter().map(|part| bytes_of(&part.batch)).sum::<Result<usize>>()?;
        let _memory = statement.take("rows after a change", bytes)?;
        let (all, mut next) = (old.whole()?, chosen.iter().peekable());
        // (A condition may be another one each time.)
        let mask: Vec<bool> = old.numbers().map(|row| next.next_if_eq(&&row).is_some()).collect();
        let mask = BooleanArray::from(mask);
        let changed = match &self.assignments {
            None => filter_record_batch(&all, &not(&mask)?)?,
            Some(assignments) => updated(&all, &mask, assignments)?,
        };
        Ok((Some(self.shared.replaced(old, changed, statement)?), count))
    }
}

/// Rows with new values.
fn assigned(rows: &RecordBatch, assignments: &[(usize, PhysicalExprRef)]) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
    for (number, value) in assignments {
        columns[*number] = value.evaluate(rows)?.into_array(rows.num_rows())?;
    }
    Ok(RecordBatch::try_new(rows.schema(), columns)?)
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
    let (mut columns, chosen): (Vec<ArrayRef>, _) = (batch.columns().to_vec(), assigned(&chosen, assignments)?);
    for (number, _) in assignments {
        columns[*number] = interleave(&[batch.column(*number), chosen.column(*number)], &places)?;
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
        let own = self.clone();
        let change = move |statement: &Statement| {
            let mut changed = 0;
            own.shared.change(statement, |old| {
                let new;
                (new, changed) = own.apply(old, statement)?;
                Ok(new)
            })?;
            Ok(changed)
        };
        Statement::of(context).run(change).await
    }
}
