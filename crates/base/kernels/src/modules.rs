//! The PTX modules: what the driver loads at once.

lanetree_simt::modules! {
    keys,
}
