//! Indexes on several columns, against the same SQL over DataFusion's own tables.

use crate::parts::{Replicas, made_again};
use crate::{Sessions, rows, sorted};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::collect;
use lanetree::Device;
use lanetree_datafusion::{IndexedScanExec, IndexedTable, ScanFilter, ScanParts};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

/// Types of `a` and `b`.
fn types() -> [[DataType; 2]; 6] {
    [
        [DataType::Int64, DataType::Int64],
        [DataType::Int32, DataType::Date32],
        [DataType::Decimal128(15, 2), DataType::Int16],
        [DataType::Date32, DataType::Timestamp(TimeUnit::Millisecond, None)],
        [DataType::UInt64, DataType::Int8],
        [DataType::Dictionary(DataType::Int8.into(), DataType::Int32.into()), DataType::UInt32],
    ]
}

/// A number as one of a type's: unsigned ones are not negative.
fn of_type(number: i64, data_type: &DataType) -> i64 {
    if data_type.is_unsigned_integer() { number + 20 } else { number }
}

fn column(numbers: &[Option<i64>], data_type: &DataType) -> ArrayRef {
    let numbers = numbers.iter().map(|number| number.map(|number| of_type(number, data_type)));
    cast(&(Arc::new(numbers.collect::<Int64Array>()) as ArrayRef), data_type).unwrap()
}

/// Columns `a` and `b` of numbers from -20 to 20, many of which are there twice or null, `c` of distinct ones, and `s`.
fn table(rng: &mut StdRng, len: usize, types: &[DataType; 2]) -> (Arc<Schema>, Vec<RecordBatch>) {
    let [a, b] = types;
    let schema = Arc::new(Schema::new(vec![
        Field::new("s", DataType::Utf8, true),
        Field::new("b", b.clone(), true),
        Field::new("c", DataType::Int64, false),
        Field::new("a", a.clone(), true),
    ]));
    let mut numbers = |span: i64| -> Vec<Option<i64>> {
        (0..len).map(|_| (!rng.random_bool(0.15)).then(|| rng.random_range(-span..=span))).collect()
    };
    let (firsts, seconds) = (numbers(6), numbers(9));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values((0..len).map(|row| format!("row {row}")))),
        column(&seconds, b),
        Arc::new(Int64Array::from_iter_values(0..len as i64)),
        column(&firsts, a),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let batches = (0..len).step_by(10).map(|at| batch.slice(at, 10.min(len - at))).collect();
    (schema, batches)
}

/// Sessions with a table `t`, and a table `i` with an index on `a` and `b`.
fn sessions(seed: u64, types: &[DataType; 2], len: usize) -> (Sessions, IndexedTable) {
    let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(seed));
    sessions.plain_table("t", table(&mut rng, 60, types));
    let (schema, batches) = table(&mut rng, len, types);
    let indexed = IndexedTable::new(&Device::best(), schema.clone(), &batches, "c").unwrap();
    indexed.add_index_on(&Device::best(), &["a", "b"]).unwrap();
    for session in [&sessions.lookups, &sessions.indexes] {
        session.register_table("i", Arc::new(indexed.clone())).unwrap();
    }
    let plain = MemTable::try_new(schema, vec![batches]).unwrap();
    sessions.plain.register_table("i", Arc::new(plain)).unwrap();
    (sessions, indexed)
}

/// Conditions that the index answers wholly. `a(3)` is a constant of the type of `a`.
const ANSWERED: [&str; 28] = [
    "a = a(2)",
    "a = a(2) AND b = b(3)",
    "b(3) = b AND a(2) = a",
    "a = a(-3) AND b BETWEEN b(-4) AND b(5)",
    "a = a(-3) AND b BETWEEN b(5) AND b(-4)",
    "a = a(0) AND b < b(1)",
    "a = a(0) AND b <= b(1) AND b > b(-7)",
    "a = a(0) AND b >= b(19)",
    "a = a(5) AND b > b(-20)",
    "a IN (a(1), a(-5), a(1), a(19), NULL)",
    "a IN (a(4), a(-5), a(2)) AND b = b(1)",
    "a IN (a(4), a(-5), a(2)) AND b IN (b(-2), b(7), b(0), b(15))",
    "a IN (a(4), a(-5), a(2), a(1)) AND b >= b(2) AND b < b(8)",
    "a < a(-1)",
    "a <= a(-20)",
    "a > a(3)",
    "a BETWEEN a(-2) AND a(3)",
    "a > a(1) AND a < a(4)",
    "a = a(1) AND a = a(2) AND b = b(1)",
    "a = NULL",
    "a = a(2) AND b = NULL",
    "(a = a(2) OR a = a(3)) AND (b = b(2) OR b = b(-3))",
    "a IS NULL",
    "a < a(-1) OR a IS NULL OR a > a(5)",
    "a = a(2) AND b IS NULL",
    "a IN (a(2), a(-3)) AND (b IS NULL OR b > b(5) OR b < b(-3))",
    "a = a(2) AND b <> b(3)",
    "a = a(-3) AND b IS NOT NULL",
];

