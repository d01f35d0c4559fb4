//! Two keys as one.

use crate::{AnyKey, Key, KeyWord, Word};
use bytemuck::{Pod, Zeroable};
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// The word of a composite key: of 64 bits for two keys of 32, otherwise of 128.
pub type CompositeBits<A, B> = <<A as AnyKey>::Bits as Word>::With<<B as AnyKey>::Bits>;

/// The word of a composite key of two ordered words.
#[inline(always)]
pub fn composite_word<A: Word, B: Word>(first: A, second: B) -> A::With<B> {
    let (first, second) = (first.widen(), second.widen());
    KeyWord::from_parts(if B::BITS == 64 { [second, first] } else { [first << 32 | second, first >> 32] })
}

/// A pair of keys as one key, ordered by the first, then by the second: a stock and a time, a tenant and an id.
///
/// It takes 8 bytes if both keys have 32 bits, otherwise 16. The keys that share a first key are a range,
/// [`Composite::all_of`]. Files refuse composite keys (feature `files`), since their names don't tell of what they are composed.
///
/// It holds one number, by which kernels compare it: made by [`Composite::new`], not by a cast from a struct of both.
///
/// ```
/// # extern crate lanetree_layout as lanetree;
/// use lanetree::Composite;
///
/// let key = Composite::new(7_u32, -5_i64);
/// assert_eq!((key.first(), key.second()), (7, -5));
/// assert!(Composite::new(7, -5) < Composite::new(7, 3) && Composite::new(7, 3) < Composite::new(8, -5));
/// assert!(Composite::all_of(7_u32).contains(&key));
/// ```
#[repr(transparent)]
pub struct Composite<A: Key, B: Key>(CompositeBits<A, B>, PhantomData<(A, B)>);

impl<A: Key, B: Key> Composite<A, B> {
    /// The key of two.
    #[inline(always)]
    pub fn new(first: A, second: B) -> Self {
        Self(composite_word(first.encode(), second.encode()), PhantomData)
    }

    /// The first key.
    #[inline(always)]
    pub fn first(self) -> A {
        A::decode(KeyWord::truncate((self.wide() >> B::Bits::BITS) as u64))
    }

    /// The second key.
    #[inline(always)]
    pub fn second(self) -> B {
        B::decode(KeyWord::truncate(self.wide() as u64))
    }

    /// All keys with this first one, as a range.
    pub fn all_of(first: A) -> core::ops::RangeInclusive<Self> {
        Self::new(first, B::MIN)..=Self::new(first, B::MAX)
    }

    #[inline(always)]
    fn wide(self) -> u128 {
        let [low, high] = self.0.parts();
        u128::from(high) << 64 | u128::from(low)
    }
}

impl<A: Key, B: Key> From<(A, B)> for Composite<A, B> {
    #[inline(always)]
    fn from((first, second): (A, B)) -> Self {
        Self::new(first, second)
    }
}

impl<A: Key, B: Key> From<Composite<A, B>> for (A, B) {
    #[inline(always)]
    fn from(key: Composite<A, B>) -> Self {
        (key.first(), key.second())
    }
}

// SAFETY: transparent over a word, every bit pattern of which is a key.
unsafe impl<A: Key, B: Key> Zeroable for Composite<A, B> {}
// SAFETY: as above.
unsafe impl<A: Key, B: Key> Pod for Composite<A, B> {}

impl<A: Key, B: Key> Clone for Composite<A, B> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: Key, B: Key> Copy for Composite<A, B> {}

impl<A: Key, B: Key> PartialEq for Composite<A, B> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<A: Key, B: Key> Eq for Composite<A, B> {}

impl<A: Key, B: Key> PartialOrd for Composite<A, B> {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<A: Key, B: Key> Ord for Composite<A, B> {
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<A: Key, B: Key> Hash for Composite<A, B> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// The key of both defaults.
impl<A: Key, B: Key> Default for Composite<A, B> {
    fn default() -> Self {
        Self::new(A::default(), B::default())
    }
}

impl<A: Key, B: Key> fmt::Display for Composite<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.first(), self.second())
    }
}

