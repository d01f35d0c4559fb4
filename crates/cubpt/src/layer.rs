//! A layer of the tree as it is being written: elements in groups, and the nodes that each group goes into.

use crate::mapping::Mapping;
use crate::storage::Storage;
use bytemuck::Pod;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::pointers::optional;
use lanetree_frame::room::collected;
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_cubpt::layout::{INNER, LEAF};
use lanetree_kernels_cubpt::{BoundsArgs, Groups, Parents, WriteNodesArgs, calls};
use lanetree_layout::Word;
use lanetree_runtime::Buffer;
use lanetree_simt::Global;

/// What a node stores with each key: a value in a leaf, a child in an inner node.
pub(crate) enum Ptrs<'a, P> {
    /// These.
    Listed(&'a Buffer<P>),
    /// Children that are numbered from here on.
    From(u64),
}

/// What elements are.
#[derive(Clone, Copy)]
pub(crate) struct Form<B> {
    /// Exclusive-or mask between their keys and ordered words.
    pub(crate) flip: B,
    pub(crate) is_leaf: bool,
}

impl<B: Word> Form<B> {
    /// Children, with ordered words.
    pub(crate) const INNER: Self = Self { flip: B::MIN, is_leaf: false };
}

/// Lanes that work on a node of an order, as a power of two: each has about 8 slots.
pub(crate) fn lanes(order: u32) -> u32 {
    (order / 8).ilog2().clamp(2, 5)
}

/// Threads that write a node of an order, as a power of two: at least as many as words of a head.
fn writers(order: u32, mapping: Mapping) -> u32 {
    match mapping {
        Mapping::PerNode => lanes(order).max(3),
        Mapping::PerKey => order.next_power_of_two().ilog2(),
    }
}

/// The parents of `nodes` nodes in a build: `count` parents, numbered from `first` on.
pub(crate) fn parents(nodes: u64, first: u64, count: u64) -> Parents {
    let (least, more) = (nodes.checked_div(count).unwrap_or(0), nodes.checked_rem(count).unwrap_or(0));
    Parents { first, least: least as u32, more: more as u32, are_new: 1, zero: 0 }
}

/// The parents of nodes that have some.
pub(crate) const KEPT: Parents = Parents { first: 0, least: 0, more: 0, are_new: 0, zero: 0 };

/// Groups of elements, if there are several.
pub(crate) struct LayerGroups {
    /// Where each group's elements begin, and all end.
    pub(crate) elements: Buffer<u64>,
    /// Where each group's pieces begin, and all end.
    pub(crate) pieces: Buffer<u64>,
    /// The group of each piece.
    pub(crate) of_piece: Buffer<u32>,
}

/// Groups of elements, and their pieces.
pub(crate) struct Layer {
    /// The groups; `None` if there is one.
    pub(crate) groups: Option<LayerGroups>,
    /// The node of each piece; `None` if they are numbered from `first` on.
    pub(crate) numbers: Option<Buffer<u32>>,
    pub(crate) first: u64,
    /// Pieces.
    pub(crate) count: u64,
    /// Elements, if there is one group.
    pub(crate) total: u64,
}

impl Layer {
    /// One group of `elements` elements, in nodes that are numbered from `first` on.
    pub(crate) fn of_nodes(elements: u64, first: u64, count: u64) -> Self {
        Self { groups: None, numbers: None, first, count, total: elements }
    }

    fn groups(&self, stream: &Stream) -> Result<Groups> {
        let groups = self.groups.as_ref();
        Ok(Groups {
            elements: optional(groups.map(|groups| &groups.elements), stream)?,
            pieces: optional(groups.map(|groups| &groups.pieces), stream)?,
            of_piece: optional(groups.map(|groups| &groups.of_piece), stream)?,
            least: self.total / self.count,
            more: self.total % self.count,
            numbers: optional(self.numbers.as_ref(), stream)?,
            first: self.first,
            count: self.count,
        })
    }

