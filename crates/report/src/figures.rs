//! What the page draws: figures of the bench, compared with the papers'.
//!
//! They are kept in `benches/figures`, a file for each system, with what the bench is told of them. A plot chooses rows by `rows`, and is lines over `x`, or bars
//! without it; `y` is a field of the record, `giga_per_second` by default. `paper` has numbers that stand in a paper's text,
//! in the unit of the record's field; numbers that could only be read off a paper's plot are not here.

use crate::facts::{Facts, Filter};
use crate::number::Unit;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A file for each group.
const GROUPS: [(&str, &str); 6] = [
    ("../../benches/figures/harmonia.toml", include_str!("../../../benches/figures/harmonia.toml")),
    ("../../benches/figures/cuart.toml", include_str!("../../../benches/figures/cuart.toml")),
    ("../../benches/figures/hbtree.toml", include_str!("../../../benches/figures/hbtree.toml")),
    ("../../benches/figures/cubpt.toml", include_str!("../../../benches/figures/cubpt.toml")),
    ("../../benches/figures/lanetree.toml", include_str!("../../../benches/figures/lanetree.toml")),
    ("../../benches/figures/all.toml", include_str!("../../../benches/figures/all.toml")),
];

/// All figures, by system.
#[derive(Debug)]
pub(crate) struct Figures(pub(crate) Vec<Group>);

/// A system's figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// The bench's.
    #[serde(default, rename = "sizes")]
    _sizes: IgnoredAny,
    pub(crate) figure: Vec<Figure>,
}

/// A figure or part of the bench, or what is compared of several runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// The bench's name for it.
    pub(crate) name: String,
    pub(crate) title: String,
    /// Which figure or section of a paper it is.
    pub(crate) paper: Option<String>,
    /// What the paper's text says of it.
    pub(crate) says: Option<String>,
    /// The records that have its rows; by default one, of the figure's name.
    #[serde(default)]
    records: Vec<String>,
    /// How it is asked for, if not by `--figure` and its name; empty if the bench does not make its records: see
    /// [`Figure::is_made`].
    run: Option<String>,
    /// Whether the bench has no figure of that name.
    #[serde(default)]
    pub(crate) is_comparison: bool,
    pub(crate) plot: Vec<Plot>,
    /// What the bench is told of it.
    #[serde(default, rename = "bench")]
    _bench: IgnoredAny,
}

impl Figure {
    /// Its records' names.
    pub(crate) fn records(&self) -> Vec<&str> {
        if self.records.is_empty() { vec![&*self.name] } else { self.records.iter().map(|name| &**name).collect() }
    }

    /// Whether other figures have their rows in the same record.
    pub(crate) fn shares_its_record(&self) -> bool {
        !self.records.is_empty() && !self.is_comparison
    }

    /// Whether the bench makes its records. It does not make records of an earlier state, which are compared with later
    /// ones, nor records of other programs.
    pub(crate) fn is_made(&self) -> bool {
        self.run.as_deref() != Some("")
    }

    /// The command that writes its record.
    pub(crate) fn command(&self) -> String {
        let file = self.records()[0];
        match &self.run {
            Some(run) => format!("cargo xtask bench {run} --json {file}.json"),
            None => format!("cargo xtask bench --figure {} --json {file}.json", self.name),
        }
    }
}

/// Lines over a number, or bars for what has none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plot {
    pub(crate) title: String,
    #[serde(default)]
    rows: Filter,
    /// Counted, and not timed: the path of a list in the record.
    pub(crate) list: Option<String>,
    /// The field to the right; without one it is bars.
    pub(crate) x: Option<X>,
    /// The field on the vertical axis, or the bars' field.
    #[serde(default = "rate")]
    pub(crate) y: String,
    #[serde(default)]
    pub(crate) unit: Unit,
    /// What `y` is, for the axis.
    pub(crate) y_title: String,
    /// Whether bars, or lines upwards, double at equal distances. By default it follows from the numbers.
    pub(crate) is_log: Option<bool>,
    /// The fields whose values tell lines apart, or the bars of a group.
    pub(crate) series: Vec<String>,
    /// The fields whose values tell groups of bars apart.
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    /// What values of these fields are called.
    #[serde(default)]
    names: std::collections::BTreeMap<String, String>,
    /// What papers say.
    #[serde(default)]
    pub(crate) paper: Vec<Quoted>,
}

fn rate() -> String {
    "giga_per_second".into()
}

