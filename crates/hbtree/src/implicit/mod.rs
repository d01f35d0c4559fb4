//! The implicit tree (section 4.1): full nodes of a line, in breadth-first order, without references.

mod device;
mod inner;
mod leaves;
mod update;

pub(crate) use device::ImplicitOnDevice;
pub(crate) use inner::ImplicitInner;
pub(crate) use leaves::PackedLeaves;
pub(crate) use update::change;

use crate::options::{BuildTimes, Options, UpdateTimes};
use crate::structure::{Inner, Parts, Structure};
use core::time::Duration;
use lanetree_frame::{Device, DeviceKind, NetChange, Result, UpdateReport};
use lanetree_layout::{Key, Word};
use std::time::Instant;

/// The implicit tree: nodes are full, in breadth-first order, and hold no references. It has the most children per line, and
/// is built anew by changes.
#[derive(Clone, Copy, Debug)]
pub enum Implicit {}

impl Structure for Implicit {
    const NAME: &'static str = "hbtree";
    const HAS_FANOUTS: bool = true;
    type Inner<K: Key> = ImplicitInner<K::Bits>;
    type Leaves<K: Key, V: Word> = PackedLeaves<K::Bits, V>;

    fn over<K: Key, V: Word>(
        device: &Device,
        options: Options,
        leaves: PackedLeaves<K::Bits, V>,
        filling: Duration,
    ) -> Result<Parts<K, V, Self>> {
        let started = Instant::now();
        let inner = ImplicitInner::build(&leaves, options.fanout.children::<K::Bits>(), options.inner_pages)?;
        let (made, sending) = (started.elapsed(), Instant::now());
        let copy = match device.kind() {
            DeviceKind::Host => None,
            _ => Some(Inner::<K>::upload(&inner, device)?),
        };
        let times = BuildTimes { leaves: filling, inner: made, transfer: sending.elapsed() };
        Parts {
            device: device.clone(),
            options,
            leaves,
            inner,
            copy,
            pinned: None,
            times,
            update_times: UpdateTimes::default(),
            sorting: None,
        }
        .pin()
    }

    fn change<K: Key, V: Word>(
        tree: &mut Parts<K, V, Self>,
        changes: &[(K::Bits, NetChange<V>)],
    ) -> Result<UpdateReport> {
        change(tree, changes)
    }
}
