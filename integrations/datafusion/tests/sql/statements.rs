//! Statements about indexes that go through `lanetree_datafusion::sql`.

use crate::{config, plan, rows, with_lookups};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::{IndexedTable, sql};

async fn session() -> SessionContext {
    let state = SessionStateBuilder::new().with_config(config()).with_default_features();
    let session = SessionContext::new_with_state(with_lookups(state).build());
    for statement in [
        "CREATE TABLE t (a INT, b INT) AS VALUES (1, 10), (2, 20), (2, 30)",
        "CREATE SCHEMA other",
        "CREATE TABLE other.u (a INT) AS VALUES (1)",
        "CREATE INDEX by_a ON t (a)",
        "CREATE UNIQUE INDEX ON t (b, a)",
        "CREATE INDEX by_a ON other.u (a)",
    ] {
        rows(&session, statement).await.unwrap();
    }
    session
}

pub(crate) async fn run(session: &SessionContext, statement: &str) -> Result<String, String> {
    let batches = async { sql(session, statement).await?.collect().await }.await.map_err(|error| error.to_string())?;
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

#[tokio::test]
async fn clauses_that_the_engine_leaves_out_are_errors() {
    let session = session().await;
    for (statement, said) in [
        ("EXPLAIN CREATE INDEX x ON t (b) WHERE a > 1", "leave out WHERE"),
        ("CREATE INDEX x ON t (b) INCLUDE (a)", "INCLUDE (a): leave it out"),
        ("CREATE UNIQUE INDEX x ON t (b) NULLS NOT DISTINCT", "NULLS NOT DISTINCT: a unique index takes any number"),
        ("CREATE INDEX x ON t (b) WITH (fillfactor = 70)", "an index has the option file = 'path' alone"),
    ] {
        let refused = run(&session, statement).await.expect_err(statement);
        assert!(refused.contains(said), "{statement}: {refused}");
    }
    assert!(!run(&session, "SHOW INDEXES FROM t").await.unwrap().contains("| x "));
    run(&session, "CREATE UNIQUE INDEX by_b ON t (b) NULLS DISTINCT").await.unwrap();
    // Other statements are the engine's.
    assert!(run(&session, "SELECT b FROM t WHERE a = 1").await.unwrap().contains("10"));
    assert!(run(&session, "SELECT nothing FROM t").await.unwrap_err().contains("nothing"));
}

#[tokio::test]
async fn indexes_are_dropped_by_their_names() {
    let session = session().await;
    let query = "SELECT b FROM t WHERE a = 2";
    assert!(plan(&session, query).await.contains("index=a"));
    for (statement, said) in [
        ("DROP INDEX by_a", "index by_a is on datafusion.other.u and on datafusion.public.t: say DROP INDEX by_a ON"),
        ("DROP INDEX nothing", "no index nothing to drop: SHOW INDEXES lists all"),
        ("DROP INDEX b_a ON other.u", "no index b_a to drop"),
        ("DROP INDEX by_a ON nowhere", "no table nowhere"),
        ("DROP INDEX by_a, b_a", "DROP INDEX of 2 indexes: drop one at a time"),
        ("DROP INDEX public.by_a", "give the index's own name, and its table after ON"),
    ] {
        let refused = run(&session, statement).await.expect_err(statement);
        assert!(refused.contains(said), "{statement}: {refused}");
    }
    run(&session, "DROP INDEX by_a ON t").await.unwrap();
    assert!(!plan(&session, query).await.contains("index=a"));
    assert_eq!(rows(&session, query).await.unwrap().len(), 6);
    run(&session, "DROP INDEX BY_A").await.unwrap();
    run(&session, "DROP INDEX IF EXISTS by_a").await.unwrap();
    let again = "INSERT INTO t VALUES (1, 10)";
    assert!(run(&session, again).await.unwrap_err().contains("index b_a is unique"));
    run(&session, "DROP INDEX b_a").await.unwrap();
    run(&session, again).await.unwrap();
    assert_eq!(sql(&session, "SHOW INDEXES").await.unwrap().count().await.unwrap(), 0);
}

#[tokio::test]
async fn indexes_are_shown() {
    let session = session().await;
    let shown = run(&session, "SHOW INDEXES;").await.unwrap();
    let lines: Vec<_> = shown.lines().skip(3).map(|line| line.split('|').map(str::trim).collect::<Vec<_>>()).collect();
    assert_eq!(lines[0][1..5], ["datafusion.other.u", "by_a", "a", "false"], "{shown}");
    assert_eq!(lines[1][1..5], ["datafusion.public.t", "by_a", "a", "false"], "{shown}");
    assert_eq!(lines[2][1..5], ["datafusion.public.t", "b_a", "(b, a)", "true"], "{shown}");
    assert!(lines[..3].iter().all(|line| line[5].parse::<u64>().unwrap() > 0), "{shown}");
    let of_one = run(&session, "SHOW INDEXES FROM other.u").await.unwrap();
    assert!(of_one.contains("by_a") && !of_one.contains("b_a "), "{of_one}");
    assert!(run(&session, "SHOW INDEXES FROM nowhere").await.unwrap_err().contains("no table nowhere"));
    assert!(run(&session, "SHOW INDEXES please").await.unwrap_err().contains("SHOW INDEXES FROM table"));
    assert!(run(&session, "SHOW indexed").await.unwrap_err().contains("SHOW [VARIABLE]"));
}

#[tokio::test]
async fn a_program_adds_what_statements_do() {
    let session = session().await;
    let table = session.table_provider("t").await.unwrap();
    let (table, device) = (table.downcast_ref::<IndexedTable>().unwrap(), Device::host());
    table.add_named_index(&device, "named", &["a", "b"]).unwrap();
    let refused = table.add_unique_index(&device, "only", &["a"]).unwrap_err().to_string();
    assert!(refused.contains("column a has an index, by_a"), "{refused}");
    table.drop_index("by_a").unwrap();
    let refused = table.add_unique_index(&device, "only", &["a"]).unwrap_err().to_string();
    assert!(refused.contains("index only is unique, but 3 rows would have 2 distinct values of a"), "{refused}");
    table.add_unique_index(&device, "only", &["b"]).unwrap();
    let shown = run(&session, "SHOW INDEXES FROM t").await.unwrap();
    assert!(shown.contains("| named | (a, b)  | false") && shown.contains("| only  | b       | true"), "{shown}");
    assert!(run(&session, "INSERT INTO t VALUES (7, 20)").await.unwrap_err().contains("index only is unique"));
}
