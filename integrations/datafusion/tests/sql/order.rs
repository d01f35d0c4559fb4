//! `ORDER BY` from an index's order.

use crate::{Sessions, config, keys, rows, sorted, table};
use datafusion::arrow::datatypes::DataType;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::{Costs, with_index_lookups_on};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Tables `i`, whose keys have nulls and repeat, and `n`, whose have and do not; with an index on `(k, a)` of `n` in addition.
async fn sessions() -> Sessions {
    let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(100));
    sessions.indexed_table("i", table(&keys(&mut rng, 90, 30, 0.2), &DataType::Int64, true));
    sessions.indexed_table("n", table(&keys(&mut rng, 90, 30, 0.0), &DataType::Int64, true));
    rows(&sessions.lookups, "CREATE INDEX ON n (k, a)").await.unwrap();
    rows(&sessions.lookups, "CREATE INDEX ON i (a, k)").await.unwrap();
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
        (
            "SELECT a, k FROM i WHERE a IN (3, 5, 7, 9) AND k IS NULL ORDER BY a DESC LIMIT 3",
            "index=(a, k), descending",
        ),
        ("SELECT k FROM i ORDER BY k DESC LIMIT 7", "index=k, descending, rows=7"),
        ("SELECT k FROM i ORDER BY k LIMIT 85", "index=k, rows=85"),
        ("SELECT k FROM i ORDER BY k NULLS FIRST LIMIT 40", "index=k, rows=40"),
        ("SELECT k FROM i ORDER BY k DESC NULLS LAST", "index=k, descending, rows=90"),
        ("SELECT k FROM i WHERE k < 9 OR k IS NULL ORDER BY k DESC LIMIT 30 OFFSET 10", "index=k, descending, rows="),
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

/// A condition, an order and a limit; the rows of each result are in one order, or in any.
fn random_query(rng: &mut StdRng, table: &str) -> String {
    let condition = |rng: &mut StdRng| {
        let (low, high) = (rng.random_range(0..30), rng.random_range(0..90));
        let all = [
            format!("k < {low}"),
            format!("k >= {low}"),
            format!("k IN ({low}, {}, {})", high / 3, low + 1),
            format!("k BETWEEN {} AND {low}", low / 2),
            format!("a > {high}"),
            format!("a = {high}"),
            format!("a % 3 = {}", low % 3),
            "k IS NULL".to_owned(),
            "true".to_owned(),
        ];
        all.choose(rng).cloned().unwrap_or_default()
    };
    let conditions = [condition(rng), condition(rng)].join(" AND ");
    let side = |rng: &mut StdRng| {
        let [order, nulls] =
            [[" DESC", ""], [" NULLS FIRST", " NULLS LAST"]].map(|words| words[rng.random_range(0..2)]);
        format!("{order}{nulls}")
    };
    let orders = [
        ("k", format!("ORDER BY k{}", side(rng))),
        ("k, a", format!("ORDER BY k{}, a{}", side(rng), side(rng))),
        ("a, k", format!("ORDER BY a{}, k{}", side(rng), side(rng))),
        ("count(*), sum(a), max(k)", String::new()),
    ];
    let (columns, order) = orders.choose(rng).cloned().unwrap_or_default();
    let limits = ["", " LIMIT 7", " LIMIT 5 OFFSET 3", " LIMIT 200", " LIMIT 0"];
    let limit = if order.is_empty() { "" } else { limits[rng.random_range(0..5)] };
    format!("SELECT {columns} FROM {table} WHERE {conditions} {order}{limit}")
}

#[tokio::test]
async fn random_queries_have_the_results_of_the_engine_alone() {
    let (sessions, mut rng) = (sessions().await, StdRng::seed_from_u64(101));
    // A session that reads the whole tables for most of their rows, too.
    let state = SessionStateBuilder::new().with_config(config()).with_default_features();
    let costs = Costs { scan: 1.0, read: 4.0, ..Costs::ALWAYS };
    let careful = SessionContext::new_with_state(with_index_lookups_on(state, &Device::best(), costs).build());
    for name in ["i", "n"] {
        careful.register_table(name, sessions.lookups.table_provider(name).await.unwrap()).unwrap();
    }
    let mut by_index = 0;
    for number in 0..200 {
        let sql = random_query(&mut rng, ["i", "n"][number % 2]);
        let plan = sessions.check(&sql).await;
        by_index += usize::from(plan.contains("index=") && !plan.contains("SortExec"));
        let [found, expected] = [&careful, &sessions.plain].map(|session| rows(session, &sql));
        let (found, expected) = (found.await.unwrap(), expected.await.unwrap());
        match sql.contains("ORDER BY") {
            true => assert_eq!(found, expected, "{sql}"),
            false => assert_eq!(sorted(found), sorted(expected), "{sql}"),
        }
    }
    assert!(by_index > 20, "{by_index} queries through an index without a sort");
}
