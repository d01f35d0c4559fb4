//! `DELETE` and `UPDATE` of indexed tables.

use crate::{Sessions, config, plan, rows, table, with_lookups};
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::IndexedTable;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

#[tokio::test]
async fn changes_are_those_of_the_engines_own_table() {
    let mut rng = StdRng::seed_from_u64(80);
    for (seed, data_type) in [DataType::Int64, DataType::Utf8, DataType::Date32].iter().enumerate() {
        let sessions = Sessions::with_tables(80 + seed as u64, data_type);
        rows(&sessions.lookups, "CREATE INDEX by_a ON j (a)").await.unwrap();
        let value = |number: u32| format!("arrow_cast(arrow_cast({number}, 'Int32'), '{data_type}')");
        for _ in 0..12 {
            let [low, high, new] = [(); 3].map(|()| value(rng.random_range(10..50)));
            let at = rng.random_range(0..70);
            let change = match rng.random_range(0..7) {
                0 => format!("DELETE FROM j WHERE k BETWEEN {low} AND {high} AND a % 3 = 0"),
                1 => format!("DELETE FROM j WHERE k = {low} OR a = {at}"),
                2 => format!("UPDATE j SET k = {new} WHERE k > {high}"),
                3 => format!("UPDATE j SET k = NULL, s = 'was null' WHERE s IS NULL AND a < {at}"),
                4 => format!("UPDATE j SET s = 'a ' || a, a = a + 100 WHERE a = {at}"),
                5 => format!("UPDATE j SET a = a + 1 WHERE k <= {low}"),
                _ => format!("INSERT INTO j VALUES ({at}, {new}, 'inserted')"),
            };
            let changed = rows(&sessions.lookups, &change).await.unwrap();
            assert_eq!(changed, rows(&sessions.plain, &change).await.unwrap(), "{change}");
            for sql in [
                "SELECT * FROM j".to_owned(),
                format!("SELECT * FROM j WHERE k >= {low}"),
                format!("SELECT count(*) FROM j WHERE a < {at}"),
                "SELECT t.a, j.a FROM t JOIN j ON t.k = j.k".to_owned(),
            ] {
                sessions.check(&sql).await;
            }
        }
        let changed = rows(&sessions.lookups, "DELETE FROM j").await.unwrap();
        assert_eq!(changed, rows(&sessions.plain, "DELETE FROM j").await.unwrap());
        sessions.check("SELECT * FROM j").await;
    }
}

fn three() -> (SessionContext, IndexedTable) {
    let state = SessionStateBuilder::new().with_config(config()).with_default_features();
    let session = SessionContext::new_with_state(with_lookups(state).build());
    let (schema, batches) = table(&[Some(1), Some(2), Some(3)], &DataType::Int64, false);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed.clone())).unwrap();
    (session, indexed)
}

#[tokio::test]
async fn a_change_that_fails_changes_nothing() {
    let (session, indexed) = three();
    rows(&session, "CREATE UNIQUE INDEX one ON i (a)").await.unwrap();
    let before = (indexed.rows().unwrap(), Arc::as_ptr(&indexed.index("k").unwrap().unwrap()));
    for (sql, said) in [
        ("UPDATE i SET k = CASE WHEN a = 0 THEN NULL ELSE 5 END", "null values"),
        ("UPDATE i SET s = 'x', k = 1 / (a - 1)", "Divide by zero"),
        ("DELETE FROM i WHERE 1 / (a - 1) > 0", "Divide by zero"),
        ("UPDATE i SET a = 7 WHERE k > 1", "index one is unique, but 3 rows would have 2 distinct values of a"),
        ("UPDATE i SET nothing = 7", "nothing"),
    ] {
        let refused = rows(&session, sql).await.expect_err(sql).to_string();
        assert!(refused.contains(said), "{sql}: {refused}");
        assert_eq!((indexed.rows().unwrap(), Arc::as_ptr(&indexed.index("k").unwrap().unwrap())), before, "{sql}");
    }
    // The values of rows that are not updated are not computed.
    rows(&session, "UPDATE i SET k = 10 / (a - 1) WHERE a > 1").await.unwrap();
    assert_eq!(rows(&session, "SELECT k FROM i WHERE k = 10").await.unwrap().len(), 5);
}

