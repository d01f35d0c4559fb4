//! An index changes nothing else about its table.

use crate::{config, plan, rows, sorted, with_lookups};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use lanetree_datafusion::IndexedTable;

/// A session with `CREATE INDEX`, and the engine alone.
struct Pair {
    indexed: SessionContext,
    plain: SessionContext,
}

impl Pair {
    fn new() -> Self {
        let state = || SessionStateBuilder::new().with_config(config()).with_default_features();
        Self {
            indexed: SessionContext::new_with_state(with_lookups(state()).build()),
            plain: SessionContext::new_with_state(state().build()),
        }
    }

    /// Runs a statement in both, which must have the same result; only in the first one if it is about an index.
    async fn run(&self, sql: &str) -> Vec<String> {
        let found = sorted(rows(&self.indexed, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")));
        if !sql.contains(" INDEX ") {
            assert_eq!(found, sorted(rows(&self.plain, sql).await.unwrap()), "{sql}");
        }
        found
    }

    async fn run_all(&self, statements: &[&str]) {
        for sql in statements {
            self.run(sql).await;
        }
    }

    /// Both refuse a statement; the error of the session with indexes.
    async fn refused(&self, sql: &str) -> String {
        assert!(rows(&self.plain, sql).await.is_err(), "{sql}");
        rows(&self.indexed, sql).await.expect_err(sql).to_string()
    }
}

const TABLE: &str = "CREATE TABLE t (id INT NOT NULL, v INT DEFAULT 5, name VARCHAR, PRIMARY KEY (id)) \
     AS VALUES (1, 1, 'one'), (2, 2, NULL), (3, NULL, 'three'), (4, 4, 'four')";

#[tokio::test]
async fn columns_keep_their_defaults() {
    let pair = Pair::new();
    pair.run_all(&[
        TABLE,
        "CREATE INDEX ON t (id)",
        "INSERT INTO t (id) VALUES (7)",
        "INSERT INTO t (id, v) VALUES (8, 1)",
    ])
    .await;
    let found = pair.run("SELECT id, v, name FROM t WHERE id = 7").await;
    assert!(found.contains(&"| 7  | 5 |      |".to_owned()), "{found:?}");
    pair.run("SELECT * FROM t").await;
    pair.run_all(&["CREATE TABLE e (id INT NOT NULL, v INT DEFAULT 5)", "CREATE INDEX ON e (id)"]).await;
    pair.run_all(&["INSERT INTO e (id) VALUES (2)", "SELECT * FROM e", "SELECT v FROM e WHERE id = 2"]).await;
}

#[tokio::test]
async fn constraints_are_those_of_the_table() {
    let pair = Pair::new();
    pair.run_all(&[
        TABLE,
        "CREATE TABLE u (k INT, x INT) AS VALUES (1, 10), (1, 20), (3, 30)",
        "CREATE INDEX ON t (id)",
        // `name` is not grouped by, but depends on the primary key.
        "SELECT id, name, count(*) FROM t GROUP BY id",
        "SELECT id, name, sum(x) FROM t JOIN u ON k = id GROUP BY id",
    ])
    .await;
    pair.refused("SELECT v, name FROM t GROUP BY v").await;
}

#[tokio::test]
async fn plans_made_before_the_index_see_the_rows_after_it() {
    let pair = Pair::new();
    pair.run_all(&[
        TABLE,
        "CREATE TABLE probes (k INT) AS VALUES (2), (9)",
        "CREATE VIEW w AS SELECT * FROM t WHERE id > 1",
        "CREATE VIEW of_view AS SELECT count(*) AS c FROM w WHERE v IN (SELECT v FROM t)",
        "PREPARE chosen(INT) AS SELECT * FROM t WHERE id > $1",
        "PREPARE added(INT) AS INSERT INTO t (id, name) VALUES ($1, 'prepared')",
        "PREPARE removed(INT) AS DELETE FROM t WHERE id = $1",
    ])
    .await;
    let frames = [pair.indexed.table("t").await.unwrap(), pair.plain.table("t").await.unwrap()];
    pair.run_all(&["CREATE INDEX ON t (id)", "CREATE INDEX ON probes (k)", "INSERT INTO probes VALUES (3)"]).await;
    let queries = [
        "SELECT * FROM w",
        "SELECT * FROM of_view",
        "SELECT * FROM t",
        "EXECUTE chosen(2)",
        "SELECT w.name FROM w JOIN probes ON w.id = probes.k",
    ];
    for change in [
        "INSERT INTO t VALUES (9, 9, 'nine')",
        "EXECUTE added(10)",
        "EXECUTE removed(2)",
        "UPDATE t SET v = v + 1 WHERE id > 2",
        "DELETE FROM t WHERE id = 3",
    ] {
        pair.run(change).await;
        pair.run_all(&queries).await;
        let [indexed, plain] = frames.clone();
        assert_eq!(indexed.count().await.unwrap(), plain.count().await.unwrap(), "{change}");
    }
    // They go through the index.
    assert!(plan(&pair.indexed, "SELECT * FROM w").await.contains("index=id"));
    // Without the index, too.
    let table = pair.indexed.table_provider("t").await.unwrap();
    table.downcast_ref::<IndexedTable>().unwrap().drop_index("id").unwrap();
    pair.run("INSERT INTO t VALUES (11, 11, 'eleven')").await;
    pair.run_all(&queries).await;
    // And without the table, as long as there is a view of it.
    pair.run("DROP TABLE t").await;
    pair.run_all(&["SELECT * FROM w", "EXECUTE added(12)", "SELECT * FROM of_view", "EXECUTE chosen(0)"]).await;
}

#[tokio::test]
async fn views_over_table_functions_see_new_probes() {
    let session = Pair::new().indexed;
    for sql in [
        "CREATE TABLE prices AS SELECT column1 AS since, column2 AS price FROM (VALUES (100, 7), (200, 8))",
        "CREATE INDEX ON prices (since)",
        "CREATE TABLE orders AS SELECT column1 AS placed FROM (VALUES (150))",
        "CREATE VIEW priced AS SELECT price FROM as_of('orders', 'placed', 'prices', 'since')",
        "CREATE INDEX ON orders (placed)",
        "INSERT INTO orders VALUES (250)",
        "INSERT INTO prices VALUES (240, 9)",
    ] {
        rows(&session, sql).await.unwrap();
    }
    let found = rows(&session, "SELECT * FROM priced ORDER BY price").await.unwrap();
    assert_eq!(found[3..5], ["| 7     |", "| 9     |"]);
}

#[tokio::test]
async fn indexes_created_at_the_same_time_are_of_one_table() {
    let pair = Pair::new();
    pair.run_all(&[TABLE, "CREATE VIEW w AS SELECT * FROM t"]).await;
    let mut plans = Vec::new();
    for column in ["id", "v"] {
        let frame = pair.indexed.sql(&format!("CREATE INDEX ON t ({column})")).await.unwrap();
        plans.push(frame.create_physical_plan().await.unwrap());
    }
    for plan in plans {
        collect(plan, pair.indexed.task_ctx()).await.unwrap();
    }
    pair.run_all(&["INSERT INTO t VALUES (9, 9, 'nine')", "SELECT * FROM t", "SELECT * FROM w"]).await;
    let table = pair.indexed.table_provider("t").await.unwrap();
    assert_eq!(table.downcast_ref::<IndexedTable>().unwrap().indexed_columns(), ["id", "v"]);

    let late = pair.indexed.sql("CREATE INDEX ON u (k)");
    assert!(late.await.is_err());
    rows(&pair.indexed, "CREATE TABLE u (k INT) AS VALUES (1)").await.unwrap();
    let late = pair.indexed.sql("CREATE INDEX ON u (k)").await.unwrap().create_physical_plan().await.unwrap();
    rows(&pair.indexed, "CREATE OR REPLACE TABLE u (k INT) AS VALUES (2)").await.unwrap();
    let refused = collect(late, pair.indexed.task_ctx()).await.unwrap_err().to_string();
    assert!(refused.contains("table u was dropped or replaced since CREATE INDEX was planned"), "{refused}");
    assert_eq!(rows(&pair.indexed, "SELECT k FROM u").await.unwrap()[3], "| 2 |");
}

#[tokio::test]
async fn a_table_of_two_names_is_one_table() {
    let session = Pair::new().indexed;
    rows(&session, TABLE).await.unwrap();
    let table = session.table_provider("t").await.unwrap();
    session.register_table("other", table).unwrap();
    for sql in ["CREATE INDEX ON t (id)", "CREATE INDEX ON other (v)", "INSERT INTO other VALUES (9, 9, 'nine')"] {
        rows(&session, sql).await.unwrap();
    }
    for name in ["t", "other"] {
        let sql = format!("SELECT name FROM {name} WHERE v = 9");
        assert!(plan(&session, &sql).await.contains("index=v"));
        assert_eq!(rows(&session, &sql).await.unwrap()[3], "| nine |");
        let shown = lanetree_datafusion::sql(&session, &format!("SHOW INDEXES FROM {name}")).await.unwrap();
        assert_eq!(shown.count().await.unwrap(), 2);
        let nearest = format!("SELECT other_name FROM as_of('t', 'id', '{name}', 'id') WHERE id = 9");
        let nearest = rows(&session, &nearest.replace("other_name", &format!("{name}_name"))).await.unwrap();
        assert_eq!(nearest[3].trim_matches(['|', ' ']), "nine");
    }
}
