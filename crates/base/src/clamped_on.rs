//! Queries of another integer type than the keys, on a device.

use crate::clamped::{Place, place};
use crate::error::{check_buffer, same_device};
use crate::launch::{THREADS, over};
use crate::nulls::mask_hits;
use crate::{Error, Result};
use lanetree_kernels_base::calls;
use lanetree_kernels_base::clamp::{ClampArgs, ClampRanksArgs};
use lanetree_layout::{AnyKey, Key, KeyWord};
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};

/// [`Clamped`](crate::Clamped) in device form: a batch of queries of another integer type than the keys, each of them as a key, or the
/// nearest one where the key type does not reach so far. No query passes through a float.
///
/// What a call answers for these keys is then corrected, in the same stream, by the method that is called like the query. Memory
/// is allocated once, for batches of one length; a call allocates nothing and may return before its work is done.
///
/// ```
/// use lanetree::{Device, DeviceClamped, LaneTree};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::emulated();
/// let index = LaneTree::build(&device, &[0_u32, 20, u32::MAX], &[1_u32, 2, 3])?;
/// let (stream, queries) = (device.stream()?, device.upload(&[-5_i64, 20, 1 << 40])?);
/// let mut clamped = DeviceClamped::<u32>::new(&device, 3)?;
/// clamped.clamp(&stream, &queries)?;
///
/// let mut ranks = device.alloc(3)?;
/// index.on(&stream).upper_bound(clamped.keys(), &mut ranks)?;
/// clamped.ranks(&stream, index.len(), &mut ranks)?;
/// assert_eq!(ranks.to_vec()?, [0, 2, 3]);
///
/// let (mut values, mut hits) = (device.alloc(3)?, device.alloc(1)?);
/// index.on(&stream).hits(&mut hits).get(clamped.keys(), &mut values)?;
/// clamped.hits(&stream, &mut hits)?;
/// assert_eq!(hits.to_vec()?, [0b010]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DeviceClamped<K> {
    keys: Buffer<K>,
    /// A bit for each query that is not below all keys, and for each that is not above all.
    not_below: Buffer<u32>,
    not_above: Buffer<u32>,
}

impl<K: AnyKey> DeviceClamped<K> {
    /// Memory for batches of `count` queries. Until one is clamped, all keys are zeros and no query counts.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room.
    pub fn new(device: &Device, count: usize) -> Result<Self> {
        let mask = || device.alloc_zeroed(count.div_ceil(32));
        Ok(Self { keys: device.alloc_zeroed(count)?, not_below: mask()?, not_above: mask()? })
    }

    /// Clamps a batch of queries, in place of the one before.
    ///
    /// # Errors
    /// [`Error::OutputLength`] unless there are as many queries as there is memory for; [`Error::BatchTooLarge`];
    /// [`Error::Runtime`] for a buffer of another device than the stream's, and from the launch.
    pub fn clamp<Q: Key>(&mut self, stream: &Stream, queries: &Buffer<Q>) -> Result<()>
    where
        K: TryFrom<Q>,
    {
        let count = self.keys.len();
        if queries.len() != count {
            return Err(Error::OutputLength {
                what: "the memory of clamped keys",
                expected: queries.len(),
                actual: count,
            });
        }
        same_device(stream.device(), queries.device(), "the queries' buffer")?;
        same_device(stream.device(), self.keys.device(), "the memory of clamped keys")?;
        if count == 0 {
            return Ok(());
        }
        if stream.device().kind() == DeviceKind::Host {
            self.clamp_on_host(queries);
            return Ok(());
        }
        let (least, most) = ends::<K>();
        let args = ClampArgs {
            queries: queries.read_on(stream)?.cast(),
            count: count as u64,
            least,
            most,
            signed: (Q::FLIP != Q::Bits::MIN).into(),
            keys: self.keys.write_on(stream)?.cast(),
            not_below: self.not_below.write_on(stream)?,
            not_above: self.not_above.write_on(stream)?,
        };
        // SAFETY: there are as many keys as queries, and a bit for each in both masks; the pointers are for this stream.
        unsafe { over(stream, args.count, 1, THREADS)?.run(calls::clamp::<Q::Bits, K::Bits>(&args))? };
        Ok(())
    }

