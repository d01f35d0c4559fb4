//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    sorted_u32_u32,
    sorted_u32_u64,
    sorted_u64_u32,
    sorted_u64_u64,
}
