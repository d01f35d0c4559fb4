//! The kernels of batches of byte strings.

use super::{by_word, kernels};

use lanetree_kernels_cuart::keys::{CheckOffsets, CheckOffsetsArgs, Encode, EncodeArgs, EncodeWide, Heads, HeadsArgs};
use lanetree_layout::Word;
use lanetree_runtime::Call;
use lanetree_simt::same_args;

by_word! {
    /// The call of the kernel that encodes numbers as byte strings.
    encode(EncodeArgs) => Encode;
    /// The call of the check of offsets.
    check_offsets(CheckOffsetsArgs) => CheckOffsets;
}

kernels! {
    /// The call of the kernel that encodes 128-bit numbers as byte strings.
    encode_wide(EncodeArgs<u64>) => EncodeWide;
    /// The call of the kernel that extracts the first bytes of byte strings.
    heads(HeadsArgs) => Heads;
}
