//! Small changes of large tables, which add a part to the rows that there are, and mark rows as removed.

use crate::{Sessions, config, keys, plan, rows, sorted, table, with_lookups};
use core::fmt;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::IndexedTable;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::sync::{Arc, Condvar, Mutex};

/// Keys that repeat, and nulls.
fn many(rng: &mut StdRng) -> Vec<Option<i64>> {
    keys(rng, 2000, 300, 0.1)
}

async fn sessions(seed: u64) -> Sessions {
    let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(seed));
    sessions.plain_table("t", table(&keys(&mut rng, 40, 320, 0.1), &DataType::Int64, true));
    sessions.indexed_table("j", table(&many(&mut rng), &DataType::Int64, true));
    rows(&sessions.lookups, "CREATE UNIQUE INDEX one ON j (a)").await.unwrap();
    rows(&sessions.lookups, "CREATE INDEX ON j (a, k)").await.unwrap();
    rows(&sessions.lookups, "CREATE INDEX by_s ON j (s)").await.unwrap();
    sessions
}

fn change(rng: &mut StdRng, step: usize) -> String {
    let [key, other, at] = [300, 300, 2000].map(|span| rng.random_range(0..span));
    let new = 100_000 * (step + 1);
    match rng.random_range(0..10) {
        0..3 => format!("INSERT INTO j VALUES ({new}, {key}, 'new {key}')"),
        3 => format!("INSERT INTO j VALUES ({new}, NULL, NULL), ({}, {key}, 'x'), ({}, {key}, 'x')", new + 1, new + 2),
        4 => format!("INSERT INTO j SELECT a + {new}, k, s FROM t"),
        5 => format!("DELETE FROM j WHERE k = {key}"),
        6 => format!("DELETE FROM j WHERE a BETWEEN {at} AND {} AND k > 5", at + 40),
        7 => format!("UPDATE j SET k = {other}, s = 'updated' WHERE k = {key}"),
        8 => format!("UPDATE j SET k = NULL WHERE a IN ({at}, {}, {})", at + 1, at + 2),
        _ if step % 20 == 19 => "DELETE FROM j WHERE k % 7 = 0".to_owned(),
        _ => format!("UPDATE j SET a = a + {new} WHERE k = {key}"),
    }
}

fn queries(rng: &mut StdRng) -> Vec<String> {
    let (key, at) = (rng.random_range(0..300), rng.random_range(0..2000));
    let all = [
        "SELECT * FROM j".to_owned(),
        format!("SELECT * FROM j WHERE k >= {key} AND k < {}", key + 30),
        format!("SELECT a, s FROM j WHERE k IN ({key}, {}, {}, 1000)", key + 1, key / 2),
        format!("SELECT count(*) FROM j WHERE k < {key}"),
        "SELECT count(*), count(k), min(k), max(k), min(a), max(a) FROM j".to_owned(),
        format!("SELECT min(k), max(k), count(k) FROM j WHERE k BETWEEN {key} AND {}", key + 9),
        format!("SELECT k FROM j WHERE k < {key} ORDER BY k DESC LIMIT 7"),
        format!("SELECT k FROM j WHERE k < {key} ORDER BY k LIMIT 300"),
        format!("SELECT a, k FROM j WHERE a >= {at} ORDER BY a LIMIT 9"),
        "SELECT a, k FROM j ORDER BY a DESC, k DESC LIMIT 40".to_owned(),
        format!("SELECT a, k, s FROM j WHERE a = {at} AND k > 10"),
        "SELECT s, count(*) FROM j WHERE s LIKE 'new%' GROUP BY s".to_owned(),
        "SELECT count(*) FROM j WHERE k IS NOT NULL AND a > 1000".to_owned(),
        "SELECT a, s FROM j WHERE k IS NULL".to_owned(),
        format!("SELECT * FROM j WHERE k < {} OR k BETWEEN {key} AND {} OR k IS NULL", key / 9, key + 9),
        format!("SELECT k FROM j WHERE k <> {key} ORDER BY k DESC LIMIT 300"),
        "SELECT * FROM t JOIN j ON t.k = j.k".to_owned(),
        "SELECT t.a, j.a, j.s FROM t LEFT JOIN j ON t.k = j.k".to_owned(),
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM j WHERE j.k = t.k)".to_owned(),
        "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM j WHERE j.k = t.k)".to_owned(),
        "SELECT t.a, j.s FROM t LEFT JOIN j ON t.a = j.a AND t.k = j.k".to_owned(),
        "SELECT t.s, j.s FROM t LEFT JOIN j ON t.a = j.a".to_owned(),
        "SELECT t.a, j.a FROM t LEFT JOIN j ON j.k BETWEEN t.k AND t.k + 2".to_owned(),
        "SELECT * FROM (SELECT * FROM j LIMIT 5) WHERE a < 0".to_owned(),
    ];
    (0..3).filter_map(|_| all.choose(rng).cloned()).collect()
}

