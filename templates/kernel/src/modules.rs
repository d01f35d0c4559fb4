//! The PTX modules: a file each, written by `lanetree-ptx`.

lanetree::kernel::modules! {
    groups_u32,
    groups_u64,
}
