//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    binary_search,
    ceiling,
    grt,
    pointer_btree_u32_u32,
    pointer_btree_u64_u64,
}
