//! Arrow columns as keys of Lanetree's indexes.
//!
//! An [`ArrowIndex`] is a [`LaneTree`](lanetree::LaneTree) over a column, or a [`Cuart`](lanetree::Cuart) over strings. It answers probes, which are arrays of the same type,
//! with *row numbers* of the column: [`UInt64Array`](arrow_array::UInt64Array)s, for `take`. A column may have nulls and equal
//! values.
//!
//! ```
//! use arrow_array::{Date32Array, UInt64Array};
//! use lanetree::Device;
//! use lanetree_arrow::{ArrowIndex, Nulls};
//!
//! # fn main() -> lanetree_arrow::Result<()> {
//! let days = Date32Array::from(vec![Some(20_300), None, Some(20_310), Some(20_300)]);
//! let index = ArrowIndex::build(&Device::host(), &days, Nulls::Skip)?;
//!
//! let probes = Date32Array::from(vec![Some(20_310), Some(20_305), None]);
//! assert_eq!(index.get(&probes)?, UInt64Array::from(vec![Some(2), None, None]));
//! assert_eq!(index.predecessor(&probes)?, UInt64Array::from(vec![Some(2), Some(3), None]));
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//!
//! | Arrow's type | key | copied |
//! |---|---|---|
//! | `Int32`, `Date32`, `Time32`, `Decimal32` | `i32` | no |
//! | `Int64`, `Date64`, `Time64`, `Timestamp`, `Duration`, `Decimal64` | `i64` | no |
//! | `UInt32`, `UInt64` | `u32`, `u64` | no |
//! | `Decimal128` | `i128` | no |
//! | `Int8`, `Int16`, `UInt8`, `UInt16` | `i32`, `u32` | widened |
//! | `Float32`, `Float64` | [`F32`](lanetree::F32), [`F64`](lanetree::F64): total order | a word each |
//! | `FixedSizeBinary(16)` | [`Bytes16`](lanetree::Bytes16) | a word each |
//! | `Utf8`, `Binary`, their large forms, `FixedSizeBinary` of other sizes | byte strings, in the order of bytes | no |
//! | `Utf8View`, `BinaryView` | byte strings, in the order of bytes | packed |
//! | `Dictionary` of one of these | as the type of its values | written out |
//!
//! A dictionary is its values: an index over one is asked by dictionaries and by plain arrays alike.
//!
//! Floats are in total order: -0.0 is below 0.0 and not equal to it (in SQL it is), NaNs are keys, and NaNs of
//! different bits are different keys.
//!
//! # Nulls
//! A null is no key: it equals nothing and is in no range. [`Nulls`] says whether a column may have any. A probe that is null
//! has a null answer.
//!
//! # Columns on a device
//! [`DeviceColumn`] takes a column of another library's, by Arrow's C device interface, as a [`Buffer`](lanetree::Buffer) for
//! indexes on the same device, and [`ArrowDeviceArray::export`] gives results to others; both without a copy.
//!
//! # Files
//! With the features `ipc` and `parquet`, whole indexes are written to Arrow IPC files (Feather) and Parquet files, and built from
//! such files, of other programs too: see `Exchange`.

#[cfg(any(feature = "ipc", feature = "parquet"))]
mod arrays;
pub mod device;
mod error;
#[cfg(any(feature = "ipc", feature = "parquet"))]
mod exchange;
mod index;
#[cfg(feature = "ipc")]
mod ipc;
mod keys;
#[cfg(feature = "parquet")]
mod parquet_files;
mod trees;
mod typed;
mod values;

pub use device::{ArrowDeviceArray, DeviceColumn};
pub use error::{Error, Result};
#[cfg(any(feature = "ipc", feature = "parquet"))]
pub use exchange::Exchange;
pub use index::{ArrowIndex, Nulls};
#[cfg(feature = "ipc")]
pub use ipc::{read_ipc, write_ipc};
#[cfg(feature = "parquet")]
pub use parquet_files::{read_parquet, write_parquet};
pub use typed::Join;
