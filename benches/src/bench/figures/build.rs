//! Builds from sorted pairs in host memory.

use crate::bench::columns::{Column, FANOUT, INDEX, KEYS, MEGA, MS, N, SIZE, THREADS, WORDS};
use crate::bench::data::{BenchWord, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Figure, Part, Run, either};
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use crate::bench::table::{Clock, Table};
use lanetree_baselines::Checksum;

pub(crate) const FIGURE: Figure = Figure {
    name: "build",
    about: "Building, from sorted pairs in host memory",
    table: Some(&TABLE),
    run: Run::Part(Part::OfTree(At::EverySize, |session, tree| either!(tree, subject => measure(session, subject)))),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "build",
    title: "Build from sorted pairs in host memory, upload included",
    columns: &[INDEX, WORDS, KEYS, N, FANOUT, THREADS, MS, KEYS_RATE, SIZE],
    clock: Clock::Calls,
    notes: &["One run, without warm-up; checked by look-ups."],
    summary: None,
};

const KEYS_RATE: Column = MEGA.headed("M keys/s");

/// Queries that check a tree.
const CHECKED: usize = 1 << 16;

/// The build of a tree was timed when it was built.
fn measure<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    let checksum = check(session, subject)?;
    let row = subject.row(session, TABLE.name, "build_sorted", subject.data.len(), subject.build.clone(), checksum);
    session.push(row.with("threads", rayon::current_num_threads()));
    Ok(())
}

/// Looks up a batch; gives its checksum.
fn check<W: BenchWord>(session: &Session, subject: &Subject<W>) -> Result<Checksum> {
    let data = &subject.data;
    let batch = data.sorted_batch(CHECKED.min(1 << session.plan.queries), true, session.seed ^ 0xb1d);
    let batch = match batch {
        Some(batch) => batch,
        None => data.sorted_batch(1, false, session.seed).expect("hits are always to be had"),
    };
    let found = subject.tree.get_many(&batch.queries)?;
    let found: Vec<W> = found.into_iter().map(|value| value.unwrap_or(miss())).collect();
    session.check_slice(&"build_sorted", "values", &found, 0..batch.queries.len(), miss(), |i| batch.value(i))
}
