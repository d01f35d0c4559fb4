//! Builds from sorted pieces: each piece goes to its shard's device.

use crate::group::{Group, check_devices};
use crate::sharded::Sharded;
use crate::splitters;
use core::fmt;
use lanetree_frame::error::{check_buffer, same_device};
use lanetree_frame::fixed::pairs::check_lengths;
use lanetree_frame::parallel::*;
use lanetree_frame::{AnyKey, Buffer, Device, DeviceBuilder, Error, KeyWord, OrderedIndex, Result, Stream, Word};
use lanetree_runtime::PeerPart;

/// The pairs of one shard, for a [`Sharded`] built from sorted pieces. They are collected on the shard's device; there is no other copy
/// of them. Add pieces with one thread per shard, so that every card's bus carries its part.
///
/// ```
/// use lanetree::{Device, LaneTree, OrderedIndex, ShardPieces, Sharded};
///
/// # fn main() -> lanetree::Result<()> {
/// // Of a host with two GPUs: [Device::cuda(0)?, Device::cuda(1)?].
/// let devices = [Device::emulated(), Device::emulated()];
/// let mut shards = Vec::new();
/// for (first, device) in [0_u64, 500].into_iter().zip(&devices) {
///     let mut pieces = ShardPieces::new(device, 500)?;
///     for piece in 0..5 {
///         let keys: Vec<u64> = (0..100).map(|i| (first + piece * 100 + i) * 7).collect();
///         let values: Vec<u64> = keys.iter().map(|key| key / 7).collect();
///         pieces.push(&keys, &values)?;
///     }
///     shards.push(pieces);
/// }
/// let index = Sharded::from_pieces(LaneTree::builder(), shards)?;
/// assert_eq!((index.len(), index.get_many(&[6993, 14, 15])?), (1000, vec![Some(999), Some(2), None]));
/// # Ok(())
/// # }
/// ```
pub struct ShardPieces<K, V> {
    stream: Stream,
    keys: Buffer<K>,
    values: Buffer<V>,
    len: usize,
    /// The first key and the last one.
    ends: Option<[K; 2]>,
}

impl<K: AnyKey, V: Word> ShardPieces<K, V> {
    /// An empty shard with memory for `most` pairs on a device. It holds the memory until the index is built.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, most: usize) -> Result<Self> {
        let (keys, values) = (device.alloc(most)?, device.alloc(most)?);
        Ok(Self { stream: device.stream()?, keys, values, len: 0, ends: None })
    }

    /// The device of the shard.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// The number of pairs so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds pairs from main memory, in ascending order of their keys, which are not below earlier ones. Of equal keys, the last one's
    /// value is kept. Returns when the pairs are on the device.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::NotSorted`]; [`Error::OutputLength`] for more pairs than there is memory for;
    /// [`Error::Runtime`] from the device. Earlier pieces are unchanged.
    pub fn push(&mut self, keys: &[K], values: &[V]) -> Result<()> {
        check_lengths(keys, values)?;
        let [Some(&first), Some(&last)] = [keys.first(), keys.last()] else { return Ok(()) };
        self.check(first, keys.len())?;
        if let Some(index) = (1..keys.len()).into_par_iter().find_first(|&at| keys[at] < keys[at - 1]) {
            return Err(not_sorted(index, &keys[index - 1], &keys[index]));
        }
        self.keys.copy_range_from(self.len, keys)?;
        self.values.copy_range_from(self.len, values)?;
        self.add(first, last, keys.len());
        Ok(())
    }

    /// Adds the first `len` pairs of two buffers, on the shard's device or on another one of the same kind, in the order of `stream`,
    /// a stream of the buffers' device. Otherwise like [`ShardPieces::push`]; but the copy may go on after the return, and only the
    /// first and the last key of a piece are checked before the build. If keys between them are out of order,
    /// [`Sharded::from_pieces`] sorts them, or returns an error for a key outside the piece's ends.
    ///
    /// # Errors
    /// [`Error::NotSorted`] for the ends; [`Error::OutputLength`] for buffers that are too short, or for more pairs than there is memory
    /// for; [`Error::Runtime`] for a buffer of another device than the stream's, for devices of different kinds, and from the devices.
    /// Earlier pieces are unchanged.
    pub fn push_on(&mut self, stream: &Stream, keys: &Buffer<K>, values: &Buffer<V>, len: usize) -> Result<()> {
        let device = stream.device();
        check_buffer(device, "the keys' buffer", len, keys)?;
        check_buffer(device, "the values' buffer", len, values)?;
        if device.kind() != self.device().kind() {
            same_device(self.device(), device, "the stream")?;
        }
        if len == 0 {
            return Ok(());
        }
        // These copies wait for earlier work on the buffers.
        let mut ends = [[K::MIN]; 2];
        keys.copy_range_to(0, &mut ends[0])?;
        keys.copy_range_to(len - 1, &mut ends[1])?;
        let [[first], [last]] = ends;
        self.check(first, len)?;
        if last < first {
            return Err(not_sorted(len - 1, &first, &last));
        }
        let at = self.len;
        self.keys.copy_from_peers(&self.stream, &[PeerPart { from: keys, range: 0..len, stream, at }])?;
        self.values.copy_from_peers(&self.stream, &[PeerPart { from: values, range: 0..len, stream, at }])?;
        self.add(first, last, len);
        Ok(())
    }

    /// Checks that a piece does not begin below the last key, and that there is memory for it.
    fn check(&self, first: K, more: usize) -> Result<()> {
        if let Some([_, last]) = self.ends
            && first < last
        {
            return Err(not_sorted(0, &last, &first));
        }
        let (expected, actual) = (self.len.saturating_add(more), self.keys.len());
        match expected <= actual {
            true => Ok(()),
            false => Err(Error::OutputLength { what: "the room for a shard's pieces", expected, actual }),
        }
    }

    fn add(&mut self, first: K, last: K, more: usize) {
        self.len += more;
        self.ends = Some([self.ends.map_or(first, |ends| ends[0]), last]);
    }
}

