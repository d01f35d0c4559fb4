//! How long statements of one row take on a table with three indexes, and what building the indexes again takes.
//!
//! ```console
//! $ cargo run --release -p lanetree-datafusion --example small_changes -- 1000000
//! ```

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::{IndexedTable, with_index_lookups};
use std::sync::Arc;
use std::time::Instant;

/// Statements of each kind.
const COUNT: i64 = 200;

/// A name, and the statement of a number.
type Kind = (&'static str, fn(i64) -> String);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let rows: i64 = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    let column = |value: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..rows).map(value))) as _;
    let batch = RecordBatch::try_from_iter([
        ("id", column(|row| row.wrapping_mul(0x9e37_79b9) & 0xffff_ffff)),
        ("customer", column(|row| row * 7919 % 50_021)),
        ("placed", column(|row| row)),
    ])?;
    let plain = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]])?;
    let table = IndexedTable::new(&Device::best(), batch.schema(), &[batch], "id")?;
    table.add_index(&Device::best(), "customer")?;
    table.add_index_on(&Device::best(), &["customer", "placed"])?;
    let state = with_index_lookups(SessionStateBuilder::new().with_default_features()).build();
    let session = SessionContext::new_with_state(state);
    session.register_table("t", Arc::new(table.clone()))?;
    session.register_table("p", Arc::new(plain))?;

    let kinds: [Kind; 5] = [
        ("insert without an index", |at| format!("INSERT INTO p VALUES ({}, {at}, {})", -at - 1, 2_000_000 + at)),
        ("insert", |at| format!("INSERT INTO t VALUES ({}, {at}, {})", -at - 1, 2_000_000 + at)),
        ("look up", |at| format!("SELECT placed FROM t WHERE id = {}", -at - 1)),
        ("update", |at| format!("UPDATE t SET placed = placed + 1 WHERE id = {}", -at - 1)),
        ("delete", |at| format!("DELETE FROM t WHERE id = {}", -at - 1)),
    ];
    for (name, statement) in kinds {
        let mut times = Vec::new();
        for at in 0..COUNT {
            let statement = statement(at);
            let start = Instant::now();
            session.sql(&statement).await?.collect().await?;
            times.push(start.elapsed());
        }
        times.sort();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{name}: median {median:.1?}, longest {most:.1?}");
    }
    session.sql("INSERT INTO t VALUES (-1, 0, 0)").await?.collect().await?;
    let start = Instant::now();
    table.index("id")?;
    println!("all indexes again: {:.1?}", start.elapsed());
    Ok(())
}
