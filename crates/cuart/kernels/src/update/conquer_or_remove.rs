//! Updates and removals in one batch, by the engine of updates (section 3.4 of the paper: the same implementation for
//! both, "signaling a deletion through a setting a nil pointer").

use super::claim::{ConquerArgs, UNCLAIMED};
use super::remove::{RemoveArgs, remove};
use crate::get::value_word;
use crate::layout::Link;
use core::marker::PhantomData;
use lanetree_simt::{Hint, Kernel, Simt, Word, instance, kernel_args};

kernel_args! {
    /// Arguments of [`ConquerOrRemove`].
    pub struct ConquerOrRemoveArgs<V> {
        /// As for [`Conquer`](super::Conquer), of a whole batch in one launch.
        pub conquer: ConquerArgs<V>,
        /// As for [`Remove`](super::Remove), of the same tree and batch.
        pub remove: RemoveArgs,
        /// The value that stands for a removal.
        pub nil: V,
    }
}

/// Stage 2, one thread per operation, any block: the last one of each key writes its value, or removes the key if that is
/// nil.
#[derive(Debug)]
pub struct ConquerOrRemove<V>(PhantomData<V>);

impl<V: Word> Kernel for ConquerOrRemove<V> {
    type Args = ConquerOrRemoveArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, stage) = (simt.global_index(), &args.conquer);
        if index >= stage.count {
            return;
        }
        // SAFETY: `index` is an operation and its slot one of the table's, whose key is a leaf of the tree; of all
        // operations on a leaf one has the highest index, so a leaf is written or removed by one thread.
        unsafe {
            let slot = simt.load(stage.slots, index, Hint::ReadOnly);
            if slot == UNCLAIMED || simt.load(stage.highest, u64::from(slot), Hint::ReadOnly) != index as u32 + 1 {
                return;
            }
            let value = simt.load(stage.values, index, Hint::Streaming);
            if value == args.nil {
                remove(simt, &args.remove, args.remove.queries.at(simt, index));
                return;
            }
            let leaf = Link::from_bits(simt.load(stage.owners, u64::from(slot), Hint::ReadOnly));
            let at = stage.tree.address(leaf).cast::<u64>();
            simt.store(at, value_word(leaf.kind()), value.widen(), Hint::Default);
        }
    }
}

instance!(cuart_update__conquer_or_remove_u32, cuart_update, ConquerOrRemove<u32>);
instance!(cuart_update__conquer_or_remove_u64, cuart_update, ConquerOrRemove<u64>);
