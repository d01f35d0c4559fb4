//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    sharded,
}
