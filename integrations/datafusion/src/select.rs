//! The rows that filters on an index's first columns leave.

use crate::contents::{ASCENDING, Indexed};
use crate::ranges::{ColumnFilter, ValueRange};
use crate::runs::{RunLists, external};
use core::mem::discriminant;
use core::ops::Bound;
use datafusion::arrow::array::{Array, ArrayRef, UInt64Array, cast::AsArray};
use datafusion::arrow::compute::{SortOptions, concat, sum};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};

/// The bounds of ranges that are disjoint, in ascending order.
type Bounds = (Bound<ArrayRef>, Bound<ArrayRef>);

/// The bounds of the ranges of an index's keys that filters on its first columns leave: ranges with bounds of one kind together.
fn bounds(indexed: &Indexed, filters: &[ColumnFilter]) -> Result<Vec<Bounds>> {
    match (indexed.packing(), filters) {
        (None, [filter]) => {
            let is_alike = |a: &ValueRange, b: &ValueRange| {
                discriminant(&a.0) == discriminant(&b.0) && discriminant(&a.1) == discriminant(&b.1)
            };
            filter
                .ranges()
                .chunk_by(is_alike)
                .map(|ranges| Ok((all(ranges, |r| &r.0)?, all(ranges, |r| &r.1)?)))
                .collect()
        }
        (Some(packing), [_, ..]) if filters.len() <= packing.len() => {
            let ranges = packing.ranges(filters)?;
            Ok(ranges.into_iter().map(|(firsts, lasts)| (Bound::Included(firsts), Bound::Included(lasts))).collect())
        }
        _ => internal_err!("{} filters of an index on {}", filters.len(), indexed.column_names()),
    }
}

/// The bounds on one side of ranges, which are of one kind.
fn all(ranges: &[ValueRange], side: fn(&ValueRange) -> &Bound<ScalarValue>) -> Result<Bound<ArrayRef>> {
    let values = || {
        let values = ranges.iter().filter_map(|range| match side(range) {
            Bound::Included(value) | Bound::Excluded(value) => Some(value.clone()),
            Bound::Unbounded => None,
        });
        ScalarValue::iter_to_array(values)
    };
    Ok(match ranges.first().map(side) {
        Some(Bound::Included(_)) => Bound::Included(values()?),
        Some(Bound::Excluded(_)) => Bound::Excluded(values()?),
        Some(Bound::Unbounded) | None => Bound::Unbounded,
    })
}

fn given(bound: &Bound<ArrayRef>) -> Bound<&dyn Array> {
    bound.as_ref().map(|array| array as &dyn Array)
}

/// Whether rows are wanted whose first column is null: those that are in no index.
fn wants_nulls(filters: &[ColumnFilter]) -> bool {
    filters.first().is_some_and(ColumnFilter::nulls)
}

/// How many rows filters on an index's first columns leave.
pub(crate) fn count(indexed: &Indexed, filters: &[ColumnFilter]) -> Result<usize> {
    let mut count = if wants_nulls(filters) { indexed.null_count() } else { 0 };
    for (starts, ends) in bounds(indexed, filters)? {
        if let Some(index) = indexed.sole() {
            let counts = index.count_range(given(&starts), given(&ends)).map_err(external)?;
            count += sum(&counts).unwrap_or(0) as usize;
            continue;
        }
        let of_run = |run: &RunLists| (0..run.lists.len()).map(|range| run.count(&run.list(range))).sum::<usize>();
        count += indexed.lists(given(&starts), given(&ends))?.iter().map(of_run).sum::<usize>();
    }
    Ok(count)
}

/// How many distinct keys filters on an index's first columns leave, all nulls of one column as one; `None` if it is not known without
/// a look at each key.
pub(crate) fn count_distinct(indexed: &Indexed, filters: &[ColumnFilter]) -> Result<Option<usize>> {
    let known = indexed.sole().map(|_| most_distinct(indexed, filters));
    known.transpose()
}

/// The same, or more.
pub(crate) fn most_distinct(indexed: &Indexed, filters: &[ColumnFilter]) -> Result<usize> {
    let mut count = usize::from(wants_nulls(filters) && indexed.null_count() > 0);
    for (starts, ends) in bounds(indexed, filters)? {
        count += indexed.most_distinct(given(&starts), given(&ends))?;
    }
    Ok(count)
}

