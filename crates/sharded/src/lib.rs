//! Several GPUs of one host: [`Sharded`], one index over all of them, and [`Replicated`], a copy on each.
//!
//! Both are made of any index over keys of a fixed size, by its builder, and are an
//! [`OrderedIndex`](lanetree_frame::OrderedIndex) themselves. Several shards or copies may be on one device, so that everything
//! runs on one card, on the host, and on the emulator.

mod back;
mod group;
mod host;
mod on_devices;
mod ordered;
mod question;
mod ranges;
mod replicated;
mod route;
mod router;
mod sharded;
mod slots;
mod splitters;
#[cfg(test)]
mod tests;
mod ways;

#[doc(hidden)]
pub use lanetree_kernels_sharded::modules::MODULES;
pub use on_devices::OnDevices;
pub use replicated::Replicated;
pub use sharded::{ShardStats, Sharded};
