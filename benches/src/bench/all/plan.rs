//! Which records `--figure all` makes, of which paper, and in which pieces. Data, but for what figures have that are not
//! named here.

use crate::bench::args::Paper;
use crate::bench::figures::alone;

/// A record, which has the name of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) record: &'static str,
    pub(crate) paper: Paper,
    /// The runs that it is made of.
    pub(crate) pieces: Vec<Piece>,
}

/// A run: the options of its command, and the seconds after which it begins no further row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) options: &'static str,
    pub(crate) seconds: u64,
}

/// A line of the list: the record, its pieces for the page, and the pieces for `--full` if they differ.
struct Line {
    record: &'static str,
    paper: Paper,
    page: &'static [Piece],
    full: &'static [Piece],
}

const fn line(paper: Paper, record: &'static str, page: &'static [Piece]) -> Line {
    Line { record, paper, page, full: &[] }
}

impl Line {
    const fn full(mut self, full: &'static [Piece]) -> Self {
        self.full = full;
        self
    }
}

const fn piece(options: &'static str, seconds: u64) -> Piece {
    Piece { options, seconds }
}

/// Seconds of a figure that is not in the list.
const USUAL: u64 = 25;

use Paper::{Cuart, Cubpt, Harmonia, Hbtree, Lanetree};

