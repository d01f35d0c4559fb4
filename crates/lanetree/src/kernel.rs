//! What kernels of your own are written with: all that a GPU needs of this library, and the host's side of a launch.
//!
//! A crate with kernels depends on this one and is compiled twice. For the host it is an ordinary crate. For the device,
//! `nvptx64-nvidia-cuda`, where this module is all that there is of `lanetree`, the program `lanetree-ptx` compiles it to PTX, which is then
//! part of the crate: its users need no device compiler. The folder `templates/kernel` of Lanetree's repository is such a crate, to
//! copy, with tests and a program; the guide's page "Kernels of your own" explains it.
//!
//! | piece | what it is |
//! |---|---|
//! | [`Kernel`], [`Simt`] | what a thread does, and what a thread can do: memory, shuffles, votes, barriers |
//! | [`kernel_args!`], [`Global`], [`GlobalMut`] | the arguments: one struct for host and device |
//! | [`modules!`], [`instance!`] | the PTX files of the crate, and the kernels in them: entries for the driver and for the emulator |
//! | [`entry_by_words!`], [`Call`] | on the host: the instance for the types of generic code, and its arguments |
//! | `Handle`, `Probe`, `Cursor`, `CursorKey` | a [`LaneTree`](crate::LaneTree) in a kernel: [`handle_on`](crate::LaneTree::handle_on) gives it (feature `lane-tree`) |
//! | `shape_for_rows`, [`Stream::call`](crate::Stream::call) | on the host: the launch's shape, and the launch |
//!
//! A kernel that counts the keys that are in a tree; [`Kernel::run`] is what every thread does:
//!
//! ```
//! use lanetree::kernel::{FULL_MASK, Global, GlobalMut, Handle, Hint, Kernel, Order, Scope, Simt, kernel_args};
//!
//! kernel_args! {
//!     /// Arguments of [`CountHits`].
//!     pub struct CountArgs<K, V> {
//!         /// The tree.
//!         pub tree: Handle<K, V>,
//!         /// Keys: `[count]`.
//!         pub keys: Global<K>,
//!         /// How many.
//!         pub count: u64,
//!         /// Out: `[1]`, increased by the number of keys that are in the tree.
//!         pub hits: GlobalMut<u64>,
//!     }
//! }
//!
//! /// Counts the keys that are in a tree: one row per lane and turn.
//! pub struct CountHits;
//!
//! impl Kernel for CountHits {
//!     type Args = CountArgs<u64, u32>;
//!
//!     #[inline(always)]
//!     unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
//!         // SAFETY: the launch has shared memory for the handle, from its first byte on; there are `count` keys.
//!         unsafe {
//!             let probe = args.tree.enter(simt, 0);
//!             let mut row = simt.global_index();
//!             // The same for all lanes of a warp: each takes part in the look-up, with or without a key.
//!             while row - u64::from(simt.lane()) < args.count {
//!                 let key = if row < args.count { simt.load(args.keys, row, Hint::Streaming) } else { 0 };
//!                 let is_hit = probe.get(key).is_some() & (row < args.count);
//!                 let hits = simt.ballot(FULL_MASK, is_hit).count_ones();
//!                 if simt.lane() == 0 {
//!                     simt.atomic_add(args.hits, 0, u64::from(hits), Order::Relaxed, Scope::Device);
//!                 }
//!                 row += u64::from(simt.grid_dim()) * u64::from(simt.block_dim());
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! `instance!(hits_u64__count, hits_u64, CountHits)` then makes it the kernel `hits_u64__count` of `ptx/hits_u64.ptx`, which
//! `modules! { hits_u64, }` in `src/modules.rs` declares.

#[cfg(feature = "lane-tree")]
#[doc(inline)]
pub use lanetree_kernels_lane_tree::{Cursor, CursorKey, Handle, Probe};
#[cfg(all(feature = "lane-tree", not(target_os = "cuda")))]
#[doc(inline)]
pub use lanetree_lane_tree::shape_for_rows;
#[doc(inline)]
pub use lanetree_layout::{AnyKey, Key, Value};
#[cfg(not(target_os = "cuda"))]
#[doc(inline)]
pub use lanetree_simt::{Call, Entry, Instance, Module};
#[doc(inline)]
pub use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KernelArgs, KeyWord, LaunchBounds, LaunchShape, Order, Scope, Shared,
    Simt, WARP, Word, entry_by_words, highest_one, instance, kernel_args, lowest_one, modules,
};
