//! Bulk build on the device, from pairs that are already there.

use super::Builder;
use crate::{Harmonia, launch};
use core::marker::PhantomData;
use lanetree_frame::Guarded;
use lanetree_frame::error::same_device;
use lanetree_frame::fixed::Staging;
use lanetree_frame::{Error, Result};
use lanetree_kernels_harmonia::build::{CheckOrderArgs, FillInnerArgs, FillLeavesArgs, SLOTS};
use lanetree_kernels_harmonia::calls;
use lanetree_kernels_harmonia::layout::{Shape, leaf_bytes};
use lanetree_layout::{Key, Word};
use lanetree_primitives::{Pairs, PairsMut, RadixSortScratch, RunScratch, last_by_key, radix_sort_pairs};
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};

/// Scratch memory of builds on a device, reusable for the next build. For unsorted pairs it takes twice the memory of
/// the pairs. The same amount again is allocated when keys first occur more than once.
#[derive(Debug)]
pub struct BuildScratch<K: Key, V: Word> {
    device: Device,
    /// Sorted pairs, for builds from unsorted ones.
    sorted: Option<(Buffer<K>, Buffer<V>)>,
    sort: Option<RadixSortScratch<K, V>>,
    /// Distinct pairs, for builds from pairs with equal keys.
    distinct: Option<Distinct<K, V>>,
    findings: Buffer<u64>,
}

impl<K: Key, V: Word> BuildScratch<K, V> {
    /// For builds of up to `len` unsorted pairs.
    ///
    /// # Errors
    /// [`Runtime`](Error::Runtime) if the device has no room; [`TooManyElements`](Error::TooManyElements).
    pub fn for_unsorted(device: &Device, len: usize) -> Result<Self> {
        let mut scratch = Self::for_sorted(device)?;
        if device.kind() != DeviceKind::Host {
            scratch.sorted = Some((device.alloc(len)?, device.alloc(len)?));
            scratch.sort = Some(RadixSortScratch::for_pairs(device, len)?);
        }
        Ok(scratch)
    }

    /// For builds from any number of sorted pairs.
    ///
    /// # Errors
    /// [`Runtime`](Error::Runtime) if the device has no room.
    pub fn for_sorted(device: &Device) -> Result<Self> {
        Ok(Self { device: device.clone(), sorted: None, sort: None, distinct: None, findings: device.alloc(2)? })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        self.findings.bytes()
            + self.sorted.as_ref().map_or(0, |(keys, values)| keys.bytes() + values.bytes())
            + self.sort.as_ref().map_or(0, RadixSortScratch::bytes)
            + self.distinct.as_ref().map_or(0, |distinct| {
                let Distinct { keys, values, count, runs } = distinct;
                keys.bytes() + values.bytes() + count.bytes() + runs.bytes()
            })
    }
}

/// Where the distinct pairs go, and how many there are.
#[derive(Debug)]
struct Distinct<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    count: Buffer<u64>,
    runs: RunScratch,
}

/// What the order of keys is.
struct Order {
    /// The first key that is below the one before it.
    descent: Option<usize>,
    /// Keys that equal the one before.
    equal: usize,
}

impl<K: Key, V: Word> Builder<K, V> {
    /// Builds a tree over the first `len` pairs of two buffers, in any order: a radix sort, and
    /// [`Builder::build_sorted_on`]. Of equal keys, the last one's value is kept. Returns when the tree is complete.
    /// The tree's memory, and later what its host batches take, comes from the stream's device: from its
    /// [pool](lanetree_frame::Pool), if that handle has one. On the host as [`Builder::build`], without the scratch
    /// memory.
    ///
    /// # Errors
    /// As [`Builder::build`]; [`OutputLength`](Error::OutputLength) for buffers or scratch memory that are
    /// too small; [`Runtime`](Error::Runtime) for buffers of another device than the stream's.
    pub fn build_on(
        &self,
        stream: &Stream,
        (keys, values): (&Buffer<K>, &Buffer<V>),
        len: usize,
        scratch: &mut BuildScratch<K, V>,
    ) -> Result<Harmonia<K, V>> {
        check_input(stream, keys, values, len, &scratch.device)?;
        if let (DeviceKind::Host, Some(keys), Some(values)) =
            (stream.device().kind(), keys.as_slice(), values.as_slice())
        {
            return self.build(stream.device(), &keys[..len], &values[..len]);
        }
        self.shape(len)?;
        let (Some(mut sorted), Some(sort)) = (scratch.sorted.take(), &mut scratch.sort) else {
            let what = "the scratch memory for unsorted pairs";
            return Err(Error::OutputLength { what, expected: len, actual: 0 });
        };
        let bits = 0..K::Bits::BITS;
        let result = radix_sort_pairs(stream, (keys, values), len, bits, (&mut sorted.0, &mut sorted.1), sort)
            .and_then(|()| self.build_sorted_on(stream, (&sorted.0, &sorted.1), len, scratch));
        scratch.sorted = Some(sorted);
        result
    }

