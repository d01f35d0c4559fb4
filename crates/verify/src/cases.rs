//! How much is verified, and in which sizes the suite's indexes are.

use super::index::Index;
use lanetree::DeviceKind;
use lanetree_suite::Spread;

/// How much is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Quick,
    Full,
}

/// From this many pairs on an index has the machine to itself.
pub(crate) const LARGE: usize = 1 << 17;

/// The most pairs of an index that is built in every way; the first way has more.
fn most(mode: Mode) -> usize {
    match mode {
        Mode::Quick => 5000,
        Mode::Full => 1 << 20,
    }
}

/// An index of the suite's, built in one way: how many pairs, how their keys lie, and about how many queries a batch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) len: usize,
    pub(crate) spread: Spread,
    pub(crate) batch: usize,
}

/// The sizes of an index that is built in this way, one after another: around the borders of nodes and of tiles of 32, and
/// of several levels. How keys lie takes turns. Small ones are asked little.
pub(crate) fn sizes(mode: Mode, kind: DeviceKind, way: u8, max_len: usize) -> Vec<Size> {
    let (lens, batch): (&[usize], _) = match (mode, kind) {
        (Mode::Quick, DeviceKind::Emulated) if way < 5 => (&[1, 33, 700], 42),
        (Mode::Quick, DeviceKind::Emulated) => (&[260], 42),
        (Mode::Full, DeviceKind::Emulated) => (&[1, 9, 32, 33, 65, 700, 5000], 90),
        (Mode::Quick, DeviceKind::Host) => (&[1, 9, 33, 257, 1500, 1 << 16], 300),
        (Mode::Quick, DeviceKind::Cuda) => (&[1, 9, 33, 257, 1500, 1 << 16], 900),
        (Mode::Full, DeviceKind::Host) => (&[1, 9, 32, 33, 65, 257, 1500, 5000, 1 << 16, 1 << 20], 1800),
        (Mode::Full, DeviceKind::Cuda) => {
            (&[1, 9, 32, 33, 65, 257, 1500, 5000, 1 << 16, 1 << 20, 1 << 22, 1 << 24], 3000)
        }
    };
    let lens = lens.iter().copied().filter(|&len| len <= max_len && (len <= most(mode) || way == 0));
    let size = |(turn, len): (usize, usize)| {
        let spread = Spread::ALL[(usize::from(way) + 2 * turn) % Spread::ALL.len()];
        let spread = if spread == Spread::AllEqual && len > 5000 { Spread::Uniform } else { spread };
        Size { len, spread, batch: batch.max(len / 64).min(4 * len + 60) }
    };
    lens.enumerate().map(size).collect()
}

/// In how many ways an index of the suite's is put through its written cases, if those are wanted, and in how many through sizes.
/// Emulated, few, as the suite's own tests have all ways there. But the first ways of the HB+-tree run kernels that no other way
/// runs, and those of Harmonia have other fanouts.
pub(crate) fn ways(index: Index, kind: DeviceKind, with_written: bool) -> (u8, u8) {
    let (written, sizes) = match kind {
        DeviceKind::Emulated if index == Index::HBTREE => (4, 4),
        DeviceKind::Emulated if index == Index::HARMONIA => (1, 15),
        DeviceKind::Emulated => (1, 3),
        DeviceKind::Host | DeviceKind::Cuda => (u8::MAX, u8::MAX),
    };
    (if with_written { written } else { 0 }, sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_in_every_way_and_a_cap_on_the_length_holds() {
        for kind in [DeviceKind::Emulated, DeviceKind::Host, DeviceKind::Cuda] {
            let all: Vec<Size> = (0..3).flat_map(|way| sizes(Mode::Quick, kind, way, usize::MAX)).collect();
            assert!(
                Spread::ALL.iter().all(|&spread| all.iter().any(|size| size.spread == spread)),
                "{kind:?}: {all:?}"
            );
            let some = sizes(Mode::Full, kind, 0, 100);
            assert!(!some.is_empty() && some.iter().all(|size| size.len <= 100));
        }
    }
}
