//! What is said of figures: the entries of `benches/figures`, which the report reads as well. All of it stays until the
//! program ends.

use super::columns::{COMPUTED, Column, Format};
use super::figure::{Figure, Measurement, Needs, Takes};
use super::plan::{STANDARD, Sizes};
use super::table::{Clock, Table};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A file for each group of figures.
const GROUPS: [&str; 6] = [
    include_str!("../../figures/harmonia.toml"),
    include_str!("../../figures/cuart.toml"),
    include_str!("../../figures/hbtree.toml"),
    include_str!("../../figures/cubpt.toml"),
    include_str!("../../figures/lanetree.toml"),
    include_str!("../../figures/all.toml"),
];

/// The file of columns that many figures have.
const COLUMNS: &str = include_str!("../../figures/columns.toml");

/// A group's figures, and sizes that several of them have, by name.
#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    sizes: BTreeMap<String, Sizes>,
    figure: Vec<Entry>,
}

/// A figure, as far as it is the bench's; the rest is the report's.
#[derive(Deserialize)]
struct Entry {
    name: String,
    /// None for what is compared of several figures.
    bench: Option<Description>,
}

/// What the bench is told of a figure: see [`Figure`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    about: String,
    #[serde(default = "device")]
    needs: Needs,
    takes: Option<Takes>,
    sizes: Option<Sizes>,
    /// The name of sizes of the group, instead of its own.
    sizes_of: Option<String>,
    most: Option<u32>,
    #[serde(default)]
    with_ceilings: bool,
    table: Option<TableText>,
    /// The figure whose table it has, instead of its own.
    table_of: Option<String>,
}

fn device() -> Needs {
    Figure::BASE.needs
}

/// A [`Table`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    /// By default the figure's name.
    name: Option<String>,
    title: String,
    columns: Vec<ColumnText>,
    clock: Clock,
    notes: Vec<String>,
}

/// A [`Column`]: the name of one, or one of its own.
#[derive(Deserialize)]
#[serde(untagged)]
enum ColumnText {
    Named(String),
    Own(OwnColumn),
}

/// A column under a head: a named one, or an extra of the row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnColumn {
    head: String,
    column: Option<String>,
    words: Option<String>,
    extra: Option<String>,
    format: Option<String>,
    digits: Option<usize>,
}

/// Figures as they are described, each with what measures it.
///
/// # Panics
/// At a file that is not as described here, at a figure without an entry and at a name that nothing has; a test reads all.
pub(crate) fn figures(measurements: &[Measurement]) -> Vec<Figure> {
    let (mut descriptions, shared) = (descriptions(), shared_columns());
    let mut tables = BTreeMap::new();
    for measurement in measurements {
        let table = descriptions.get_mut(measurement.name).and_then(|of| of.table.take());
        tables.extend(table.map(|text| (measurement.name.to_owned(), text.table(measurement, &shared))));
    }
    let figure = |of: &Measurement| {
        let text = named(&descriptions, of.name);
        let table_of = text.table_of.as_deref().map(|other| *named(&tables, other));
        Figure {
            name: of.name,
            about: leaked(&text.about),
            table: table_of.or_else(|| tables.get(of.name).copied()),
            needs: text.needs,
            takes: text.takes.unwrap_or(Figure::BASE.takes),
            sizes: text.sizes.clone().map_or(&STANDARD, |sizes| Box::leak(Box::new(sizes))),
            most: text.most.unwrap_or(Figure::BASE.most),
            with_ceilings: text.with_ceilings,
            run: of.run,
        }
    };
    measurements.iter().map(figure).collect()
}

/// What is said of each figure, by its name.
fn descriptions() -> BTreeMap<String, Description> {
    let mut all = BTreeMap::new();
    for text in GROUPS {
        let group: Group = toml::from_str(text).unwrap_or_else(|error| panic!("benches/figures: {error}"));
        for entry in group.figure {
            if let Some(mut of) = entry.bench {
                of.sizes = of.sizes.or_else(|| Some(named(&group.sizes, of.sizes_of.as_ref()?).clone()));
                all.insert(entry.name, of);
            }
        }
    }
    all
}

/// Columns that many figures have, by name.
fn shared_columns() -> BTreeMap<String, Column> {
    let columns: BTreeMap<String, OwnColumn> =
        toml::from_str(COLUMNS).unwrap_or_else(|error| panic!("benches/figures/columns.toml: {error}"));
    columns.into_iter().map(|(name, text)| (name, text.column(&|name| panic!("no column {name}")))).collect()
}

impl TableText {
    /// The table of a figure; columns of its own come before those of the same name that others have too.
    fn table(self, of: &Measurement, shared: &BTreeMap<String, Column>) -> &'static Table {
        let column_named = |name: &str| {
            let computed = of.columns.iter().chain(&COMPUTED).find(|(other, _)| *other == name);
            computed.map_or_else(|| *named(shared, name), |(_, column)| *column)
        };
        let column = |text: ColumnText| match text {
            ColumnText::Named(name) => column_named(&name),
            ColumnText::Own(text) => text.column(&column_named),
        };
        Box::leak(Box::new(Table {
            name: self.name.map_or(of.name, |name| leaked(&name)),
            title: leaked(&self.title),
            columns: self.columns.into_iter().map(column).collect::<Vec<_>>().leak(),
            clock: self.clock,
            notes: self.notes.iter().map(|line| leaked(line)).collect::<Vec<_>>().leak(),
            summary: of.summary,
        }))
    }
}

impl OwnColumn {
    fn column(self, column_named: &dyn Fn(&str) -> Column) -> Column {
        let head = leaked(&self.head);
        match (self.column, self.words, self.extra) {
            (Some(name), None, None) => column_named(&name).headed(head),
            (None, Some(words), None) => Column::words(head, leaked(&words)),
            (None, None, Some(extra)) => {
                Column::extra(head, leaked(&extra), Format::named(self.format.as_deref(), self.digits))
            }
            _ => panic!("column {head} is to have one of `column`, `words` and `extra`"),
        }
    }
}

fn named<'a, T>(all: &'a BTreeMap<String, T>, name: &str) -> &'a T {
    all.get(name).unwrap_or_else(|| panic!("benches/figures has no {name}"))
}

fn leaked(text: &str) -> &'static str {
    text.to_owned().leak()
}
