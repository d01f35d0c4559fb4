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
//! * **depth** is the position in the key where the node branches: all keys under it agree in their first `depth`
//!   bytes, and the next byte chooses the child. The paper's prefix length is the difference between this and the
//!   position where the node's link is followed; it is stored in the link ([`Link::span`]). So a point look-up knows
//!   which byte of the query matters before it reads the node, and reads only the child's slot. It compares no
//!   prefixes; the leaf holds the whole key.
//! * **prefix** holds the last 12 bytes before `depth` (fewer, at its end and preceded by zeros, if `depth` is
//!   smaller), whichever node they belong to: the paper has 11, with the type gone to the link. Counted from the end
//!   they stay right when a path is split or joined above the node, which changes only links. Ranges compare them, and
//!   read a leaf if a prefix is longer.
//! * Keys ascend. Key slots of N4 and N16 without a child repeat the last key and have no link, and the first matching
//!   slot counts, so a search needs no count. An N48's links ascend with their keys as built; children inserted later
//!   follow in the order of their insertion.
//! * A removed child leaves a *tombstone*: its slot keeps the key, and has no link. `count` counts slots, including
//!   tombstones; in an N256 it counts children. A child of the same byte reuses the slot; other tombstones are dropped
//!   when a node without free slots is rewritten, in place or as a larger one.
//! * Bytes 14 and 15 next to `count` are kept free (zeros), so that a writer can lock the word.
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
//! * A key is in the smallest leaf that holds it, followed by zeros. Its length is in the link, so a query of another
//!   length is rejected without reading the leaf. Values are 64 bits wide; 32-bit values use the low half.
//! * A leaf for 32 bytes has 64 bytes rather than 48, since half of the 48-byte leaves would straddle two lines of
//!   DRAM.
//! * Keys longer than 32 bytes go into device leaves or host leaves, two of the paper's three ways; in the third, they
//!   are not in this tree but in one on the CPU.
//!
//! # Ranges
//! Leaves of each buffer are in lexicographic order of their keys, as in the paper; but one range is a span
//! of *each* buffer. So leaves have one dense numbering over all buffers, their **rank**: the number of keys
//! below theirs. A range is a span of ranks, its length is its count, and a bound's rank is that of the leaf
//! where its search ends. Larger leaves hold their rank. Leaves for 8 bytes have theirs in a separate array; if there
//! are no other leaves, their rank is their index. The array **order** maps ranks to leaves: it has the links of all
//! leaves by rank, and a kernel reads it coalesced. If all keys have one length of at most 32 bytes, the index is the
//! rank, and the array is left out. Otherwise it costs 8 bytes per key.
//!
//! This holds for a tree as it was built. After inserts or removals, leaves are in no particular order and ranks are
//! meaningless: ranges walk from leaf to leaf along the links, until the tree is rebuilt from its leaves.
//!
//! # Root table
//! The paper's section 3.2.2: one link for each string of 2 or 3 bytes, to what lies below it, 512 KiB or 128 MiB, for
//! queries at least that long; shorter queries start at the root. A node that branches further down is linked with the
//! rest of its prefix. The upper nodes stay, for ranges and short keys.

mod change;
mod leaf;
mod link;
mod node;
mod regions;

pub use change::Children;
pub use leaf::{HostLeaves, Leaf8, Leaf16, Leaf32, LeafRef, UNIT, device_leaf_units, write_device_leaf};
pub use link::{Link, LinkType};
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
