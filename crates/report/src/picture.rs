//! The README's picture: bars of look-ups per second, by card and size, as one SVG file.

use crate::data;
use crate::facts::Filter;
use crate::html::escape;
use crate::number::three_digits;
use crate::provenance;
use crate::store::Store;
use serde::Deserialize;
use std::fmt::Write as _;

/// What is drawn: `picture.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Picture {
    title: String,
    /// Numbers of pairs, a group of bars for each.
    sizes: Vec<u64>,
    bar: Vec<Bar>,
}

/// A bar of each group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bar {
    name: String,
    /// Drawn in colour.
    #[serde(default)]
    is_ours: bool,
    /// The first that has a row counts.
    records: Vec<String>,
    /// What its rows say besides the size.
    rows: Filter,
    /// The field with the rate, in 10^9 per second.
    rate: String,
}

// In units of the SVG.
const WIDTH: f64 = 720.0;
const LINE: f64 = 20.0;
/// Around all of it.
const MARGIN: f64 = 16.0;
/// Where bars begin, to the right of their names.
const LEFT: f64 = 250.0;
const LONGEST: f64 = 420.0;

/// Colours for readers of light pages, and of dark ones. The picture has a ground of its own: a page may be dark where the reader's
/// system is light.
struct Colours {
    ground: &'static str,
    text: &'static str,
    ours: &'static str,
    other: &'static str,
}

const LIGHT: Colours = Colours { ground: "#ffffff", text: "#1d2126", ours: "#0072b2", other: "#7d858f" };
const DARK: Colours = Colours { ground: "#14171b", text: "#e4e7eb", ours: "#4fa8e0", other: "#8b949e" };

impl Colours {
    fn style(&self) -> String {
        let Self { ground, text, ours, other } = self;
        format!(
            ".ground {{ fill: {ground} }} text {{ fill: {text} }} .ours {{ fill: {ours} }} .other {{ fill: {other} }}"
        )
    }
}

impl Picture {
    pub(crate) fn read() -> Result<Self, data::Error> {
        data::read("picture.toml", include_str!("../picture.toml"))
    }

