//! Tables in whose place `CREATE INDEX` has put indexed ones. Views, prepared statements and data frames that were planned before it
//! still hold them.

use crate::table::IndexedTable;
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::optimizer::AnalyzerRule;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

type Replaced = Vec<(Weak<dyn TableProvider>, Arc<IndexedTable>)>;

/// One list for the process, as sessions may share a catalog. An entry stays while something holds the old table, whose address no
/// other table can have meanwhile.
static REPLACED: Mutex<Replaced> = Mutex::new(Vec::new());

fn replaced() -> MutexGuard<'static, Replaced> {
    let mut all = REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(old, _)| old.strong_count() > 0);
    all
}

/// Has `register` put the new table into its catalog; plans over the old one are then over the new one. If another one has been put in
/// the old table's place before, returns that, and does nothing.
///
/// # Errors
/// Those of `register`, which must leave the old table in the catalog then.
pub(crate) fn replace(
    old: &Arc<dyn TableProvider>,
    new: IndexedTable,
    register: impl FnOnce(Arc<IndexedTable>) -> Result<()>,
) -> Result<Option<Arc<IndexedTable>>> {
    let mut all = replaced();
    if let Some(other) = find(&all, old) {
        return Ok(Some(other));
    }
    let new = Arc::new(new);
    register(new.clone())?;
    all.push((Arc::downgrade(old), new));
    Ok(None)
}

/// The table that has been put in a table's place.
pub(crate) fn successor(table: &Arc<dyn TableProvider>) -> Option<Arc<IndexedTable>> {
    find(&replaced(), table)
}

/// The table that plans over a table read and change.
pub(crate) fn current(table: Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
    successor(&table).map_or(table, |new| new)
}

fn find(all: &Replaced, table: &Arc<dyn TableProvider>) -> Option<Arc<IndexedTable>> {
    let found = all.iter().find(|(old, _)| core::ptr::addr_eq(old.as_ptr(), Arc::as_ptr(table)));
    found.map(|(_, new)| new.clone())
}

fn source(old: &Arc<dyn TableSource>) -> Option<Arc<dyn TableSource>> {
    Some(provider_as_source(successor(&source_as_provider(old).ok()?)?))
}

/// Plans read and change the tables that are there now.
#[derive(Debug)]
pub(crate) struct CurrentTables;

impl AnalyzerRule for CurrentTables {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if replaced().is_empty() {
            return Ok(plan);
        }
        plan.transform_down_with_subqueries(|mut node| {
            let table = match &mut node {
                LogicalPlan::TableScan(scan) => &mut scan.source,
                LogicalPlan::Dml(statement) => &mut statement.target,
                _ => return Ok(Transformed::no(node)),
            };
            let Some(new) = source(table) else { return Ok(Transformed::no(node)) };
            *table = new;
            Ok(Transformed::yes(node))
        })
        .data()
    }

    fn name(&self) -> &str {
        "tables_with_indexes"
    }
}
