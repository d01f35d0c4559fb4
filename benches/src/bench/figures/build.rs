//! Builds from sorted pairs in host memory.

use crate::bench::data::{BenchWord, miss};
use crate::bench::error::Result;
use crate::bench::figure::{At, Measurement, Part, Run, either};
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use lanetree_baselines::Checksum;

pub(crate) const FIGURE: Measurement = Measurement::new(
    "build",
    Run::Part(Part::OfTree(At::EverySize, |session, tree| either!(tree, subject => measure(session, subject)))),
);

/// Queries that check a tree.
const CHECKED: usize = 1 << 16;

/// The build of a tree was timed when it was built.
fn measure<W: BenchWord>(session: &mut Session, subject: &Subject<W>) -> Result<()> {
    let checksum = check(session, subject)?;
    let row = subject.row(session, FIGURE.name, "build_sorted", subject.data.len(), subject.build.clone(), checksum);
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
    session.check_found(&"build_sorted", &found, batch.queries.len(), miss(), |i| batch.value(i))
}