#[tokio::test]
async fn changes_and_queries_are_those_of_the_engines_own_table() {
    for seed in 200..202 {
        let (sessions, mut rng) = (sessions(seed).await, StdRng::seed_from_u64(seed));
        for step in 0..40 {
            let change = change(&mut rng, step);
            let changed = rows(&sessions.lookups, &change).await.unwrap_or_else(|error| panic!("{change}: {error}"));
            assert_eq!(changed, rows(&sessions.plain, &change).await.unwrap(), "{change}");
            for sql in queries(&mut rng) {
                sessions.check(&sql).await;
            }
            // The nearest keys, and all pairs of which they are the largest ones.
            let found = rows(&sessions.lookups, "SELECT a, j_k AS k FROM as_of('t', 'k', 'j', 'k')").await.unwrap();
            let all = "SELECT t.a AS a, max(j.k) AS k FROM t LEFT JOIN j ON j.k <= t.k GROUP BY t.a";
            assert_eq!(sorted(found), sorted(rows(&sessions.plain, all).await.unwrap()), "{change}");
        }
        let next = "SELECT a, j_k AS k FROM as_of('t', 'k', 'j', 'k', 'forward', 'inner')";
        let all = "SELECT t.a AS a, min(j.k) AS k FROM t JOIN j ON j.k >= t.k GROUP BY t.a";
        let found = rows(&sessions.lookups, next).await.unwrap();
        assert_eq!(sorted(found), sorted(rows(&sessions.plain, all).await.unwrap()));
    }
}

