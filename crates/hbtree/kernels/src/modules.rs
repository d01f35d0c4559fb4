//! The PTX modules: what the driver loads at once.

lanetree_simt::modules! {
    hbtree_u32,
    hbtree_u32_u32,
    hbtree_u32_u64,
    hbtree_u64,
    hbtree_u64_u32,
    hbtree_u64_u64,
}
