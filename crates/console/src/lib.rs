//! What the programs `lanetree-verify` and `lanetree-bench` have in common: the device that is asked for, and where results
//! go.

pub mod choice;
pub mod output;
