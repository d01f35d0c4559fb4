//! Choices that were measured, as data, by the card that they were measured on.

use lanetree_frame::ByCard;

/// What is fastest on a card.
pub(super) struct Tuning {
    /// From this number of operations on, operations on keys of one length are processed in the order of their first bytes.
    pub(super) ordered_from: usize,
    /// Lanes that compare a key in a tree that has keys of more than 32 bytes. In other trees one lane is fastest.
    pub(super) long_lanes: u32,
}

pub(super) const TUNING: ByCard<Tuning> = ByCard(&[((9, 0), H200)]);

/// An NVIDIA H200, n = 26 Mi. From 2^23 operations on the order saves more than the sort takes. Eight lanes are two to three times as
/// fast as one for keys of 64 bytes and more (`docs/lab/15-lanes-per-key.md`).
const H200: Tuning = Tuning { ordered_from: 1 << 23, long_lanes: 8 };
