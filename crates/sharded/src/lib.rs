//! Several GPUs of one host: [`Sharded`], one index over all of them, and [`Replicated`], a copy on each.
//!
//! Both wrap any index over fixed-size keys: pass its builder. Both implement [`OrderedIndex`](lanetree_frame::OrderedIndex). Several
//! shards or copies may be on one device, so that everything runs on one card, on the host, and on the emulator. A set in shards is a
//! `ShardedSet`, a multi-map a `ShardedMultiMap`.

mod aggregate;
#[cfg(feature = "lane-tree")]
mod apply_on;
mod back;
mod combinations;
mod group;
mod host;
mod host_staging;
mod joins;
#[cfg(feature = "multimap")]
mod multi_map;
mod on_devices;
#[cfg(feature = "lane-tree")]
mod on_set;
mod on_shards;
mod ordered;
mod parts;
mod pieces;
mod query;
mod range_router;
mod ranges;
mod replicated;
mod route;
mod router;
mod scratch;
mod scratch_pool;
#[cfg(feature = "lane-tree")]
mod set;
mod sharded;
mod slots;
mod splitters;
#[cfg(test)]
mod tests;

#[cfg(feature = "lane-tree")]
pub use apply_on::ShardedUpdateScratch;
#[doc(hidden)]
pub use lanetree_kernels_sharded::modules::MODULES;
#[cfg(feature = "multimap")]
pub use multi_map::ShardedMultiMap;
pub use on_devices::OnDevices;
#[cfg(feature = "lane-tree")]
pub use on_set::SetOnDevices;
pub use parts::ShardStats;
pub use pieces::ShardPieces;
pub use replicated::Replicated;
#[cfg(feature = "lane-tree")]
pub use set::ShardedSet;
pub use sharded::Sharded;
