//! Leaves in host memory below any index: a framework for leaf-stored trees (the paper's second line of future work).
//!
//! The inner levels are an index over the largest keys of the leaves. The rank of a query among these is its leaf. So any
//! [`FixedIndex`] could stand above leaves in host memory, with the pipelines, the ranges and everything else that the
//! HB+-tree has.

mod inner;

use crate::implicit::{PackedLeaves, change};
use crate::options::Options;
use crate::structure::{Parts, Structure};
use core::fmt::Debug;
use inner::IndexInner;
use lanetree_frame::fixed::FixedIndex;
use lanetree_frame::{Device, NetChange, Result, UpdateReport};
use lanetree_layout::{Key, Word};

/// An index that can stand above leaves.
///
/// It cannot be implemented outside this crate, since the device takes a rank in it for a leaf's number, without asking whether
/// there is such a leaf. So each implementation is known to have the keys that it was given, and no others.
///
/// ```compile_fail,E0277
/// use lanetree::hbtree::Upper;
/// use lanetree::{Device, Harmonia, Key, Result};
///
/// #[derive(Clone, Copy, Debug)]
/// struct Mine;
///
/// impl Upper for Mine {
///     const NAME: &'static str = "mine";
///     type Index<K: Key> = Harmonia<K, u32>;
///
///     fn build<K: Key>(device: &Device, keys: &[K]) -> Result<Self::Index<K>> {
///         // Twice the keys, so twice the leaves.
///         let keys = [keys, keys].concat();
///         Harmonia::build(device, &keys, &vec![0; keys.len()])
///     }
/// }
/// ```
pub trait Upper: sealed::Sealed + Copy + Send + Sync + Debug + 'static {
    /// What the tree is called.
    const NAME: &'static str;
    /// The index, over keys of any type. Its values are not used.
    type Index<K: Key>: FixedIndex<Key = K>;

    /// Builds one over keys in strictly ascending order.
    ///
    /// # Errors
    /// The index's own.
    fn build<K: Key>(device: &Device, keys: &[K]) -> Result<Self::Index<K>>;
}

mod sealed {
    /// What only this crate implements.
    pub trait Sealed {}
}

/// Leaves in host memory below an index. Batches of changes rebuild the tree, as with [`Implicit`](crate::Implicit).
///
/// ```
/// use lanetree::Device;
/// use lanetree::hbtree::{HarmoniaAbove, HbTree};
///
/// # fn main() -> lanetree::Result<()> {
/// let keys: Vec<u64> = (0..1000).collect();
/// let tree = HbTree::builder().over::<HarmoniaAbove>().build(&Device::emulated(), &keys, &keys)?;
/// assert_eq!(tree.get_many(&[7, 5000])?, [Some(7), None]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Over<U>(core::marker::PhantomData<fn() -> U>);

impl<U: Upper> Structure for Over<U> {
    const NAME: &'static str = U::NAME;
    const HAS_FANOUTS: bool = false;
    type Inner<K: Key> = IndexInner<K, U>;
    type Leaves<K: Key, V: Word> = PackedLeaves<K::Bits, V>;

    fn inner<K: Key, V: Word>(leaves: &mut PackedLeaves<K::Bits, V>, _: &Options) -> Result<IndexInner<K, U>> {
        IndexInner::build(leaves)
    }

    fn change<K: Key, V: Word>(
        tree: &mut Parts<K, V, Self>,
        changes: &[(K::Bits, NetChange<V>)],
    ) -> Result<UpdateReport> {
        change(tree, changes)
    }
}

/// [`Harmonia`](lanetree_harmonia::Harmonia) above leaves in host memory.
#[cfg(feature = "harmonia")]
#[derive(Clone, Copy, Debug)]
pub enum HarmoniaAbove {}

#[cfg(feature = "harmonia")]
impl sealed::Sealed for HarmoniaAbove {}

#[cfg(feature = "harmonia")]
impl Upper for HarmoniaAbove {
    const NAME: &'static str = "hbtree_harmonia";
    type Index<K: Key> = lanetree_harmonia::Harmonia<K, u32>;

    fn build<K: Key>(device: &Device, keys: &[K]) -> Result<Self::Index<K>> {
        lanetree_harmonia::Harmonia::builder().build_sorted(device, keys, &lanetree_frame::room::zeroed(keys.len())?)
    }
}