#[tokio::test]
async fn a_row_that_is_there_in_another_part_is_refused_by_a_unique_index() {
    let sessions = sessions(210).await;
    let session = &sessions.lookups;
    rows(session, "INSERT INTO j VALUES (-5, 1, 'x')").await.unwrap();
    let all = rows(session, "SELECT count(*) FROM j").await.unwrap();
    for (sql, said) in [
        ("INSERT INTO j VALUES (-5, 2, 'y')", "2002 rows would have 2001 distinct values of a"),
        ("INSERT INTO j VALUES (-6, 2, 'y'), (-6, 2, 'y')", "2003 rows would have 2002 distinct values of a"),
        ("INSERT INTO j VALUES (77, 2, 'y')", "2002 rows would have 2001 distinct values of a"),
        ("UPDATE j SET a = 78 WHERE a = 77", "2001 rows would have 2000 distinct values of a"),
    ] {
        let refused = rows(session, sql).await.expect_err(sql).to_string();
        assert!(refused.contains("index one is unique") && refused.contains(said), "{sql}: {refused}");
        assert_eq!(rows(session, "SELECT count(*) FROM j").await.unwrap(), all, "{sql}");
    }
    // A value whose row is removed is free, also within one statement.
    for sql in [
        "UPDATE j SET a = 1 - a WHERE a IN (0, 1)",
        "DELETE FROM j WHERE a = 77",
        "INSERT INTO j VALUES (77, 1, 'again')",
    ] {
        rows(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert_eq!(rows(session, "SELECT s FROM j WHERE a = 77").await.unwrap()[3], "| again |");
}

#[tokio::test]
async fn an_analyzed_scan_names_its_index_and_counts_its_rows() {
    let sessions = sessions(211).await;
    rows(&sessions.lookups, "INSERT INTO j VALUES (-5, 1, 'one more')").await.unwrap();
    let explained =
        rows(&sessions.lookups, "EXPLAIN ANALYZE SELECT * FROM j WHERE s LIKE 'one%'").await.unwrap().join("\n");
    for said in ["index=s named by_s, rows=1", "rows_estimated=1, rows_found=1"] {
        assert!(explained.contains(said), "{said}: {explained}");
    }
    // The smallest and the largest key, and how many there are, need no row.
    for sql in
        ["SELECT min(k), max(k), count(k), count(*) FROM j", "SELECT min(k), max(k) FROM j WHERE k BETWEEN 7 AND 90"]
    {
        let plan = plan(&sessions.lookups, sql).await;
        assert!(plan.contains("PlaceholderRowExec"), "{plan}");
    }
}

fn session(pool: Arc<dyn MemoryPool>) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let state = SessionStateBuilder::new().with_config(config()).with_runtime_env(runtime).with_default_features();
    let session = SessionContext::new_with_state(with_lookups(state).build());
    let (schema, batches) = table(&many(&mut StdRng::seed_from_u64(212)), &DataType::Int64, true);
    session.register_table("t", Arc::new(MemTable::try_new(schema, vec![batches]).unwrap())).unwrap();
    session
}

#[tokio::test]
async fn rows_and_indexes_are_in_the_memory_pool_while_they_exist() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(600 << 10));
    let session = session(pool.clone());
    rows(&session, "CREATE INDEX by_k ON t (k)").await.unwrap();
    let of_one = pool.reserved();
    // 2,000 rows of two numbers and a string, and the index.
    assert!(of_one > 2000 * (8 + 8 + 16), "{of_one}");
    rows(&session, "CREATE INDEX by_a ON t (a)").await.unwrap();
    let of_two = pool.reserved();
    assert!(of_two > of_one + 2000 * 16, "{of_two}");
    rows(&session, "INSERT INTO t VALUES (-1, 1, 'x')").await.unwrap();
    assert!((of_two + 1..of_two + (64 << 10)).contains(&pool.reserved()), "{} after {of_two}", pool.reserved());
    // No room for twice the rows.
    let refused =
        rows(&session, "INSERT INTO t SELECT a + 100000, k, s || s || s || s FROM t").await.unwrap_err().to_string();
    assert!(refused.contains("of table t"), "{refused}");
    assert_eq!(rows(&session, "SELECT count(*) FROM t").await.unwrap()[3], "| 2001     |");
    lanetree_datafusion::sql(&session, "DROP INDEX by_a").await.unwrap();
    assert!(pool.reserved() < of_one + (64 << 10), "{} after {of_one}", pool.reserved());
    session.deregister_table("t").unwrap();
    assert_eq!(pool.reserved(), 0);
    drop(session);

    let refused = {
        let session = self::session(Arc::new(GreedyMemoryPool::new(200 << 10)));
        rows(&session, "CREATE INDEX by_k ON t (k)").await.unwrap_err().to_string()
    };
    assert!(refused.contains("index by_k of table t"), "{refused}");

    // A table that no statement made.
    let (schema, batches) = table(&many(&mut StdRng::seed_from_u64(215)), &DataType::Int64, true);
    let made = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    let small: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(60 << 10));
    let refused = made.clone().in_memory_pool(&small).unwrap_err().to_string();
    assert!(refused.contains("of the table of columns a, k, s") && small.reserved() == 0, "{refused}");
    let made = made.in_memory_pool(&pool).unwrap();
    assert!(pool.reserved() > 2000 * (8 + 8 + 16));
    drop(made);
    assert_eq!(pool.reserved(), 0);
}

/// A pool whose indexes wait for a sign.
#[derive(Debug, Default)]
struct Waiting {
    is_waiting: Mutex<bool>,
    may_go: Mutex<bool>,
    sign: Condvar,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("waiting")
    }
}

