//! Host batches of look-ups on a device: see [`crate::staging`].

mod short;
#[cfg(test)]
mod tests;

use super::over;
use crate::byte_keys::{ByteKeys, Offsets};
use crate::cuart::Cuart;
use crate::staging::{Piece, PinnedBatch, PinnedStaging, Queries, Results, Route, Staging};
use crate::{Error, Result};
use lanetree_kernels_cuart::GetArgs;
use lanetree_launch::cuart::lookup;
use lanetree_layout::Word;
use lanetree_layout::cuart::MAX_KEY;
use lanetree_runtime::{DeviceKind, PinnedBuffer, Stream};
use lanetree_simt::{Global, GlobalMut, KeysRef};

/// The memory of host batches.
#[derive(Debug, Default)]
pub(in crate::cuart) struct HostBatches<V: Word> {
    pub(super) staging: Staging,
    pub(super) pinned: PinnedStaging<u8, V>,
}

/// Byte strings as they are staged: their bytes, and from the next 8-byte boundary on their offsets, counted from the
/// first one's and so always of 32 bits, unless all strings are of one width by their nature.
#[derive(Clone, Copy)]
struct Strings<'k>(ByteKeys<'k>);

impl<'k> Strings<'k> {
    /// Of one string that is too long to be a key, nothing: it needs not be sent, and kernels do not know such lengths.
    fn bytes(&self) -> &'k [u8] {
        let (keys, len) = (self.0, self.0.len());
        let bytes = match keys.offsets() {
            _ if len == 0 => &[],
            Offsets::Fixed { .. } => keys.bytes(),
            Offsets::U32(offsets) => &keys.bytes()[offsets[0] as usize..offsets[len] as usize],
            Offsets::U64(offsets) => &keys.bytes()[offsets[0] as usize..offsets[len] as usize],
        };
        if len == 1 && bytes.len() > MAX_KEY { &[] } else { bytes }
    }

    /// The width that kernels are told.
    fn width(&self) -> Option<usize> {
        match self.0.offsets() {
            Offsets::Fixed { width, .. } => Some(if width > MAX_KEY { 0 } else { width }),
            _ => None,
        }
    }

    /// The strings as kernels see them, once they are staged.
    fn keys_ref(&self, at: Global<u64>) -> KeysRef {
        match self.width() {
            Some(width) => KeysRef { bytes: at, offsets: Global::null(), width: width as u32, offset_bytes: 0 },
            None => {
                let offsets = at.byte_add(self.bytes().len().next_multiple_of(8) as u64);
                KeysRef { bytes: at, offsets, width: 0, offset_bytes: 4 }
            }
        }
    }
}

impl Queries for Strings<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        let bytes = self.bytes().len().next_multiple_of(8);
        match self.width() {
            // Without a byte there would be no memory for kernels to point at.
            Some(_) => bytes.max(8),
            None => bytes + 4 * (self.0.len() + 1),
        }
    }

    fn split(&self, at: usize) -> (Self, Self) {
        (Self(self.0.slice(0..at)), Self(self.0.slice(at..self.0.len())))
    }

    fn write(&self, to: &mut [u8]) {
        let bytes = self.bytes();
        to[..bytes.len()].copy_from_slice(bytes);
        let to = &mut to[bytes.len().next_multiple_of(8)..];
        match self.0.offsets() {
            Offsets::Fixed { .. } => {}
            Offsets::U32(offsets) => rebase(offsets, bytes.len(), bytemuck::cast_slice_mut(to)),
            Offsets::U64(offsets) => rebase(offsets, bytes.len(), bytemuck::cast_slice_mut(to)),
        }
    }
}

/// Counts offsets from the first one; the last one becomes `end`.
fn rebase<O: Word>(offsets: &[O], end: usize, to: &mut [u32]) {
    let first = offsets[0].widen();
    to.iter_mut().zip(offsets).for_each(|(to, offset)| *to = (offset.widen() - first) as u32);
    to[offsets.len() - 1] = end as u32;
}

