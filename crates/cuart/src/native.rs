//! The CPU's own path over the same layout: a batch is split among rayon's threads, and each thread has several queries
//! in flight, so that their cache misses overlap.

use core::cmp::Ordering;
use core::ops::Range;
use lanetree_frame::byte_keys::{ByteKeys, Side};
use lanetree_kernels_cuart::layout::{LeafRef, Link, LinkType, Regions, probe_offset};
use lanetree_layout::Word;

/// Queries that a thread has in flight.
const IN_FLIGHT: usize = 32;

/// Queries of one task: enough to outweigh its dispatch.
pub(super) const TASK: usize = 4096;

/// The fewest queries of a task, if a batch is small for the number of threads: several times those in flight.
const FEWEST: usize = 256;

/// How many queries of a batch make a task: if possible, so few that every thread has one.
pub(super) fn task(queries: usize) -> usize {
    queries.div_ceil(lanetree_runtime::threads()).clamp(FEWEST, TASK)
}

/// A tree in main memory.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) regions: Regions<'a>,
}

/// A query in flight: at a node, with the depth where that node branches, or at a leaf. What it reads there has been
/// prefetched.
#[derive(Clone, Copy)]
struct Descent<'k> {
    key: &'k [u8],
    query: usize,
    link: Link,
    /// [`START`] before the first link is known.
    depth: usize,
}

/// The depth of a query that has yet to read its entry of the root table.
const START: usize = usize::MAX;

/// What became of a step.
enum Step {
    Walking,
    Done(Option<u64>),
}

impl<'a> View<'a> {
    pub(super) fn new(regions: Regions<'a>) -> Self {
        Self { regions }
    }

    /// Looks up the queries of a range, and sets `out[i]` for the `i`-th of them.
    pub(super) fn get<V: Word>(&self, queries: ByteKeys<'_>, range: Range<usize>, out: &mut [Option<V>]) {
        let first = range.start;
        let each = |query: usize, value: Option<u64>| out[query - first] = value.map(V::truncate);
        self.get_each(queries, range, Self::value, each);
    }

    /// Finds the leaves of the queries of a range: `out[i]` for the `i`-th of them, none if there is no such key.
    pub(super) fn find(&self, queries: ByteKeys<'_>, range: Range<usize>, out: &mut [Link]) {
        let first = range.start;
        let each = |query: usize, leaf: Option<u64>| out[query - first] = leaf.map_or(Link::NONE, Link::from_bits);
        let found = |tree: &Self, leaf: Link, key: &[u8]| tree.value(leaf, key).map(|_| leaf.bits());
        self.get_each(queries, range, found, each);
    }

    /// Calls `found` with the leaf where each search ends and its query, and `each` with the result.
    fn get_each(
        &self,
        queries: ByteKeys<'_>,
        mut next: Range<usize>,
        found: impl Fn(&Self, Link, &[u8]) -> Option<u64>,
        mut each: impl FnMut(usize, Option<u64>),
    ) {
        if self.regions.root.is_none() {
            return next.for_each(|query| each(query, None));
        }
        let mut descents = [Descent { key: &[], query: 0, link: Link::NONE, depth: START }; IN_FLIGHT];
        loop {
            // All queries descend level by level: at one level most nodes have the same type, which the CPU's branch
            // prediction learns. If slots started their next query as soon as they are free, the levels would mix.
            let mut active = 0;
            for (descent, query) in descents.iter_mut().zip(&mut next) {
                *descent = self.begin(queries, query);
                active += 1;
            }
            if active == 0 {
                return;
            }
            while active > 0 {
                let mut kept = 0;
                for i in 0..active {
                    let mut descent = descents[i];
                    match self.step(&mut descent, &found) {
                        Step::Walking => {
                            descents[kept] = descent;
                            kept += 1;
                        }
                        Step::Done(answer) => each(descent.query, answer),
                    }
                }
                active = kept;
            }
        }
    }

