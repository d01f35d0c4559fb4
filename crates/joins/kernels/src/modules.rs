//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    joins_u32_set,
    joins_u32_u32,
    joins_u32_u64,
    joins_u64_set,
    joins_u64_u32,
    joins_u64_u64,
}
