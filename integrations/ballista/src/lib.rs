//! Lanetree's indexes in Ballista: a plan names an indexed table, and each executor looks up in its own replica or shards of it.
//!
//! A table is a file: its rows, and which columns are indexed ([`write_table`]). Or it is in shards, a file for each range of one
//! column's values, and a file with the ranges ([`write_sharded`]). Each process has a folder or an object store of such files
//! ([`Tables`]), its own or a shared one. Replicas are opened when a plan first names them, shards when the first probes are there.
//! Plans have no rows of a table but its name and the checksum of its file, so a process whose file has other contents refuses the
//! plan.
//!
//! A join with a replica needs no shuffle: the probes of each partition are looked up where they are ([`IndexLookupExec`]). A join with
//! a table in shards partitions the probes by the shards' ranges ([`ShardedLookupExec`]), and [`Placement`] sends those of a range to
//! the executor that has the shard open.
//!
//! * The scheduler plans with [`session_state`], whose rules put look-ups in the place of joins; [`scheduler_config`].
//! * Executors decode plans with [`PlanCodec`]: [`executor_config`].
//! * A client has a [`client_context`].
//!
//! The program of this crate is all three.
//!
//! [`IndexLookupExec`]: lanetree_datafusion::IndexLookupExec

mod codec;
mod lookup;
mod message;
mod placement;
mod scan;
mod session;
mod shards;
mod tables;
mod write;

pub use codec::{PlanCodec, TableCodec};
pub use lookup::ShardedLookupExec;
pub use placement::Placement;
pub use scan::{ShardScanExec, ShardedTable};
pub use session::{client_context, collect_within, executor_config, scheduler_config, session_state};
pub use shards::Shards;
pub use tables::{Table, Tables};
pub use write::{write_sharded, write_table};
