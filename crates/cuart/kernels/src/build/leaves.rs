//! Leaves of keys of one width of at most 32 bytes.

use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeysRef, Order, Scope, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Leaves`].
    pub struct LeavesArgs<V> {
        /// Keys in ascending order, of one width. With `numbers`, their bytes are those that [`Numbers`] has made.
        pub keys: KeysRef,
        /// `[count]`.
        pub values: Global<V>,
        /// Out: `[count]` leaves of the size for the width.
        pub leaves: GlobalMut<u64>,
        /// Out, set to the largest words before the launch: the smallest index of a key that is below the previous one,
        /// and of one that equals it.
        pub findings: GlobalMut<u64>,
        /// How many.
        pub count: u64,
        /// 1 for keys as numbers, 0 for strings.
        pub numbers: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

/// Per thread. A key as words of a leaf: bytes in their order, the first one lowest, zeros past its end.
///
/// # Safety
/// There is such a key.
#[inline(always)]
unsafe fn load<S: Simt, V: Word, const WORDS: usize>(simt: S, args: &LeavesArgs<V>, index: u64) -> [u64; WORDS] {
    // SAFETY: the caller's promise.
    unsafe {
        if WORDS == 1 && args.numbers != 0 {
            return [simt.load(args.keys.bytes, index, Hint::EvictFirst).swap_bytes(); WORDS];
        }
        let key = args.keys.at(simt, index);
        core::array::from_fn(|word| key.word(simt, 8 * word as u32))
    }
}

/// Fills the leaves, whose index is their rank, and finds keys out of order: one thread per leaf; any block. `WORDS`
/// are the 8-byte words of a leaf's key.
#[derive(Debug)]
pub struct Leaves<V, const WORDS: usize>(PhantomData<V>);

impl<V: Word, const WORDS: usize> Kernel for Leaves<V, WORDS> {
    type Args = LeavesArgs<V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is a key, with a value and a leaf; the findings are accessed atomically only.
        unsafe {
            let words = load::<S, V, WORDS>(simt, args, index);
            let value = simt.load(args.values, index, Hint::EvictFirst).widen();
            if WORDS == 1 {
                simt.store_vector(args.leaves, 2 * index, [words[0], value], Hint::Default);
            } else if WORDS == 2 {
                simt.store_vector(args.leaves, 4 * index, [words[0], words[1 % WORDS]], Hint::Default);
                simt.store_vector(args.leaves, 4 * index + 2, [value, index], Hint::Default);
            } else {
                simt.store_vector(args.leaves, 8 * index, [words[0], words[1 % WORDS]], Hint::Default);
                simt.store_vector(args.leaves, 8 * index + 2, [words[2 % WORDS], words[3 % WORDS]], Hint::Default);
                simt.store_vector(args.leaves, 8 * index + 4, [value, index], Hint::Default);
                simt.store_vector(args.leaves, 8 * index + 6, [0; 2], Hint::Default);
            }
            if index == 0 {
                return;
            }
            let before = load::<S, V, WORDS>(simt, args, index - 1);
            // From the last word to the first: an earlier difference overrides a later one.
            let (mut below, mut equal) = (false, true);
            for word in (0..WORDS).rev() {
                let (own, other) = (words[word].swap_bytes(), before[word].swap_bytes());
                below = own < other || own == other && below;
                equal &= own == other;
            }
            if below || equal {
                simt.atomic_min(args.findings, u64::from(equal), index, Order::Relaxed, Scope::Device);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Numbers`].
    pub struct NumbersArgs {
        /// Strings of one width of at most 8 bytes: `[count]`.
        pub keys: KeysRef,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, numbers in the order of the strings, which are their upper bytes.
        pub numbers: GlobalMut<u64>,
    }
}

/// Converts strings to numbers, to sort by: one thread per string; any block.
#[derive(Debug)]
pub struct Numbers;

impl Kernel for Numbers {
    type Args = NumbersArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a string.
            unsafe {
                let word = args.keys.at(simt, index).word(simt, 0);
                simt.store(args.numbers, index, word.swap_bytes(), Hint::Default);
            }
        }
    }
}
