//! The tree, and its bulk build (section 3.2.1).

use crate::layer::{Above, Form, Layer, Ptrs, parents};
use crate::mapping::Shape;
use crate::node::{set_head, write_node};
use crate::order::Order;
use crate::storage::{Storage, too_many};
use lanetree_frame::fixed::Staging;
use lanetree_frame::parallel::*;
use lanetree_frame::room::{collected, copied, with_room};
use lanetree_frame::{Device, DeviceKind, Result, Stream};
use lanetree_kernels_cubpt::TreeRef;
use lanetree_kernels_cubpt::layout::{Head, INNER, LEAF, NONE, Node};
use lanetree_layout::{Key, Word};
use lanetree_primitives::DevicePairs;
use lanetree_runtime::Buffer;

/// What a tree is made of.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) storage: Storage,
    pub(crate) order: Order,
    pub(crate) root: u32,
    /// Levels above the leaves.
    pub(crate) height: u32,
    pub(crate) len: u64,
    /// Nodes of each level, the leaves' first.
    pub(crate) levels: Vec<u64>,
    /// The first number that no node has had.
    pub(crate) end: u64,
    /// Numbers of nodes that are gone: the first of these.
    pub(crate) free: Buffer<u32>,
    pub(crate) free_count: u64,
    /// Leaves that the last batch has made too small, in the order of their keys: the next one merges them.
    pub(crate) small: Buffer<u32>,
}

/// The number of nodes, at least one, for `elements` elements with `full` in each.
fn pieces(elements: u64, full: u64) -> u64 {
    elements.div_ceil(full).max(1)
}

impl Tree {
    /// What a kernel in a stream needs to know of it.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) for a stream of another device.
    pub(crate) fn tree_ref<B: Word>(&self, stream: &Stream, flip: B) -> Result<TreeRef<B>> {
        Ok(TreeRef {
            nodes: self.storage.nodes(stream)?,
            leaves: self.order.leaves.read_on(stream)?,
            ranks: self.order.ranks.read_on(stream)?,
            positions: self.order.positions.read_on(stream)?,
            leaf_count: self.order.leaves.len() as u64,
            root: self.root,
            height: self.height,
            flip,
        })
    }

    /// How many nodes a tree has, from the leaves upwards.
    fn plan(order: u32, fill: f64, len: u64) -> Result<Vec<u64>> {
        let full = full(order, fill);
        let leaves = pieces(len, full);
        let levels = [vec![leaves], levels_above(leaves, full)].concat();
        if levels.iter().sum::<u64>() >= u64::from(u32::MAX) {
            return Err(too_many(len, order));
        }
        Ok(levels)
    }

    /// Builds a tree over strictly ascending pairs in main memory.
    ///
    /// # Errors
    /// [`Error::TooManyLeaves`](lanetree_frame::Error::TooManyLeaves);
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn build<K: Key, V: Word>(
        device: &Device,
        (order, fill, mapping): Shape,
        keys: &[K],
        values: &[V],
    ) -> Result<Self> {
        if device.kind() != DeviceKind::Host {
            let staging = Staging::<K, V>::default().queries;
            let (keys, values) = (staging.buffer_of(device, keys)?, staging.buffer_of(device, values)?);
            // Not kept for the tree's batches: it may have none.
            drop(staging);
            let pairs = DevicePairs { keys: &keys, values: &values, len: keys.len() };
            return Self::build_on(&device.stream()?, device, (order, fill, mapping), pairs);
        }
        let levels = Self::plan(order, fill, keys.len() as u64)?;
        let nodes = levels.iter().sum();
        let storage = Storage::with_room(device, (Node::of::<K::Bits, V>(order), mapping), nodes)?;
        let words = keys.par_iter().map(|key| key.encode()).try_collect()?;
        let (storage, order) = Self::build_on_host(storage, &levels, &words, values)?;
        Self::of(device, storage, order, levels, keys.len() as u64)
    }

    fn of(device: &Device, storage: Storage, order: Order, levels: Vec<u64>, len: u64) -> Result<Self> {
        let (free, small) = (device.alloc(0)?, device.alloc(0)?);
        let (end, height) = (levels.iter().sum::<u64>(), levels.len() as u32 - 1);
        Ok(Self { storage, order, root: end as u32 - 1, height, len, levels, end, free, free_count: 0, small })
    }

