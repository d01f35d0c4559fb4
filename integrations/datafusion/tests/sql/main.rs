//! SQL over indexed tables against the same SQL over DataFusion's own tables in memory.

mod changes;
mod choice;
mod composite;
mod distinct;
mod dml;
mod functions;
mod order;
mod partial;
mod parts;
mod random;
mod saved;
mod slt;
mod small_changes;
mod statements;
mod tpch;
mod unchanged;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Float32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::TableProvider;
use datafusion::common::stats::Precision;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use lanetree::{Device, DeviceKind};
use lanetree_datafusion::{Costs, IndexedTable, with_index_lookups_on};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

/// Columns `k`, of a type, and `a` and `s`, in batches.
fn table(keys: &[Option<i64>], data_type: &DataType, nullable: bool) -> (Arc<Schema>, Vec<RecordBatch>) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("k", data_type.clone(), nullable),
        Field::new("s", DataType::Utf8, true),
    ]));
    let batch = |(at, keys): (usize, &[Option<i64>])| {
        let rows = at as i64 * 10..at as i64 * 10 + keys.len() as i64;
        let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        let names: StringArray = rows.clone().map(|row| (row % 4 != 0).then(|| format!("row {row}"))).collect();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from_iter_values(rows)), cast(&keys, data_type).unwrap(), Arc::new(names)];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let batches = keys.chunks(10).enumerate().map(batch).collect();
    (schema, batches)
}

fn keys(rng: &mut StdRng, len: usize, span: i64, nulls: f64) -> Vec<Option<i64>> {
    (0..len).map(|_| (!rng.random_bool(nulls)).then(|| rng.random_range(0..span))).collect()
}

/// Of each number below `span` one at most.
fn distinct(rng: &mut StdRng, span: i64, nulls: usize) -> Vec<Option<i64>> {
    let mut keys: Vec<_> =
        (0..span).filter(|_| rng.random_bool(0.7)).map(Some).chain((0..nulls).map(|_| None)).collect();
    for at in 0..keys.len() {
        let other = rng.random_range(0..keys.len());
        keys.swap(at, other);
    }
    keys
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(3).with_batch_size(8)
}

/// With each join that can be one a look-up: these tables are too small for the costs.
fn with_lookups(builder: SessionStateBuilder) -> SessionStateBuilder {
    with_index_lookups_on(builder, &Device::best(), Costs::ALWAYS)
}

/// Sessions with the same tables `t`, `i` and `j`: with indexes and look-ups, with indexes alone, and with neither.
struct Sessions {
    lookups: SessionContext,
    indexes: SessionContext,
    plain: SessionContext,
}

impl Sessions {
    fn new() -> Self {
        let state = || SessionStateBuilder::new().with_config(config()).with_default_features();
        Self {
            lookups: SessionContext::new_with_state(with_lookups(state()).build()),
            indexes: SessionContext::new_with_state(state().build()),
            plain: SessionContext::new_with_state(state().build()),
        }
    }

    fn plain_table(&self, name: &str, (schema, batches): (Arc<Schema>, Vec<RecordBatch>)) {
        for session in [&self.lookups, &self.indexes, &self.plain] {
            let table = MemTable::try_new(schema.clone(), vec![batches.clone()]).unwrap();
            session.register_table(name, Arc::new(table)).unwrap();
        }
    }

    fn indexed_table(&self, name: &str, (schema, batches): (Arc<Schema>, Vec<RecordBatch>)) {
        let indexed = Arc::new(IndexedTable::new(&Device::best(), schema.clone(), &batches, "k").unwrap());
        self.lookups.register_table(name, indexed.clone()).unwrap();
        self.indexes.register_table(name, indexed).unwrap();
        let plain = MemTable::try_new(schema, vec![batches]).unwrap();
        self.plain.register_table(name, Arc::new(plain)).unwrap();
    }

    /// `t` is not indexed; `i` has distinct keys, `j` has not.
    fn with_tables(seed: u64, data_type: &DataType) -> Self {
        let (sessions, mut rng) = (Self::new(), StdRng::seed_from_u64(seed));
        sessions.plain_table("t", table(&keys(&mut rng, 90, 60, 0.1), data_type, true));
        sessions.indexed_table("i", table(&distinct(&mut rng, 50, 2), data_type, true));
        sessions.indexed_table("j", table(&keys(&mut rng, 70, 40, 0.1), data_type, true));
        sessions
    }

