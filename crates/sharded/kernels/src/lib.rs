//! Batches over several devices: which queries go to which shard, and their results back into the batch's order.
//!
//! A batch goes through in pieces. Each shard has a *bucket* of a piece's room, into which [`Scatter`] puts its queries, noting each
//! one's [`position`]. [`Back`] takes the results from these positions. A sorted batch is cut by [`Cut`]; its shards' results come to
//! their places by themselves, and [`Settle`] makes them those of the whole index. Ranges are asked of all shards: [`Share`] says how many
//! pairs each one gives, and [`PutPairs`] puts these together. [`Owners`] and [`Permute`] bring operations into the order of their shards.
//! [`Sought`] and [`Judge`] make as-of look-ups of look-ups of neighbours. [`Merge`] merges aggregates of ranges, shard by shard.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

mod amends;
mod back;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod cut;
mod instances;
mod judge;
mod merge;
pub mod modules;
mod owners;
pub mod position;
mod rows;
mod scatter;
mod search;
mod settle;

pub use amends::Amends;
pub use back::{Back, BackArgs};
pub use cut::{Cut, CutArgs};
pub use judge::{Judge, JudgeArgs, Sought, SoughtArgs};
pub use merge::{Merge, MergeArgs};
pub use owners::{Owners, OwnersArgs, Permute, PermuteArgs};
pub use rows::{PutPairs, PutPairsArgs, Share, ShareArgs};
pub use scatter::{Scatter, ScatterArgs};
pub use search::MOST_SHARDS;
pub use settle::{Settle, SettleArgs, hit_words};

/// Threads of a block of every kernel here but [`Cut`], [`Share`], [`Sought`], [`Judge`] and [`Merge`].
pub const THREADS: u32 = 256;

/// Queries of a thread, which are on their way together.
const ITEMS: usize = 8;

/// Queries of a block: pieces begin at multiples of it.
pub const TILE: u64 = THREADS as u64 * ITEMS as u64;
