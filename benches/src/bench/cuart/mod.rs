//! CuART (Koppehel et al., ICPP 2021): what the figures of its paper have in common, and those that go beyond it.

pub(crate) mod beside_grt;
pub(crate) mod cpu_updates;
pub(crate) mod data;
pub(crate) mod engines;
pub(crate) mod grt;
pub(crate) mod input;
pub(crate) mod long;
pub(crate) mod lookups;
pub(crate) mod measure;
pub(crate) mod senders;
pub(crate) mod subject;
pub(crate) mod urls;
pub(crate) mod writers;
