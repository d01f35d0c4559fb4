//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    multimap,
    multimap_u32,
    multimap_u64,
    multimap_u32_u32,
    multimap_u32_u64,
    multimap_u64_u32,
    multimap_u64_u64,
    multimap_u128_u32,
    multimap_u128_u64,
}
