//! Random queries over indexed tables against the same queries over the engine's own.

use crate::{Sessions, config, constants, distinct, keys, rows, table, types};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree_datafusion::{Costs, with_index_lookups_on};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::fs::File;
use std::io::Write;

/// The largest key, and one more.
const SPAN: i64 = 60;

/// What plans that go through an index have.
const PLANS: [&str; 6] =
    ["index=", "IndexLookupExec", ", distinct, ", "PlaceholderRowExec", "pair_filters=[", "index=(k, a)"];

fn one_of(rng: &mut StdRng, words: &[&str]) -> String {
    words.choose(rng).map(|word| (*word).to_owned()).unwrap_or_default()
}

fn comparison(rng: &mut StdRng) -> String {
    one_of(rng, &["=", "=", "<", "<=", ">", ">=", "<>"])
}

/// A condition on the columns of a table. `v(7)` is a constant of the type of `k`.
fn condition(rng: &mut StdRng, of: &str, depth: usize) -> String {
    let [low, high, at] = [SPAN, SPAN, 300].map(|span| rng.random_range(-1..span));
    let not = one_of(rng, &["", "", "NOT "]);
    match rng.random_range(0..if depth == 0 { 9 } else { 13 }) {
        0 | 1 => format!("{of}k {} v({low})", comparison(rng)),
        2 => format!("v({low}) {} {of}k", comparison(rng)),
        3 => {
            let null = one_of(rng, &["", "", ", NULL"]);
            format!("{of}k {not}IN (v({low}), v({high}), v({}), v({}){null})", low / 2, high + 1)
        }
        4 => format!("{of}k {not}BETWEEN v({}) AND v({high})", low.min(high)),
        5 => format!("{of}k IS {not}NULL"),
        6 => format!("{of}a {} {at}", comparison(rng)),
        7 => format!("{of}a % 5 = {}", low % 5),
        8 => format!("{of}s {}", one_of(rng, &["LIKE 'row 1%'", "IS NULL", "= 'row 13'", "> 'row 5'"])),
        9 => format!("NOT ({})", condition(rng, of, depth - 1)),
        10 => format!("({} AND {})", condition(rng, of, depth - 1), condition(rng, of, depth - 1)),
        _ => format!("({} OR {})", condition(rng, of, depth - 1), condition(rng, of, depth - 1)),
    }
}

/// An order of all rows, by a column whose values are distinct at last.
fn order(rng: &mut StdRng, columns: &[&str]) -> String {
    let column = |column: &&str| {
        let (order, nulls) = (one_of(rng, &["", " DESC"]), one_of(rng, &["", " NULLS FIRST", " NULLS LAST"]));
        format!("{column}{order}{nulls}")
    };
    let columns: Vec<_> = columns.iter().map(column).collect();
    let limit = one_of(rng, &["", " LIMIT 7", " LIMIT 5 OFFSET 3", " LIMIT 300"]);
    format!("ORDER BY {}{limit}", columns.join(", "))
}

/// What a join of `x` and `y` asks beside its key.
fn more(rng: &mut StdRng) -> String {
    let of_both = ["", "", " AND x.a < y.a", " AND x.s = y.s", " AND x.a + y.a > 100 AND x.s <> y.s", " AND x.a = y.a"];
    let of_one = ["", "", "", " AND y.a > 30", " AND y.s IS NULL", " AND x.a % 3 = 1"];
    one_of(rng, &of_both) + &one_of(rng, &of_one)
}

