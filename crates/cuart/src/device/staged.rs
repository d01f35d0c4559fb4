//! Byte strings staged for a device: see [`crate::staging`].

use super::range::side;
use lanetree_frame::byte_keys::{ByteKeys, Offsets, Side as Bound, Sides};
use lanetree_frame::staging::Queries;
use lanetree_kernels_cuart::Side;
use lanetree_kernels_cuart::layout::MAX_KEY;
use lanetree_layout::Word;
use lanetree_simt::{Global, KeysRef};

/// Byte strings as they are staged: their bytes, and from the next 8-byte boundary on their offsets, unless the batch
/// has one fixed width. Offsets count from the first string's offset, so 32 bits are always enough.
#[derive(Clone, Copy)]
pub(super) struct Strings<'k>(pub(super) ByteKeys<'k>);

impl<'k> Strings<'k> {
    /// A single string that is too long to be a key is not sent at all: kernels do not support such lengths.
    pub(super) fn bytes(&self) -> &'k [u8] {
        let (keys, len) = (self.0, self.0.len());
        let bytes = match keys.offsets() {
            _ if len == 0 => &[],
            Offsets::Fixed { .. } => keys.bytes(),
            Offsets::U32(offsets) => &keys.bytes()[offsets[0] as usize..offsets[len] as usize],
            Offsets::U64(offsets) => &keys.bytes()[offsets[0] as usize..offsets[len] as usize],
        };
        if len == 1 && bytes.len() > MAX_KEY { &[] } else { bytes }
    }

    /// The width that kernels are told.
    fn width(&self) -> Option<usize> {
        match self.0.offsets() {
            Offsets::Fixed { width, .. } => Some(if width > MAX_KEY { 0 } else { width }),
            _ => None,
        }
    }

    /// The strings as kernels see them, once they are staged.
    pub(super) fn keys_ref(&self, at: Global<u64>) -> KeysRef {
        match self.width() {
            Some(width) => KeysRef { bytes: at, offsets: Global::null(), width: width as u32, offset_bytes: 0 },
            None => {
                let offsets = at.byte_add(self.bytes().len().next_multiple_of(8) as u64);
                KeysRef { bytes: at, offsets, width: 0, offset_bytes: 4 }
            }
        }
    }
}

impl Queries for Strings<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        let bytes = self.bytes().len().next_multiple_of(8);
        match self.width() {
            // Without a byte there would be no memory for kernels to point at.
            Some(_) => bytes.max(8),
            None => bytes + 4 * (self.0.len() + 1),
        }
    }

    fn split(&self, at: usize) -> (Self, Self) {
        (Self(self.0.slice(0..at)), Self(self.0.slice(at..self.0.len())))
    }

    fn write(&self, to: &mut [u8]) {
        let bytes = self.bytes();
        to[..bytes.len()].copy_from_slice(bytes);
        let to = &mut to[bytes.len().next_multiple_of(8)..];
        match self.0.offsets() {
            Offsets::Fixed { .. } => {}
            Offsets::U32(offsets) => rebase(offsets, bytes.len(), bytemuck::cast_slice_mut(to)),
            Offsets::U64(offsets) => rebase(offsets, bytes.len(), bytemuck::cast_slice_mut(to)),
        }
    }
}

/// Counts offsets from the first one; the last one becomes `end`.
fn rebase<O: Word>(offsets: &[O], end: usize, to: &mut [u32]) {
    let first = offsets[0].widen();
    to.iter_mut().zip(offsets).for_each(|(to, offset)| *to = (offset.widen() - first) as u32);
    to[offsets.len() - 1] = end as u32;
}

/// Ranges as they are staged: the strings of their starts, the strings of their ends, and whether each bound is
/// included.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'k> {
    pub(super) ranges: &'k [Sides<'k>],
    /// Empty where a bound is absent.
    pub(super) starts: Strings<'k>,
    pub(super) ends: Strings<'k>,
}

impl Bounds<'_> {
    /// Where the ends are, the starts' sides, and the ends', in bytes.
    fn places(&self) -> [usize; 3] {
        let ends = Queries::bytes(&self.starts).next_multiple_of(8);
        let sides = ends + Queries::bytes(&self.ends).next_multiple_of(8);
        [ends, sides, sides + 4 * self.ranges.len()]
    }

    /// The starts and the ends as kernels see them, once they are staged, each with their sides.
    pub(super) fn searches(&self, at: Global<u64>) -> [(KeysRef, Global<u32>); 2] {
        let [ends, start_sides, end_sides] = self.places().map(|place| at.byte_add(place as u64));
        [(self.starts.keys_ref(at), start_sides.cast()), (self.ends.keys_ref(ends), end_sides.cast())]
    }
}

impl Queries for Bounds<'_> {
    fn count(&self) -> usize {
        self.ranges.len()
    }

    fn bytes(&self) -> usize {
        (self.places()[2] + 4 * self.ranges.len()).next_multiple_of(8)
    }

    fn split(&self, at: usize) -> (Self, Self) {
        let (ranges, starts, ends) = (self.ranges.split_at(at), self.starts.split(at), self.ends.split(at));
        (
            Self { ranges: ranges.0, starts: starts.0, ends: ends.0 },
            Self { ranges: ranges.1, starts: starts.1, ends: ends.1 },
        )
    }

    fn write(&self, to: &mut [u8]) {
        let [ends, start_sides, end_sides] = self.places();
        self.starts.write(&mut to[..Queries::bytes(&self.starts)]);
        self.ends.write(&mut to[ends..][..Queries::bytes(&self.ends)]);
        let count = self.ranges.len();
        let sides = |place: usize| place..place + 4 * count;
        write_sides(self.ranges, |range| range.start, Side::Start, &mut to[sides(start_sides)]);
        write_sides(self.ranges, |range| range.end, Side::End, &mut to[sides(end_sides)]);
    }
}

fn write_sides<'k>(
    ranges: &[Sides<'k>],
    bound: impl Fn(&Sides<'k>) -> Option<(&'k [u8], Bound)>,
    absent: Side,
    to: &mut [u8],
) {
    let to: &mut [u32] = bytemuck::cast_slice_mut(to);
    to.iter_mut().zip(ranges).for_each(|(to, range)| *to = bound(range).map_or(absent, |(_, own)| side(own)) as u32);
}