    /// Runs a query in all sessions, whose results must be equal; returns the plan of the first.
    async fn check(&self, sql: &str) -> String {
        let mut results = Vec::new();
        for session in [&self.lookups, &self.indexes, &self.plain] {
            let rows = rows(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            results.push(if sql.contains("ORDER BY") { rows } else { sorted(rows) });
        }
        let plan = plan(&self.lookups, sql).await;
        assert_eq!(results[0], results[2], "{sql}\n{plan}");
        assert_eq!(results[1], results[2], "{sql}");
        plan
    }
}

async fn rows(session: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = session.sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string().lines().map(str::to_owned).collect())
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

async fn plan(session: &SessionContext, sql: &str) -> String {
    rows(session, &format!("EXPLAIN FORMAT INDENT {sql}")).await.unwrap().join("\n")
}

fn types() -> [DataType; 9] {
    [
        DataType::Int64,
        DataType::Int32,
        DataType::UInt64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Millisecond, Some("+01:00".into())),
        DataType::Decimal128(20, 2),
        DataType::Utf8,
        DataType::Utf8View,
        DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()),
    ]
}

/// Joins that are look-ups, `i` in place of the index.
const LOOKUPS: [&str; 16] = [
    "SELECT * FROM t JOIN i ON t.k = i.k",
    "SELECT * FROM i JOIN t ON t.k = i.k",
    "SELECT i.s, t.s FROM t JOIN i ON t.k = i.k WHERE t.a > 30",
    "SELECT * FROM t LEFT JOIN i ON t.k = i.k",
    "SELECT t.a, i.a FROM t LEFT JOIN i ON t.k = i.k WHERE t.a < 50",
    "SELECT * FROM i RIGHT JOIN t ON t.k = i.k",
    "SELECT i.a FROM i RIGHT JOIN t ON t.k = i.k",
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM i WHERE i.k = t.k)",
    "SELECT a FROM t WHERE k IN (SELECT k FROM i)",
    "SELECT s FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.k = t.k)",
    "SELECT * FROM t LEFT ANTI JOIN i ON i.k = t.k",
    "SELECT * FROM i RIGHT SEMI JOIN t ON i.k = t.k",
    "SELECT count(*) FROM t JOIN i ON t.k = i.k",
    "SELECT t.s, count(*), sum(i.a) FROM t LEFT JOIN i ON t.k = i.k GROUP BY t.s",
    "SELECT t.a, i.a FROM t JOIN i ON t.k = i.k ORDER BY t.a DESC, i.a LIMIT 7",
    "SELECT t.a, i.a, z.a FROM t JOIN i ON t.k = i.k JOIN i AS z ON t.k = z.k WHERE t.a < 60",
];

/// Joins that are look-ups and something else: with a filter of their pairs, or a choice of distinct probes.
const MORE_LOOKUPS: [&str; 21] = [
    "SELECT * FROM i WHERE EXISTS (SELECT 1 FROM t WHERE i.k = t.k)",
    "SELECT a, s FROM i WHERE k IN (SELECT k FROM t WHERE a > 20)",
    "SELECT s FROM i WHERE k IN (SELECT k + 1 FROM t)",
    "SELECT * FROM t RIGHT SEMI JOIN i ON i.k = t.k",
    "SELECT count(*), sum(a) FROM i WHERE k IN (SELECT k FROM t)",
    "SELECT * FROM t JOIN i ON t.k = i.k AND t.a = i.a",
    "SELECT * FROM t JOIN i ON t.k = i.k AND t.a < i.a",
    "SELECT i.s, t.a FROM i JOIN t ON t.k = i.k AND t.a + i.a > 50 AND t.s <> i.s",
    "SELECT count(*) FROM t JOIN i ON t.k = i.k AND t.s = i.s",
    "SELECT t.a FROM t JOIN i ON t.k = i.k AND t.a < i.a",
    "SELECT i.k, i.a FROM i JOIN t ON t.k = i.k AND t.a <= i.a AND i.s > t.s",
    "SELECT t.a FROM t JOIN i ON t.k = i.k WHERE t.a < i.a OR i.s IS NULL",
    "SELECT * FROM t LEFT JOIN i ON t.k = i.k AND t.a < i.a",
    "SELECT * FROM t LEFT JOIN i ON t.k = i.k AND t.a = i.a",
    "SELECT i.s, t.a FROM i RIGHT JOIN t ON t.k = i.k AND t.a + i.a > 50 AND t.s <> i.s",
    "SELECT t.a, i.a FROM t LEFT JOIN i ON t.k = i.k AND t.a < i.a ORDER BY t.a DESC, i.a LIMIT 7",
    // (Other rows have no quotient.)
    "SELECT t.a, i.a FROM t LEFT JOIN (SELECT * FROM i WHERE a % 2 = 1) AS i ON t.k = i.k AND t.a / (i.a % 2) > i.a",
    "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE t.k = i.k AND t.a < i.a)",
    "SELECT count(*), sum(a) FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE t.k = i.k AND (t.a + i.a) % 3 = 0)",
    "SELECT s FROM t WHERE EXISTS (SELECT 1 FROM i WHERE t.k = i.k AND t.a <= i.a AND t.s <> i.s)",
    "SELECT * FROM i RIGHT SEMI JOIN t ON i.k = t.k AND i.a > t.a",
];

