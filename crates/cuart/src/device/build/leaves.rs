//! The build from keys of one width, and the leaves for it.

use super::{Room, above, over};
use crate::leaves::LeafBuffers;
use crate::{Builder, Cuart};
use lanetree_frame::byte_keys::{DeviceKeys, show};
use lanetree_frame::error::same_device;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::build::leaves::{LeavesArgs, NumbersArgs};
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::layout::{Link, LinkType, MAX_FIXED};
use lanetree_layout::Word;
use lanetree_primitives::{Pairs, PairsMut, RadixSortScratch, RunScratch, last_by_key, radix_sort};
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};
use lanetree_simt::{Global, KeysRef};

/// Bytes of the widest keys that are sorted, as numbers.
const SORTED: usize = 8;

impl<V: Word> Builder<V> {
    /// Builds a tree on the stream's device from pairs that are already there: strings of one width of at most 32 bytes
    /// (for numbers see [`DeviceKeys::encode`]). There must be at least as many values as keys.
    ///
    /// Keys of more than 8 bytes must ascend strictly. Shorter keys may come in any order, and of equal keys the last
    /// one's value is kept; they are sorted unless they ascend. On the host, keys of any length may come in any order,
    /// as in [`Builder::build`].
    ///
    /// Returns when the tree is complete. Meanwhile it takes up to 41 bytes per key besides the tree; before that, for
    /// sorting, 24 bytes per key and three times the size of its value.
    ///
    /// ```
    /// use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKeys};
    ///
    /// # fn main() -> lanetree::Result<()> {
    /// let device = Device::emulated();
    /// let stream = device.stream()?;
    /// let keys = DeviceKeys::encode(&stream, &device.upload(&[3_u64, 1, 2, 1])?)?;
    /// let tree = Cuart::builder().build_on(&stream, &keys, &device.upload(&[30_u32, 10, 20, 11])?)?;
    /// assert_eq!(tree.get_many(&ByteKeysBuf::encode(&[1_u64, 2, 3]))?, [Some(11), Some(20), Some(30)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::SeveralWidths`] for strings with offsets; [`Error::KeyTooLong`] for keys of more than 32 bytes;
    /// [`Error::NotSorted`] or [`Error::NotDistinct`] with the first key of more than 8 bytes that does not ascend;
    /// [`Error::OutputLength`] for fewer values than keys; [`Error::TooManyElements`] from 2^32 keys on;
    /// [`Error::Runtime`] for buffers of another device than the stream's, and if there is no room.
    pub fn build_on(&self, stream: &Stream, keys: &DeviceKeys, values: &Buffer<V>) -> Result<Cuart<V>> {
        let (device, len) = (stream.device(), keys.len());
        same_device(device, keys.device(), "the keys' buffer")?;
        same_device(device, values.device(), "the values' buffer")?;
        if values.len() < len {
            return Err(Error::OutputLength { what: "the values' buffer", expected: len, actual: values.len() });
        }
        if let (DeviceKind::Host, Some(keys), Some(values)) = (device.kind(), keys.as_keys(), values.as_slice()) {
            return self.build(device, keys, &values[..len]);
        }
        let width = keys.width().ok_or_else(|| Error::SeveralWidths { device: device.to_string() })?;
        if width > MAX_FIXED && len > 0 {
            return Err(Error::KeyTooLong { index: 0, len: width, max: MAX_FIXED });
        }
        let sorted = Sorted { keys: keys.keys_ref(stream)?, width, numbers: false, len };
        let (leaves, first) = match leaves(stream, &sorted, values)? {
            Made::Leaves(leaves, first) => (leaves, first),
            _ if width <= SORTED => return self.build_numbers(stream, keys, width, values),
            Made::Descends(index) => {
                let show = |index: usize| keys.fixed_string(index, width).map(|key| show(&key));
                return Err(Error::NotSorted { index, previous: show(index - 1)?, key: show(index)? });
            }
            Made::Repeats(index) => {
                return Err(Error::NotDistinct { index, key: show(&keys.fixed_string(index, width)?) });
            }
        };
        // SAFETY: leaves of one kind, which were checked to ascend, on the stream's device.
        let parts = unsafe { above(self, stream, *leaves, first, len as u64) }?;
        Ok(Cuart::of_parts(device, *self, parts))
    }

    /// For keys in any order, by sorting them as numbers.
    fn build_numbers(&self, stream: &Stream, keys: &DeviceKeys, width: usize, values: &Buffer<V>) -> Result<Cuart<V>> {
        let (numbers, values, len) = sorted(stream, keys, width, values)?;
        let bytes = numbers.read_on(stream)?;
        let bytes = KeysRef { bytes, offsets: Global::null(), width: width as u32, offset_bytes: 0 };
        let sorted = Sorted { keys: bytes, width, numbers: true, len };
        let Made::Leaves(leaves, first) = leaves(stream, &sorted, &values)? else {
            unreachable!("numbers that were sorted, and are different")
        };
        drop((numbers, values));
        // SAFETY: as in `build_on`.
        let parts = unsafe { above(self, stream, *leaves, first, len as u64) }?;
        Ok(Cuart::of_parts(stream.device(), *self, parts))
    }
}

