//! The kernels of look-ups.

use lanetree_kernels_cuart::{Get, GetArgs, GetTiled};
use lanetree_layout::Word;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

/// The call of the look-up in a tree whose longest key has that many words of 8 bytes, 1, 2 or 4; 0 where it has keys
/// of more than 32 bytes.
///
/// # Panics
/// For another number of words.
pub fn get<V: Word>(words: usize, args: &GetArgs<V>) -> Call<'_> {
    macro_rules! chooser {
        ($name:ident, $value:ty) => {
            #[inline(never)]
            fn $name(words: usize, args: &GetArgs<$value>) -> Call<'_> {
                match words {
                    0 => Call::of::<Get<$value, 0>>(args),
                    1 => Call::of::<Get<$value, 1>>(args),
                    2 => Call::of::<Get<$value, 2>>(args),
                    4 => Call::of::<Get<$value, 4>>(args),
                    _ => unreachable!("no kernel for keys of {words} words"),
                }
            }
        };
    }
    chooser!(of_u32, u32);
    chooser!(of_u64, u64);
    if V::BITS == 32 { of_u32(words, same_args(args)) } else { of_u64(words, same_args(args)) }
}

/// The call of the look-up in which 2, 4 or 8 lanes compare a key, in a tree of any keys.
///
/// # Panics
/// For another number of lanes.
pub fn get_tiled<V: Word>(lanes: u32, args: &GetArgs<V>) -> Call<'_> {
    macro_rules! chooser {
        ($name:ident, $value:ty) => {
            #[inline(never)]
            fn $name(lanes: u32, args: &GetArgs<$value>) -> Call<'_> {
                match lanes {
                    2 => Call::of::<GetTiled<$value, 2>>(args),
                    4 => Call::of::<GetTiled<$value, 4>>(args),
                    8 => Call::of::<GetTiled<$value, 8>>(args),
                    _ => unreachable!("no kernel in which {lanes} lanes compare a key"),
                }
            }
        };
    }
    chooser!(of_u32, u32);
    chooser!(of_u64, u64);
    if V::BITS == 32 { of_u32(lanes, same_args(args)) } else { of_u64(lanes, same_args(args)) }
}