/// Conditions of which the engine's own filter tries some.
const FILTERED: [&str; 8] = [
    "a < a(3) AND b = b(2)",
    "a BETWEEN a(-2) AND a(3) AND b > b(1)",
    "b = b(3)",
    "a IS NULL AND b = b(3)",
    "a <> a(2) AND b IS NULL",
    "a = a(2) OR b = b(3)",
    "a = a(2) AND b = b(3) AND s <> 'row 7'",
    "a IN (a(1), a(2), a(3)) AND b < b(5) AND c < 90",
];

/// With constants of the types in place of `a(3)` and `b(3)`.
fn constants(condition: &str, types: &[DataType; 2]) -> String {
    let mut text = String::new();
    for word in condition.split_inclusive(')') {
        let marks = ["a(", "b("].map(|mark| word.rfind(mark));
        let Some((at, data_type)) = marks.iter().zip(types).find_map(|(mark, of)| Some(((*mark)?, of))) else {
            text += word;
            continue;
        };
        let number = of_type(word[at + 2..word.len() - 1].parse().unwrap(), data_type);
        let (number, name) = match data_type {
            DataType::Date32 => (format!("arrow_cast({number}, 'Int32')"), "Date32".to_owned()),
            DataType::Timestamp(..) => (number.to_string(), "Timestamp(Millisecond, None)".to_owned()),
            other => (number.to_string(), other.to_string()),
        };
        text += &format!("{}arrow_cast({number}, '{name}')", &word[..at]);
    }
    text
}

#[tokio::test]
async fn conditions_on_several_columns_have_the_results_of_filters() {
    for (seed, types) in types().iter().enumerate() {
        let (sessions, _) = sessions(100 + seed as u64, types, 150);
        for condition in ANSWERED {
            let condition = constants(condition, types);
            let plan = sessions.check(&format!("SELECT * FROM i WHERE {condition}")).await;
            assert!(!plan.contains("FilterExec"), "{condition}\n{plan}");
            assert!(plan.contains("index=(a, b)") || plan.contains("EmptyExec"), "{condition}\n{plan}");
            let plan = sessions.check(&format!("SELECT a, b FROM i WHERE {condition} ORDER BY a, b")).await;
            // Rows whose first column is null are in no order of the second one.
            assert_eq!(plan.contains("SortExec"), condition.contains("a IS NULL"), "{condition}\n{plan}");
            if seed > 0 {
                continue;
            }
            sessions.check(&format!("SELECT count(*) FROM i WHERE {condition}")).await;
            sessions.check(&format!("SELECT s FROM i WHERE {condition} AND c % 2 = 0")).await;
            sessions.check(&format!("SELECT b FROM i WHERE {condition} ORDER BY a DESC, b LIMIT 5")).await;
            sessions.check(&format!("SELECT a, count(*), min(c) FROM i WHERE {condition} GROUP BY a")).await;
        }
        for condition in FILTERED {
            let plan = sessions.check(&format!("SELECT s, c FROM i WHERE {}", constants(condition, types))).await;
            assert!(plan.contains("FilterExec"), "{condition}\n{plan}");
        }
    }
}

