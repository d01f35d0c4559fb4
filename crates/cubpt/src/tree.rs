//! The tree, and its bulk build (section 3.2.1).

use crate::layer::{Elements, Form, Layer};
use crate::node::{set_head, write_node};
use crate::order::{Order, OrderScratch};
use crate::storage::{Storage, too_many};
use lanetree_frame::{Device, DeviceKind, Result, Stream};
use lanetree_kernels_cubpt::layout::{Head, INNER, LEAF, NONE, Node};
use lanetree_layout::Word;
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
}

/// In how many nodes so many elements go, with `full` in each, at least one.
fn pieces(elements: u64, full: u64) -> u64 {
    elements.div_ceil(full).max(1)
}

impl Tree {
    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.storage.bytes() + self.order.bytes()
    }

    /// Builds a tree over sorted pairs in main memory.
    ///
    /// # Errors
    /// [`Error::TooManyLeaves`](lanetree_frame::Error::TooManyLeaves);
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn build<B: Word, V: Word>(
        device: &Device,
        order: u32,
        fill: f64,
        keys: &[B],
        values: &[V],
    ) -> Result<Self> {
        let node = Node::of::<B, V>(order);
        let (len, full) = (keys.len() as u64, full(order, fill));
        let leaves = pieces(len, full);
        let levels = [vec![leaves], levels_above(leaves, full)].concat();
        let nodes: u64 = levels.iter().sum();
        if nodes >= u64::from(u32::MAX) {
            return Err(too_many(len, order));
        }
        let storage = Storage::with_room(device, node, nodes)?;
        let (root, height) = (nodes as u32 - 1, levels.len() as u32 - 1);
        match device.kind() {
            DeviceKind::Host => Self::build_on_host(storage, &levels, keys, values),
            _ => Self::build_on_device(storage, device, &levels, keys, values),
        }
        .and_then(|(storage, order)| {
            let free = device.alloc(0)?;
            Ok(Self { storage, order, root, height, len, levels, end: nodes, free, free_count: 0 })
        })
    }

    /// A thread per key, layer by layer.
    fn build_on_device<B: Word, V: Word>(
        mut storage: Storage,
        device: &Device,
        levels: &[u64],
        keys: &[B],
        values: &[V],
    ) -> Result<(Storage, Order)> {
        let stream = device.stream()?;
        let pairs = Elements { keys: device.upload(keys)?, ptrs: device.upload(values)? };
        let numbers: Vec<u32> = (0..levels.iter().sum::<u64>() as u32).collect();
        let (leaves, above) = numbers.split_at(levels[0] as usize);
        let layer = Layer::of_nodes(device, keys.len() as u64, leaves)?;
        // SAFETY: the storage has room for all nodes of the build, and these are the layer's pairs.
        let bounds = unsafe {
            layer.write(&stream, &mut storage, &pairs, Form { flip: B::MIN, is_leaf: true })?;
            layer.above(&stream, &pairs.keys, B::MIN, None)?
        };
        let leaves = Elements { keys: bounds, ptrs: layer.numbers };
        // SAFETY: there is room for all nodes above, and these are the leaves.
        unsafe {
            for (layer, elements) in layers_above(&stream, leaves, &levels[1..], above)? {
                layer.write(&stream, &mut storage, &elements, Form::<B>::INNER)?;
            }
        }
        let height = levels.len() as u32 - 1;
        let scratch = OrderScratch::new(device, levels)?;
        let order = Order::of(&stream, &mut storage, numbers[numbers.len() - 1], height, scratch)?;
        Ok((storage, order))
    }

    /// One layer after the other, as on a device.
    fn build_on_host<B: Word, V: Word>(
        mut storage: Storage,
        levels: &[u64],
        keys: &[B],
        values: &[V],
    ) -> Result<(Storage, Order)> {
        let (node, host) = (storage.node(), Device::host());
        let leaves: Vec<u32> = (0..levels[0] as u32).collect();
        let ranks: Vec<u64> = (0..=levels[0]).map(|leaf| start_of(leaf, levels[0], keys.len() as u64)).collect();
        let mut bounds = Vec::with_capacity(leaves.len());
        for (&number, own) in leaves.iter().zip(ranks.windows(2)) {
            let own = own[0] as usize..own[1] as usize;
            let words = storage.words_mut(number).expect("the host's memory");
            write_node(words, node, LEAF, &keys[own.clone()], &values[own.clone()]);
            set_head(words, node, Head::Next, if u64::from(number) + 1 < levels[0] { number + 1 } else { NONE });
            set_head(words, node, Head::Previous, number.checked_sub(1).unwrap_or(NONE));
            words[node.head as usize / 8 + 3] = own.start as u64;
            bounds.push(keys.get(own.end.wrapping_sub(1)).copied().unwrap_or(B::MAX));
        }
        let (mut children, mut first) = (leaves.clone(), levels[0] as u32);
        for &nodes in &levels[1..] {
            *bounds.last_mut().expect("a level has a node") = B::MAX;
            let mut above = Vec::with_capacity(nodes as usize);
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
            (bounds, children, first) = (above, (first..first + nodes as u32).collect(), first + nodes as u32);
        }
        set_head(storage.words_mut(first - 1).expect("the host's memory"), node, Head::Parent, NONE);
        Ok((storage, Order { leaves: host.upload(&leaves)?, ranks: host.upload(&ranks)? }))
    }
}

/// A layer, and what goes into it.
pub(crate) type Filled<B> = (Layer, Elements<B, u32>);

/// Levels of so many nodes above nodes with these bounds and numbers; the last one of `numbers` is the root's.
///
/// # Errors
/// [`Error::Runtime`](lanetree_frame::Error::Runtime).
///
/// # Safety
/// The elements are nodes.
pub(crate) unsafe fn layers_above<B: Word>(
    stream: &Stream,
    mut elements: Elements<B, u32>,
    levels: &[u64],
    mut numbers: &[u32],
) -> Result<Vec<Filled<B>>> {
    let mut layers = Vec::with_capacity(levels.len());
    for &nodes in levels {
        let own;
        (own, numbers) = numbers.split_at(nodes as usize);
        let layer = Layer::of_nodes(stream.device(), elements.ptrs.len() as u64, own)?;
        // SAFETY: the caller's contract; the children are the nodes of the level below.
        let bounds = unsafe { layer.above(stream, &elements.keys, B::MIN, None)? };
        let above = Elements { keys: bounds, ptrs: stream.device().upload(own)? };
        layers.push((layer, core::mem::replace(&mut elements, above)));
    }
    Ok(layers)
}

/// The levels above so many nodes, up to one.
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
fn start_of(piece: u64, pieces: u64, elements: u64) -> u64 {
    piece * (elements / pieces) + piece.min(elements % pieces)
}
