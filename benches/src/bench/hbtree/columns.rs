//! Columns that several of the figures have.

use crate::bench::columns::{Column, Format};

/// What the paper says of the same.
pub(crate) const PAPER: Column = Column::words("paper", "paper");
/// Children of an inner node.
pub(crate) const CHILDREN: Column = Column::extra("F", "fanout", Format::Plain);
pub(crate) const NODE_SEARCH: Column = Column::words("node search", "node_search");
/// Queries that a thread has in flight.
pub(crate) const IN_FLIGHT: Column = Column::extra("in flight", "in_flight", Format::Plain);
pub(crate) const BUCKET: Column = Column::of("bucket", |row| row.integer("bucket").map(crate::bench::columns::power));
pub(crate) const STRATEGY: Column = Column::words("buckets follow", "strategy");
pub(crate) const PIPELINES: Column = Column::extra("pipelines", "pipelines", Format::Plain);
pub(crate) const DEVICE_SEARCH: Column = Column::words("device search", "device_search");
/// Relative to the row that others of the table relate to.
pub(crate) const RATIO: Column = Column::extra("ratio", "ratio_to_baseline", Format::Digits(2));
/// How long a bucket is under way while buckets follow one another.
pub(crate) const BUCKET_LATENCY: Column = Column::extra("bucket under way µs", "bucket_latency_us", Format::Digits(1));
pub(crate) const MEDIAN_MICROS: Column =
    Column::of("median µs", |row| Some(format!("{:.2}", row.timing.median_ms * 1e3)));
pub(crate) const P99_MICROS: Column =
    Column::of("p99 µs", |row| row.number("p99_ms").map(|ms| format!("{:.2}", ms * 1e3)));