    /// Builds a tree over strictly ascending pairs that are on a device, layer by layer (the paper's
    /// Batch_build), by threads as [`Mapping`](crate::Mapping) says. Its memory comes from `device`. Waits for the stream.
    ///
    /// # Errors
    /// As [`Tree::build`].
    pub(crate) fn build_on<K: Key, V: Word>(
        stream: &Stream,
        device: &Device,
        (order, fill, mapping): Shape,
        DevicePairs { keys, values, len }: DevicePairs<'_, K, V>,
    ) -> Result<Self> {
        let len = len as u64;
        let levels = Self::plan(order, fill, len)?;
        let mut storage = Storage::with_room(device, (Node::of::<K::Bits, V>(order), mapping), levels.iter().sum())?;
        let leaves = Layer::of_nodes(len, 0, levels[0]);
        let mut above = Above::<K::Bits>::new(device, levels[0], &levels[1..], (&[], levels[0]))?;
        // SAFETY: the storage has room for all nodes of the build; the pairs are the leaves' pairs, and so on.
        unsafe {
            let form = Form { flip: K::FLIP, is_leaf: true };
            let above_leaves = parents(levels[0], levels[0], levels.get(1).copied().unwrap_or(0));
            leaves.write(stream, &mut storage, (keys, 0), Ptrs::Listed(values), form, above_leaves)?;
            leaves.bounds(stream, keys, K::FLIP, None, &mut above.bounds)?;
            above.write(stream, &mut storage, Ptrs::From(0), true)?;
        }
        let order = Order::first(stream, &storage, levels[0], len)?;
        stream.synchronize()?;
        Self::of(device, storage, order, levels, len)
    }

    /// One layer after the other, as on a device.
    fn build_on_host<B: Word, V: Word>(
        mut storage: Storage,
        levels: &[u64],
        keys: &[B],
        values: &[V],
    ) -> Result<(Storage, Order)> {
        let (node, host) = (storage.node(), Device::host());
        let leaves = collected(0..levels[0] as u32)?;
        let ranks = collected((0..=levels[0]).map(|leaf| start_of(leaf, levels[0], keys.len() as u64)))?;
        let mut bounds = with_room(leaves.len())?;
        for (&number, own) in leaves.iter().zip(ranks.windows(2)) {
            let own = own[0] as usize..own[1] as usize;
            let words = storage.words_mut(number).expect("the host's memory");
            write_node(words, node, LEAF, &keys[own.clone()], &values[own.clone()]);
            set_head(words, node, Head::Next, if u64::from(number) + 1 < levels[0] { number + 1 } else { NONE });
            bounds.push(keys.get(own.end.wrapping_sub(1)).copied().unwrap_or(B::MAX));
        }
        let (mut children, mut first) = (copied(&leaves)?, levels[0] as u32);
        for &nodes in &levels[1..] {
            *bounds.last_mut().expect("a level has a node") = B::MAX;
            let mut above = with_room(nodes as usize)?;
            for i in 0..nodes {
                let start = |i| start_of(i, nodes, children.len() as u64) as usize;
                let (own, number) = (start(i)..start(i + 1), first + i as u32);
                let words = storage.words_mut(number).expect("the host's memory");
                write_node(words, node, INNER, &bounds[own.clone()], &children[own.clone()]);
                above.push(bounds[own.end - 1]);
                for &child in &children[own] {
                    set_head(storage.words_mut(child).expect("the host's memory"), node, Head::Parent, number);
                }
            }
            (bounds, children, first) = (above, collected(first..first + nodes as u32)?, first + nodes as u32);
        }
        set_head(storage.words_mut(first - 1).expect("the host's memory"), node, Head::Parent, NONE);
        let (positions, leaves) = (host.upload(&leaves)?, host.upload(&leaves)?);
        Ok((storage, Order { leaves, ranks: host.upload(&ranks)?, positions }))
    }
}

/// The numbers of nodes of the levels above `nodes` nodes, up to a level of one.
pub(crate) fn levels_above(nodes: u64, full: u64) -> Vec<u64> {
    let mut levels = Vec::new();
    let mut below = nodes;
    while below > 1 {
        below = pieces(below, full);
        levels.push(below);
    }
    levels
}

/// Keys of a node that a build fills.
pub(crate) fn full(order: u32, fill: f64) -> u64 {
    ((f64::from(order) * fill) as u64).max(2)
}

/// The first of `elements` elements that goes into a piece, of `pieces` (formula 2).
pub(crate) fn start_of(piece: u64, pieces: u64, elements: u64) -> u64 {
    piece * (elements / pieces) + piece.min(elements % pieces)
}
