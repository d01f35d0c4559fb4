//! The regular tree (section 4.1): nodes of several lines with references, of which a few are rewritten by a change.

#[cfg(any(test, feature = "check"))]
mod check;
mod device;
mod inner;
mod leaves;
mod nodes;
mod pool;
#[cfg(test)]
mod tests;
mod update;

pub(crate) use device::RegularOnDevice;
pub(crate) use inner::RegularInner;
pub(crate) use leaves::BigLeaves;

use crate::options::Options;
use crate::structure::{Parts, Structure};
use lanetree_frame::{NetChange, Op, Result, UpdateReport};
use lanetree_layout::{Key, Word};

/// The regular tree: nodes have 64 children (256 with 32-bit keys) and references to them, and leaves lie in groups of as
/// many lines. Changes rewrite the leaves that they touch.
#[derive(Clone, Copy, Debug)]
pub enum Regular {}

impl Structure for Regular {
    const NAME: &'static str = "hbtree_regular";
    const HAS_FANOUTS: bool = false;
    type Inner<K: Key> = RegularInner<K::Bits>;
    type Leaves<K: Key, V: Word> = BigLeaves<K::Bits, V>;

    fn inner<K: Key, V: Word>(leaves: &mut BigLeaves<K::Bits, V>, options: &Options) -> Result<RegularInner<K::Bits>> {
        leaves.seal();
        RegularInner::build(leaves, options)
    }

    fn apply<K: Key, V: Word>(
        tree: &mut Parts<K, V, Self>,
        count: usize,
        op: impl Fn(usize) -> Op<K, V> + Sync,
    ) -> Result<UpdateReport> {
        tree.apply(count, op)
    }

    fn change<K: Key, V: Word>(
        tree: &mut Parts<K, V, Self>,
        changes: &[(K::Bits, NetChange<V>)],
    ) -> Result<UpdateReport> {
        tree.change(changes)
    }
}
