//! The choice between a look-up and a hash join.

use crate::{config, plan, rows, sorted, table};
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::{Costs, IndexedTable, with_index_lookups_on};
use std::sync::Arc;

/// `few` with 10 rows, `many` with 1000, and `i` with 100.
fn session(costs: Costs) -> SessionContext {
    let state = SessionStateBuilder::new().with_config(config()).with_default_features();
    let session = SessionContext::new_with_state(with_index_lookups_on(state, &Device::best(), costs).build());
    for (name, rows) in [("few", 10), ("many", 1000)] {
        let keys: Vec<_> = (0..rows).map(|key| Some(key % 100)).collect();
        let (schema, batches) = table(&keys, &DataType::Int64, true);
        session.register_table(name, Arc::new(MemTable::try_new(schema, vec![batches]).unwrap())).unwrap();
    }
    let (schema, batches) = table(&(0..100).map(Some).collect::<Vec<_>>(), &DataType::Int64, true);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed)).unwrap();
    session
}

#[tokio::test]
async fn the_join_that_costs_less_is_chosen_and_explained() {
    // A look-up is as dear as five rows of a hash join.
    let session = session(Costs {
        batch: 0.0,
        look_up: [500_000.0; 4],
        build: 0.0,
        hash: [100_000.0; 4],
        pair: 20_000.0,
        ..Costs::ALWAYS
    });
    let (few, many) = ("SELECT * FROM few JOIN i ON few.k = i.k", "SELECT * FROM many JOIN i ON many.k = i.k");
    let explained = plan(&session, few).await;
    assert!(explained.contains("cost=5.000 ms, hash_join_cost=10.000 ms"), "{explained}");
    let explained = plan(&session, many).await;
    assert!(explained.contains("HashJoinExec") && !explained.contains("IndexLookupExec"), "{explained}");
    assert!(explained.contains("not looked up: cost=500.000 ms, hash_join_cost=100.000 ms"), "{explained}");
    let explained = plan(&session, "SELECT * FROM few JOIN i ON i.k BETWEEN few.k AND few.k + 1").await;
    assert!(explained.contains("cost=10.000 ms, nested_loop_cost=20.000 ms"), "{explained}");
    assert_eq!(rows(&session, many).await.unwrap().len(), 1004);
    assert_eq!(rows(&session, few).await.unwrap().len(), 14);
}

#[tokio::test]
async fn joins_cost_what_their_pairs_do() {
    let session = session(Costs { row: [1000.0; 4], hash_row: 100.0, ..Costs::ALWAYS });
    rows(&session, "CREATE INDEX ON many (k)").await.unwrap();
    // Ten rows for each of ten probes: 90 more than one for each, but no more than the hash join has rows.
    let explained = plan(&session, "SELECT few.a, many.a FROM few JOIN many ON few.k = many.k").await;
    assert!(explained.contains("not looked up: cost=0.090 ms, hash_join_cost=0.000 ms"), "{explained}");
    let explained = plan(&session, "SELECT a.a FROM many AS a JOIN many AS b ON a.k = b.k").await;
    assert!(explained.contains("not looked up: cost=9.000 ms, hash_join_cost=0.900 ms"), "{explained}");
    let explained = plan(&session, "SELECT * FROM few WHERE k IN (SELECT k FROM many)").await;
    assert!(explained.contains("cost=0.000 ms, hash_join_cost=0.000 ms"), "{explained}");
}

#[tokio::test]
async fn both_choices_have_the_same_results() {
    let never = Costs { batch: 1e12, ..Costs::ALWAYS };
    for sql in ["SELECT * FROM many LEFT JOIN i ON many.k = i.k", "SELECT * FROM i JOIN i AS j ON i.k = j.k"] {
        let (look_up, hash_join) = (session(Costs::ALWAYS), session(never));
        assert!(plan(&look_up, sql).await.contains("IndexLookupExec"));
        let explained = plan(&hash_join, sql).await;
        assert!(!explained.contains("IndexLookupExec") && explained.contains("not looked up"), "{explained}");
        assert_eq!(sorted(rows(&look_up, sql).await.unwrap()), sorted(rows(&hash_join, sql).await.unwrap()));
    }
}

