//! The kernels that operations launch, for indexes that load them ahead; those that take long to compile come first.

use crate::radix_sort::is_small;
use lanetree_base::{KeyWord, Value, Word};
use lanetree_kernels_primitives::calls;
use lanetree_simt::Entry;

/// The kernels of a sort of `len` elements and, unless it is of keys alone, of the local sort after it.
fn sort_kernels<K: KeyWord, V: Word>(len: usize, values: bool) -> Vec<&'static Entry> {
    let mut kernels = match is_small(len) {
        true => vec![calls::small_sort_entry::<K, V>(values)],
        false => vec![calls::onesweep_entry::<K, V>(values), calls::histogram_entry::<K>(), calls::offsets_entry()],
    };
    if values {
        kernels.push(calls::local_sort_entry::<K, V>());
    }
    kernels
}

/// The kernels of an [`OperationSort`](crate::OperationSort) of `count` operations, unless they have kinds.
pub fn kernels_of_operations<K: KeyWord>(count: usize) -> Vec<&'static Entry> {
    sort_kernels::<K, u32>(count, true)
}

/// The kernels that sort `len` pairs for a build: [`BuildScratch`](crate::BuildScratch).
pub fn kernels_of_builds<K: KeyWord, V: Value>(len: usize) -> Vec<&'static Entry> {
    sort_kernels::<K, V::Word>(len, V::IS_SOME)
}

/// The kernel of an [`exclusive_scan`](crate::exclusive_scan).
pub fn kernel_of_scans<T: Word>() -> &'static Entry {
    calls::exclusive_sum_entry::<T>()
}
