//! A batch of updates in device form.

use lanetree_frame::Result;
use lanetree_frame::byte_keys::DeviceKeys;
use lanetree_frame::pointers::optional_mut;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Stream};
use lanetree_simt::{Global, GlobalMut, KeysRef};

/// A batch of updates in a stream.
pub(super) struct UpdateBatch<'a, V> {
    pub(super) keys: &'a DeviceKeys,
    pub(super) queries: KeysRef,
    pub(super) values: Global<V>,
    /// Found bits, or null.
    pub(super) hits: GlobalMut<u32>,
    /// In which order it is processed; null for its own.
    pub(super) picks: Global<u32>,
    pub(super) count: usize,
}

impl<'a, V: Word> UpdateBatch<'a, V> {
    /// A batch of keys, with at least that many values, for kernels launched next on the stream.
    pub(super) fn new(
        stream: &Stream,
        keys: &'a DeviceKeys,
        values: &'a Buffer<V>,
        hits: Option<&'a mut Buffer<u32>>,
    ) -> Result<Self> {
        let (queries, values) = (keys.keys_ref(stream)?, values.read_on(stream)?);
        let hits = optional_mut(hits, stream)?;
        Ok(Self { keys, queries, values, hits, picks: Global::null(), count: keys.len() })
    }
}
