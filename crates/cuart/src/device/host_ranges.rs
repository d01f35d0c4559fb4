//! Host batches of ranks and ranges on a device.

use super::range::{DeviceByteRanges, GatherScratch, side};
use super::staged::{Bounds, Strings};
use crate::Cuart;
use crate::lookup::Neighbor;
use crate::parts::Parts;
use core::ops::Range;
use lanetree_frame::byte_keys::{ByteKeys, ByteKeysBuf, ByteRanges, Side as Bound, Sides};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{copied, zeroed};
use lanetree_frame::staging::{Addresses, Queries, Results, Route};
use lanetree_frame::uninit::made;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::Side;
use lanetree_kernels_cuart::layout::MAX_KEY;
use lanetree_layout::Word;
use lanetree_runtime::Stream;
use lanetree_simt::{Global, KeysRef};

impl<V: Word> Cuart<V> {
    /// Ranks keys, piece by piece: see [`lanetree_frame::staging`].
    pub(crate) fn rank_across(&self, tree: &Parts, keys: ByteKeys<'_>, bound: Bound) -> Result<Vec<u64>> {
        tree.check_ranks("a rank on the device")?;
        keys.check_lengths()?;
        let route = Route {
            device: &self.device,
            results: Results::new([8, 0], 0),
            reads_once: false,
            launch: &|stream, keys: Strings<'_>, input, out| {
                let queries = (keys.keys_ref(input), keys.count());
                // SAFETY: staged queries, and room for their results.
                unsafe { tree.launch_rank(stream, queries, (side(bound), Global::null()), (out.arrays[0].cast(), 1)) }
            },
            collect: &|piece, ranks| ranks.copy(piece.array(0)),
        };
        made(keys.len(), |ranks| self.batches.staging.send(Strings(keys), ranks, &route))
    }

    /// The spans of ranges.
    pub(crate) fn spans_across(&self, tree: &Parts, ranges: &[Sides<'_>]) -> Result<Vec<Range<u64>>> {
        tree.check_ranks("a rank on the device")?;
        fn string(bound: Option<(&[u8], Bound)>) -> &[u8] {
            bound.map_or(&[], |(key, _)| key)
        }
        let len = |range: &Sides<'_>| string(range.start).len().max(string(range.end).len());
        if let Some((index, len)) = ranges.iter().map(len).enumerate().find(|&(_, len)| len > MAX_KEY) {
            return Err(Error::KeyTooLong { index, len, max: MAX_KEY });
        }
        let (starts, ends) = join(
            || ByteKeysBuf::gather(ranges.len(), |range| string(ranges[range].start)),
            || ByteKeysBuf::gather(ranges.len(), |range| string(ranges[range].end)),
        );
        let (starts, ends) = (starts?, ends?);
        let bounds = Bounds { ranges, starts: Strings((&starts).into()), ends: Strings((&ends).into()) };
        let limit = |bounds: &Bounds<'_>, range: usize| bounds.ranges[range].limit;
        self.spans_in_pieces(bounds, limit, |stream, bounds, input, out| {
            let count = bounds.count();
            for ((queries, sides), ranks) in bounds.searches(input).into_iter().zip(out.arrays) {
                // SAFETY: staged queries and sides, and room for their results.
                unsafe { tree.launch_rank(stream, (queries, count), (Side::Lower, sides), (ranks.cast(), 1))? };
            }
            Ok(())
        })
    }

    /// The spans of prefixes.
    pub(crate) fn prefix_spans_across(&self, tree: &Parts, prefixes: ByteKeys<'_>) -> Result<Vec<Range<u64>>> {
        tree.check_ranks("a rank on the device")?;
        prefixes.check_lengths()?;
        self.spans_in_pieces(
            Strings(prefixes),
            |_, _| u64::MAX,
            |stream, prefixes, input, out| {
                let queries: (KeysRef, usize) = (prefixes.keys_ref(input), prefixes.count());
                for (side, ranks) in [Side::Lower, Side::Prefix].into_iter().zip(out.arrays) {
                    // SAFETY: staged queries, and room for their results.
                    unsafe { tree.launch_rank(stream, queries, (side, Global::null()), (ranks.cast(), 1))? };
                }
                Ok(())
            },
        )
    }

    /// Spans whose two ends are ranked by a launch, each in its own array; with a limit on the number of pairs.
    fn spans_in_pieces<Q: Queries>(
        &self,
        queries: Q,
        limit: impl Fn(&Q, usize) -> u64 + Sync,
        launch: impl Fn(&Stream, Q, Global<u64>, Addresses) -> Result<()> + Sync,
    ) -> Result<Vec<Range<u64>>> {
        let route = Route {
            device: &self.device,
            results: Results::new([8, 8], 0),
            reads_once: false,
            launch: &launch,
            collect: &|piece, spans| {
                let (starts, ends) = (piece.array::<u64>(0), piece.array::<u64>(1));
                // If both bounds are exclusive and equal, the end is before the start.
                let end = |i: usize, start: u64| ends[i].max(start).min(start.saturating_add(limit(&piece.queries, i)));
                spans.fill(|i| starts[i]..end(i, starts[i]))
            },
        };
        made(queries.count(), |spans| self.batches.staging.send(queries, spans, &route))
    }

    /// The neighbours of keys: the pairs before their upper bounds, or at their lower bounds.
    pub(crate) fn neighbors_across(&self, tree: &Parts, keys: ByteKeys<'_>, bound: Bound) -> Result<Vec<Neighbor<V>>> {
        let span = |rank: u64| match bound {
            Bound::Upper => rank.saturating_sub(1)..rank,
            _ => rank..tree.len.min(rank + 1),
        };
        let spans = self.rank_across(tree, keys, bound)?.into_par_iter().map(span).try_collect()?;
        let found = self.gather_across(tree, &spans)?;
        let pair = |query: usize| {
            let (keys, values) = found.get(query);
            keys.get(0).zip(values.first()).map(|(key, &value)| Ok((copied(key)?, value))).transpose()
        };
        (0..spans.len()).into_par_iter().try_map_collect(pair)
    }

    /// The pairs of spans.
    pub(crate) fn gather_across(&self, tree: &Parts, spans: &[Range<u64>]) -> Result<ByteRanges<V>> {
        let (stream, count) = (&self.device.stream()?, spans.len());
        let mut ends = zeroed(2 * count)?;
        ends.par_chunks_exact_mut(2).zip(spans).for_each(|(ends, span)| ends.copy_from_slice(&[span.start, span.end]));
        let staging = &self.batches.staging;
        let spans = &mut staging.uploaded(&self.device, &ends)?;
        // The number of pairs is known first, then the lengths of their keys.
        let on = self.on(stream);
        let mut none = DeviceByteRanges::new(self, count, 0, 0)?;
        on.gather(spans, count, &mut GatherScratch::new(&self.device, count, 0)?, &mut none)?;
        stream.synchronize()?;
        let offsets = staging.downloaded(&none.offsets, 0..count + 1)?;
        let pairs = offsets[count] as usize;
        let mut scratch = GatherScratch::new(&self.device, count, pairs)?;
        let mut out = DeviceByteRanges::new(self, count, pairs, 0)?;
        let mut key_offsets = zeroed(pairs + 1)?;
        match tree.key_width() {
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
        let words = staging.downloaded(&out.key_bytes, 0..out.key_bytes.len())?;
        let bytes = copied(&bytemuck::cast_slice::<u64, u8>(&words)[..bytes])?;
        let keys = ByteKeysBuf::from_parts(bytes, key_offsets);
        Ok(ByteRanges { offsets, keys, values: staging.downloaded(&out.values, 0..pairs)? })
    }
}