/// Joins that are not.
const OTHERS: [&str; 9] = [
    "SELECT * FROM i LEFT JOIN t ON t.k = i.k",
    "SELECT * FROM t RIGHT JOIN i ON t.k = i.k",
    "SELECT * FROM t FULL JOIN i ON t.k = i.k",
    "SELECT * FROM i WHERE NOT EXISTS (SELECT 1 FROM t WHERE i.k = t.k)",
    // (There are nulls in `i`.)
    "SELECT * FROM t WHERE k NOT IN (SELECT k FROM i)",
    "SELECT * FROM t WHERE k NOT IN (SELECT k FROM i WHERE k IS NOT NULL)",
    "SELECT * FROM i WHERE EXISTS (SELECT 1 FROM t WHERE t.k = i.k AND t.a < i.a)",
    "SELECT * FROM t JOIN i ON t.a = i.a",
    "SELECT * FROM t JOIN i ON t.k IS NOT DISTINCT FROM i.k",
];

#[tokio::test]
async fn joins_have_the_results_of_hash_joins() {
    for (seed, data_type) in types().iter().enumerate() {
        let sessions = Sessions::with_tables(seed as u64, data_type);
        // Plans take most of the time, and are the same for all types.
        let (step, others) = if *data_type == DataType::Int64 { (1, &OTHERS[..]) } else { (3, &[][..]) };
        for index in ["i", "j"] {
            let name = |sql: &&str| sql.replace(" i ", &format!(" {index} ")).replace("i.", &format!("{index}."));
            for sql in LOOKUPS.iter().step_by(step).map(name) {
                let plan = sessions.check(&sql).await;
                assert!(plan.contains("IndexLookupExec") && !plan.contains("HashJoinExec: "), "{sql}\n{plan}");
            }
            for sql in others.iter().map(name) {
                let plan = sessions.check(&sql).await;
                assert!(!plan.contains("IndexLookupExec"), "{sql}\n{plan}");
            }
            for sql in MORE_LOOKUPS.iter().filter(|sql| step == 1 || !sql.contains('+')).step_by(step).map(name) {
                let plan = sessions.check(&sql).await;
                assert!(plan.contains("IndexLookupExec") && !plan.contains("HashJoinExec: "), "{sql}\n{plan}");
            }
        }
    }
}

/// Joins by ranges of numbers that are look-ups.
const RANGES: [&str; 15] = [
    "SELECT * FROM t JOIN i ON i.k BETWEEN t.k - 3 AND t.k + 2",
    "SELECT i.s, t.a FROM i JOIN t ON t.k + 2 >= i.k AND i.k >= t.k - 3",
    "SELECT * FROM t LEFT JOIN i ON i.k BETWEEN t.k - 1 AND t.k + t.a / 10",
    "SELECT i.a, t.k FROM i RIGHT JOIN t ON i.k <= t.k + 3 AND i.k >= t.k",
    "SELECT * FROM t LEFT JOIN i ON i.k BETWEEN t.k + 1 AND t.k - 1",
    "SELECT count(*), sum(i.a) FROM t JOIN i ON i.k BETWEEN t.a - 5 AND t.a + 5",
    "SELECT t.a, i.a FROM t JOIN i ON i.k BETWEEN t.k AND t.k + 9 ORDER BY t.a DESC, i.a LIMIT 7",
    "SELECT * FROM t JOIN i ON i.k > t.k AND i.k <= t.k + 2",
    "SELECT i.s FROM t JOIN i ON i.k > t.k AND i.k < t.k + 4 AND i.a <> t.a",
    "SELECT * FROM t JOIN i ON i.k BETWEEN t.k AND t.k + 2 AND i.k >= t.a",
    "SELECT * FROM t JOIN i ON i.k >= i.a - t.a AND i.k >= t.k AND i.k <= t.k + 2",
    "SELECT * FROM t LEFT JOIN i ON i.k > t.k AND i.k <= t.k + 2",
    "SELECT * FROM t LEFT JOIN i ON i.k BETWEEN t.k AND t.k + 2 AND i.k >= t.a",
    "SELECT t.a FROM t WHERE EXISTS (SELECT 1 FROM i WHERE i.k BETWEEN t.k AND t.k + 2)",
    "SELECT t.a FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.k > t.k AND i.k < t.k + 4 AND i.a <> t.a)",
];

