//! A planned batch is written: from the leaves upwards, and at last a new root, if the old one was split (the paper's stages
//! "batch insert leaf nodes layer", "batch insert internal nodes layer" and "create root node").

use super::plan::{Found, LayerPlan, few};
use super::scratch::UpdateScratch;
use crate::layer::{Above, Ptrs, lanes};
use crate::order::{NewOrder, Outcome};
use crate::tree::{Tree, levels_above};
use crate::tuning::TUNING;
use lanetree_frame::fixed::bits;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::pointers::optional;
use lanetree_frame::room::zeroed;
use lanetree_frame::{Error, Result, Stream};
use lanetree_kernels_cubpt::layout::{INNER, LEAF};
use lanetree_kernels_cubpt::{ChangeArgs, LayerChanges, calls};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{Keys, KeysMut, SelectScratch, select};
use lanetree_runtime::{Buffer, Launch};
use lanetree_simt::{Global, GlobalMut, LaunchShape};

/// What a batch writes, and the memory for it.
pub(super) struct Work<B> {
    layers: Vec<LayerPlan>,
    /// For each layer, the bounds of the pieces before its new nodes.
    bounds: Vec<Buffer<B>>,
    order: NewOrder,
    above: Option<AboveRoot<B>>,
    small: Buffer<u32>,
    /// The free numbers that are left, and the first number that no node has had.
    free_count: u64,
    end: u64,
}

/// What comes above a root that is split.
struct AboveRoot<B> {
    nodes: Above<B>,
    levels: Vec<u64>,
    root: u32,
    /// Memory for the numbers of the old root's pieces.
    numbers: Buffer<u32>,
}

impl<B: Word> Work<B> {
    /// Makes room for all that a batch writes. The tree stays as it is.
    ///
    /// # Errors
    /// [`Error::TooManyLeaves`]; [`Error::Runtime`] where the device has no room.
    pub(super) fn prepare<K: Key<Bits = B>>(
        stream: &Stream,
        scratch: &UpdateScratch<K>,
        tree: &mut Tree,
        (layers, taken): (Vec<LayerPlan>, u64),
        (small, small_count): (&Buffer<u32>, u64),
        (full, len): (u64, u64),
    ) -> Result<Self> {
        let (device, own) = (scratch.device(), tree.storage.device());
        let reused = taken.min(tree.free_count);
        let root = &layers[layers.len() - 1];
        let mut levels = Vec::new();
        if layers.len() as u32 > tree.height && root.taken > 0 {
            levels = levels_above(root.taken + 1, full);
        }
        let nodes_above = levels.iter().sum::<u64>();
        let reused_above = nodes_above.min(tree.free_count - reused);
        let end = tree.end + taken - reused;
        let nodes = end + nodes_above - reused_above;
        if nodes >= u64::from(u32::MAX) {
            return Err(crate::storage::too_many(len, tree.storage.node().order));
        }
        tree.storage.reserve(nodes)?;
        tree.order.reserve(stream, &own, tree.storage.room())?;
        let above = match levels.is_empty() {
            true => None,
            false => {
                let below = root.taken + 1;
                let mut listed = zeroed(reused_above as usize)?;
                tree.free.copy_range_to((tree.free_count - reused - reused_above) as usize, &mut listed)?;
                // The last one of all.
                let new_root = if nodes > end { nodes as u32 - 1 } else { listed[listed.len() - 1] };
                let mut nodes = Above::new(&device, below, &levels, (&listed, end))?;
                nodes.bounds.copy_range_from(root.taken as usize, &[B::MAX])?;
                let numbers = device.alloc(below as usize)?;
                Some(AboveRoot { nodes, levels, root: new_root, numbers })
            }
        };
        let bounds = layers.iter().map(|layer| device.alloc(layer.taken as usize)).collect::<Result<_, _>>()?;
        let leaves = tree.order.leaves.len() as u64;
        let order = NewOrder::new(stream, &device, leaves, leaves + layers[0].taken)?;
        let small = small_leaves(stream, scratch, &layers[0], (small, small_count))?;
        Ok(Self {
            layers,
            bounds,
            order,
            above,
            small,
            free_count: tree.free_count - reused - reused_above,
            end: nodes,
        })
    }