/// A row of each distinct key that filters on an index's first columns leave, in the order of the keys or in the reverse one.
pub(crate) fn distinct(indexed: &Indexed, filters: &[ColumnFilter], order: SortOptions) -> Result<OrderedRows> {
    let mut values = Vec::new();
    for (starts, ends) in bounds(indexed, filters)? {
        values.extend(indexed.distinct(given(&starts), given(&ends))?);
    }
    let nulls = if wants_nulls(filters) { indexed.null_rows(1) } else { Vec::new() };
    let SortOptions { descending, nulls_first } = order;
    Ok(OrderedRows { values: values.into(), is_backwards: descending, nulls: nulls.into(), nulls_first })
}

/// Rows in the order of their values.
pub(crate) struct OrderedRows {
    values: UInt64Array,
    /// Whether those are to be read from the last one to the first one.
    is_backwards: bool,
    nulls: UInt64Array,
    nulls_first: bool,
}

impl OrderedRows {
    /// Some from one on, as they are read: one at least if there is one, and at most so many.
    pub(crate) fn slice(&self, first: usize, most: usize) -> UInt64Array {
        let (of_values, of_nulls) = if self.nulls_first { (self.nulls.len(), 0) } else { (0, self.values.len()) };
        if (of_nulls..of_nulls + self.nulls.len()).contains(&first) {
            let first = first - of_nulls;
            return self.nulls.slice(first, most.min(self.nulls.len() - first));
        }
        let first = (first - of_values).min(self.values.len());
        let count = most.min(self.values.len() - first);
        match self.is_backwards {
            true => {
                let rows = self.values.slice(self.values.len() - first - count, count);
                UInt64Array::from_iter_values(rows.values().iter().rev().copied())
            }
            false => self.values.slice(first, count),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len() + self.nulls.len()
    }

    /// Their numbers; in any order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.values.values().iter().chain(self.nulls.values()).copied()
    }
}

/// The first and the last row that a filter on an index's first column leaves, of those that are not null.
pub(crate) fn ends(indexed: &Indexed, filter: &ColumnFilter) -> Result<Option<UInt64Array>> {
    let not_null = [ColumnFilter::new(filter.ranges().to_vec(), false)];
    let end = |descending| {
        let rows = rows(indexed, &not_null, 1, SortOptions { descending, ..ASCENDING })?.slice(0, 1);
        Ok::<_, DataFusionError>((!rows.is_empty()).then(|| rows.value(0)))
    };
    Ok(end(false)?.zip(end(true)?).map(|(first, last)| UInt64Array::from(vec![first, last])))
}

/// The rows that filters on an index's first columns leave, in the order of their values or in the reverse one: the first `most`.
pub(crate) fn rows(
    indexed: &Indexed,
    filters: &[ColumnFilter],
    most: usize,
    order: SortOptions,
) -> Result<OrderedRows> {
    let SortOptions { descending, nulls_first } = order;
    let nulls =
        |most: usize| UInt64Array::from(if wants_nulls(filters) { indexed.null_rows(most) } else { Vec::new() });
    let first_nulls = nulls_first.then(|| nulls(most));
    let left = most - first_nulls.as_ref().map_or(0, UInt64Array::len);
    let mut groups = bounds(indexed, filters)?;
    if descending {
        groups.reverse();
    }
    let (mut values, mut left): (Vec<UInt64Array>, usize) = (Vec::with_capacity(groups.len()), left);
    for (starts, ends) in &groups {
        let of_group: UInt64Array = if let Some(index) = indexed.sole() {
            let rows = index.range(given(starts), given(ends)).map_err(external)?;
            // Lists of neighbours: together they are a part of their values.
            let (first, last) = (rows.offsets()[0] as usize, rows.offsets()[rows.len()] as usize);
            let rows = rows.values().as_primitive::<UInt64Type>().slice(first, last - first);
            let count = rows.len().min(left);
            rows.slice(if descending { rows.len() - count } else { 0 }, count)
        } else {
            indexed.ordered(&indexed.lists(given(starts), given(ends))?, left, descending)?.into()
        };
        left -= of_group.len();
        values.push(of_group);
        if left == 0 {
            break;
        }
    }
    // One index has its rows in ascending order, and several make the wanted one.
    let is_backwards = descending && indexed.sole().is_some();
    if is_backwards {
        values.reverse();
    }
    let values = match &values[..] {
        [values] => values.clone(),
        [] => UInt64Array::from(Vec::<u64>::new()),
        many => {
            let all = concat(&many.iter().map(|rows| rows as &dyn Array).collect::<Vec<_>>())?;
            all.as_primitive::<UInt64Type>().clone()
        }
    };
    let nulls = first_nulls.unwrap_or_else(|| nulls(most.saturating_sub(values.len())));
    Ok(OrderedRows { values, is_backwards, nulls, nulls_first })
}
