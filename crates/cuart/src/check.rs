//! The rules that a tree keeps, for tests.

use super::Cuart;
use super::region::{FreeList, Region};
use super::table;
use bytemuck::Pod;
use lanetree_kernels_cuart::layout::{Link, LinkType, device_leaf_units};
use lanetree_layout::Word;
use lanetree_runtime::DeviceKind;
use std::collections::BTreeSet;

impl<V: Word> Cuart<V> {
    /// Checks the structure of a tree on the host, where there is a leaf under every node, or on the emulator, where there need be none
    /// after removals. Checks nothing of a tree whose memory the host cannot read.
    ///
    /// # Panics
    /// If it is wrong, with what is; for a tree that is lost.
    #[doc(hidden)]
    pub fn check_structure(&self) {
        self.check(|of_long_leaves, used| of_long_leaves <= used);
    }

    /// [`Cuart::check_structure`], and that no element of the buffers is leaked, of a tree from which no device has removed long keys.
    #[cfg(test)]
    pub(super) fn validate(&self) {
        self.check(|of_long_leaves, used| of_long_leaves == used);
    }

    /// `is_right` is given the units of long leaves, linked or free, and those that are used.
    fn check(&self, is_right: impl FnOnce(usize, usize) -> bool) {
        let tree = self.parts().unwrap();
        let Some(regions) = tree.regions() else {
            assert_eq!(self.device.kind(), DeviceKind::Cuda, "memory that the host reads");
            return;
        };
        let on_device = self.device.kind() != DeviceKind::Host;
        // Elements that the root leads to, by the numbers of kinds.
        let mut reached: [BTreeSet<u64>; 10] = Default::default();
        let (mut leaves, mut live_units) = (0, 0);
        // Links, the path before them, and whether a key ends there.
        let mut stack = vec![(regions.root, Vec::<u8>::new(), false)];
        while let Some((link, path, ends)) = stack.pop() {
            if link.is_none() {
                assert!(regions.root.is_none() && tree.len == 0, "a link that leads nowhere at {path:?}");
                continue;
            }
            assert!(reached[link.kind() as usize].insert(link.index()), "{link:?} is linked twice");
            let Some(header) = regions.header(link) else {
                let leaf = regions.leaf(link).expect("a leaf");
                leaves += 1;
                assert!(leaf.key.starts_with(&path), "{link:?} at {path:?}");
                assert!(!ends || leaf.key == path, "{link:?} does not end at {path:?}");
                assert_eq!(link.span() as usize, leaf.key.len().min(Link::LONG as usize));
                match (LinkType::of_key(leaf.key.len()), link.kind()) {
                    (Some(kind), own) => assert_eq!(kind, own),
                    (None, LinkType::DeviceLeaf) => live_units += device_leaf_units(leaf.key.len()),
                    (None, kind) => assert_eq!(kind, LinkType::HostLeaf),
                }
                continue;
            };
            assert!(!ends, "a node where a key is to end");
            let depth = header.depth as usize;
            assert_eq!(link.span() as usize, (depth - path.len()).min(Link::LONG as usize), "the span of {link:?}");
            let prefix = header.prefix(depth);
            let path = match tree.view().first_under(link) {
                Some(leaf) => leaf.key[..depth].to_vec(),
                None => {
                    // A kernel that removes keys leaves nodes as they are. Of those bytes that no leaf has any more some may be
                    // unknown; nothing below is compared with them.
                    assert!(on_device && !tree.ordered, "a leaf under every node");
                    let known = prefix.len().min(depth - path.len());
                    let unknown = vec![0; depth - path.len() - known];
                    [&path[..], &unknown[..], &prefix[prefix.len() - known..]].concat()
                }
            };
            assert!(path.ends_with(prefix) || tree.view().first_under(link).is_none(), "the prefix of {link:?}");
            let index = link.index() as usize;
            let (slots, room) = match link.kind() {
                LinkType::N4 => (ascending(&regions.n4[index].header.keys4, header.count), 4),
                LinkType::N16 => (ascending(&regions.n16[index].keys, header.count), 16),
                LinkType::N48 => {
                    let mut slots: Vec<u8> =
                        regions.n48[index].slots.iter().copied().filter(|&slot| slot > 0).collect();
                    slots.sort_unstable();
                    assert!(slots.iter().copied().eq(1..=header.count as u8), "the slots of {link:?}");
                    (slots.len(), 48)
                }
                _ => (regions.n256[index].links.iter().filter(|link| !link.is_none()).count(), 256),
            };
            assert!(slots == usize::from(header.count) && slots <= room, "the count of {link:?}");
            if !header.here.is_none() {
                stack.push((header.here, path.clone(), true));
            }
            let mut next = regions.child_from(link, 0);
            while let Some((byte, child)) = next {
                assert_eq!(regions.child(link, byte), child);
                stack.push((child, [&path[..], &[byte]].concat(), false));
                next = byte.checked_add(1).and_then(|byte| regions.child_from(link, byte));
            }
        }
        assert_eq!(leaves, tree.len, "leaves that are linked");
        let reached = |kind: LinkType| &reached[kind as usize];
        whole(&tree.nodes.n4, reached(LinkType::N4));
        whole(&tree.nodes.n16, reached(LinkType::N16));
        whole(&tree.nodes.n48, reached(LinkType::N48));
        whole(&tree.nodes.n256, reached(LinkType::N256));
        whole(&tree.leaves.leaf8, reached(LinkType::Leaf8));
        whole(&tree.leaves.leaf16, reached(LinkType::Leaf16));
        whole(&tree.leaves.leaf32, reached(LinkType::Leaf32));

        let long = &tree.leaves.long;
        assert_eq!(long.count, reached(LinkType::DeviceLeaf).len() as u64);
        let free = free(&long.free, long.used, reached(LinkType::DeviceLeaf));
        let len = |index: u64| long.as_slice().unwrap()[index as usize][1] as usize;
        let free_units: usize = free.iter().map(|&index| device_leaf_units(len(index))).sum();
        assert_eq!(long.free_units, free_units as u64);
        let units = live_units + free_units;
        assert!(is_right(units, long.used), "{units} of {} units", long.used);

        let host = &tree.leaves.host;
        let free: BTreeSet<u64> = host.free.iter().copied().collect();
        assert!(free.len() == host.free.len() && free.is_disjoint(reached(LinkType::HostLeaf)));
        assert_eq!(free.len() + reached(LinkType::HostLeaf).len(), host.values.len());

        let table = table::build(&self.device, &tree.view(), tree.table_bytes).unwrap();
        let (own, anew) = (tree.table.as_slice().unwrap(), table.as_slice().unwrap());
        let is_right = |entry: usize| {
            let link = own[entry];
            let leads_nowhere =
                || reached(link.kind()).contains(&link.index()) && tree.view().first_under(link).is_none();
            link == anew[entry] || on_device && regions.header(link).is_some() && leads_nowhere()
        };
        if let Some(entry) = (0..anew.len()).find(|&entry| !is_right(entry)) {
            panic!("entry {entry:#x} of the root table: {:?} instead of {:?}", own[entry], anew[entry]);
        }
    }
}

/// The number of keys, if they ascend and the last one fills the slots after it.
fn ascending(keys: &[u8], count: u16) -> usize {
    let (used, rest) = keys.split_at(usize::from(count));
    assert!(used.is_sorted_by(|a, b| a < b), "keys {keys:?}, {count} of them");
    assert!(rest.iter().all(|key| key == used.last().unwrap_or(&0)), "keys {keys:?}, {count} of them");
    used.len()
}

/// The indexes of what is free, each once, none of them reached, all among the used ones.
fn free(list: &FreeList, used: usize, reached: &BTreeSet<u64>) -> BTreeSet<u64> {
    let list = &list.indexes.as_slice().unwrap()[..list.len];
    let free: BTreeSet<u64> = list.iter().copied().collect();
    assert_eq!(free.len(), list.len(), "an index is free twice");
    assert!(free.is_disjoint(reached), "something free is linked");
    assert!(free.union(reached).all(|&index| (index as usize) < used), "an index past the used ones");
    free
}

/// Each element is linked or free.
fn whole<T: Pod>(region: &Region<T>, reached: &BTreeSet<u64>) {
    let free = free(&region.free, region.used, reached);
    assert_eq!(free.len() + reached.len(), region.used, "elements that are linked or free");
}
