//! Partially-sorted aggregation (the paper's section 4.1): queries are sorted by their top bits before they
//! are looked up, so that neighbours share their paths; and the decision whether that pays.

use super::launch;
use super::{BatchOrder, Harmonia, LookUp, OnStream};
use core::fmt;
use lanetree_frame::fixed::{FixedIndex, Query, Uses};
use lanetree_frame::{Error, Result};
use lanetree_kernels_harmonia::calls;
use lanetree_kernels_harmonia::layout::leaf_bytes;
use lanetree_kernels_harmonia::{SCATTERED, ScatterArgs};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_primitives::{RadixSortScratch, radix_argsort};
use lanetree_runtime::{Buffer, Device, DeviceKind};
use lanetree_simt::{GetBatch, Global, GlobalMut};

/// Bytes of a line of the caches.
const LINE: u64 = 128;

/// Bits that a pass of the sort sorts by.
const PASS: u32 = 8;

/// The paper's equation 2: the number of most significant bits by which to sort queries, `N = B - log2(2^B / T * K)`,
/// for keys of `B` bits, a tree of `T` keys and `K` keys per cache line. Queries that share these bits fall into about
/// one line, if keys are uniform over their space. Here a line holds nothing but keys; [`Harmonia::psa_bits`] is for the
/// lines of a tree.
pub fn psa_bits<K: Key>(keys: u64) -> u32 {
    bits_of::<K>(keys / (LINE / K::Bits::BYTES as u64))
}

/// Equation 2 of `T / K` lines.
fn bits_of<K: Key>(lines: u64) -> u32 {
    lines.max(1).ilog2().min(K::Bits::BITS)
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Lines of 128 bytes that hold the leaves' keys: equation 2's `T / K` as this tree is laid out and filled. At a fanout
    /// of 8 a line has 8 keys of 8 bytes, and their values.
    pub fn key_lines(&self) -> u64 {
        let (fanout, leaves) = (self.shape.fanout, u64::from(self.shape.leaves));
        let leaf = leaf_bytes::<K::Bits, V>(fanout);
        if leaf <= LINE {
            return leaves.div_ceil(LINE / leaf);
        }
        leaves * (u64::from(fanout) * K::Bits::BYTES as u64).div_ceil(LINE)
    }

    /// The bits that queries of this tree are sorted by: equation 2 with [`Harmonia::key_lines`], rounded up to whole passes
    /// of the sort, since a pass costs about the same whatever part of its 8 bits it sorts by.
    pub fn psa_bits(&self) -> u32 {
        bits_of::<K>(self.key_lines()).next_multiple_of(PASS).min(K::Bits::BITS)
    }
}

/// How many bits of their keys queries are sorted by before they are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuerySort {
    /// Not at all.
    #[default]
    None,
    /// By this many of the most significant bits; [`psa_bits`] is the paper's number, [`Harmonia::psa_bits`] a tree's.
    TopBits(u32),
    /// By all bits.
    Full,
}

impl QuerySort {
    fn bits<K: Key>(self) -> u32 {
        match self {
            Self::None => 0,
            Self::TopBits(bits) => bits,
            Self::Full => K::Bits::BITS,
        }
    }

    /// The order in which queries are afterwards.
    pub(super) fn order<K: Key>(self) -> BatchOrder {
        match self.bits::<K>() {
            0 => BatchOrder::Random,
            bits if bits == K::Bits::BITS => BatchOrder::Sorted,
            bits => BatchOrder::TopBits(bits),
        }
    }
}

impl fmt::Display for QuerySort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("not sorted"),
            Self::TopBits(bits) => write!(f, "sorted by the top {bits} bits"),
            Self::Full => f.write_str("sorted"),
        }
    }
}

/// Scratch memory of sorted look-ups: for each query twice its key, its value, and 8 more bytes.
#[derive(Debug)]
pub struct PsaScratch<K: Key, V: Word> {
    pub(super) keys: Buffer<K>,
    pub(super) positions: Buffer<u32>,
    pub(super) values: Buffer<V>,
    hits: Buffer<u32>,
    pub(super) sort: RadixSortScratch<K, u32>,
}

