//! What is sorted: keys, or pairs of keys and values.

use crate::input::{words, words_mut};
use lanetree_base::{AnyKey, Buffer, Value, Word};

/// What [`radix_sort`](crate::radix_sort) reads: keys, `&Buffer<K>`, or pairs, `(&Buffer<K>, &Buffer<V>)`. `W` is the
/// word that the scratch memory has room for: of pairs the values' own, of keys any. Values `()` are not read.
pub trait SortInput<W: Word>: Sealed {
    /// The type of the keys.
    type Key: AnyKey;
    /// Where the sorted elements go.
    type Output<'a>: SortOutput<W, Key = Self::Key>;

    #[doc(hidden)]
    fn parts(&self) -> (&Buffer<Self::Key>, Option<&Buffer<W>>);
}

/// What a sort writes: keys, `&mut Buffer<K>`, or pairs, `(&mut Buffer<K>, &mut Buffer<V>)`.
pub trait SortOutput<W: Word>: Sealed {
    /// The type of the keys.
    type Key: AnyKey;

    #[doc(hidden)]
    fn parts<'a>(self) -> (&'a mut Buffer<Self::Key>, Option<&'a mut Buffer<W>>)
    where
        Self: 'a;
}

/// Nobody else implements these.
pub trait Sealed {}

impl<K: AnyKey> Sealed for &Buffer<K> {}
impl<K: AnyKey, W: Word> SortInput<W> for &Buffer<K> {
    type Key = K;
    type Output<'a> = &'a mut Buffer<K>;

    fn parts(&self) -> (&Buffer<K>, Option<&Buffer<W>>) {
        (self, None)
    }
}

impl<K: AnyKey, V: Value> Sealed for (&Buffer<K>, &Buffer<V>) {}
impl<K: AnyKey, V: Value> SortInput<V::Word> for (&Buffer<K>, &Buffer<V>) {
    type Key = K;
    type Output<'a> = (&'a mut Buffer<K>, &'a mut Buffer<V>);

    fn parts(&self) -> (&Buffer<K>, Option<&Buffer<V::Word>>) {
        (self.0, words(self.1))
    }
}

impl<K: AnyKey> Sealed for &mut Buffer<K> {}
impl<'o, K: AnyKey, W: Word> SortOutput<W> for &'o mut Buffer<K> {
    type Key = K;

    fn parts<'a>(self) -> (&'a mut Buffer<K>, Option<&'a mut Buffer<W>>)
    where
        'o: 'a,
    {
        (self, None)
    }
}

impl<K: AnyKey, V: Value> Sealed for (&mut Buffer<K>, &mut Buffer<V>) {}
impl<'o, K: AnyKey, V: Value> SortOutput<V::Word> for (&'o mut Buffer<K>, &'o mut Buffer<V>) {
    type Key = K;

    fn parts<'a>(self) -> (&'a mut Buffer<K>, Option<&'a mut Buffer<V::Word>>)
    where
        'o: 'a,
    {
        (self.0, words_mut(self.1))
    }
}
