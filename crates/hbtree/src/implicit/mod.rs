//! The implicit tree (section 4.1): full nodes of a line, in breadth-first order, without references.

mod device;
mod inner;
mod leaves;
mod update;

pub(crate) use device::ImplicitOnDevice;
pub(crate) use inner::ImplicitInner;
pub(crate) use leaves::PackedLeaves;
pub(crate) use update::change;

use crate::options::Options;
use crate::structure::{Parts, Structure};
use lanetree_frame::{NetChange, Result, UpdateReport};
use lanetree_layout::{Key, Word};

/// The implicit tree: nodes are full, in breadth-first order, and hold no references. It has the most children per line, and
/// is rebuilt by changes.
#[derive(Clone, Copy, Debug)]
pub enum Implicit {}

impl Structure for Implicit {
    const NAME: &'static str = "hbtree";
    const HAS_FANOUTS: bool = true;
    type Inner<K: Key> = ImplicitInner<K::Bits>;
    type Leaves<K: Key, V: Word> = PackedLeaves<K::Bits, V>;

    fn inner<K: Key, V: Word>(
        leaves: &mut PackedLeaves<K::Bits, V>,
        options: &Options,
    ) -> Result<ImplicitInner<K::Bits>> {
        ImplicitInner::build(leaves, options.fanout.children::<K::Bits>(), options.inner_pages)
    }

    fn change<K: Key, V: Word>(
        tree: &mut Parts<K, V, Self>,
        changes: &[(K::Bits, NetChange<V>)],
    ) -> Result<UpdateReport> {
        change(tree, changes)
    }
}
