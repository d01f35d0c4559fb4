//! What single indexes have in addition to the traits.

mod batched;
mod cuart;
mod hybrid;
mod set;
mod sharded;
mod sharded_set;

pub use batched::{
    BatchHooks, Batched, CubptBuilder, HarmoniaBuilder, LaneTreeBuilder, Way, cubpt_builders, harmonia_builders,
    lane_tree_builders,
};
pub use cuart::{CuartBuilder, CuartHooks, cuart_builders};
pub use hybrid::{HybridHooks, hybrid_builders};
pub use set::LaneSets;
pub use sharded::{
    ReplicatedBuilder, ReplicatedHooks, ShardedBuilder, ShardedHooks, Three, replicated_builders, sharded_builders,
};
pub use sharded_set::{ShardedSetSubject, ShardedSets};