/// Joins by ranges that are not.
const OTHER_RANGES: [&str; 5] = [
    "SELECT * FROM t RIGHT JOIN i ON i.k BETWEEN t.k - 3 AND t.k + 2",
    "SELECT * FROM t JOIN i ON i.k >= t.k",
    "SELECT * FROM t JOIN i ON i.k BETWEEN t.k AND t.k + i.a",
    "SELECT * FROM t JOIN i ON i.k BETWEEN i.a - t.a AND i.a + t.a",
    "SELECT * FROM t JOIN i ON i.a BETWEEN t.k AND t.k + 2",
];

#[tokio::test]
async fn ranges_have_the_results_of_nested_loops() {
    let sessions = Sessions::with_tables(70, &DataType::Int64);
    for index in ["i", "j"] {
        let name = |sql: &&str| sql.replace(" i ", &format!(" {index} ")).replace("i.", &format!("{index}."));
        for sql in RANGES.iter().map(name) {
            let plan = sessions.check(&sql).await;
            assert!(plan.contains("IndexLookupExec") && !plan.contains("NestedLoopJoinExec"), "{sql}\n{plan}");
        }
        for sql in OTHER_RANGES.iter().map(name) {
            let plan = sessions.check(&sql).await;
            assert!(!plan.contains("IndexLookupExec"), "{sql}\n{plan}");
        }
    }
    for (seed, data_type) in types().iter().enumerate() {
        let sessions = Sessions::with_tables(71 + seed as u64, data_type);
        let plan = sessions.check("SELECT * FROM t LEFT JOIN j ON j.k BETWEEN t.k AND t.k").await;
        assert!(plan.contains("IndexLookupExec") || matches!(data_type, DataType::Dictionary(..)), "{plan}");
    }
}

