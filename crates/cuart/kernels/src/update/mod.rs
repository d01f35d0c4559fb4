//! Changes of a tree on the device: updates of values (section 3.4 of the paper), removals (3.3), and inserts, the
//! paper's future work.

mod claim;
mod conquer_or_remove;
mod grow;
mod insert;
mod insert_args;
mod latest;
mod lock;
mod remove;
mod retire;
mod slot;
mod stamp;
mod supply;
mod tidy;

pub use claim::{Claim, ClaimArgs, Conquer, ConquerArgs, UNCLAIMED};
pub use conquer_or_remove::{ConquerOrRemove, ConquerOrRemoveArgs};
pub use insert::Insert;
pub use insert_args::InsertArgs;
pub use latest::{ClearSequence, ClearSequenceArgs, Latest, LatestArgs};
pub use remove::{Remove, RemoveArgs};
pub use retire::{CountLeaves, CountLeavesArgs, Retire, RetireArgs};
pub use stamp::{Locate, LocateArgs, Overwrite, OverwriteArgs, Stamp, StampArgs, WriteStamped, WriteStampedArgs};
pub use supply::{Stock, Supply};
pub use tidy::{Tidy, TidyArgs};

use crate::get::store_bits;
use crate::layout::Link;
use crate::tree::TreeRef;
use lanetree_simt::{Access, Global, GlobalMut, Hint, KernelArgs, Order, Scope, Simt, Word};

/// A tree on the device that a kernel changes: passed by value.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct TreeMut(TreeRef);

// SAFETY: as transparent as it is; the same pointers are visited.
unsafe impl KernelArgs for TreeMut {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.0.pointers(&mut |address, _| visit(address, Access::ReadWrite));
    }
}

impl TreeMut {
    /// The tree whose buffers may be written to.
    pub const fn new(tree: TreeRef) -> Self {
        Self(tree)
    }

    /// The tree, for reading.
    #[inline(always)]
    pub const fn as_ref(&self) -> &TreeRef {
        &self.0
    }

    /// The address of a node, or of a leaf on the device.
    #[inline(always)]
    pub(crate) fn address(&self, link: Link) -> GlobalMut<u8> {
        writable(self.0.address(link))
    }

    /// The root table.
    #[inline(always)]
    pub(crate) fn table(&self) -> GlobalMut<u64> {
        writable(self.0.table)
    }
}

/// The same address, for writing: of the buffers of a [`TreeMut`].
#[inline(always)]
pub(crate) fn writable<T>(at: Global<T>) -> GlobalMut<T> {
    GlobalMut::new(at.as_ptr().cast_mut())
}

/// Per thread. The operation that is processed at a position.
///
/// # Safety
/// There is such a place.
#[inline(always)]
unsafe fn pick<S: Simt>(simt: S, picks: Global<u32>, index: u64) -> u64 {
    if picks.is_null() {
        return index;
    }
    // SAFETY: the caller's promise.
    unsafe { simt.load(picks, index, Hint::Streaming) }.widen()
}

/// Warp collective (all lanes). Stores whether each thread's operation found its key, if `hits` is not null.
///
/// # Safety
/// `hits` is null, or has a word for every 32 of `count`, zeroed before if there are picks.
#[inline(always)]
unsafe fn store_picked_hits<S: Simt>(
    simt: S,
    hits: GlobalMut<u32>,
    picks: Global<u32>,
    count: u64,
    operation: u64,
    bit: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if picks.is_null() {
            store_bits(simt, hits, count, bit);
        } else if bit && !hits.is_null() {
            simt.atomic_or(hits, operation / 32, 1_u32 << (operation % 32), Order::Relaxed, Scope::Device);
        }
    }
}
