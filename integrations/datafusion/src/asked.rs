//! What the conditions of a statement ask of a table's indexes.

use crate::contents::{Contents, Indexed};
use crate::ranges::ColumnFilter;
use crate::select::count;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use std::sync::Arc;

/// More ranges of an index than these are not asked at once: the lists of further columns are tried on the rows that are found.
const MOST_RANGES: usize = 1 << 16;

/// What an index is asked.
pub(crate) struct Asked {
    pub(crate) indexed: Indexed,
    /// On its first columns.
    pub(crate) wanted: Vec<ColumnFilter>,
    /// The numbers of the filters that it answers.
    pub(crate) own: Vec<usize>,
}

/// What filters together ask of each index that answers any of them: as many of its first columns as have conditions, up to the first
/// one that is not restricted to a list of values, or may be null and is the first one of all.
pub(crate) fn asked(contents: &Arc<Contents>, filters: &[&Expr]) -> Vec<Asked> {
    let conditions: Vec<_> = filters.iter().map(|filter| condition(contents, filter)).collect();
    let ask = |indexed: Indexed| {
        let of_rows = match indexed.condition() {
            // (Another process knows an index by its columns.)
            Some(_) if contents.name.is_some() => return None,
            Some(condition) => condition.implied(filters)?,
            None => Vec::new(),
        };
        let (mut wanted, mut own, mut ranges) = (Vec::new(), Vec::new(), 1_usize);
        for column in indexed.columns() {
            let mut of_column = ColumnFilter::default();
            let before = own.len();
            for (number, condition) in conditions.iter().enumerate() {
                if let Some((of, condition)) = condition
                    && of == column
                {
                    of_column = of_column.and(condition);
                    own.push(number);
                }
            }
            let points = of_column.points();
            ranges = ranges.saturating_mul(points.unwrap_or(of_column.ranges().len() + 1));
            if own.len() == before || !wanted.is_empty() && ranges > MOST_RANGES {
                own.truncate(before);
                break;
            }
            // Rows whose first column is null are in no order of the others.
            let is_last = points.is_none() || wanted.is_empty() && of_column.nulls();
            wanted.push(of_column);
            if is_last {
                break;
            }
        }
        // Rows whose first column is null are not all those that an index on some rows leaves out.
        if own.is_empty() || indexed.condition().is_some() && wanted.first().is_some_and(ColumnFilter::nulls) {
            return None;
        }
        own.extend(of_rows);
        Some(Asked { indexed, wanted, own })
    };
    contents.all_and_partial().filter_map(ask).collect()
}

/// What the index is asked that finds the fewest rows, and how many; of those the one that answers the most filters.
pub(crate) fn best(contents: &Arc<Contents>, filters: &[&Expr]) -> Result<Option<(Asked, usize)>> {
    let mut best = None;
    for asked in asked(contents, filters) {
        let count = count(&asked.indexed, &asked.wanted)?;
        let cost = (count, usize::MAX - asked.own.len());
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, asked));
        }
    }
    Ok(best.map(|((count, _), asked)| (asked, count)))
}

/// What a filter asks of one column of the table, if that is all it asks.
fn condition(contents: &Contents, filter: &Expr) -> Option<(usize, ColumnFilter)> {
    let columns = filter.column_refs();
    let (Some(column), 1) = (columns.iter().next(), columns.len()) else { return None };
    let number = contents.schema.index_of(&column.name).ok()?;
    Some((number, ColumnFilter::of(filter, &column.name, contents.value_type(number))?))
}
