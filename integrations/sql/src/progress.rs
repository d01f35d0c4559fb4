//! How far something is, on a line of the terminal that goes when it is done.

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, collect};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What takes no longer has no line.
const SHORT: Duration = Duration::from_millis(500);
/// Between two drawings.
const PERIOD: Duration = Duration::from_millis(100);

/// A line on the standard error, if that is a terminal.
pub(crate) struct Line {
    is_wanted: bool,
    started: Instant,
    drawn: Option<Instant>,
}

impl Line {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_wanted: !is_quiet && io::stderr().is_terminal(), started: Instant::now(), drawn: None }
    }

    /// Draws it: `done` of `total` rows, if they are known.
    pub(crate) fn draw(&mut self, what: &str, rows: Option<(usize, usize)>) {
        let elapsed = self.started.elapsed();
        if self.is_wanted && elapsed >= SHORT && self.drawn.is_none_or(|drawn| drawn.elapsed() >= PERIOD) {
            self.drawn = Some(Instant::now());
            // (Who closed the terminal does not read it.)
            let _ = write!(io::stderr(), "\r\x1b[K{}", text(what, rows, elapsed));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn text(what: &str, rows: Option<(usize, usize)>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    match rows {
        Some((done, total)) if total > 0 => {
            let part = done.min(total) as f64 / total as f64;
            let full = (part * 20.0) as usize;
            format!("[{}{}] {:3.0} % {what}, {seconds:.1} s", "#".repeat(full), ".".repeat(20 - full), part * 100.0)
        }
        _ => format!("{what}, {seconds:.1} s"),
    }
}

/// The rows of a plan, and meanwhile how many of those that it reads it has read.
pub(crate) async fn rows(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    mut line: Line,
) -> Result<Vec<RecordBatch>> {
    let total = to_read(&plan);
    let all = collect(plan.clone(), context);
    let mut all = std::pin::pin!(all);
    loop {
        match tokio::time::timeout(PERIOD, &mut all).await {
            Ok(rows) => return rows,
            Err(_) => line.draw("of the rows read", total.map(|total| (read(&plan), total))),
        }
    }
}

/// How many rows the leaves of a plan have, if all of them know that and say how many were read.
fn to_read(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if !plan.children().is_empty() {
        return plan.children().into_iter().map(to_read).sum();
    }
    plan.metrics()?;
    let statistics = StatisticsContext::new().compute(&**plan, &StatisticsArgs::new()).ok()?;
    statistics.num_rows.get_value().copied()
}

/// How many rows they have read.
fn read(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if plan.children().is_empty() {
        return plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0);
    }
    plan.children().into_iter().map(read).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Array, Int64Array};
    use datafusion::datasource::MemTable;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;
    use lanetree_datafusion::with_index_lookups;

    #[test]
    fn a_line_has_a_bar_if_the_rows_are_known() {
        let elapsed = Duration::from_millis(1234);
        assert_eq!(text("of x read", Some((1, 4)), elapsed), "[#####...............]  25 % of x read, 1.2 s");
        assert_eq!(text("of x read", Some((9, 4)), elapsed), "[####################] 100 % of x read, 1.2 s");
        assert_eq!(text("of x read", Some((0, 0)), elapsed), "of x read, 1.2 s");
        assert_eq!(text("of x read", None, elapsed), "of x read, 1.2 s");
    }

    #[tokio::test]
    async fn rows_are_counted_where_they_are_read() {
        let state = with_index_lookups(SessionStateBuilder::new().with_default_features()).build();
        let context = SessionContext::new_with_state(state);
        let rows_of = |count: i64| {
            let column: Arc<dyn Array> = Arc::new(Int64Array::from_iter_values(0..count));
            RecordBatch::try_from_iter([("k", column)]).unwrap()
        };
        for (name, count) in [("a", 100), ("b", 30)] {
            let table = MemTable::try_new(rows_of(1).schema(), vec![vec![rows_of(count)]]).unwrap();
            context.register_table(name, Arc::new(table)).unwrap();
            context.sql(&format!("CREATE INDEX ON {name} (k)")).await.unwrap().collect().await.unwrap();
        }
        let sql = "SELECT a.k FROM a WHERE k < 5 UNION ALL SELECT k FROM b";
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        assert_eq!((to_read(&plan), read(&plan)), (Some(35), 0));
        let batches = rows(plan.clone(), context.task_ctx(), Line::new(true)).await.unwrap();
        assert_eq!((batches.iter().map(RecordBatch::num_rows).sum::<usize>(), read(&plan)), (35, 35));
    }
}
