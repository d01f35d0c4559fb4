//! Indexes on some rows: used by queries for these rows alone.

use crate::statements::run;
use crate::{config, keys, plan, rows, sorted, table, with_lookups};
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

const ROWS: usize = 2000;

/// `t` without an index in both sessions: with look-ups, and without.
fn sessions(seed: u64) -> (SessionContext, SessionContext) {
    let state = || SessionStateBuilder::new().with_config(config()).with_default_features();
    let sessions = [with_lookups(state()), state()].map(|state| SessionContext::new_with_state(state.build()));
    let (schema, batches) = table(&keys(&mut StdRng::seed_from_u64(seed), ROWS, 300, 0.1), &DataType::Int32, true);
    for session in &sessions {
        let table = MemTable::try_new(schema.clone(), vec![batches.clone()]).unwrap();
        session.register_table("t", Arc::new(table)).unwrap();
    }
    sessions.into()
}

async fn check((own, plain): &(SessionContext, SessionContext), sql: &str) {
    let [found, expected] = [rows(own, sql).await.unwrap(), rows(plain, sql).await.unwrap()];
    let in_order = |rows: Vec<String>| if sql.contains("ORDER BY") { rows } else { sorted(rows) };
    assert_eq!(in_order(found), in_order(expected), "{sql}\n{}", plan(own, sql).await);
}

#[tokio::test]
async fn a_query_for_rows_of_the_index_goes_through_it() {
    for (condition, other) in [
        ("a > 100", "a > 99"),
        ("a BETWEEN 100 AND 1500", "a >= 100"),
        ("s LIKE 'row 1%' AND a % 2 = 0", "s LIKE 'row 1%'"),
        ("s IS NOT NULL", "s IS NULL"),
        // The optimizer computes what is twice in a filter once, below it.
        ("length(s) > 5 AND length(s) < 8", "length(s) > 5"),
        ("k < 200", "k < 201"),
        ("(a > 5 OR s = 'row 3')", "a > 5"),
    ] {
        let sessions = sessions(1);
        let said = run(&sessions.0, &format!("CREATE INDEX few ON t (k) WHERE {condition}")).await.unwrap();
        assert!(!said.contains("built"), "{said}");
        for (sql, is_by_index) in [
            (format!("SELECT * FROM t WHERE {condition} AND k = 7"), true),
            (format!("SELECT * FROM t WHERE k IN (7, 8, 150) AND ({condition})"), true),
            (format!("SELECT count(*), min(k), max(a) FROM t WHERE k < 50 AND {condition}"), true),
            (format!("SELECT a FROM t AS x WHERE x.k BETWEEN 9 AND 40 AND {condition} ORDER BY k, a"), true),
            (format!("SELECT DISTINCT k FROM t WHERE k > 20 AND k < 190 AND {condition}"), true),
            (format!("SELECT k FROM t WHERE k > 20 AND {condition} ORDER BY k DESC LIMIT 9"), true),
            (format!("SELECT * FROM t WHERE k = 7 AND {other}"), false),
            ("SELECT * FROM t WHERE k = 7".to_owned(), false),
            (format!("SELECT * FROM t WHERE NOT ({condition}) AND k = 7"), false),
            (format!("SELECT * FROM t WHERE ({condition}) AND k IS NULL"), false),
            (format!("SELECT * FROM t WHERE {condition} AND (k < 9 OR k IS NULL)"), false),
            ("SELECT min(k), max(k), count(k), count(DISTINCT k) FROM t".to_owned(), false),
            ("SELECT DISTINCT k FROM t".to_owned(), false),
            ("SELECT k FROM t ORDER BY k LIMIT 5".to_owned(), false),
            ("SELECT x.a FROM t AS x JOIN t AS y ON x.k = y.k WHERE x.a < 20".to_owned(), false),
            (format!("SELECT x.a FROM t AS x JOIN (SELECT * FROM t WHERE {condition}) AS y ON x.k = y.k"), false),
        ] {
            let plan = plan(&sessions.0, &sql).await;
            // (A condition on the indexed column may be made one with another one.)
            if condition != "k < 200" {
                assert_eq!(plan.contains("index=k named few"), is_by_index, "{condition}: {sql}\n{plan}");
            }
            check(&sessions, &sql).await;
        }
        let refused = run(&sessions.0, &format!("CREATE INDEX again ON t (k) WHERE {condition}")).await.unwrap_err();
        assert!(refused.contains("column k has an index, few"), "{refused}");
        run(&sessions.0, "CREATE INDEX ON t (k)").await.unwrap();
        assert!(plan(&sessions.0, "SELECT * FROM t WHERE k = 7").await.contains("index=k,"));
    }
}

