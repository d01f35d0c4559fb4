//! Host batches of look-ups on a device: see [`lanetree_frame::staging`].

mod short;
#[cfg(test)]
mod tests;

use super::over;
use super::staged::Strings;
use super::tuning::TUNING;
use crate::Cuart;
use crate::parts::Parts;
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_frame::staging::{Piece, PinnedBatch, PinnedStaging, Queries, Results, Route, Staging, is_set};
use lanetree_frame::uninit::{Uninit, Written};
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::GetArgs;
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::layout::MAX_KEY;
use lanetree_layout::Word;
use lanetree_runtime::{DeviceKind, PinnedBuffer, Stream};
use lanetree_simt::{Global, GlobalMut, KeysRef};

/// The memory of host batches.
#[derive(Debug, Default)]
pub(crate) struct HostBatches<V: Word> {
    pub(super) staging: Staging,
    pub(super) pinned: PinnedStaging<u8, V>,
}

impl<V: Word> Cuart<V> {
    /// Looks up a batch in main memory.
    pub(crate) fn get_across<'o>(
        &self,
        tree: &Parts,
        keys: ByteKeys<'_>,
        out: Uninit<'o, Option<V>>,
    ) -> Result<Written<'o>> {
        let bits = if tree.leaves.host.values.is_empty() { 1 } else { 2 };
        let route = Route {
            device: &self.device,
            results: Results::new([V::BYTES, 0], bits),
            // In a tree with long keys the kernel reads a query's bytes at each branch, and again at the leaf.
            reads_once: tree.query_words() > 0,
            launch: &|stream, keys: Strings<'_>, input, out| {
                let (queries, outputs) = (keys.keys_ref(input), (out.arrays[0].cast(), out.hits, out.pending));
                // SAFETY: staged queries, and room for their results.
                unsafe { tree.launch_get(stream, None, queries, keys.count(), outputs, V::MIN) }
            },
            collect: &|piece, out| take_results(tree, piece, out),
        };
        self.batches.staging.send(Strings(keys), out, &route)
    }

    /// The value of each key, or `miss`, from pinned memory to pinned memory: the bus carries keys and values in both
    /// directions at once, and the CPU copies nothing. All keys have one width and lie one after another. Bit `i % 32`
    /// of `hits[i / 32]` (the hit mask) says whether key `i` is present. Returns when the results are complete.
    ///
    /// ```
    /// use lanetree::{ByteKeysBuf, Cuart, Device};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let tree = Cuart::build(&device, &ByteKeysBuf::encode(&[3_u32, 5]), &[30_u32, 50])?;
    /// let (mut keys, mut values) = (device.pinned(8)?, device.pinned(2)?);
    /// keys.copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 4]);
    /// tree.get_many_pinned(4, &keys, 99, &mut values, None)?;
    /// assert_eq!(values[..], [50, 99]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyWidth`] for a width of 0 or of 2^32 bytes or more, or if the number of bytes is not a multiple of
    /// the width; [`Error::OutputLength`]; [`Error::LeavesInMainMemory`] for a tree on a device that has some;
    /// [`Error::Lost`]; [`Error::Runtime`] if the device has no room, or from its driver.
    pub fn get_many_pinned(
        &self,
        width: usize,
        keys: &PinnedBuffer<u8>,
        miss: V,
        values: &mut PinnedBuffer<V>,
        hits: Option<&mut PinnedBuffer<u32>>,
    ) -> Result<()> {
        let strings = ByteKeys::fixed(width, keys)?;
        if width > MAX_KEY {
            return Err(Error::KeyWidth { width, bytes: keys.len() });
        }
        let mut batch = PinnedBatch { queries: keys, width, values, hits, finds_keys: false };
        batch.check()?;
        let tree = self.parts()?;
        if self.device.kind() == DeviceKind::Host {
            batch.fill(self.get_many(strings)?, miss);
            return Ok(());
        }
        tree.check_on_device("Cuart::get_many_pinned")?;
        self.batches.pinned.send(&self.device, batch, &|stream, piece| {
            let (bytes, count) = (piece.queries.cast(), piece.count);
            let queries = KeysRef { bytes, offsets: Global::null(), width: width as u32, offset_bytes: 0 };
            let outputs = (piece.values, piece.hits, GlobalMut::null());
            // SAFETY: that many queries of the width, and room for their results.
            unsafe { tree.launch_get(stream, None, queries, count, outputs, miss) }
        })
    }

    /// Bytes, including pinned memory, that host batches of look-ups on a device have allocated and that are kept for
    /// the next batches. At most two pieces of 2^18 queries, of up to 4 MiB each, for each thread that has worked on
    /// such a batch at the same time; and for each call between pinned buffers, four pieces of 2^20 queries and 8 MiB.
    pub fn staging_bytes(&self) -> usize {
        self.batches.staging.bytes() + self.batches.pinned.bytes()
    }
}

/// Writes a piece's results, and does the CPU's part for its long keys.
fn take_results<'o, V: Word>(tree: &Parts, piece: &Piece<'_, Strings<'_>>, out: Uninit<'o, Option<V>>) -> Written<'o> {
    let (keys, values, hits, pending) = (piece.queries.0, piece.array::<V>(0), piece.bits(0), piece.bits(1));
    if keys.len() == 1 && keys.at(0).len() > MAX_KEY {
        return out.fill(|_| None);
    }
    let at_host = |i: usize| {
        let leaf = tree.host_leaf(values[i].widen());
        leaf.filter(|&(key, _)| key == keys.at(i)).map(|(_, value)| value)
    };
    match pending.is_empty() {
        true => piece.found(out, |value: V| value),
        false => out.fill(|i| if is_set(pending, i) { at_host(i) } else { is_set(hits, i).then(|| values[i]) }),
    }
}

impl Parts {
    /// Launches a look-up of `count` queries, with room for their values, and for the hit mask and the pending mask, or
    /// null. `lanes` compare a query with its leaf's key; if it is none, as many as were measured to be fastest for keys of the
    /// tree's length, which is more than one beyond four words.
    ///
    /// # Safety
    /// The addresses are memory of the stream's device that stays valid until the stream has done this, and that
    /// nothing else uses meanwhile except earlier work in the stream.
    pub(super) unsafe fn launch_get<V: Word>(
        &self,
        stream: &Stream,
        lanes: Option<u32>,
        queries: KeysRef,
        count: usize,
        (values, hits, pending): (GlobalMut<V>, GlobalMut<u32>, GlobalMut<u32>),
        miss: V,
    ) -> Result<()> {
        let tree = self.tree_ref(stream)?;
        let args = GetArgs { tree, queries, count: count as u64, values, hits, pending, miss };
        let (words, launch) = (self.query_words(), over(stream, count)?);
        let fastest = if words == 0 { TUNING.on(stream.device())?.long_lanes } else { 1 };
        let call = match lanes.unwrap_or(fastest) {
            1 => calls::get(words, &args),
            lanes => calls::get_tiled(lanes, &args),
        };
        // SAFETY: the tree is valid; the caller's promise for the rest.
        Ok(unsafe { launch.run(call) }?)
    }
}