impl<K: Key, V: Word> PsaScratch<K, V> {
    /// Memory on `device` for batches of up to `queries` queries, allocated now.
    ///
    /// # Errors
    /// [`Runtime`](Error::Runtime) if the device has no room; [`TooManyElements`](Error::TooManyElements).
    pub fn new(device: &Device, queries: usize) -> Result<Self> {
        Ok(Self {
            keys: device.alloc(queries)?,
            positions: device.alloc(queries)?,
            values: device.alloc(queries)?,
            hits: device.alloc(queries.div_ceil(32))?,
            sort: RadixSortScratch::for_pairs(device, queries)?,
        })
    }

    /// Its bytes on the device.
    pub fn bytes(&self) -> usize {
        let (words, own) = (self.positions.bytes() + self.hits.bytes(), self.keys.bytes() + self.values.bytes());
        words + own + self.sort.bytes()
    }
}

/// Look-ups that sort their queries first, in device form.
pub trait GetBySorting<K: Key, V: Word> {
    /// [`get`](lanetree_frame::fixed::OnStream::get) with a sort: the queries are sorted as `sort` says and looked up in that order, and the
    /// results are put back into the original order of the queries. The host looks up without sorting.
    ///
    /// # Errors
    /// As [`get`](lanetree_frame::fixed::OnStream::get); [`BitRange`](Error::BitRange) for more bits than a key has;
    /// [`OutputLength`](Error::OutputLength) for scratch memory that is too small.
    fn get_by_sorting(
        self,
        sort: QuerySort,
        queries: &Buffer<K>,
        values: &mut Buffer<V>,
        scratch: &mut PsaScratch<K, V>,
    ) -> Result<()>;
}

