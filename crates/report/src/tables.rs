//! Tables of figures in documents, and numbers in their texts, from the records: so that text and record cannot differ.
//!
//! A document marks where a table stands: `<!-- table: NAME -->`, the table, `<!-- end -->`; and where a number does, in a
//! line: `<!-- value: NAME -->`, the number, `<!-- end -->`. What stands there is in `tables/`, a file for each document: a row of
//! a table has texts for its first columns, and a record with its numbers; each number is of the one row of the record that says
//! all of `rows`, the row's and the number's. `cargo xtask report --tables` writes them.

use crate::data;
use crate::facts::{Facts, Filter};
use crate::number::Unit;
use crate::provenance;
use crate::store::Store;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The card of records that are named without one.
const CARD: &str = "nvidia-h200";

/// A file for each document.
const DOCUMENTS: [(&str, &str); 4] = [
    ("tables/readme.toml", include_str!("../tables/readme.toml")),
    ("tables/figures.toml", include_str!("../tables/figures.toml")),
    ("tables/choosing-an-index.toml", include_str!("../tables/choosing-an-index.toml")),
    ("tables/performance.toml", include_str!("../tables/performance.toml")),
];

/// What is written into all documents.
#[derive(Debug)]
pub(crate) struct Tables(pub(crate) Vec<Document>);

/// What is written into a document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    /// It, from the workspace's root.
    pub(crate) file: String,
    #[serde(default)]
    table: Vec<Table>,
    #[serde(default)]
    values: Vec<Values>,
}

/// Numbers in a text: those of a record's rows that have something in common.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    record: Records,
    /// What all their rows say.
    #[serde(default)]
    rows: Filter,
    /// By the name that stands in the text.
    of: BTreeMap<String, Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    column: Vec<Column>,
    row: Vec<Row>,
    /// Whether a line beneath it says what its records were made on and from.
    #[serde(default)]
    says_where: bool,
}

/// A column: of texts, if the rows have as many before it; else of what `of` says; else of what the row says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    title: String,
    #[serde(default)]
    of: Vec<Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The texts of the first columns.
    #[serde(default)]
    texts: Vec<String>,
    record: Records,
    /// What the record's rows say.
    rows: Filter,
    /// Whether it is left out until there is a record with its numbers.
    #[serde(default)]
    may_wait: bool,
    /// Numbers of the columns that have none.
    #[serde(default)]
    of: Vec<Number>,
}

/// The record that has a row's numbers; of another card than most, after its name and a slash. Of several the first that is
/// there counts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Records {
    One(String),
    First(Vec<String>),
}

impl Records {
    /// The card, the record's name, and its rows.
    fn find<'a>(&'a self, store: &'a Store) -> Result<(&'a str, &'a str, &'a [Facts]), String> {
        let all = match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::First(all) => all,
        };
        let mut parts = all.iter().map(|record| record.split_once('/').unwrap_or((CARD, record)));
        let found = parts.find_map(|(card, name)| Some((card, name, store.rows(card, name)?)));
        found.ok_or_else(|| format!("no record {}", all.join(" or ")))
    }
}

/// A number of one row of a record: of the table row's, unless it names one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Number {
    record: Option<Records>,
    /// What its row says besides, or instead of what the table's row wants.
    #[serde(default)]
    rows: Filter,
    field: String,
    /// A field by which it is divided.
    over: Option<String>,
    #[serde(default)]
    unit: Unit,
    /// What stands after it.
    #[serde(default)]
    after: String,
}

impl Tables {
    pub(crate) fn read() -> Result<Self, data::Error> {
        DOCUMENTS.into_iter().map(|(file, text)| data::read(file, text)).collect::<Result<_, _>>().map(Self)
    }
}

