//! Inserts where memory is as weak as a GPU's, over many schedules: every key is found afterwards. Without the
//! protocol's releases, or without its acquires, that fails.

use lanetree_kernels_cuart::TreeRef;
use lanetree_kernels_cuart::layout::{Leaf8, Link, LinkType, N4, N16, N48, N256, Regions, table_len};
use lanetree_kernels_cuart::update::{Insert, InsertArgs, Stock, Supply, TreeMut};
use lanetree_simt::emulator::{MemoryModel, Options, Region, launch_kernel};
use lanetree_simt::{Global, GlobalMut, KeysRef, LaunchShape};
use std::time::Duration;

type Key = [u8; 4];

/// Keys that make nodes grow from one kind to the next, and part paths at every byte; each of them twice.
fn keys() -> Vec<Key> {
    let grown = (0..70_u8).map(|i| [i.wrapping_mul(37), 1, 1, 1]);
    let partitioned = (0..70_u8).map(|i| [7, i % 7, i % 3, i]);
    let keys: Vec<Key> = grown.chain(partitioned).collect();
    [&keys[..], &keys[..]].concat()
}

/// What an element of memory holds that nobody has written.
fn unwritten<T: bytemuck::Pod>(len: usize) -> Vec<T> {
    let mut elements = vec![T::zeroed(); len];
    bytemuck::cast_slice_mut::<T, u8>(&mut elements).fill(0xa5);
    elements
}

fn pointer<T>(elements: &mut [T]) -> GlobalMut<T> {
    GlobalMut::new(elements.as_mut_ptr())
}

/// A buffer as a kernel names it, among the regions of its launch.
fn bytes<T>(regions: &mut Vec<Region>, elements: &mut [T]) -> GlobalMut<u8> {
    let at = pointer(elements).cast::<u8>();
    regions.push(Region { start: at.as_ptr().addr(), bytes: size_of_val(elements), writable: true });
    at
}

/// Inserts keys into an empty tree, every other time with a root table, all at the same time; says what was wrong with
/// it afterwards.
fn insert(memory: MemoryModel, global_races: bool, seed: u64) -> Result<(), String> {
    let table_bytes = if seed.is_multiple_of(2) { 2 } else { 0 };
    let mut table = vec![0_u64; table_len(table_bytes)];
    let keys = keys();
    let count = keys.len();
    let (mut n4, mut n16, mut n48, mut n256) =
        (unwritten::<N4>(count), unwritten::<N16>(count), unwritten::<N48>(count), unwritten::<N256>(count));
    let mut leaves = unwritten::<Leaf8>(count);
    let (mut root, mut taken) = (vec![0_u64; 2], vec![0_u64; Supply::COUNTERS * Supply::STRIDE]);
    let mut lists = [unwritten::<u64>(count), unwritten(count), unwritten(count)];
    let mut queries = vec![0_u64; count.div_ceil(2)];
    bytemuck::cast_slice_mut::<u64, Key>(&mut queries).copy_from_slice(&keys);

    let (mut regions, none) = (Vec::new(), GlobalMut::<u8>::null());
    let tree = TreeRef {
        n4: bytes(&mut regions, &mut n4).as_const(),
        n16: bytes(&mut regions, &mut n16).as_const(),
        n48: bytes(&mut regions, &mut n48).as_const(),
        n256: bytes(&mut regions, &mut n256).as_const(),
        leaf8: bytes(&mut regions, &mut leaves).as_const(),
        leaf16: none.as_const(),
        leaf32: none.as_const(),
        device_leaves: none.as_const(),
        table: bytes(&mut regions, &mut table).as_const().cast(),
        ranks8: Global::null(),
        order: Global::null(),
        root: 0,
        first: 0,
        len: 0,
        table_bytes,
        padding: 0,
    };
    let stock = Stock { used: 0, free: Global::null(), free_len: 0 };
    let [unused, retired, touched] = lists.each_mut().map(|list| bytes(&mut regions, list).cast());
    let args = InsertArgs {
        tree: TreeMut::new(tree),
        root: bytes(&mut regions, &mut root).cast(),
        queries: KeysRef {
            bytes: bytes(&mut regions, &mut queries).as_const().cast(),
            offsets: Global::null(),
            width: 4,
            offset_bytes: 0,
        },
        picks: Global::null(),
        count: count as u64,
        supply: Supply {
            taken: bytes(&mut regions, &mut taken).cast(),
            n4: stock,
            n16: stock,
            n48: stock,
            n256: stock,
            leaf8: stock,
            leaf16: stock,
            leaf32: stock,
            units: 0,
            assigned: LinkType::Leaf8 as u64,
            unused,
            retired,
            touched,
        },
    };
    // What is broken may wait for ever.
    let options = Options { seed, memory, global_races, patience: Duration::from_secs(4), ..Options::default() };
    let shape = LaunchShape { blocks: 1, threads: count as u32, dynamic_shared: 0 };
    // SAFETY: the regions are all that the arguments point into, and nobody else accesses them.
    unsafe { launch_kernel::<Insert>("insert", &options, shape, &args, &regions) }
        .map_err(|fault| fault.to_string())?;

    let tree = Regions {
        root: Link::from_bits(root[0]),
        n4: &n4,
        n16: &n16,
        n48: &n48,
        n256: &n256,
        leaf8: &leaves,
        ..Regions::default()
    };
    let entry = |key: Key| table.get(usize::from(u16::from_be_bytes([key[0], key[1]])));
    let found = |key: Key| {
        let by_table = entry(key).is_none_or(|&entry| find(&tree, Link::from_bits(entry), 2, key) == Some(key));
        by_table && find(&tree, tree.root, 0, key) == Some(key)
    };
    let missing = keys.iter().find(|&&key| !found(key));
    missing.map_or(Ok(()), |key| Err(format!("{key:?} is missing")))
}

/// The key of the leaf to which a key leads from a link after its first `from` bytes.
fn find(tree: &Regions<'_>, mut link: Link, mut from: usize, key: Key) -> Option<Key> {
    while link.kind().is_node() {
        let depth = tree.depth(link, from);
        link = tree.child(link, *key.get(depth)?);
        from = depth + 1;
    }
    tree.leaf(link)?.key.try_into().ok()
}

#[test]
fn inserts_hold_in_weak_memory() {
    for seed in 1..=40 {
        insert(MemoryModel::Weak, true, seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[test]
fn inserts_need_their_releases_and_acquires() {
    for memory in [MemoryModel::WeakWithoutReleases, MemoryModel::WeakWithoutAcquires] {
        // Not that they wait for ever, which so many threads on a busy machine may seem to do.
        let is_wrong = |result: Result<(), String>| result.is_err_and(|wrong| !wrong.contains("spin"));
        assert!((1..=40).any(|seed| is_wrong(insert(memory, false, seed))), "{memory:?}");
    }
}
