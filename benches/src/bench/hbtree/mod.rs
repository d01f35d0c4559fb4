//! The HB+-tree (Shahvarani and Jacobsen, SIGMOD 2016): what the figures of its paper have in common.

pub(crate) mod gathers;
pub(crate) mod keys;
pub(crate) mod lookups;
pub(crate) mod plan;
pub(crate) mod ranges;
pub(crate) mod regular;
pub(crate) mod relative;
pub(crate) mod room;
pub(crate) mod subject;