#[tokio::test]
async fn sort_merge_joins_are_looked_up() {
    let sessions = Sessions::with_tables(80, &DataType::Int64);
    for session in [&sessions.lookups, &sessions.plain] {
        session.sql("SET datafusion.optimizer.prefer_hash_join = false").await.unwrap();
    }
    // (The engine's own outer sort-merge join with another condition is an error.)
    let is_outer = |sql: &str| sql.contains("LEFT JOIN") || sql.contains("RIGHT JOIN");
    for sql in LOOKUPS.iter().chain(MORE_LOOKUPS.iter().filter(|sql| !is_outer(sql))) {
        let plan = sessions.check(sql).await;
        assert!(plan.contains("IndexLookupExec") && !plan.contains("SortMergeJoin"), "{sql}\n{plan}");
    }
    for sql in OTHERS {
        let plan = sessions.check(sql).await;
        assert!(!plan.contains("IndexLookupExec"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn two_indexed_tables_are_joined_by_the_larger_index() {
    let sessions = Sessions::with_tables(7, &DataType::Int64);
    for sql in ["SELECT * FROM i JOIN j ON i.k = j.k", "SELECT * FROM j JOIN i ON i.k = j.k"] {
        let plan = sessions.check(sql).await;
        let of_lookup = plan.split_once("IndexLookupExec").expect("a look-up").1;
        // `i` has fewer rows: at most 52 of 70.
        let probes = of_lookup.split_once("IndexedScanExec: indexes=[k], rows=").expect("probes").1;
        assert!(!probes.starts_with("70"), "{plan}");
    }
    sessions.check("SELECT x.a, y.a FROM j AS x JOIN j AS y ON x.k = y.k").await;
    sessions.check("SELECT * FROM i LEFT JOIN j ON i.k = j.k").await;
    sessions.check("SELECT * FROM j LEFT JOIN i ON i.k = j.k").await;
}

#[tokio::test]
async fn keys_that_are_expressions_are_looked_up() {
    let sessions = Sessions::with_tables(8, &DataType::Int64);
    let plan = sessions.check("SELECT * FROM t JOIN i ON t.k + 1 = i.k").await;
    assert!(plan.contains("IndexLookupExec: join_type=Inner, key=t.k + Int64(1)@3, index=k"), "{plan}");
    let plan = sessions.check("SELECT * FROM t JOIN i ON t.k = i.k + 1").await;
    assert!(!plan.contains("IndexLookupExec"), "{plan}");
}

#[tokio::test]
async fn a_filtered_table_is_looked_up_in_and_pairs_are_filtered() {
    let sessions = Sessions::with_tables(9, &DataType::Int64);
    let filters =
        ["i.k > 10", "i.a > 10", "i.k > 10 AND i.s IS NOT NULL", "i.k IN (3, 5, 7) OR i.k > 30", "i.s LIKE '%1'"];
    for filter in filters {
        for sql in [
            "SELECT * FROM t JOIN i ON t.k = i.k WHERE",
            "SELECT i.k, t.a FROM i JOIN t ON t.k = i.k WHERE",
            "SELECT t.s FROM t JOIN i ON t.k = i.k AND t.a < i.a WHERE",
            "SELECT count(*), sum(i.a) FROM t JOIN i ON t.k = i.k WHERE t.a > 20 AND",
        ] {
            let plan = sessions.check(&format!("{sql} ({filter})")).await;
            assert!(plan.contains("IndexLookupExec") && plan.contains("pair_filters=["), "{sql} {filter}\n{plan}");
        }
        for sql in [
            format!("SELECT * FROM t LEFT JOIN i ON t.k = i.k AND ({filter})"),
            format!("SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE t.k = i.k AND ({filter}))"),
            format!("SELECT * FROM t WHERE EXISTS (SELECT 1 FROM i WHERE t.k = i.k AND ({filter}))"),
            format!("SELECT * FROM i WHERE EXISTS (SELECT 1 FROM t WHERE t.k = i.k) AND ({filter})"),
        ] {
            let plan = sessions.check(&sql).await;
            assert!(plan.contains("IndexLookupExec") && plan.contains("pair_filters=["), "{sql}\n{plan}");
        }
    }
    let sql = "SELECT * FROM t JOIN (SELECT * FROM i ORDER BY a LIMIT 5) AS i ON t.k = i.k";
    assert!(!sessions.check(sql).await.contains("IndexLookupExec"));
}

#[tokio::test]
async fn empty_sides_join() {
    let sessions = Sessions::new();
    sessions.plain_table("t", table(&[Some(1), None], &DataType::Int64, true));
    sessions.plain_table("none", table(&[], &DataType::Int64, true));
    sessions.indexed_table("i", table(&[], &DataType::Int64, true));
    sessions.indexed_table("j", table(&[Some(1)], &DataType::Int64, true));
    for sql in LOOKUPS {
        sessions.check(sql).await;
    }
    sessions.check("SELECT * FROM none LEFT JOIN j ON none.k = j.k").await;
    sessions.check("SELECT * FROM i WHERE k >= 0").await;
    sessions.check("SELECT * FROM t WHERE k NOT IN (SELECT k FROM i)").await;
}

#[tokio::test]
async fn columns_without_nulls_join() {
    let sessions = Sessions::new();
    let mut rng = StdRng::seed_from_u64(10);
    sessions.plain_table("t", table(&keys(&mut rng, 40, 30, 0.0), &DataType::Int64, false));
    sessions.indexed_table("i", table(&distinct(&mut rng, 30, 0), &DataType::Int64, false));
    for sql in LOOKUPS {
        sessions.check(sql).await;
    }
    sessions.plain_table("n", table(&keys(&mut rng, 40, 60, 0.2), &DataType::Int64, true));
    for of in ["t", "n"] {
        let plan = sessions.check(&format!("SELECT * FROM {of} WHERE k NOT IN (SELECT k FROM i)")).await;
        assert!(plan.contains("IndexLookupExec"), "{plan}");
    }
}

/// Conditions on `k`, of which the index answers all.
const CONDITIONS: [&str; 34] = [
    "k = v(7)",
    "v(7) = k",
    "k IN (v(7), v(3), v(7))",
    "k IN (v(7), v(3), v(9), v(11), v(40), v(99), NULL)",
    "k < v(9)",
    "k <= v(9)",
    "v(9) <= k",
    "k > v(9)",
    "k >= v(9) AND k < v(30)",
    "k BETWEEN v(9) AND v(20)",
    "k BETWEEN v(20) AND v(9)",
    "k > v(9) AND k < v(9)",
    "k = v(9) AND k IN (v(9), v(10))",
    "k = v(9) AND k = v(10)",
    "k IN (v(1), v(2), v(3), v(4), v(5)) AND k > v(2) AND k <= v(4)",
    "k = v(5) OR k = v(6)",
    "k = NULL",
    "k > v(20) AND k > v(10)",
    "k IS NULL",
    "k IS NOT NULL",
    "k IS NULL AND k IS NOT NULL",
    "k IS NULL OR k = v(7)",
    "k < v(9) OR k IS NULL",
    "(k IS NOT DISTINCT FROM v(7))",
    "k < v(5) OR k BETWEEN v(10) AND v(20) OR k = v(30)",
    "k < v(12) OR k BETWEEN v(10) AND v(20) OR k IN (v(11), v(20), v(31), v(30), v(33))",
    "(k > v(3) AND k < v(8)) OR k >= v(40) OR k IN (v(5), v(6))",
    "k < v(3) OR k > v(30)",
    "(k < v(9) OR k > v(30)) AND k BETWEEN v(5) AND v(35)",
    "(k < v(9) OR k > v(9)) AND k <> v(20)",
    "k <= v(9) OR k > v(9)",
    "k <> v(7)",
    "k NOT IN (v(7), v(3), v(99), v(11), v(12), v(13))",
    "k NOT BETWEEN v(10) AND v(40)",
];

#[tokio::test]
async fn conditions_have_the_results_of_filters() {
    for (seed, data_type) in types().iter().enumerate() {
        let sessions = Sessions::with_tables(20 + seed as u64, data_type);
        for index in ["i", "j"] {
            for condition in CONDITIONS {
                let condition = constants(condition, data_type);
                let plan = sessions.check(&format!("SELECT * FROM {index} WHERE {condition}")).await;
                assert!(!plan.contains("FilterExec"), "{plan}");
                if *data_type != DataType::Int64 || index == "i" {
                    continue;
                }
                sessions.check(&format!("SELECT s, a FROM {index} WHERE {condition} AND a % 2 = 0")).await;
                sessions.check(&format!("SELECT count(*) FROM {index} WHERE {condition}")).await;
                let plan = sessions.check(&format!("SELECT k FROM {index} WHERE {condition} ORDER BY k LIMIT 5")).await;
                assert!(!plan.contains("SortExec"), "{plan}");
                // Which rows these are is open; how many is not.
                let limited = format!("SELECT count(*) FROM (SELECT a FROM {index} WHERE {condition} LIMIT 3)");
                sessions.check(&limited).await;
            }
        }
    }
}

#[tokio::test]
async fn prefixes_have_the_results_of_filters() {
    for (seed, data_type) in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View].iter().enumerate() {
        let sessions = Sessions::with_tables(90 + seed as u64, data_type);
        for condition in ["k LIKE '1%'", "k LIKE '3%' AND k > '31'", "k LIKE 'x%'", "k LIKE NULL"] {
            let plan = sessions.check(&format!("SELECT * FROM j WHERE {condition}")).await;
            assert!(!plan.contains("FilterExec"), "{condition}\n{plan}");
        }
        for condition in [
            "k LIKE '%'",
            "k LIKE '%1'",
            "k LIKE '1_'",
            "k NOT LIKE '1%'",
            "k ILIKE '1%'",
            "s LIKE 'row 1%'",
            r"k LIKE '1\%'",
        ] {
            sessions.check(&format!("SELECT * FROM j WHERE {condition}")).await;
        }
    }
}

/// `v(7)` as a constant of the type.
fn constants(condition: &str, data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Timestamp(..) => "Timestamp(Millisecond, Some(\"+01:00\"))".to_owned(),
        other => other.to_string(),
    };
    let mut text = String::new();
    let mut rest = condition;
    while let Some((before, after)) = rest.split_once("v(") {
        let (number, after) = after.split_once(')').unwrap();
        let number =
            if *data_type == DataType::Date32 { format!("arrow_cast({number}, 'Int32')") } else { number.to_owned() };
        text += &format!("{before}arrow_cast({number}, '{name}')");
        rest = after;
    }
    text + rest
}

#[tokio::test]
async fn other_conditions_are_filtered() {
    let sessions = Sessions::with_tables(40, &DataType::Int64);
    for condition in ["k < 3 OR a > 40", "s IS NULL", "a > 5", "k % 2 = 0", "k < a"] {
        let plan = sessions.check(&format!("SELECT * FROM i WHERE {condition}")).await;
        assert!(plan.contains("FilterExec") || plan.contains("filters=[]"), "{plan}");
    }
    let plan = sessions.check("SELECT * FROM i WHERE k > 5 AND k % 9 <> 0").await;
    assert!(plan.contains("filters=[i.k > Int64(5)]"), "{plan}");
}

#[tokio::test]
async fn many_probes_are_looked_up_in_batches() {
    let sessions = Sessions::new();
    let mut rng = StdRng::seed_from_u64(50);
    let probes: Int64Array = (0..200_000).map(|_| (!rng.random_bool(0.1)).then(|| rng.random_range(0..5000))).collect();
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
    let probes = RecordBatch::try_new(schema.clone(), vec![Arc::new(probes)]).unwrap();
    let batches = (0..20).map(|part| probes.slice(part * 10_000, 10_000)).collect();
    sessions.plain_table("t", (schema, batches));
    sessions.indexed_table("j", table(&keys(&mut rng, 2000, 5000, 0.1), &DataType::Int64, true));
    for sql in [
        "SELECT count(*), count(j.k), sum(t.k), sum(j.a) FROM t LEFT JOIN j ON t.k = j.k",
        "SELECT count(*), sum(k) FROM t WHERE k IN (SELECT k FROM j)",
        "SELECT count(*), sum(k) FROM t WHERE NOT EXISTS (SELECT 1 FROM j WHERE t.k = j.k)",
    ] {
        let plan = sessions.check(sql).await;
        assert!(plan.contains("IndexLookupExec"), "{plan}");
    }
}

fn find<'a>(plan: &'a Arc<dyn ExecutionPlan>, name: &str) -> Option<&'a Arc<dyn ExecutionPlan>> {
    if plan.name() == name { Some(plan) } else { plan.children().into_iter().find_map(|child| find(child, name)) }
}

