//! The tree, and its bulk build (section 3.2.1).

use crate::layer::{Elements, Layer};
use crate::order::Order;
use crate::storage::{Storage, too_many};
use lanetree_frame::{Device, DeviceKind, Result};
use lanetree_kernels_cubpt::layout::{Node, node_words};
use lanetree_layout::Word;

/// What a tree is made of.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) storage: Storage,
    pub(crate) order: Order,
    pub(crate) root: u32,
    /// Levels above the leaves.
    pub(crate) height: u32,
    pub(crate) len: u64,
    /// Nodes in use.
    pub(crate) nodes: u32,
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
        let (len, full) = (keys.len() as u64, ((f64::from(order) * fill) as u64).max(2));
        let mut levels = vec![pieces(len, full)];
        while levels[levels.len() - 1] > 1 {
            levels.push(pieces(levels[levels.len() - 1], full));
        }
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
        .map(|(storage, order)| Self { storage, order, root, height, len, nodes: nodes as u32 })
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
        let mut layer = Layer::of_new_nodes(device, keys.len() as u64, levels[0] as u32, 0)?;
        // SAFETY: the storage has room for all nodes of the build, and these are the layer's pairs.
        let mut above = unsafe {
            layer.write(&stream, &mut storage, &pairs, true)?;
            layer.above(&stream, &pairs.keys, None)?
        };
        let mut first = levels[0] as u32;
        for (below, &nodes) in levels.iter().zip(&levels[1..]) {
            layer = Layer::of_new_nodes(device, *below, nodes as u32, first)?;
            first += nodes as u32;
            // SAFETY: as above; the children are the nodes of the layer below.
            above = unsafe {
                layer.write(&stream, &mut storage, &above, false)?;
                layer.above(&stream, &above.keys, None)?
            };
        }
        let height = levels.len() as u32 - 1;
        let order = Order::of(&stream, &mut storage, first - 1, height)?;
        Ok((storage, order))
    }

    fn build_on_host<B: Word, V: Word>(
        mut storage: Storage,
        levels: &[u64],
        keys: &[B],
        values: &[V],
    ) -> Result<(Storage, Order)> {
        let _ = (&mut storage, levels, keys, values, node_words);
        todo!("the host's build")
    }
}
