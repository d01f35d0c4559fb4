//! Checks of what the caller passes, before anything is launched.

use super::input::{Count, Input, Output};
use lanetree_base::error::check_buffer;
use lanetree_base::{Buffer, Result, Stream};
use lanetree_runtime::DeviceKind;

/// Checks that a buffer has at least `expected` elements and is of the stream's device.
pub(super) fn buffer<T: bytemuck::Pod>(
    stream: &Stream,
    what: &'static str,
    expected: usize,
    buffer: &Buffer<T>,
) -> Result<()> {
    check_buffer(stream.device(), what, expected, buffer)
}

/// Checks a number of elements.
pub(super) fn count(stream: &Stream, count: Count<'_>) -> Result<()> {
    match count {
        Count::Host(_) => Ok(()),
        Count::Device { count, .. } => buffer(stream, "the count's buffer", 1, count),
    }
}

impl<K: bytemuck::Pod, V: bytemuck::Pod> Input<'_, K, V> {
    pub(super) fn check(&self, stream: &Stream) -> Result<()> {
        count(stream, self.count)?;
        buffer(stream, "the keys' buffer", self.count.at_most(), self.keys)?;
        self.values.map_or(Ok(()), |values| buffer(stream, "the values' buffer", self.count.at_most(), values))
    }
}

impl<K: bytemuck::Pod, V: bytemuck::Pod> Output<'_, K, V> {
    /// For at most that many results.
    pub(super) fn check(&self, stream: &Stream, at_most: usize) -> Result<()> {
        buffer(stream, "the result count's buffer", 1, self.count)?;
        buffer(stream, "the result keys' buffer", at_most, self.keys)?;
        match &self.values {
            Some(values) => buffer(stream, "the result values' buffer", at_most, values),
            None => Ok(()),
        }
    }
}

/// Whether the CPU does the work itself.
pub(super) fn is_host(stream: &Stream) -> bool {
    stream.device().kind() == DeviceKind::Host
}