#[tokio::test]
async fn a_condition_that_most_rows_meet_goes_through_no_index() {
    let never = Costs { read: 10.0, scan: 1.0, ..Costs::ALWAYS };
    let (costs, always) = (session(never), session(Costs::ALWAYS));
    for (sql, is_by_index) in [
        ("SELECT * FROM i WHERE k < 10", true),
        ("SELECT * FROM i WHERE k < 90", false),
        ("SELECT s FROM i WHERE k < 90 AND a % 3 = 0", false),
        ("SELECT count(*), sum(a) FROM i WHERE k BETWEEN 5 AND 80", false),
        ("SELECT few.a, x.s FROM few JOIN (SELECT * FROM i WHERE k > 3) AS x ON few.k = x.k", false),
        ("SELECT k, a FROM i WHERE k < 90 ORDER BY a LIMIT 3", false),
        // (Filters do not hand on that an order is wanted backwards.)
        ("SELECT k FROM i WHERE k < 90 AND a % 3 = 0 ORDER BY k DESC LIMIT 3", false),
        // They are read in their order, or only the first ones.
        ("SELECT k FROM i WHERE k < 90 AND a % 3 = 0 ORDER BY k LIMIT 3", true),
        ("SELECT k FROM i WHERE k < 90 ORDER BY k", true),
        ("SELECT k, a + 1 FROM i WHERE k < 90 ORDER BY k DESC LIMIT 3", true),
        ("SELECT k, row_number() OVER (ORDER BY k) FROM i WHERE k < 90", true),
        ("SELECT k FROM i WHERE k < 90 LIMIT 20", true),
    ] {
        let explained = plan(&costs, sql).await;
        assert_eq!(explained.contains("index=k"), is_by_index, "{sql}\n{explained}");
        assert!(plan(&always, sql).await.contains("index=k"));
        // The other conditions are one filter with those of the index, and are tried after them.
        let is_one_filter = explained.matches("FilterExec").count() == 1 && explained.contains(" < 90 AND a@");
        assert!(is_by_index || !sql.contains("a % 3") || is_one_filter, "{explained}");
        assert_eq!(sorted(rows(&costs, sql).await.unwrap()), sorted(rows(&always, sql).await.unwrap()), "{sql}");
    }
}

#[tokio::test]
async fn pairs_of_a_key_that_all_rows_have_take_no_memory() {
    // Room for the rows and the index, and not for six million pairs.
    let runtime =
        RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(4 << 20))).build_arc().unwrap();
    let state = SessionStateBuilder::new().with_config(config()).with_runtime_env(runtime).with_default_features();
    let state = with_index_lookups_on(state, &Device::best(), Costs::default()).build();
    let session = SessionContext::new_with_state(state);
    for (name, rows) in [("few", 300), ("h", 20_000)] {
        let (schema, batches) = table(&vec![Some(0); rows], &DataType::Int64, true);
        session.register_table(name, Arc::new(MemTable::try_new(schema, vec![batches]).unwrap())).unwrap();
    }
    rows(&session, "CREATE INDEX ON h (k)").await.unwrap();
    for (sql, expected) in [
        ("SELECT count(*) FROM few JOIN h ON few.k = h.k", "| 6000000  |"),
        ("SELECT count(*) FROM few LEFT JOIN h ON few.a % 2 = h.k", "| 3000150  |"),
        ("SELECT count(*) FROM (SELECT 1 FROM few JOIN h ON few.k = h.k LIMIT 12345)", "| 12345    |"),
        ("SELECT sum(h.a) AS s FROM few JOIN h ON few.k = h.k", "| 59997000000 |"),
    ] {
        assert!(plan(&session, sql).await.contains("IndexLookupExec"), "{sql}");
        assert_eq!(rows(&session, sql).await.unwrap()[3], expected, "{sql}");
    }
    // A row that is removed is not counted.
    rows(&session, "DELETE FROM h WHERE a = 77").await.unwrap();
    let counted = rows(&session, "SELECT count(*) FROM few JOIN h ON few.k = h.k").await.unwrap();
    assert_eq!(counted[3], "| 5999700  |");
}
