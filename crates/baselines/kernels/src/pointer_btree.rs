//! Look-ups in a regular B+tree with child references: the baseline of the Harmonia paper.
//!
//! A query has a thread group as wide as a node, at most a warp. At each level every lane compares one separator, and a
//! ballot says how many are below the query. Then, in a second, dependent access, the group reads the child's
//! reference: the indirection that Harmonia's child region avoids.

use crate::layout::pointer_btree::{leaf_values_offset, referenced_offset, references_offset};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Simt, WARP, Word, instance, kernel_args};

kernel_args! {
    /// Arguments of [`Get`].
    pub struct GetArgs<K, V> {
        /// The segment of inner nodes; the root comes first.
        pub inner: Global<u8>,
        /// The segment of leaves.
        pub leaves: Global<u8>,
        /// Queries: `[count]`.
        pub queries: Global<K>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the value of each query's key, or `miss`.
        pub values: GlobalMut<V>,
        /// The value written to `values` for a key that is not in the tree.
        pub miss: V,
        /// Inner levels.
        pub height: u32,
        /// Leaves; 0 for an empty tree.
        pub leaf_count: u32,
    }
}

/// Looks up a batch of keys in a tree of fanout `F`: `G` lanes per query, a power of two, and `Q` queries
/// in flight per group, a block's queries `block_dim / G` apart. Any block of whole warps.
#[derive(Debug)]
pub struct Get<K, V, const F: u32, const G: u32, const Q: usize>(PhantomData<(K, V)>);

impl<K: Word, V: Word, const F: u32, const G: u32, const Q: usize> Kernel for Get<K, V, F, G, Q> {
    type Args = GetArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let groups = u64::from(simt.block_dim() / G);
        let first = u64::from(simt.block_index()) * groups * Q as u64 + u64::from(simt.thread_index() / G);
        let at = |j: usize| first + j as u64 * groups;
        let keys: [K; Q] = core::array::from_fn(|j| {
            // SAFETY: the index is a query.
            if at(j) < args.count { unsafe { simt.load(args.queries, at(j), Hint::Streaming) } } else { K::MIN }
        });
        let mut values = [args.miss; Q];
        if args.leaf_count > 0 {
            let mut nodes = [0_u64; Q];
            for _ in 0..args.height {
                let node = |j: usize| args.inner.byte_add(nodes[j]);
                // SAFETY: the root is the first node, and references of inner nodes above the last level are to
                // inner nodes.
                let found =
                    unsafe { search::<S, K, false, F, G, Q>(simt, core::array::from_fn(|j| node(j).cast()), keys) };
                nodes = core::array::from_fn(|j| {
                    let references = node(j).byte_add(references_offset::<K>(F)).cast::<K>();
                    // SAFETY: fewer than `F` slots are below the query, since the last holds the largest word.
                    referenced_offset(unsafe { simt.load(references, u64::from(found[j].below), Hint::ReadOnly) })
                });
            }
            let leaf = |j: usize| args.leaves.byte_add(nodes[j]);
            // SAFETY: the last inner level's references are to leaves; without one the first leaf is the root.
            let found = unsafe { search::<S, K, true, F, G, Q>(simt, core::array::from_fn(|j| leaf(j).cast()), keys) };
            for j in 0..Q {
                if found[j].is_equal && simt.lane().is_multiple_of(G) {
                    let slots = leaf(j).byte_add(leaf_values_offset::<K, V>(F, 0)).cast::<V>();
                    // SAFETY: a slot that equals the query is one of the leaf's.
                    values[j] = unsafe { simt.load(slots, u64::from(found[j].below), Hint::ReadOnly) };
                }
            }
        }
        for (j, value) in values.into_iter().enumerate() {
            if at(j) < args.count && simt.lane().is_multiple_of(G) {
                // SAFETY: the index is a query, and one lane of its group has the result.
                unsafe { simt.store(args.values, at(j), value, Hint::Streaming) };
            }
        }
    }
}

/// Where a query belongs among the slots of a node.
#[derive(Clone, Copy)]
struct Found {
    /// Slots below it: `F` where all are.
    below: u32,
    /// Whether the first slot that is not below it equals it; only asked for in leaves.
    is_equal: bool,
}

