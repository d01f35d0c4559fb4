//! What conditions ask of a column: ranges of its values, and nulls.

use core::cmp::Ordering;
use core::ops::Bound;
use datafusion::common::ScalarValue;

/// Where a range of values begins and where it ends.
pub type ValueRange = (Bound<ScalarValue>, Bound<ScalarValue>);

/// What filters ask of a column together. Values are of the column's type, of a dictionary that of its values, and not null.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnFilter {
    /// Disjoint, in ascending order; none is empty.
    ranges: Vec<ValueRange>,
    nulls: bool,
}

/// Any value, and null.
impl Default for ColumnFilter {
    fn default() -> Self {
        Self { ranges: vec![(Bound::Unbounded, Bound::Unbounded)], nulls: true }
    }
}

impl ColumnFilter {
    /// Values of some ranges, in any order, and nulls or not.
    pub fn new(ranges: impl IntoIterator<Item = ValueRange>, nulls: bool) -> Self {
        let mut given: Vec<_> = ranges.into_iter().filter(|(low, high)| !is_empty(low, high)).collect();
        given.sort_by(|a, b| starts(&a.0, &b.0));
        let mut ranges: Vec<ValueRange> = Vec::with_capacity(given.len());
        for (low, high) in given {
            match ranges.last_mut() {
                Some((_, last)) if touches(last, &low) => {
                    if ends(&high, last).is_gt() {
                        *last = high;
                    }
                }
                _ => ranges.push((low, high)),
            }
        }
        Self { ranges, nulls }
    }

    /// Some values.
    pub(crate) fn of_values(values: impl IntoIterator<Item = ScalarValue>) -> Self {
        Self::new(values.into_iter().map(|value| (Bound::Included(value.clone()), Bound::Included(value))), false)
    }

    /// No row.
    pub(crate) fn nothing() -> Self {
        Self { ranges: Vec::new(), nulls: false }
    }

    /// The ranges, which are disjoint and not empty, in ascending order.
    pub fn ranges(&self) -> &[ValueRange] {
        &self.ranges
    }

    /// Whether rows are wanted whose column is null.
    pub fn nulls(&self) -> bool {
        self.nulls
    }

    /// What either of them asks for.
    pub(crate) fn or(self, other: Self) -> Self {
        Self::new(self.ranges.into_iter().chain(other.ranges), self.nulls || other.nulls)
    }

    /// What both of them ask for.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let (mut own, mut others) = (&self.ranges[..], &other.ranges[..]);
        let mut ranges = Vec::new();
        while let ([(low, high), ..], [(other_low, other_high), ..]) = (own, others) {
            let low = if starts(low, other_low).is_lt() { other_low } else { low };
            let is_first = ends(high, other_high).is_lt();
            let end = if is_first { high } else { other_high };
            if !is_empty(low, end) {
                ranges.push((low.clone(), end.clone()));
            }
            if is_first { own = &own[1..] } else { others = &others[1..] }
        }
        Self { ranges, nulls: self.nulls && other.nulls }
    }

    /// All values that it does not ask for; nulls are not wanted.
    pub(crate) fn other_values(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut low = Bound::Unbounded;
        for (start, end) in &self.ranges {
            if let Some(high) = turned(start) {
                ranges.push((low, high));
            }
            let Some(next) = turned(end) else { return Self::new(ranges, false) };
            low = next;
        }
        ranges.push((low, Bound::Unbounded));
        Self::new(ranges, false)
    }

    /// The number of values that it asks for, null among them; `None` if it is that of a range.
    pub(crate) fn points(&self) -> Option<usize> {
        let is_list = self.ranges.iter().all(|(low, high)| matches!(low, Bound::Included(_)) && low == high);
        is_list.then_some(self.ranges.len() + usize::from(self.nulls))
    }

    /// Whether all rows have one value, or null.
    pub(crate) fn is_constant(&self) -> bool {
        self.points().is_some_and(|points| points < 2)
    }
}