    /// Writes it, after which the tree has `len` pairs. Allocates nothing. After an error the tree is lost.
    ///
    /// # Errors
    /// [`Error::Runtime`] from the launches.
    pub(super) fn write<K: Key<Bits = B>, V: Word>(
        mut self,
        stream: &Stream,
        scratch: &UpdateScratch<K>,
        values: &Buffer<V>,
        tree: &mut Tree,
        len: u64,
    ) -> Result<()> {
        for level in 0..self.layers.len() {
            let (below, own) = self.bounds.split_at_mut(level);
            let (layer, bounds) = (&self.layers[level], &mut own[0]);
            match level.checked_sub(1) {
                // SAFETY: the leaves of the plan, and room for the new ones.
                None => unsafe { write_leaves(stream, scratch, values, tree, layer, bounds)? },
                Some(before) => {
                    let new = (&below[before], &self.layers[before].new);
                    // SAFETY: the layers of the plan, from the leaves upwards, and room for the new nodes.
                    unsafe { write_inner(stream, tree, layer, new, bounds)? };
                }
            }
        }
        let leaves = &self.layers[0];
        let outcome = Outcome::Split(leaves.nodes(stream)?, leaves.taken);
        // SAFETY: the leaves were changed so.
        unsafe { self.order.apply(stream, &mut tree.storage, &mut tree.order, outcome)? };
        (tree.free_count, tree.end) = (self.free_count, self.end);
        for (nodes, layer) in tree.levels.iter_mut().zip(&self.layers) {
            *nodes += layer.taken;
        }
        if let Some(AboveRoot { mut nodes, levels, root: new_root, mut numbers }) = self.above {
            let (root, taken) = (&self.layers[self.layers.len() - 1], self.bounds[self.bounds.len() - 1].len());
            numbers.copy_range_from(0, &[tree.root])?;
            numbers.copy_from_buffer(stream, 1, &root.new, 0..taken)?;
            nodes.bounds.copy_from_buffer(stream, 0, &self.bounds[self.bounds.len() - 1], 0..taken)?;
            // SAFETY: the pieces of the old root, and room for the nodes above it.
            unsafe { nodes.write(stream, &mut tree.storage, Ptrs::Listed(&numbers), false)? };
            (tree.root, tree.height) = (new_root, tree.height + levels.len() as u32);
            tree.levels.extend(levels);
        }
        (tree.small, tree.len) = (self.small, len);
        Ok(stream.synchronize()?)
    }
}

/// Writes the new values of keys that are there, when nothing else changes.
///
/// # Errors
/// [`Error::Runtime`] from the launch.
pub(super) fn replace<K: Key, V: Word>(
    stream: &Stream,
    scratch: &UpdateScratch<K>,
    values: &Buffer<V>,
    tree: &mut Tree,
    found: &Found,
) -> Result<()> {
    let leaves = &found.leaves;
    let args = ChangeArgs { few: 0, ..leaf_args(stream, scratch, values, tree, leaves, GlobalMut::null())? };
    // SAFETY: the leaves of the batch, none of which is split.
    unsafe { launch::over(stream, args.changes.count, 1, THREADS)?.run(calls::put(&args)) }?;
    Ok(stream.synchronize()?)
}

/// The leaves that a batch makes too small, in the order of their keys.
fn small_leaves<K: Key>(
    stream: &Stream,
    scratch: &UpdateScratch<K>,
    leaves: &LayerPlan,
    (small, count): (&Buffer<u32>, u64),
) -> Result<Buffer<u32>> {
    let (device, touched) = (scratch.device(), leaves.touched_count as usize);
    let mut list = device.alloc(count as usize)?;
    if count > 0 {
        let (mut selected, mut found) = (device.alloc(touched)?, device.alloc(1)?);
        let keys = Keys { keys: &leaves.touched.numbers, count: touched.into() };
        let output = KeysMut { keys: &mut selected, count: &mut found };
        select(stream, keys, small, output, &mut SelectScratch::new(&device, touched)?)?;
        list.copy_from_buffer(stream, 0, &selected, 0..count as usize)?;
    }
    Ok(list)
}