/// Sizes and batches that claims and plots of the page need. For most, seconds are a fifth and more above what records of an H100
/// took in all; where there is no such record, an estimate. `hbtree-buckets`, `hbtree-mixed` and `cubpt-inserts` have less than
/// their records took, and may leave rows out: all pieces are to end within 75 minutes.
const LIST: &[Line] = &[
    line(Harmonia, "bench", &[piece("", 175)]),
    line(Harmonia, "harmonia-ladder", &[piece("--figure harmonia-ladder --queries 25", 50)]),
    line(Harmonia, "harmonia-hbtree", &[piece("--figure harmonia-hbtree", 30)]),
    line(Harmonia, "harmonia-memory", &[piece("--figure harmonia-memory", 10)]),
    line(Harmonia, "harmonia-psa", &[piece("--figure harmonia-psa", 40)]),
    line(Harmonia, "harmonia-psa-bits", &[piece("--figure harmonia-psa-bits --queries 25", 50)]),
    line(Harmonia, "harmonia-psa-widths", &[piece("--figure harmonia-psa-widths --sizes 26 --queries 25", 70)]),
    line(Harmonia, "harmonia-skew", &[piece("--figure harmonia-skew", 55)]),
    line(Harmonia, "harmonia-ntg", &[piece("--figure harmonia-ntg --sizes 26 --queries 25", 60)]),
    line(Harmonia, "harmonia-ranges", &[piece("--figure harmonia-ranges", 15)]),
    line(Harmonia, "harmonia-constant", &[piece("--figure harmonia-constant --queries 24", 20)]),
    line(Harmonia, "harmonia-cpu-updates", &[piece("--figure harmonia-cpu-updates", 25)]),
    line(Harmonia, "harmonia-updates", &[piece("--figure harmonia-updates", 10)]),
    line(Harmonia, "mirrored", &[piece("--figure mirrored", 55)]),
    line(Cuart, "cuart-cpu", &[piece("--figure cuart-cpu --sizes 24", 50)]),
    line(Cuart, "cuart-cpu-sizes", &[piece("--figure cuart-cpu --sizes 16,18,20,22,24", 70)]),
    line(Cuart, "cuart-batches", &[piece("--figure cuart-batches", 15)]),
    line(Cuart, "cuart-grt", &[piece("--figure cuart-grt", 30)]),
    line(Cuart, "cuart-grt-sizes", &[piece("--figure cuart-grt-sizes", 40)]),
    line(Cuart, "cuart-sizes", &[piece("--figure cuart-sizes --sizes 16,20,22,24,26", 70)]),
    line(Cuart, "cuart-widths", &[piece("--figure cuart-widths", 50)]),
    line(Cuart, "cuart-urls", &[piece("--figure cuart-urls", 20)]),
    line(Cuart, "cuart-real", &[piece("--figure cuart-real", 30)]),
    line(Cuart, "cuart-long", &[piece("--figure cuart-long", 40)]),
    line(Cuart, "cuart-long-share", &[piece("--figure cuart-long-share", 90)]),
    line(Cuart, "cuart-updates", &[piece("--figure cuart-updates", 45)]),
    line(Cuart, "cuart-update-sizes", &[piece("--figure cuart-update-sizes", 55)]),
    line(Cuart, "cuart-updates-host", &[piece("--figure cuart-updates-host", 50)]),
    line(Cuart, "cuart-inserts", &[piece("--figure cuart-inserts --sizes 26", 25)]),
    line(Cuart, "cuart-deletes", &[piece("--figure cuart-deletes", 20)]),
    line(Cuart, "cuart-ranges", &[piece("--figure cuart-ranges", 50)]),
    line(Cuart, "cuart-builds", &[piece("--figure cuart-builds", 20)]),
    line(Cuart, "cuart-lanes", &[piece("--figure cuart-lanes", 15)]),
    line(Hbtree, "hbtree-pages", &[piece("--figure hbtree-pages --sizes 18,20,22,24,26,28", 50)]).full(&[
        piece("--figure hbtree-pages --sizes 23,24,25,26,27,28", 300),
        piece("--figure hbtree-pages --sizes 29,30", 300),
    ]),
    line(Hbtree, "hbtree-node-search", &[piece("--figure hbtree-node-search --sizes 24,26 --queries 24", 35)]).full(&[
        piece("--figure hbtree-node-search --sizes 23,24,25,26 --queries 24", 300),
        piece("--figure hbtree-node-search --sizes 27,28,29,30 --queries 24", 440),
    ]),
    line(Hbtree, "hbtree-cpu", &[piece("--figure hbtree-cpu --sizes 26", 110)]).full(&[
        piece("--figure hbtree-cpu --sizes 23,24,25", 440),
        piece("--figure hbtree-cpu --sizes 26,27", 440),
        piece("--figure hbtree-cpu --sizes 28,29", 440),
    ]),
    line(Hbtree, "hbtree-strategies", &[piece("--figure hbtree-strategies --sizes 28 --queries 25", 35)]),
    line(Hbtree, "hbtree-buckets", &[piece("--figure hbtree-buckets --sizes 28 --queries 24", 215)])
        .full(&[piece("--figure hbtree-buckets --sizes 28 --queries 26", 440)]),
    line(Hbtree, "hbtree-paper", &[piece("--figure hbtree-paper --sizes 23,26,28 --queries 25", 420)]).full(&[
        piece("--figure hbtree-paper --sizes 23,24,25,26 --queries 25", 440),
        piece("--figure hbtree-paper --sizes 27,28 --queries 25", 440),
        piece("--figure hbtree-paper --sizes 29,30 --queries 25", 440),
    ]),
    line(Hbtree, "hbtree-costs", &[piece("--figure hbtree-costs --sizes 26 --queries 25", 80)]),
    line(Hbtree, "hbtree-distributions", &[piece("--figure hbtree-distributions --sizes 26", 20)])
        .full(&[piece("--figure hbtree-distributions --sizes 23,26,28,30", 300)]),
    line(Hbtree, "hbtree-updates", &[piece("--figure hbtree-updates --sizes 26", 195)])
        .full(&[piece("--figure hbtree-updates --sizes 24,26", 440), piece("--figure hbtree-updates --sizes 28", 440)]),
    line(Hbtree, "hbtree-build", &[piece("--figure hbtree-build --sizes 23,26,28", 35)])
        .full(&[piece("--figure hbtree-build --sizes 23,24,25,26,27,28,29,30", 440)]),
    line(Hbtree, "hbtree-sizes", &[piece("--figure hbtree-sizes --sizes 23,26,28,30 --queries 25", 70)]).full(&[
        piece("--figure hbtree-sizes --sizes 23,24,25,26,27,28 --queries 25", 440),
        piece("--figure hbtree-sizes --sizes 29,30 --queries 25", 440),
    ]),
    line(Hbtree, "hbtree-latency", &[piece("--figure hbtree-latency --sizes 28", 30)])
        .full(&[piece("--figure hbtree-latency --sizes 23,26,28,30", 300)]),
    line(Hbtree, "hbtree-ranges", &[piece("--figure hbtree-ranges --sizes 27", 45)]),
    line(Hbtree, "hbtree-balance", &[piece("--figure hbtree-balance --sizes 26", 180)])
        .full(&[piece("--figure hbtree-balance --sizes 26", 440), piece("--figure hbtree-balance --sizes 28", 440)]),
    line(Hbtree, "hbtree-pipelining", &[piece("--figure hbtree-pipelining --sizes 28", 35)]),
    line(Hbtree, "hbtree-mixed", &[piece("--figure hbtree-mixed --sizes 28", 150)]),
    line(Hbtree, "hbtree-device-leaves", &[piece("--figure hbtree-device-leaves --sizes 26,28", 30)]),
    line(Hbtree, "hbtree-large", &[piece("--figure hbtree-large --sizes 31", 40)]),
    line(Cubpt, "cubpt-builds", &[piece("--figure cubpt-builds", 110)]),
    line(
        Cubpt,
        "cubpt-inserts",
        &[piece("--figure cubpt-inserts --sizes 23", 220), piece("--figure cubpt-inserts --sizes 22", 170)],
    )
    .full(&[piece("--figure cubpt-inserts --sizes 23", 440), piece("--figure cubpt-inserts --sizes 22", 440)]),
    line(Cubpt, "cubpt-crossover", &[piece("--figure cubpt-crossover --sizes 26", 20)]),
    line(Cubpt, "cubpt-orders", &[piece("--figure cubpt-orders --sizes 26", 30)]),
    line(Lanetree, "lanetree-queries", &[piece("--figure lanetree-queries --sizes 24,26,28", 50)]),
    line(Lanetree, "lanetree-cpu", &[piece("--figure lanetree-cpu --sizes 24,26", 80)])
        .full(&[piece("--figure lanetree-cpu", 300)]),
    line(Lanetree, "aggregates", &[piece("--figure aggregates", 15)]),
    line(Lanetree, "asof-pinned", &[piece("--figure asof-pinned --sizes 22 --queries 22", 10)]),
    line(Lanetree, "sharded", &[piece("--figure sharded", 110)]),
    line(Lanetree, "host", &[piece("--figure host --sizes 26", 60)]),
];

