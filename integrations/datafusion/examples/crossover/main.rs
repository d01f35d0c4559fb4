//! Measures from where on an index costs less than a hash join, a nested-loop join or a scan of the table, and prints the [`Costs`]:
//! `cargo run --release -p lanetree-datafusion --example crossover`, with `--features cuda` for a GPU. With `-- queries 1000000` it runs
//! typical queries over so many rows instead, with indexes and without.

mod queries;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::{Costs, IndexedTable, with_index_lookups_on};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Instant;

/// Sizes of tables, as powers of two.
const SIZES: [u32; 4] = [10, 14, 18, 22];
const PROBES: usize = 1 << 23;
const RUNS: usize = 5;
/// Rows of each value, where there are several.
const COPIES: usize = 1 << 8;

/// A batch of one column of keys, and one of numbers.
fn batch(keys: Vec<i64>) -> Result<RecordBatch> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..keys.len() as i64));
    let keys: ArrayRef = Arc::new(Int64Array::from(keys));
    // (Numbers of a column without nulls are counted without being read.)
    Ok(RecordBatch::try_from_iter_with_nullable([("k", keys, false), ("n", numbers, true)])?)
}

fn contains(plan: &Arc<dyn ExecutionPlan>, name: &str) -> bool {
    plan.name() == name || plan.children().into_iter().any(|child| contains(child, name))
}

/// Conditions by which each probe has one row. The second is not seen to be an equality.
const EQUAL: &str = "t.k = i.k";
const RANGE: &str = "i.k BETWEEN t.k AND t.k + t.n % 1";

/// The median of the nanoseconds that a join of so many probes with an indexed table of so many rows takes, of each value of which there
/// are `copies`.
async fn join(device: &Device, costs: Costs, on: &str, probes: usize, rows: usize, copies: usize) -> Result<f64> {
    let state = with_index_lookups_on(SessionStateBuilder::new().with_default_features(), device, costs).build();
    let session = SessionContext::new_with_state(state);
    let mut rng = StdRng::seed_from_u64(1);
    let mut keys: Vec<i64> = (0..rows).map(|row| (row / copies) as i64).collect();
    keys.shuffle(&mut rng);
    let table = batch(keys)?;
    let table = IndexedTable::new(device, table.schema(), &[table], "k")?;
    session.register_table("i", Arc::new(table))?;
    let keys = (0..probes).map(|_| rng.random_range(0..(rows / copies) as i64)).collect();
    session.register_batch("t", batch(keys)?)?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let query = session.sql(&format!("SELECT count(t.n), count(i.n) FROM t JOIN i ON {on}")).await?;
        let plan = query.create_physical_plan().await?;
        assert_eq!(contains(&plan, "IndexLookupExec"), costs == Costs::ALWAYS);
        let start = Instant::now();
        let found = collect(plan, session.task_ctx()).await?;
        times.push(start.elapsed().as_nanos() as f64);
        assert_eq!(found[0].column(0).as_ref(), &Int64Array::from(vec![(probes * copies) as i64]));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}

/// The median of the nanoseconds that reading one in 16 of so many rows takes.
async fn scan(device: &Device, costs: Costs, rows: usize) -> Result<f64> {
    let state = with_index_lookups_on(SessionStateBuilder::new().with_default_features(), device, costs).build();
    let session = SessionContext::new_with_state(state);
    let mut keys: Vec<i64> = (0..rows as i64).collect();
    keys.shuffle(&mut StdRng::seed_from_u64(1));
    let table = batch(keys)?;
    let table = IndexedTable::new(device, table.schema(), &[table], "k")?;
    session.register_table("i", Arc::new(table))?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let query = session.sql(&format!("SELECT sum(k), count(n) FROM i WHERE k < {}", rows / 16)).await?;
        let plan = query.create_physical_plan().await?;
        assert_eq!(contains(&plan, "FilterExec"), costs != Costs::ALWAYS);
        let start = Instant::now();
        collect(plan, session.task_ctx()).await?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("queries") {
        return queries::measure(arguments.next().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000)).await;
    }
    let device = Device::best();
    let never = Costs { batch: 1e15, ..Costs::ALWAYS };
    // One row against one: what a query takes by itself.
    let query = join(&device, never, EQUAL, 1, 1, 1).await?;
    let mut costs = Costs::ALWAYS;
    costs.batch = (join(&device, Costs::ALWAYS, EQUAL, 1, 1, 1).await? - query).max(0.0);
    for (at, size) in SIZES.into_iter().enumerate() {
        let rows = 1 << size;
        let look_ups = join(&device, Costs::ALWAYS, EQUAL, PROBES, rows, 1).await? - query;
        costs.look_up[at] = (look_ups / PROBES as f64 - costs.batch / (1 << 16) as f64).max(0.0);
        // Both build over the table: they differ by their probes.
        let (few, all) =
            (join(&device, never, EQUAL, rows, rows, 1).await?, join(&device, never, EQUAL, PROBES, rows, 1).await?);
        costs.hash[at] = ((all - few) / (PROBES - rows) as f64).max(0.0);
        let build = ((few - query) / rows as f64 - costs.hash[at]).max(0.0);
        println!(
            "2^{size} rows: {:.1} ns to look up; {build:.1} ns to build, {:.1} ns to probe",
            costs.look_up[at], costs.hash[at]
        );
        costs.build = if size == 18 { build } else { costs.build };
    }
    let pairs = join(&device, never, RANGE, 1 << 14, 1 << 14, 1).await? - query;
    costs.pair = (pairs / (1_u64 << 28) as f64).max(0.0);
    let more = ((1 << 14) * (COPIES - 1)) as f64;
    for (at, size) in SIZES.into_iter().enumerate() {
        let rows = 1 << size;
        let each = async |costs| -> Result<f64> {
            let one = join(&device, costs, EQUAL, 1 << 14, rows / COPIES, 1).await?;
            Ok(((join(&device, costs, EQUAL, 1 << 14, rows, COPIES).await? - one) / more).max(0.0))
        };
        costs.row[at] = each(Costs::ALWAYS).await?;
        costs.hash_row = if size == 18 { each(never).await? } else { costs.hash_row };
        println!("2^{size} rows: {:.1} ns for one more row of a probe", costs.row[at]);
    }
    let rows = 1 << SIZES[3];
    costs.scan = scan(&device, Costs { read: 1e15, ..Costs::ALWAYS }, rows).await? / rows as f64;
    costs.read = scan(&device, Costs::ALWAYS, rows).await? / (rows / 16) as f64;
    println!("{costs:#?} on {device}");
    Ok(())
}
