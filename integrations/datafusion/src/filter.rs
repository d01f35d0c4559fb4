//! From SQL's conditions on indexed columns to ranges of their values.

use crate::contents::Indexed;
use crate::runs::{RunLists, external};
use core::cmp::Ordering;
use core::ops::{Bound, RangeBounds};
use datafusion::arrow::array::{Array, ArrayRef, UInt64Array, cast::AsArray};
use datafusion::arrow::compute::sum;
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator};

/// What one filter asks of a column. Values are of the column's type and not null.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Range(Bound<ScalarValue>, Bound<ScalarValue>),
    Values(Vec<ScalarValue>),
}

/// A comparison with null is true of no row.
const NOTHING: Condition = Condition::Values(Vec::new());

impl Condition {
    /// `None` if the index does not answer it exactly.
    pub(crate) fn of(filter: &Expr, column: &str, data_type: &DataType) -> Option<Self> {
        let is_column = |expr: &Expr| matches!(expr, Expr::Column(it) if it.name == column);
        let value = |expr: &Expr| match expr {
            Expr::Literal(value, _) if value.data_type() == *data_type => Some(value.clone()),
            // Beside a column of dictionaries.
            Expr::Literal(ScalarValue::Dictionary(_, value), _) if value.data_type() == *data_type => {
                Some((**value).clone())
            }
            _ => None,
        };
        match filter {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                match (Self::of(left, column, data_type)?, Self::of(right, column, data_type)?) {
                    (Self::Values(mut values), Self::Values(more)) => {
                        values.extend(more);
                        Some(Self::Values(values))
                    }
                    _ => None,
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_column(left) => Self::comparison(*op, value(right)?),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_column(right) => {
                Self::comparison(op.swap()?, value(left)?)
            }
            Expr::InList(list) if is_column(&list.expr) && !list.negated => {
                let values: Option<Vec<_>> = list.list.iter().map(value).collect();
                Some(Self::Values(values?.into_iter().filter(|value| !value.is_null()).collect()))
            }
            Expr::IsNotNull(expr) if is_column(expr) => Some(Self::Range(Bound::Unbounded, Bound::Unbounded)),
            Expr::Between(between) if is_column(&between.expr) && !between.negated => {
                let (low, high) = (value(&between.low)?, value(&between.high)?);
                match low.is_null() || high.is_null() {
                    true => Some(NOTHING),
                    false => Some(Self::Range(Bound::Included(low), Bound::Included(high))),
                }
            }
            Expr::Like(Like { negated: false, expr, pattern, escape_char: None, case_insensitive: false })
                if is_column(expr) =>
            {
                let Expr::Literal(pattern, _) = &**pattern else { return None };
                let prefix = pattern.try_as_str()?.map(prefix_of);
                prefix.map_or(Some(NOTHING), |prefix| Self::prefix(&prefix?, data_type))
            }
            _ => None,
        }
    }

    /// Strings that begin with this one.
    fn prefix(prefix: &str, data_type: &DataType) -> Option<Self> {
        let of_type = |text: &str| ScalarValue::from(text).cast_to(data_type).ok();
        if !data_type.is_string() {
            return None;
        }
        let next = next_prefix(prefix).map_or(Some(Bound::Unbounded), |next| of_type(&next).map(Bound::Excluded));
        Some(Self::Range(Bound::Included(of_type(prefix)?), next?))
    }

    fn comparison(op: Operator, value: ScalarValue) -> Option<Self> {
        let is_null = value.is_null();
        let condition = match op {
            Operator::Eq => Self::Values(vec![value]),
            Operator::Lt => Self::Range(Bound::Unbounded, Bound::Excluded(value)),
            Operator::LtEq => Self::Range(Bound::Unbounded, Bound::Included(value)),
            Operator::Gt => Self::Range(Bound::Excluded(value), Bound::Unbounded),
            Operator::GtEq => Self::Range(Bound::Included(value), Bound::Unbounded),
            _ => return None,
        };
        Some(if is_null { NOTHING } else { condition })
    }
}

/// What `LIKE` asks a string to begin with, if that is all it asks.
fn prefix_of(pattern: &str) -> Option<String> {
    let (mut prefix, mut characters) = (String::new(), pattern.chars());
    while let Some(character) = characters.next() {
        match character {
            '%' => return characters.all(|rest| rest == '%').then_some(prefix),
            '_' => return None,
            '\\' => prefix.push(characters.next().filter(|escaped| "%_\\".contains(*escaped))?),
            other => prefix.push(other),
        }
    }
    None
}

/// The smallest string above all that begin with this one; `None` if there is none. Strings are ordered by their bytes, which is by
/// their characters.
fn next_prefix(prefix: &str) -> Option<String> {
    let mut next = prefix.to_owned();
    while let Some(last) = next.pop() {
        // (The range leaves out what is no character.)
        if let Some(above) = (last..=char::MAX).nth(1) {
            next.push(above);
            return Some(next);
        }
    }
    None
}

/// What filters ask of a column together: a range of values, and a list of them unless any will do. Values are of the column's type, of
/// a dictionary that of its values, and not null.
#[derive(Clone, Debug)]
pub struct ColumnFilter {
    /// Where the range begins.
    pub low: Bound<ScalarValue>,
    /// Where it ends.
    pub high: Bound<ScalarValue>,
    /// The list.
    pub values: Option<Vec<ScalarValue>>,
}

impl Default for ColumnFilter {
    fn default() -> Self {
        Self { low: Bound::Unbounded, high: Bound::Unbounded, values: None }
    }
}

impl ColumnFilter {
    pub(crate) fn restrict(&mut self, condition: Condition) {
        match condition {
            Condition::Range(low, high) => {
                if is_tighter(&low, &self.low, true) {
                    self.low = low;
                }
                if is_tighter(&high, &self.high, false) {
                    self.high = high;
                }
            }
            Condition::Values(values) => match &mut self.values {
                Some(own) => own.retain(|value| values.contains(value)),
                None => self.values = Some(values),
            },
        }
    }

