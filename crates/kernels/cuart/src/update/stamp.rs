//! What the paper's hash table is measured beside: the highest index in an array with a place for every leaf, and
//! sorting the operations by their leaves.

use super::TreeMut;
use crate::get::{descend, leaf_equals, value_word};
use crate::query::Query;
use crate::tree::{THREADS, TreeRef};
use core::marker::PhantomData;
use lanetree_layout::cuart::{Kind, Link};
use lanetree_simt::{
    Access, Global, GlobalMut, Hint, Kernel, KernelArgs, KeysRef, LaunchBounds, Order, Scope, Simt, Word, instance,
};

/// Arguments of [`Locate`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LocateArgs {
    /// The tree.
    pub tree: TreeRef,
    /// Queries: `[count]`.
    pub queries: KeysRef,
    /// How many.
    pub count: u64,
    /// Out: `[count]`, the link of each key's leaf; 0 for a key that is not in the tree.
    pub links: GlobalMut<u64>,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl KernelArgs for LocateArgs {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.tree.pointers(visit);
        self.queries.pointers(visit);
        visit(self.links.as_ptr().addr(), Access::ReadWrite);
    }
}

/// Finds the leaves of keys, a thread for each; any block. A leaf in main memory is not compared. `WORDS` as in
/// [`Get`](crate::Get).
#[derive(Debug)]
pub struct Locate<const WORDS: usize>;

impl<const WORDS: usize> Kernel for Locate<WORDS> {
    type Args = LocateArgs;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 6 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a query, and the tree is valid.
            unsafe {
                let leaf = locate::<S, WORDS>(simt, &args.tree, &args.queries, index);
                simt.store(args.links, index, leaf.bits(), Hint::Streaming);
            }
        }
    }
}

/// Per thread. The leaf of a key, or none.
///
/// # Safety
/// The tree is valid, and there is such a query; nobody writes to nodes or keys.
#[inline(always)]
unsafe fn locate<S: Simt, const WORDS: usize>(simt: S, tree: &TreeRef, queries: &KeysRef, index: u64) -> Link {
    // SAFETY: the caller's promise.
    unsafe {
        let query = Query::<WORDS>::load(simt, queries, index);
        let leaf = descend(simt, tree, &query, Hint::ReadOnly);
        let held =
            leaf.kind() == Kind::HostLeaf || !leaf.is_none() && leaf_equals(simt, tree, &query, leaf, Hint::NoAllocate);
        if held { leaf } else { Link::NONE }
    }
}

/// Arguments of [`Stamp`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StampArgs {
    /// What to locate, and where the links go.
    pub locate: LocateArgs,
    /// The highest stamp of each leaf: first those of 8, then of 16, 32, dynamically sized (one for each unit), and
    /// in main memory.
    pub stamps: GlobalMut<u64>,
    /// Where those of each kind begin, from [`Kind::Leaf16`] on.
    pub firsts: [u64; 4],
    /// The stamp of the batch's first operation, above all before it.
    pub first_stamp: u64,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl KernelArgs for StampArgs {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.locate.pointers(visit);
        visit(self.stamps.as_ptr().addr(), Access::ReadWrite);
    }
}

/// The place of a leaf among all stamps.
#[inline(always)]
fn stamp_of(leaf: Link, firsts: &[u64; 4]) -> u64 {
    leaf.index()
        + match leaf.kind() {
            Kind::Leaf8 => 0,
            Kind::Leaf16 => firsts[0],
            Kind::Leaf32 => firsts[1],
            Kind::DeviceLeaf => firsts[2],
            _ => firsts[3],
        }
}

/// Locates and stamps leaves, a thread for each operation; any block. `WORDS` as in [`Get`](crate::Get).
#[derive(Debug)]
pub struct Stamp<const WORDS: usize>;

impl<const WORDS: usize> Kernel for Stamp<WORDS> {
    type Args = StampArgs;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 6 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (index, locating) = (simt.global_index(), &args.locate);
        if index >= locating.count {
            return;
        }
        // SAFETY: `index` is an operation, and every leaf has a stamp.
        unsafe {
            let leaf = locate::<S, WORDS>(simt, &locating.tree, &locating.queries, index);
            simt.store(locating.links, index, leaf.bits(), Hint::Default);
            if !leaf.is_none() {
                let (stamp, at) = (args.first_stamp + index, stamp_of(leaf, &args.firsts));
                simt.atomic_max(args.stamps, at, stamp, Order::Relaxed, Scope::Device);
            }
        }
    }
}

