//! CuART, the adaptive radix tree in typed buffers (Koppehel et al., ICPP 2021, section 3.2): one buffer per
//! type of node and of leaf, linked by [`Link`]s that say the type of what they lead to, so that the size of
//! an access is known before it is made.
//!
//! # Nodes
//! One box per 32-byte sector; numbers are byte offsets.
//!
//! ```text
//! header, the first sector of every node
//! 0       8       12    14    16                  28      32
//! ┌───────┬───────┬─────┬─────┬───────────────────┬───────┐
//! │ here  │ depth │count│  0  │ prefix: 12 bytes  │ keys4 │   keys4: N4 only, 0 elsewhere
//! └───────┴───────┴─────┴─────┴───────────────────┴───────┘
//!
//! N4, 64 bytes                     up to 4 children
//! ┌──────────────────────┬──────────────────────┐
//! │ header, with 4 keys  │ 4 links              │
//! └──────────────────────┴──────────────────────┘
//! 0                      32                     64
//!
//! N16, 192 bytes                   5 to 16 children
//! ┌──────────┬──────────┬──────────┬──────────┬──────────┬──────────┐
//! │ header   │16 keys, 0│ 4 links  │ 4 links  │ 4 links  │ 4 links  │
//! └──────────┴──────────┴──────────┴──────────┴──────────┴──────────┘
//! 0          32   48    64         96         128        160        192
//!
//! N48, 672 bytes                   17 to 48 children
//! ┌──────────┬──────────┬─ ... ─┬──────────┬──────────┬─ ... ─┬──────────┐
//! │ header   │ slots of │ 8 in  │ slots of │ 4 links  │ 12 in │ 4 links  │   slot 0: no child;
//! │          │ 0..32    │ all   │ 224..256 │          │ all   │          │   slot s: links[s - 1]
//! └──────────┴──────────┴─ ... ─┴──────────┴──────────┴─ ... ─┴──────────┘
//! 0          32         64      256        288        320     640        672
//!
//! N256, 2080 bytes                 49 to 256 children
//! ┌──────────┬──────────┬─ ... ─┬──────────┐
//! │ header   │ links of │ 64 in │ links of │
//! │          │ 0..4     │ all   │ 252..256 │
//! └──────────┴──────────┴─ ... ─┴──────────┘
//! 0          32         64      2048       2080
//! ```
//!
//! * **here** links the leaf of the key that ends at the node, if there is one. So a key may be a prefix of
//!   others, and hold any byte: none is taken for an end mark.
//! * **depth** is where in the key the node branches: all keys under it agree in their first `depth` bytes,
//!   and the next one chooses the child. The paper's prefix length is the difference between that and where
//!   its link lies, and is in the link ([`Link::span`]): a point look-up knows which byte of the query
//!   matters before it has read anything of the node, and reads nothing but the child's slot of it. It
//!   compares no prefixes; the leaf holds the whole key.
//! * **prefix** holds the last 12 bytes before `depth` (fewer, at its end, behind zeros, where `depth` is
//!   smaller), whichever node they belong to: the paper has 11, with the type gone to the link. Counted from
//!   the end they stay right when a path is split or joined above the node: neither writes to it, only links
//!   change. Ranges compare them, and read a leaf where a prefix is longer.
//! * Keys ascend. Key slots of N4 and N16 without a child repeat the last key, their links are none, and the
//!   first slot that matches counts: a search needs no count. An N48's links ascend with their keys as built,
//!   and lie in the order in which they came where children have come since.
//! * A removed child leaves a *tombstone*: its slot keeps the key, and has no link. `count` counts slots, so
//!   tombstones too, but for an N256, where it counts children. A child of the same byte takes the slot again;
//!   the others go when a node that is full of slots is written anew, in its place or as a larger one.
//! * Bytes 14 and 15 are kept free (zeros) beside `count`, for a word that a writer locks.
//!
//! # Leaves
//! ```text
//! leaf 8, 16 bytes          leaf 16, 32 bytes: one sector         leaf 32, 64 bytes
//! ┌───────┬───────┐         ┌───────────────┬───────┬───────┐     ┌─────────────────────┬───────┬──────┬───────┐
//! │ key   │ value │         │ key           │ value │ rank  │     │ key                 │ value │ rank │   0   │
//! └───────┴───────┘         └───────────────┴───────┴───────┘     └─────────────────────┴───────┴──────┴───────┘
//! 0       8       16        0               16      24      32    0                     32      40     48      64
//!
//! device leaf, dynamically sized in units of 16 bytes                               host leaf
//! ┌───────┬───────┬───────┬─────────────────────── ... ──┬───────┐                  offsets, bytes, values and
//! │ value │ length│ rank  │ key                          │ zeros │                  ranks in main memory
//! └───────┴───────┴───────┴─────────────────────── ... ──┴───────┘
//! 0       8       16      24                                     16 n
//! ```
//!
//! * A key lies in the smallest leaf that holds it, behind it zeros. Its length is in the link: a query of
//!   another length is told apart without a look at the leaf. Values are 64 bits wide, of which 32-bit ones
//!   use the low half.
//! * A leaf of 32 is 64 bytes rather than 48, since half of those would straddle two lines of DRAM.
//! * Keys longer than 32 bytes go into device leaves or host leaves, two of the paper's three ways; for the
//!   third, *beside*, they are no part of this tree but of one on the CPU.
//!
//! # Ranges
//! Leaves of each buffer are in lexicographic order of their keys, as in the paper; but one range is a span
//! of *each* buffer. So leaves have one dense numbering over all buffers, their **rank**: the number of keys
//! below theirs. A range is a span of ranks, its length is its count, and a bound's rank is that of the leaf
//! where its search ends. Larger leaves hold their rank; leaves of 8 have theirs in an array beside them,
//! and it is their index where there are no others. Back from a rank leads the array **order**, the links of
//! all leaves by rank, which a kernel reads coalesced. Where all keys are of one length of at most 32 it
//! would say nothing and is left out: the index is the rank. What it costs otherwise is 8 bytes a key.
//!
//! All this is of a tree as it was built. Once keys have come or gone, leaves are in no order and ranks mean
//! nothing: ranges walk from leaf to leaf by the links, until the tree is built again from its leaves.
//!
//! # Root table
//! The paper's section 3.2.2: links to what lies below each string of 2 or 3 bytes, 512 KiB or 128 MiB, for
//! queries at least that long; shorter ones begin at the root. A node that branches further down is linked
//! with what is left of its prefix. The upper nodes stay, for ranges and short keys.

mod change;
mod leaf;
mod link;
mod node;
mod regions;

pub use change::Children;
pub use leaf::{HostLeaves, Leaf8, Leaf16, Leaf32, LeafRef, UNIT, device_leaf_units, write_device_leaf};
pub use link::{Kind, Link};
pub use node::{Header, N4, N16, N48, N256, PREFIX};
pub use regions::{Regions, probe_offset};

/// Bytes of the longest key of a leaf of a fixed size.
pub const MAX_FIXED: usize = 32;

pub use lanetree_layout::MAX_KEY;

/// Keys that begin with bytes of a root table have an entry at this index in it.
#[inline(always)]
pub const fn table_index(first: u8, second: u8, third: Option<u8>) -> usize {
    let two = (first as usize) << 8 | second as usize;
    match third {
        Some(third) => two << 8 | third as usize,
        None => two,
    }
}

/// Entries of a root table over the first 2 or 3 bytes of keys; none for 0.
#[inline(always)]
pub const fn table_len(bytes: u32) -> usize {
    if bytes == 0 { 0 } else { 1 << (8 * bytes) }
}
