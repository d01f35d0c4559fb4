//! What is sent of a scan or a look-up.

use core::ops::Bound;
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_datafusion_err};
use datafusion_proto::protobuf::PhysicalExprNode;

/// What the messages of this crate begin with; others are Ballista's.
pub(crate) const MAGIC: &[u8] = b"lanetree\x005";

/// A node of a plan.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    /// The table, and the checksum of its file.
    #[prost(string, tag = "1")]
    pub(crate) table: String,
    #[prost(oneof = "Kind", tags = "2, 3, 4, 5")]
    pub(crate) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Kind {
    #[prost(message, tag = "2")]
    Scan(Box<Scan>),
    #[prost(message, tag = "3")]
    Lookup(Box<Lookup>),
    #[prost(message, tag = "4")]
    ShardScan(ShardScan),
    #[prost(message, tag = "5")]
    ShardedLookup(Box<ShardedLookup>),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ShardScan {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) columns: Vec<u64>,
    /// The shard; all without one.
    #[prost(uint64, optional, tag = "2")]
    pub(crate) only: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ShardedLookup {
    #[prost(message, optional, boxed, tag = "1")]
    pub(crate) lookup: Option<Box<Lookup>>,
    #[prost(uint64, tag = "2")]
    pub(crate) partitions: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Scan {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) columns: Vec<u64>,
    #[prost(message, optional, tag = "2")]
    pub(crate) filter: Option<Filter>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) limit: Option<u64>,
    #[prost(uint64, tag = "4")]
    pub(crate) partitions: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Filter {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) index: Vec<u64>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) columns: Vec<OfColumn>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) texts: Vec<String>,
    #[prost(bool, tag = "4")]
    pub(crate) descending: bool,
    #[prost(bool, tag = "5")]
    pub(crate) nulls_first: bool,
    #[prost(bool, tag = "6")]
    pub(crate) is_distinct: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OfColumn {
    #[prost(message, repeated, tag = "1")]
    pub(crate) ranges: Vec<Range>,
    #[prost(bool, tag = "2")]
    pub(crate) nulls: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Range {
    #[prost(message, optional, tag = "1")]
    pub(crate) low: Option<End>,
    #[prost(message, optional, tag = "2")]
    pub(crate) high: Option<End>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct IndexedColumn {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint64, tag = "2")]
    pub(crate) at: u64,
}

/// An end of a range; without one, the range is not bounded there.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct End {
    #[prost(message, optional, tag = "1")]
    pub(crate) value: Option<datafusion_proto_common::ScalarValue>,
    #[prost(bool, tag = "2")]
    pub(crate) is_included: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Lookup {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) index: Vec<u64>,
    #[prost(string, tag = "2")]
    pub(crate) join_type: String,
    #[prost(bool, tag = "3")]
    pub(crate) probes_are_left: bool,
    #[prost(message, optional, tag = "4")]
    pub(crate) schema: Option<datafusion_proto_common::Schema>,
    #[prost(enumeration = "Match", tag = "5")]
    pub(crate) condition: i32,
    /// The keys; of [`Match::Between`] the smaller and the larger one.
    #[prost(message, repeated, tag = "6")]
    pub(crate) keys: Vec<PhysicalExprNode>,
    /// Of [`Match::Equal`]: the indexed columns, on their side.
    #[prost(message, repeated, tag = "7")]
    pub(crate) indexed: Vec<IndexedColumn>,
    #[prost(uint64, repeated, tag = "8")]
    pub(crate) columns: Vec<u64>,
    #[prost(uint64, repeated, tag = "9")]
    pub(crate) output: Vec<u64>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) filters: Vec<PhysicalExprNode>,
}

/// Which rows a key matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Match {
    Unknown = 0,
    Equal = 1,
    LastUpTo = 2,
    FirstFrom = 3,
    Between = 4,
}

pub(crate) fn wide(numbers: &[usize]) -> Vec<u64> {
    numbers.iter().map(|number| *number as u64).collect()
}

/// A number that is too large is no column, and refused as such.
pub(crate) fn narrow(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(crate) fn all_narrow(numbers: &[u64]) -> Vec<usize> {
    numbers.iter().copied().map(narrow).collect()
}

pub(crate) fn scalar_to(value: &ScalarValue) -> Result<datafusion_proto_common::ScalarValue> {
    value.try_into().map_err(|error| internal_datafusion_err!("a value that cannot be sent, {value}: {error}"))
}

pub(crate) fn scalar_from(value: &datafusion_proto_common::ScalarValue) -> Result<ScalarValue> {
    value.try_into().map_err(|error| internal_datafusion_err!("a value that was not sent whole: {error}"))
}

pub(crate) fn end_to(bound: &Bound<ScalarValue>) -> Result<Option<End>> {
    let end = |value, is_included| Ok(Some(End { value: Some(scalar_to(value)?), is_included }));
    match bound {
        Bound::Included(value) => end(value, true),
        Bound::Excluded(value) => end(value, false),
        Bound::Unbounded => Ok(None),
    }
}

pub(crate) fn end_from(end: Option<&End>) -> Result<Bound<ScalarValue>> {
    let Some(End { value, is_included }) = end else { return Ok(Bound::Unbounded) };
    let value = scalar_from(value.as_ref().ok_or_else(|| missing("a value"))?)?;
    Ok(if *is_included { Bound::Included(value) } else { Bound::Excluded(value) })
}

/// The error of a message without something.
pub(crate) fn missing(what: &str) -> DataFusionError {
    internal_datafusion_err!("a message of lanetree-ballista without {what}")
}