impl<K: Key, V: Word> GetBySorting<K, V> for OnStream<'_, K, V> {
    fn get_by_sorting(
        self,
        sort: QuerySort,
        queries: &Buffer<K>,
        values: &mut Buffer<V>,
        scratch: &mut PsaScratch<K, V>,
    ) -> Result<()> {
        self.check_options("get_by_sorting", Uses::Hits)?;
        let (count, width) = (queries.len(), K::Bits::BITS);
        let bits = sort.bits::<K>();
        if bits > width {
            return Err(Error::BitRange { start: 0, end: bits, width });
        }
        if bits == 0 || self.stream().device().kind() == DeviceKind::Host {
            return self.get(queries, values);
        }
        let (index, stream, tuning) = (self.index(), self.stream(), *self.tuning());
        let (on, options) = (index.on(stream), self.into_options());
        let (miss, hits) = (options.miss(), options.hits);
        on.check("the values' buffer", count, values)?;
        on.check("the scratch memory of sorted look-ups", count, &scratch.positions)?;
        if let Some(hits) = &hits {
            on.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        }
        if count == 0 {
            return Ok(());
        }
        let (keys, positions) = (&mut scratch.keys, &mut scratch.positions);
        radix_argsort(stream, queries, count, width - bits..width, keys, positions, &mut scratch.sort)?;
        let wanted = if hits.is_some() { scratch.hits.write_on(stream)? } else { GlobalMut::null() };
        let keys = lanetree_frame::fixed::bits::<K>(stream, &scratch.keys)?;
        let by_order = scratch.values.write_on(stream)?;
        // SAFETY: the scratch memory was checked to be for that many queries; the pointers are for this stream.
        unsafe {
            let tuned = LookUp { order: sort.order::<K>(), ..tuning };
            let batch = GetBatch { queries: keys, count: count as u64, values: by_order, hits: wanted, miss };
            index.launch(stream, &tuned, &Query::Get(batch))?;
        }
        let (mut found_at, mut out_found) = (Global::null(), GlobalMut::null());
        if let Some(hits) = hits {
            hits.fill_zero_range(stream, 0..count.div_ceil(32))?;
            (found_at, out_found) = (scratch.hits.read_on(stream)?, hits.write_on(stream)?);
        }
        let args = ScatterArgs {
            values: scratch.values.read_on(stream)?,
            hits: found_at,
            positions: scratch.positions.read_on(stream)?,
            count: count as u64,
            out: values.write_on(stream)?,
            out_found,
        };
        let launch = launch::over(stream, count.div_ceil(SCATTERED) as u64, 1)?;
        // SAFETY: the buffers were checked to be long enough; every pointer is for this stream. The positions are those
        // that the sort has just written, each below `count`.
        Ok(unsafe { launch.run(calls::scatter(&args)) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_frame::Device;

    #[test]
    fn the_bits_are_those_of_equation_2() {
        // 2^64 / 2^26 * 16 keys: a line covers the lower 42 bits of 64.
        assert_eq!(psa_bits::<u64>(1 << 26), 22);
        assert_eq!(psa_bits::<i32>(1 << 26), 21);
        assert_eq!((psa_bits::<u64>(0), psa_bits::<u64>(15), psa_bits::<u64>(16)), (0, 0, 0));
    }

    #[test]
    fn a_tree_counts_its_own_lines_and_whole_passes() {
        let keys: Vec<u64> = (0..1 << 12).collect();
        let tree = |fanout, fill| {
            let builder = Harmonia::<u64, u64>::builder().fanout(fanout).fill(fill);
            builder.build_sorted(&Device::host(), &keys, &keys).unwrap()
        };
        // 8 keys and their values, or 16 keys.
        assert_eq!([8, 16, 32, 128].map(|fanout| tree(fanout, 1.0).key_lines()), [512, 256, 256, 256]);
        assert_eq!(tree(8, 0.5).key_lines(), 1024);
        assert_eq!([8, 16].map(|fanout| tree(fanout, 1.0).psa_bits()), [16, 8]);
        let narrow: Vec<u32> = (0..1 << 12).collect();
        let tree = Harmonia::builder().fanout(8).build_sorted(&Device::host(), &narrow, &narrow).unwrap();
        assert_eq!(tree.key_lines(), 256, "two leaves of 8 keys and values of 4 bytes");
        let empty = Harmonia::<u64, u64>::build(&Device::host(), &[], &[]).unwrap();
        assert_eq!((empty.key_lines(), empty.psa_bits()), (0, 0));
    }

    #[test]
    fn sorted_look_ups_answer_in_the_order_of_the_queries() {
        for device in [Device::host(), Device::emulated_with_seed(5)] {
            let stream = device.stream().unwrap();
            let keys: Vec<i32> = (-500..500).map(|i| i * 1_000_003).collect();
            let values: Vec<u64> = (0..1000).collect();
            let tree = Harmonia::build(&device, &keys, &values).unwrap();
            let queries: Vec<i32> =
                (0..777).map(|i| (i * 7919 % 1200 - 600) * 1_000_003 + i32::from(i % 5 == 0)).collect();
            let expected = tree.get_many(&queries).unwrap();
            let buffer = device.upload(&queries).unwrap();
            let mut scratch = PsaScratch::new(&device, 777).unwrap();
            for sort in [QuerySort::None, QuerySort::TopBits(5), QuerySort::TopBits(12), QuerySort::Full] {
                let mut out = device.upload(&[7_u64; 780]).unwrap();
                let mut hits = device.upload(&[u32::MAX; 26]).unwrap();
                let on = || tree.on(&stream);
                on().hits(&mut hits).miss(99).get_by_sorting(sort, &buffer, &mut out, &mut scratch).unwrap();
                let (out, hits) = (out.to_vec().unwrap(), hits.to_vec().unwrap());
                for (i, value) in expected.iter().enumerate() {
                    assert_eq!((out[i], hits[i / 32] >> (i % 32) & 1 == 1), (value.unwrap_or(99), value.is_some()));
                }
                assert_eq!((&out[777..], hits[25]), (&[7; 3][..], u32::MAX), "beyond the batch, {sort}");
                on().miss(99).get_by_sorting(sort, &buffer, &mut device.alloc(777).unwrap(), &mut scratch).unwrap();
            }
            let error = tree
                .on(&stream)
                .miss(0)
                .get_by_sorting(QuerySort::TopBits(33), &buffer, &mut device.alloc(777).unwrap(), &mut scratch)
                .unwrap_err();
            assert!(matches!(error, Error::BitRange { end: 33, .. }), "{error}");
        }
    }
}
