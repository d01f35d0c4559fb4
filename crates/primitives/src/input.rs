//! What the operations work on.

use bytemuck::Pod;
use core::any::Any;
use lanetree_base::Result;
use lanetree_kernels_primitives as kernels;
use lanetree_layout::{AnyKey, Value, Word};
use lanetree_runtime::{Buffer, Stream};

/// How many elements an operation takes from the start of a buffer.
#[derive(Clone, Copy, Debug)]
pub enum Count<'a> {
    /// A number that the host knows.
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
    /// At least [`Count::at_most`] keys.
    pub keys: &'a Buffer<K>,
    /// How many keys are read.
    pub count: Count<'a>,
}

/// Keys to write.
#[derive(Debug)]
pub struct KeysMut<'a, K> {
    /// Out: the largest possible number of results.
    pub keys: &'a mut Buffer<K>,
    /// Out: `[1]` or more; the first element becomes the number of keys.
    pub count: &'a mut Buffer<u64>,
}

/// Keys and their values, to read. Values `()`, a set's, are not read, and take no memory.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a, K, V> {
    /// At least [`Count::at_most`] keys.
    pub keys: &'a Buffer<K>,
    /// One value per key.
    pub values: &'a Buffer<V>,
    /// How many pairs are read.
    pub count: Count<'a>,
}

/// Keys and their values, to write.
#[derive(Debug)]
pub struct PairsMut<'a, K, V> {
    /// Out: the largest possible number of results.
    pub keys: &'a mut Buffer<K>,
    /// Out: one value per key.
    pub values: &'a mut Buffer<V>,
    /// Out: `[1]` or more; the first element becomes the number of pairs.
    pub count: &'a mut Buffer<u64>,
}

/// What an operation reads: [`Keys`], or [`Pairs`] of keys and values.
pub trait Elements: Parts<Key: AnyKey> {
    /// What the operation writes: [`KeysMut`] or [`PairsMut`].
    type Output<'a>: PartsMut<Key = Self::Key, Word = Self::Word>;
}

impl<K: AnyKey> Elements for Keys<'_, K> {
    type Output<'a> = KeysMut<'a, K>;
}
impl<K: AnyKey, V: Value> Elements for Pairs<'_, K, V> {
    type Output<'a> = PairsMut<'a, K, V>;
}

pub(crate) use parts::{Parts, PartsMut};

/// What only this crate calls and implements.
mod parts {
    use super::{Input, Output};
    use lanetree_layout::Word;

    /// Elements to read.
    pub trait Parts: Copy {
        /// Of the keys.
        type Key;
        /// Of the values; of keys without values, one that nothing reads.
        type Word: Word;

        #[doc(hidden)]
        fn input(&self) -> Input<'_, Self::Key, Self::Word>;
    }

    /// Elements to write.
    pub trait PartsMut {
        /// As [`Parts::Key`].
        type Key;
        /// As [`Parts::Word`].
        type Word: Word;

        #[doc(hidden)]
        fn output(&mut self) -> Output<'_, Self::Key, Self::Word>;
    }
}

/// The values as words; `None` for a set's values `()`.
pub(crate) fn words<V: Value>(values: &Buffer<V>) -> Option<&Buffer<V::Word>> {
    (values as &dyn Any).downcast_ref()
}

/// As [`words`].
pub(crate) fn words_mut<V: Value>(values: &mut Buffer<V>) -> Option<&mut Buffer<V::Word>> {
    (values as &mut dyn Any).downcast_mut()
}

/// Pairs to read, or keys without values.
#[derive(Clone, Copy)]
pub struct Input<'a, K, V> {
    pub(super) keys: &'a Buffer<K>,
    pub(super) values: Option<&'a Buffer<V>>,
    pub(super) count: Count<'a>,
}

/// Pairs to write, or keys without values.
pub struct Output<'a, K, V> {
    pub(super) keys: &'a mut Buffer<K>,
    pub(super) values: Option<&'a mut Buffer<V>>,
    pub(super) count: &'a mut Buffer<u64>,
}

impl<'a, K> Keys<'a, K> {
    /// As the input of an operation over values of any type.
    pub(super) fn without_values<W: Word>(self) -> Input<'a, K, W> {
        Input { keys: self.keys, values: None, count: self.count }
    }
}

impl<K: AnyKey> Parts for Keys<'_, K> {
    type Key = K;
    type Word = <() as Value>::Word;

    fn input(&self) -> Input<'_, K, Self::Word> {
        self.without_values()
    }
}
impl<K: AnyKey, V: Value> Parts for Pairs<'_, K, V> {
    type Key = K;
    type Word = V::Word;

    fn input(&self) -> Input<'_, K, V::Word> {
        Input { keys: self.keys, values: words(self.values), count: self.count }
    }
}
impl<K: AnyKey> PartsMut for KeysMut<'_, K> {
    type Key = K;
    type Word = <() as Value>::Word;

    fn output(&mut self) -> Output<'_, K, Self::Word> {
        Output { keys: self.keys, values: None, count: self.count }
    }
}
impl<K: AnyKey, V: Value> PartsMut for PairsMut<'_, K, V> {
    type Key = K;
    type Word = V::Word;

    fn output(&mut self) -> Output<'_, K, V::Word> {
        Output { keys: self.keys, values: words_mut(self.values), count: self.count }
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