impl<A: Key, B: Key> fmt::Debug for Composite<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<A: Key, B: Key> crate::word::sealed::Sealed for Composite<A, B> {}

impl<A: Key, B: Key> AnyKey for Composite<A, B> {
    type Bits = CompositeBits<A, B>;
    const FLIP: Self::Bits = <Self::Bits as KeyWord>::MIN;
    const MIN: Self = Self(<Self::Bits as KeyWord>::MIN, PhantomData);
    // Of 96 bits the word has more than the keys.
    const MAX: Self =
        Self(<Self::Bits as KeyWord>::LOW_ONES[((A::Bits::BITS + B::Bits::BITS) / 32 - 1) as usize], PhantomData);
    const NAME: &'static str = "composite";
    const GROUP_BITS: u32 = B::Bits::BITS;
    const HAS_DISTANCE: bool = B::HAS_DISTANCE;

    #[inline(always)]
    fn encode(self) -> Self::Bits {
        self.0
    }
    #[inline(always)]
    fn decode(bits: Self::Bits) -> Self {
        Self(bits, PhantomData)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{F32, F64};
    use std::string::ToString;

    fn ascends<A: Key, B: Key>(pairs: &[(A, B)], bytes: usize) {
        assert_eq!(size_of::<Composite<A, B>>(), bytes);
        for two in pairs.windows(2) {
            let [below, above] = [two[0], two[1]].map(Composite::<A, B>::from);
            assert!(below < above && below.encode() < above.encode(), "{below} < {above}");
        }
        for &pair in pairs {
            let key = Composite::from(pair);
            assert_eq!(<(A, B)>::from(key), pair);
            assert_eq!(Composite::<A, B>::decode(key.encode()), key);
            assert!(Composite::all_of(pair.0).contains(&key));
        }
    }

    #[test]
    fn the_smallest_and_the_largest_key_are_those_of_their_parts() {
        fn of<A: Key, B: Key>() {
            assert_eq!(Composite::<A, B>::MIN, Composite::new(A::MIN, B::MIN));
            assert_eq!(Composite::<A, B>::MAX, Composite::new(A::MAX, B::MAX));
            assert!(Composite::all_of(A::MAX).contains(&Composite::<A, B>::MAX));
        }
        macro_rules! all {
            ($($a:ident: $($b:ident)*;)*) => { $($(of::<$a, $b>();)*)* };
        }
        all! {
            u32: u32 u64 i32 i64 F32 F64;
            u64: u32 u64 i32 i64 F32 F64;
            i32: u32 u64 i32 i64 F32 F64;
            i64: u32 u64 i32 i64 F32 F64;
            F32: u32 u64 i32 i64 F32 F64;
            F64: u32 u64 i32 i64 F32 F64;
        }
    }

    #[test]
    fn composite_keys_are_ordered_by_the_first_then_by_the_second() {
        ascends(&[(0_u32, u32::MAX), (1, 0), (1, 1), (u32::MAX, u32::MAX)], 8);
        ascends(&[(-1_i32, i32::MAX), (0, i32::MIN), (0, -1), (0, 0), (i32::MAX, 0)], 8);
        ascends(&[(3_u32, i64::MIN), (3, -1), (3, 0), (3, i64::MAX), (4, i64::MIN)], 16);
        ascends(&[(i64::MIN, 9_u32), (-1, 0), (-1, 1), (0, 0), (i64::MAX, u32::MAX)], 16);
        let number = F64::new;
        ascends(&[(1_u64, number(-2.5)), (1, number(-0.0)), (1, number(0.0)), (1, number(3.0)), (2, number(-9.0))], 16);
        assert!(Composite::new(1_u32, 2_u32) < Composite::MAX && Composite::<u32, u32>::MIN < Composite::new(0, 1));
        assert_eq!(Composite::new(1_u32, -2_i64).to_string(), "(1, -2)");
    }
}
