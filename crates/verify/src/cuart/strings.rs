//! Byte strings for trees, and batches of them on a device.

use crate::data::Random;
use lanetree::{ByteKeys, Device, DeviceKeys, Result};
use rand::{Rng, RngExt};

/// What keys are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strings {
    /// Of one width, at most 32.
    Width(usize),
    /// Of up to 32 bytes: prefixes of each other among them, long runs of equal bytes, the empty one.
    Short,
    /// The same, and longer ones.
    Long,
    /// The same; strings of more than 32 bytes stay in main memory.
    InMainMemory,
    /// Of 4 bytes, all of them under one node, which has 256 children before long.
    Crowd,
}

impl Strings {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Width(4) => "bytes4",
            Self::Width(8) => "bytes8",
            Self::Width(16) => "bytes16",
            Self::Width(_) => "bytes32",
            Self::Short => "short",
            Self::Long => "long",
            Self::InMainMemory => "in-main-memory",
            Self::Crowd => "crowd",
        }
    }

    /// Whether some have more than 32 bytes.
    pub(crate) fn are_long(self) -> bool {
        matches!(self, Self::Long | Self::InMainMemory)
    }

    pub(crate) fn draw(self, rng: &mut Random) -> Vec<u8> {
        const LENS: [usize; 19] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 70];
        const TEXT: &[u8] = b"an ordered index, and another one after it, whose prefixes are the keys";
        let len = match self {
            Self::Width(width) => width,
            Self::Crowd => return [b'k', 0, 0, 0].map(|byte| if byte == 0 { rng.random() } else { byte }).to_vec(),
            Self::Short => LENS[rng.random_range(0..16)],
            Self::Long | Self::InMainMemory if rng.random_range(0..200) == 0 => rng.random_range(256..700),
            Self::Long | Self::InMainMemory => LENS[rng.random_range(0..LENS.len())],
        };
        // A beginning that many have, and then any bytes; few have more than two or three of these.
        let alike = match rng.random_range(0..4) {
            0 => rng.random_range(0..=len),
            1 => len,
            _ => len.saturating_sub(rng.random_range(0..4)),
        };
        let run = [0, 255, b'a'][rng.random_range(0..3)];
        let text = rng.random_range(0..3) == 0;
        let byte = |i: usize| if text { TEXT[i % TEXT.len()] } else { run };
        (0..len).map(|i| if i < alike { byte(i) } else { rng.next_u32() as u8 }).collect()
    }
}

/// How a batch of strings lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Without offsets, where all are of one width.
    Fixed,
    Offsets32,
    Offsets64,
}

impl Packing {
    pub(crate) const ALL: [Self; 3] = [Self::Fixed, Self::Offsets32, Self::Offsets64];
}

/// Strings after a few bytes that belong to none, and their offsets.
pub(crate) fn pack(keys: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = b"none".to_vec();
    let mut offsets = vec![bytes.len() as u64];
    for key in keys {
        bytes.extend(key);
        offsets.push(bytes.len() as u64);
    }
    (bytes, offsets)
}

/// Copies strings to a device.
pub(crate) fn upload(device: &Device, keys: &[Vec<u8>], packing: Packing) -> Result<DeviceKeys> {
    let width = keys.first().map_or(8, Vec::len);
    let fixed = width > 0 && keys.iter().all(|key| key.len() == width);
    let (bytes, offsets) = pack(keys);
    match packing {
        Packing::Fixed if fixed => DeviceKeys::upload(device, ByteKeys::fixed(width, &bytes[4..])?),
        Packing::Offsets64 => DeviceKeys::upload(device, ByteKeys::new(&offsets[..], &bytes)?),
        _ => {
            let offsets: Vec<u32> = offsets.iter().map(|&offset| offset as u32).collect();
            DeviceKeys::upload(device, ByteKeys::new(&offsets[..], &bytes)?)
        }
    }
}
