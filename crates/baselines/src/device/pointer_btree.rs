//! A regular B+tree with child references on a device: the Harmonia paper's baseline.

use super::{THREADS, covering, same_device, same_length};
use core::fmt;
use core::ops::Range;
use lanetree_base::parallel::*;
use lanetree_kernels_baselines::layout::pointer_btree::{
    inner_bytes, inner_offset, leaf_bytes, leaf_offset, reference, referenced_offset, references_offset,
};
use lanetree_kernels_baselines::pointer_btree::{self as kernels, GetArgs};
use lanetree_layout::Word;
use lanetree_layout::btree::Shape;
use lanetree_runtime::{Buffer, Device, Error, Result, Stream};

/// The fanouts that there are kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fanout(u32);

impl Fanout {
    /// All of them, the smallest first.
    pub const ALL: [Self; 5] = [Self(8), Self(16), Self(32), Self(64), Self(128)];

    /// So many slots of a node; `None` where there are no kernels.
    pub fn of(slots: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|fanout| fanout.0 == slots)
    }

    /// Slots of a node.
    pub const fn slots(self) -> u32 {
        self.0
    }

    /// Lanes that serve a query together: as many as a node has slots, a warp at most.
    pub const fn lanes(self) -> u32 {
        kernels::group_width(self.0)
    }
}

/// How many queries a group of lanes looks up side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InFlight {
    /// One, as a plain kernel does.
    One,
    /// As many as Harmonia's kernel with groups of the same width: what its tree is worth, apart from that.
    LikeHarmonia,
}

impl InFlight {
    /// The number of queries, at a fanout.
    pub fn queries(self, fanout: Fanout) -> u32 {
        let available = kernels::in_flight(fanout.0);
        available[match self {
            Self::One => 0,
            Self::LikeHarmonia => available.len() - 1,
        }]
    }
}

/// A B+tree with child references in device memory, keys and values being words of the same kind. The
/// layout is drawn in [`lanetree_kernels_baselines::layout::pointer_btree`].
pub struct PointerBTree<W> {
    shape: Shape,
    fanout: Fanout,
    /// Inner nodes: separators, then references, in words.
    inner: Buffer<W>,
    /// Leaves: keys, then values.
    leaves: Buffer<W>,
}

impl<W: Word> PointerBTree<W> {
    /// Builds a tree of full nodes over strictly ascending keys and their values; in any other order
    /// look-ups miss keys. Returns when it is on the device.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if there are more or fewer values than keys; [`Error::OutOfMemory`].
    pub fn new(device: &Device, keys: &[W], values: &[W], fanout: Fanout) -> Result<Self> {
        same_length("pairing keys and values for a B+tree", keys.len(), values.len())?;
        let Some(shape) = Shape::bulk(keys.len() as u64, fanout.0, 1.0) else {
            // More nodes than 32 bits can number are more bytes than any device has.
            let requested = keys.len() as u128 * 2 * W::BYTES as u128;
            return Err(Error::OutOfMemory { requested, free: 0, total: 0, device: device.to_string() });
        };
        let leaves = device.upload(&leaves(&shape, keys, values))?;
        let inner = device.upload(&inner_nodes(&shape, keys))?;
        Ok(Self { shape, fanout, inner, leaves })
    }

    /// Pairs in the tree.
    pub fn len(&self) -> u64 {
        self.shape.len
    }

    /// Whether the tree has no pairs.
    pub fn is_empty(&self) -> bool {
        self.shape.len == 0
    }

    /// The fanout.
    pub fn fanout(&self) -> Fanout {
        self.fanout
    }

