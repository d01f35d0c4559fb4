//! What every index must do: one battery of cases for all of them, against std's `BTreeMap`.
//!
//! An index passes by giving its builders: [`conformance`] puts a [`Family`] through the directed cases ([`directed()`]), the
//! rules that no sequence of steps can state ([`contract`]), and a failure of the device at every point of a call
//! ([`failures`]). [`bounded`] adds random sequences. The indexes are listed in one place, [`for_each_index!`].
//!
//! A [`Case`] is a build and then [`Step`]s: batches of changes, batches of queries, and what else can be done with an
//! index, failures of its device among them. It says nothing of key types: a key is a number, and [`Numbered`] says which
//! key a number stands for. A case is decoded from any bytes, so the same cases serve every index, in bounded runs and in
//! fuzzers. [`check`] runs one and says what differs.
//!
//! In device form, keys, values, kinds, outputs and masks are slices of larger arrays ([`Lender`]): they begin at any
//! element, as callers' slices do.
//!
//! `cargo test -p lanetree-suite` runs the same cases each time. For more random ones, or others:
//!
//! ```sh
//! LANETREE_SUITE_CASES=20000 LANETREE_SUITE_SEED=7 cargo test -p lanetree-suite cuart
//! ```
//!
//! A case that fails is shortened and then printed as Rust: the body of a new test. A fuzzer that follows coverage calls
//! [`on_bytes`]: `fuzz_target!(|bytes: &[u8]| on_bytes(&indexes::cuart::<u64>("cuart"), bytes))`.

mod at_size;
mod bounded;
mod conformance;
pub mod contract;
pub mod directed;
pub mod failures;
pub mod families;
mod fixed;
mod hooks;
mod host;
pub mod indexes;
mod lent;
mod memory;
mod mirrored;
mod model;
mod numbered;
mod operations;
mod ordered;
pub mod parsers;
mod question;
mod run;
mod step;
mod subject;

pub use at_size::{Size, Spread, at_size};
pub use bounded::{bounded, on_bytes};
pub use conformance::{conformance, conformance_on, directed, parts};
pub use fixed::Unsigned;
pub use hooks::{Fixed, Hooks, Plain, RegularHooks};
/// For paths in [`for_each_index!`], which may be called where `lanetree` is no dependency.
#[doc(hidden)]
pub use lanetree;
pub use lent::Lender;
pub use mirrored::{MirroredFamily, MirroredSubject, Pair, mirrored};
pub use model::{Model, Range};
pub use numbered::Numbered;
pub use ordered::{Ordered, OrderedSubject, ordered};
pub use question::{Answer, Question};
pub use run::{Tally, check, check_on};
pub use step::{
    Ask, Bounds, Case, Change, Combination, Failing, Folding, Form, Joining, KeyRun, Keys, Near, Open, Place, Side,
    Span, Step, Upkeep,
};
pub use subject::{Counts, Family, Pairs, Subject};
