//! The cards that an emulated device can stand in for.

/// What of a GPU decides which launches it takes, and their shapes: a card that an emulated device stands in for
/// ([`Device::emulated_as`](crate::Device::emulated_as)).
///
/// The constants are cards of each kind that the kernels are compiled for, with what NVIDIA documents of them: shared memory from the
/// CUDA Programming Guide's table of compute capabilities, multiprocessors from the card's data sheet. On all of them a block has at
/// most 1,024 threads, and its threads share 65,536 registers, of which each has at most 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// The most shared memory that one block can have, static and dynamic, in bytes.
    pub shared_bytes_per_block: u32,
}

impl Card {
    /// The card of the lowest compute capability that is supported, and with the least shared memory: a T400 (7.5).
    /// Its few multiprocessors keep the emulator fast: LaneTree launches a block on each.
    pub const SMALLEST: Self = Self::of((7, 5), 6, 64);
    /// An A100 (8.0).
    pub const A100: Self = Self::of((8, 0), 108, 163);
    /// An RTX 3090 (8.6).
    pub const RTX_3090: Self = Self::of((8, 6), 82, 99);
    /// An RTX 4090 (8.9).
    pub const RTX_4090: Self = Self::of((8, 9), 128, 99);
    /// An H100 (9.0).
    pub const H100: Self = Self::of((9, 0), 132, 227);
    /// A B200 (10.0).
    pub const B200: Self = Self::of((10, 0), 148, 227);
    /// An RTX 5090 (12.0).
    pub const RTX_5090: Self = Self::of((12, 0), 170, 99);
    /// All of these.
    pub const ALL: [Self; 7] =
        [Self::SMALLEST, Self::A100, Self::RTX_3090, Self::RTX_4090, Self::H100, Self::B200, Self::RTX_5090];

    const fn of(compute_capability: (u32, u32), multiprocessors: u32, shared_kib: u32) -> Self {
        Self { compute_capability, multiprocessors, shared_bytes_per_block: shared_kib << 10 }
    }
}
