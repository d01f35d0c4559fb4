//! The command line.

use super::error::{Error, Result};
use super::figure::{Figure, Takes};
use super::figures::{FIGURES, alone, parts};
use crate::keys::Format;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lanetree_console::choice::Choice;
use serde::Deserialize;
use std::path::PathBuf;

/// All figures, as `--figure` takes them: no figure of the list.
pub(crate) static ALL: Figure = Figure {
    name: "all",
    about: "All figures of all papers, a record for each in the folder of --json; what stands there is passed over",
    takes: Takes { sizes: true, keys: false, input: true },
    ..Figure::BASE
};

/// What README and its picture say, as one record.
pub(crate) static README: Figure = Figure {
    name: "readme",
    about: "All that README says, rivals included: one record in the folder of --json, of this machine",
    takes: Takes::NOTHING,
    ..Figure::BASE
};

/// What is said of sorted batches, as one record.
pub(crate) static SORTED_WINDOWS: Figure = Figure {
    name: "sorted-windows",
    about: "Ordered queries of LaneTree and CUB, and the copy of memory: one record in the folder of --json, of this machine",
    takes: Takes::NOTHING,
    ..Figure::BASE
};

/// The figures that are one record of several runs, and of the rivals.
pub(crate) static WITH_RIVALS: [&Figure; 2] = [&README, &SORTED_WINDOWS];

/// Measures the indexes, what they are compared with, and the hardware's ceilings
#[derive(clap::Parser, Debug)]
#[command(
    version,
    after_help = "\
Examples:
  lanetree-bench                                   all parts, on the GPU; without one, on the CPU
  lanetree-bench --device cuda --json figures.json
  lanetree-bench --sizes 24,26 --only ceilings,lookups
  lanetree-bench --figure harmonia-ntg --sizes 26
  lanetree-bench --figure cuart-cpu --sizes 20,24
  lanetree-bench --figure hbtree-sizes --sizes 28,31
  lanetree-bench --figure cuart-real --input DIR   addresses, words and paths of your own
  lanetree-bench --figure files --input DIR        on the disk of this folder
  lanetree-bench --keys books_200M_uint64 --only ceilings,lookups,ranges
  lanetree-bench --figure all --json DIR           all of them, in pieces; once more: what is missing
  lanetree-bench --figure all --json DIR --paper cubpt,hbtree --full
  lanetree-bench --figure readme --rivals benches/rivals --json DIR
  lanetree-bench --figure sorted-windows --rivals benches/rivals --json DIR

Every output of a row's last run is compared with what is right before its figure is given.
Exit codes: 0 measured, 1 a wrong answer, 2 could not run (no GPU when one was asked for, bad
arguments, a corrupt file of keys)."
)]
pub(crate) struct Args {
    /// Where to run; auto: the first GPU, or without one the host
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    pub(crate) device: Choice,
    /// On a GPU: the kernels' PTX from this folder, which `cargo xtask ptx --out DIR` writes
    #[arg(long, value_name = "DIR")]
    pub(crate) ptx: Option<PathBuf>,
    /// Keys of the trees, as powers of two [default on a GPU: 20,24,26,28, unless a figure has others]
    #[arg(long, value_name = "LOG2", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..64))]
    pub(crate) sizes: Vec<u32>,
    /// Queries of a batch, as a power of two [default on a GPU: 26]
    #[arg(long, value_name = "LOG2", value_parser = clap::value_parser!(u32).range(0..=30))]
    pub(crate) queries: Option<u32>,
    /// Only these parts [default: all]
    #[arg(long, value_parser = one_of(parts), value_delimiter = ',', value_name = "PART", conflicts_with = "figure")]
    pub(crate) only: Vec<&'static Figure>,
    /// A figure, instead of the parts
    #[arg(long, value_parser = one_of(alone_and_all))]
    pub(crate) figure: Option<&'static Figure>,
    /// Real keys, instead of uniform ones; sorted, and each taken once
    #[arg(long, value_name = "FILE", conflicts_with = "sizes")]
    pub(crate) keys: Option<PathBuf>,
    /// Bits of the file's keys
    #[arg(long, value_enum, default_value_t = KeyWidth::B64, requires = "keys")]
    pub(crate) key_width: KeyWidth,
    /// The format of the file
    #[arg(long, value_enum, default_value_t = Format::Sosd, requires = "keys")]
    pub(crate) format: Format,
    /// A folder with files geoip6, words or paths (one key per line) for the figure cuart-real [default: Debian's]; for the figure
    /// files, where it writes [default: the system's folder of temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) input: Option<PathBuf>,
    /// Smaller trees and batches, fewer runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Decides all keys and queries
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Begins no row after this time, and lists what is missing; of `--figure all`: begins no run that could last longer
    #[arg(long, value_name = "SECONDS")]
    pub(crate) max_seconds: Option<u64>,
    /// Writes all rows, with the times of all runs, to this file; of `--figure all`: to a file for each record in this folder
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Of `--figure all`: only figures of these [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PAPER")]
    pub(crate) paper: Vec<Paper>,
    /// Of `--figure all`: all sizes and batches, and not only those that the page needs
    #[arg(long)]
    pub(crate) full: bool,
    /// Of the figures readme and sorted-windows: the folder of the rivals' programs, or of their sources, which nvcc then
    /// compiles
    #[arg(long, value_name = "DIR")]
    pub(crate) rivals: Option<PathBuf>,
}

/// The value of `--key-width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum KeyWidth {
    #[value(name = "32")]
    B32,
    #[value(name = "64")]
    B64,
}