/// The bound of what is on the other side of one; `None` if nothing is.
fn turned(bound: &Bound<ScalarValue>) -> Option<Bound<ScalarValue>> {
    match bound {
        Bound::Included(value) => Some(Bound::Excluded(value.clone())),
        Bound::Excluded(value) => Some(Bound::Included(value.clone())),
        Bound::Unbounded => None,
    }
}

/// Values of one type, which has an order.
fn order(a: &ScalarValue, b: &ScalarValue) -> Ordering {
    a.partial_cmp(b).unwrap_or(Ordering::Equal)
}

/// Which of two ranges begins first.
fn starts(a: &Bound<ScalarValue>, b: &Bound<ScalarValue>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let is_past = |bound: &Bound<ScalarValue>| matches!(bound, Bound::Excluded(_));
            order(x, y).then(is_past(a).cmp(&is_past(b)))
        }
    }
}

/// Which of two ranges ends first.
fn ends(a: &Bound<ScalarValue>, b: &Bound<ScalarValue>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Greater,
        (_, Bound::Unbounded) => Ordering::Less,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let has_value = |bound: &Bound<ScalarValue>| matches!(bound, Bound::Included(_));
            order(x, y).then(has_value(a).cmp(&has_value(b)))
        }
    }
}

fn is_empty(low: &Bound<ScalarValue>, high: &Bound<ScalarValue>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => order(low, high).is_gt(),
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            order(low, high).is_ge()
        }
        _ => false,
    }
}

/// Whether no value is between a range and one that does not begin before it.
fn touches(end: &Bound<ScalarValue>, start: &Bound<ScalarValue>) -> bool {
    match (end, start) {
        (Bound::Excluded(end), Bound::Excluded(start)) => order(start, end).is_lt(),
        (Bound::Included(end) | Bound::Excluded(end), Bound::Included(start) | Bound::Excluded(start)) => {
            order(start, end).is_le()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::RangeBounds;

    fn bound(number: u32) -> Bound<ScalarValue> {
        let value = ScalarValue::from(i64::from(number / 3));
        match number % 3 {
            0 => Bound::Included(value),
            1 => Bound::Excluded(value),
            _ => Bound::Unbounded,
        }
    }

    /// Whether each of some values is asked for.
    fn chosen(filter: &ColumnFilter) -> Vec<bool> {
        let has = |value: i64| {
            let value = ScalarValue::from(value);
            let of = |(low, high): &&ValueRange| (low.as_ref(), high.as_ref()).contains(&value);
            let count = filter.ranges().iter().filter(of).count();
            assert!(count < 2, "{value} is in {count} of {filter:?}");
            count == 1
        };
        (-1..8).map(has).chain([filter.nulls()]).collect()
    }

    #[test]
    fn sets_of_ranges_are_those_of_their_values() {
        let mut state = 7_u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12345);
            (state >> 16) % below
        };
        let mut random = || {
            let ranges: Vec<_> = (0..next(4)).map(|_| (bound(next(21)), bound(next(21)))).collect();
            ColumnFilter::new(ranges, next(2) == 1)
        };
        for _ in 0..3000 {
            let (a, b) = (random(), random());
            let both = |f: fn(bool, bool) -> bool| -> Vec<bool> {
                chosen(&a).into_iter().zip(chosen(&b)).map(|(a, b)| f(a, b)).collect()
            };
            assert_eq!(chosen(&a.and(&b)), both(|a, b| a && b), "{a:?} AND {b:?}");
            assert_eq!(chosen(&a.clone().or(b.clone())), both(|a, b| a || b), "{a:?} OR {b:?}");
            let mut others: Vec<bool> = chosen(&a).into_iter().map(|is_chosen| !is_chosen).collect();
            *others.last_mut().unwrap() = false;
            assert_eq!(chosen(&a.other_values()), others, "{a:?}");
            // Neighbours are one range.
            let merged = a.clone().or(b);
            let is_apart = |pair: &[ValueRange]| !touches(&pair[0].1, &pair[1].0);
            assert!(merged.ranges().windows(2).all(is_apart), "{merged:?}");
        }
    }
}
