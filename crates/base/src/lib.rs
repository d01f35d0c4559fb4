//! What Lanetree's indexes have in common.
//!
//! For users: [keys](AnyKey), batches of [byte strings](ByteKeys), [ranges](KeyRange), [operations](Op) and their reports,
//! and [errors](Error). The crate `lanetree` re-exports all of it.
//!
//! For an index: [`Guarded`] holds its contents and says when they are lost; [`staging`] sends batches from host memory
//! through a device; [`fold`] combines all operations of a key into one change.

pub mod aggregate_steps;
mod batch;
mod batch_order;
mod by_card;
pub mod byte_keys;
mod clamped;
mod clamped_on;
mod columns;
mod composite;
pub mod error;
mod fold;
mod found;
mod guarded;
mod join_bounds;
mod join_kind;
mod join_rows;
pub mod join_steps;
pub mod launch;
mod matches;
pub mod nearest_steps;
mod nulls;
mod ops;
pub mod parallel;
pub mod parcel;
pub mod pointers;
pub mod ranges;
pub mod room;
pub mod row_pieces;
pub mod staging;
pub mod uninit;

pub use batch::Batch;
pub use batch_order::BatchOrder;
pub use by_card::ByCard;
pub use byte_keys::{ByteKeys, ByteKeysBuf, ByteRange, ByteRanges, DeviceKeys, DeviceNumber, OffsetBuffer, Offsets};
pub use clamped::{Clamped, clamp_bounds};
pub use clamped_on::DeviceClamped;
pub use columns::{Float, FloatOrder, order_floats, restore_floats, unpack_bits};
pub use composite::compose_on;
pub use error::{Error, FileError, Result};
pub use fold::{NetChange, NetChanges, combine, fold};
#[doc(hidden)]
pub use found::{Found, Hits};
pub use guarded::Guarded;
pub use join_bounds::{Closed, JoinBounds, number_matches};
pub use join_kind::{Join, JoinKind, no_row};
pub use join_rows::JoinRows;
#[doc(hidden)]
pub use lanetree_kernels_base::modules::MODULES;
pub use lanetree_layout::{AnyKey, Bytes16, Composite, F32, F64, FixedKey, Key, KeyWord, Value, Word};
pub use lanetree_runtime as runtime;
pub use lanetree_runtime::ErrorKind;
pub use lanetree_runtime::{Buffer, Device, DeviceKind, Event, PinnedBuffer, Pool, PoolStats, Stream};
pub use matches::Matches;
pub use nulls::{Duplicates, NullOrder, Nulls, Validity, mask_hits};
pub use ops::{Op, OpKind, UpdatePath, UpdateReport, apply_to_map};
pub use ranges::{KeyRange, Ranges};
