//! A layer of the tree as it is being written: elements in groups, and the nodes that each group goes into.

use crate::storage::Storage;
use bytemuck::Pod;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Device, Result, Stream};
use lanetree_kernels_cubpt::layout::{INNER, LEAF};
use lanetree_kernels_cubpt::{BoundsArgs, Groups, WriteNodesArgs, calls};
use lanetree_layout::Word;
use lanetree_runtime::Buffer;
use lanetree_simt::Global;

/// Keys and what stands beside them: values in leaves, children in inner nodes.
pub(crate) struct Elements<K, P> {
    pub(crate) keys: Buffer<K>,
    pub(crate) ptrs: Buffer<P>,
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

/// Groups of elements, and their pieces.
pub(crate) struct Layer {
    /// Where each group's elements begin, and all end.
    pub(crate) elements: Buffer<u64>,
    /// Where each group's pieces begin, and all end.
    pub(crate) pieces: Buffer<u64>,
    /// The group of each piece.
    pub(crate) of_piece: Buffer<u32>,
    /// The node of each piece.
    pub(crate) numbers: Buffer<u32>,
    /// Pieces.
    pub(crate) count: usize,
}

impl Layer {
    /// One group of so many elements, in these nodes.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where the device has no room.
    pub(crate) fn of_nodes(device: &Device, elements: u64, numbers: &[u32]) -> Result<Self> {
        Ok(Self {
            elements: device.upload(&[0, elements])?,
            pieces: device.upload(&[0, numbers.len() as u64])?,
            of_piece: device.alloc_zeroed(numbers.len())?,
            numbers: device.upload(numbers)?,
            count: numbers.len(),
        })
    }

    fn groups(&self, stream: &Stream) -> Result<Groups> {
        Ok(Groups {
            elements: self.elements.read_on(stream)?,
            pieces: self.pieces.read_on(stream)?,
            of_piece: self.of_piece.read_on(stream)?,
            numbers: self.numbers.read_on(stream)?,
            count: self.count as u64,
        })
    }

    /// Writes the nodes.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) from the launch.
    ///
    /// # Safety
    /// There is room for the nodes; the elements are those of the layer, and children are nodes.
    pub(crate) unsafe fn write<B: Word, K: Pod, P: Word>(
        &self,
        stream: &Stream,
        storage: &mut Storage,
        elements: &Elements<K, P>,
        Form { flip, is_leaf }: Form<B>,
    ) -> Result<()> {
        let threads = self.count as u64 * u64::from(storage.node().order);
        if threads == 0 {
            return Ok(());
        }
        let args = WriteNodesArgs::<B, P> {
            groups: self.groups(stream)?,
            keys: elements.keys.read_on(stream)?.cast(),
            ptrs: elements.ptrs.read_on(stream)?,
            flip,
            kind: if is_leaf { LEAF } else { INNER },
            nodes: storage.nodes_mut(stream)?,
        };
        // SAFETY: the caller's contract; the addresses are for this stream.
        Ok(unsafe { launch::over(stream, threads, 1, THREADS)?.run(calls::write_nodes(&args)) }?)
    }

    /// What the layer above gets beside the numbers: the bound of each piece. `last` are the bounds of the groups; without them
    /// there is nothing to the right.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime).
    ///
    /// # Safety
    /// The keys are those of the layer's elements, and there is a bound for each group.
    pub(crate) unsafe fn above<B: Word, K: Pod>(
        &self,
        stream: &Stream,
        keys: &Buffer<K>,
        flip: B,
        last: Option<&Buffer<B>>,
    ) -> Result<Buffer<B>> {
        let mut bounds = stream.device().alloc(self.count)?;
        if self.count == 0 {
            return Ok(bounds);
        }
        let args = BoundsArgs::<B> {
            groups: self.groups(stream)?,
            keys: keys.read_on(stream)?.cast(),
            flip,
            last: last.map_or(Ok(Global::null()), |last| last.read_on(stream))?,
            bounds: bounds.write_on(stream)?,
        };
        // SAFETY: the caller's contract; a bound for each piece.
        unsafe { launch::over(stream, self.count as u64, 1, THREADS)?.run(calls::bounds(&args)) }?;
        Ok(bounds)
    }
}
