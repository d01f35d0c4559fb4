//! Elements of an array that have changed, to their places.

use lanetree_simt::{Global, GlobalMut, Hint, Kernel, Simt, kernel_args};

kernel_args! {
    /// Arguments of [`PutElements`].
    pub struct PutElementsArgs {
        /// Numbers of elements: `[count]`, no two of them equal.
        pub numbers: Global<u32>,
        /// The elements, side by side: `[count * words]`.
        pub elements: Global<u64>,
        /// How many.
        pub count: u32,
        /// Words of 8 bytes of an element. All elements together have fewer than 2^32.
        pub words: u32,
        /// Out: an array of such elements.
        pub array: GlobalMut<u64>,
    }
}

/// Copies elements into an array, each to the place of its number. One thread for 8 bytes; any block.
#[derive(Debug)]
pub struct PutElements;

impl Kernel for PutElements {
    type Args = PutElementsArgs;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // Never 0, so that the division needs no check.
        let words = args.words.max(1);
        let index = simt.global_index();
        if index < u64::from(args.count) * u64::from(words) {
            let (element, within) = (index as u32 / words, index as u32 % words);
            // SAFETY: the place of an element's number, a word of this element, and its place in the array.
            unsafe {
                let number = simt.load(args.numbers, u64::from(element), Hint::ReadOnly);
                let word = simt.load(args.elements, index, Hint::EvictFirst);
                simt.store(args.array, u64::from(number) * u64::from(words) + u64::from(within), word, Hint::Default);
            }
        }
    }
}