#[tokio::test]
async fn metrics_tell_rows_batches_and_the_device() {
    let sessions = Sessions::with_tables(60, &DataType::Int64);
    let session = &sessions.lookups;
    let query = session.sql("SELECT t.a, i.a FROM t LEFT JOIN i ON t.k = i.k").await.unwrap();
    let plan = query.create_physical_plan().await.unwrap();
    collect(plan.clone(), session.task_ctx()).await.unwrap();
    let metrics = find(&plan, "IndexLookupExec").unwrap().metrics().unwrap();
    let sum = |name| metrics.sum_by_name(name).unwrap().as_usize();
    assert_eq!((metrics.output_rows(), sum("probe_rows")), (Some(90), 90));
    assert!((1..=3).contains(&sum("probe_batches")));
    assert!(sum("lookup_time") > 0);
    assert_eq!(sum("bus_bytes") > 0, Device::best().kind() != DeviceKind::Host);
    let labelled = metrics.iter().find(|metric| metric.value().name() == "probe_rows").unwrap();
    assert_eq!(labelled.labels()[0].name(), "device");
    assert_eq!(labelled.labels()[0].value(), Device::best().to_string());
    let analyzed = rows(session, "EXPLAIN ANALYZE SELECT * FROM t JOIN i ON t.k = i.k").await.unwrap().join("\n");
    assert!(analyzed.contains("probe_rows"), "{analyzed}");
}

