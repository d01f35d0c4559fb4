//! Bulk build on the CPU, in parallel, straight from sorted keys.

use super::parts::Parts;
use super::update_state::UpdateState;
use super::{Cuart, leaves, nodes, table};
use core::marker::PhantomData;
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf, show};
use lanetree_frame::parallel::*;
use lanetree_frame::room::collected;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::layout::{MAX_FIXED, MAX_KEY};
use lanetree_layout::Word;
use lanetree_runtime::{Device, DeviceKind};

/// Whether look-ups start at a table over the first bytes of keys (section 3.2.2 of the paper).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum RootTable {
    /// Three bytes if keys have at least 2^21 distinct three-byte prefixes, so that the table takes at most 64 bytes
    /// for each; two bytes if they have at least 2^13 distinct two-byte prefixes; otherwise none. (For a million random
    /// keys the large table is also the fastest, by a factor of two, but takes more memory than the rest of the tree.)
    #[default]
    Auto,
    /// None: look-ups begin at the root.
    None,
    /// 2^16 links, 512 KiB.
    TwoBytes,
    /// 2^24 links, 128 MiB, as in the paper.
    ThreeBytes,
}

/// How keys longer than 32 bytes are stored (section 3.2.3 of the paper). [`Hybrid`](super::Hybrid) is the paper's
/// third way: the CPU keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum LongKeys {
    /// In leaves of their size on the device, next to the leaves of short keys: the fastest way for every share of long
    /// keys that was measured.
    #[default]
    DeviceLeaves,
    /// In main memory: the device finds the leaves, and the CPU compares the keys. For keys that would take too much
    /// device memory and are rarely queried. If the device itself inserts a long key into a tree that has no such
    /// leaves yet, that key still gets a leaf on the device.
    HostLeaves,
    /// There must be none.
    Refuse,
}

/// Options of a tree, and its bulk build.
///
/// ```
/// use lanetree::cuart::{LongKeys, RootTable};
/// use lanetree::{ByteKeysBuf, Cuart, Device};
///
/// # fn main() -> lanetree::Result<()> {
/// let keys = ByteKeysBuf::encode(&[3_u64, 1, 2, 1]);
/// let tree = Cuart::builder()
///     .root_table(RootTable::TwoBytes)
///     .long_keys(LongKeys::Refuse)
///     .build(&Device::host(), &keys, &[30_u32, 10, 20, 11])?;
/// assert_eq!(tree.get_many(&ByteKeysBuf::encode(&[1_u64, 2, 3]))?, [Some(11), Some(20), Some(30)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(bound = ""))]
pub struct Builder<V> {
    table: RootTable,
    long_keys: LongKeys,
    values: PhantomData<V>,
}

impl<V> Default for Builder<V> {
    fn default() -> Self {
        Self { table: RootTable::default(), long_keys: LongKeys::default(), values: PhantomData }
    }
}

impl<V: Word> Builder<V> {
    /// Whether look-ups begin at a table; [`RootTable::Auto`] by default.
    #[must_use]
    pub fn root_table(self, table: RootTable) -> Self {
        Self { table, ..self }
    }

    /// How keys longer than 32 bytes are stored; [`LongKeys::DeviceLeaves`] by default.
    #[must_use]
    pub fn long_keys(self, long_keys: LongKeys) -> Self {
        Self { long_keys, ..self }
    }

