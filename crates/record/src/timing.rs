//! Times of a row's runs.

use serde::Serialize;

/// Milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// The middle one, or the mean of the two in the middle.
    pub median_ms: f64,
    /// The shortest.
    pub min_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// In the order of the runs, without the first one, which is not counted; empty where they are many thousands.
    pub runs_ms: Vec<f64>,
}

impl Timing {
    /// Of at least one run.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(runs_ms: Vec<f64>) -> Self {
        let mut sorted = runs_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median_ms =
            if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] };
        Self { median_ms, min_ms: sorted[0], max_ms: sorted[sorted.len() - 1], runs_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(Timing::of(vec![3.0, 1.0, 2.0]).median_ms, 2.0);
        let timing = Timing::of(vec![4.0, 1.0]);
        assert_eq!((timing.median_ms, timing.min_ms, timing.max_ms), (2.5, 1.0, 4.0));
        assert_eq!(timing.runs_ms, [4.0, 1.0]);
    }
}