fn query(rng: &mut StdRng, has_numbers: bool) -> String {
    let indexed = one_of(rng, &["i", "j", "j", "p"]);
    let condition = |rng: &mut StdRng, of: &str| condition(rng, of, 2);
    match rng.random_range(0..13) {
        0 | 1 => format!("SELECT * FROM {indexed} WHERE {}", condition(rng, "")),
        2 => format!("SELECT k FROM {indexed} WHERE {} {}", condition(rng, ""), order(rng, &["k"])),
        3 => format!("SELECT a, k FROM {indexed} WHERE {} {}", condition(rng, ""), order(rng, &["k", "a"])),
        4 => format!("SELECT k FROM {indexed} {}", order(rng, &["k"])),
        5 => {
            format!("SELECT count(*), count(k), count(DISTINCT k), max(a) FROM {indexed} WHERE {}", condition(rng, ""))
        }
        6 => {
            let what =
                one_of(rng, &["count(DISTINCT k)", "min(k), max(k), count(k), count(*)", "DISTINCT k", "DISTINCT k"]);
            format!("SELECT {what} FROM {indexed} WHERE {}", condition(rng, ""))
        }
        7 => format!("SELECT DISTINCT k FROM {indexed} {}", order(rng, &["k"])),
        8 | 9 => {
            let join = one_of(rng, &["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            let (more, left) = (more(rng), one_of(rng, &["t", "t", "i"]));
            let filter = if rng.random_bool(0.4) { format!("WHERE {}", condition(rng, "x.")) } else { String::new() };
            let filter = if rng.random_bool(0.1) { format!("WHERE {}", condition(rng, "y.")) } else { filter };
            let columns = one_of(rng, &["x.a, x.k, y.a, y.s", "y.a, x.k", "x.a", "y.k, x.a", "y.s, x.s, y.k"]);
            format!("SELECT {columns} FROM {left} AS x {join} {indexed} AS y ON x.k = y.k{more} {filter}")
        }
        10 => {
            let (not, more) = (one_of(rng, &["", "", "NOT "]), more(rng));
            let [outer, inner] = if rng.random_bool(0.5) { ["t", &indexed] } else { [&*indexed, "t"] };
            let exists = format!("{not}EXISTS (SELECT 1 FROM {inner} AS y WHERE x.k = y.k{more})");
            format!("SELECT a, s FROM {outer} AS x WHERE {exists}")
        }
        11 => {
            let (not, [outer, inner]) =
                (one_of(rng, &["", "", "NOT "]), if rng.random_bool(0.5) { ["t", &indexed] } else { [&*indexed, "t"] });
            format!("SELECT a, k FROM {outer} WHERE k {not}IN (SELECT k FROM {inner} WHERE {})", condition(rng, ""))
        }
        _ if has_numbers => {
            let [low, high] = [[">=", ">"], ["<=", "<"]].map(|operators| one_of(rng, &operators));
            let on = format!("y.k {low} x.k - 2 AND y.k {high} x.k + 1{}", more(rng));
            match one_of(rng, &["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "", "NOT"]) {
                join if join.ends_with("JOIN") => format!("SELECT x.a, y.a FROM t AS x {join} {indexed} AS y ON {on}"),
                not => format!("SELECT x.a FROM t AS x WHERE {not} EXISTS (SELECT 1 FROM {indexed} AS y WHERE {on})"),
            }
        }
        _ => format!("SELECT s, count(*) FROM {indexed} WHERE {} GROUP BY s", condition(rng, "")),
    }
}

/// The rows of a query and its plan.
async fn run(session: &SessionContext, sql: &str) -> Result<(Vec<String>, String)> {
    let plan = session.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(plan.clone(), session.task_ctx()).await?;
    let text = pretty_format_batches(&batches)?.to_string();
    let mut rows: Vec<_> = text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect();
    // The first one has the names of the columns.
    if let Some(rows) = rows.get_mut(1..).filter(|_| !sql.contains("ORDER BY")) {
        rows.sort();
    }
    Ok((rows, displayable(&*plan).indent(false).to_string()))
}

/// A file for `tests/compare_duckdb.py`, if `LANETREE_RANDOM_SQL` names one: statements over columns of `BIGINT`, and their rows.
struct Log(Option<File>);

impl Log {
    fn of(data_type: &DataType) -> Self {
        let path = std::env::var_os("LANETREE_RANDOM_SQL").filter(|_| *data_type == DataType::Int64);
        Self(path.map(|path| File::create(path).unwrap()))
    }

    fn write(&mut self, statement: &str, rows: &[String]) {
        if let Some(file) = &mut self.0 {
            writeln!(file, "{statement}\n{}\n", rows.join("\n").trim_end()).unwrap();
        }
    }
}

#[tokio::test]
async fn random_queries_have_the_results_of_tables_without_indexes() {
    let mut counts = [0; 6];
    for (seed, data_type) in types().iter().enumerate() {
        let (sessions, mut rng) = (Sessions::new(), StdRng::seed_from_u64(400 + seed as u64));
        sessions.plain_table("t", table(&keys(&mut rng, 50, SPAN, 0.1), data_type, true));
        sessions.indexed_table("i", table(&distinct(&mut rng, SPAN, 3), data_type, true));
        sessions.indexed_table("j", table(&keys(&mut rng, 300, SPAN, 0.1), data_type, true));
        sessions.plain_table("p", table(&keys(&mut rng, 200, SPAN, 0.1), data_type, true));
        // Of types that have room beside `a`: joins by `k` are by its first column.
        let has_words =
            matches!(data_type, DataType::Int64 | DataType::Int32 | DataType::Date32 | DataType::Timestamp(..));
        let of_p = if has_words { "CREATE INDEX ON p (k, a)" } else { "CREATE INDEX ON p (k)" };
        for index in ["CREATE INDEX ON j (a)", "CREATE INDEX by_s ON j (s)", of_p] {
            rows(&sessions.lookups, index).await.unwrap();
        }
        // Plans that cost less, beside those by an index wherever there is one.
        let state = SessionStateBuilder::new().with_config(config()).with_default_features();
        let careful = with_index_lookups_on(state, &Device::best(), Costs::default()).build();
        let careful = SessionContext::new_with_state(careful);
        for name in ["t", "i", "j", "p"] {
            careful.register_table(name, sessions.lookups.table_provider(name).await.unwrap()).unwrap();
        }
        let mut log = Log::of(data_type);
        for name in ["t", "i", "j", "p"] {
            let (rows, _) = run(&sessions.plain, &format!("SELECT a, k, s FROM {name}")).await.unwrap();
            log.write(&format!("TABLE {name}"), &rows);
        }
        let count = std::env::var("LANETREE_RANDOM_COUNT").map_or(112, |count| count.parse().unwrap());
        let has_numbers = matches!(data_type, DataType::Int64 | DataType::Int32);
        for number in 0..count {
            if number % 12 == 11 {
                let changes = [
                    format!("INSERT INTO j SELECT a + {number}000, k, s FROM j WHERE a % 41 = {}", number % 5),
                    format!("DELETE FROM j WHERE k = v({number}) OR a % 67 = {}", number % 7),
                    format!("UPDATE j SET k = NULL, s = 'row 13' WHERE a % 53 = {}", number % 3),
                ];
                let change = constants(&changes[number / 12 % 3], data_type);
                log.write(&change, &[]);
                for session in [&sessions.lookups, &sessions.plain] {
                    rows(session, &change).await.unwrap_or_else(|error| panic!("{change}: {error}"));
                }
            }
            let sql = constants(&query(&mut rng, has_numbers), data_type);
            let expected = run(&sessions.plain, &sql).await;
            let session = if number % 4 == 3 { &careful } else { &sessions.lookups };
            match (run(session, &sql).await, expected) {
                (Ok((found, plan)), Ok((expected, _))) => {
                    log.write(&sql, &found);
                    assert_eq!(found, expected, "{data_type}: {sql}\n{plan}");
                    for (at, what) in PLANS.iter().enumerate() {
                        counts[at] += usize::from(plan.contains(what));
                    }
                }
                (found, expected) => panic!("{data_type}: {sql}: {:?}, {:?}", found.err(), expected.err()),
            }
        }
    }
    // Most of them are about indexes.
    let least = [500, 120, 60, 2, 30, 20];
    assert!(counts.iter().zip(least).all(|(count, least)| *count >= least), "{counts:?}");
}
