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
        ///
        /// # Errors
        /// Those of a launch.
        #[inline(never)]
        pub fn $function(args: &$args, launch: Launch<'_>) -> Result<()> {
            launch.launch::<$kernel>(args)
        }
    )*};
}

/// A function for a kernel of one word, over kernels for either.
macro_rules! by_word {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// Those of a launch.
        pub fn $function<T: Word>(args: &$args<T>, launch: Launch<'_>) -> Result<()> {
            #[inline(never)]
            fn of_u32(args: &$args<u32>, launch: Launch<'_>) -> Result<()> {
                launch.launch::<$kernel<u32>>(args)
            }
            #[inline(never)]
            fn of_u64(args: &$args<u64>, launch: Launch<'_>) -> Result<()> {
                launch.launch::<$kernel<u64>>(args)
            }
            if T::BITS == 32 { of_u32(same_args(args), launch) } else { of_u64(same_args(args), launch) }
        }
    )*};
}

/// A function for a kernel of so many words of a query.
macro_rules! by_query_words {
    ($($(#[$doc:meta])* $function:ident($args:ty) => $kernel:ident[$($words:literal),*];)*) => {$(
        $(#[$doc])*
        /// `words` are the 8-byte words of the tree's longest key, 1, 2 or 4; 0 where it has keys of more than 32 bytes.
        ///
        /// # Errors
        /// Those of a launch.
        ///
        /// # Panics
        /// For another number of words.
        #[inline(never)]
        pub fn $function(words: usize, args: &$args, launch: Launch<'_>) -> Result<()> {
            match words {
                $($words => launch.launch::<$kernel<$words>>(args),)*
                _ => unreachable!("no kernel for keys of {words} words"),
            }
        }
    )*};
}

use {by_query_words, by_word, kernels};