#[tokio::test]
async fn conditions_that_the_engine_does_not_hand_on_change_no_other_rows() {
    let (session, indexed) = three();
    rows(&session, "CREATE TABLE u (b BIGINT) AS VALUES (1)").await.unwrap();
    let before = indexed.rows().unwrap();
    for sql in [
        "DELETE FROM i WHERE false",
        "DELETE FROM i WHERE k = 1 AND k = 2",
        "DELETE FROM i WHERE NULL",
        "UPDATE i SET k = 9 WHERE false",
        "EXPLAIN ANALYZE DELETE FROM i WHERE false",
        "EXPLAIN DELETE FROM i WHERE k = 1",
        "EXPLAIN UPDATE i SET k = 9",
    ] {
        rows(&session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(indexed.rows().unwrap(), before, "{sql}");
    }
    for (sql, said) in [
        ("DELETE FROM i WHERE k IN (SELECT b FROM u)", "DELETE with a subquery"),
        ("DELETE FROM i WHERE EXISTS (SELECT 1 FROM u WHERE b = k)", "DELETE with a subquery"),
        ("UPDATE i SET k = 9 WHERE k IN (SELECT b FROM u)", "UPDATE with a subquery"),
        ("EXPLAIN ANALYZE DELETE FROM i WHERE k IN (SELECT b FROM u)", "DELETE with a subquery"),
        ("DELETE FROM i WHERE k = (SELECT max(b) FROM u)", "ubquery"),
        ("DELETE FROM i LIMIT 1", "DELETE with LIMIT"),
    ] {
        let refused = rows(&session, sql).await.expect_err(sql).to_string();
        assert!(refused.contains(said), "{sql}: {refused}");
        assert_eq!(indexed.rows().unwrap(), before, "{sql}");
    }
    // Nor of a table without an index.
    rows(&session, "CREATE TABLE p AS SELECT * FROM i").await.unwrap();
    let all = rows(&session, "SELECT * FROM p").await.unwrap();
    rows(&session, "DELETE FROM p WHERE k = 1 AND k = 2").await.unwrap();
    let refused = rows(&session, "DELETE FROM p WHERE k IN (SELECT b FROM u)").await.unwrap_err().to_string();
    assert!(refused.contains("DELETE with a subquery"), "{refused}");
    assert_eq!(rows(&session, "SELECT * FROM p").await.unwrap(), all);
    rows(&session, "UPDATE i AS x SET a = x.a + 50 WHERE x.k = 2 AND x.a = 1").await.unwrap();
    assert_eq!(rows(&session, "SELECT k FROM i WHERE a > 2").await.unwrap()[3], "| 2 |");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_the_rows_before_a_change_or_after_it() {
    let (session, indexed) = three();
    let before = session.sql("SELECT * FROM i WHERE k > 0").await.unwrap().create_physical_plan().await.unwrap();
    rows(&session, "DELETE FROM i WHERE k = 1").await.unwrap();
    let count = |batches: Vec<datafusion::arrow::array::RecordBatch>| -> usize {
        batches.iter().map(|batch| batch.num_rows()).sum()
    };
    assert_eq!(count(collect(before, session.task_ctx()).await.unwrap()), 3);
    assert_eq!(indexed.len(), 2);

    // Each update changes all rows: no reader may see two values.
    let writer = tokio::spawn({
        let session = session.clone();
        async move {
            for value in 0..30 {
                rows(&session, &format!("UPDATE i SET k = {value}")).await.unwrap();
            }
        }
    });
    rows(&session, "UPDATE i SET k = 0").await.unwrap();
    loop {
        for sql in ["SELECT DISTINCT k FROM i", "SELECT DISTINCT k FROM i WHERE k >= 0"] {
            let read = session.sql(sql).await.unwrap().collect().await.unwrap();
            assert_eq!(count(read), 1, "{sql}");
        }
        if writer.is_finished() {
            break;
        }
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn an_update_keeps_the_indexes_on_other_columns() {
    let (session, indexed) = three();
    rows(&session, "CREATE INDEX by_a ON i (a)").await.unwrap();
    let address = |column| Arc::as_ptr(&indexed.index(column).unwrap().unwrap());
    let before = (address("k"), address("a"));
    rows(&session, "UPDATE i SET a = a + 1").await.unwrap();
    assert!(before.0 == address("k") && before.1 != address("a"));
    assert_eq!(rows(&session, "SELECT k FROM i WHERE a = 3").await.unwrap()[3], "| 3 |");
    // Nor does a statement that changes no row take away what another process has.
    let named = indexed.clone().with_name("i");
    rows(&session, "DELETE FROM i WHERE k = 77").await.unwrap();
    assert_eq!(named.name().as_deref(), Some("i"));
    rows(&session, "DELETE FROM i WHERE k = 3").await.unwrap();
    assert_eq!(named.name(), None);
}

#[tokio::test]
async fn rows_after_a_change_are_in_the_memory_pool() {
    let pool = Arc::new(GreedyMemoryPool::new(64 << 10));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let state = SessionStateBuilder::new().with_config(config()).with_runtime_env(runtime).with_default_features();
    let session = SessionContext::new_with_state(with_lookups(state).build());
    let (schema, batches) = table(&vec![Some(1); 20_000], &DataType::Int64, true);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed.clone())).unwrap();
    let refused = rows(&session, "DELETE FROM i WHERE a % 2 = 1").await.unwrap_err().to_string();
    assert!(refused.contains("rows after a change"), "{refused}");
    assert_eq!(indexed.len(), 20_000);
}

#[tokio::test]
async fn changes_are_explained() {
    let (session, _) = three();
    let explained = plan(&session, "UPDATE i SET a = a + 1 WHERE k = 2").await;
    assert!(explained.contains("update a = a@0 + 1 where k@1 = 2, indexes=[k]"), "{explained}");
    let explained = plan(&session, "DELETE FROM i").await;
    assert!(explained.contains("delete where true"), "{explained}");
}
