//! `DISTINCT` and counts of distinct values from an index.

use crate::{Sessions, keys, plan, rows, table, types};
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::{Costs, with_index_lookups_on};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Queries that read a row of each distinct value, or fewer.
const DISTINCT: [&str; 6] = [
    "SELECT DISTINCT k FROM j",
    "SELECT DISTINCT k FROM j WHERE k > v(9)",
    "SELECT k FROM j WHERE k < v(9) OR k IS NULL OR k BETWEEN v(20) AND v(25) GROUP BY k",
    "SELECT DISTINCT k FROM j ORDER BY k DESC LIMIT 7",
    "SELECT DISTINCT k AS other FROM j ORDER BY other NULLS FIRST LIMIT 7",
    "SELECT x.k, y.a FROM (SELECT DISTINCT k FROM j) AS x JOIN j AS y ON x.k = y.k",
];

/// Counts that read no row of a table in one part.
const COUNTS: [&str; 6] = [
    "SELECT count(DISTINCT k) FROM j",
    "SELECT count(DISTINCT k) FROM j WHERE k > v(9)",
    "SELECT count(DISTINCT k) FROM j WHERE k < v(9) OR k IS NULL OR k > v(31)",
    "SELECT count(DISTINCT k), count(k) FROM j",
    "SELECT count(*) FROM (SELECT DISTINCT k FROM j)",
    "SELECT count(*), max(k) FROM (SELECT DISTINCT k FROM j WHERE k <= v(30))",
];

/// Queries that an index on `k` does not answer.
const OTHERS: [&str; 6] = [
    "SELECT DISTINCT s FROM j WHERE k > v(9)",
    "SELECT DISTINCT k, s FROM j",
    "SELECT DISTINCT k FROM j WHERE a > 30",
    "SELECT k, count(*) FROM j GROUP BY k",
    "SELECT count(DISTINCT k) FROM j WHERE a > 30",
    "SELECT count(*) FROM (SELECT DISTINCT k FROM (SELECT k FROM j ORDER BY a LIMIT 20))",
];

#[tokio::test]
async fn distinct_values_are_those_of_the_engine_alone() {
    for (seed, data_type) in types().iter().enumerate() {
        let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(300 + seed as u64));
        sessions.indexed_table("j", table(&keys(&mut rng, 200, 40, 0.1), data_type, true));
        let constants = |sql: &&str| crate::constants(sql, data_type);
        let is_plain = !matches!(data_type, DataType::Dictionary(..));
        let step = if *data_type == DataType::Int64 { 1 } else { 3 };
        for sql in DISTINCT.iter().step_by(step).map(constants) {
            let plan = sessions.check(&sql).await;
            assert!(plan.contains(", distinct, rows="), "{sql}\n{plan}");
        }
        for sql in COUNTS.iter().step_by(step).map(constants) {
            let plan = sessions.check(&sql).await;
            assert!(plan.contains("PlaceholderRowExec") || !is_plain, "{sql}\n{plan}");
        }
        for sql in OTHERS.iter().step_by(step).map(constants) {
            let plan = sessions.check(&sql).await;
            assert!(!plan.contains("distinct, rows="), "{sql}\n{plan}");
        }
        // Of several parts, with a value that has no row any more and one that has rows in two parts.
        for change in ["INSERT INTO j SELECT a + 500, k, 'x' FROM j WHERE a < 5", "DELETE FROM j WHERE a IN (7, 8, 9)"]
        {
            for session in [&sessions.lookups, &sessions.plain] {
                rows(session, change).await.unwrap();
            }
        }
        for sql in DISTINCT.iter().step_by(step).map(constants) {
            let plan = sessions.check(&sql).await;
            assert!(plan.contains(", distinct, rows="), "{sql}\n{plan}");
        }
        for sql in COUNTS.iter().step_by(step).map(constants) {
            sessions.check(&sql).await;
        }
        let gone = crate::constants("DELETE FROM j WHERE k = v(5) OR k IS NULL", data_type);
        for session in [&sessions.lookups, &sessions.plain] {
            rows(session, &gone).await.unwrap();
        }
        for sql in DISTINCT.iter().chain(&COUNTS).step_by(step).map(constants) {
            sessions.check(&sql).await;
        }
    }
}

#[tokio::test]
async fn distinct_rows_of_several_columns_are_read_from_their_index() {
    let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(320));
    let (schema, batches) = table(&keys(&mut rng, 120, 9, 0.1), &DataType::Int64, true);
    sessions.indexed_table("j", (schema, batches));
    rows(&sessions.lookups, "CREATE INDEX ON j (a, k)").await.unwrap();
    let plan = sessions.check("SELECT DISTINCT k, a FROM j WHERE a < 50").await;
    assert!(plan.contains("index=(a, k), distinct, rows="), "{plan}");
    // Rows whose first column is null are not in the index.
    rows(&sessions.lookups, "CREATE INDEX by_k ON j (k, a)").await.unwrap();
    lanetree_datafusion::sql(&sessions.lookups, "DROP INDEX a_k").await.unwrap();
    for sql in ["SELECT DISTINCT k, a FROM j WHERE k < 5 OR k IS NULL", "SELECT DISTINCT a FROM j WHERE a < 9"] {
        sessions.check(sql).await;
    }
}

#[tokio::test]
async fn many_distinct_values_are_read_from_the_whole_table() {
    let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(321));
    sessions.indexed_table("j", table(&keys(&mut rng, 300, 1000, 0.1), &DataType::Int64, true));
    let state = SessionStateBuilder::new().with_config(crate::config()).with_default_features();
    let careful = with_index_lookups_on(state, &Device::best(), Costs::default()).build();
    let careful = SessionContext::new_with_state(careful);
    careful.register_table("j", sessions.lookups.table_provider("j").await.unwrap()).unwrap();
    // Without other partitions.
    let state = SessionStateBuilder::new().with_config(crate::config().with_target_partitions(1));
    let one = with_index_lookups_on(state.with_default_features(), &Device::best(), Costs::ALWAYS).build();
    let one = SessionContext::new_with_state(one);
    one.register_table("j", sessions.lookups.table_provider("j").await.unwrap()).unwrap();
    rows(&one, "CREATE TABLE t AS SELECT a AS k FROM j WHERE a < 50").await.unwrap();
    let sql = "SELECT count(*), count(DISTINCT k) FROM j WHERE k IN (SELECT k FROM t)";
    assert!(plan(&one, sql).await.contains("IndexLookupExec"));
    let as_range = "SELECT count(*), count(DISTINCT k) FROM j WHERE k BETWEEN 0 AND 49";
    assert_eq!(rows(&one, sql).await.unwrap(), rows(&sessions.plain, as_range).await.unwrap());
    let of_all = plan(&careful, "SELECT DISTINCT k FROM j").await;
    assert!(of_all.contains("AggregateExec") && !of_all.contains("distinct, rows="), "{of_all}");
    // A count needs none of them, and a few of the first ones are in the index's order.
    let count = plan(&careful, "SELECT count(DISTINCT k) FROM j").await;
    assert!(count.contains("PlaceholderRowExec"), "{count}");
    let first = plan(&careful, "SELECT DISTINCT k FROM j ORDER BY k LIMIT 3").await;
    assert!(first.contains("distinct, rows=3"), "{first}");
    let few = plan(&careful, "SELECT DISTINCT k FROM j WHERE k BETWEEN 5 AND 20").await;
    assert!(few.contains("distinct, rows=") && !few.contains("AggregateExec"), "{few}");
}
