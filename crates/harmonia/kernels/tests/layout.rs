//! What loads of nodes rely on.

use lanetree_kernels_harmonia::layout::{FANOUTS, inner_bytes};

#[test]
fn inner_nodes_are_whole_sectors() {
    for fanout in FANOUTS {
        assert_eq!(inner_bytes::<u32>(fanout) % 32, 0);
        assert_eq!(inner_bytes::<u64>(fanout) % 32, 0);
    }
}