/// Arguments of [`WriteStamped`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WriteStampedArgs<V> {
    /// The tree.
    pub tree: TreeMut,
    /// The values: `[count]`.
    pub values: Global<V>,
    /// As [`Stamp`] has left them: `[count]`.
    pub links: Global<u64>,
    /// Operations.
    pub count: u64,
    /// As [`Stamp`] has left them.
    pub stamps: Global<u64>,
    /// As in [`StampArgs`].
    pub firsts: [u64; 4],
    /// As in [`StampArgs`].
    pub first_stamp: u64,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl<V: Word> KernelArgs for WriteStampedArgs<V> {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.tree.pointers(visit);
        visit(self.values.as_ptr().addr(), Access::Read);
        visit(self.links.as_ptr().addr(), Access::Read);
        visit(self.stamps.as_ptr().addr(), Access::Read);
    }
}

/// Writes the values of operations whose stamp stayed, a thread for each; any block.
#[derive(Debug)]
pub struct WriteStamped<V>(PhantomData<V>);

impl<V: Word> Kernel for WriteStamped<V> {
    type Args = WriteStampedArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is an operation, and every leaf has a stamp; one operation has the highest.
        unsafe {
            let leaf = Link::from_bits(simt.load(args.links, index, Hint::Streaming));
            if leaf.is_none()
                || simt.load(args.stamps, stamp_of(leaf, &args.firsts), Hint::ReadOnly) != args.first_stamp + index
            {
                return;
            }
            write(simt, &args.tree, leaf, simt.load(args.values, index, Hint::Streaming));
        }
    }
}

/// Per thread. Writes the value of a leaf on the device.
///
/// # Safety
/// A leaf of the tree, whose value no other thread accesses.
#[inline(always)]
unsafe fn write<S: Simt, V: Word>(simt: S, tree: &TreeMut, leaf: Link, value: V) {
    if leaf.kind() != Kind::HostLeaf {
        // SAFETY: the caller's promise.
        unsafe { simt.store(tree.address(leaf).cast(), value_word(leaf.kind()), value.widen(), Hint::Default) };
    }
}

/// Arguments of [`Overwrite`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OverwriteArgs<V> {
    /// The tree.
    pub tree: TreeMut,
    /// Links of leaves, each one once, and zeros: `[count]`.
    pub links: Global<u64>,
    /// The operation whose value each leaf gets: `[count]`.
    pub operations: Global<u32>,
    /// The values of the batch.
    pub values: Global<V>,
    /// Out of how many leaves: `[1]`.
    pub count: Global<u64>,
}

// SAFETY: `repr(C)`; every pointer is visited.
unsafe impl<V: Word> KernelArgs for OverwriteArgs<V> {
    fn pointers(&self, visit: &mut dyn FnMut(usize, Access)) {
        self.tree.pointers(visit);
        visit(self.links.as_ptr().addr(), Access::Read);
        visit(self.operations.as_ptr().addr(), Access::Read);
        visit(self.values.as_ptr().addr(), Access::Read);
        visit(self.count.as_ptr().addr(), Access::Read);
    }
}

/// Writes values to leaves, a thread for each; any block.
#[derive(Debug)]
pub struct Overwrite<V>(PhantomData<V>);

impl<V: Word> Kernel for Overwrite<V> {
    type Args = OverwriteArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        // SAFETY: the count is there; `index` is a leaf, and the only one of this link.
        unsafe {
            if index < simt.load(args.count, 0, Hint::ReadOnly) {
                let leaf = Link::from_bits(simt.load(args.links, index, Hint::Streaming));
                let operation = simt.load(args.operations, index, Hint::Streaming);
                if !leaf.is_none() {
                    write(simt, &args.tree, leaf, simt.load(args.values, u64::from(operation), Hint::ReadOnly));
                }
            }
        }
    }
}

macro_rules! instances {
    ($($words:literal),*) => { pastey::paste! { $(
        instance!([<cuart_update__locate_w $words>], "cuart_update", Locate<$words>);
        instance!([<cuart_update__stamp_w $words>], "cuart_update", Stamp<$words>);
    )* } };
}
instances!(0, 1, 2, 4);
instance!(cuart_update__write_stamped_u32, "cuart_update", WriteStamped<u32>);
instance!(cuart_update__write_stamped_u64, "cuart_update", WriteStamped<u64>);
instance!(cuart_update__overwrite_u32, "cuart_update", Overwrite<u32>);
instance!(cuart_update__overwrite_u64, "cuart_update", Overwrite<u64>);
