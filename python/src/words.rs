//! What a device's array is made of, and memory that calls use again.

use crate::errors::{raise_runtime, value_error};
use crate::host::wrong_width;
use bytemuck::Pod;
use lanetree::Buffer;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a device's array is made of: words of 1, 4 or 8 bytes.
pub(crate) enum Words {
    W8(Buffer<u8>),
    W32(Buffer<u32>),
    W64(Buffer<u64>),
}

macro_rules! each_width {
    ($words:expr, $buffer:ident => $result:expr) => {
        match $words {
            Words::W8($buffer) => $result,
            Words::W32($buffer) => $result,
            Words::W64($buffer) => $result,
        }
    };
}

macro_rules! words {
    ($($word:ident $width:ident)*) => {$(
        impl From<Buffer<$word>> for Words {
            fn from(buffer: Buffer<$word>) -> Self {
                Self::$width(buffer)
            }
        }
    )*};
}
words! { u8 W8  u32 W32  u64 W64 }

pub(crate) use each_width;

impl Words {
    pub(crate) fn alloc(device: &lanetree::Device, len: usize, width: usize) -> PyResult<Self> {
        match width {
            1 => device.alloc(len).map(Self::W8),
            4 => device.alloc(len).map(Self::W32),
            8 => device.alloc(len).map(Self::W64),
            _ => return Err(value_error(format!("no elements of {width} bytes"))),
        }
        .map_err(raise_runtime)
    }

    pub(crate) fn len(&self) -> usize {
        each_width!(self, buffer => buffer.len())
    }

    fn bytes(&self) -> usize {
        self.len() * self.width()
    }

    pub(crate) fn read<T: Pod>(&self) -> PyResult<&Buffer<T>> {
        let width = self.width();
        each_width!(self, buffer => buffer.cast_ref()).ok_or_else(|| wrong_width(size_of::<T>(), width))
    }

    pub(crate) fn write<T: Pod>(&mut self) -> PyResult<&mut Buffer<T>> {
        let width = self.width();
        each_width!(self, buffer => buffer.cast_mut()).ok_or_else(|| wrong_width(size_of::<T>(), width))
    }

    pub(crate) fn width(&self) -> usize {
        match self {
            Self::W8(_) => 1,
            Self::W32(_) => 4,
            Self::W64(_) => 8,
        }
    }
}

/// Buffers that earlier calls had, for the next ones of the same size. A pool hands memory out again only when the device has been
/// waited for; a buffer knows which streams use it, so it is used again at once, and the next stream waits.
#[derive(Default)]
pub(crate) struct Cache {
    /// The last one is the one that came back last.
    free: Mutex<VecDeque<Words>>,
}

impl Cache {
    /// The most buffers, and the most bytes of all.
    const MOST: (usize, usize) = (16, 1 << 30);

    fn free(&self) -> MutexGuard<'_, VecDeque<Words>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer that it keeps.
    pub(crate) fn find(&self, len: usize, width: usize) -> Option<Words> {
        let mut free = self.free();
        let last = free.iter().rposition(|words| (words.len(), words.width()) == (len, width));
        last.and_then(|at| free.remove(at))
    }

    pub(crate) fn alloc(&self, device: &lanetree::Device, len: usize, width: usize) -> PyResult<Words> {
        match self.find(len, width) {
            Some(words) => Ok(words),
            None => Words::alloc(device, len, width).or_else(|error| {
                // There may be room without what is kept here.
                if self.clear() == 0 { Err(error) } else { Words::alloc(device, len, width) }
            }),
        }
    }

    /// Keeps a buffer, which no other library uses in a stream that it does not know.
    pub(crate) fn put(&self, words: Words) {
        let mut dropped = Vec::new();
        let mut free = self.free();
        free.push_back(words);
        let mut bytes: usize = free.iter().map(Words::bytes).sum();
        while free.len() > Self::MOST.0 || bytes > Self::MOST.1 {
            let Some(oldest) = free.pop_front() else { break };
            bytes -= oldest.bytes();
            dropped.push(oldest);
        }
        drop(free);
    }

    /// Frees what it keeps, and returns the bytes.
    pub(crate) fn clear(&self) -> usize {
        let free = core::mem::take(&mut *self.free());
        free.iter().map(Words::bytes).sum()
    }
}
