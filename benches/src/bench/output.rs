//! What calls on the device write: cleared before each run, so that nothing of a run before it is taken for an answer.

use bytemuck::Pod;
use lanetree::{
    Buffer, DeviceAggregates, DeviceMatches, DeviceRangeMatches, DeviceRanges, Result, Stream, Word, intervals,
    multimap,
};
use lanetree_joins::Kept;

/// Buffers that a call writes.
pub(crate) trait Output {
    /// Fills them with zeros.
    ///
    /// # Errors
    /// The device's.
    fn clear(&mut self, stream: &Stream) -> Result<()>;
}

impl<T: Pod> Output for Buffer<T> {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        Ok(self.fill_zero(stream)?)
    }
}

impl<O: Output> Output for &mut O {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        O::clear(self, stream)
    }
}

impl<A: Output, B: Output> Output for (A, B) {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        self.0.clear(stream)?;
        self.1.clear(stream)
    }
}

impl<A: Output, B: Output, C: Output> Output for (A, B, C) {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        self.0.clear(stream)?;
        (&mut self.1, &mut self.2).clear(stream)
    }
}

impl<K: Word, V: Pod> Output for DeviceRanges<K, V> {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        (&mut self.offsets, &mut self.keys, &mut self.values).clear(stream)
    }
}

impl<K: Word, V: Word> Output for DeviceRangeMatches<K, V> {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        (&mut self.pairs, &mut self.probes).clear(stream)
    }
}

impl Output for DeviceMatches {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        (&mut self.count, &mut self.probes, &mut self.rows).clear(stream)
    }
}

impl<V: Word, N: Word> Output for multimap::DeviceJoin<V, N> {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        (&mut self.offsets, &mut self.probes, &mut self.rows).clear(stream)
    }
}

impl<V: Word> Output for multimap::DeviceRows<V> {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        (&mut self.offsets, &mut self.values).clear(stream)
    }
}

impl<V: Word> Output for intervals::DeviceRows<V> {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        (&mut self.offsets, &mut self.rows).clear(stream)
    }
}

impl<A: Pod> Output for DeviceAggregates<A> {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        self.values.clear(stream)
    }
}

impl<K: Word> Output for Kept<K> {
    fn clear(&mut self, stream: &Stream) -> Result<()> {
        (&mut self.keys, &mut self.amounts).clear(stream)
    }
}
