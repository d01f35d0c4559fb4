//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    hbtree_u32,
    hbtree_u32_u32,
    hbtree_u32_u64,
    hbtree_u64,
    hbtree_u64_u32,
    hbtree_u64_u64,
}