/// The first word of a piece that is no run of the bench: the rivals' programs that stand after it.
pub(crate) const RIVALS: &str = "rivals";

/// The records of several figures and of rivals, by their figures' names.
pub(crate) fn with_rivals() -> [Planned; 2] {
    [readme(), sorted_windows()]
}

/// The record of sorted batches. Rates are compared with CUB's and with the copy of memory of the same run.
fn sorted_windows() -> Planned {
    let pieces = [
        piece("--figure lanetree-queries --sizes 26", 110),
        piece("--figure asof", 40),
        piece("--sizes 26 --only ceilings", 30),
        piece("rivals sorted_search", 60),
    ];
    Planned { record: "sorted-windows", paper: Lanetree, pieces: pieces.to_vec() }
}

/// The record of README, its picture, and the choice of an index. A piece for each size of `lanetree-queries`, since it has
/// 32-bit keys and distributions at its largest size up to 2^26 alone.
fn readme() -> Planned {
    let pieces = [
        piece("--figure lanetree-queries --sizes 24", 60),
        piece("--figure lanetree-queries --sizes 26", 110),
        piece("--figure lanetree-queries --sizes 28", 90),
        piece("--figure lanetree-updates", 60),
        piece("--figure lanetree-sets", 30),
        piece("--sizes 24,26,28 --only ceilings,lookups,build,end-to-end", 120),
        piece("--figure cubpt-orders --sizes 26", 30),
        piece("--figure cubpt-crossover --sizes 26", 20),
        piece("--figure cuart-widths", 50),
        piece("--figure multimap", 30),
        piece("--figure lanetree-cpu --sizes 26", 60),
        piece("--figure hbtree-cpu --sizes 26", 110),
        piece("--figure hbtree-sizes --sizes 26,30 --queries 25", 70),
        piece("--figure first-answer", 40),
        // Last: what fails keeps the pieces after it from being made.
        piece("rivals cuco_static_map sorted_array sorted_search", 200),
    ];
    Planned { record: "readme", paper: Lanetree, pieces: pieces.to_vec() }
}

/// All records of these papers (of all, if none is named), in the order in which they are made.
pub(crate) fn plan(papers: &[Paper], is_full: bool) -> Vec<Planned> {
    let listed = LIST.iter().map(|line| {
        let pieces = if is_full && !line.full.is_empty() { line.full } else { line.page };
        Planned { record: line.record, paper: line.paper, pieces: pieces.to_vec() }
    });
    let others = alone().filter(|figure| LIST.iter().all(|line| line.record != figure.name)).map(|figure| Planned {
        record: figure.name,
        paper: paper_of(figure.name),
        pieces: vec![Piece { options: figure.name, seconds: USUAL }],
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
    /// The options of its command, in words. For a figure that is not in the list, the figure's name. For rivals, [`RIVALS`]
    /// and their programs.
    pub(crate) fn words(self) -> Vec<&'static str> {
        match self.options.strip_prefix("--") {
            None if !self.options.is_empty() && !self.options.starts_with(RIVALS) => vec!["--figure", self.options],
            _ => self.options.split_whitespace().collect(),
        }
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
        let seconds: Vec<u64> = readme().pieces.iter().map(|piece| piece.seconds).collect();
        assert!(
            seconds.iter().sum::<u64>() <= 2 * 540 && seconds.iter().all(|&seconds| seconds <= MOST),
            "{seconds:?}"
        );
        assert!(sorted_windows().pieces.iter().map(|piece| piece.seconds).sum::<u64>() <= 540);
    }

    #[test]
    fn every_figure_and_every_record_of_the_page_is_made_once() {
        let all = plan(&[], false);
        let mut names: BTreeSet<&str> = all.iter().map(|planned| planned.record).collect();
        assert_eq!(names.len(), all.len());
        assert!(with_rivals().iter().all(|planned| names.insert(planned.record)));
        assert_eq!(with_rivals().map(|planned| planned.record), WITH_RIVALS.map(|figure| figure.name));
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
