//! Files of statements and queries with their results, in the format of sqllogictest: `statement ok`, `statement error`, and
//! `query` with types, `rowsort` or `nosort`, and perhaps a label. Each is run with look-ups and by DataFusion alone; both must have
//! the results of the file.
//!
//! The labels `lookup` and `other` say whether the plan has a look-up. `onlyif lookup` before a statement leaves it to the session
//! that has indexes. Before a query of one of the table functions, which DataFusion alone has not, `# plain: SQL` is a query with the same
//! rows, which it answers. `LANETREE_SLT_COMPLETE=1` writes the results of DataFusion alone into the files.

use crate::{config, plan, with_lookups};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use std::path::Path;

/// A record of a file, with the lines of its head and its SQL.
#[derive(Debug)]
struct Record {
    /// Where it begins, from line 1 on.
    line: usize,
    /// Comments, conditions, and the line of the directive.
    head: Vec<String>,
    sql: String,
    results: Vec<String>,
}

impl Record {
    fn directive(&self) -> Vec<&str> {
        self.head.last().expect("a record has a head").split_whitespace().collect()
    }

    fn is_only_of_lookups(&self) -> bool {
        self.head.iter().any(|line| line == "onlyif lookup")
    }

    /// What DataFusion alone is asked for the same rows.
    fn plain_sql(&self) -> Option<&str> {
        match self.is_only_of_lookups() {
            true => self.head.iter().find_map(|line| line.strip_prefix("# plain: ")),
            false => Some(&self.sql),
        }
    }

    fn to_text(&self) -> String {
        let mut text = self.head.join("\n") + "\n" + &self.sql;
        if self.directive().first() == Some(&"query") {
            text += "\n----";
            self.results.iter().for_each(|row| text += &format!("\n{row}"));
        }
        text.trim_start().to_owned() + "\n"
    }
}

/// The records of a file, which empty lines divide.
fn records(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, _)) = lines.peek() {
        let line = at + 1;
        let block: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.is_empty()).collect();
        let is_head = |line: &&&str| line.is_empty() || line.starts_with(['#']) || line.starts_with("onlyif");
        let comments = block.iter().take_while(is_head).count();
        if comments == block.len() {
            assert!(block.iter().all(|line| line.starts_with('#')), "line {line}: a record without a directive");
            if !block.is_empty() {
                records.push(Record {
                    line,
                    head: block.iter().map(|line| line.to_string()).collect(),
                    sql: String::new(),
                    results: vec![],
                });
            }
            continue;
        }
        let (head, rest) = block.split_at(comments + 1);
        let dashes = rest.iter().position(|line| *line == "----").unwrap_or(rest.len());
        records.push(Record {
            line,
            head: head.iter().map(|line| line.to_string()).collect(),
            sql: rest[..dashes].join("\n"),
            results: rest.iter().skip(dashes + 1).map(|line| line.to_string()).collect(),
        });
    }
    records
}

/// A row per line, values divided by spaces.
fn rows_of(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values: Vec<String> = columns.iter().map(|column| value_of(column.value(row).to_string())).collect();
            values.join(" ")
        }));
    }
    rows
}

/// An empty line would end the results.
fn value_of(text: String) -> String {
    if text.is_empty() { "(empty)".to_owned() } else { text }
}

async fn run(session: &SessionContext, sql: &str, is_sorted: bool) -> Result<Vec<String>, String> {
    let batches = async { session.sql(sql).await?.collect().await }.await.map_err(|error| error.to_string())?;
    let mut rows = rows_of(&batches);
    if is_sorted {
        rows.sort();
    }
    Ok(rows)
}

async fn check(path: &Path) -> usize {
    let state = || SessionStateBuilder::new().with_config(config()).with_default_features();
    let lookups = SessionContext::new_with_state(with_lookups(state()).build());
    let plain = SessionContext::new_with_state(state().build());
    let completes = std::env::var_os("LANETREE_SLT_COMPLETE").is_some();
    let mut records = records(&std::fs::read_to_string(path).unwrap());
    let mut queries = 0;
    for record in &mut records {
        let Record { line, sql, .. } = &*record;
        let place = format!("{}:{line}: {sql}", path.display());
        let sessions = if record.is_only_of_lookups() {
            &[("lookup", &lookups)][..]
        } else {
            &[("plain", &plain), ("lookup", &lookups)]
        };
        match record.directive()[..] {
            ["statement", "ok"] => {
                for (name, session) in sessions {
                    run(session, sql, false).await.unwrap_or_else(|error| panic!("{place}: {name}: {error}"));
                }
            }
            ["statement", "error", ..] => {
                for (name, session) in sessions {
                    assert!(run(session, sql, false).await.is_err(), "{place}: {name}: no error");
                }
            }
            ["query", types, order @ ("rowsort" | "nosort"), ref label @ ..] => {
                let mut results = record.results.clone();
                let plain_sql = record.plain_sql().unwrap_or_else(|| panic!("{place}: no line `# plain: SQL`"));
                for (name, session, sql) in [("plain", &plain, plain_sql), ("lookup", &lookups, sql)] {
                    let rows = run(session, sql, order == "rowsort").await;
                    let rows = rows.unwrap_or_else(|error| panic!("{place}: {name}: {error}"));
                    if completes && name == "plain" {
                        results.clone_from(&rows);
                    }
                    assert_eq!(rows, results, "{place}: {name}");
                }
                let columns = plain.sql(plain_sql).await.map_or(types.len(), |frame| frame.schema().fields().len());
                assert_eq!(types.len(), columns, "{place}: a letter for each column");
                let has_lookup = plan(&lookups, sql).await.contains("IndexLookupExec");
                match label {
                    [] => {}
                    ["lookup"] => assert!(has_lookup, "{place}: no look-up"),
                    ["other"] => assert!(!has_lookup, "{place}: a look-up"),
                    _ => panic!("{place}: label {label:?}"),
                }
                record.results = results;
                queries += 1;
            }
            _ if sql.is_empty() && record.head.iter().all(|line| line.starts_with('#')) => {}
            _ => panic!("{place}: {:?}", record.head),
        }
    }
    if completes {
        let text: Vec<String> = records.iter().map(Record::to_text).collect();
        std::fs::write(path, text.join("\n")).unwrap();
    }
    queries
}

#[tokio::test]
async fn files_of_joins_have_their_results() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/joins");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut queries = 0;
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "slt")) {
        queries += check(path).await;
    }
    assert!(queries > 100, "{queries} queries");
}

#[test]
fn a_record_is_what_was_read() {
    let text = "# About\nstatement ok\nCREATE TABLE t (k INT)\n\nonlyif lookup\nquery IT rowsort lookup\nSELECT 1,\n'a'\n----\n1 a\n2 b\n";
    let records = records(text);
    assert_eq!(records.iter().map(Record::to_text).collect::<Vec<_>>().join("\n"), text);
    assert_eq!((records[1].line, &*records[1].sql, records[1].results.len()), (5, "SELECT 1,\n'a'", 2));
    assert!(records[1].is_only_of_lookups() && !records[0].is_only_of_lookups());
}
