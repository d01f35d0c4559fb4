//! What the operations work on.

use bytemuck::Pod;
use lanetree_base::Result;
use lanetree_kernels_primitives as kernels;
use lanetree_runtime::{Buffer, Stream};

/// How many elements an operation takes from the start of a buffer.
#[derive(Clone, Copy, Debug)]
pub enum Count<'a> {
    /// So many.
    Host(usize),
    /// The number that an earlier operation in the same stream has written to a buffer.
    Device {
        /// `[1]` or more: the first element is the number; more than `at_most` counts as `at_most`.
        count: &'a Buffer<u64>,
        /// The number that the launch, the outputs and the scratch memory are sized for.
        at_most: usize,
    },
}

impl From<usize> for Count<'_> {
    fn from(count: usize) -> Self {
        Self::Host(count)
    }
}

impl Count<'_> {
    /// The largest possible number of elements.
    pub fn at_most(self) -> usize {
        match self {
            Self::Host(count) | Self::Device { at_most: count, .. } => count,
        }
    }

    /// The number, on a device whose memory the CPU can reach.
    pub(super) fn reached(self) -> usize {
        match self {
            Self::Host(count) => count,
            Self::Device { count, at_most } => {
                let count = count.as_slice().and_then(|count| count.first().copied()).unwrap_or(0);
                usize::try_from(count).unwrap_or(usize::MAX).min(at_most)
            }
        }
    }

    /// The number as the argument of a kernel in a stream.
    pub(super) fn argument(self, stream: &Stream) -> Result<kernels::Count> {
        let host = kernels::Count::host(self.at_most() as u64);
        Ok(match self {
            Self::Host(_) => host,
            Self::Device { count, .. } => kernels::Count { device: count.read_on(stream)?, ..host },
        })
    }
}

/// Keys to read.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a, K> {
    /// At least as many as `count` can be.
    pub keys: &'a Buffer<K>,
    /// How many of them.
    pub count: Count<'a>,
}

/// Keys to write.
#[derive(Debug)]
pub struct KeysMut<'a, K> {
    /// Out: as many as the operation may give.
    pub keys: &'a mut Buffer<K>,
    /// Out: `[1]` or more; the first element becomes the number of keys.
    pub count: &'a mut Buffer<u64>,
}

/// Keys and their values, to read.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a, K, V> {
    /// At least as many as `count` can be.
    pub keys: &'a Buffer<K>,
    /// As many.
    pub values: &'a Buffer<V>,
    /// How many of them.
    pub count: Count<'a>,
}

/// Keys and their values, to write.
#[derive(Debug)]
pub struct PairsMut<'a, K, V> {
    /// Out: as many as the operation may give.
    pub keys: &'a mut Buffer<K>,
    /// Out: as many.
    pub values: &'a mut Buffer<V>,
    /// Out: `[1]` or more; the first element becomes the number of pairs.
    pub count: &'a mut Buffer<u64>,
}

/// Pairs to read, or keys without values.
#[derive(Clone, Copy)]
pub(super) struct Input<'a, K, V> {
    pub(super) keys: &'a Buffer<K>,
    pub(super) values: Option<&'a Buffer<V>>,
    pub(super) count: Count<'a>,
}

/// Pairs to write, or keys without values.
pub(super) struct Output<'a, K, V> {
    pub(super) keys: &'a mut Buffer<K>,
    pub(super) values: Option<&'a mut Buffer<V>>,
    pub(super) count: &'a mut Buffer<u64>,
}

impl<'a, K, V> From<Keys<'a, K>> for Input<'a, K, V> {
    fn from(Keys { keys, count }: Keys<'a, K>) -> Self {
        Self { keys, values: None, count }
    }
}
impl<'a, K, V> From<Pairs<'a, K, V>> for Input<'a, K, V> {
    fn from(Pairs { keys, values, count }: Pairs<'a, K, V>) -> Self {
        Self { keys, values: Some(values), count }
    }
}
impl<'a, K, V> From<KeysMut<'a, K>> for Output<'a, K, V> {
    fn from(KeysMut { keys, count }: KeysMut<'a, K>) -> Self {
        Self { keys, values: None, count }
    }
}
impl<'a, K, V> From<PairsMut<'a, K, V>> for Output<'a, K, V> {
    fn from(PairsMut { keys, values, count }: PairsMut<'a, K, V>) -> Self {
        Self { keys, values: Some(values), count }
    }
}

impl<'a, K: Pod, V: Pod> Input<'a, K, V> {
    /// The keys and the values (none if there are none), on a device whose memory the CPU can reach.
    pub(super) fn reached(&self) -> (&'a [K], &'a [V]) {
        let count = self.count.reached();
        let values = self.values.and_then(Buffer::as_slice).map_or(&[][..], |values| &values[..count]);
        (&self.keys.as_slice().unwrap_or(&[])[..count], values)
    }
}

impl<'a, K: Pod, V: Pod> Output<'a, K, V> {
    /// The same for outputs; and the count.
    pub(super) fn reached(self) -> Option<(&'a mut [K], &'a mut [V], &'a mut u64)> {
        let values = self.values.and_then(Buffer::as_mut_slice).unwrap_or(&mut []);
        Some((self.keys.as_mut_slice()?, values, self.count.as_mut_slice()?.first_mut()?))
    }
}