/// A parser of figures' names, which `--help` and errors list.
fn one_of<I: Iterator<Item = &'static Figure>>(figures: fn() -> I) -> impl TypedValueParser<Value = &'static Figure> {
    let names = figures().map(|figure| PossibleValue::new(figure.name).help(figure.about));
    PossibleValuesParser::new(names).map(|name| {
        let mut figures = FIGURES.iter().chain([&ALL]).chain(WITH_RIVALS);
        figures.find(|figure| figure.name == name).expect("only names of the list are possible")
    })
}

fn alone_and_all() -> impl Iterator<Item = &'static Figure> {
    [&ALL].into_iter().chain(WITH_RIVALS).chain(alone())
}

/// Whose figures are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Paper {
    Harmonia,
    Cuart,
    Hbtree,
    Cubpt,
    /// LaneTree, which is no paper's, and what is compared of all indexes
    Lanetree,
}

impl Args {
    /// Whether the figure is made of several runs, each a process of its own.
    pub(crate) fn is_several_runs(&self) -> bool {
        self.figure.is_some_and(|figure| figure.name == ALL.name) || self.is_with_rivals()
    }

    /// Whether the rivals have a part in the figure.
    pub(crate) fn is_with_rivals(&self) -> bool {
        self.figure.is_some_and(|figure| WITH_RIVALS.iter().any(|with_rivals| with_rivals.name == figure.name))
    }

    /// Refuses options that would change nothing.
    ///
    /// # Errors
    /// [`Error::Usage`], which names the option.
    pub(crate) fn check(&self) -> Result<()> {
        let takes = |takes: fn(&Figure) -> bool| self.figure.is_none_or(takes);
        let refuse = |option: &str| {
            let name = self.figure.map_or("the parts", |figure| figure.name);
            Err(Error::Usage(format!("figure {name} takes no {option}; leave it out")))
        };
        if !self.sizes.is_empty() && !takes(|figure| figure.takes.sizes) {
            return refuse("--sizes");
        }
        let most = self.figure.map_or(Figure::BASE.most, |figure| figure.most);
        if let Some(size) = self.sizes.iter().find(|&&size| size > most) {
            return refuse(&format!("--sizes above {most}, and {size} was asked for"));
        }
        if self.keys.is_some() && !takes(|figure| figure.takes.keys) {
            return refuse("--keys");
        }
        if self.input.is_some() && !self.figure.is_some_and(|figure| figure.takes.input) {
            let names: Vec<&str> = alone().filter(|figure| figure.takes.input).map(|figure| figure.name).collect();
            return Err(Error::Usage(format!("--input is for --figure {}; leave it out", names.join(", "))));
        }
        if (!self.paper.is_empty() || self.full) && self.figure.is_none_or(|figure| figure.name != ALL.name) {
            return Err(Error::Usage("--paper and --full are for --figure all; leave them out".into()));
        }
        if self.ptx.is_some() && matches!(self.device, Choice::Host | Choice::Emulated) {
            return Err(Error::Usage("--ptx is for a GPU; leave it out".into()));
        }
        // Their processes would not have it.
        let is_first_answer = self.figure.is_some_and(|figure| figure.name == "first-answer");
        if self.ptx.is_some() && (self.is_several_runs() || is_first_answer) {
            return Err(Error::Usage(
                "--ptx is for one figure at a time, and not for first-answer; leave it out".into(),
            ));
        }
        if self.rivals.is_some() && !self.is_with_rivals() {
            let names = WITH_RIVALS.map(|figure| figure.name).join(", ");
            return Err(Error::Usage(format!("--rivals is for --figure {names}; leave it out")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn what_a_run_would_not_use_is_refused() {
        let check = |line: &str| Args::try_parse_from(["bench"].into_iter().chain(line.split(' '))).unwrap().check();
        for line in [
            "--ptx d --device host",
            "--ptx d --device emulated",
            "--ptx d --figure all",
            "--ptx d --figure readme",
            "--ptx d --figure first-answer",
            "--rivals d --figure all",
            "--rivals d --figure lanetree-queries",
            "--ptx d --figure sorted-windows",
            "--figure readme --sizes 8",
            "--figure latency --full",
        ] {
            assert!(matches!(check(line), Err(Error::Usage(_))), "{line}");
        }
        for line in ["--ptx d", "--ptx d --device cuda --figure latency", "--rivals d --figure readme"] {
            check(line).unwrap();
        }
    }
}
