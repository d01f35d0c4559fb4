//! From SQL's conditions on indexed columns to what they ask of them.

use crate::ranges::ColumnFilter;
use core::ops::Bound;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator};

impl ColumnFilter {
    /// Of which values of a column, null among them, a condition is true; `None` if an index does not say that.
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
            Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::Or | Operator::And), .. }) => {
                let mut parts = split_binary(filter, *op).into_iter().map(|part| Self::of(part, column, data_type));
                let first = parts.next()??;
                parts.try_fold(first, |all, part| {
                    Some(if *op == Operator::Or { all.or(part?) } else { all.and(&part?) })
                })
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_column(left) => Self::comparison(*op, value(right)?),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_column(right) => {
                Self::comparison(op.swap()?, value(left)?)
            }
            Expr::InList(list) if is_column(&list.expr) => {
                let values: Vec<_> = list.list.iter().map(value).collect::<Option<_>>()?;
                let has_null = values.iter().any(ScalarValue::is_null);
                let listed = Self::of_values(values.into_iter().filter(|value| !value.is_null()));
                match list.negated {
                    false => Some(listed),
                    // Nothing is known to differ from null.
                    true if has_null => Some(Self::nothing()),
                    // (Null is not in an empty list.)
                    true => (!list.list.is_empty()).then(|| listed.other_values()),
                }
            }
            Expr::IsNotNull(expr) if is_column(expr) => Some(Self::new(Self::default().ranges().to_vec(), false)),
            Expr::IsNull(expr) if is_column(expr) => Some(Self::new([], true)),
            Expr::Between(between) if is_column(&between.expr) => {
                let (low, high) = (value(&between.low)?, value(&between.high)?);
                Some(match between.negated {
                    false => Self::comparison(Operator::GtEq, low)?.and(&Self::comparison(Operator::LtEq, high)?),
                    true => Self::comparison(Operator::Lt, low)?.or(Self::comparison(Operator::Gt, high)?),
                })
            }
            Expr::Like(Like { negated: false, expr, pattern, escape_char: None, case_insensitive: false })
                if is_column(expr) =>
            {
                let Expr::Literal(pattern, _) = &**pattern else { return None };
                let prefix = pattern.try_as_str()?.map(prefix_of);
                prefix.map_or(Some(Self::nothing()), |prefix| Self::prefix(&prefix?, data_type))
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
        Some(Self::new([(Bound::Included(of_type(prefix)?), next?)], false))
    }

    fn comparison(op: Operator, value: ScalarValue) -> Option<Self> {
        let is_null = value.is_null();
        let range = match op {
            Operator::IsNotDistinctFrom if is_null => return Some(Self::new([], true)),
            Operator::Eq | Operator::IsNotDistinctFrom | Operator::NotEq => {
                (Bound::Included(value.clone()), Bound::Included(value))
            }
            Operator::Lt => (Bound::Unbounded, Bound::Excluded(value)),
            Operator::LtEq => (Bound::Unbounded, Bound::Included(value)),
            Operator::Gt => (Bound::Excluded(value), Bound::Unbounded),
            Operator::GtEq => (Bound::Included(value), Bound::Unbounded),
            _ => return None,
        };
        // A comparison with null is true of no row.
        if is_null {
            return Some(Self::nothing());
        }
        let compared = Self::new([range], false);
        Some(if op == Operator::NotEq { compared.other_values() } else { compared })
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

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    fn is_answered(filter: Expr) -> bool {
        ColumnFilter::of(&filter, "k", &DataType::Int64).is_some()
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

        let of = |filter: Expr, data_type| ColumnFilter::of(&filter, "k", &data_type);
        for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            let found = of(col("k").like(lit("ab%")), data_type.clone()).unwrap();
            let value = |text: &str| ScalarValue::from(text).cast_to(&data_type).unwrap();
            assert_eq!(found.ranges(), [(Bound::Included(value("ab")), Bound::Excluded(value("ac")))]);
        }
        assert!(of(col("k").like(lit("ab%")), DataType::Int64).is_none());
        assert!(of(col("k").ilike(lit("ab%")), DataType::Utf8).is_none());
        assert!(of(col("k").not_like(lit("ab%")), DataType::Utf8).is_none());
        let nothing = of(col("k").like(lit(ScalarValue::Utf8(None))), DataType::Utf8);
        assert_eq!(nothing, Some(ColumnFilter::nothing()));
    }

    #[test]
    fn conditions_that_the_index_does_not_answer_are_left_to_the_engine() {
        assert!(is_answered(col("k").eq(lit(1_i64)).or(lit(2_i64).eq(col("k")))));
        assert!(is_answered(col("k").lt(lit(1_i64)).or(col("k").gt(lit(2_i64)).and(col("k").not_eq(lit(5_i64))))));
        assert!(is_answered(col("k").in_list(vec![lit(1_i64)], true).or(col("k").is_null())));
        assert!(!is_answered(col("k").in_list(vec![], true)));
        assert!(!is_answered(col("k").eq(lit(1_i32))));
        assert!(!is_answered(col("j").eq(lit(1_i64))));
        assert!(!is_answered(col("k").eq(col("j"))));
        assert!(!is_answered(col("k").lt(lit(1_i64)).or(col("j").gt(lit(2_i64)))));
        assert!(!is_answered(col("k").lt(lit(1_i64)).or(col("k").lt(col("j")))));
    }
}
