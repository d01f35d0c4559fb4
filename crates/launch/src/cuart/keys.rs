//! The kernels of batches of byte strings.

use super::{by_word, kernels};
use crate::Launch;
use lanetree_kernels_cuart::keys::{CheckOffsets, CheckOffsetsArgs, Encode, EncodeArgs, EncodeWide, Heads, HeadsArgs};
use lanetree_layout::Word;
use lanetree_runtime::Result;
use lanetree_simt::{Launcher, same_args};

by_word! {
    /// Launches the kernel that makes byte strings of numbers.
    encode(EncodeArgs) => Encode;
    /// Launches the check of offsets.
    check_offsets(CheckOffsetsArgs) => CheckOffsets;
}

kernels! {
    /// Launches the kernel that makes byte strings of numbers of 128 bits.
    encode_wide(EncodeArgs<u64>) => EncodeWide;
    /// Launches the kernel that takes the beginnings of byte strings.
    heads(HeadsArgs) => Heads;
}