/// Warp collective (all lanes). Searches a node for each of `Q` queries per group; the result is in all
/// lanes of the group. Ends as soon as every group of the warp has its slots.
///
/// # Safety
/// Each node has `F` slots.
#[inline(always)]
unsafe fn search<S: Simt, K: Word, const LEAF: bool, const F: u32, const G: u32, const Q: usize>(
    simt: S,
    nodes: [Global<K>; Q],
    keys: [K; Q],
) -> [Found; Q] {
    const { assert!(G.is_power_of_two() && G <= WARP && F.is_multiple_of(G), "a thread group is 1 to 32 lanes") };
    let (member, group) = (simt.lane() % G, simt.lane() / G);
    let all = u32::MAX >> (WARP - G);
    let of_group = |ballot: u32| ballot >> (group * G) & all;
    let mut found = [Found { below: 0, is_equal: false }; Q];
    for step in 0..F / G {
        // SAFETY: the caller's promise.
        let slots = nodes.map(|node| unsafe { simt.load(node, u64::from(step * G + member), Hint::ReadOnly) });
        let mut goes_on = false;
        for j in 0..Q {
            let below = of_group(simt.ballot(FULL_MASK, slots[j] < keys[j]));
            let equal = if LEAF { of_group(simt.ballot(FULL_MASK, slots[j] == keys[j])) } else { 0 };
            found[j].below += below.count_ones();
            // Slots ascend: the ones that equal the query come right after those below it.
            found[j].is_equal |= equal != 0;
            goes_on |= below == all;
        }
        if F > G && !simt.any(FULL_MASK, goes_on) {
            break;
        }
    }
    found
}

/// The instances, as data: for each fanout the lanes per query, and the queries in flight per group other than one: the
/// number that Harmonia's widest group has, so that the two differ only in their trees.
macro_rules! with_table {
    ($then:ident, $($argument:tt),*) => {
        $then! { $($argument),*;
            8 => (8, 4);
            16 => (16, 4);
            32 => (32, 4);
            64 => (32, 2);
            128 => (32, 2);
        }
    };
}

macro_rules! tuning {
    (; $($fanout:literal => ($g:literal, $q:literal);)*) => {
        /// Lanes per query at a fanout; 0 for a fanout without kernels.
        pub const fn group_width(fanout: u32) -> u32 {
            match fanout {
                $($fanout => $g,)*
                _ => 0,
            }
        }
        /// The queries in flight per group with which a fanout's kernels are compiled; empty for a fanout
        /// without kernels.
        pub const fn in_flight(fanout: u32) -> &'static [u32] {
            match fanout {
                $($fanout => &[1, $q],)*
                _ => &[],
            }
        }
    };
}
with_table!(tuning,);

macro_rules! instances {
    ($k:ident, $v:ident; $($fanout:literal => ($g:literal, $q:literal);)*) => {
        pastey::paste! {
            $(
                    instance!([<pointer_btree_ $k _ $v __get_f $fanout _q1>], [<pointer_btree_ $k _ $v>], Get<$k, $v, $fanout, $g, 1>);
                    instance!([<pointer_btree_ $k _ $v __get_f $fanout _q $q>], [<pointer_btree_ $k _ $v>], Get<$k, $v, $fanout, $g, $q>);
            )*
        }
    };
}
with_table!(instances, u32, u32);
with_table!(instances, u64, u64);

macro_rules! calls {
    (; $($fanout:literal => ($g:literal, $q:literal);)*) => {
        /// The call of the look-up of a fanout with that many queries in flight; `None` if there is none. Values are as
        /// wide as keys.
        #[cfg(not(target_os = "cuda"))]
        pub fn get<K: Word>(fanout: u32, in_flight: u32, args: &GetArgs<K, K>) -> Option<lanetree_simt::Call<'_>> {
            use lanetree_simt::entry_by_words;
            let entry = match (fanout, in_flight) {
                $(
                    ($fanout, 1) => entry_by_words!(K => Get<K, K, $fanout, $g, 1>),
                    ($fanout, $q) => entry_by_words!(K => Get<K, K, $fanout, $g, $q>),
                )*
                _ => return None,
            };
            Some(lanetree_simt::Call::new(entry, args))
        }
    };
}
with_table!(calls,);