#[tokio::test]
async fn row_counts_of_scans_are_exact() {
    let sessions = Sessions::with_tables(61, &DataType::Int64);
    for sql in [
        "SELECT a FROM j WHERE k BETWEEN 5 AND 25",
        "SELECT * FROM j",
        "SELECT * FROM j WHERE k IN (1, 2, 3, 4, 5)",
        "SELECT a FROM j WHERE k IS NULL OR k < 5",
    ] {
        let query = sessions.lookups.sql(sql).await.unwrap();
        let plan = query.create_physical_plan().await.unwrap();
        let statistics = StatisticsContext::new().compute(&*plan, &StatisticsArgs::new()).unwrap();
        let read = collect(plan, sessions.lookups.task_ctx()).await.unwrap().iter().map(RecordBatch::num_rows).sum();
        assert_eq!(statistics.num_rows, Precision::Exact(read), "{sql}");
    }
    let query = sessions.plain.sql("SELECT count(*) FROM t").await.unwrap();
    assert!(query.collect().await.is_ok());
}

#[tokio::test]
async fn probes_that_wait_are_in_the_memory_pool() {
    let pool = Arc::new(GreedyMemoryPool::new(64 << 10));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let state = SessionStateBuilder::new().with_config(config()).with_runtime_env(runtime).with_default_features();
    let session = SessionContext::new_with_state(with_lookups(state).build());
    let (schema, batches) = table(&vec![Some(1); 20_000], &DataType::Int64, true);
    session.register_table("t", Arc::new(MemTable::try_new(schema, vec![batches]).unwrap())).unwrap();
    let (schema, batches) = table(&[Some(1)], &DataType::Int64, true);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed)).unwrap();
    let error = rows(&session, "SELECT * FROM t JOIN i ON t.k = i.k").await.unwrap_err().to_string();
    assert!(error.contains("IndexLookupExec["), "{error}");
}

