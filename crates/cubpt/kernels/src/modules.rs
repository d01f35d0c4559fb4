//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    cubpt,
    cubpt_u32,
    cubpt_u32_u32,
    cubpt_u32_u64,
    cubpt_u64,
    cubpt_u64_u32,
    cubpt_u64_u64,
}
