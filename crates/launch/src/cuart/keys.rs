//! The kernels of batches of byte strings.

use super::{by_word, kernels};

use lanetree_kernels_cuart::keys::{CheckOffsets, CheckOffsetsArgs, Encode, EncodeArgs, EncodeWide, Heads, HeadsArgs};
use lanetree_layout::Word;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

by_word! {
    /// The call of the kernel that makes byte strings of numbers.
    encode(EncodeArgs) => Encode;
    /// The call of the check of offsets.
    check_offsets(CheckOffsetsArgs) => CheckOffsets;
}

kernels! {
    /// The call of the kernel that makes byte strings of numbers of 128 bits.
    encode_wide(EncodeArgs<u64>) => EncodeWide;
    /// The call of the kernel that takes the beginnings of byte strings.
    heads(HeadsArgs) => Heads;
}
