//! The PTX modules: what the driver loads at once.

lanetree_simt::modules! {
    multimap,
    multimap_u32,
    multimap_u64,
    multimap_u32_u32,
    multimap_u32_u64,
    multimap_u64_u32,
    multimap_u64_u64,
}
