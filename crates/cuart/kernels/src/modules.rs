//! The PTX modules: a file of kernels each.

lanetree_simt::modules! {
    cuart,
    cuart_build,
    cuart_compact,
    cuart_range,
    cuart_update,
}
