//! New values for keys that are present (section 3.4 of the paper).

use super::edit::Edit;
use crate::native::TASK;
use bytemuck::Pod;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};
use lanetree_frame::parallel::*;
use lanetree_kernels_cuart::layout::{Leaf8, Leaf16, Leaf32, Link, LinkType};

impl Edit<'_> {
    /// Sets the values of leaves, in parallel; each leaf is there once.
    pub(super) fn set_values(&mut self, writes: &[(Link, u64)]) {
        for &(leaf, _) in writes {
            self.note_leaf(leaf);
        }
        let leaf8 = words(self.leaf8.elements);
        let leaf16 = words(self.leaf16.elements);
        let leaf32 = words(self.leaf32.elements);
        let units = words(self.long.units);
        let host = words(&mut self.host.values);
        writes.par_iter().with_min_len(TASK).for_each(|&(leaf, value)| {
            let index = leaf.index() as usize;
            // Given the words of a leaf, and which of them holds the value.
            let word = match leaf.kind() {
                LinkType::Leaf8 => &leaf8[index * (size_of::<Leaf8>() / 8) + 1],
                LinkType::Leaf16 => &leaf16[index * (size_of::<Leaf16>() / 8) + 2],
                LinkType::Leaf32 => &leaf32[index * (size_of::<Leaf32>() / 8) + 4],
                LinkType::DeviceLeaf => &units[index * 2],
                _ => &host[index],
            };
            word.store(value, Ordering::Relaxed);
        });
    }

    fn note_leaf(&mut self, leaf: Link) {
        match leaf.kind() {
            LinkType::Leaf8 => self.leaf8.note(leaf.index()),
            LinkType::Leaf16 => self.leaf16.note(leaf.index()),
            LinkType::Leaf32 => self.leaf32.note(leaf.index()),
            LinkType::DeviceLeaf => self.long.note(leaf.index() as usize..leaf.index() as usize + 1),
            _ => _ = self.host_mut(),
        }
    }
}

/// The words of elements, for several threads to write.
fn words<T: Pod>(elements: &mut [T]) -> &[AtomicU64] {
    const { assert!(align_of::<T>() >= align_of::<AtomicU64>() && size_of::<T>().is_multiple_of(8)) };
    // SAFETY: the elements are whole aligned words, of which any bits are valid as they are `Pod`; they are
    // borrowed mutably for as long, so nobody accesses them but through these atomics.
    unsafe { slice::from_raw_parts(elements.as_mut_ptr().cast(), size_of_val(elements) / 8) }
}