/// The axis to the right.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct X {
    pub(crate) field: String,
    pub(crate) title: String,
    /// Whether it doubles at equal distances.
    #[serde(default)]
    pub(crate) is_log: bool,
    /// Whether it is a part of one, written in per cent.
    #[serde(default)]
    pub(crate) is_part: bool,
}

/// What a paper says: a level, or points.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quoted {
    pub(crate) name: String,
    /// In the unit of the plot's records.
    pub(crate) level: Option<f64>,
    /// Pairs of x and y.
    #[serde(default)]
    pub(crate) points: Vec<[f64; 2]>,
}

impl Plot {
    /// The rows that it shows.
    pub(crate) fn choose<'a>(&self, rows: &'a [Facts]) -> Vec<&'a Facts> {
        rows.iter().filter(|facts| self.rows.takes(facts) && facts.number(&self.y).is_some()).collect()
    }

    /// What a row's line or bar is called: the values of `series`.
    pub(crate) fn name(&self, facts: &Facts) -> String {
        self.join(&self.series, facts)
    }

    /// What the group of a row's bar is called.
    pub(crate) fn group(&self, facts: &Facts) -> String {
        self.join(&self.groups, facts)
    }

    fn join(&self, fields: &[String], facts: &Facts) -> String {
        let values = fields.iter().map(|field| {
            let words = facts.words(field);
            // Named with its field where a bare number would say nothing.
            let with_field = format!("{field} {words}");
            self.names.get(&with_field).or_else(|| self.names.get(&words)).cloned().unwrap_or_else(|| {
                match (facts.number(field), &*words) {
                    (_, "") => String::new(),
                    (Some(number), _) => format!("{} {}", field.replace('_', " "), crate::number::count(number)),
                    (None, words) => match words.strip_prefix("[u8; ").and_then(|words| words.strip_suffix(']')) {
                        Some(bytes) => format!("keys of {bytes} bytes"),
                        None => words.to_owned(),
                    },
                }
            })
        });
        values.filter(|value| !value.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

impl Figures {
    /// The groups as the page shows them: that of the library's own index comes first. They are read in the papers' order.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Group> {
        let is_ours = |group: &&Group| group.name.starts_with("LaneTree");
        self.0.iter().filter(is_ours).chain(self.0.iter().filter(move |group| !is_ours(group)))
    }

    /// The figures of this crate.
    ///
    /// # Errors
    /// The TOML's, with the file.
    pub(crate) fn read() -> Result<Self, crate::data::Error> {
        GROUPS.iter().map(|(file, text)| crate::data::read(file, text)).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Figure> {
        self.0.iter().flat_map(|group| &group.figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plot(toml: &str) -> Plot {
        toml::from_str(&format!("title = \"\"\ny_title = \"\"\n{toml}")).unwrap()
    }

    #[test]
    fn lines_are_called_by_their_fields() {
        let plot = plot(
            "series = [\"index\", \"threads\", \"key\", \"order\"]\nnames = { pbi = \"PBI\", \"threads 1\" = \"one thread\" }",
        );
        let name = |json| plot.name(&Facts::of_json(&json));
        assert_eq!(
            name(json!({ "index": "pbi", "threads": 16, "key": "[u8; 8]" })),
            "PBI, threads 16, keys of 8 bytes"
        );
        assert_eq!(name(json!({ "index": "cubpt", "threads": 1, "order": 512 })), "cubpt, one thread, order 512");
        assert_eq!(plot.group(&Facts::default()), "");
    }

    #[test]
    fn a_figure_says_how_its_record_is_made() {
        let figures = Figures::read().unwrap();
        let command = |name: &str| figures.all().find(|figure| figure.name == name).unwrap().command();
        assert_eq!(command("hbtree-build"), "cargo xtask bench --figure hbtree-build --json hbtree-build.json");
        assert_eq!(command("lookups"), "cargo xtask bench --only lookups --json bench.json");
    }

    #[test]
    fn a_row_without_the_number_is_not_drawn() {
        let plot = plot("series = []\ny = \"x_cpu\"\nrows = { n = 4 }");
        let rows = [json!({ "n": 4 }), json!({ "n": 4, "x_cpu": 2.0 }), json!({ "n": 8, "x_cpu": 2.0 })];
        assert_eq!(plot.choose(&rows.map(|row| Facts::of_json(&row))).len(), 1);
    }
}