    fn clamp_on_host<Q: Key>(&mut self, queries: &Buffer<Q>)
    where
        K: TryFrom<Q>,
    {
        let (Some(queries), Some(keys)) = (queries.as_slice(), self.keys.as_mut_slice()) else { return };
        let (Some(not_below), Some(not_above)) = (self.not_below.as_mut_slice(), self.not_above.as_mut_slice()) else {
            return;
        };
        not_below.fill(u32::MAX);
        not_above.fill(u32::MAX);
        for (index, (&query, key)) in queries.iter().zip(keys).enumerate() {
            *key = match place(query) {
                Place::In(key) => key,
                Place::Below => {
                    not_below[index / 32] &= !(1 << (index % 32));
                    K::MIN
                }
                Place::Above => {
                    not_above[index / 32] &= !(1 << (index % 32));
                    K::MAX
                }
            };
        }
    }

    /// The queries as keys.
    pub fn keys(&self) -> &Buffer<K> {
        &self.keys
    }

    /// Corrects lower or upper bounds, in an index of `len` pairs: 0 for a query below all keys, `len` for one above all.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for fewer ranks than queries; otherwise as [`DeviceClamped::clamp`].
    pub fn ranks(&self, stream: &Stream, len: u64, ranks: &mut Buffer<u64>) -> Result<()> {
        let count = self.keys.len();
        check_buffer(stream.device(), "the ranks' buffer", count, ranks)?;
        same_device(stream.device(), self.keys.device(), "the memory of clamped keys")?;
        if count == 0 {
            return Ok(());
        }
        if stream.device().kind() == DeviceKind::Host {
            if let (Some(not_below), Some(not_above), Some(ranks)) =
                (self.not_below.as_slice(), self.not_above.as_slice(), ranks.as_mut_slice())
            {
                let has = |mask: &[u32], index: usize| mask[index / 32] >> (index % 32) & 1 != 0;
                for (index, rank) in ranks[..count].iter_mut().enumerate() {
                    if !has(not_below, index) {
                        *rank = 0;
                    }
                    if !has(not_above, index) {
                        *rank = len;
                    }
                }
            }
            return Ok(());
        }
        let args = ClampRanksArgs {
            not_below: self.not_below.read_on(stream)?,
            not_above: self.not_above.read_on(stream)?,
            count: count as u64,
            len,
            ranks: ranks.write_on(stream)?,
        };
        // SAFETY: there is a rank for each query, and a bit in both masks; the pointers are for this stream.
        unsafe { over(stream, args.count, 1, THREADS)?.run(calls::clamp_ranks(&args))? };
        Ok(())
    }

    /// Corrects the hit mask of look-ups: a query that is out of range is no key. What stands for it among the values is not
    /// specified; so below.
    ///
    /// # Errors
    /// [`Error::OutputLength`] for a mask of fewer bits than queries; otherwise as [`DeviceClamped::clamp`].
    pub fn hits(&self, stream: &Stream, hits: &mut Buffer<u32>) -> Result<()> {
        self.predecessors(stream, hits)?;
        self.successors(stream, hits)
    }

    /// Corrects the hit mask of predecessors: a query below all keys has none.
    ///
    /// # Errors
    /// As [`DeviceClamped::hits`].
    pub fn predecessors(&self, stream: &Stream, hits: &mut Buffer<u32>) -> Result<()> {
        mask_hits(stream, &self.not_below, 0, self.keys.len(), hits)
    }

    /// Corrects the hit mask of successors: a query above all keys has none.
    ///
    /// # Errors
    /// As [`DeviceClamped::hits`].
    pub fn successors(&self, stream: &Stream, hits: &mut Buffer<u32>) -> Result<()> {
        mask_hits(stream, &self.not_above, 0, self.keys.len(), hits)
    }
}

