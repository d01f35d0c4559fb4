//! Host batches of ranks and ranges on a device.

use super::range::{DeviceByteRanges, GatherScratch, side};
use crate::Result;
use crate::byte_keys::{ByteKeys, ByteKeysBuf, ByteRanges, DeviceKeys, Side as Bound, Sides};
use crate::cuart::Cuart;
use crate::cuart::lookup::Neighbor;
use core::ops::Range;
use lanetree_kernels_cuart::Side;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Stream};

impl<V: Word> Cuart<V> {
    /// Ranks keys.
    pub(in crate::cuart) fn rank_across(&self, keys: ByteKeys<'_>, bound: Bound) -> Result<Vec<u64>> {
        let stream = self.device.stream()?;
        let queries = DeviceKeys::upload(&self.device, keys)?;
        let mut ranks = self.device.alloc(keys.len())?;
        self.on(&stream).rank_into(&queries, side(bound), None, &mut ranks, 1, 0)?;
        stream.synchronize()?;
        Ok(ranks.to_vec()?)
    }

    /// The spans of ranges.
    pub(in crate::cuart) fn spans_across(&self, ranges: &[Sides<'_>]) -> Result<Vec<Range<u64>>> {
        let stream = self.device.stream()?;
        let spans = self.find_spans(&stream, ranges)?;
        stream.synchronize()?;
        Ok(spans.to_vec()?.chunks_exact(2).map(|span| span[0]..span[1]).collect())
    }

    /// The pairs of ranges.
    pub(in crate::cuart) fn collect_across(&self, ranges: &[Sides<'_>]) -> Result<ByteRanges<V>> {
        let stream = self.device.stream()?;
        let mut spans = self.find_spans(&stream, ranges)?;
        self.gather_across(&stream, &mut spans, ranges.len())
    }

    /// The neighbours of keys: those before their upper bounds, or at their lower ones.
    pub(in crate::cuart) fn neighbors_across(&self, keys: ByteKeys<'_>, bound: Bound) -> Result<Vec<Neighbor<V>>> {
        let span = |rank: u64| match bound {
            Bound::Upper => [rank.saturating_sub(1), rank],
            _ => [rank, self.len.min(rank + 1)],
        };
        let spans: Vec<u64> = self.rank_across(keys, bound)?.into_iter().flat_map(span).collect();
        let stream = self.device.stream()?;
        let found = self.gather_across(&stream, &mut self.device.upload(&spans)?, keys.len())?;
        let pair = |(keys, values): (ByteKeys<'_>, &[V])| Some((keys.get(0)?.to_vec(), *values.first()?));
        Ok(found.iter().map(pair).collect())
    }

    /// Spans of ranges on the device.
    fn find_spans(&self, stream: &Stream, ranges: &[Sides<'_>]) -> Result<Buffer<u64>> {
        let mut spans = self.device.alloc(2 * ranges.len())?;
        let on = self.on(stream);
        for (first, absent) in [(0, Side::Start), (1, Side::End)] {
            let bounds = || ranges.iter().map(|range| if first == 0 { range.start } else { range.end });
            let keys: ByteKeysBuf = bounds().map(|bound| bound.map_or(&[][..], |(key, _)| key)).collect();
            let sides = bounds().map(|bound| bound.map_or(absent, |(_, own)| side(own)) as u32);
            let sides = self.device.upload(&sides.collect::<Vec<_>>())?;
            let queries = DeviceKeys::upload(&self.device, &keys)?;
            on.rank_into(&queries, Side::Lower, Some(&sides), &mut spans, 2, first)?;
        }
        let limits = self.device.upload(&ranges.iter().map(|range| range.limit).collect::<Vec<_>>())?;
        on.measure(ranges.len(), &mut spans, limits.global(), u64::MAX, None)?;
        Ok(spans)
    }

    /// The pairs of spans on the device.
    fn gather_across(&self, stream: &Stream, spans: &mut Buffer<u64>, count: usize) -> Result<ByteRanges<V>> {
        // How many there are is known first, and then how long their keys are.
        let on = self.on(stream);
        let mut none = DeviceByteRanges::new(self, count, 0, 0)?;
        on.gather(spans, count, &mut GatherScratch::new(&self.device, count, 0)?, &mut none)?;
        stream.synchronize()?;
        let offsets = none.offsets.to_vec()?;
        let pairs = offsets[count] as usize;
        let mut scratch = GatherScratch::new(&self.device, count, pairs)?;
        let mut out = DeviceByteRanges::new(self, count, pairs, 0)?;
        let mut key_offsets = vec![0; pairs + 1];
        match self.key_width() {
            Some(width) => {
                key_offsets.iter_mut().enumerate().for_each(|(pair, offset)| *offset = (pair * width) as u64)
            }
            None if pairs == 0 => {}
            None => {
                on.gather(spans, count, &mut scratch, &mut out)?;
                stream.synchronize()?;
                out.key_offsets.copy_to(&mut key_offsets)?;
            }
        }
        let bytes = key_offsets[pairs] as usize;
        out.key_bytes = self.device.alloc(bytes.div_ceil(8))?;
        on.gather(spans, count, &mut scratch, &mut out)?;
        stream.synchronize()?;
        let words = out.key_bytes.to_vec()?;
        let bytes = bytemuck::cast_slice::<u64, u8>(&words)[..bytes].to_vec();
        let keys = ByteKeysBuf::from_parts(bytes, key_offsets);
        Ok(ByteRanges { offsets, keys, values: out.values.to_vec()? })
    }
}
