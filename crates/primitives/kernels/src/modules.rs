//! The PTX modules: what the driver loads at once.

lanetree_simt::modules! {
    primitives,
    primitives_operations,
    primitives_scan,
    primitives_sort_u32,
    primitives_sort_u32_u32,
    primitives_sort_u32_u64,
    primitives_sort_u64,
    primitives_sort_u64_u32,
    primitives_sort_u64_u64,
    primitives_u32,
    primitives_u32_u32,
    primitives_u32_u64,
    primitives_u64,
    primitives_u64_u32,
    primitives_u64_u64,
}
