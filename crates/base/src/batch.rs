//! A batch of operations in buffers.

use crate::{Buffer, OpKind};
use bytemuck::Pod;

/// A batch of operations in buffers, as the `apply_on` of an index takes it. Operation `i` consists of `keys[i]`, of
/// `values[i]` if the index has values, and of `kinds[i]`. The effect is as if the operations were applied one after another, in this
/// order: of several with the same key, the last one decides.
///
/// There are as many operations as keys, or fewer by [`first`](Self::first). The buffers have at least this number of elements, and all
/// of them are on the device of the index; `apply_on` checks both. Keys may be in any order. From a slice of [`Op`](crate::Op)s,
/// `primitives::UploadedOperations` makes such buffers.
///
/// ```
/// use lanetree::lane_tree::UpdateScratch;
/// use lanetree::{Batch, Device, LaneTree, OpKind};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let stream = device.stream()?;
/// let mut tree = LaneTree::build(&device, &[1_u64, 3], &[10_u32, 30])?;
/// let mut scratch = UpdateScratch::new(&device, 2)?;
/// let (keys, values) = (device.upload(&[2, 3])?, device.upload(&[20, 0])?);
///
/// // Insert 2, remove 3.
/// let kinds = device.upload(&[OpKind::INSERT, OpKind::REMOVE])?;
/// let report = tree.apply_on(&stream, Batch::of_kinds(&keys, &values, &kinds), &mut scratch)?;
/// assert_eq!((report.inserted, report.removed), (1, 1));
///
/// // Insert both: 2 has its value already, which is replaced.
/// let report = tree.apply_on(&stream, Batch::inserts(&keys, &values), &mut scratch)?;
/// assert_eq!((report.inserted, report.replaced), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a, K, Values = ()> {
    /// `[operations]`: the keys.
    pub keys: &'a Buffer<K>,
    /// `[operations]`, a `&Buffer<V>`: the values to be written. A removal does not read its own, which can be anything.
    /// `()` for a set, which has no values.
    pub values: Values,
    /// `[operations]`: what each operation does. `None`: all insert, and replace the value of a key that is present.
    pub kinds: Option<&'a Buffer<OpKind>>,
    /// How many operations there are.
    pub count: usize,
}

impl<K, Values> Batch<'_, K, Values> {
    /// The first `count` operations alone, so that buffers can be longer than a batch, and be kept for batches of other lengths.
    /// `apply_on` refuses more operations than a buffer has elements.
    #[must_use]
    pub fn first(self, count: usize) -> Self {
        Self { count, ..self }
    }
}

impl<'a, K: Pod, V> Batch<'a, K, &'a Buffer<V>> {
    /// Inserts all pairs, or replaces the values of keys that are present.
    pub fn inserts(keys: &'a Buffer<K>, values: &'a Buffer<V>) -> Self {
        Self { keys, values, kinds: None, count: keys.len() }
    }

    /// Operations of any kinds: operation `i` does what `kinds[i]` says with `keys[i]` and `values[i]`. A removal's
    /// value is not read. As many values and kinds as keys.
    pub fn of_kinds(keys: &'a Buffer<K>, values: &'a Buffer<V>, kinds: &'a Buffer<OpKind>) -> Self {
        Self { keys, values, kinds: Some(kinds), count: keys.len() }
    }
}

impl<'a, K: Pod> Batch<'a, K> {
    /// Inserts all of `keys` into a set.
    pub fn insert_keys(keys: &'a Buffer<K>) -> Self {
        Self { keys, values: (), kinds: None, count: keys.len() }
    }

    /// Operations of any kinds on a set: operation `i` does what `kinds[i]` says with `keys[i]`. As many kinds as keys.
    pub fn keys_of_kinds(keys: &'a Buffer<K>, kinds: &'a Buffer<OpKind>) -> Self {
        Self { keys, values: (), kinds: Some(kinds), count: keys.len() }
    }
}