impl Document {
    /// Its text with its tables and numbers written; or what is wrong with it.
    pub(crate) fn written(&self, text: &str, store: &Store) -> Result<String, String> {
        let (file, mut text) = (&self.file, text.to_owned());
        for table in &self.table {
            let begin = format!("<!-- table: {} -->\n", table.name);
            let start = text.find(&begin).ok_or_else(|| format!("{file} has no line {begin:?}"))? + begin.len();
            let end = text[start..].find("<!-- end -->").ok_or_else(|| format!("{file}: {} has no end", table.name))?;
            text.replace_range(start..start + end, &table.markdown(store)?);
        }
        for values in &self.values {
            for (name, number) in &values.of {
                let number = number.of(&values.record, &values.rows, store);
                let number = number.map_err(|error| format!("{file}: {name}: {error}"))?;
                let begin = format!("<!-- value: {name} -->");
                let parts: Vec<&str> = text.split(&begin).collect();
                let [first, rest @ ..] = &parts[..] else { continue };
                if rest.is_empty() {
                    return Err(format!("{file} has no {begin:?}"));
                }
                let mut written = (*first).to_owned();
                for part in rest {
                    let end = part.find("<!-- end -->").ok_or_else(|| format!("{file}: {name} has no end"))?;
                    written += &format!("{begin}{number}{}", &part[end..]);
                }
                text = written;
            }
        }
        let marked = text.split("<!-- value: ").skip(1).filter_map(|part| part.split(" -->").next());
        match marked.into_iter().find(|name| !self.values.iter().any(|values| values.of.contains_key(*name))) {
            Some(name) => Err(format!("{file}: no value {name:?}")),
            None => Ok(text),
        }
    }
}