#[tokio::test]
async fn a_condition_is_on_the_columns_that_a_table_shows() {
    let sessions = sessions(2);
    // Of the columns in another order, and of one under another's name.
    for session in [&sessions.0, &sessions.1] {
        for (view, sql) in [("v", "SELECT s, k, a FROM t"), ("w", "SELECT k AS a, a AS k FROM t WHERE a < 1500")] {
            let view_of = session.sql(sql).await.unwrap().into_temporary_view();
            session.register_table(view, view_of).unwrap();
        }
    }
    for (view, condition) in [("v", "a > 500"), ("w", "a > 50")] {
        run(&sessions.0, &format!("CREATE INDEX few ON {view} (k) WHERE {condition}")).await.unwrap();
        for sql in [
            format!("SELECT * FROM {view} WHERE {condition} AND k BETWEEN 200 AND 900"),
            format!("SELECT count(*), min(a), max(k) FROM {view} WHERE k > 20 AND {condition}"),
        ] {
            let plan = plan(&sessions.0, &sql).await;
            assert!(plan.contains("index=k named few"), "{sql}\n{plan}");
            check(&sessions, &sql).await;
        }
    }
}

#[tokio::test]
async fn it_has_the_rows_that_meet_its_condition_after_changes() {
    for seed in 10..13 {
        let (sessions, mut rng) = (sessions(seed), StdRng::seed_from_u64(seed));
        run(&sessions.0, "CREATE INDEX even ON t (k) WHERE a % 2 = 0").await.unwrap();
        run(&sessions.0, "CREATE INDEX both ON t (k, a) WHERE s IS NOT NULL").await.unwrap();
        for step in 0..30 {
            let (key, at) = (rng.random_range(0..300), rng.random_range(0..ROWS));
            let change = match rng.random_range(0..7) {
                0 => format!("INSERT INTO t VALUES ({}, {key}, 'new'), ({}, {key}, NULL)", 5000 + step, 6001 + step),
                1 => format!("UPDATE t SET a = a + 1 WHERE k = {key}"),
                2 => format!("UPDATE t SET s = NULL WHERE a BETWEEN {at} AND {}", at + 30),
                3 => "UPDATE t SET s = 'all' WHERE k % 3 = 1".to_owned(),
                4 => format!("UPDATE t SET k = {key} WHERE a % 2 = 0 AND k = {}", key / 2),
                5 => format!("DELETE FROM t WHERE a % 2 = 0 AND k = {key}"),
                _ if step % 3 == 0 => format!("UPDATE t SET a = a + {}", step % 2),
                _ => format!("DELETE FROM t WHERE k = {key} AND s IS NOT NULL"),
            };
            let changed = rows(&sessions.0, &change).await.unwrap_or_else(|error| panic!("{change}: {error}"));
            assert_eq!(changed, rows(&sessions.1, &change).await.unwrap(), "{change}");
            for sql in [
                format!("SELECT * FROM t WHERE a % 2 = 0 AND k BETWEEN {key} AND {}", key + 20),
                "SELECT count(*), sum(a), min(k) FROM t WHERE k >= 0 AND a % 2 = 0".to_owned(),
                format!("SELECT * FROM t WHERE s IS NOT NULL AND k = {key} AND a > 3"),
                format!("SELECT k, a FROM t WHERE s IS NOT NULL AND k < {key} ORDER BY k, a LIMIT 20"),
                "SELECT count(*), count(s), count(k) FROM t".to_owned(),
            ] {
                check(&sessions, &sql).await;
            }
        }
    }
}

