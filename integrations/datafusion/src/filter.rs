//! From SQL's conditions on the indexed column to ranges of its values.

use crate::contents::{Indexed, external};
use core::cmp::Ordering;
use core::ops::{Bound, RangeBounds};
use datafusion::arrow::array::{Array, ArrayRef, UInt64Array, cast::AsArray};
use datafusion::arrow::compute::sum;
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// What one filter asks of the column. Values are of the index's type and not null.
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
            Expr::Between(between) if is_column(&between.expr) && !between.negated => {
                let (low, high) = (value(&between.low)?, value(&between.high)?);
                match low.is_null() || high.is_null() {
                    true => Some(NOTHING),
                    false => Some(Self::Range(Bound::Included(low), Bound::Included(high))),
                }
            }
            _ => None,
        }
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

/// What all filters ask of the column together: a range, and a list of values unless any will do.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) low: Bound<ScalarValue>,
    pub(crate) high: Bound<ScalarValue>,
    pub(crate) values: Option<Vec<ScalarValue>>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { low: Bound::Unbounded, high: Bound::Unbounded, values: None }
    }
}

impl Wanted {
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

    /// The bounds of ranges that are disjoint, in ascending order; `None` if no value is wanted.
    fn bounds(&self) -> Result<Option<(Bound<ArrayRef>, Bound<ArrayRef>)>> {
        let Some(values) = &self.values else {
            return Ok(Some((one(&self.low)?, one(&self.high)?)));
        };
        let range = (self.low.as_ref(), self.high.as_ref());
        let mut values: Vec<_> = values.iter().filter(|value| range.contains(*value)).cloned().collect();
        // They are of one type, which has an order.
        values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        values.dedup();
        if values.is_empty() {
            return Ok(None);
        }
        let values = ScalarValue::iter_to_array(values)?;
        Ok(Some((Bound::Included(values.clone()), Bound::Included(values))))
    }

    /// How many rows there are.
    pub(crate) fn count(&self, indexed: &Indexed) -> Result<usize> {
        let Some((starts, ends)) = self.bounds()? else { return Ok(0) };
        let counts = indexed.index().count_range(given(&starts), given(&ends)).map_err(external)?;
        Ok(sum(&counts).unwrap_or(0) as usize)
    }

    /// Their numbers, in the order of their values.
    pub(crate) fn rows(&self, indexed: &Indexed) -> Result<UInt64Array> {
        let Some((starts, ends)) = self.bounds()? else { return Ok(UInt64Array::from(Vec::<u64>::new())) };
        let rows = indexed.index().range(given(&starts), given(&ends)).map_err(external)?;
        // Lists of neighbours: together they are a part of their values.
        let (first, last) = (rows.offsets()[0] as usize, rows.offsets()[rows.len()] as usize);
        Ok(rows.values().as_primitive::<UInt64Type>().slice(first, last - first))
    }
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

    fn wanted(filters: &[Expr]) -> Wanted {
        let mut wanted = Wanted::default();
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