    /// The picture, of all cards that have rows of ours for it.
    pub(crate) fn svg(&self, store: &Store) -> String {
        let cards: Vec<_> = store.cards().map(|card| (card, self.groups(store, card))).collect();
        let rates = cards.iter().flat_map(|(_, groups)| groups).flat_map(|(_, bars)| bars).map(|(_, rate, _)| *rate);
        let most = rates.fold(f64::MIN_POSITIVE, f64::max);
        let mut y = LINE * 1.5;
        let mut body = text(0.0, y, "title", &self.title);
        for (card, groups) in cards.iter().filter(|(_, groups)| !groups.is_empty()) {
            y += LINE * 1.5;
            body += &text(0.0, y, "title", &card.to_uppercase().replace('-', " "));
            let records = groups.iter().flat_map(|(_, bars)| bars).map(|(.., record)| *record).collect();
            y += LINE;
            body += &text(0.0, y, "where", &provenance::commits_and_dates(card, &records, store));
            for (size, bars) in groups {
                y += LINE * 1.5;
                body += &text(0.0, y, "name", &format!("2^{} pairs", size.ilog2()));
                for (bar, rate, _) in bars {
                    y += LINE;
                    let (width, class) = (rate / most * LONGEST, if bar.is_ours { "ours" } else { "other" });
                    body += &text(16.0, y, "name", &bar.name);
                    let top = y - 13.0;
                    writeln!(
                        body,
                        "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"16\" class=\"{class}\"/>"
                    )
                    .expect("a string takes all");
                    body += &text(LEFT + width + 6.0, y, "name", &three_digits(*rate));
                }
            }
        }
        let height = y + LINE;
        let (width, left) = (WIDTH + 2.0 * MARGIN, -MARGIN);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left} 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
             <!-- Written by `cargo xtask report` from crates/report/picture.toml and the records: see CONTRIBUTING.md. -->\n\
             <style>text {{ font: 14px sans-serif }} .title {{ font-weight: bold }} .where {{ font-size: 11px }} {}\n\
             @media (prefers-color-scheme: dark) {{ {} }}</style>\n\
             <rect x=\"{left}\" y=\"0\" width=\"{width}\" height=\"{height}\" rx=\"6\" class=\"ground\"/>\n{body}</svg>\n",
            LIGHT.style(),
            DARK.style()
        )
    }

    /// The bars of a card with their rates, by size; without sizes for which there is none of ours to compare the
    /// others with.
    fn groups(&self, store: &Store, card: &str) -> Vec<(u64, Vec<Drawn<'_>>)> {
        let bars = |size| {
            let bars =
                self.bar.iter().filter_map(|bar| bar.rate(store, card, size).map(|(rate, record)| (bar, rate, record)));
            bars.collect()
        };
        let groups = self.sizes.iter().map(|&size| (size, bars(size)));
        groups.filter(|(_, bars): &(u64, Vec<Drawn<'_>>)| bars.iter().any(|(bar, ..)| bar.is_ours)).collect()
    }
}

impl Bar {
    /// The highest rate of the first record that has rows of this size, and the record.
    fn rate(&self, store: &Store, card: &str, size: u64) -> Option<(f64, &str)> {
        self.records.iter().find_map(|record| {
            let rows = store.rows(card, record)?.iter();
            let rows = rows.filter(|facts| self.rows.takes(facts) && facts.number("n") == Some(size as f64));
            let rate = rows.filter_map(|facts| facts.number(&self.rate)).max_by(f64::total_cmp)?;
            Some((rate, &**record))
        })
    }
}

/// A bar, its rate, and the record that has it.
type Drawn<'a> = (&'a Bar, f64, &'a str);

fn text(x: f64, y: f64, class: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y}\" class=\"{class}\">{}</text>\n", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::contrast;
    use crate::{records, workspace};
    use std::fs;

    #[test]
    fn the_committed_picture_is_what_would_be_drawn() {
        let (picture, store) = (Picture::read().unwrap(), Store::of_folder(&records()).unwrap());
        let committed = fs::read_to_string(workspace().join("docs/look-ups.svg")).unwrap();
        assert!(
            picture.svg(&store) == committed,
            "docs/look-ups.svg is not what the records say: cargo xtask report --picture docs/look-ups.svg"
        );
    }

    #[test]
    fn everything_contrasts_with_its_ground() {
        assert_eq!(contrast("#ffffff", "#000000").round(), 21.0);
        for Colours { ground, text, ours, other } in [LIGHT, DARK] {
            assert!(contrast(ground, text) >= 4.5, "{text} on {ground}");
            assert!(contrast(ground, ours) >= 3.0 && contrast(ground, other) >= 3.0, "{ours}, {other} on {ground}");
        }
    }

    #[test]
    fn every_bar_has_a_row() {
        let (picture, store) = (Picture::read().unwrap(), Store::of_folder(&records()).unwrap());
        for bar in &picture.bar {
            let has_row = |card| picture.sizes.iter().any(|&size| bar.rate(&store, card, size).is_some());
            assert!(store.cards().any(has_row), "{} has no row", bar.name);
        }
    }

    #[test]
    fn bars_are_as_long_as_the_fastest_row_of_the_first_record() {
        let folder = tempfile::tempdir().unwrap();
        let of =
            |index: &str, n: u64, rate: f64| serde_json::json!({ "index": index, "n": n, "giga_per_second": rate });
        let row = |n, rate| of("a", n, rate);
        let files = [
            ("new", vec![row(8, 2.0), row(8, 3.0), row(4, 9.0), of("b", 32, 1.0)]),
            ("old", vec![row(8, 5.0), row(16, 6.0)]),
        ];
        let paths = files.map(|(name, rows)| {
            let path = folder.path().join(format!("{name}.json"));
            fs::write(&path, crate::store::tests::record(&rows)).unwrap();
            path
        });
        let store = Store::of_files(&paths).unwrap();
        let toml = "title = \"t & u\"\nsizes = [8, 16, 32]\n[[bar]]\nname = \"a<b\"\nrecords = [\"none\", \"new\", \"old\"]\n\
                    rows = { index = \"a\" }\nrate = \"giga_per_second\"\nis_ours = true\n[[bar]]\nname = \"b\"\nrecords = [\"new\"]\n\
                    rows = { index = \"b\" }\nrate = \"giga_per_second\"";
        let svg = toml::from_str::<Picture>(toml).unwrap().svg(&store);
        for part in [
            "t &amp; u",
            "NVIDIA H200",
            ">2 records without a commit; see the history of benches/record, no date<",
            "2^3 pairs",
            "a&lt;b",
            "width=\"210.0\"",
            ">3.00<",
            "2^4 pairs",
            "width=\"420.0\"",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("2^5 pairs"), "no row of ours has that size");
        roxmltree::Document::parse(&svg).unwrap();
    }
}