    /// Builds a tree over the first `len` pairs of two buffers, in ascending order of their keys. Of equal keys the
    /// last one's value is kept. Returns when the tree is complete. On the host as [`Builder::build_sorted`].
    ///
    /// # Errors
    /// As [`Builder::build_on`], and [`NotSorted`](Error::NotSorted).
    pub fn build_sorted_on(
        &self,
        stream: &Stream,
        (keys, values): (&Buffer<K>, &Buffer<V>),
        len: usize,
        scratch: &mut BuildScratch<K, V>,
    ) -> Result<Harmonia<K, V>> {
        check_input(stream, keys, values, len, &scratch.device)?;
        if let (DeviceKind::Host, Some(keys), Some(values)) =
            (stream.device().kind(), keys.as_slice(), values.as_slice())
        {
            return self.build_sorted(stream.device(), &keys[..len], &values[..len]);
        }
        self.shape(len)?;
        let order = order_of(stream, keys, len, &mut scratch.findings)?;
        if let Some(index) = order.descent {
            let mut around = [K::MIN; 2];
            keys.copy_range_to(index - 1, &mut around)?;
            let [previous, key] = around.map(|key| key.to_string());
            return Err(Error::NotSorted { index, previous, key });
        }
        if order.equal == 0 {
            return self.build_distinct_on(stream, (keys, values), len);
        }
        if scratch.distinct.as_ref().is_none_or(|distinct| distinct.keys.len() < len) {
            let device = scratch.device.clone();
            let (keys, values, count) = (device.alloc(len)?, device.alloc(len)?, device.alloc(1)?);
            scratch.distinct = Some(Distinct { keys, values, count, runs: RunScratch::new(&device, len)? });
        }
        let Some(Distinct { keys: distinct_keys, values: distinct_values, count, runs }) = &mut scratch.distinct else {
            unreachable!("made above")
        };
        last_by_key(
            stream,
            Pairs { keys, values, count: len.into() },
            PairsMut { keys: distinct_keys, values: distinct_values, count },
            runs,
        )?;
        self.build_distinct_on(stream, (distinct_keys, distinct_values), len - order.equal)
    }

    /// Builds from strictly ascending pairs.
    fn build_distinct_on(
        &self,
        stream: &Stream,
        (keys, values): (&Buffer<K>, &Buffer<V>),
        len: usize,
    ) -> Result<Harmonia<K, V>> {
        let (shape, device) = (self.shape(len)?, stream.device());
        let mut regions = Regions::<K::Bits, V>::new(device, &shape, 0)?;
        if shape.leaves > 0 {
            let filling = shape.filling();
            let args = FillLeavesArgs {
                keys: lanetree_frame::fixed::bits::<K>(stream, keys)?,
                values: values.read_on(stream)?,
                leaves: regions.leaves.write_on(stream)?.cast(),
                filling,
                flip: K::FLIP,
            };
            let slots = shape.leaves as usize * shape.fanout as usize;
            let launch = launch::over(stream, slots.div_ceil(SLOTS), 1)?;
            // SAFETY: keys and values were checked to be of this length; the leaves are made for it; every pointer is
            // for this stream.
            unsafe { launch.run(calls::fill_leaves::<K::Bits, V>(&args))? };
            regions.fill_inner(stream, &shape)?;
        }
        stream.synchronize()?;
        let Regions { inner, prefix_sum, leaves, .. } = regions;
        let device = device.clone();
        Ok(Harmonia {
            device,
            shape,
            inner,
            prefix_sum,
            leaves,
            ranks: None,
            lens: None,
            staging: Staging::default(),
            whole: Guarded::default(),
            words: PhantomData,
        })
    }
}

