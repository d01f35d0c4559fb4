//! Pairs on a device, made ready for a bulk build: sorted, and each key once.

use crate::check;
use crate::input::words_mut;
use crate::sample::likely_bits;
use crate::{
    LOCAL_SORT_FINDINGS, Pairs, PairsMut, RadixSortScratch, RunScratch, last_by_key, local_sort, radix_sort,
    radix_sort_in_place,
};
use core::ops::Range;
use lanetree_base::error::same_device;
use lanetree_base::launch::{self, THREADS};
use lanetree_base::{AnyKey, Buffer, Device, DeviceKind, Error, KeyWord, Result, Stream, Value, Word};
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::operations::CheckOrderArgs;
use lanetree_simt::Global;

/// Scratch memory of builds on a device, reusable for the next build. For unsorted pairs it takes twice the memory of
/// the pairs. Half of that again is allocated when keys first occur more than once. [`build_from`] needs none of it.
#[derive(Debug)]
pub struct BuildScratch<K: AnyKey, V: Value> {
    device: Device,
    /// Sorted pairs, for builds from unsorted ones.
    sorted: Option<(Buffer<K>, Buffer<V>)>,
    sort: Option<RadixSortScratch<K, V::Word>>,
    /// Distinct pairs, for builds from pairs with equal keys.
    distinct: Option<Distinct<K, V>>,
    findings: Buffer<u64>,
}

/// Where the distinct pairs go, and how many there are.
#[derive(Debug)]
struct Distinct<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    count: Buffer<u64>,
    runs: RunScratch,
}

/// The first `len` pairs of two buffers, one of keys and one of values, on a device.
#[derive(Clone, Copy, Debug)]
pub struct DevicePairs<'a, K, V> {
    /// `[len]`.
    pub keys: &'a Buffer<K>,
    /// `[len]`.
    pub values: &'a Buffer<V>,
    /// The number of pairs. Elements past them are not read.
    pub len: usize,
}

impl<K: AnyKey, V: Value> BuildScratch<K, V> {
    /// Memory on `device` for builds of up to `len` unsorted pairs, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](Error::Runtime) if the device has no room; [`TooManyElements`](Error::TooManyElements).
    pub fn for_unsorted(device: &Device, len: usize) -> Result<Self> {
        let mut scratch = Self::for_sorted(device)?;
        if device.kind() != DeviceKind::Host {
            scratch.sorted = Some((device.alloc(len)?, device.alloc(len)?));
            scratch.sort = Some(sort_scratch::<K, V>(device, len)?);
        }
        Ok(scratch)
    }

