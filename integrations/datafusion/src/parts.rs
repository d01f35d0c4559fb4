//! What scans and look-ups are made of: for codecs, which send them to processes that have the same tables.

use crate::contents::{Contents, Indexed};
use crate::ranges::ColumnFilter;
use crate::scan::{Rows, Wanted};
use crate::shape::{On, Shape};
use crate::{IndexLookupExec, IndexedScanExec, IndexedTable};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, JoinType, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// What an [`IndexLookupExec`] is made of, beside its table and its input.
#[derive(Clone, Debug)]
pub struct LookupParts {
    /// The numbers of the indexed columns in the table, in the order of the index.
    pub index: Vec<usize>,
    /// The join that it stands for.
    pub join_type: JoinType,
    /// The side of the input.
    pub probe_side: JoinSide,
    /// The join's schema, without a projection.
    pub schema: SchemaRef,
    /// Which rows of the table a probe matches.
    pub condition: On,
    /// The columns of the table on its side of the join.
    pub columns: Vec<usize>,
    /// The columns of `schema` that are returned.
    pub output: Vec<usize>,
    /// What pairs are to meet in addition, one after the other: over the columns of the input, and then all columns of the table.
    pub filters: Vec<PhysicalExprRef>,
}

/// What an [`IndexedScanExec`] is made of, beside its table.
#[derive(Clone, Debug)]
pub struct ScanParts {
    /// The table's columns that are read.
    pub columns: Vec<usize>,
    /// What the index finds; all rows if there is none.
    pub filter: Option<ScanFilter>,
    /// At most so many rows are read.
    pub limit: Option<usize>,
    /// In so many partitions.
    pub partitions: usize,
}

/// The rows of an index that are read.
#[derive(Clone, Debug)]
pub struct ScanFilter {
    /// The numbers of the indexed columns in the table, in the order of the index.
    pub index: Vec<usize>,
    /// What its first columns are: all but the last of these are lists of values.
    pub columns: Vec<ColumnFilter>,
    /// The filters as the plan shows them.
    pub texts: Vec<String>,
    /// Whether one row of each distinct key is read, and all nulls are one key.
    pub is_distinct: bool,
    /// The order of the rows: the index's, or that backwards.
    pub order: SortOptions,
}

/// # Errors
/// A plan error for the first number that is not below `count`.
fn check(numbers: &[usize], count: usize, what: &str) -> Result<()> {
    match numbers.iter().find(|number| **number >= count) {
        Some(number) => {
            plan_err!("no column {number} of {what}, which has {count}: is it another version of the table?")
        }
        None => Ok(()),
    }
}

/// # Errors
/// A plan error if there is no such index.
fn index_on(contents: &Arc<Contents>, columns: &[usize]) -> Result<Indexed> {
    contents.index_on(columns).ok_or_else(|| {
        let columns: Vec<_> = columns.iter().map(ToString::to_string).collect();
        plan_datafusion_err!("the table has no index on column {}", columns.join(" and "))
    })
}

impl IndexLookupExec {
    /// The [name](IndexedTable::with_name) of its table.
    pub fn table_name(&self) -> Option<&str> {
        self.indexed.contents.name.as_deref()
    }

    /// What it is made of.
    pub fn parts(&self) -> LookupParts {
        let Shape { join_type, probe_side, schema, condition, columns, filters } = &*self.shape;
        LookupParts {
            index: self.indexed.columns().to_vec(),
            join_type: *join_type,
            probe_side: *probe_side,
            schema: schema.clone(),
            condition: condition.clone(),
            columns: columns.clone(),
            output: self.output.clone(),
            filters: filters.clone(),
        }
    }

    /// A look-up in a table, as the one that had these parts. Its display has no costs.
    ///
    /// # Errors
    /// A plan error for parts that do not fit the table: a column or an index that it has not.
    pub fn of_parts(table: &IndexedTable, probes: Arc<dyn ExecutionPlan>, parts: LookupParts) -> Result<Self> {
        let LookupParts { index, join_type, probe_side, schema, condition, columns, output, filters } = parts;
        let contents = table.shared().contents();
        check(&columns, contents.schema.fields().len(), "the table")?;
        check(&output, schema.fields().len(), "the join")?;
        let indexed = index_on(&contents, &index)?;
        let keys = condition.keys();
        let has_keys =
            if let On::AllEqual { .. } = condition { index.len() > 1 && keys <= index.len() } else { index.len() == 1 };
        if keys == 0 || !has_keys {
            return plan_err!("{keys} keys of a look-up in an index on {} columns", index.len());
        }
        let of_filters: Vec<_> = filters.iter().flat_map(collect_columns).map(|column| column.index()).collect();
        let all = probes.schema().fields().len() + contents.schema.fields().len();
        check(&of_filters, all, "the input and the table")?;
        let shape = Shape { join_type, probe_side, schema, condition, columns, filters };
        if !shape.is_lookup() {
            return plan_err!("no look-up stands for a {join_type} join with probes on the {probe_side} side");
        }
        Self::new(indexed, probes, Arc::new(shape), output, None)
    }
}

impl IndexedScanExec {
    /// The [name](IndexedTable::with_name) of its table.
    pub fn table_name(&self) -> Option<&str> {
        self.contents.name.as_deref()
    }

    /// What it is made of.
    pub fn parts(&self) -> ScanParts {
        let filter = match &self.rows {
            Rows::All => None,
            Rows::Wanted(Wanted { indexed, filters, texts, is_distinct, order }) => Some(ScanFilter {
                index: indexed.columns().to_vec(),
                columns: filters.to_vec(),
                texts: texts.clone(),
                is_distinct: *is_distinct,
                order: *order,
            }),
        };
        ScanParts {
            columns: self.columns.clone(),
            filter,
            limit: self.is_limited.then_some(self.count),
            partitions: self.properties().partitioning.partition_count(),
        }
    }

    /// A scan of a table, as the one that had these parts.
    ///
    /// # Errors
    /// A plan error for parts that do not fit the table: a column or an index that it has not.
    pub fn of_parts(table: &IndexedTable, parts: ScanParts) -> Result<Self> {
        let ScanParts { columns, filter, limit, partitions } = parts;
        let contents = table.shared().contents();
        check(&columns, contents.schema.fields().len(), "the table")?;
        let most = limit.unwrap_or(usize::MAX);
        let Some(ScanFilter { index, columns: filters, texts, is_distinct, order }) = filter else {
            let count = most.min(contents.rows());
            return Self::new(contents, Some(&columns), Rows::All, (count, limit), partitions.max(1));
        };
        let indexed = index_on(&contents, &index)?;
        let has_lists = filters.split_last().is_some_and(|(_, lists)| lists.iter().all(|list| list.points().is_some()));
        if filters.len() > index.len() || !has_lists {
            return plan_err!("{} filters are not those of an index on {} columns", filters.len(), index.len());
        }
        let wanted = Wanted { indexed, filters: filters.into(), texts, is_distinct, order };
        let count = wanted.count()?;
        Self::of_some(wanted, Some(&columns), limit, count)
    }
}
