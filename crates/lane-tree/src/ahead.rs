//! The kernels that operations launch, which are loaded ahead of them: [`Device::load_ahead`]. In each list, those that take long to
//! compile come first. A test holds the lists together with what is launched.

use lanetree_frame::{Device, DeviceKind};
use lanetree_kernels_lane_tree::calls::*;
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::{kernel_of_scans, kernels_of_builds, kernels_of_operations};
use lanetree_simt::Entry;

/// The kernels of a build and of the look-ups that are likely to follow, with the kernels that sort `unsorted` pairs if
/// the device is to sort them. Without the kernels for levels that only large trees have, and for pairs with equal
/// keys.
pub fn of_builds<K: AnyKey, V: Value>(unsorted: Option<usize>) -> Vec<&'static Entry> {
    let mut kernels = unsorted.map_or_else(Vec::new, kernels_of_builds::<K::Bits, V>);
    kernels.extend(of_nodes::<K, V>());
    kernels.push(get_entry::<K::Bits, V>());
    kernels
}

/// The kernels of a batch of `count` changes that splits no nodes. Without the kernels for batches with several kinds
/// of changes.
pub fn of_changes<K: AnyKey, V: Value>(count: usize) -> Vec<&'static Entry> {
    let mut kernels = vec![
        write_nodes_entry::<K::Bits, V>(),
        plan_nodes_entry::<K::Bits, V>(),
        search_entry::<K::Bits, V>(),
        plan_shifts_entry::<K::Bits, V>(),
    ];
    kernels.extend(kernels_of_operations::<K::Bits>(count));
    kernels.extend([
        kernel_of_scans::<u64>(),
        write_shifts_entry::<K::Bits, V>(),
        write_buckets_entry::<K::Bits, V>(),
        plan_buckets_entry::<K::Bits, V>(),
        list_nodes_entry::<K::Bits, V>(),
        ranks_entry::<K::Bits, V>(),
    ]);
    kernels
}

/// The kernels that a batch needs to split nodes, in addition to [`of_changes`].
pub fn of_divisions<K: AnyKey, V: Value>() -> Vec<&'static Entry> {
    let mut kernels = of_nodes::<K, V>().to_vec();
    kernels.extend([
        move_pairs_entry::<K::Bits, V>(),
        size_split_entry::<K::Bits, V>(),
        list_split_entry(),
        assign_parts_entry::<K::Bits, V>(),
        relocate_entry::<K::Bits, V>(),
        ends_entry::<K::Bits, V>(),
    ]);
    kernels
}

/// The kernels that a batch needs to rebuild the tree, in addition to [`of_changes`].
pub fn of_rebuilds<K: AnyKey, V: Value>() -> Vec<&'static Entry> {
    vec![
        rebuild_entry::<K::Bits, V>(),
        write_others_entry::<K::Bits, V>(),
        count_others_entry::<K::Bits, V>(),
        write_entry::<K::Bits, V>(),
        spans_entry::<K::Bits, V>(),
        starts_entry::<K::Bits, V>(),
        size_others_entry(),
        assign_others_entry(),
        relocate_entry::<K::Bits, V>(),
        ends_entry::<K::Bits, V>(),
        table_entry::<K::Bits>(),
    ]
}

/// The kernels that make nodes from pairs.
fn of_nodes<K: AnyKey, V: Value>() -> [&'static Entry; 7] {
    [
        write_others_entry::<K::Bits, V>(),
        count_others_entry::<K::Bits, V>(),
        count_entry::<K::Bits, V>(),
        kernel_of_scans::<u64>(),
        write_entry::<K::Bits, V>(),
        cut_entry::<K::Bits>(),
        table_entry::<K::Bits>(),
    ]
}

/// Loads kernels ahead on a device where that takes long.
pub(crate) fn load(device: &Device, kernels: impl FnOnce() -> Vec<&'static Entry>) {
    if device.kind() == DeviceKind::Cuda {
        device.load_ahead(&kernels());
    }
}
