//! `as_of`, `range_join` and `band_join` against joins that DataFusion makes of inequalities.

use crate::{Sessions, rows, sorted};
use datafusion::arrow::datatypes::DataType;

/// Runs a call with the index, and SQL without it.
async fn check(sessions: &Sessions, call: &str, sql: &str) {
    let found = rows(&sessions.lookups, call).await.unwrap_or_else(|error| panic!("{call}: {error}"));
    let expected = rows(&sessions.plain, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(sorted(found), sorted(expected), "{call}");
}

const COLUMNS: &str = "t.a, t.k, t.s, x.a AS i_a, x.k AS i_k, x.s AS i_s";

#[tokio::test]
async fn as_of_finds_the_nearest_row() {
    for (seed, data_type) in [DataType::Int64, DataType::Date32, DataType::Utf8].iter().enumerate() {
        // (`i` has distinct keys, so its rows have no ties.)
        let sessions = Sessions::with_tables(80 + seed as u64, data_type);
        for (word, best, is_side) in [("backward", "max", "<="), ("forward", "min", ">=")] {
            for (kind, join) in [("left", "LEFT"), ("inner", "INNER")] {
                let call = format!("SELECT * FROM as_of('t', 'k', 'i', 'k', '{word}', '{kind}')");
                let nearest = format!(
                    "(SELECT t.a AS probe, {best}(i.k) AS nearest FROM t JOIN i ON i.k {is_side} t.k GROUP BY t.a) AS n"
                );
                let sql = format!(
                    "SELECT {COLUMNS} FROM t LEFT JOIN {nearest} ON t.a = n.probe {join} JOIN i AS x ON n.nearest = x.k"
                );
                check(&sessions, &call, &sql).await;
                let some = |sql: &str, columns| sql.replace("*", columns).replace(COLUMNS, columns);
                let call = format!("{} WHERE a > 30", some(&call, "i_a, s"));
                let sql = format!("{} WHERE t.a > 30", some(&sql, "x.a AS i_a, t.s"));
                check(&sessions, &call, &sql).await;
            }
        }
    }
}

#[tokio::test]
async fn as_of_takes_the_last_of_equal_rows() {
    let sessions = Sessions::with_tables(83, &DataType::Int64);
    // The index has the rows of equal keys in their order.
    let call =
        "SELECT t.a, i_a FROM (SELECT a AS a, k, j_a AS i_a, j_k FROM as_of('t', 'k', 'j', 'k')) AS t WHERE k = j_k";
    let sql = "SELECT t.a, max(j.a) AS i_a FROM t JOIN j ON t.k = j.k GROUP BY t.a";
    check(&sessions, call, sql).await;
}

#[tokio::test]
async fn range_joins_find_all_rows_of_a_range() {
    for (seed, data_type) in [DataType::Int64, DataType::Decimal128(20, 2)].iter().enumerate() {
        let sessions = Sessions::with_tables(84 + seed as u64, data_type);
        for session in [&sessions.lookups, &sessions.plain] {
            // Some of these ranges end before they start, and some have no ends.
            let view = format!(
                "CREATE VIEW r AS SELECT a, k AS low, CASE WHEN a % 7 <> 0 THEN arrow_cast(k + a % 9 - 2, '{data_type}') END AS high FROM t"
            );
            rows(session, &view).await.unwrap();
        }
        for index in ["i", "j"] {
            for (kind, join) in [("inner", "INNER"), ("left", "LEFT")] {
                let call = format!("SELECT * FROM range_join('r', 'low', 'high', '{index}', 'k', '{kind}')");
                let sql = format!(
                    "SELECT r.a, low, high, x.a AS {index}_a, x.k, x.s FROM r {join} JOIN {index} AS x ON x.k BETWEEN low AND high"
                );
                check(&sessions, &call, &sql).await;
            }
            let call = format!("SELECT count(*), sum({index}_a) FROM range_join('r', 'low', 'high', '{index}', 'k')");
            let sql = format!(
                "SELECT count(*), sum(x.a) AS \"sum({index}_a)\" FROM r JOIN {index} AS x ON x.k BETWEEN low AND high"
            );
            let head = |rows: Vec<String>| rows.into_iter().skip(3).collect::<Vec<_>>();
            let found = head(rows(&sessions.lookups, &call).await.unwrap());
            assert_eq!(found[0].replace(' ', ""), head(rows(&sessions.plain, &sql).await.unwrap())[0].replace(' ', ""));
        }
    }
}

#[tokio::test]
async fn band_joins_find_rows_near_a_value() {
    for data_type in [DataType::Int64, DataType::Int32, DataType::UInt64] {
        let sessions = Sessions::with_tables(87, &data_type);
        for (kind, join) in [("inner", "INNER"), ("left", "LEFT")] {
            let call = format!("SELECT * FROM band_join('t', 'k', 3, 0, 'i', 'k', '{kind}')");
            let between = "arrow_cast(x.k, 'Int64') BETWEEN arrow_cast(t.k, 'Int64') - 3 AND t.k";
            check(&sessions, &call, &format!("SELECT {COLUMNS} FROM t {join} JOIN i AS x ON {between}")).await;
        }
    }
    let sessions = Sessions::with_tables(88, &DataType::Date32);
    let call = "SELECT * FROM band_join('t', 'k', INTERVAL '2 days', INTERVAL '1 day', 'i', 'k')";
    let between = "x.k BETWEEN t.k - INTERVAL '2 days' AND t.k + INTERVAL '1 day'";
    check(&sessions, call, &format!("SELECT {COLUMNS} FROM t JOIN i AS x ON {between}")).await;
}

#[tokio::test]
async fn bands_end_where_their_type_does() {
    let sessions = Sessions::with_tables(89, &DataType::Int64);
    rows(&sessions.lookups, "CREATE TABLE ends AS VALUES (-9223372036854775808), (9223372036854775807), (3)")
        .await
        .unwrap();
    let (low, high) = (i64::MIN + 5, i64::MAX - 5);
    rows(&sessions.lookups, &format!("INSERT INTO i VALUES (70001, {low}, 'low'), (70002, {high}, 'high')"))
        .await
        .unwrap();
    let call = "SELECT s FROM band_join('ends', 'column1', 10, 10, 'i', 'k') WHERE a > 70000 ORDER BY s";
    assert_eq!(rows(&sessions.lookups, call).await.unwrap()[3..5], ["| high |", "| low  |"]);
}

#[tokio::test]
async fn calls_say_what_is_wrong() {
    let sessions = Sessions::with_tables(90, &DataType::Int64);
    for (call, said) in [
        ("as_of('t', 'k')", "2 arguments are too few: as_of('probes'"),
        ("as_of('t', 'k', 'nowhere', 'k')", "no table nowhere"),
        ("as_of('nowhere', 'k', 'i', 'k')", "no table nowhere"),
        ("as_of('t', 'x', 'i', 'k')", "has no column x: choose one of a, k, s"),
        ("as_of('t', 'k', 't', 'k')", "table t has no index: make one by CREATE INDEX ON t (k)"),
        ("as_of('t', 'k', 'i', 'a')", "table i has indexes on k, not on a"),
        ("as_of('t', 's', 'i', 'k')", "s is Utf8, but i.k is Int64: cast it"),
        ("as_of('t', 'k', 'i', 'k', 'sideways')", "sideways is none of backward, forward, left, inner"),
        ("as_of('t', 5, 'i', 'k')", "argument 2 is Int64(5), not a string"),
        ("range_join('t', 'k', 'y', 'i', 'k')", "has no column y"),
        ("range_join('t', 'k', 's', 'i', 'k')", "s is Utf8, but i.k is Int64"),
        ("band_join('t', 'k', -1, 0, 'i', 'k')", "a distance of -1 is negative: use range_join"),
        ("band_join('t', 'k', 'x', 0, 'i', 'k')", "argument 3 is x, which is no Int64"),
        ("band_join('t', 'k', NULL, 0, 'i', 'k')", "argument 3 is NULL"),
    ] {
        let error = rows(&sessions.lookups, &format!("SELECT * FROM {call}")).await.expect_err(call).to_string();
        assert!(error.contains(said), "{call}: {error}");
    }
}