    #[inline(always)]
    fn begin<'k>(&self, queries: ByteKeys<'k>, query: usize) -> Descent<'k> {
        let key = queries.at(query);
        if let Some(entry) = self.regions.table_entry(key) {
            prefetch(entry, 0);
        }
        Descent { key, query, link: Link::NONE, depth: START }
    }

    /// One access to memory.
    #[inline(always)]
    fn step(&self, descent: &mut Descent<'_>, found: &impl Fn(&Self, Link, &[u8]) -> Option<u64>) -> Step {
        let (key, tree) = (descent.key, &self.regions);
        let (link, from) = match descent.depth {
            START => tree.start(key),
            _ if !descent.link.kind().is_node() => return Step::Done(found(self, descent.link, key)),
            depth if depth == key.len() => (tree.header(descent.link).map_or(Link::NONE, |header| header.here), depth),
            depth => (tree.child(descent.link, key[depth]), depth + 1),
        };
        if link.is_none() {
            return Step::Done(None);
        }
        // A link says whether the query's length can match, and what will be read.
        if link.kind().is_node() {
            descent.depth = tree.depth(link, from);
            if descent.depth > key.len() {
                return Step::Done(None);
            }
        } else {
            if link.span() != (key.len().min(Link::LONG as usize)) as u32 {
                return Step::Done(None);
            }
            descent.depth = 0;
        }
        descent.link = link;
        self.prefetch(link, key.get(descent.depth).copied());
        Step::Walking
    }

    /// Asks for what the next step reads.
    #[inline(always)]
    fn prefetch(&self, link: Link, byte: Option<u8>) {
        let (tree, index) = (&self.regions, link.index() as usize);
        let at = byte.map_or(0, |byte| probe_offset(link.kind(), byte) as usize);
        match link.kind() {
            LinkType::N4 => prefetch(tree.n4.as_ptr().wrapping_add(index), 0),
            LinkType::N16 => {
                let node = tree.n16.as_ptr().wrapping_add(index);
                // All of the node: the link is somewhere after the keys.
                prefetch(node, 0);
                prefetch(node, 64);
                prefetch(node, 128);
            }
            LinkType::N48 => prefetch(tree.n48.as_ptr().wrapping_add(index), at),
            LinkType::N256 => prefetch(tree.n256.as_ptr().wrapping_add(index), at),
            LinkType::Leaf8 => prefetch(tree.leaf8.as_ptr().wrapping_add(index), 0),
            LinkType::Leaf16 => prefetch(tree.leaf16.as_ptr().wrapping_add(index), 0),
            LinkType::Leaf32 => prefetch(tree.leaf32.as_ptr().wrapping_add(index), 0),
            LinkType::DeviceLeaf => prefetch(tree.device_leaves.as_ptr().wrapping_add(index), 0),
            LinkType::HostLeaf => prefetch(tree.host_leaves.offsets.as_ptr().wrapping_add(index), 0),
            LinkType::None => {}
        }
    }

    /// The value of a leaf if its key is this one. As far as the link says, the lengths are equal.
    #[inline(always)]
    fn value(&self, leaf: Link, key: &[u8]) -> Option<u64> {
        let index = leaf.index() as usize;
        // Whole keys, the common case, are compared as words, without a call.
        match (leaf.kind(), key.len()) {
            (LinkType::Leaf8, 8) => {
                let leaf = &self.regions.leaf8[index];
                (key == leaf.key).then_some(leaf.value)
            }
            (LinkType::Leaf16, 16) => {
                let leaf = &self.regions.leaf16[index];
                (key == leaf.key).then_some(leaf.value)
            }
            (LinkType::Leaf32, 32) => {
                let leaf = &self.regions.leaf32[index];
                (key == leaf.key).then_some(leaf.value)
            }
            _ => self.regions.leaf(leaf).filter(|leaf| leaf.key == key).map(|leaf| leaf.value),
        }
    }

    /// The number of keys that a bound counts as below it.
    pub(super) fn rank(&self, key: &[u8], side: Side) -> u64 {
        let tree = &self.regions;
        if tree.root.is_none() {
            return 0;
        }
        let (mut link, mut from) = tree.start(key);
        if link.is_none() {
            // No key begins like this: the upper nodes know what comes next.
            (link, from) = (tree.root, 0);
        }
        while let Some(header) = tree.header(link) {
            let depth = tree.depth(link, from);
            let (path, rest) = (depth - from, &key[from..]);
            let order = if path == 0 {
                Ordering::Equal
            } else if path <= header.prefix.len() {
                compare_path(header.prefix(path), rest)
            } else {
                let leaf = self.leaf(tree.first_leaf(link));
                compare_path(&leaf.key[from..depth], rest)
            };
            match order {
                Ordering::Less => return self.after(link),
                Ordering::Greater => return self.leaf(tree.first_leaf(link)).rank,
                Ordering::Equal => {}
            }
            if key.len() <= depth {
                // The key ends on the path to the node, or at it: all keys below are this key or begin with it.
                return match side {
                    Side::Prefix => self.after(link),
                    Side::Upper if key.len() == depth && !header.here.is_none() => self.leaf(header.here).rank + 1,
                    Side::Lower | Side::Upper => self.leaf(tree.first_leaf(link)).rank,
                };
            }
            match tree.child_from(link, key[depth]) {
                Some((byte, child)) if byte == key[depth] => (link, from) = (child, depth + 1),
                Some((_, next)) => return self.leaf(tree.first_leaf(next)).rank,
                None => return self.after(link),
            }
        }
        let leaf = self.leaf(link);
        let below = match side {
            Side::Lower => leaf.key < key,
            Side::Upper => leaf.key <= key,
            Side::Prefix => leaf.key <= key || leaf.key.starts_with(key),
        };
        leaf.rank + u64::from(below)
    }

    /// The rank past the last leaf under a link.
    fn after(&self, link: Link) -> u64 {
        self.leaf(self.regions.last_leaf(link)).rank + 1
    }

    /// The leaf that a link leads to.
    pub(super) fn leaf(&self, link: Link) -> LeafRef<'a> {
        self.regions.leaf(link).expect("a link to a leaf: there are leaves under every node")
    }

    /// The leaf of a rank below the tree's length.
    pub(super) fn leaf_at(&self, rank: u64) -> LeafRef<'a> {
        LeafRef { rank, ..self.leaf(self.regions.leaf_at(rank)) }
    }
}

/// How all keys that continue with `path` compare with one that continues with `rest`; also equal if `rest` ends first
/// and so is a prefix of theirs.
pub(super) fn compare_path(path: &[u8], rest: &[u8]) -> Ordering {
    let len = path.len().min(rest.len());
    path[..len].cmp(&rest[..len])
}

/// Prefetches a line into the CPU's caches.
#[inline(always)]
fn prefetch<T>(element: *const T, byte: usize) {
    let line = element.cast::<i8>().wrapping_add(byte);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch accesses nothing: any address will do.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
