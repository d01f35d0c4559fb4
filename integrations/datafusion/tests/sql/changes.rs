//! `CREATE INDEX` and `INSERT INTO`.

use crate::{Sessions, config, distinct, keys, plan, rows, sorted, table, with_lookups};
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::IndexedTable;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::sync::Arc;

/// Runs a statement; its error as text.
async fn run(session: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    rows(session, sql).await.map_err(|error| error.to_string())
}

async fn error(session: &SessionContext, sql: &str) -> String {
    run(session, sql).await.expect_err(sql)
}

fn session() -> SessionContext {
    let state = SessionStateBuilder::new().with_config(config()).with_default_features();
    SessionContext::new_with_state(with_lookups(state).build())
}

#[tokio::test]
async fn inserted_rows_are_found_by_filters_and_joins() {
    let sessions = Sessions::with_tables(70, &DataType::Int64);
    for insert in [
        "INSERT INTO i VALUES (900, 12, 'new'), (901, 77, NULL), (902, NULL, 'null'), (903, 77, 'again')",
        "INSERT INTO i SELECT a + 1000, k, s FROM t WHERE k < 20",
        "INSERT INTO i SELECT a + 5000, k + 1, s FROM i",
        "INSERT INTO i SELECT * FROM i WHERE k = 100000",
    ] {
        // Two of the sessions have one table.
        let inserted = rows(&sessions.lookups, insert).await.unwrap();
        assert_eq!(inserted, rows(&sessions.plain, insert).await.unwrap(), "{insert}");
        let plan = sessions.check("SELECT * FROM i WHERE k BETWEEN 5 AND 80").await;
        assert!(plan.contains("filters=["), "{plan}");
        sessions.check("SELECT * FROM i").await;
        let plan = sessions.check("SELECT * FROM t LEFT JOIN i ON t.k = i.k").await;
        assert!(plan.contains("IndexLookupExec"), "{plan}");
        sessions.check("SELECT count(*) FROM i WHERE k = 77").await;
    }
}

#[tokio::test]
async fn a_dropped_index_is_asked_nothing_and_leaves_the_rows() {
    let session = session();
    let (schema, batches) = table(&[Some(1), Some(2), Some(2)], &DataType::Int64, true);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed.clone())).unwrap();
    run(&session, "CREATE INDEX by_a ON i (a)").await.unwrap();
    let sql = "SELECT a FROM i WHERE k = 2 ORDER BY a";
    let before = run(&session, sql).await.unwrap();
    assert!(plan(&session, sql).await.contains("index=k"));
    indexed.drop_index("k").unwrap();
    assert!(!plan(&session, sql).await.contains("index=k"));
    assert_eq!(run(&session, sql).await.unwrap(), before);
    assert_eq!(indexed.indexed_columns(), ["a"]);
    let again = indexed.drop_index("k").unwrap_err().to_string();
    assert!(again.contains("no index k to drop: choose one of by_a"), "{again}");
    run(&session, "CREATE INDEX k ON i (k)").await.unwrap();
    assert!(plan(&session, sql).await.contains("index=k"));
}

#[tokio::test]
async fn an_overwrite_leaves_the_new_rows_alone() {
    let session = session();
    let (schema, batches) = table(&[Some(1), Some(2)], &DataType::Int64, true);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed.clone())).unwrap();
    run(&session, "INSERT OVERWRITE i SELECT 5, 3, 'x'").await.unwrap();
    assert_eq!((indexed.len(), indexed.index("k").unwrap().unwrap().len()), (1, 1));
    assert_eq!(run(&session, "SELECT a FROM i WHERE k >= 0").await.unwrap()[3], "| 5 |");
    run(&session, "INSERT OVERWRITE i SELECT * FROM i WHERE k = 4").await.unwrap();
    assert_eq!(indexed.index("k").unwrap().unwrap().len(), 0);
    assert!(error(&session, "REPLACE INTO i VALUES (1, 1, 'x')").await.contains("REPLACE INTO"));
}