fn leaf_args<K: Key, V: Word>(
    stream: &Stream,
    scratch: &UpdateScratch<K>,
    values: &Buffer<V>,
    tree: &mut Tree,
    layer: &LayerPlan,
    bounds: GlobalMut<K::Bits>,
) -> Result<ChangeArgs<K::Bits, V>> {
    let changes = LayerChanges {
        changes: layer.changes.read_on(stream)?,
        sums: optional(layer.sums.as_ref(), stream)?,
        keys: bits(stream, scratch.sort.sorted())?,
        flip: K::FLIP,
        ptrs: values.read_on(stream)?,
        order: scratch.sort.order().read_on(stream)?,
        count: layer.changes.len() as u64,
    };
    Ok(ChangeArgs {
        touched: layer.nodes(stream)?,
        changes,
        leaves: tree.order.leaves.read_on(stream)?,
        leaf_count: tree.order.leaves.len() as u64,
        positions: tree.order.positions.read_on(stream)?,
        bounds,
        taken: layer.taken,
        few: few(&tree.storage),
        kind: LEAF,
        lanes: lanes(tree.storage.node().order),
        nodes: tree.storage.nodes_mut(stream)?,
    })
}

/// # Safety
/// The leaves of the batch, and room for the new ones.
unsafe fn write_leaves<K: Key, V: Word>(
    stream: &Stream,
    scratch: &UpdateScratch<K>,
    values: &Buffer<V>,
    tree: &mut Tree,
    layer: &LayerPlan,
    bounds: &mut Buffer<K::Bits>,
) -> Result<()> {
    let args = leaf_args(stream, scratch, values, tree, layer, bounds.write_on(stream)?)?;
    // SAFETY: the caller's contract.
    unsafe { write_layer(stream, &args, layer.has_many) }
}

/// # Safety
/// A layer of inner nodes of the batch, and room for the new ones; the bounds and the numbers of the layer below.
unsafe fn write_inner<B: Word>(
    stream: &Stream,
    tree: &mut Tree,
    layer: &LayerPlan,
    (keys, children): (&Buffer<B>, &Buffer<u32>),
    bounds: &mut Buffer<B>,
) -> Result<()> {
    let changes = LayerChanges {
        changes: layer.changes.read_on(stream)?,
        sums: Global::null(),
        keys: keys.read_on(stream)?,
        flip: B::MIN,
        ptrs: children.read_on(stream)?,
        order: Global::null(),
        count: layer.changes.len() as u64,
    };
    let args = ChangeArgs::<B, u32> {
        touched: layer.nodes(stream)?,
        changes,
        leaves: Global::null(),
        leaf_count: 0,
        positions: Global::null(),
        bounds: bounds.write_on(stream)?,
        taken: layer.taken,
        few: few(&tree.storage),
        kind: INNER,
        lanes: lanes(tree.storage.node().order),
        nodes: tree.storage.nodes_mut(stream)?,
    };
    // SAFETY: the caller's contract.
    unsafe { write_layer(stream, &args, layer.has_many) }
}

/// # Safety
/// The arguments belong to a layer of the batch.
unsafe fn write_layer<B: Word, P: Word>(stream: &Stream, args: &ChangeArgs<B, P>, has_many: bool) -> Result<()> {
    let touched = args.touched.count;
    let per_node = args.nodes.node.order * (B::BYTES + P::BYTES) as u32;
    let tuning = TUNING.on(stream.device())?;
    let mut threads = tuning.block_threads;
    while threads > 32 && (threads >> args.lanes) * per_node > tuning.block_shared {
        threads /= 2;
    }
    let units = threads >> args.lanes;
    let too_large = || Error::BatchTooLarge { queries: args.changes.count as usize };
    let blocks = u32::try_from(touched.div_ceil(u64::from(units))).ok().filter(|&blocks| blocks < 1 << 31);
    let shape = LaunchShape { blocks: blocks.ok_or_else(too_large)?, threads, dynamic_shared: units * per_node };
    // SAFETY: the caller's contract; shared memory for each node of a block.
    unsafe { Launch::new(stream, shape).run(calls::shift(args)) }?;
    if has_many {
        // SAFETY: as above.
        unsafe { launch::over(stream, args.changes.count, 1, THREADS)?.run(calls::put(args)) }?;
    }
    let nodes = if args.kind == LEAF { args.taken } else { touched + args.taken };
    if nodes > 0 {
        // SAFETY: as above.
        unsafe { launch::over(stream, nodes, 1 << args.lanes, THREADS)?.run(calls::finish(args)) }?;
    }
    Ok(())
}