#[tokio::test]
async fn many_pairs_of_few_probes_are_not_held_in_memory() {
    // 100 probes of a key with 5,000 rows: 500,000 pairs would take 8 MB.
    let pool = Arc::new(GreedyMemoryPool::new(256 << 10));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let state = SessionStateBuilder::new().with_config(SessionConfig::new().with_target_partitions(1));
    let state = state.with_runtime_env(runtime).with_default_features();
    let session = SessionContext::new_with_state(with_lookups(state).build());
    let (schema, batches) = table(&vec![Some(1); 100], &DataType::Int64, true);
    session.register_table("t", Arc::new(MemTable::try_new(schema, vec![batches]).unwrap())).unwrap();
    let (schema, batches) = table(&vec![Some(1); 5_000], &DataType::Int64, true);
    let indexed = IndexedTable::new(&Device::best(), schema, &batches, "k").unwrap();
    session.register_table("i", Arc::new(indexed)).unwrap();
    for on in ["t.k = i.k", "i.k BETWEEN t.k AND t.k + 1"] {
        let sql = format!("SELECT count(*), sum(t.a), sum(i.a) FROM t JOIN i ON {on}");
        let planned = session.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        let lookup = find(&planned, "IndexLookupExec").expect("a look-up");
        let estimated = StatisticsContext::new().compute(&**lookup, &StatisticsArgs::new()).unwrap().num_rows;
        assert_eq!(estimated, Precision::Inexact(500_000));
        let found = rows(&session, &sql).await.unwrap();
        let sums = (100 * 99 / 2 * 5_000_i64, 5_000 * 4_999 / 2 * 100_i64);
        assert!(found[3].contains(&format!("| 500000   | {} | {} |", sums.0, sums.1)), "{found:?}");
    }
}

#[test]
fn tables_that_cannot_be_indexed_are_errors() {
    let (schema, batches) = table(&[Some(1)], &DataType::Int64, true);
    let said =
        |column: &str| IndexedTable::new(&Device::best(), schema.clone(), &batches, column).unwrap_err().to_string();
    assert!(said("x").contains("no column x to index: choose one of a, k, s"), "{}", said("x"));
    let flags = RecordBatch::try_from_iter([("f", Arc::new(BooleanArray::from(vec![true])) as ArrayRef)]).unwrap();
    let error = IndexedTable::new(&Device::best(), flags.schema(), &[flags], "f").unwrap_err().to_string();
    assert!(error.contains("a column of type Boolean can't be indexed"), "{error}");
    let floats = RecordBatch::try_from_iter([("f", Arc::new(Float32Array::from(vec![-0.0])) as ArrayRef)]).unwrap();
    let error = IndexedTable::new(&Device::best(), floats.schema(), &[floats], "f").unwrap_err().to_string();
    assert!(error.contains("column f is Float32, and no index has SQL's order of floats"), "{error}");
    let table = IndexedTable::new(&Device::best(), schema.clone(), &batches, "k").unwrap();
    assert_eq!((table.index("k").unwrap().unwrap().len(), table.len()), (1, 1));
    assert_eq!(table.statistics().unwrap().num_rows, Precision::Exact(1));
    assert!(!table.rows().unwrap().column(0).is_empty());
}
