//! `bench`: the indexes, their baselines and the hardware's ceilings, measured in one process.

mod all;
mod args;
mod batches;
mod bus;
mod calls;
mod ceilings;
mod columns;
mod command;
mod cuart;
mod data;
mod description;
mod driver;
mod error;
mod figure;
mod figures;
mod gathers;
mod hbtree;
mod host;
mod lane_tree;
mod machine;
mod made;
mod map_pairs;
mod output;
mod plan;
mod psa;
mod queries;
mod report;
mod row;
mod session;
mod small;
mod subject;
mod table;

pub(crate) use args::Args;
pub(crate) use command::run;
pub(crate) use figures::first_answer::{Child as FirstAnswer, FIRST_ANSWER, run as first_answer};
pub use small::{measured, part_names};