impl<K: AnyKey, I: OrderedIndex<Domain = K>> Sharded<I> {
    /// Builds an index from each shard's pairs, in ascending order: all keys of a shard are above those of the shard before. All shards
    /// are built at the same time, each on its device, and their pieces are freed right after; so a device needs memory for its pairs
    /// and its shard's index at once, and the host needs none. A shard may have no pairs; later changes may give it some.
    ///
    /// # Errors
    /// [`Error::OptionValue`] for no shards, more than 64, or an empty shard past the largest key of all; [`Error::NotSorted`],
    /// [`Error::NotDistinct`] for a key of a shard that is not above those of the shard before (`index` is 0), or that is outside the
    /// ends of its pieces; those of the index's build.
    pub fn from_pieces(
        builder: impl DeviceBuilder<Index = I> + 'static,
        shards: Vec<ShardPieces<K, I::Value>>,
    ) -> Result<Self> {
        let devices: Vec<Device> = shards.iter().map(|pieces| pieces.device().clone()).collect();
        check_devices(&devices)?;
        let ends: Vec<Option<[K; 2]>> = shards.iter().map(|pieces| pieces.ends).collect();
        let splitters = borders(&ends)?;
        let build = |(number, pieces): (usize, ShardPieces<K, I::Value>)| {
            let ShardPieces { stream, keys, values, len, .. } = pieces;
            let index = builder.build_owned_on(&stream, keys, values, len)?;
            if let Some([first, last]) = ends[number] {
                // The keys of a piece on a device were not checked.
                let (least, most) = (index.successor_many(&[K::MIN])?[0], index.predecessor_many(&[K::MAX])?[0]);
                if let Some((least, _)) = least.filter(|least| least.0 < first) {
                    return Err(not_sorted(0, &first, &least));
                }
                if let Some((most, _)) = most.filter(|most| most.0 > last) {
                    return Err(not_sorted(0, &most, &last));
                }
            }
            Ok(index)
        };
        let members = shards.into_par_iter().enumerate().try_map_collect(build)?;
        Ok(Self::of(Group::new(members, I::is_lost), splitters, std::sync::Arc::new(builder)))
    }
}

/// The splitters of shards with these first and last keys.
fn borders<K: AnyKey>(ends: &[Option<[K; 2]>]) -> Result<Vec<K>> {
    let known: Vec<[K; 2]> = ends.iter().flatten().copied().collect();
    for two in known.windows(2) {
        let ([_, last], [first, _]) = (two[0], two[1]);
        if first < last {
            return Err(not_sorted(0, &last, &first));
        }
        if first == last {
            return Err(Error::NotDistinct { index: 0, key: format!("{first:?}") });
        }
    }
    let Some([_, last]) = known.last() else { return splitters::choose(&[], ends.len()) };
    // The interval of an empty shard is empty, too: it begins with the next shard's first key, or past the last key.
    let mut next = match ends.last() {
        Some(Some(_)) => None,
        _ if *last == K::MAX => {
            let (what, value) = ("a shard without pairs, after one that ends with the key", format!("{last:?}"));
            return Err(Error::OptionValue { what, value, allowed: "smaller keys, or pairs in the last shard" });
        }
        _ => Some(K::decode(last.encode().wrapping_add(K::Bits::truncate(1)))),
    };
    let mut borders: Vec<K> = ends
        .iter()
        .rev()
        .take(ends.len() - 1)
        .map(|ends| {
            next = ends.map(|ends| ends[0]).or(next);
            next.expect("the last shard has one")
        })
        .collect();
    borders.reverse();
    Ok(borders)
}

fn not_sorted<K: AnyKey>(index: usize, previous: &K, key: &K) -> Error {
    Error::NotSorted { index, previous: format!("{previous:?}"), key: format!("{key:?}") }
}

impl<K: AnyKey, V: Word> fmt::Debug for ShardPieces<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardPieces[{} of {} pairs, on {}]", self.len, self.keys.len(), self.device())
    }
}