    /// Writes the nodes. In the stream's order.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) from the launch.
    ///
    /// # Safety
    /// There is room for the nodes; keys and pointers are the layer's own, and children are nodes.
    pub(crate) unsafe fn write<B: Word, K: Pod, P: Word>(
        &self,
        stream: &Stream,
        storage: &mut Storage,
        (keys, at): (&Buffer<K>, usize),
        ptrs: Ptrs<'_, P>,
        Form { flip, is_leaf }: Form<B>,
        parents: Parents,
    ) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let (ptrs, first_child) = match ptrs {
            Ptrs::Listed(ptrs) => (ptrs.read_on(stream)?, 0),
            Ptrs::From(first) => (Global::null(), first),
        };
        let args = WriteNodesArgs::<B, P> {
            groups: self.groups(stream)?,
            keys: keys.read_on(stream)?.byte_add((at * size_of::<K>()) as u64).cast(),
            ptrs,
            first_child,
            flip,
            kind: if is_leaf { LEAF } else { INNER },
            lanes: writers(storage.node().order, storage.mapping()),
            parents,
            nodes: storage.nodes_mut(stream)?,
        };
        let width = 1 << args.lanes;
        // SAFETY: the caller's contract; the addresses are for this stream.
        Ok(unsafe { launch::over(stream, self.count, width, THREADS)?.run(calls::write_nodes(&args)) }?)
    }

    /// Writes the bound of each piece, which the layer above needs together with the nodes' numbers. `last` are the
    /// bounds of the groups; without them there is nothing to the right. In the stream's order.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) from the launch.
    ///
    /// # Safety
    /// The keys belong to the layer's elements; `last` has a bound for each group, and `bounds` room for one per piece.
    pub(crate) unsafe fn bounds<B: Word, K: Pod>(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        flip: B,
        last: Option<&Buffer<B>>,
        bounds: &mut Buffer<B>,
    ) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let args = BoundsArgs::<B> {
            groups: self.groups(stream)?,
            keys: keys.read_on(stream)?.cast(),
            flip,
            last: optional(last, stream)?,
            bounds: bounds.write_on(stream)?,
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { launch::over(stream, self.count, 1, THREADS)?.run(calls::bounds(&args)) }?)
    }
}

/// Levels above nodes, up to one root.
pub(crate) struct Above<B> {
    levels: Vec<Layer>,
    /// The bounds of the nodes below, and then of the nodes of each level.
    pub(crate) bounds: Buffer<B>,
    below: u64,
}

impl<B: Word> Above<B> {
    /// Levels of `levels[i]` nodes each, above `below` nodes. The nodes' numbers are first those in `listed`, then
    /// ascend from `first`.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn new(
        device: &Device,
        below: u64,
        levels: &[u64],
        (mut listed, mut first): (&[u32], u64),
    ) -> Result<Self> {
        let (mut above, mut elements) = (Vec::with_capacity(levels.len()), below);
        for &nodes in levels {
            let mut layer = Layer::of_nodes(elements, first, nodes);
            let own;
            (own, listed) = listed.split_at(listed.len().min(nodes as usize));
            let fresh = nodes - own.len() as u64;
            if !own.is_empty() {
                let numbers = collected(own.iter().copied().chain(first as u32..(first + fresh) as u32))?;
                layer.numbers = Some(device.upload(&numbers)?);
            }
            above.push(layer);
            (elements, first) = (nodes, first + fresh);
        }
        let bounds = device.alloc((below + levels.iter().sum::<u64>()) as usize)?;
        Ok(Self { levels: above, bounds, below })
    }

    /// Writes them, above nodes whose bounds are there: which get their parents, unless all is new. In the stream's order;
    /// allocates nothing.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) from the launches.
    ///
    /// # Safety
    /// There is room for the nodes; as many nodes as there are to be below, and their bounds.
    pub(crate) unsafe fn write(
        &mut self,
        stream: &Stream,
        storage: &mut Storage,
        nodes: Ptrs<'_, u32>,
        is_new: bool,
    ) -> Result<()> {
        let (mut at, mut own, mut ptrs) = (0, self.below as usize, nodes);
        for (level, layer) in self.levels.iter().enumerate() {
            let (first, count) = self.levels.get(level + 1).map_or((0, 0), |above| (above.first, above.count));
            let parents = if is_new { parents(layer.count, first, count) } else { KEPT };
            // SAFETY: the caller's contract; then, the bounds and the numbers of the level before.
            unsafe { layer.write(stream, storage, (&self.bounds, at), ptrs, Form::<B>::INNER, parents)? };
            let args = BoundsArgs::<B> {
                groups: layer.groups(stream)?,
                keys: self.bounds.read_on(stream)?.byte_add((at * B::BYTES) as u64),
                flip: B::MIN,
                last: Global::null(),
                bounds: self.bounds.write_on(stream)?.byte_add((own * B::BYTES) as u64),
            };
            // SAFETY: as above, and a place for the bound of each node of the level.
            unsafe { launch::over(stream, layer.count, 1, THREADS)?.run(calls::bounds(&args)) }?;
            (at, own) = (own, own + layer.count as usize);
            ptrs = layer.numbers.as_ref().map_or(Ptrs::From(layer.first), Ptrs::Listed);
        }
        Ok(())
    }
}
