//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    intervals_u32,
    intervals_u64,
    intervals_u128,
    intervals_u32_u32,
    intervals_u32_u64,
    intervals_u64_u32,
    intervals_u64_u64,
    intervals_u128_u32,
    intervals_u128_u64,
}