#[tokio::test]
async fn an_insert_that_fails_changes_nothing() {
    let session = session();
    let (schema, batches) = table(&[Some(1), Some(2)], &DataType::Int64, false);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed.clone())).unwrap();
    let before = indexed.rows().unwrap();
    error(&session, "INSERT INTO i SELECT 1, CASE WHEN a > 0 THEN NULL ELSE 5 END, s FROM i").await;
    error(&session, "INSERT INTO i SELECT 1, 1 / (a - 1), s FROM i").await;
    assert_eq!(indexed.rows().unwrap(), before);
    run(&session, "CREATE UNIQUE INDEX one ON i (a)").await.unwrap();
    let refused = error(&session, "INSERT INTO i VALUES (50, 9, 'x'), (50, 10, 'y')").await;
    assert!(refused.contains("index one is unique, but 4 rows would have 3 distinct values of a"), "{refused}");
    assert_eq!((indexed.rows().unwrap(), indexed.index("a").unwrap().unwrap().len()), (before, 2));
    run(&session, "INSERT INTO i VALUES (50, 9, 'x'), (51, 9, 'y')").await.unwrap();
    assert_eq!(indexed.index("a").unwrap().unwrap().len(), 4);
}

#[tokio::test]
async fn a_query_sees_the_table_as_it_was_planned() {
    let session = session();
    let (schema, batches) = table(&[Some(1), Some(2)], &DataType::Int64, true);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed)).unwrap();
    let planned = session.sql("SELECT * FROM i WHERE k >= 0").await.unwrap().create_physical_plan().await.unwrap();
    run(&session, "INSERT INTO i VALUES (7, 7, 'x')").await.unwrap();
    let read = datafusion::physical_plan::collect(planned, session.task_ctx()).await.unwrap();
    assert_eq!(read.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    assert_eq!(run(&session, "SELECT a FROM i WHERE k = 7").await.unwrap()[3], "| 7 |");
}

#[tokio::test]
async fn inserts_at_the_same_time_are_all_there() {
    let session = session();
    let (schema, batches) = table(&[], &DataType::Int64, true);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed.clone())).unwrap();
    let inserts = (0..20).map(|key| {
        let session = session.clone();
        async move { run(&session, &format!("INSERT INTO i VALUES ({key}, {key}, 'x')")).await.unwrap() }
    });
    futures::future::join_all(inserts).await;
    assert_eq!((indexed.len(), indexed.index("k").unwrap().unwrap().keys_len()), (20, 20));
}

#[tokio::test]
async fn create_index_indexes_a_table_of_the_engines_own() {
    let sessions = Sessions::new();
    let mut rng = StdRng::seed_from_u64(71);
    sessions.plain_table("t", table(&keys(&mut rng, 60, 50, 0.1), &DataType::Int64, true));
    sessions.plain_table("i", table(&distinct(&mut rng, 50, 2), &DataType::Int64, true));
    let session = &sessions.lookups;
    let join = "SELECT * FROM t JOIN i ON t.k = i.k";
    assert!(!plan(session, join).await.contains("IndexLookupExec"));
    run(session, "CREATE INDEX by_k ON i (k)").await.unwrap();
    assert!(sessions.check(join).await.contains("IndexLookupExec"));
    assert!(sessions.check("SELECT * FROM i WHERE k < 20").await.contains("index=k"));
    // Another one, of strings, in full and by its name.
    run(session, "CREATE INDEX IF NOT EXISTS by_s ON datafusion.public.i USING lanetree (s ASC)").await.unwrap();
    run(session, "CREATE INDEX IF NOT EXISTS by_s ON i (s)").await.unwrap();
    assert!(sessions.check("SELECT * FROM i WHERE s > 'row 3'").await.contains("index=s"));
    assert!(sessions.check("SELECT t.a FROM t JOIN i ON t.s = i.s").await.contains("index=s"));
    // The one that finds fewer rows is asked, and the other filters are tried on those.
    for columns in ["*", "a", "s", "s, a", "count(*)"] {
        let sql = format!("SELECT {columns} FROM i WHERE k < 40 AND s = 'row 13'");
        let plan = sessions.check(&sql).await;
        assert!(plan.contains("FilterExec: k@") && plan.contains("index=s"), "{sql}\n{plan}");
        sessions.check(&format!("SELECT {columns} FROM i WHERE k = 5 AND s > 'row 1' AND a > 3")).await;
    }
    sessions.check("SELECT a FROM i WHERE k < 40 AND s > 'row 2' ORDER BY a LIMIT 3").await;
}

