//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    lane_tree,
    lane_tree_u128,
    lane_tree_u128_set,
    lane_tree_u128_u32,
    lane_tree_u128_u64,
    lane_tree_u32,
    lane_tree_u32_set,
    lane_tree_u32_u32,
    lane_tree_u32_u64,
    lane_tree_u64,
    lane_tree_u64_pairs,
    lane_tree_u64_set,
    lane_tree_u64_u32,
    lane_tree_u64_u64,
}
