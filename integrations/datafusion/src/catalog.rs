//! Tables by their names.

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
