//! Typical queries with indexes and without.

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use lanetree_datafusion::with_index_lookups;
use std::sync::Arc;
use std::time::Instant;

const RUNS: usize = 5;
const CUSTOMERS: i64 = 50_021;

/// Over `o`, orders; `c`, customers; `few`, 300 rows; and `h`, whose rows have one key. `$N` is the number of orders.
const QUERIES: [&str; 32] = [
    "SELECT * FROM o WHERE id = $N / 3",
    "SELECT * FROM o WHERE id IN (5, 77, 999, 1234, 5678, 9999, 12345, 34567, 56789, 99999)",
    "SELECT count(*), sum(amount) FROM o WHERE id = 5 OR id BETWEEN 100 AND 200 OR id > $N - 50",
    "SELECT sum(amount) FROM o WHERE id BETWEEN 1000 AND 1000 + $N / 1000",
    "SELECT sum(amount) FROM o WHERE id < $N / 100",
    "SELECT sum(amount), max(placed) FROM o WHERE id < $N / 20",
    "SELECT sum(amount), max(placed) FROM o WHERE id < $N / 10",
    "SELECT sum(amount) FROM o WHERE id < $N / 2",
    "SELECT sum(amount) FROM o WHERE id > 10",
    "SELECT count(*) FROM o WHERE id BETWEEN $N / 4 AND $N / 2",
    "SELECT min(id), max(id), count(id) FROM o",
    "SELECT count(DISTINCT customer), count(*) FROM (SELECT DISTINCT customer FROM o) AS d",
    "SELECT DISTINCT status FROM o",
    "SELECT * FROM o ORDER BY id LIMIT 10",
    "SELECT id, amount FROM o WHERE id < $N / 2 ORDER BY id DESC LIMIT 10",
    "SELECT id FROM o WHERE id > $N / 10 AND amount % 7 = 3 ORDER BY amount, id LIMIT 5",
    "SELECT * FROM o WHERE customer = 77",
    "SELECT sum(amount) FROM o WHERE customer IN (7, 77, 777) AND placed > $N / 2",
    "SELECT count(*), sum(amount) FROM o WHERE status = 's1'",
    "SELECT count(*), sum(amount) FROM o WHERE note LIKE 'note 123%'",
    "SELECT count(*), sum(amount) FROM o WHERE agent IS NULL",
    "SELECT sum(o.amount) FROM few JOIN o ON few.k = o.id",
    "SELECT count(*), sum(o.amount) FROM few JOIN o ON few.k = o.customer",
    "SELECT few.v, o.amount FROM few LEFT JOIN o ON few.k = o.customer AND o.amount > few.v * 300",
    "SELECT v FROM few WHERE NOT EXISTS (SELECT 1 FROM o WHERE few.k = o.customer AND o.placed > few.v * $N / 300)",
    "SELECT count(*), sum(amount) FROM o WHERE customer IN (SELECT k FROM few)",
    "SELECT region, sum(amount) FROM c JOIN o ON c.id = o.customer WHERE region = 3 GROUP BY region",
    "SELECT region, sum(amount) FROM o JOIN c ON o.customer = c.id GROUP BY region",
    "SELECT count(*), sum(h.v) FROM (SELECT * FROM few WHERE v < 10) AS f JOIN h ON f.v / 1000 = h.k",
    "SELECT count(*), sum(o.amount) FROM few JOIN o ON o.id BETWEEN few.k AND few.k + 3",
    // 300 pairs for each row of `h`.
    "SELECT count(*) FROM few JOIN h ON few.v / 1000 = h.k",
    "SELECT count(*), sum(h.v) FROM few JOIN h ON few.v / 1000 = h.k",
];

/// Registers a table in both sessions, with as many partitions as these would make.
fn register(sessions: &[SessionContext; 2], name: &str, batch: &RecordBatch) -> Result<()> {
    let parts = sessions[0].copied_config().target_partitions();
    let size = batch.num_rows().div_ceil(parts).max(1);
    let part = |at: usize| {
        batch.slice((at * size).min(batch.num_rows()), size.min(batch.num_rows().saturating_sub(at * size)))
    };
    let pieces = |part: RecordBatch| -> Vec<_> {
        let rows = part.num_rows();
        (0..rows).step_by(8192).map(|at| part.slice(at, 8192.min(rows - at))).collect()
    };
    for session in sessions {
        let table = MemTable::try_new(batch.schema(), (0..parts).map(part).map(pieces).collect())?;
        session.register_table(name, Arc::new(table))?;
    }
    Ok(())
}

