//! Which records `--figure all` makes, of which paper, and in which pieces: `benches/figures/records.toml`, and figures that
//! are not named there.

use crate::bench::args::Paper;
use crate::bench::figures::alone;
use Paper::{Cuart, Cubpt, Harmonia, Hbtree, Lanetree};
use serde::Deserialize;
use std::sync::LazyLock;

/// A record, which has the name of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) record: &'static str,
    pub(crate) paper: Paper,
    /// The runs that it is made of.
    pub(crate) pieces: Vec<Piece>,
}

/// A run: the options of its command, and the seconds after which it begins no further row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Piece {
    pub(crate) options: String,
    pub(crate) seconds: u64,
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    record: Vec<Line>,
    with_rivals: Vec<Line>,
}

/// A record, its runs for the page, and the runs for `--full` if they differ.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    paper: Paper,
    runs: Vec<Piece>,
    #[serde(default)]
    full: Vec<Piece>,
}

/// What the file says; a test reads it.
static LISTED: LazyLock<Listed> = LazyLock::new(|| {
    let text = include_str!("../../../figures/records.toml");
    toml::from_str(text).unwrap_or_else(|error| panic!("benches/figures/records.toml: {error}"))
});

/// Seconds of a figure that is not in the list.
const USUAL: u64 = 25;

/// The first word of a piece that is no run of the bench: the rivals' programs that stand after it.
pub(crate) const RIVALS: &str = "rivals";

/// The records of several figures and of rivals, by their figures' names.
pub(crate) fn with_rivals() -> impl Iterator<Item = Planned> {
    LISTED.with_rivals.iter().map(|line| line.planned(false))
}

impl Line {
    fn planned(&'static self, is_full: bool) -> Planned {
        let pieces = if is_full && !self.full.is_empty() { &self.full } else { &self.runs };
        Planned { record: &self.name, paper: self.paper, pieces: pieces.clone() }
    }
}

/// All records of these papers (of all, if none is named), in the order in which they are made.
pub(crate) fn plan(papers: &[Paper], is_full: bool) -> Vec<Planned> {
    let listed = LISTED.record.iter().map(|line| line.planned(is_full));
    let is_listed = |name: &str| LISTED.record.iter().any(|line| line.name == name);
    let others = alone().filter(|figure| !is_listed(figure.name)).map(|figure| Planned {
        record: figure.name,
        paper: paper_of(figure.name),
        pieces: vec![Piece { options: format!("--figure {}", figure.name), seconds: USUAL }],
    });
    let mut all: Vec<Planned> = listed.chain(others).collect();
    all.sort_by_key(|planned| planned.paper as u8);
    all.retain(|planned| papers.is_empty() || papers.contains(&planned.paper));
    all
}

/// The paper of a figure that is not in the list, by its name.
fn paper_of(figure: &str) -> Paper {
    let papers = [("harmonia", Harmonia), ("cuart", Cuart), ("hbtree", Hbtree), ("cubpt", Cubpt)];
    papers.iter().find(|(name, _)| figure.starts_with(name)).map_or(Lanetree, |(_, paper)| *paper)
}

impl Piece {
    /// The options of its command, in words. For rivals, [`RIVALS`] and their programs.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.options.split_whitespace().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::all::rivals::PROGRAMS;
    use crate::bench::args::{Args, WITH_RIVALS};
    use clap::Parser;
    use std::collections::BTreeSet;

    /// The most seconds of a piece: with its last row, and with what comes before the first, it is to end within nine minutes.
    const MOST: u64 = 440;

    /// The profile of the page, on one card.
    const MOST_OF_THE_PAGE: u64 = 75 * 60;

    #[test]
    fn the_page_takes_at_most_75_minutes_and_no_piece_more_than_nine() {
        let pieces = |is_full| plan(&[], is_full).into_iter().flat_map(|planned| planned.pieces);
        let of_page: u64 = pieces(false).map(|piece| piece.seconds).sum();
        assert!(of_page <= MOST_OF_THE_PAGE, "{of_page} s");
        assert!(pieces(false).chain(pieces(true)).all(|piece| piece.seconds <= MOST));
    }

    #[test]
    fn the_record_of_readme_takes_two_leases_of_ten_minutes() {
        let seconds: Vec<u64> =
            with_rivals().next().expect("it is first").pieces.iter().map(|piece| piece.seconds).collect();
        assert!(
            seconds.iter().sum::<u64>() <= 2 * 540 && seconds.iter().all(|&seconds| seconds <= MOST),
            "{seconds:?}"
        );
        assert!(
            with_rivals().nth(1).expect("it is second").pieces.iter().map(|piece| piece.seconds).sum::<u64>() <= 540
        );
    }

    #[test]
    fn every_figure_and_every_record_of_the_page_is_made_once() {
        let all = plan(&[], false);
        let mut names: BTreeSet<&str> = all.iter().map(|planned| planned.record).collect();
        assert_eq!(names.len(), all.len());
        assert!(with_rivals().all(|planned| names.insert(planned.record)));
        assert!(with_rivals().map(|planned| planned.record).eq(WITH_RIVALS.map(|figure| figure.name)));
        let missing: Vec<&str> = alone().map(|figure| figure.name).filter(|name| !names.contains(name)).collect();
        assert_eq!(missing, [""; 0]);
        let shown = lanetree_report::record_names();
        let missing: Vec<&String> = shown.iter().filter(|name| !names.contains(name.as_str())).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn every_piece_is_a_command_that_is_taken() {
        for planned in [false, true].into_iter().flat_map(|is_full| plan(&[], is_full)).chain(with_rivals()) {
            for piece in planned.pieces {
                if let Some((&RIVALS, names)) = piece.words().split_first() {
                    let is_known = |name: &&str| PROGRAMS.iter().any(|(program, _)| program == name);
                    assert!(!names.is_empty() && names.iter().all(is_known), "{names:?}");
                    continue;
                }
                let arguments = Args::try_parse_from([vec!["lanetree-bench"], piece.words()].concat()).unwrap();
                arguments.check().unwrap();
            }
        }
    }

    #[test]
    fn a_paper_selects_its_figures() {
        let cubpt = plan(&[Cubpt], false);
        assert!(cubpt.iter().map(|planned| planned.record).eq([
            "cubpt-builds",
            "cubpt-inserts",
            "cubpt-crossover",
            "cubpt-orders"
        ]));
        let papers = [Harmonia, Cuart, Hbtree, Cubpt, Lanetree];
        assert_eq!(papers.iter().map(|&paper| plan(&[paper], false).len()).sum::<usize>(), plan(&[], false).len());
    }
}