    /// Builds a tree over pairs in any order. Of equal keys, the last one's value is kept. For the first, or an error:
    /// [`IndexBuilder::build_by`](lanetree_frame::IndexBuilder::build_by) with [`BuildRules`](lanetree_frame::BuildRules).
    ///
    /// Sorts a copy of the pairs, unless they are sorted, with all of rayon's threads.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::KeyTooLong`] for a key of more than 2^32 - 1 bytes, or of more than 32 with
    /// [`LongKeys::Refuse`]; [`Error::Runtime`] if there is no room.
    pub fn build<'k>(&self, device: &Device, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<Cuart<V>> {
        let keys = keys.into();
        self.check(keys, values)?;
        if first_that(keys, |before, key| before > key).is_none() {
            return self.build_ascending(device, keys, values);
        }
        let order = sorted(keys)?;
        self.build_picked(device, keys, values, order)
    }

    /// Builds a tree over pairs in ascending order of their keys. Of equal keys, which must be next to each other, the
    /// last one's value is kept.
    ///
    /// # Errors
    /// As [`Builder::build`], and [`Error::NotSorted`] with the first key that is below the one before.
    pub fn build_sorted<'k>(&self, device: &Device, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<Cuart<V>> {
        let keys = keys.into();
        self.check(keys, values)?;
        if let Some(index) = first_that(keys, |before, key| before > key) {
            return Err(Error::NotSorted { index, previous: show(keys.at(index - 1)), key: show(keys.at(index)) });
        }
        self.build_ascending(device, keys, values)
    }

    fn check(&self, keys: ByteKeys<'_>, values: &[V]) -> Result<()> {
        if keys.len() != values.len() {
            return Err(Error::LengthMismatch { keys: keys.len(), values: values.len() });
        }
        self.check_keys(keys, |_| true)
    }

    /// # Errors
    /// [`Error::KeyTooLong`] with the first such key among those that need a leaf.
    pub(super) fn check_keys(&self, keys: ByteKeys<'_>, counts: impl Fn(usize) -> bool) -> Result<()> {
        let max = if self.long_keys == LongKeys::Refuse { MAX_FIXED } else { MAX_KEY };
        if keys.length_bounds().is_none_or(|(_, longest)| longest <= max) {
            return Ok(());
        }
        let index = (0..keys.len()).find(|&index| keys.at(index).len() > max && counts(index));
        index.map_or(Ok(()), |index| Err(Error::KeyTooLong { index, len: keys.at(index).len(), max }))
    }

    /// Whether look-ups are to begin at a table.
    pub(super) fn table(&self) -> RootTable {
        self.table
    }

    /// What becomes of long keys.
    pub(super) fn long(&self) -> LongKeys {
        self.long_keys
    }

    /// Of keys that do not descend.
    fn build_ascending(&self, device: &Device, keys: ByteKeys<'_>, values: &[V]) -> Result<Cuart<V>> {
        if first_that(keys, |before, key| before == key).is_some() {
            return self.build_picked(device, keys, values, collected(0..keys.len())?);
        }
        self.build_distinct(device, keys, values)
    }

    /// The last pair of each key, of the pairs at these indexes, whose keys do not descend.
    fn build_picked(
        &self,
        device: &Device,
        keys: ByteKeys<'_>,
        values: &[V],
        mut picks: Vec<usize>,
    ) -> Result<Cuart<V>> {
        // `dedup_by` keeps the first of equal neighbours, so each later one puts itself in its place.
        picks.dedup_by(|later, kept| {
            let equal = keys.at(*later) == keys.at(*kept);
            if equal {
                *kept = *later;
            }
            equal
        });
        let values = picks.par_iter().map(|&pick| values[pick]).try_collect()?;
        self.build_distinct(device, (&ByteKeysBuf::pick(keys, &picks)?).into(), &values)
    }

    /// Of strictly ascending keys.
    fn build_distinct(&self, device: &Device, keys: ByteKeys<'_>, values: &[V]) -> Result<Cuart<V>> {
        if device.kind() != DeviceKind::Host {
            return self.build_distinct(&Device::host(), keys, values)?.to_device(device);
        }
        let (leaves, first) = leaves::build(device, keys, values, self.long_keys)?;
        let order = leaves.order.as_slice().expect("the host's memory");
        let leaf = |rank: usize| if first.is_none() { order[rank] } else { first.offset(rank as u64) };
        let (nodes, root) = nodes::build(device, keys, &leaf)?;
        let mut parts = Parts {
            device: device.clone(),
            root,
            len: keys.len() as u64,
            first,
            ordered: true,
            nodes,
            leaves,
            table: device.alloc(0)?,
            table_bytes: 0,
            updates: UpdateState::default(),
        };
        parts.table_bytes = match self.table {
            RootTable::Auto => table::choose(keys),
            RootTable::None => 0,
            RootTable::TwoBytes => 2,
            RootTable::ThreeBytes => 3,
        };
        parts.table = table::build(device, &parts.view(), parts.table_bytes)?;
        Ok(Cuart::of_parts(device, *self, parts))
    }
}

/// The indexes of the keys in ascending order; equal keys keep their order.
pub(super) fn sorted(keys: ByteKeys<'_>) -> Result<Vec<usize>> {
    sorted_of(keys, 0..keys.len())
}

/// As [`sorted`], of some of the indexes, in ascending order.
pub(super) fn sorted_of(keys: ByteKeys<'_>, indexes: impl IntoParallel<Item = usize>) -> Result<Vec<usize>> {
    in_order(keys, indexes.into_par_iter().map(|i| (head(keys.at(i)), i)).try_collect()?)
}

fn in_order(keys: ByteKeys<'_>, mut order: Vec<(u64, usize)>) -> Result<Vec<usize>> {
    // Most keys differ in their first bytes. By index where they are equal: the sort is stable.
    sort_unstable_by(&mut order, |a, b| {
        a.0.cmp(&b.0).then_with(|| keys.at(a.1).cmp(keys.at(b.1))).then_with(|| a.1.cmp(&b.1))
    });
    order.into_par_iter().map(|(_, index)| index).try_collect()
}

/// The first eight bytes as a number in the same order.
fn head(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = key.len().min(8);
    head[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(head)
}

/// The first key that has a given relation to the one before it.
pub(super) fn first_that(keys: ByteKeys<'_>, relation: impl Fn(&[u8], &[u8]) -> bool + Sync) -> Option<usize> {
    (1..keys.len()).into_par_iter().with_min_len(1 << 12).find_first(|&i| relation(keys.at(i - 1), keys.at(i)))
}
