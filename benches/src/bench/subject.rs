//! A tree under test, with its data, and what all rows about it have in common.

use crate::bench::ceilings::Lookups;
use crate::bench::columns::power;
use crate::bench::data::{BenchWord, Data, Order};
use crate::bench::error::Result;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::harmonia::{Builder, Stats};
use lanetree::{AnyKey, Harmonia};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::time::Instant;

pub(crate) struct Subject<W: BenchWord> {
    pub(crate) data: Data<W>,
    pub(crate) tree: Harmonia<W, W>,
    pub(crate) stats: Stats,
    /// What its build took, upload included.
    pub(crate) build: Timing,
}

impl<W: BenchWord> Subject<W> {
    /// Builds a tree of the default fanout.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn build(session: &Session, data: Data<W>) -> Result<Self> {
        Self::timed(session, data, &Harmonia::builder())
    }

    /// Builds a tree of another fanout than the default one.
    pub(crate) fn build_with(session: &Session, data: Data<W>, fanout: u32) -> Result<Self> {
        Self::timed(session, data, &Harmonia::builder().fanout(fanout))
    }

    fn timed(session: &Session, data: Data<W>, builder: &Builder<W, W>) -> Result<Self> {
        session.doing(format_args!("building over {} {} keys", data.len(), <W as AnyKey>::NAME));
        let start = Instant::now();
        let tree = builder.build_sorted(&session.device, &data.keys, &data.values)?;
        let build = Timing::of(vec![start.elapsed().as_secs_f64() * 1e3]);
        Ok(Self { stats: tree.stats(), data, tree, build })
    }

    /// The data, without the tree.
    pub(crate) fn into_data(self) -> Data<W> {
        self.data
    }

    /// The keys in words: `n = 2^24 u64 keys`.
    pub(crate) fn describe(&self) -> String {
        format!("n = {}, {} keys", power(self.data.len() as u64), <W as AnyKey>::NAME)
    }

    /// A row about the tree, of a table.
    pub(crate) fn row(
        &self,
        session: &Session,
        section: &'static str,
        operation: impl Into<String>,
        batch: usize,
        timing: Timing,
        checksum: Checksum,
    ) -> Row {
        let row = Row::new(section, "harmonia", operation, batch, timing, checksum).on(session.device_name());
        let row = self.data.label(row).with("fanout", self.stats.fanout);
        row.with("footprint_bytes", self.stats.bytes()).with("bytes_per_key", self.stats.bytes_per_key)
    }

    /// The ceiling of look-ups in this tree.
    pub(crate) fn ceiling(&self, session: &Session, order: Order, count: usize) -> Option<f64> {
        session.ceilings.of_lookups(&Lookups {
            order,
            count: count as u64,
            query_bytes: 2 * size_of::<W>() as u64,
            tree_bytes: self.stats.bytes(),
            leaves: self.stats.leaves,
            leaf_bytes: self.stats.leaf_bytes / self.stats.leaves.max(1),
        })
    }
}