impl MemoryPool for Waiting {
    fn name(&self) -> &str {
        "waiting"
    }

    fn grow(&self, _: &MemoryReservation, _: usize) {}

    fn shrink(&self, _: &MemoryReservation, _: usize) {}

    fn try_grow(&self, taken: &MemoryReservation, _: usize) -> Result<()> {
        if taken.consumer().name().starts_with("index k of") {
            *self.is_waiting.lock().unwrap() = true;
            let _go = self.sign.wait_while(self.may_go.lock().unwrap(), |may_go| !*may_go).unwrap();
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        0
    }
}

#[tokio::test]
async fn a_cancelled_statement_leaves_the_table_as_before_and_blocks_no_worker() {
    let pool = Arc::new(Waiting::default());
    let session = session(pool.clone());
    *pool.may_go.lock().unwrap() = true;
    rows(&session, "CREATE INDEX k ON t (k)").await.unwrap();
    for sql in ["INSERT INTO t VALUES (-1, 1, 'x')", "DELETE FROM t WHERE k > 5", "UPDATE t SET k = 7 WHERE k = 8"] {
        let before = rows(&session, "SELECT count(*), sum(k) FROM t").await.unwrap();
        (*pool.may_go.lock().unwrap(), *pool.is_waiting.lock().unwrap()) = (false, false);
        let statement = tokio::spawn({
            let session = session.clone();
            async move { rows(&session, sql).await }
        });
        // This thread is the only worker.
        while !*pool.is_waiting.lock().unwrap() {
            tokio::time::sleep(core::time::Duration::from_millis(1)).await;
        }
        assert_eq!(rows(&session, "SELECT count(*), sum(k) FROM t WHERE a > -5").await.unwrap(), before, "{sql}");
        statement.abort();
        assert!(statement.await.unwrap_err().is_cancelled(), "{sql}");
        *pool.may_go.lock().unwrap() = true;
        pool.sign.notify_all();
        // One change is made at a time: this one comes after it.
        rows(&session, "UPDATE t SET s = 'y' WHERE a = 3").await.unwrap();
        assert_eq!(rows(&session, "SELECT count(*), sum(k) FROM t").await.unwrap(), before, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_the_rows_before_a_small_change_or_after_it() {
    let sessions = sessions(213).await;
    let session = &sessions.lookups;
    rows(session, "INSERT INTO j VALUES (-1, 1, 'x')").await.unwrap();
    rows(session, "DELETE FROM j WHERE k % 2 = 1 OR k IS NULL").await.unwrap();
    let writer = tokio::spawn({
        let session = session.clone();
        async move {
            let mut rng = StdRng::seed_from_u64(214);
            for step in 0..60_i64 {
                // Two rows come or go together, and sums of keys stay even.
                let (new, key) = (1_000_000 + 10 * step, 2 * rng.random_range(0..150));
                let sql = match step % 4 {
                    0 | 1 => {
                        format!("INSERT INTO j VALUES ({new}, {key}, 'pair'), ({}, {}, 'pair')", new + 1, key + 3000)
                    }
                    2 => format!("UPDATE j SET k = k + 2 WHERE a >= {}", new - 20),
                    _ => format!("DELETE FROM j WHERE a BETWEEN {} AND {}", new - 30, new - 21),
                };
                rows(&session, &sql).await.unwrap();
            }
        }
    });
    let one = |batches: Vec<RecordBatch>| batches[0].column(0).as_primitive::<Int64Type>().value(0);
    while !writer.is_finished() {
        for sql in [
            "SELECT count(*) FROM j WHERE s = 'pair'",
            "SELECT count(*) FROM j WHERE a >= 1000000",
            "SELECT sum(CASE WHEN k >= 3000 THEN 1 ELSE -1 END) + 0 FROM j WHERE s = 'pair' AND a > 0",
        ] {
            let read = session.sql(sql).await.unwrap().collect().await.unwrap();
            assert_eq!(if read[0].column(0).null_count() > 0 { 0 } else { one(read) } % 2, 0, "{sql}");
        }
    }
    writer.await.unwrap();
}