    /// Memory on `device` for builds from any number of sorted pairs: a few words. A build whose pairs have equal keys
    /// allocates room for the distinct ones.
    ///
    /// # Errors
    /// [`Runtime`](Error::Runtime) if the device has no room.
    pub fn for_sorted(device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            sorted: None,
            sort: None,
            distinct: None,
            findings: device.alloc(LOCAL_SORT_FINDINGS)?,
        })
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

    /// Checks the buffers that a build is given, and that this scratch memory is on the stream's device. On the host returns the pairs.
    ///
    /// # Errors
    /// [`OutputLength`](Error::OutputLength) for buffers that are too small; [`Runtime`](Error::Runtime) for buffers of
    /// another device than the stream's.
    pub fn check<'b>(
        &self,
        stream: &Stream,
        DevicePairs { keys, values, len }: DevicePairs<'b, K, V>,
    ) -> Result<Option<(&'b [K], &'b [V])>> {
        check_pairs(stream, keys, values, len)?;
        same_device(stream.device(), &self.device, "the scratch memory")?;
        let pairs = keys.as_slice().zip(values.as_slice()).filter(|_| stream.device().kind() == DeviceKind::Host);
        Ok(pairs.map(|(keys, values)| (&keys[..len], &values[..len])))
    }

    /// Sorts pairs by their keys, drops all but the last one of each key, and gives them to `build`: on a device that runs
    /// kernels. `build` is given pairs for the stream.
    ///
    /// # Errors
    /// As [`BuildScratch::check`]; [`OutputLength`](Error::OutputLength) for scratch memory that is too small; the
    /// errors of `build`.
    pub fn unsorted<R>(
        &mut self,
        stream: &Stream,
        DevicePairs { keys, values, len }: DevicePairs<'_, K, V>,
        build: impl FnOnce(DevicePairs<'_, K, V>) -> Result<R>,
    ) -> Result<R> {
        self.in_order(stream, DevicePairs { keys, values, len }, |scratch, pairs| scratch.sorted(stream, pairs, build))
    }

    /// Sorts pairs by their keys, stably, and gives them to `build` with the rest of the scratch memory: all pairs,
    /// equal keys in their original order. On a device that runs kernels. `build` is given pairs for the stream.
    ///
    /// # Errors
    /// As [`BuildScratch::unsorted`].
    pub fn in_order<R>(
        &mut self,
        stream: &Stream,
        DevicePairs { keys, values, len }: DevicePairs<'_, K, V>,
        build: impl FnOnce(&mut Self, DevicePairs<'_, K, V>) -> Result<R>,
    ) -> Result<R> {
        self.check(stream, DevicePairs { keys, values, len })?;
        let (Some(mut sorted), Some(sort)) = (self.sorted.take(), &mut self.sort) else {
            let what = "the scratch memory for unsorted pairs";
            return Err(Error::OutputLength { what, expected: len, actual: 0 });
        };
        let result = first_bits::<K, V>(keys, len)
            .and_then(|bits| {
                let out = (&mut sorted.0, &mut sorted.1);
                sort_first_by(stream, bits, len, out, &mut self.findings, |bits, out| {
                    radix_sort(stream, (keys, values), len, bits, out, sort)
                })
            })
            .and_then(|()| build(self, DevicePairs { keys: &sorted.0, values: &sorted.1, len }));
        self.sorted = Some(sorted);
        result
    }

    /// Drops all but the last one of equal keys from pairs in ascending order of their keys, and gives the pairs to
    /// `build`: on a device that runs kernels. Waits for the stream, to learn how many keys are equal.
    ///
    /// # Errors
    /// As [`BuildScratch::check`]; [`NotSorted`](Error::NotSorted); the errors of `build`.
    pub fn sorted<R>(
        &mut self,
        stream: &Stream,
        DevicePairs { keys, values, len }: DevicePairs<'_, K, V>,
        build: impl FnOnce(DevicePairs<'_, K, V>) -> Result<R>,
    ) -> Result<R> {
        self.check(stream, DevicePairs { keys, values, len })?;
        let equal = self.ascending(stream, keys, len)?;
        if equal == 0 {
            return build(DevicePairs { keys, values, len });
        }
        if self.distinct.as_ref().is_none_or(|distinct| distinct.keys.len() < len) {
            self.distinct = Some(Distinct::new(&self.device, len)?);
        }
        let distinct = self.distinct.as_mut().expect("made above");
        distinct.take_last(stream, DevicePairs { keys, values, len })?;
        build(DevicePairs { keys: &distinct.keys, values: &distinct.values, len: len - equal })
    }

    /// How many of the first `len` keys equal the one before, on a device that runs kernels. Waits for the stream.
    ///
    /// # Errors
    /// [`OutputLength`](Error::OutputLength) for a buffer that is too small; [`Runtime`](Error::Runtime) for a buffer of another
    /// device than the stream's, and from it; [`NotSorted`](Error::NotSorted) with the first key that is below the one before.
    pub fn ascending(&mut self, stream: &Stream, keys: &Buffer<K>, len: usize) -> Result<usize> {
        check::buffer(stream, "the keys' buffer", len, keys)?;
        same_device(stream.device(), &self.device, "the scratch memory")?;
        let order = order_of(stream, keys, len, &mut self.findings)?;
        let Some(index) = order.descent else { return Ok(order.equal) };
        let mut around = [K::MIN; 2];
        keys.copy_range_to(index - 1, &mut around)?;
        let [previous, key] = around.map(|key| key.to_string());
        Err(Error::NotSorted { index, previous, key })
    }
}

impl<K: AnyKey, V: Value> Distinct<K, V> {
    fn new(device: &Device, len: usize) -> Result<Self> {
        let (keys, values, count) = (device.alloc(len)?, device.alloc(len)?, device.alloc(1)?);
        Ok(Self { keys, values, count, runs: RunScratch::new(device, len)? })
    }

    /// Takes the last one of sorted pairs with equal keys.
    fn take_last(&mut self, stream: &Stream, DevicePairs { keys, values, len }: DevicePairs<'_, K, V>) -> Result<()> {
        let Self { keys: distinct_keys, values: distinct_values, count, runs } = self;
        last_by_key(
            stream,
            Pairs { keys, values, count: len.into() },
            PairsMut { keys: distinct_keys, values: distinct_values, count },
            runs,
        )
    }
}

/// Sorts pairs by their keys where they are, unless they are sorted; drops all but the last one of each key; and gives them to
/// `build`: on a device that runs kernels. Both buffers are freed on return. In addition it takes the memory of as many pairs
/// from the stream's device, which is free when `build` is called.
///
/// # Errors
/// [`OutputLength`](Error::OutputLength) for buffers that are too small; [`Runtime`](Error::Runtime) for buffers of
/// another device than the stream's, and if the device has no room; [`TooManyElements`](Error::TooManyElements); the
/// errors of `build`.
pub fn build_from<K: AnyKey, V: Value, R>(
    stream: &Stream,
    mut keys: Buffer<K>,
    mut values: Buffer<V>,
    len: usize,
    build: impl FnOnce(DevicePairs<'_, K, V>) -> Result<R>,
) -> Result<R> {
    check_pairs(stream, &keys, &values, len)?;
    let device = stream.device();
    let mut findings = device.alloc(LOCAL_SORT_FINDINGS)?;
    let mut order = order_of(stream, &keys, len, &mut findings)?;
    if order.descent.is_some() {
        let mut sort = sort_scratch::<K, V>(device, len)?;
        let bits = first_bits::<K, V>(&keys, len)?;
        sort_first_by(stream, bits, len, (&mut keys, &mut values), &mut findings, |bits, pairs| {
            radix_sort_in_place(stream, pairs, len, bits, &mut sort)
        })?;
        drop(sort);
        order = order_of(stream, &keys, len, &mut findings)?;
    }
    if order.equal == 0 {
        return build(DevicePairs { keys: &keys, values: &values, len });
    }
    let mut distinct = Distinct::new(device, len)?;
    distinct.take_last(stream, DevicePairs { keys: &keys, values: &values, len })?;
    drop((keys, values));
    let Distinct { keys, values, .. } = distinct;
    build(DevicePairs { keys: &keys, values: &values, len: len - order.equal })
}

/// Sorts the first `len` of `keys`, stably, into `sorted`, with values: by the bits that are likely to be enough, and then locally, or
/// by all in which keys differ if these were not enough. `by` sorts them by bits, stably, such as with
/// [`radix_sort`] or [`radix_argsort`](crate::radix_argsort), and may be called twice. Of random keys, fewer than half of the
/// passes are left. Waits for the stream.
///
/// # Errors
/// [`OutputLength`](Error::OutputLength) for buffers that are too small; [`Runtime`](Error::Runtime); the errors of `by`.
pub fn sort_by_likely_bits<K: AnyKey, V: Word>(
    stream: &Stream,
    keys: &Buffer<K>,
    len: usize,
    sorted: (&mut Buffer<K>, &mut Buffer<V>),
    mut by: impl FnMut(Range<u32>, (&mut Buffer<K>, &mut Buffer<V>)) -> Result<()>,
) -> Result<()> {
    check::buffer(stream, "the keys' buffer", len, keys)?;
    check_pairs(stream, sorted.0, sorted.1, len)?;
    if stream.device().kind() == DeviceKind::Host {
        return by(0..K::Bits::BITS, sorted);
    }
    let mut findings = stream.device().alloc(LOCAL_SORT_FINDINGS)?;
    sort_first_by(stream, likely_bits(keys, len)?, len, sorted, &mut findings, by)
}

/// The bits by which pairs are sorted first; of a set's keys all, since no local sort is over keys alone.
fn first_bits<K: AnyKey, V: Value>(keys: &Buffer<K>, len: usize) -> Result<Range<u32>> {
    if V::IS_SOME { likely_bits(keys, len) } else { Ok(0..K::Bits::BITS) }
}

/// Memory to sort pairs, or the keys of a set.
fn sort_scratch<K: AnyKey, V: Value>(device: &Device, len: usize) -> Result<RadixSortScratch<K, V::Word>> {
    RadixSortScratch::new(device, len, len, if V::IS_SOME { len } else { 0 })
}

/// Keys and values to be sorted.
type PairsToSort<'a, K, V> = (&'a mut Buffer<K>, &'a mut Buffer<V>);

/// Sorts pairs by bits of their keys that are likely to be enough, and then locally; or, if these were not enough, once more
/// by all bits in which they differ. `by` sorts them by bits, stably. Waits for the stream, unless the bits are all there are.
fn sort_first_by<K: AnyKey, V: Value>(
    stream: &Stream,
    bits: Range<u32>,
    len: usize,
    (keys, values): PairsToSort<'_, K, V>,
    findings: &mut Buffer<u64>,
    mut by: impl FnMut(Range<u32>, PairsToSort<'_, K, V>) -> Result<()>,
) -> Result<()> {
    let width = K::Bits::BITS;
    let from = bits.start;
    by(bits.clone(), (keys, values))?;
    let Some(words) = words_mut(values).filter(|_| bits != (0..width)) else { return Ok(()) };
    findings.copy_from(&[0; LOCAL_SORT_FINDINGS])?;
    // SAFETY: the sort has checked the buffers, and the findings are as many as they must be.
    unsafe { local_sort(stream, keys, words, len, from, findings.write_on(stream)?)? };
    let mut found = [0; LOCAL_SORT_FINDINGS];
    findings.copy_to(&mut found)?;
    let [differing, unsorted] = found;
    if unsorted > 0 {
        // Of keys of 128 bits, each bit stands for two of theirs.
        let top = (u64::BITS - differing.leading_zeros()) * width.div_ceil(u64::BITS);
        by(0..top, (keys, values))?;
    }
    Ok(())
}

/// Checks that both buffers have at least `len` elements, and that they are on the stream's device.
///
/// # Errors
/// [`OutputLength`](Error::OutputLength) for buffers that are too small; [`Runtime`](Error::Runtime) for buffers of another
/// device than the stream's.
pub fn check_pairs<K: AnyKey, V: Value>(
    stream: &Stream,
    keys: &Buffer<K>,
    values: &Buffer<V>,
    len: usize,
) -> Result<()> {
    check::buffer(stream, "the keys' buffer", len, keys)?;
    check::buffer(stream, "the values' buffer", len, values)
}

/// What the order of keys is.
struct Order {
    /// The first key that is below the one before it.
    descent: Option<usize>,
    /// Keys that equal the one before.
    equal: usize,
}

/// Finds the first of `len` keys that is below the one before, into the first of two findings, which was `u64::MAX`, and adds to the
/// second one how many equal the one before. On a device that runs kernels, in the stream's order; may return before it is done.
///
/// # Errors
/// [`OutputLength`](Error::OutputLength) for fewer findings; [`Runtime`](Error::Runtime).
///
/// # Safety
/// The stream may read that many keys.
#[doc(hidden)]
pub unsafe fn check_order<K: AnyKey>(
    stream: &Stream,
    keys: Global<K::Bits>,
    len: usize,
    findings: &mut Buffer<u64>,
) -> Result<()> {
    // Enough threads for every multiprocessor, each with many keys.
    const MOST_THREADS: usize = 1 << 20;
    check::buffer(stream, "the findings' buffer", 2, findings)?;
    let args = CheckOrderArgs { keys, count: len as u64, findings: findings.write_on(stream)?, flip: K::FLIP };
    let launch = launch::over(stream, len.clamp(1, MOST_THREADS) as u64, 1, THREADS)?;
    // SAFETY: the caller's contract for the keys, and the findings are two; the pointers are for this stream.
    Ok(unsafe { launch.run(calls::check_order(&args)) }?)
}

/// Determines how keys are ordered. Waits for the stream.
fn order_of<K: AnyKey>(stream: &Stream, keys: &Buffer<K>, len: usize, findings: &mut Buffer<u64>) -> Result<Order> {
    findings.copy_from(&[u64::MAX, 0])?;
    // SAFETY: the caller has checked the keys' length.
    unsafe { check_order::<K>(stream, keys.read_on(stream)?.cast(), len, findings)? };
    stream.synchronize()?;
    let mut found = [0; 2];
    findings.copy_to(&mut found)?;
    Ok(Order { descent: usize::try_from(found[0]).ok().filter(|&index| index < len), equal: found[1] as usize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::rng;
    use rand::{Rng, RngExt};
    use std::collections::BTreeMap;

    /// Keys of which a sample says what is right, and of which it does not.
    fn inputs(len: usize) -> [Vec<u64>; 3] {
        let mut rng = rng(3);
        let random: Vec<u64> = (0..len).map(|_| rng.next_u64() & !1).collect();
        // Every other one again.
        let twice = (0..len).map(|i| random[i / 2]).collect();
        // All but one are small, so most agree in their upper bits, and runs are long.
        let mut crowded: Vec<u64> = (0..len).map(|_| rng.random_range(0..1 << 40)).collect();
        crowded[len / 2..].iter_mut().for_each(|key| *key = 77 << 20 | (*key & 0xff));
        crowded[300] = u64::MAX;
        [random, twice, crowded]
    }

    #[test]
    fn pairs_are_sorted_whatever_their_sample_says() {
        let len = 20_000;
        let device = Device::emulated_with_seed(5);
        let stream = device.stream().unwrap();
        for keys in inputs(len) {
            let values: Vec<u32> = (0..len as u32).collect();
            let expected: BTreeMap<u64, u32> = keys.iter().copied().zip(values.iter().copied()).collect();
            let check = |DevicePairs { keys, values, len }: DevicePairs<'_, u64, u32>| {
                stream.synchronize()?;
                let (keys, values) = (keys.to_vec()?, values.to_vec()?);
                assert!(keys[..len].iter().zip(&values[..len]).eq(&expected));
                Ok(())
            };
            let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let mut scratch = BuildScratch::for_unsorted(&device, len).unwrap();
            scratch.unsorted(&stream, DevicePairs { keys: &keys, values: &values, len }, check).unwrap();
            build_from(&stream, keys, values, len, check).unwrap();
        }
    }
}
