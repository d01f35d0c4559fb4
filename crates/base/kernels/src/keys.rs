//! Batches of byte strings on the device: encoding numbers, checking offsets, and extracting prefixes.

use core::marker::PhantomData;
use lanetree_layout::composite_word;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeysRef, Order, Scope, Simt, Word, kernel_args};

kernel_args! {
    /// Arguments of [`Encode`].
    pub struct EncodeArgs<K> {
        /// Numbers: `[count]`.
        pub numbers: Global<K>,
        /// How many.
        pub count: u64,
        /// Exclusive-or mask between a number's own bits and its ordered word.
        pub flip: K,
        /// Out: `[count]`, their byte strings.
        pub strings: GlobalMut<K>,
    }
}

/// Encodes numbers as byte strings of the same order: the highest byte first. One thread per number; any block.
#[derive(Debug)]
pub struct Encode<K>(PhantomData<K>);

impl<K: Word> Kernel for Encode<K> {
    type Args = EncodeArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a number.
            unsafe {
                let word = simt.load(args.numbers, index, Hint::Streaming).xor(args.flip);
                let string = K::truncate(word.widen().swap_bytes() >> (64 - K::BITS));
                simt.store(args.strings, index, string, Hint::Default);
            }
        }
    }
}

/// As [`Encode`], of numbers of 128 bits without a sign, each of them two words, the low one first. The numbers begin on a
/// 16-byte boundary; the strings, at any word.
#[derive(Debug)]
pub struct EncodeWide;

impl Kernel for EncodeWide {
    type Args = EncodeArgs<u64>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a number.
            unsafe {
                let [low, high] = simt.load_vector(args.numbers, 2 * index, Hint::Streaming);
                simt.store(args.strings, 2 * index, high.swap_bytes(), Hint::Default);
                simt.store(args.strings, 2 * index + 1, low.swap_bytes(), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`CheckOffsets`].
    pub struct CheckOffsetsArgs<O> {
        /// Offsets: `[count]`.
        pub offsets: Global<O>,
        /// How many.
        pub count: u64,
        /// What none may be above.
        pub bytes: u64,
        /// In and out: `[2]`, the index of the first offset that is below the one before it, and of the first one that
        /// is above `bytes`, or what was there.
        pub first: GlobalMut<u64>,
    }
}

/// Checks the offsets of byte strings, one thread per offset; any block.
#[derive(Debug)]
pub struct CheckOffsets<O>(PhantomData<O>);

impl<O: Word> Kernel for CheckOffsets<O> {
    type Args = CheckOffsetsArgs<O>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index >= args.count {
            return;
        }
        // SAFETY: `index` is an offset, and the one before is another.
        unsafe {
            let offset = simt.load(args.offsets, index, Hint::ReadOnly);
            if index > 0 && simt.load(args.offsets, index - 1, Hint::ReadOnly) > offset {
                simt.atomic_min(args.first, 0, index, Order::Relaxed, Scope::Device);
            }
            if offset.widen() > args.bytes {
                simt.atomic_min(args.first, 1, index, Order::Relaxed, Scope::Device);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Heads`].
    pub struct HeadsArgs {
        /// Byte strings: `[count]`.
        pub keys: KeysRef,
        /// How many.
        pub count: u64,
        /// Length of the common prefix of all strings: at most 8.
        pub skip: u32,
        #[doc(hidden)]
        pub padding: u32,
        /// Out: `[count]`, the four bytes after the prefix, as numbers of the same order; zeros past a string's end.
        pub heads: GlobalMut<u32>,
    }
}

/// Extracts the first bytes of byte strings, to sort by; one thread per string; any block.
#[derive(Debug)]
pub struct Heads;

impl Kernel for Heads {
    type Args = HeadsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a string.
            unsafe {
                let word = args.keys.at(simt, index).word(simt, args.skip);
                simt.store(args.heads, index, word.swap_bytes().high(), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Compose`].
    pub struct ComposeArgs<A, B, K> {
        /// First keys: `[count]`.
        pub firsts: Global<A>,
        /// Second keys: `[count]`.
        pub seconds: Global<B>,
        /// How many.
        pub count: u64,
        /// Out: `[count]`, the composite keys' words.
        pub keys: GlobalMut<K>,
        /// Exclusive-or mask between a first key's own bits and its ordered word.
        pub first_flip: A,
        /// The same of second keys.
        pub second_flip: B,
    }
}

/// Makes composite keys of two columns. One thread per key; any block.
#[derive(Debug)]
pub struct Compose<A, B>(PhantomData<(A, B)>);

impl<A: Word, B: Word> Kernel for Compose<A, B> {
    type Args = ComposeArgs<A, B, A::With<B>>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        if index < args.count {
            // SAFETY: `index` is a key of each column.
            unsafe {
                let first = simt.load(args.firsts, index, Hint::Streaming).xor(args.first_flip);
                let second = simt.load(args.seconds, index, Hint::Streaming).xor(args.second_flip);
                simt.store(args.keys, index, composite_word(first, second), Hint::Default);
            }
        }
    }
}