#[tokio::test]
async fn create_index_says_what_is_wrong() {
    let sessions = Sessions::with_tables(72, &DataType::Int64);
    let session = &sessions.lookups;
    run(session, "CREATE VIEW v AS SELECT * FROM t").await.unwrap();
    run(session, "CREATE TABLE flags AS SELECT true AS f").await.unwrap();
    run(session, "CREATE TABLE floats AS SELECT 1.5::double AS f").await.unwrap();
    for (sql, said) in [
        ("CREATE INDEX x ON t USING hash (k)", "no indexes of kind hash: say USING lanetree"),
        ("CREATE INDEX x ON t (k, k)", "column k is twice in the index"),
        ("CREATE INDEX x ON t (k, s)", "s is Utf8, which can't be in an index on several columns"),
        ("CREATE INDEX x ON t (k + 1)", "give the name of a column"),
        ("CREATE INDEX x ON t (k DESC)", "leave out DESC"),
        ("CREATE INDEX x ON v (k)", "v is a view"),
        ("CREATE INDEX x ON nowhere (k)", "nowhere"),
        ("CREATE INDEX x ON t (nothing)", "nothing"),
        ("CREATE INDEX k ON i (a)", "there is an index k: choose another name"),
        ("CREATE INDEX x ON i (k)", "column k has an index, k: one is enough"),
        ("CREATE UNIQUE INDEX x ON t (k)", "index x is unique, but"),
        ("CREATE INDEX x ON flags (f)", "a column of type Boolean can't be indexed"),
        ("CREATE INDEX x ON floats (f)", "column f is Float64, and no index has SQL's order of floats"),
    ] {
        let found = error(session, sql).await;
        assert!(found.contains(said), "{sql}: {found}");
    }
    // They are what they were.
    for sql in ["SELECT * FROM t", "SELECT * FROM i", "SELECT * FROM flags"] {
        assert!(run(session, sql).await.is_ok(), "{sql}");
    }
}

#[tokio::test]
async fn rows_to_insert_are_in_the_memory_pool() {
    let pool = Arc::new(GreedyMemoryPool::new(64 << 10));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let state = SessionStateBuilder::new().with_config(config()).with_runtime_env(runtime).with_default_features();
    let session = SessionContext::new_with_state(with_lookups(state).build());
    let (schema, batches) = table(&vec![Some(1); 20_000], &DataType::Int64, true);
    session.register_table("t", Arc::new(MemTable::try_new(schema.clone(), vec![batches]).unwrap())).unwrap();
    let indexed = IndexedTable::new(&Device::best(), schema, &[], "k").unwrap();
    session.register_table("i", Arc::new(indexed.clone())).unwrap();
    let refused = error(&session, "INSERT INTO i SELECT * FROM t").await;
    assert!(refused.contains("rows to insert"), "{refused}");
    assert_eq!(indexed.len(), 0);
    let refused = error(&session, "CREATE INDEX x ON t (k)").await;
    assert!(refused.contains("CREATE INDEX"), "{refused}");
    assert_eq!(sorted(rows(&session, "SELECT count(*) FROM t").await.unwrap())[3], "| 20000    |");
}
