//! A tree under test, with its data, and what all rows about it have in common.

use super::ceilings;
use super::data::{BenchWord, Data, Order, miss};
use super::error::Result;
use super::report::{Row, Section, Timing};
use super::session::Session;
use lanetree::harmonia::{Builder, Stats};
use lanetree::{Harmonia, Key};
use lanetree_baselines::Checksum;
use std::time::Instant;

/// Queries that prove a tree, where it is its build that is measured.
const PROOF: usize = 1 << 16;

pub(super) struct Subject<W: BenchWord> {
    pub(super) data: Data<W>,
    pub(super) tree: Harmonia<W, W>,
    pub(super) stats: Stats,
}

impl<W: BenchWord> Subject<W> {
    /// Builds a tree, which is itself a row, and has the ceilings measured for its size.
    pub(super) fn build(session: &mut Session, data: Data<W>) -> Result<Self> {
        let (subject, timing) = Self::timed(session, data, &Harmonia::builder())?;
        ceilings::gathers(session, subject.stats.bytes())?;
        if session.wants(Section::Build) {
            let checksum = subject.prove(session)?;
            let mut row = subject.row(session, Section::Build, "build_sorted", subject.data.len(), timing, checksum);
            row.threads = Some(rayon::current_num_threads());
            session.push(row);
        }
        Ok(subject)
    }

    /// Builds a tree of another fanout than the default one.
    pub(super) fn build_with(session: &Session, data: Data<W>, fanout: u32) -> Result<Self> {
        Ok(Self::timed(session, data, &Harmonia::builder().fanout(fanout))?.0)
    }

    fn timed(session: &Session, data: Data<W>, builder: &Builder<W, W>) -> Result<(Self, Timing)> {
        session.doing(format_args!("building over {} {} keys", data.len(), <W as Key>::NAME));
        let start = Instant::now();
        let tree = builder.build_sorted(&session.device, &data.keys, &data.values)?;
        let timing = Timing::of(vec![start.elapsed().as_secs_f64() * 1e3]);
        Ok((Self { stats: tree.stats(), data, tree }, timing))
    }

    /// The data, without the tree.
    pub(super) fn into_data(self) -> Data<W> {
        self.data
    }

    /// Looks up a batch, whose checksum is the tree's.
    fn prove(&self, session: &Session) -> Result<Checksum> {
        let batch = self.data.sorted_batch(PROOF.min(1 << session.plan.queries), true, session.seed ^ 0xb1d);
        let batch = match batch {
            Some(batch) => batch,
            None => self.data.sorted_batch(1, false, session.seed).expect("hits are always to be had"),
        };
        let found = self.tree.get_many(&batch.queries)?;
        let found: Vec<W> = found.into_iter().map(|value| value.unwrap_or(miss())).collect();
        session.check_slice(&"build_sorted", "values", &found, 0..batch.queries.len(), miss(), |i| batch.value(i))
    }

    /// The keys in words: `n = 2^24 u64 keys`.
    pub(super) fn describe(&self) -> String {
        format!("n = {}, {} keys", power(self.data.len() as u64), <W as Key>::NAME)
    }

    /// A row about the tree.
    pub(super) fn row(
        &self,
        session: &Session,
        section: Section,
        operation: impl Into<String>,
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let mut row = self.row_of(session, section, "harmonia", operation, batch, timing, checksum);
        row.fanout = Some(self.stats.fanout);
        row.footprint_bytes = self.stats.bytes();
        row.bytes_per_key = Some(self.stats.bytes_per_key);
        row
    }

    /// A row about something else over the same keys.
    #[expect(clippy::too_many_arguments, reason = "a row has that many parts")]
    pub(super) fn row_of(
        &self,
        session: &Session,
        section: Section,
        index: &'static str,
        operation: impl Into<String>,
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let mut row = Self::row_without_tree(session, &self.data, section, operation, batch, timing, checksum);
        row.index = index;
        row
    }

    /// A row about some other tree over the same keys.
    pub(super) fn row_without_tree(
        session: &Session,
        data: &Data<W>,
        section: Section,
        operation: impl Into<String>,
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let mut row = Row::new(section, "harmonia", operation, batch, timing, checksum);
        row.device = session.device_name().into();
        row.keys = data.source.clone();
        row.key = <W as Key>::NAME;
        row.value = <W as Key>::NAME;
        row.n = data.len() as u64;
        row
    }

    /// The ceiling of look-ups in this tree.
    pub(super) fn ceiling(&self, session: &Session, order: Order, count: usize) -> Option<f64> {
        session.ceilings.of_lookups(&ceilings::Lookups {
            order,
            count: count as u64,
            query_bytes: 2 * size_of::<W>() as u64,
            tree_bytes: self.stats.bytes(),
            leaves: self.stats.leaves,
            leaf_bytes: self.stats.leaf_bytes / self.stats.leaves.max(1),
        })
    }
}

/// A number, as a power of two where it is one.
pub(super) fn power(number: u64) -> String {
    if number.is_power_of_two() && number > 1 { format!("2^{}", number.ilog2()) } else { number.to_string() }
}