    /// Levels, the leaves' included; 0 for an empty tree.
    pub fn levels(&self) -> u32 {
        self.shape.height + u32::from(self.shape.leaves > 0)
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> u64 {
        (self.inner.bytes() + self.leaves.bytes()) as u64
    }

    /// The device addresses of the nodes of a level, the root's being 0, for tools that look at accesses;
    /// none for a level that there is not.
    pub fn level_addresses(&self, level: u32) -> Range<usize> {
        let of = |base: usize, bytes: Range<u64>| base + bytes.start as usize..base + bytes.end as usize;
        if level < self.shape.height {
            let first = self.shape.level_first(level);
            let end = first + self.shape.level_nodes[level as usize];
            let bytes = inner_offset::<W>(self.fanout.0, first)..inner_offset::<W>(self.fanout.0, end);
            return of(self.inner.addresses().start, bytes);
        }
        let leaves = if level == self.shape.height { self.shape.leaves } else { 0 };
        of(self.leaves.addresses().start, 0..leaf_offset::<W, W>(self.fanout.0, leaves))
    }

    /// Looks up `queries`: `out[i]` becomes the value of key `queries[i]`, or `miss`. In the stream's
    /// order; may return before it is done.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `out` is as long as `queries`; [`Error::WrongDevice`]; the errors
    /// of a launch.
    pub fn get(
        &self,
        stream: &Stream,
        queries: &Buffer<W>,
        out: &mut Buffer<W>,
        miss: W,
        in_flight: InFlight,
    ) -> Result<()> {
        same_length("the results of a B+tree", queries.len(), out.len())?;
        for device in [self.leaves.device(), queries.device(), out.device()] {
            same_device(stream, device)?;
        }
        if queries.is_empty() {
            return Ok(());
        }
        let args = GetArgs {
            inner: self.inner.read_on(stream)?.cast(),
            leaves: self.leaves.read_on(stream)?.cast(),
            queries: queries.read_on(stream)?,
            count: queries.len() as u64,
            values: out.write_on(stream)?,
            miss,
            height: self.shape.height,
            leaf_count: self.shape.leaves,
        };
        let in_flight = in_flight.queries(self.fanout);
        let threads = args.count.div_ceil(u64::from(in_flight)) * u64::from(self.fanout.lanes());
        let shape = covering(stream, "pointer_btree", threads, THREADS)?;
        let call =
            kernels::get(self.fanout.0, in_flight, &args).expect("there are kernels for every `Fanout` and `InFlight`");
        // SAFETY: the tree is valid by construction, queries and results are of the same length; all pointers are for
        // this stream.
        unsafe { stream.call(shape, call) }
    }

    /// How many keys a sequential search compares each of `queries` with at each level, the root's first,
    /// the leaves' last: one after another, up to and with the first that is not below it, or to the last
    /// that the node can have (`fanout - 1` separators, `fanout` keys of a leaf). Counted by the CPU over
    /// the nodes themselves, which are copied back.
    ///
    /// # Errors
    /// [`Error::Cuda`] from the copies.
    pub fn comparisons(&self, queries: &[W]) -> Result<Vec<Vec<u32>>> {
        let (inner, leaves) = (self.inner.to_vec()?, self.leaves.to_vec()?);
        let fanout = self.fanout.0 as usize;
        let slots = |words: &[W], offset: u64, count: usize, query: W| {
            let first = offset as usize / W::BYTES;
            words[first..first + count].partition_point(|&slot| slot < query)
        };
        let mut levels = Vec::new();
        let mut nodes = vec![0_u64; if self.is_empty() { 0 } else { queries.len() }];
        for _ in 0..self.shape.height {
            let mut level = Vec::with_capacity(nodes.len());
            for (node, &query) in nodes.iter_mut().zip(queries) {
                let below = slots(&inner, *node, fanout - 1, query);
                level.push((below + 1).min(fanout - 1) as u32);
                let references = (*node + references_offset::<W>(self.fanout.0)) as usize / W::BYTES;
                *node = referenced_offset(inner[references + below]);
            }
            levels.push(level);
        }
        if !self.is_empty() {
            let of_leaf = |(&node, &query)| (slots(&leaves, node, fanout, query) + 1).min(fanout) as u32;
            levels.push(nodes.iter().zip(queries).map(of_leaf).collect());
        }
        Ok(levels)
    }
}

impl<W: Word> fmt::Debug for PointerBTree<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, fanout, device) = (self.shape.len, self.fanout.0, self.leaves.device());
        write!(f, "PointerBTree<{}>[{len} pairs, fanout {fanout}, on {device}]", W::NAME)
    }
}