#[tokio::test]
async fn unique_is_for_its_rows_alone() {
    let (session, _) = sessions(20);
    for sql in ["CREATE TABLE u (a INT, b INT, is_open BOOLEAN) AS VALUES (1, 1, true), (1, 2, false), (1, 3, false)"] {
        rows(&session, sql).await.unwrap();
    }
    run(&session, "CREATE UNIQUE INDEX one ON u (a) WHERE is_open").await.unwrap();
    let all = async || rows(&session, "SELECT * FROM u ORDER BY b").await.unwrap();
    for (sql, is_refused) in [
        ("INSERT INTO u VALUES (1, 4, false)", false),
        ("INSERT INTO u VALUES (1, 5, true)", true),
        ("INSERT INTO u VALUES (2, 6, true), (2, 7, NULL)", false),
        ("UPDATE u SET is_open = true WHERE b = 2", true),
        ("UPDATE u SET is_open = b = 2", false),
        ("INSERT INTO u VALUES (1, 8, true)", true),
        ("DELETE FROM u WHERE is_open", false),
        ("INSERT INTO u VALUES (1, 8, true)", false),
    ] {
        let before = all().await;
        match run(&session, sql).await {
            Ok(_) => assert!(!is_refused, "{sql}"),
            Err(error) => {
                assert!(is_refused && error.contains("index one is unique"), "{sql}: {error}");
                assert_eq!(all().await, before);
            }
        }
    }
    // As a table that has an index already.
    let refused = run(&session, "CREATE UNIQUE INDEX two ON u (a) WHERE b > 2").await.unwrap_err();
    assert!(refused.contains("index two is unique"), "{refused}");
    run(&session, "CREATE UNIQUE INDEX two ON u (a, b) WHERE b > 2").await.unwrap();
}

#[tokio::test]
async fn conditions_that_choose_no_rows_of_a_table_are_refused() {
    let (session, _) = sessions(21);
    for (condition, said) in [
        ("random() < 0.5", "give a condition that has one value for each row, always"),
        ("a > 5 AND now() > to_timestamp(a)", "give a condition that has one value for each row, always"),
        ("a > 5 OR current_date > DATE '2020-01-01'", "give a condition that has one value for each row, always"),
        ("current_time IS NULL", "give a condition that has one value for each row, always"),
        ("1 = 1", "all rows meet it, so leave it out"),
        ("1 = 2", "give a condition on the table's columns that some rows meet"),
        ("k IN (SELECT a FROM t)", "t' not found"),
        ("nothing > 5", "nothing"),
        ("a + 1", "Cannot create filter with non-boolean predicate"),
    ] {
        let refused = run(&session, &format!("CREATE INDEX few ON t (k) WHERE {condition}")).await.unwrap_err();
        assert!(refused.contains(said), "{condition}: {refused}");
        assert!(!run(&session, "SHOW INDEXES").await.unwrap().contains("few"));
    }
}

#[tokio::test]
async fn it_is_shown_and_saved_with_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("few");
    let create = format!("CREATE INDEX few ON t (k) WHERE a > 1000 WITH (file = '{}')", file.display());
    let other = create.replace("1000", "1001");
    // Both orders of clauses of SQL: WITH is before WHERE.
    let in_order = |sql: &str| {
        let (before, condition) = sql.split_once(" WHERE ").unwrap();
        let (condition, options) = condition.split_once(" WITH ").unwrap();
        format!("{before} WITH {options} WHERE {condition}")
    };
    for (sql, said) in [(&create, "there was no file"), (&create, "| loaded |"), (&other, "the file was of other rows")]
    {
        let sessions = sessions(22);
        let found = run(&sessions.0, &in_order(sql)).await.unwrap();
        assert!(found.contains(said), "{found}");
        for bound in [1000, 1001] {
            check(&sessions, &format!("SELECT * FROM t WHERE a > {bound} AND k < 30")).await;
        }
        let shown = run(&sessions.0, "SHOW INDEXES").await.unwrap();
        assert!(shown.contains("a > Int64(100"), "{shown}");
    }
}