fn tables(sessions: &[SessionContext; 2], rows: i64) -> Result<()> {
    let numbers =
        |count: i64, value: &dyn Fn(i64) -> i64| Arc::new((0..count).map(value).collect::<Int64Array>()) as ArrayRef;
    let texts =
        |value: &dyn Fn(i64) -> String| Arc::new(StringArray::from_iter_values((0..rows).map(value))) as ArrayRef;
    let agents: Int64Array = (0..rows).map(|row| (row % 97 != 5).then_some(row % 1013)).collect();
    let orders = RecordBatch::try_from_iter([
        // (Of a power of ten, each smaller number once.)
        ("id", numbers(rows, &|row| row * 7_368_787 % rows)),
        ("customer", numbers(rows, &|row| row * 7919 % CUSTOMERS)),
        ("placed", numbers(rows, &|row| row)),
        ("amount", numbers(rows, &|row| row * 31 % 99_991)),
        ("agent", Arc::new(agents)),
        ("status", texts(&|row| format!("s{}", row * 13 % 5))),
        ("note", texts(&|row| format!("note {}", row * 17 % rows))),
    ])?;
    register(sessions, "o", &orders)?;
    let customers = [("id", numbers(CUSTOMERS, &|row| row)), ("region", numbers(CUSTOMERS, &|row| row * 7 % 100))];
    register(sessions, "c", &RecordBatch::try_from_iter(customers)?)?;
    let few = [("k", numbers(300, &|row| row * 331 % 60_000)), ("v", numbers(300, &|row| row))];
    register(sessions, "few", &RecordBatch::try_from_iter(few)?)?;
    register(
        sessions,
        "h",
        &RecordBatch::try_from_iter([("k", numbers(rows, &|_| 0)), ("v", numbers(rows, &|row| row))])?,
    )
}

/// The rows of a query, its plan, and how many milliseconds it took, planning included.
async fn run(session: &SessionContext, sql: &str) -> Result<(Vec<String>, String, f64)> {
    let start = Instant::now();
    let plan = session.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(plan.clone(), session.task_ctx()).await?;
    let time = start.elapsed().as_secs_f64() * 1e3;
    let mut lines: Vec<_> = pretty_format_batches(&batches)?.to_string().lines().map(str::to_owned).collect();
    lines.sort();
    Ok((lines, displayable(&*plan).indent(false).to_string(), time))
}

/// Runs each query with indexes and without, and prints the medians of their milliseconds.
pub(crate) async fn measure(rows: i64) -> Result<()> {
    let state = || SessionStateBuilder::new().with_default_features();
    let sessions = [with_index_lookups(state()), state()].map(|state| SessionContext::new_with_state(state.build()));
    tables(&sessions, rows)?;
    for on in ["o (id)", "o (customer, placed)", "o (status)", "o (note)", "o (agent)", "c (id)", "h (k)"] {
        sessions[0].sql(&format!("CREATE INDEX ON {on}")).await?.collect().await?;
    }
    println!("  with  without  ratio  index  query");
    let (mut most, mut slower) = (0.0_f64, Vec::new());
    for query in QUERIES {
        let sql = query.replace("$N", &rows.to_string());
        let (mut times, mut plans) = ([Vec::new(), Vec::new()], [String::new(), String::new()]);
        for _ in 0..RUNS {
            let (found, plan, with) = run(&sessions[0], &sql).await?;
            let (expected, plan_without, without) = run(&sessions[1], &sql).await?;
            assert_eq!(found, expected, "{sql}");
            times[0].push(with);
            times[1].push(without);
            plans = [plan, plan_without];
        }
        let [with, without] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[RUNS / 2]
        });
        let is_used = ["index=", "IndexLookupExec", "PlaceholderRowExec"].iter().any(|what| plans[0].contains(what));
        most = most.max(with / without);
        if with > 1.1 * without {
            slower.push(plans.join("\n"));
        }
        println!("{with:6.1} {without:8.1} {:6.2}  {:5}  {sql}", with / without, if is_used { "yes" } else { "no" });
    }
    println!("the largest ratio: {most:.2}");
    slower.iter().for_each(|plans| println!("slower with an index:\n{plans}"));
    Ok(())
}
