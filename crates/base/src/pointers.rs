//! Optional buffers of a kernel.

use crate::{Buffer, Result, Stream};
use bytemuck::Pod;
use lanetree_simt::{Global, GlobalMut};

/// [`Buffer::read_on`]; null if there is no buffer.
pub fn optional<T: Pod>(buffer: Option<&Buffer<T>>, stream: &Stream) -> Result<Global<T>> {
    buffer.map_or(Ok(Global::null()), |buffer| Ok(buffer.read_on(stream)?))
}

/// [`Buffer::write_on`]; null if there is no buffer.
pub fn optional_mut<T: Pod>(buffer: Option<&mut Buffer<T>>, stream: &Stream) -> Result<GlobalMut<T>> {
    buffer.map_or(Ok(GlobalMut::null()), |buffer| Ok(buffer.write_on(stream)?))
}