impl<V: Word> Cuart<V> {
    /// Looks up a batch in main memory.
    pub(in crate::cuart) fn get_across(&self, keys: ByteKeys<'_>, out: &mut [Option<V>]) -> Result<()> {
        let bits = if self.leaves.host.values.is_empty() { 1 } else { 2 };
        let route = Route {
            device: &self.device,
            results: Results { arrays: [V::BYTES, 0], bits },
            // Of a tree with long keys the kernel reads a query's bytes where it branches, and again at its leaf.
            reads_once: self.query_words() > 0,
            launch: &|stream, keys: Strings<'_>, input, out| {
                let queries = keys.keys_ref(input);
                self.launch_get(stream, queries, keys.count(), (out.arrays[0].cast(), out.found, out.pending), V::MIN)
            },
            collect: &|piece, out| self.take_results(piece, out),
        };
        self.batches.staging.send(Strings(keys), out, &route)
    }

    /// Takes a piece's results, and does the CPU's part of its long keys.
    fn take_results(&self, piece: &Piece<'_, Strings<'_>>, out: &mut [Option<V>]) {
        let (keys, values) = (piece.queries.0, piece.array::<V>(0));
        piece.place(out, |i| values[i]);
        for (&word, first) in piece.bits(1).iter().zip((0..).step_by(32)) {
            let mut left = word;
            while left != 0 {
                let i = first + left.trailing_zeros() as usize;
                left &= left - 1;
                let leaf = self.host_leaf(values[i].widen());
                out[i] = leaf.filter(|&(key, _)| key == keys.at(i)).map(|(_, value)| value);
            }
        }
        if keys.len() == 1 && keys.at(0).len() > MAX_KEY {
            out[0] = None;
        }
    }

    /// Launches a look-up: of queries that are on the tree's device, as many; with room for their values, and for
    /// found and pending bits, or null.
    pub(super) fn launch_get(
        &self,
        stream: &Stream,
        queries: KeysRef,
        count: usize,
        (values, found, pending): (GlobalMut<V>, GlobalMut<u32>, GlobalMut<u32>),
        miss: V,
    ) -> Result<()> {
        let args = GetArgs { tree: self.tree_ref(), queries, count: count as u64, values, found, pending, miss };
        Ok(lookup::get(self.query_words(), &args, over(stream, count)?)?)
    }

    /// The value of each key, or `miss`, from page-locked memory to page-locked memory: the bus carries the keys and
    /// the values, both ways at once, and the CPU copies nothing. Keys are of one width, one behind the other. Bit
    /// `i % 32` of `found[i / 32]` tells whether key `i` is there. Returns when the results are there.
    ///
    /// ```
    /// use lanetree::{ByteKeysBuf, Cuart, Device};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let tree = Cuart::build(&device, &ByteKeysBuf::encode(&[3_u32, 5]), &[30_u32, 50])?;
    /// let (mut keys, mut values) = (device.pinned(8)?, device.pinned(2)?);
    /// keys.copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 4]);
    /// tree.get_many_pinned(4, &keys, &mut values, None, 99)?;
    /// assert_eq!(values[..], [50, 99]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyWidth`] for a width of 0 or of 2^32 bytes or more, or one that the number of bytes is no multiple
    /// of; [`Error::OutputLength`]; [`Error::LeavesInMainMemory`] for a tree on a device that has some;
    /// [`Error::Runtime`] where the device has no room, or from its driver.
    pub fn get_many_pinned(
        &self,
        width: usize,
        keys: &PinnedBuffer<u8>,
        values: &mut PinnedBuffer<V>,
        found: Option<&mut PinnedBuffer<u32>>,
        miss: V,
    ) -> Result<()> {
        let strings = ByteKeys::fixed(width, keys)?;
        if width > MAX_KEY {
            return Err(Error::KeyWidth { width, bytes: keys.len() });
        }
        let mut batch = PinnedBatch { queries: keys, width, values, found };
        batch.check()?;
        if self.device.kind() == DeviceKind::Host {
            batch.fill(self.get_many(strings)?, miss);
            return Ok(());
        }
        self.check_not_lost()?;
        self.check_on_device("Cuart::get_many_pinned")?;
        self.batches.pinned.send(&self.device, batch, &|stream, bytes, count, values, found| {
            let bytes = bytes.cast();
            let queries = KeysRef { bytes, offsets: Global::null(), width: width as u32, offset_bytes: 0 };
            self.launch_get(stream, queries, count, (values, found, GlobalMut::null()), miss)
        })
    }

    /// Bytes that host batches of look-ups on a device have taken, page-locked ones included, and that are kept for
    /// the next ones: at most those of two pieces of 2^18 queries, which have up to 4 MiB, for each thread that has
    /// worked on such a batch at the same time; and for each call between page-locked buffers, of four of 2^20 queries
    /// and 8 MiB.
    pub fn staging_bytes(&self) -> usize {
        self.batches.staging.bytes() + self.batches.pinned.bytes()
    }
}