#[tokio::test]
async fn rows_of_one_first_value_are_in_the_order_of_the_second() {
    let (sessions, _) = sessions(120, &types()[0], 200);
    for sql in ["SELECT b FROM i WHERE a = 2 ORDER BY b", "SELECT a, b FROM i WHERE a = 2 ORDER BY b, a"] {
        let plan = sessions.check(sql).await;
        assert!(!plan.contains("SortExec"), "{sql}\n{plan}");
    }
    // Those of several are not.
    for sql in ["SELECT b FROM i WHERE a IN (2, 3) ORDER BY b", "SELECT b FROM i WHERE a = 2 ORDER BY b NULLS FIRST"] {
        let plan = sessions.check(sql).await;
        assert!(plan.contains("SortExec"), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn the_index_that_finds_the_fewest_rows_is_asked() {
    let (sessions, indexed) = sessions(121, &types()[0], 150);
    indexed.add_index(&Device::best(), "b").unwrap();
    let plan = sessions.check("SELECT s FROM i WHERE a = 2 AND b = 3").await;
    assert!(plan.contains("index=(a, b)") && !plan.contains("FilterExec"), "{plan}");
    let plan = sessions.check("SELECT s FROM i WHERE a < 50 AND b = 3").await;
    assert!(plan.contains("index=b") && plan.contains("FilterExec: a@"), "{plan}");
    let plan = sessions.check("SELECT s FROM i WHERE a IN (1, 2, 3) AND b < 50 AND c = 40").await;
    assert!(plan.contains("index=c") && plan.contains("FilterExec: "), "{plan}");
    // Lists of which there would be more than 2^16 pairs.
    let list = |from: i64| (from..from + 300).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let plan = sessions.check(&format!("SELECT s FROM i WHERE a IN ({}) AND b IN ({})", list(-2), list(-150))).await;
    assert!(plan.contains("FilterExec: "), "{plan}");
}

#[tokio::test]
async fn joins_on_several_columns_are_looked_up() {
    for (seed, types) in types().iter().enumerate() {
        let (sessions, _) = sessions(130 + seed as u64, types, 150);
        for sql in [
            "SELECT * FROM t JOIN i ON t.a = i.a AND t.b = i.b",
            "SELECT t.c, i.c FROM i JOIN t ON t.b = i.b AND t.a = i.a",
            "SELECT t.c, i.s FROM t LEFT JOIN i ON t.a = i.a AND t.b = i.b",
            "SELECT t.c, i.s FROM i RIGHT JOIN t ON t.a = i.a AND t.b = i.b",
            "SELECT c FROM t WHERE EXISTS (SELECT 1 FROM i WHERE i.a = t.a AND i.b = t.b)",
            "SELECT c FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.a = t.a AND i.b = t.b)",
            "SELECT count(*) FROM t JOIN i ON t.a = i.a AND t.b = i.b",
            "SELECT * FROM t JOIN i ON t.a = i.a AND t.b = i.b AND t.c < i.c",
            "SELECT * FROM t JOIN i ON t.a = i.a AND t.b = i.b AND t.s = i.s",
            "SELECT s FROM i WHERE EXISTS (SELECT 1 FROM t WHERE i.a = t.a AND i.b = t.b)",
            "SELECT * FROM t LEFT JOIN i ON t.a = i.a AND t.b = i.b AND t.c < i.c",
            // By the first column of the index.
            "SELECT * FROM t JOIN i ON t.a = i.a",
            "SELECT t.c, i.b FROM t LEFT JOIN i ON t.a = i.a",
            "SELECT * FROM t LEFT JOIN i ON t.a = i.a AND t.c < i.c AND i.b IS NULL",
            "SELECT c FROM t WHERE EXISTS (SELECT 1 FROM i WHERE i.a = t.a)",
            "SELECT c FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.a = t.a)",
            "SELECT c FROM t WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.a = t.a AND i.c > t.c)",
            "SELECT s FROM i WHERE a IN (SELECT a FROM t)",
        ] {
            let plan = sessions.check(sql).await;
            assert!(plan.contains("IndexLookupExec") && plan.contains("index=(a, b)"), "{sql}\n{plan}");
        }
        for sql in ["SELECT * FROM t JOIN i ON t.b = i.b", "SELECT * FROM i LEFT JOIN t ON t.a = i.a AND t.b = i.b"] {
            let plan = sessions.check(sql).await;
            assert!(!plan.contains("IndexLookupExec"), "{sql}\n{plan}");
        }
    }
}

#[tokio::test]
async fn inserts_and_drops_change_an_index_on_several_columns() {
    let (sessions, indexed) = sessions(140, &types()[0], 40);
    let queries = ["SELECT * FROM i WHERE a = 2", "SELECT * FROM i WHERE a IN (1, 2) AND b > -30000000000"];
    for insert in [
        "INSERT INTO i VALUES ('x', 5, 1000, 2), ('y', NULL, 1001, 2), ('z', 9000000000, 1002, 2), ('w', 1, 1003, NULL)",
        "INSERT INTO i SELECT s, b - 20000000000, c + 2000, a FROM t",
        "INSERT INTO i SELECT s, b, c + 5000, a * 1000000000 FROM i",
        "INSERT INTO i VALUES ('v', 9223372036854775807, 1004, 1), ('u', -9223372036854775808, 1005, 2)",
    ] {
        let inserted = rows(&sessions.lookups, insert).await.unwrap();
        assert_eq!(inserted, rows(&sessions.plain, insert).await.unwrap(), "{insert}");
        for sql in queries {
            let plan = sessions.check(sql).await;
            assert!(plan.contains("index=(a, b)") && !plan.contains("FilterExec"), "{plan}");
        }
        sessions.check("SELECT t.c, i.c FROM t LEFT JOIN i ON t.a = i.a AND t.b = i.b").await;
    }
    // Both columns use all of their bits, and there are nulls.
    let before = indexed.rows().unwrap();
    let all = "INSERT INTO i VALUES ('x', NULL, 1, 9223372036854775807), ('y', 1, 1, -9223372036854775808)";
    let error = rows(&sessions.lookups, all).await.unwrap_err().to_string();
    assert!(error.contains("need 129 bits, and a row has 128"), "{error}");
    assert_eq!(indexed.rows().unwrap(), before);

    indexed.drop_index("a_b").unwrap();
    for sql in queries {
        let plan = sessions.check(sql).await;
        assert!(!plan.contains("index=(a, b)") && plan.contains("FilterExec"), "{plan}");
    }
}

#[tokio::test]
async fn create_index_on_several_columns() {
    let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(150));
    let types = [DataType::Int64, DataType::Int64];
    sessions.plain_table("i", table(&mut rng, 80, &types));
    sessions.plain_table("t", table(&mut rng, 30, &types));
    let session = &sessions.lookups;
    let run = async |sql: &str| rows(session, sql).await.map_err(|error| error.to_string());
    for (sql, said) in [
        ("CREATE INDEX x ON i (a, a)", "column a is twice in the index"),
        ("CREATE INDEX x ON i (a, s)", "s is Utf8, which can't be in an index on several columns"),
        ("CREATE INDEX x ON i (a, b, c)", "a row of (a, b, c) needs 192 bits, and an index on several columns has 128"),
        ("CREATE INDEX x ON i (a, nothing)", "nothing"),
        ("CREATE UNIQUE INDEX x ON i (a, b)", "index x is unique, but"),
    ] {
        let error = run(sql).await.unwrap_err();
        assert!(error.contains(said), "{sql}: {error}");
    }
    run("CREATE INDEX ON i (a, b)").await.unwrap();
    assert!(run("CREATE INDEX other ON i (a, b)").await.unwrap_err().contains("(a, b) has an index, a_b"));
    run("CREATE INDEX IF NOT EXISTS a_b ON i (a, b)").await.unwrap();
    // In another order it is another one.
    run("CREATE INDEX ba ON i (b, a)").await.unwrap();
    assert!(sessions.check("SELECT s FROM i WHERE b = 3 AND a < 2").await.contains("index=(b, a)"));
    assert!(sessions.check("SELECT s FROM i WHERE a = 3 AND b < 2").await.contains("index=(a, b)"));
    let plan = run("EXPLAIN FORMAT INDENT SELECT s FROM i").await.unwrap().join("\n");
    assert!(plan.contains("indexes=[(a, b), (b, a)]"), "{plan}");

    // Rows with a null are nobody's equals.
    run("CREATE TABLE u AS SELECT * FROM (VALUES (1, 2), (1, 3), (2, 2), (1, NULL), (1, NULL), (NULL, 2), (NULL, 2))")
        .await
        .unwrap();
    run("CREATE UNIQUE INDEX one ON u (column1, column2)").await.unwrap();
    run("INSERT INTO u VALUES (1, NULL), (3, 3)").await.unwrap();
    let error = run("INSERT INTO u VALUES (3, 3)").await.unwrap_err();
    assert!(error.contains("index one is unique, but"), "{error}");
    assert_eq!(run("SELECT count(*) FROM u WHERE column1 = 1").await.unwrap()[3], "| 5        |");
}

#[tokio::test]
async fn small_columns_share_a_word() {
    let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(160));
    let schema =
        Arc::new(Schema::new(["a", "b", "c", "d", "e"].map(|name| Field::new(name, DataType::Int16, true)).to_vec()));
    let mut numbers = || -> ArrayRef {
        let numbers = (0..300).map(|_| (!rng.random_bool(0.1)).then(|| rng.random_range(-3..3)));
        column(&numbers.collect::<Vec<_>>(), &DataType::Int16)
    };
    let columns = (0..5).map(|_| numbers()).collect();
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    sessions.plain_table("i", (schema, vec![batch]));
    rows(&sessions.lookups, "CREATE INDEX x ON i (a, b, c, d, e)").await.unwrap();
    let value = |number: i64| format!("arrow_cast({number}, 'Int16')");
    let [m, o, z] = [-2, 1, 0].map(value);
    for condition in [
        format!("a = {m}"),
        format!("a = {m} AND b = {o}"),
        format!("a IN ({m}, {o}) AND b IN ({z}, {m}) AND c = {z}"),
        format!("a = {m} AND b = {o} AND c = {z} AND d IN ({o}, {m})"),
        format!("a = {m} AND b = {o} AND c = {z} AND d > {m}"),
        format!("a IN ({m}, {z}) AND b = {o} AND c IN ({z}, {o}) AND d = {m} AND e < {o}"),
    ] {
        let plan = sessions.check(&format!("SELECT * FROM i WHERE {condition} ORDER BY a, b, c, d, e")).await;
        assert!(plan.contains("index=(a, b, c, d, e)"), "{condition}\n{plan}");
        assert!(!plan.contains("FilterExec") && !plan.contains("SortExec"), "{condition}\n{plan}");
    }
}

#[tokio::test]
async fn plans_of_several_columns_are_made_again_of_their_parts() {
    let (sessions, indexed) = sessions(170, &types()[1], 100);
    let session = &sessions.lookups;
    let rows_of = indexed.rows().unwrap();
    session.register_table("n", Arc::new(indexed.with_name("i"))).unwrap();
    let replica = IndexedTable::new(&Device::host(), rows_of.schema(), &[rows_of], "c").unwrap();
    let other = replica.clone();
    replica.add_index_on(&Device::host(), &["a", "b"]).unwrap();
    let replicas = Replicas::from([("i".to_owned(), replica)]);
    let date = |days: i64| format!("arrow_cast(arrow_cast({days}, 'Int32'), 'Date32')");
    let a = |number: i64| format!("arrow_cast({number}, 'Int32')");
    for sql in [
        "SELECT t.c, n.c FROM t LEFT JOIN n ON t.a = n.a AND t.b = n.b".to_owned(),
        "SELECT c FROM t WHERE EXISTS (SELECT 1 FROM n WHERE n.b = t.b AND n.a = t.a)".to_owned(),
        format!("SELECT c FROM n WHERE a IN ({}, {}) AND b >= {}", a(1), a(-2), date(0)),
        format!("SELECT c FROM n WHERE a < {}", a(1)),
    ] {
        let plan = session.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        let (again, count) = made_again(plan.clone(), &replicas);
        assert!(count > 0, "{sql}");
        let text = async |plan| {
            let text = pretty_format_batches(&collect(plan, session.task_ctx()).await.unwrap()).unwrap().to_string();
            sorted(text.lines().map(str::to_owned).collect())
        };
        assert_eq!(text(again).await, text(plan).await, "{sql}");
    }
    other.drop_index("a_b").unwrap();
    let (texts, order) = (vec![], Default::default());
    let filter = Some(ScanFilter { index: vec![3, 1], columns: vec![], texts, is_distinct: false, order });
    let parts = ScanParts { columns: vec![0], filter, limit: None, partitions: 1 };
    let error = IndexedScanExec::of_parts(&other, parts).unwrap_err().to_string();
    assert!(error.contains("the table has no index on column 3 and 1"), "{error}");
}
