//! Point look-ups in which several lanes compare a key.

use crate::get::{GetArgs, descend, store_bits, value_word};
use crate::layout::{Link, LinkType};
use crate::query::Query;
use crate::tree::{THREADS, TreeRef};
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Hint, Kernel, KeyRef, LaunchBounds, Simt, WARP, Word, instance, unroll};

/// Words of a dynamically sized leaf before its key: value, length, rank.
const DEVICE_HEADER: u64 = 3;

/// Looks up a batch of keys: one thread descends per query; then `LANES` lanes together compare a query's words with
/// its leaf's, and take their queries one after another. With one lane per query, a warp would read words of 32 queries
/// at once, from 32 sectors; a tile reads the consecutive words of one key. For trees with any keys, instead of
/// [`Get`](crate::Get). Blocks of whole warps.
#[derive(Debug)]
pub struct GetTiled<V, const LANES: usize>(PhantomData<V>);

impl<V: Word, const LANES: usize> Kernel for GetTiled<V, LANES> {
    type Args = GetArgs<V>;
    const LAUNCH_BOUNDS: Option<LaunchBounds> = Some(LaunchBounds { threads: THREADS, blocks: 5 });

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let (mut link, mut start, mut len) = (Link::NONE, 0, 0);
        let (mut value, mut pending) = (args.miss, false);
        let mut stored = 0;
        if index < args.count {
            // SAFETY: `index` is a query, and the tree is valid.
            unsafe {
                let query = Query::<0>::load(simt, &args.queries, index);
                (start, len) = (query.start(), query.len());
                link = descend(simt, &args.tree, &query, Hint::ReadOnly);
                if link.kind() == LinkType::HostLeaf {
                    (value, pending, link) = (V::truncate(link.index()), true, Link::NONE);
                } else if !link.is_none() {
                    (stored, link) = value_beside(simt, &args.tree, link, len);
                }
            }
        }
        let tiles = WARP / LANES as u32;
        let (tile, rank) = (simt.lane() / LANES as u32, simt.lane() % LANES as u32);
        let mut found = false;
        unroll::<LANES>(|round| {
            let owner = round as u32 * tiles + tile;
            let link = Link::from_bits(simt.shuffle(FULL_MASK, link.bits(), owner));
            let start = simt.shuffle(FULL_MASK, start, owner);
            let query = KeyRef::new(args.queries.bytes, start, simt.shuffle(FULL_MASK, len, owner));
            // SAFETY: the owner's query, and the leaf where its search ended.
            let equal = !link.is_none() && unsafe { part_equals::<S, LANES>(simt, &args.tree, link, &query, rank) };
            // The vote is in one place, after the branches.
            let votes = simt.ballot(FULL_MASK, simt.opaque(u32::from(equal)) != 0);
            let all = votes >> (simt.lane() % tiles * LANES as u32) & ((1 << LANES) - 1) == (1 << LANES) - 1;
            found = if simt.lane() / tiles == round as u32 { all } else { found };
        });
        if found {
            value = V::truncate(stored);
        }
        // SAFETY: `index` is a query where it is below their number; one word per started tile of the batch.
        unsafe {
            if index < args.count {
                simt.store(args.values, index, value, Hint::Streaming);
            }
            store_bits(simt, args.hits, args.count, found);
            store_bits(simt, args.pending, args.count, pending);
        }
    }
}

/// Per thread. The value of a leaf on the device, and the leaf; instead of the leaf none if its key and the query
/// differ in length, as far as the vector with the value says.
///
/// # Safety
/// A link to a leaf of the tree, and nobody writes to it.
#[inline(always)]
unsafe fn value_beside<S: Simt>(simt: S, tree: &TreeRef, leaf: Link, len: u32) -> (u64, Link) {
    let kind = leaf.kind();
    let at = tree.address(leaf).cast::<u64>();
    // SAFETY: the vector lies in the leaf, on a 16-byte boundary.
    let [first, second] = unsafe { simt.load_vector(at, value_word(kind) & !1, Hint::EvictFirst) };
    let value = if kind == LinkType::Leaf8 { second } else { first };
    let fits = kind != LinkType::DeviceLeaf || second == u64::from(len);
    (value, if fits { leaf } else { Link::NONE })
}

/// Per thread. Whether this lane's words of a leaf's key equal the same words of the query. Key and query have the same
/// length.
///
/// # Safety
/// A leaf of the tree on the device, and a query of the batch.
#[inline(always)]
unsafe fn part_equals<S: Simt, const LANES: usize>(
    simt: S,
    tree: &TreeRef,
    leaf: Link,
    query: &KeyRef,
    rank: u32,
) -> bool {
    let header = if leaf.kind() == LinkType::DeviceLeaf { DEVICE_HEADER } else { 0 };
    let at = tree.address(leaf).cast::<u64>();
    let words = query.len().div_ceil(8);
    let mut word = rank;
    while word < words {
        // SAFETY: the leaf's key has as many words, zeros past its end.
        if unsafe { simt.load(at, header + u64::from(word), Hint::EvictFirst) != query.word(simt, 8 * word) } {
            return false;
        }
        word += LANES as u32;
    }
    true
}

macro_rules! instances {
    ($($lanes:literal),*) => { pastey::paste! { $(
        instance!([<cuart__get_tiled_ $lanes _u32>], cuart, GetTiled<u32, $lanes>);
        instance!([<cuart__get_tiled_ $lanes _u64>], cuart, GetTiled<u64, $lanes>);
    )* } };
}
instances!(2, 4, 8);