impl Table {
    fn markdown(&self, store: &Store) -> Result<String, String> {
        let titles: Vec<&str> = self.column.iter().map(|column| &*column.title).collect();
        let mut out = format!("\n| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
        for row in self.rows(store) {
            let cells: Result<Vec<String>, String> = (0..titles.len()).map(|i| self.cell(row, i, store)).collect();
            writeln!(out, "| {} |", cells?.join(" | ")).expect("a string takes all");
        }
        if self.says_where {
            let of_rows = self.rows(store).flat_map(|row| {
                let of = row.of.iter().chain(self.column.iter().flat_map(|column| &column.of));
                [Some(&row.record)].into_iter().chain(of.map(|number| number.record.as_ref())).flatten()
            });
            let records: Result<BTreeSet<(&str, &str)>, String> =
                of_rows.map(|records| records.find(store).map(|(card, name, _)| (card, name))).collect();
            write!(out, "\n{}\n", provenance::of_records(records?, store)).expect("a string takes all");
        }
        Ok(out + "\n")
    }

    fn rows(&self, store: &Store) -> impl Iterator<Item = &Row> {
        let is_there = |row: &Row| (0..self.column.len()).all(|i| self.cell(row, i, store).is_ok());
        self.row.iter().filter(move |row| !row.may_wait || is_there(row))
    }

    fn cell(&self, row: &Row, column: usize, store: &Store) -> Result<String, String> {
        if let Some(text) = row.texts.get(column) {
            return Ok(text.clone());
        }
        let of = &self.column[column].of;
        let numbers = row.numbers(if of.is_empty() { &row.of } else { of }, store);
        numbers.map_err(|error| format!("{}: {error}", self.name))
    }
}

impl Row {
    fn numbers(&self, of: &[Number], store: &Store) -> Result<String, String> {
        let numbers: Result<Vec<String>, String> =
            of.iter().map(|number| number.of(&self.record, &self.rows, store)).collect();
        Ok(numbers?.join("; "))
    }
}

impl Number {
    /// As text: of a record and rows, unless it names others.
    fn of(&self, record: &Records, rows: &Filter, store: &Store) -> Result<String, String> {
        let filter = self.rows.or(rows);
        let (_, record, rows) = self.record.as_ref().unwrap_or(record).find(store)?;
        let rows: Vec<&Facts> = rows.iter().filter(|facts| filter.takes(facts)).collect();
        let [facts] = rows[..] else {
            return Err(format!("{} rows of {record} with {}", rows.len(), filter.describe()));
        };
        let field = |name: &str| facts.number(name).ok_or_else(|| format!("{record} has no {name}"));
        let number = field(&self.field)? / self.over.as_deref().map_or(Ok(1.0), field)?;
        Ok(self.unit.write(number) + &self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{records, workspace};
    use serde_json::json;
    use std::fs;

    #[test]
    fn the_committed_tables_are_what_would_be_written() {
        let (tables, store) = (Tables::read().unwrap(), Store::of_folder(&records()).unwrap());
        for document in &tables.0 {
            let file = &document.file;
            let committed = fs::read_to_string(workspace().join(file)).unwrap();
            let written = document.written(&committed, &store).unwrap();
            assert!(written == committed, "tables of {file} are not what the records say: cargo xtask report --tables");
        }
    }

    fn written(toml: &str, text: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        let rows =
            [("a", 12.5), ("b", 2.5)].map(|(index, rate)| json!({ "index": index, "giga_per_second": rate, "x": 5 }));
        fs::write(&path, crate::store::tests::record(&rows)).unwrap();
        let store = Store::of_files(&[path]).unwrap();
        toml::from_str::<Document>(&format!("file = \"f.md\"\n{toml}")).unwrap().written(text, &store)
    }

    const TABLE: &str = r#"
        [[table]]
        name = "t"
        column = [
            { title = "index" },
            { title = "rate", of = [{ field = "giga_per_second" }, { field = "giga_per_second", over = "x", unit = "times" }] },
            { title = "own" },
        ]
        row = [
            { texts = ["A"], record = "r", rows = { index = "a" }, of = [{ field = "x", unit = "count", after = " x" }] },
            { texts = ["B"], record = "r", rows = { index = "b" } },
        ]"#;

    #[test]
    fn a_table_has_texts_then_numbers() {
        let text = "before\n<!-- table: t -->\nold\n<!-- end -->\nafter\n";
        let table = "| index | rate | own |\n|---|---|---|\n| A | 12.5 G/s; 2.5 × | 5 x |\n| B | 2.5 G/s; 0.5 × |  |\n";
        assert_eq!(
            written(TABLE, text).unwrap(),
            format!("before\n<!-- table: t -->\n\n{table}\n<!-- end -->\nafter\n")
        );
    }

    #[test]
    fn a_number_stands_wherever_its_mark_does() {
        let toml = r#"
            [[values]]
            record = ["new", "r"]
            of = { v = { rows = { index = "a" }, field = "giga_per_second" } }"#;
        let text = "A <!-- value: v -->1<!-- end --> B <!-- value: v --><!-- end -->.";
        let v = "<!-- value: v -->12.5 G/s<!-- end -->";
        assert_eq!(written(toml, text).unwrap(), format!("A {v} B {v}."));
        assert_eq!(written(toml, "A").unwrap_err(), "f.md has no \"<!-- value: v -->\"");
        assert_eq!(written(toml, "<!-- value: v -->1").unwrap_err(), "f.md: v has no end");
        assert_eq!(written(&toml.replace("\"r\"", "\"s\""), text).unwrap_err(), "f.md: v: no record new or s");
        assert_eq!(
            written(toml, &format!("{text} <!-- value: w -->1<!-- end -->")).unwrap_err(),
            "f.md: no value \"w\""
        );
    }

    #[test]
    fn a_table_says_what_its_records_are_of() {
        let toml = TABLE.replace("name = \"t\"", "name = \"t\"\nsays_where = true");
        let text = written(&toml, "<!-- table: t -->\n<!-- end -->").unwrap();
        assert!(text.contains("\n\nMeasured on: NVIDIA H200, driver 580.1; Xeon, 16 threads: 1 record without a commit; see the history of benches/record, no date.\n"), "{text}");
    }

    #[test]
    fn what_is_missing_is_told() {
        let error = |toml: &str, text: &str| written(toml, text).unwrap_err();
        let text = "<!-- table: t -->\n<!-- end -->";
        assert!(error(TABLE, "text").contains("f.md has no line"));
        assert!(error(TABLE, "<!-- table: t -->\n").contains("t has no end"));
        assert_eq!(error(&TABLE.replace("\"a\"", "\"c\""), text), "t: 0 rows of r with index = \"c\"");
        assert_eq!(error(&TABLE.replace("{ index = \"a\" }", "{ }"), text), "t: 2 rows of r with ");
        assert_eq!(error(&TABLE.replace("\"r\"", "\"s\""), text), "t: no record s");
        let waits = TABLE.replace("\"r\", rows = { index = \"b\"", "\"s\", may_wait = true, rows = { index = \"b\"");
        let waits_for_a_row =
            TABLE.replace("\"r\", rows = { index = \"b\"", "\"r\", may_wait = true, rows = { index = \"c\"");
        for toml in [&waits, &waits_for_a_row] {
            let left = written(toml, text).unwrap();
            assert!(left.contains("| A |") && !left.contains("| B |"), "{left}");
        }
        assert_eq!(error(&TABLE.replace("over = \"x\"", "over = \"y\""), text), "t: r has no y");
    }
}