/// The segment of leaves. Slots of a leaf that is not full repeat its last pair.
fn leaves<W: Word>(shape: &Shape, keys: &[W], values: &[W]) -> Vec<W> {
    let fanout = shape.fanout as usize;
    let mut words = vec![W::MIN; (shape.leaf_region_bytes::<W, W>() / W::BYTES as u64) as usize];
    let of_leaf = leaf_bytes::<W, W>(shape.fanout) as usize / W::BYTES;
    words.par_chunks_exact_mut(of_leaf).enumerate().for_each(|(leaf, words)| {
        let first = leaf * shape.per_leaf as usize;
        let last = first + shape.leaf_len(leaf as u32) as usize - 1;
        for slot in 0..fanout {
            let pair = last.min(first + slot);
            (words[slot], words[fanout + slot]) = (keys[pair], values[pair]);
        }
    });
    words
}

/// The segment of inner nodes, level by level.
fn inner_nodes<W: Word>(shape: &Shape, keys: &[W]) -> Vec<W> {
    let fanout = shape.fanout as usize;
    let of_node = inner_bytes::<W>(shape.fanout) as usize / W::BYTES;
    let mut words = vec![W::MAX; shape.inner as usize * of_node];
    // Pairs under a child of the level's nodes, if it is full.
    let mut under_child = u64::from(shape.per_leaf);
    for level in (0..shape.height).rev() {
        let above_leaves = level + 1 == shape.height;
        let next = if above_leaves { shape.leaves } else { shape.level_nodes[level as usize + 1] };
        // The children's first in its segment.
        let next_first = if above_leaves { 0 } else { shape.level_first(level + 1) };
        let first = shape.level_first(level) as usize;
        let nodes = first..first + shape.level_nodes[level as usize] as usize;
        words[nodes.start * of_node..nodes.end * of_node].par_chunks_exact_mut(of_node).enumerate().for_each(
            |(i, node)| {
                let first = i as u32 * shape.children;
                let children = shape.children.min(next - first);
                let (separators, references) = node.split_at_mut(fanout);
                for (slot, separator) in separators[..children as usize - 1].iter_mut().enumerate() {
                    // All children but the last are full, so each one's largest key has a known place.
                    *separator = keys[((u64::from(first) + slot as u64 + 1) * under_child - 1) as usize];
                }
                for (slot, to) in references.iter_mut().enumerate() {
                    let child = next_first + first + (slot as u32).min(children - 1);
                    *to = reference(match above_leaves {
                        true => leaf_offset::<W, W>(shape.fanout, child),
                        false => inner_offset::<W>(shape.fanout, child),
                    });
                }
            },
        );
        under_child = under_child.saturating_mul(u64::from(shape.children));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;

    const IN_FLIGHT: [InFlight; 2] = [InFlight::One, InFlight::LikeHarmonia];

    /// Every fanout, with trees of no level, one, and several; hits, misses and queries beyond the ends.
    fn agrees_with_the_oracle<W: Word>(seed: u64) {
        let device = Device::emulated_with_seed(seed);
        let stream = device.stream().unwrap();
        for fanout in Fanout::ALL {
            let slots = u64::from(fanout.slots());
            for len in [0, 1, slots, slots + 1, slots * slots / 2 + 3, 3 * slots * slots / 2] {
                let keys: Vec<W> = (0..len).map(|i| W::truncate(i * 5 + 2)).collect();
                let values: Vec<W> = (0..len).map(|i| W::truncate(i + 1)).collect();
                let oracle = Oracle::new(&keys, &values);
                let tree = PointerBTree::new(&device, &keys, &values, fanout).unwrap();
                // A number that fills no block, no warp and no group's round.
                let drawn = (0..331).map(|i| W::truncate(i * 7919 % (len * 5 + 9)));
                let queries: Vec<W> = drawn.chain([W::MIN, W::MAX]).collect();
                let expected: Vec<W> = queries.iter().map(|&query| oracle.get(query).unwrap_or(W::MAX)).collect();
                let uploaded = device.upload(&queries).unwrap();
                for in_flight in IN_FLIGHT {
                    let mut out = device.alloc(queries.len()).unwrap();
                    tree.get(&stream, &uploaded, &mut out, W::MAX, in_flight).unwrap();
                    stream.synchronize().unwrap();
                    assert_eq!(out.to_vec().unwrap(), expected, "{tree:?}, {in_flight:?}");
                }
            }
        }
    }

    #[test]
    fn look_ups_agree_with_the_oracle_over_both_words() {
        agrees_with_the_oracle::<u32>(0);
        agrees_with_the_oracle::<u64>(1);
    }

    #[test]
    fn the_largest_key_is_a_key() {
        let device = Device::emulated();
        let stream = device.stream().unwrap();
        for fanout in Fanout::ALL {
            let keys: Vec<u32> = (0..500).map(|i| u32::MAX - 499 + i).collect();
            let tree = PointerBTree::new(&device, &keys, &keys, fanout).unwrap();
            let mut out = device.alloc(keys.len()).unwrap();
            tree.get(&stream, &device.upload(&keys).unwrap(), &mut out, 0, InFlight::One).unwrap();
            assert_eq!(out.to_vec().unwrap(), keys);
        }
    }

    #[test]
    fn comparisons_are_those_of_a_sequential_search() {
        let keys: Vec<u64> = (0..4096).collect();
        let tree = PointerBTree::new(&Device::host(), &keys, &keys, Fanout::of(8).unwrap()).unwrap();
        assert_eq!(tree.levels(), 4);
        let counted = tree.comparisons(&[0, 1, 511, 512, 4095, u64::MAX]).unwrap();
        // 512 is the first key under the root's second child; the last key passes every separator.
        assert_eq!(counted[0], [1, 1, 1, 2, 7, 7]);
        assert_eq!(counted[3], [1, 2, 8, 1, 8, 8]);
        let empty = PointerBTree::<u64>::new(&Device::host(), &[], &[], Fanout::of(8).unwrap()).unwrap();
        assert_eq!(empty.comparisons(&[1]).unwrap(), [[0_u32; 0]; 0]);
    }

    #[test]
    fn levels_lie_one_behind_another() {
        let keys: Vec<u64> = (0..4096).collect();
        let tree = PointerBTree::new(&Device::host(), &keys, &keys, Fanout::of(8).unwrap()).unwrap();
        let bytes = [0, 1, 2, 3, 4].map(|level| tree.level_addresses(level).len());
        assert_eq!(bytes, [128, 8 * 128, 64 * 128, 512 * 128, 0]);
        assert_eq!(tree.level_addresses(0).end, tree.level_addresses(1).start);
        assert_eq!(bytes.into_iter().sum::<usize>() as u64, tree.bytes());
    }

    #[test]
    fn bad_calls_are_errors() {
        assert_eq!(Fanout::of(12), None);
        let (host, fanout) = (Device::host(), Fanout::ALL[0]);
        let error = PointerBTree::new(&host, &[1_u32, 2], &[1], fanout).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 2, actual: 1, .. }), "{error}");
        let tree = PointerBTree::new(&host, &[1_u32], &[1], fanout).unwrap();
        let (queries, stream) = (host.upload(&[1_u32]).unwrap(), host.stream().unwrap());
        let error = tree.get(&stream, &queries, &mut host.alloc(2).unwrap(), 0, InFlight::One).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { expected: 1, actual: 2, .. }), "{error}");
        let error = tree.get(&stream, &queries, &mut host.alloc(1).unwrap(), 0, InFlight::One).unwrap_err();
        assert!(matches!(error, Error::NoKernels { .. }), "{error}");
    }
}
