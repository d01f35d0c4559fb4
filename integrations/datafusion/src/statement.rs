//! Statements about indexes that the engine's SQL has no plan for.

use crate::catalog::{schema_of, tables};
use crate::condition::Condition;
use crate::contents::Described;
use crate::ddl::{CreateIndexExec, Options};
use crate::replaced::current;
use crate::table::IndexedTable;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use datafusion::common::{TableReference, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, CreateIndex, Ident, ObjectName, ObjectType, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// Plans a statement, as [`SessionContext::sql`] does, and has in addition:
///
/// - `DROP INDEX [IF EXISTS] name [ON table]`, which is done when this returns. Without a table, one table alone may have an index of
///   that name.
/// - `SHOW INDEXES [FROM table]`: the names, columns, uniqueness, bytes, conditions and files of indexes.
/// - `CREATE INDEX … WITH (file = 'path')`: an index that is loaded from a file if that has the order of the table's rows, and built and
///   saved to it otherwise. It is done when this returns, and the frame says which.
/// - `CREATE [UNIQUE] INDEX … WHERE condition`: an index on the rows that meet it, for queries that have each part of it among the parts of
///   their `WHERE`, beside conditions on the index's columns. With `UNIQUE`, these rows alone may not have equal values. It has no `now()`,
///   `random()` or other functions that are not immutable. It is done when this returns.
/// - An error for the clauses of `CREATE INDEX` that the engine parses and leaves out: `INCLUDE`, other options, `NULLS NOT DISTINCT`.
///   [`SessionContext::sql`] leaves out these and the two above, and makes an index on all rows.
///
/// # Errors
/// The parser's and the planner's; a plan error if there is no such index or table.
pub async fn sql(context: &SessionContext, statement: &str) -> Result<DataFrame> {
    let state = context.state();
    let statement = state.sql_to_statement(statement, &state.config_options().sql_parser.dialect)?;
    plan_statement(context, statement).await
}

/// As [`sql`], for a statement that is parsed already.
///
/// # Errors
/// As [`sql`].
pub async fn plan_statement(context: &SessionContext, mut statement: Statement) -> Result<DataFrame> {
    if let Statement::Statement(parsed) = &statement {
        match &**parsed {
            ast::Statement::Drop { object_type: ObjectType::Index, if_exists, names, table, .. } => {
                drop_index(context, names, table.as_ref(), *if_exists).await?;
                return context.read_empty();
            }
            ast::Statement::ShowVariable { variable } if is_word(variable.first(), &["INDEXES", "INDICES"]) => {
                return show_indexes(context, &variable[1..]).await;
            }
            _ => {}
        }
    }
    let (file, condition) = (take_file(&mut statement)?, take_condition(&mut statement));
    check_clauses(&statement)?;
    let plan = context.state().statement_to_plan(statement).await?;
    if file.is_some() || condition.is_some() {
        return create_index(context, &plan, file, condition).await;
    }
    context.execute_logical_plan(plan).await
}

/// Makes an index with options.
async fn create_index(
    context: &SessionContext,
    plan: &LogicalPlan,
    file: Option<PathBuf>,
    condition: Option<ast::Expr>,
) -> Result<DataFrame> {
    let (has_file, physical) = (file.is_some(), context.state().create_physical_plan(plan).await?);
    let (LogicalPlan::Ddl(DdlStatement::CreateIndex(statement)), Some(create)) =
        (plan, physical.downcast_ref::<CreateIndexExec>())
    else {
        return plan_err!("this session makes no indexes: build its state by with_index_lookups");
    };
    let condition = match condition {
        Some(condition) => Some(Condition::of(context, &statement.table, &condition.to_string()).await?),
        None => None,
    };
    let of_file = create.run_with(Options { file, condition }, context.task_ctx()).await?;
    if !has_file {
        return context.read_empty();
    }
    let said = of_file.map_or_else(|| "there is an index of this name".to_owned(), |of_file| of_file.to_string());
    let said: ArrayRef = Arc::new(StringArray::from_iter_values([said]));
    context.read_batch(RecordBatch::try_from_iter([("index", said)])?)
}

/// The condition of a `CREATE INDEX … WHERE`, which is left without it.
fn take_condition(statement: &mut Statement) -> Option<ast::Expr> {
    let Statement::Statement(parsed) = statement else { return None };
    let ast::Statement::CreateIndex(created) = &mut **parsed else { return None };
    created.predicate.take()
}

/// The file of a `CREATE INDEX … WITH (file = '…')`, which is left without it.
///
/// # Errors
/// For other options.
fn take_file(statement: &mut Statement) -> Result<Option<PathBuf>> {
    let Statement::Statement(parsed) = statement else { return Ok(None) };
    let ast::Statement::CreateIndex(created) = &mut **parsed else { return Ok(None) };
    let [option] = &created.with[..] else { return Ok(None) };
    if let ast::Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = option
        && let (ast::Expr::Identifier(name), ast::Expr::Value(value)) = (&**left, &**right)
        && name.value.eq_ignore_ascii_case("file")
        && let Value::SingleQuotedString(path) = &value.value
    {
        let path = PathBuf::from(path);
        created.with.clear();
        return Ok(Some(path));
    }
    plan_err!("WITH ({option}): an index has the option file = 'path' alone")
}

/// # Errors
/// For the first clause of `CREATE INDEX` that the engine leaves out.
fn check_clauses(statement: &Statement) -> Result<()> {
    let created = match statement {
        Statement::Explain(explained) => return check_clauses(&explained.statement),
        Statement::Statement(parsed) => match &**parsed {
            ast::Statement::CreateIndex(created) => created,
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let CreateIndex { include, nulls_distinct, with, predicate, index_options, alter_options, .. } = created;
    if let Some(predicate) = predicate {
        return not_impl_err!("EXPLAIN of an index on some rows, WHERE {predicate}: leave out WHERE");
    }
    if !include.is_empty() {
        let columns: Vec<_> = include.iter().map(ToString::to_string).collect();
        return not_impl_err!(
            "INCLUDE ({}): leave it out, as an index finds rows, which have all columns",
            columns.join(", ")
        );
    }
    if *nulls_distinct == Some(false) {
        return not_impl_err!("NULLS NOT DISTINCT: a unique index takes any number of nulls; leave it out");
    }
    if !with.is_empty() {
        return plan_err!("WITH: an index has the option file = 'path' alone, and EXPLAIN takes none");
    }
    if !index_options.is_empty() || !alter_options.is_empty() {
        return not_impl_err!("options of an index: leave out what follows its columns");
    }
    Ok(())
}

fn is_word(word: Option<&Ident>, of: &[&str]) -> bool {
    word.is_some_and(|word| of.iter().any(|name| word.value.eq_ignore_ascii_case(name)))
}

fn reference(context: &SessionContext, name: &ObjectName) -> Result<TableReference> {
    let normalizes = context.state().config_options().sql_parser.enable_ident_normalization;
    object_name_to_table_reference(name.clone(), normalizes)
}

/// The tables with indexes, or the one of a name, which must have been indexed.
async fn indexed_tables(
    context: &SessionContext,
    table: Option<TableReference>,
) -> Result<Vec<(TableReference, IndexedTable)>> {
    let state = context.state();
    let Some(name) = table else { return tables(&state).await };
    let (schema, full_name) = schema_of(&state, name.clone())?;
    let table = schema.table(&full_name.table).await?.ok_or_else(|| plan_datafusion_err!("no table {name}"))?;
    let table = current(table).downcast_ref::<IndexedTable>().cloned();
    Ok(table.into_iter().map(|table| (full_name.clone().into(), table)).collect())
}

async fn drop_index(
    context: &SessionContext,
    names: &[ObjectName],
    table: Option<&ObjectName>,
    if_exists: bool,
) -> Result<()> {
    let [name] = names else { return plan_err!("DROP INDEX of {} indexes: drop one at a time", names.len()) };
    let TableReference::Bare { table: index } = reference(context, name)? else {
        return plan_err!("DROP INDEX {name}: give the index's own name, and its table after ON");
    };
    let table = table.map(|table| reference(context, table)).transpose()?;
    let all = indexed_tables(context, table).await?;
    let having: Vec<_> = all.iter().filter(|(_, table)| table.shared().contents().has_index(&index)).collect();
    match having[..] {
        [(_, table)] => table.drop_index(&index),
        [] if if_exists => Ok(()),
        [] => plan_err!("no index {index} to drop: SHOW INDEXES lists all"),
        _ => {
            let names: Vec<_> = having.iter().map(|(name, _)| name.to_string()).collect();
            plan_err!("index {index} is on {}: say DROP INDEX {index} ON table", names.join(" and on "))
        }
    }
}

async fn show_indexes(context: &SessionContext, words: &[Ident]) -> Result<DataFrame> {
    let table = match words {
        [] => None,
        [from, name @ ..] if is_word(Some(from), &["FROM", "IN", "ON"]) && !name.is_empty() => {
            Some(reference(context, &ObjectName::from(name.to_vec()))?)
        }
        _ => return plan_err!("say SHOW INDEXES, or SHOW INDEXES FROM table"),
    };
    let mut found = Vec::new();
    for (table, indexed) in indexed_tables(context, table).await? {
        found.extend(indexed.shared().contents().described().map(|index| (table.to_string(), index)));
    }
    let text = |value: fn(&(String, Described)) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(found.iter().map(value)))
    };
    let rows = RecordBatch::try_from_iter([
        ("table", text(|(table, _)| table)),
        ("index", text(|(_, index)| &index.name)),
        ("columns", text(|(_, index)| &index.columns)),
        ("unique", Arc::new(BooleanArray::from_iter(found.iter().map(|(_, index)| Some(index.is_unique)))) as _),
        ("bytes", Arc::new(UInt64Array::from_iter_values(found.iter().map(|(_, index)| index.bytes))) as _),
        ("device", text(|(_, index)| &index.device)),
        ("where", Arc::new(StringArray::from_iter(found.iter().map(|(_, index)| index.condition.as_deref()))) as _),
        ("file", Arc::new(StringArray::from_iter(found.iter().map(|(_, index)| index.file.as_deref()))) as _),
    ])?;
    context.read_batch(rows)
}
