use datafusion::catalog::TableProvider;
use datafusion::common::Constraints;
use datafusion::logical_expr::Expr;
use std::collections::HashMap;

/// What a table declares beside its columns. An index changes none of it.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) constraints: Constraints,
    /// By the names of their columns.
    pub(crate) defaults: HashMap<String, Expr>,
    /// The statement that made the table.
    pub(crate) definition: Option<String>,
}

impl Declared {
    pub(crate) fn of(table: &dyn TableProvider) -> Self {
        let schema = table.schema();
        let names = schema.fields().iter().map(|field| field.name());
        let default = |name: &String| Some((name.clone(), table.get_column_default(name)?.clone()));
        Self {
            constraints: table.constraints().cloned().unwrap_or_default(),
            defaults: names.filter_map(default).collect(),
            definition: table.get_table_definition().map(str::to_owned),
        }
    }
}