    /// The values of the list that are within the range, each once, in ascending order.
    pub(crate) fn distinct(&self) -> Vec<ScalarValue> {
        let range = (self.low.as_ref(), self.high.as_ref());
        let own = self.values.iter().flatten();
        let mut values: Vec<_> = own.filter(|value| range.contains(*value)).cloned().collect();
        // They are of one type, which has an order.
        values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        values.dedup();
        values
    }

    /// The bounds of ranges that are disjoint, in ascending order; `None` if no value is wanted.
    fn bounds(&self) -> Result<Option<(Bound<ArrayRef>, Bound<ArrayRef>)>> {
        if self.values.is_none() {
            return Ok(Some((one(&self.low)?, one(&self.high)?)));
        }
        let values = self.distinct();
        if values.is_empty() {
            return Ok(None);
        }
        let values = ScalarValue::iter_to_array(values)?;
        Ok(Some((Bound::Included(values.clone()), Bound::Included(values))))
    }
}

/// The bounds of the ranges of an index's keys that filters on its first columns leave.
fn bounds(indexed: &Indexed, filters: &[ColumnFilter]) -> Result<Option<(Bound<ArrayRef>, Bound<ArrayRef>)>> {
    match (indexed.packing(), filters) {
        (None, [filter]) => filter.bounds(),
        (Some(packing), [_, ..]) if filters.len() <= packing.len() => {
            let ranges = packing.ranges(filters)?;
            Ok(ranges.map(|(firsts, lasts)| (Bound::Included(firsts), Bound::Included(lasts))))
        }
        _ => internal_err!("{} filters of an index on {}", filters.len(), indexed.column_names()),
    }
}

/// How many rows filters on an index's first columns leave.
pub(crate) fn count(indexed: &Indexed, filters: &[ColumnFilter]) -> Result<usize> {
    let Some((starts, ends)) = bounds(indexed, filters)? else { return Ok(0) };
    if let Some(index) = indexed.sole() {
        let counts = index.count_range(given(&starts), given(&ends)).map_err(external)?;
        return Ok(sum(&counts).unwrap_or(0) as usize);
    }
    let lists = indexed.lists(given(&starts), given(&ends))?;
    let of_run = |run: &RunLists| (0..run.lists.len()).map(|range| run.count(&run.list(range))).sum::<usize>();
    Ok(lists.iter().map(of_run).sum())
}

/// Rows in the order of their values.
pub(crate) struct OrderedRows {
    rows: UInt64Array,
    /// Whether they are to be read from the last one to the first one.
    is_backwards: bool,
}

impl OrderedRows {
    /// So many from one on, as they are read.
    pub(crate) fn slice(&self, first: usize, count: usize) -> UInt64Array {
        match self.is_backwards {
            true => {
                let rows = self.rows.slice(self.rows.len() - first - count, count);
                UInt64Array::from_iter_values(rows.values().iter().rev().copied())
            }
            false => self.rows.slice(first, count),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Their numbers; in any order.
    pub(crate) fn numbers(&self) -> &[u64] {
        self.rows.values()
    }
}

/// The first and the last row that an index has, or that a filter on its first column leaves.
pub(crate) fn ends(indexed: &Indexed, filter: &ColumnFilter) -> Result<Option<UInt64Array>> {
    let end = |descending| {
        let rows = rows(indexed, core::slice::from_ref(filter), 1, descending)?;
        Ok::<_, DataFusionError>((rows.len() > 0).then(|| rows.slice(0, 1).value(0)))
    };
    Ok(end(false)?.zip(end(true)?).map(|(first, last)| UInt64Array::from(vec![first, last])))
}

/// The rows that filters on an index's first columns leave, in the order of their values or in the reverse one; the first `most` at least.
pub(crate) fn rows(indexed: &Indexed, filters: &[ColumnFilter], most: usize, descending: bool) -> Result<OrderedRows> {
    let bounds = bounds(indexed, filters)?;
    let Some((starts, ends)) = bounds else {
        return Ok(OrderedRows { rows: UInt64Array::from(Vec::<u64>::new()), is_backwards: false });
    };
    let Some(index) = indexed.sole() else {
        let rows = indexed.ordered(&indexed.lists(given(&starts), given(&ends))?, most, descending)?;
        return Ok(OrderedRows { rows: rows.into(), is_backwards: false });
    };
    let rows = index.range(given(&starts), given(&ends)).map_err(external)?;
    // Lists of neighbours: together they are a part of their values.
    let (first, last) = (rows.offsets()[0] as usize, rows.offsets()[rows.len()] as usize);
    let rows = rows.values().as_primitive::<UInt64Type>().slice(first, last - first);
    Ok(OrderedRows { rows, is_backwards: descending })
}

fn one(bound: &Bound<ScalarValue>) -> Result<Bound<ArrayRef>> {
    Ok(match bound {
        Bound::Included(value) => Bound::Included(value.to_array()?),
        Bound::Excluded(value) => Bound::Excluded(value.to_array()?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

fn given(bound: &Bound<ArrayRef>) -> Bound<&dyn Array> {
    bound.as_ref().map(|array| array as &dyn Array)
}

/// Whether a bound leaves out values that another one does not.
fn is_tighter(new: &Bound<ScalarValue>, old: &Bound<ScalarValue>, is_low: bool) -> bool {
    let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) = (new, old) else {
        return *old == Bound::Unbounded;
    };
    a == b && matches!(new, Bound::Excluded(_)) || if is_low { a > b } else { a < b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    fn wanted(filters: &[Expr]) -> ColumnFilter {
        let mut wanted = ColumnFilter::default();
        for filter in filters {
            wanted.restrict(Condition::of(filter, "k", &DataType::Int64).unwrap());
        }
        wanted
    }

    fn is_answered(filter: Expr) -> bool {
        Condition::of(&filter, "k", &DataType::Int64).is_some()
    }

    #[test]
    fn the_tighter_bound_is_kept() {
        let both = wanted(&[col("k").gt(lit(3_i64)), col("k").gt_eq(lit(3_i64)), lit(9_i64).gt(col("k"))]);
        assert_eq!(both.low, Bound::Excluded(ScalarValue::from(3_i64)));
        assert_eq!(both.high, Bound::Excluded(ScalarValue::from(9_i64)));
        let both = wanted(&[col("k").lt_eq(lit(3_i64)), col("k").lt(lit(3_i64)), col("k").lt_eq(lit(3_i64))]);
        assert_eq!(both.high, Bound::Excluded(ScalarValue::from(3_i64)));
        let both = wanted(&[col("k").between(lit(1_i64), lit(5_i64)), col("k").lt_eq(lit(7_i64))]);
        assert_eq!(both.high, Bound::Included(ScalarValue::from(5_i64)));
    }

    #[test]
    fn values_are_those_of_all_lists_within_the_range() {
        let list = |values: &[i64]| col("k").in_list(values.iter().map(|value| lit(*value)).collect(), false);
        let both = wanted(&[list(&[9, 1, 5, 5]), col("k").gt(lit(1_i64)), list(&[5, 9, 7, 1])]);
        let (starts, ends) = both.bounds().unwrap().unwrap();
        assert_eq!(starts, ends);
        let Bound::Included(starts) = starts else { panic!("values are included") };
        assert_eq!(starts.as_primitive::<datafusion::arrow::datatypes::Int64Type>().values(), &[5, 9]);
    }

    #[test]
    fn patterns_that_are_prefixes_are_ranges() {
        let prefix = |pattern| prefix_of(pattern);
        assert_eq!(prefix("ab%").as_deref(), Some("ab"));
        assert_eq!(prefix("%%").as_deref(), Some(""));
        assert_eq!(prefix(r"a\%\_\\%").as_deref(), Some(r"a%_\"));
        assert!(["ab", "a_%", "%a", "a%b%", r"a\%", r"a\b%", r"a%\"].into_iter().all(|other| prefix(other).is_none()));
        assert_eq!(next_prefix("ab").as_deref(), Some("ac"));
        assert_eq!(next_prefix("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(next_prefix("a\u{10ffff}\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(next_prefix("\u{10ffff}"), None);
        assert_eq!(next_prefix(""), None);

        let of = |filter: Expr, data_type| Condition::of(&filter, "k", &data_type);
        for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            let Some(Condition::Range(low, high)) = of(col("k").like(lit("ab%")), data_type.clone()) else {
                panic!("a range")
            };
            let value = |text: &str| ScalarValue::from(text).cast_to(&data_type).unwrap();
            assert_eq!((low, high), (Bound::Included(value("ab")), Bound::Excluded(value("ac"))));
        }
        assert!(of(col("k").like(lit("ab%")), DataType::Int64).is_none());
        assert!(of(col("k").ilike(lit("ab%")), DataType::Utf8).is_none());
        assert!(of(col("k").not_like(lit("ab%")), DataType::Utf8).is_none());
        let nothing = of(col("k").like(lit(ScalarValue::Utf8(None))), DataType::Utf8);
        assert!(matches!(nothing, Some(Condition::Values(values)) if values.is_empty()));
    }

    #[test]
    fn conditions_that_the_index_does_not_answer_are_left_to_the_engine() {
        assert!(is_answered(col("k").eq(lit(1_i64)).or(lit(2_i64).eq(col("k")))));
        assert!(!is_answered(col("k").eq(lit(1_i32))));
        assert!(!is_answered(col("j").eq(lit(1_i64))));
        assert!(!is_answered(col("k").eq(col("j"))));
        assert!(!is_answered(col("k").not_eq(lit(1_i64))));
        assert!(!is_answered(col("k").in_list(vec![lit(1_i64)], true)));
        assert!(!is_answered(col("k").not_between(lit(1_i64), lit(2_i64))));
        assert!(!is_answered(col("k").lt(lit(1_i64)).or(col("k").gt(lit(2_i64)))));
        assert!(!is_answered(col("k").lt(lit(1_i64)).or(col("j").gt(lit(2_i64)))));
    }
}
