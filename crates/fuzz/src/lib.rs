//! Every index put through sequences of steps, against std's `BTreeMap`; and the parsers of packed byte strings.
//!
//! A [`Case`] is a build and then [`Step`]s: batches of changes, batches of queries, and what else can be done with an
//! index, failures of its device among them. It says nothing of key types, and is decoded from any bytes, so the same
//! cases serve every [`Index`], in bounded runs, property tests and fuzzers. [`check`] runs one and says what differs.
//!
//! `cargo test -p lanetree-fuzz` is the bounded run, the same cases each time. For more of them, or others:
//!
//! ```sh
//! LANETREE_FUZZ_CASES=20000 LANETREE_FUZZ_SEED=7 cargo test -p lanetree-fuzz cuart
//! ```
//!
//! What fails is shortened and then printed as Rust: the body of a new test. A fuzzer that follows coverage calls
//! [`targets::on_bytes`]: `fuzz_target!(|bytes: &[u8]| on_bytes(targets::cuart, bytes))`.

mod drive;
pub mod index;
mod model;
pub mod parsers;
mod run;
mod step;
pub mod targets;

pub use drive::bounded;
pub use index::{Counts, Index};
pub use model::{Model, Range};
pub use run::{Tally, check};
pub use step::{Ask, Bounds, Case, Change, Failing, Form, Keys, Place, Run, Side, Span, Step, Upkeep};
