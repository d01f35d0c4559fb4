//! `verify`: every kernel, on every device, against the oracle.

mod answer;
mod bounds;
mod cases;
mod command;
mod compare;
mod conformance;
mod coverage;
mod cuart;
mod cuart_build;
mod data;
mod grt;
mod harmonia;
mod index;
mod joins;
mod multimap;
mod primitives;
mod radix_sort;
mod ranges;
mod report;
mod run;
mod tally;
mod types;
mod updates;

pub(crate) use command::{Args, run};