/// Keys of at most 8 bytes as numbers in ascending order, their values, and how many there are; of equal keys, the
/// last pair.
fn sorted<V: Word>(
    stream: &Stream,
    keys: &DeviceKeys,
    width: usize,
    values: &Buffer<V>,
) -> Result<(Buffer<u64>, Buffer<V>, usize)> {
    let (device, len) = (stream.device(), keys.len());
    let mut numbers = device.alloc(len)?;
    let args = NumbersArgs { keys: keys.keys_ref(stream)?, count: len as u64, numbers: numbers.write_on(stream)? };
    // SAFETY: as many strings as numbers, of at most 8 bytes.
    unsafe { over(stream, len as u64)?.run(calls::numbers(&args))? };
    let (mut sorted, mut sorted_values) = (device.alloc(len)?, device.alloc(len)?);
    let bits = 64 - 8 * width as u32..64;
    let mut scratch = RadixSortScratch::for_pairs(device, len)?;
    radix_sort(stream, (&numbers, values), len, bits, (&mut sorted, &mut sorted_values), &mut scratch)?;
    drop(scratch);
    let (mut last_values, mut count) = (device.alloc(len)?, device.alloc(1)?);
    let pairs = Pairs { keys: &sorted, values: &sorted_values, count: len.into() };
    let last = PairsMut { keys: &mut numbers, values: &mut last_values, count: &mut count };
    last_by_key(stream, pairs, last, &mut RunScratch::new(device, len)?)?;
    stream.synchronize()?;
    let mut found = [0];
    count.copy_to(&mut found)?;
    Ok((numbers, last_values, found[0] as usize))
}

/// Keys that should ascend strictly.
pub(super) struct Sorted {
    pub(super) keys: KeysRef,
    pub(super) width: usize,
    /// Whether they are numbers whose upper bytes are the strings.
    pub(super) numbers: bool,
    pub(super) len: usize,
}

/// What became of such keys.
pub(super) enum Made {
    /// The leaves, whose index is their rank, and the link of the first one; none without keys.
    Leaves(Box<LeafBuffers>, Link),
    /// The key of this index is below the one before it.
    Descends(usize),
    /// The key of this index equals the one before it.
    Repeats(usize),
}

/// Room for the leaves of keys of a width up to [`MAX_FIXED`], and the link of the first one.
fn room(device: &Device, width: usize, len: usize) -> Result<(LeafBuffers, Link)> {
    let kind = LinkType::of_key(width).unwrap_or(LinkType::Leaf32);
    let len_of = |own: LinkType| if own == kind { len } else { 0 };
    let room = Room {
        leaf8: len_of(LinkType::Leaf8),
        leaf16: len_of(LinkType::Leaf16),
        leaf32: len_of(LinkType::Leaf32),
        ..Room::default()
    };
    Ok((room.alloc(device)?, if len == 0 { Link::NONE } else { Link::new(kind, width, 0) }))
}

/// Builds the leaves of keys on the stream's device, which also has at least as many values. Waits for the stream.
pub(super) fn leaves<V: Word>(stream: &Stream, keys: &Sorted, values: &Buffer<V>) -> Result<Made> {
    let device = stream.device();
    let (mut leaves, first) = room(device, keys.width, keys.len)?;
    if keys.len == 0 {
        return Ok(Made::Leaves(leaves.into(), first));
    }
    let mut found = device.upload(&[u64::MAX; 2])?;
    let args = LeavesArgs {
        keys: keys.keys,
        values: values.read_on(stream)?,
        leaves: match first.kind() {
            LinkType::Leaf8 => leaves.leaf8.buffer.write_on(stream)?.cast(),
            LinkType::Leaf16 => leaves.leaf16.buffer.write_on(stream)?.cast(),
            _ => leaves.leaf32.buffer.write_on(stream)?.cast(),
        },
        findings: found.write_on(stream)?,
        count: keys.len as u64,
        numbers: keys.numbers.into(),
        padding: 0,
    };
    // SAFETY: as many leaves as keys and values, of the kind for keys of this width.
    unsafe { over(stream, keys.len as u64)?.run(calls::leaves(&args))? };
    stream.synchronize()?;
    let mut first_found = [0; 2];
    found.copy_to(&mut first_found)?;
    let [descent, equal] = first_found.map(|index| usize::try_from(index).ok().filter(|&index| index < keys.len));
    Ok(match (descent, equal) {
        (Some(index), equal) if equal.is_none_or(|equal| index < equal) => Made::Descends(index),
        (_, Some(index)) => Made::Repeats(index),
        (_, None) => Made::Leaves(leaves.into(), first),
    })
}
