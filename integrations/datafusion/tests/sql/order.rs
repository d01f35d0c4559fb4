//! `ORDER BY` from an index's order.

use crate::{Sessions, keys, table};
use datafusion::arrow::datatypes::DataType;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Tables `i`, whose keys have nulls and repeat, and `n`, whose have and do not; with an index on `(k, a)` of `n` in addition.
async fn sessions() -> Sessions {
    let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(100));
    sessions.indexed_table("i", table(&keys(&mut rng, 90, 30, 0.2), &DataType::Int64, true));
    sessions.indexed_table("n", table(&keys(&mut rng, 90, 30, 0.0), &DataType::Int64, true));
    crate::rows(&sessions.lookups, "CREATE INDEX ON n (k, a)").await.unwrap();
    crate::rows(&sessions.lookups, "CREATE INDEX ON i (a, k)").await.unwrap();
    sessions
}

#[tokio::test]
async fn an_order_of_an_index_needs_no_sort() {
    let sessions = sessions().await;
    for (sql, reads) in [
        // (The order of equal keys is open: only keys are selected, or all are in the order.)
        ("SELECT k FROM i WHERE k < 20 ORDER BY k DESC LIMIT 7", "index=k, descending, rows=7"),
        ("SELECT k FROM i WHERE k < 20 ORDER BY k LIMIT 7", "index=k, rows=7"),
        ("SELECT k FROM i WHERE k < 20 ORDER BY k DESC", "index=k, descending, rows="),
        ("SELECT k FROM i WHERE k < 20 ORDER BY k DESC NULLS LAST LIMIT 7", "descending, rows=7"),
        ("SELECT k FROM i WHERE k IN (1, 3, 5, 7, 9) ORDER BY k DESC LIMIT 4", "descending, rows=4"),
        ("SELECT k FROM i WHERE k < 20 ORDER BY k DESC LIMIT 3 OFFSET 4", "descending, rows=7"),
        ("SELECT k FROM n ORDER BY k DESC LIMIT 7", "index=k, descending, rows=7"),
        ("SELECT k FROM n ORDER BY k NULLS FIRST LIMIT 7", "index=k, rows=7"),
        ("SELECT k, a FROM n ORDER BY k DESC, a DESC", "index=(k, a), descending, rows=90"),
        ("SELECT a, k FROM i WHERE a = 7 ORDER BY k DESC", "index=(a, k)"),
        ("SELECT a, k FROM i WHERE a IN (7, 9, 11) ORDER BY a DESC, k DESC", "descending"),
    ] {
        let plan = sessions.check(sql).await;
        assert!(plan.contains(reads) && !plan.contains("SortExec"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn other_orders_are_sorted() {
    let sessions = sessions().await;
    for sql in [
        // Nulls are in no index.
        "SELECT k FROM i ORDER BY k DESC LIMIT 7",
        "SELECT k FROM i ORDER BY k LIMIT 70",
        "SELECT k, a FROM n ORDER BY k DESC, a LIMIT 9",
        "SELECT k, a FROM n ORDER BY a, k LIMIT 9",
        "SELECT k, a FROM n WHERE k < 20 ORDER BY a DESC LIMIT 9",
        "SELECT k FROM n WHERE k < 20 ORDER BY k % 7, k LIMIT 9",
        "SELECT a, k FROM i WHERE a < 30 ORDER BY a DESC, k DESC NULLS LAST LIMIT 9",
    ] {
        let plan = sessions.check(sql).await;
        assert!(plan.contains("SortExec"), "{sql}\n{plan}");
    }
    // A limit chooses the rows before they are sorted.
    for sql in [
        "SELECT count(*), max(k) - min(k) < 30 FROM (SELECT k FROM (SELECT k FROM n WHERE k < 9 LIMIT 5) ORDER BY k DESC LIMIT 3)",
        "SELECT k FROM (SELECT k FROM n WHERE k < 20 ORDER BY k LIMIT 9) ORDER BY k DESC LIMIT 4",
        "SELECT sum(k) FROM (SELECT k FROM n ORDER BY k DESC LIMIT 8)",
        "SELECT k FROM n WHERE k < 5 UNION ALL (SELECT k FROM n WHERE k > 9 ORDER BY k DESC LIMIT 4) ORDER BY k DESC",
    ] {
        sessions.check(sql).await;
    }
}
