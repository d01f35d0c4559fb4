//! Tables by their names.

use crate::table::IndexedTable;
use datafusion::catalog::{SchemaProvider, Session};
use datafusion::common::{ResolvedTableReference, TableReference, plan_datafusion_err};
use datafusion::error::Result;
use std::sync::Arc;

/// The schema of a table's name, and the name with all its parts.
pub(crate) fn schema_of(
    session: &dyn Session,
    table: TableReference,
) -> Result<(Arc<dyn SchemaProvider>, ResolvedTableReference)> {
    let defaults = &session.config_options().catalog;
    let name = table.resolve(&defaults.default_catalog, &defaults.default_schema);
    let catalog = session.catalog_list().catalog(&name.catalog);
    let schema = catalog.and_then(|catalog| catalog.schema(&name.schema));
    let schema = schema.ok_or_else(|| plan_datafusion_err!("no schema {}.{}", name.catalog, name.schema))?;
    Ok((schema, name))
}

/// All tables with indexes, in the order of their names.
pub(crate) async fn tables(session: &dyn Session) -> Result<Vec<(TableReference, IndexedTable)>> {
    let (all, mut found) = (session.catalog_list(), Vec::new());
    for catalog_name in all.catalog_names() {
        let Some(catalog) = all.catalog(&catalog_name) else { continue };
        for schema_name in catalog.schema_names() {
            let Some(schema) = catalog.schema(&schema_name) else { continue };
            for name in schema.table_names() {
                let table = schema.table(&name).await?;
                if let Some(table) = table.as_ref().and_then(|table| table.downcast_ref::<IndexedTable>()) {
                    let name = TableReference::full(catalog_name.as_str(), schema_name.as_str(), name);
                    found.push((name, table.clone()));
                }
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}
