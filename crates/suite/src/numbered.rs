//! Which keys the numbers of cases stand for.

use crate::lent::Lender;
use core::any::Any;
use core::fmt::Debug;
use lanetree::{AnyKey, Composite, Key, KeyWord, Result};

/// A key of an index. Different numbers may stand for the same key.
pub trait Numbered: Ord + Clone + Debug + Send + Sync + 'static {
    /// The number of the smallest key that has one; no smaller key exists.
    const SMALLEST: u16;
    /// The number of the largest key that has one; for keys of a fixed size, no larger key exists.
    const LARGEST: u16;

    /// The key that a number stands for.
    fn key(number: u16) -> Self;

    /// One of 2^32 keys or more, in no order: different numbers below 2^32 stand for different keys.
    fn distinct(number: u64) -> Self;

    /// One of the keys that words stand for: neighbours for neighbouring words, mostly; not every word has one of its own.
    fn of_word(word: u64) -> Self;

    /// The first parts of a key, at most `_len`, where it has parts.
    #[must_use]
    fn cut(self, _len: usize) -> Self {
        self
    }

    /// Keys in a lender's memory, a `Buffer<Self>`; `None` for keys that are in no such buffers.
    fn lent(_lender: &Lender, _keys: &[Self]) -> Option<Result<Box<dyn Any>>> {
        None
    }

    /// Whether the distance of two keys is a number.
    const HAS_DISTANCE: bool = false;

    /// The key's group, and its place there, by which the distance of two keys of a group is measured.
    fn located(&self) -> (u128, u128) {
        (0, 0)
    }

    /// Whether a key begins with another; never, if keys have no parts.
    fn begins_with(&self, _prefix: &Self) -> bool {
        false
    }
}

/// Mostly one of a few hundred keys, five apart, so that queries hit and neighbours differ; some that are hard to tell apart
/// by a few of their bits, some spread over the whole key space, some in its middle, where signed keys change their sign, some
/// at both its ends, and some anywhere.
fn fixed<K: AnyKey>(number: u16) -> K {
    let near = u128::from(number % 8);
    let bits = 8 * K::Bits::BYTES as u32;
    let low = u128::from(number % 4096);
    let word = match number >> 12 {
        0..=6 => u128::from(number % 600) * 5,
        // Powers of two, and sums of two.
        7 => 1 << (low % u128::from(bits)) | 1 << (low / 8 % u128::from(bits)),
        // All bits are equal but for the last ones.
        8 => 0xabcd_ef01_abcd_e000 | low,
        // Groups of five, whose bits between the first and the last ones are equal.
        9 => ((low % 512 / 5) << (bits - 9)) | (low % 512 % 5),
        // Gaps that double, and begin anew.
        10 => (low % 512 / 16) << 16 | 1 << (low % 16),
        11 => u128::from(number % 512) << (bits - 9),
        12 => (1 << (bits - 1)) + near - 4,
        13 => low % 64,
        14 => u128::MAX - low % 64,
        _ => wide(scattered(number.into())),
    };
    of_bits(word & largest::<K>())
}

/// The word of the largest key: not every word of 128 bits is a composite key.
fn largest<K: AnyKey>() -> u128 {
    let [low, high] = K::MAX.encode().parts();
    u128::from(high) << 64 | u128::from(low)
}

fn of_bits<K: AnyKey>(word: u128) -> K {
    K::decode(K::Bits::from_parts([word as u64, (word >> 64) as u64]))
}

/// Of composite keys those that lie near each other are in few groups, so that neighbours differ in both parts.
fn grouped<A: Key, B: Key>(number: u16) -> Composite<A, B> {
    let near = u64::from(number % 600);
    match number >> 12 {
        0..=6 => {
            let (group, place) = (KeyWord::truncate(near % 5), KeyWord::truncate(near / 5 * 3));
            Composite::new(A::decode(group), B::decode(place))
        }
        _ => fixed(number),
    }
}

macro_rules! numbered {
    ($make:ident: $($key:ty)*) => {$(
        impl Numbered for $key {
            const SMALLEST: u16 = 13 << 12;
            const LARGEST: u16 = 14 << 12;
            const HAS_DISTANCE: bool = <$key as AnyKey>::HAS_DISTANCE;

            fn key(number: u16) -> $key {
                $make(number)
            }

            fn located(&self) -> (u128, u128) {
                let [low, high] = AnyKey::encode(*self).parts();
                let (word, bits) = (u128::from(high) << 64 | u128::from(low), <$key as AnyKey>::GROUP_BITS);
                if bits == 128 { (0, word) } else { (word >> bits, word & ((1 << bits) - 1)) }
            }

            fn distinct(number: u64) -> $key {
                of_bits(wide(scattered(number)) & largest::<$key>())
            }

            fn of_word(word: u64) -> $key {
                if size_of::<$key>() < 16 {
                    return of_bits(word.into());
                }
                // With 128 bits the upper half decides the order; the lower one differs wherever that does.
                of_bits((u128::from(word) << 64 | u128::from(scattered(word))) >> largest::<$key>().leading_zeros())
            }

            fn lent(lender: &Lender, keys: &[$key]) -> Option<Result<Box<dyn Any>>> {
                Some(lender.upload(keys).map(|buffer| Box::new(buffer) as Box<dyn Any>))
            }
        }
    )*};
}
// Not for every `Key`: that trait is another crate's, which could give it to vectors.
numbered!(fixed: u32 u64 i32 i64 u128 i128 lanetree::Bytes16 lanetree::F32 lanetree::F64);
numbered!(grouped: Composite<u32, i32> Composite<i32, i64>);

/// Bytes that the strings of a family have in common: on both sides of the lengths of every leaf of CuART, and of what a
/// node of it holds of its path.
const COMMON: [usize; 8] = [0, 1, 3, 7, 12, 14, 31, 40];

/// Odd, so that no two numbers become the same, neither of 64 bits nor in their low 32.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A word of 128 bits whose low ones are these.
fn wide(low: u64) -> u128 {
    u128::from(scattered(low)) << 64 | u128::from(low)
}

impl Numbered for Vec<u8> {
    /// The empty string.
    const SMALLEST: u16 = 0;
    const LARGEST: u16 = 0x3f1f;

    /// Of eight bytes.
    fn distinct(number: u64) -> Vec<u8> {
        scattered(number).to_be_bytes().to_vec()
    }

    /// Of eight bytes, fewer or more.
    fn of_word(word: u64) -> Vec<u8> {
        let mut string = word.to_be_bytes().to_vec();
        match word % 7 {
            0 => string.truncate(5),
            1 => string.extend([7; 13]),
            2 => string.extend([7; 30]),
            _ => {}
        }
        string
    }

    /// Neighbours share long beginnings, and some keys are prefixes of others.
    fn key(number: u16) -> Vec<u8> {
        let (family, low) = (number >> 8 & 7, (number % 256) as u8);
        let mut string = vec![b'a' + family as u8 % 2; COMMON[usize::from(family)]];
        match low {
            0 => {}
            // Zero bytes among them.
            1..=31 => string.push(low - 1),
            _ => string.extend([low / 16, low % 16]),
        }
        if number >> 11 & 7 == 7 {
            // Longer ones, below those before.
            string.extend([7; 9]);
        }
        string
    }

    fn cut(mut self, len: usize) -> Vec<u8> {
        self.truncate(len);
        self
    }

    fn begins_with(&self, prefix: &Vec<u8>) -> bool {
        self.starts_with(prefix)
    }
}
