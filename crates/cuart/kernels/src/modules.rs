//! The PTX modules: what the driver loads at once.

lanetree_simt::modules! {
    cuart,
    cuart_build,
    cuart_compact,
    cuart_range,
    cuart_update,
}
