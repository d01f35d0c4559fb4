//! What an index keeps with each key.

use crate::word::sealed::Sealed;
use crate::{KernelArgs, Word};
use bytemuck::Pod;
use core::fmt::Debug;
use core::hash::Hash;

/// What an index keeps with each key: a [`Word`], or nothing, `()`, if it is a set of keys.
///
/// Sealed: implemented for [`u32`], [`u64`] and `()` only. Buffers of `()` have a length, but take no memory.
pub trait Value: Pod + KernelArgs + Ord + Eq + Hash + Debug + Default + Sealed {
    /// The word that kernels move; where there is none, one that nobody moves.
    type Word: Word;
    /// Whether there is anything.
    const IS_SOME: bool;
    /// Bytes: 4, 8, or 0.
    const BYTES: usize;
    /// `"u32"`, `"u64"` or `"()"`.
    const NAME: &'static str;

    /// The value as a word; 0 where there is none.
    fn word(self) -> Self::Word;
    /// The inverse of [`Value::word`].
    fn of(word: Self::Word) -> Self;
}

impl<W: Word> Value for W {
    type Word = W;
    const IS_SOME: bool = true;
    const BYTES: usize = <W as crate::KeyWord>::BYTES;
    const NAME: &'static str = <W as crate::KeyWord>::NAME;

    #[inline(always)]
    fn word(self) -> W {
        self
    }
    #[inline(always)]
    fn of(word: W) -> Self {
        word
    }
}

impl Sealed for () {}

// SAFETY: nothing, on the host and on the device.
unsafe impl KernelArgs for () {
    #[inline(always)]
    fn pointers(&self, _: &mut dyn FnMut(usize, crate::Access)) {}
}

impl Value for () {
    type Word = u32;
    const IS_SOME: bool = false;
    const BYTES: usize = 0;
    const NAME: &'static str = "()";

    #[inline(always)]
    fn word(self) -> u32 {
        0
    }
    #[inline(always)]
    fn of(_: u32) -> Self {}
}