fn check_input<K: Key, V: Word>(
    stream: &Stream,
    keys: &Buffer<K>,
    values: &Buffer<V>,
    len: usize,
    scratch: &Device,
) -> Result<()> {
    for (what, actual, device) in
        [("the keys' buffer", keys.len(), keys.device()), ("the values' buffer", values.len(), values.device())]
    {
        if actual < len {
            return Err(Error::OutputLength { what, expected: len, actual });
        }
        same_device(stream.device(), device, what)?;
    }
    same_device(stream.device(), scratch, "the scratch memory")
}

/// Determines how keys are ordered. Waits for the stream.
fn order_of<K: Key>(stream: &Stream, keys: &Buffer<K>, len: usize, findings: &mut Buffer<u64>) -> Result<Order> {
    // Enough threads for every multiprocessor, each with many keys.
    const MOST_THREADS: usize = 1 << 20;
    findings.copy_from(&[u64::MAX, 0])?;
    let args = CheckOrderArgs {
        keys: lanetree_frame::fixed::bits::<K>(stream, keys)?,
        count: len as u64,
        findings: findings.write_on(stream)?,
        flip: K::FLIP,
    };
    let launch = launch::over(stream, len.min(MOST_THREADS), 1)?;
    // SAFETY: the caller has checked the keys' length, and the findings are two; the pointers are for this stream.
    unsafe { launch.run(calls::check_order(&args))? };
    stream.synchronize()?;
    let mut found = [0; 2];
    findings.copy_to(&mut found)?;
    Ok(Order { descent: usize::try_from(found[0]).ok().filter(|&index| index < len), equal: found[1] as usize })
}

/// The memory of a tree's regions; it may have more room than the tree needs.
#[derive(Debug)]
pub(crate) struct Regions<K: Word, V: Word> {
    pub(crate) inner: Buffer<K>,
    pub(crate) prefix_sum: Buffer<u32>,
    pub(crate) leaves: Buffer<u64>,
    words: PhantomData<V>,
}

impl<K: Word, V: Word> Regions<K, V> {
    /// Room for a shape, and for `slack` more leaves and the nodes above them.
    pub(crate) fn new(device: &Device, shape: &Shape, slack: u32) -> Result<Self> {
        let with_slack = |nodes: u32| nodes as usize + slack as usize;
        let leaf_words = leaf_bytes::<K, V>(shape.fanout) as usize / 8;
        Ok(Self {
            inner: device.alloc(with_slack(shape.inner) * shape.fanout as usize)?,
            prefix_sum: device.alloc(with_slack(shape.inner))?,
            leaves: device.alloc(with_slack(shape.leaves) * leaf_words)?,
            words: PhantomData,
        })
    }

    pub(crate) fn of(inner: Buffer<K>, prefix_sum: Buffer<u32>, leaves: Buffer<u64>) -> Self {
        Self { inner, prefix_sum, leaves, words: PhantomData }
    }

    /// Whether there is room for a shape.
    pub(crate) fn has_room(&self, shape: &Shape) -> bool {
        self.inner.len() as u64 >= shape.inner_slots()
            && self.prefix_sum.len() >= shape.inner as usize
            && self.leaves.bytes() as u64 >= shape.leaf_region_bytes::<K, V>()
    }

    /// Fills the inner nodes above full leaves. In the stream's order.
    pub(crate) fn fill_inner(&mut self, stream: &Stream, shape: &Shape) -> Result<()> {
        let mut under_child = 1;
        for level in (0..shape.height).rev() {
            let nodes = shape.level_nodes[level as usize];
            let args = FillInnerArgs {
                leaves: self.leaves.read_on(stream)?.cast(),
                inner: self.inner.write_on(stream)?,
                prefix_sum: self.prefix_sum.write_on(stream)?,
                under_child,
                leaf_count: shape.leaves,
                fanout: shape.fanout,
                children: shape.children,
                first_node: shape.level_first(level),
                nodes,
                first_child: shape.level_first(level + 1),
            };
            let launch = launch::over(stream, nodes as usize, shape.fanout)?;
            // SAFETY: the regions are made for the shape; every pointer is for this stream.
            unsafe { launch.run(calls::fill_inner::<K, V>(&args))? };
            under_child *= u64::from(shape.children);
        }
        Ok(())
    }

    /// Bytes of all.
    pub(crate) fn bytes(&self) -> usize {
        self.inner.bytes() + self.prefix_sum.bytes() + self.leaves.bytes()
    }
}
