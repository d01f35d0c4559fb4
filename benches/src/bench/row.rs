//! Rows as the bench writes them.

use lanetree_baselines::Checksum;

/// One measurement, with the names of tables and types as they stand in the source.
pub(crate) type Row = lanetree_record::Row<&'static str, Checksum>;
