//! CuART's kernels.

pub mod build;
pub mod compact;
pub mod keys;
pub mod lookup;
pub mod range;
pub mod update;

/// A function for a kernel without parameters.
macro_rules! kernels {
    ($($(#[$doc:meta])* $function:ident($args:ty) => $kernel:ty;)*) => {$(
        $(#[$doc])*
        #[inline(never)]
        pub fn $function(args: &$args) -> Call<'_> {
            Call::of::<$kernel>(args)
        }
    )*};
}

/// A function for a kernel of one word, over kernels for either.
macro_rules! by_word {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ident;)*) => {$(
        $(#[$doc])*
        pub fn $function<T: Word>(args: &$args<T>) -> Call<'_> {
            #[inline(never)]
            fn of_u32(args: &$args<u32>) -> Call<'_> {
                Call::of::<$kernel<u32>>(args)
            }
            #[inline(never)]
            fn of_u64(args: &$args<u64>) -> Call<'_> {
                Call::of::<$kernel<u64>>(args)
            }
            if T::BITS == 32 { of_u32(same_args(args)) } else { of_u64(same_args(args)) }
        }
    )*};
}

/// A function for a kernel of that many words of a query.
macro_rules! by_query_words {
    ($($(#[$doc:meta])* $function:ident($args:ty) => $kernel:ident[$($words:literal),*];)*) => {$(
        $(#[$doc])*
        /// `words` are the 8-byte words of the tree's longest key, 1, 2 or 4; 0 where it has keys of more than 32 bytes.
        ///
        /// # Panics
        /// For another number of words.
        #[inline(never)]
        pub fn $function(words: usize, args: &$args) -> Call<'_> {
            match words {
                $($words => Call::of::<$kernel<$words>>(args),)*
                _ => unreachable!("no kernel for keys of {words} words"),
            }
        }
    )*};
}

use {by_query_words, by_word, kernels};