/// The smallest key, with a sign, and the largest one, without; or the ends of 64 bits, if those are nearer.
fn ends<K: AnyKey>() -> (u64, u64) {
    let bits = K::Bits::BITS.min(64);
    match K::FLIP != K::Bits::MIN {
        false => (0, u64::MAX >> (64 - bits)),
        true if K::Bits::BITS > 64 => (1 << 63, u64::MAX),
        true => (u64::MAX << (bits - 1), (1 << (bits - 1)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clamped;
    use core::fmt::Debug;

    /// The device form against the host form, which is tested against numbers of 128 bits.
    fn agrees<K: AnyKey + TryFrom<Q>, Q: Key>(queries: &[Q]) {
        let host = Clamped::<K>::new(queries).unwrap();
        let (len, count) = (1_000_000, queries.len());
        for device in [Device::host(), Device::emulated()] {
            let what = format!("{} as {} on {device}", Q::NAME, K::NAME);
            let (stream, buffer) = (device.stream().unwrap(), device.upload(queries).unwrap());
            let mut clamped = DeviceClamped::<K>::new(&device, count).unwrap();
            clamped.clamp(&stream, &buffer).unwrap();
            assert_eq!(clamped.keys().to_vec().unwrap(), host.keys(), "{what}");

            let mut ranks: Vec<u64> = (0..count as u64).map(|rank| rank + 5).collect();
            let mut on_device = device.upload(&ranks).unwrap();
            clamped.ranks(&stream, len, &mut on_device).unwrap();
            host.ranks(&mut ranks, len).unwrap();
            assert_eq!(on_device.to_vec().unwrap(), ranks, "{what}");

            let kept = |correct: &dyn Fn(&mut Buffer<u32>)| -> Vec<bool> {
                let mut hits = device.upload(&vec![u32::MAX; count.div_ceil(32)]).unwrap();
                correct(&mut hits);
                let hits = hits.to_vec().unwrap();
                (0..count).map(|i| hits[i / 32] >> (i % 32) & 1 != 0).collect()
            };
            let mut found = vec![Some(()); count];
            host.in_range().mask(&mut found).unwrap();
            let hits = kept(&|hits| clamped.hits(&stream, hits).unwrap());
            assert!(hits.iter().zip(&found).all(|(hit, found)| *hit == found.is_some()), "look-ups, {what}");
            let (mut below, mut above) = (vec![Some(()); count], vec![Some(()); count]);
            host.predecessors(&mut below).unwrap();
            host.successors(&mut above).unwrap();
            let hits = kept(&|hits| clamped.predecessors(&stream, hits).unwrap());
            assert!(hits.iter().zip(&below).all(|(hit, found)| *hit == found.is_some()), "predecessors, {what}");
            let hits = kept(&|hits| clamped.successors(&stream, hits).unwrap());
            assert!(hits.iter().zip(&above).all(|(hit, found)| *hit == found.is_some()), "successors, {what}");
        }
    }

    /// Ends of all types, in several words of a mask.
    fn of_queries<Q: Key + TryFrom<i128> + Debug>()
    where
        u32: TryFrom<Q>,
        i32: TryFrom<Q>,
        u64: TryFrom<Q>,
        i64: TryFrom<Q>,
        u128: TryFrom<Q>,
        i128: TryFrom<Q>,
    {
        let ends = [0, 1 << 31, 1 << 32, 1 << 63, 1 << 64_i128];
        let near =
            ends.into_iter().flat_map(|end: i128| [end - 2, end - 1, end, end + 1, -end - 1, -end, 1 - end, 2 - end]);
        let queries: Vec<Q> = near.cycle().take(1000).filter_map(|number| Q::try_from(number).ok()).collect();
        agrees::<u32, Q>(&queries);
        agrees::<i32, Q>(&queries);
        agrees::<u64, Q>(&queries);
        agrees::<i64, Q>(&queries);
        agrees::<u128, Q>(&queries);
        agrees::<i128, Q>(&queries);
        agrees::<u32, Q>(&[]);
    }

    #[test]
    fn queries_of_each_integer_type_are_clamped_to_each() {
        of_queries::<u32>();
        of_queries::<i32>();
        of_queries::<u64>();
        of_queries::<i64>();
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let device = Device::emulated();
        let stream = device.stream().unwrap();
        let mut clamped = DeviceClamped::<u32>::new(&device, 33).unwrap();
        let error = clamped.clamp(&stream, &device.upload(&[1_i64; 34]).unwrap()).unwrap_err();
        assert!(matches!(error, Error::OutputLength { expected: 34, actual: 33, .. }), "{error}");
        let error = clamped.ranks(&stream, 0, &mut device.alloc(32).unwrap()).unwrap_err();
        assert!(matches!(error, Error::OutputLength { expected: 33, actual: 32, .. }), "{error}");
        let error = clamped.hits(&stream, &mut device.alloc(1).unwrap()).unwrap_err();
        assert!(matches!(error, Error::OutputLength { expected: 2, actual: 1, .. }), "{error}");
        let error = clamped.clamp(&stream, &Device::host().upload(&[1_i64; 33]).unwrap()).unwrap_err();
        assert!(error.to_string().contains("the queries' buffer"), "{error}");
    }
}
