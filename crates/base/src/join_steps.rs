//! Steps of joins in device form: null probes, and probes without a match. All run in the stream's order, may return before they are
//! done, and allocate nothing.

use crate::Result;
use crate::error::check_buffer;
use crate::launch::{THREADS, over};
use crate::parallel::*;
use crate::pointers::{optional, optional_mut};
use lanetree_kernels_base::calls;
use lanetree_kernels_base::columns::{MaskHitsArgs, joined_bits, masked, words_of_bits};
use lanetree_kernels_base::joins::{PutMissesArgs, SettleArgs};
use lanetree_layout::Value;
use lanetree_runtime::{Buffer, DeviceKind, Stream};

/// Elements of a task of the CPU's, a multiple of 32, so that tasks share no word of a hit mask.
const TASK: usize = 1 << 14;

/// The validity of a batch of probes, in a bitmap on a device: probe `i` is null if bit `offset + i` is 0, the lowest bit of
/// each word first.
#[derive(Clone, Copy, Debug)]
pub struct DeviceValidity<'a> {
    /// `[(offset + probes).div_ceil(32)]` words.
    pub bitmap: &'a Buffer<u32>,
    /// The bit of the first probe.
    pub offset: usize,
}

/// Checks that a bitmap has a bit for each probe.
///
/// # Errors
/// [`Error::OutputLength`](crate::Error::OutputLength); [`Error::Runtime`](crate::Error::Runtime) for a buffer of another device than
/// the stream's.
pub fn check_validity(stream: &Stream, valid: Option<DeviceValidity<'_>>, count: usize) -> Result<()> {
    valid.map_or(Ok(()), |DeviceValidity { bitmap, offset }| {
        check_buffer(stream.device(), "the validity bitmap", offset.saturating_add(count).div_ceil(32), bitmap)
    })
}

/// Clears the bits of `hits` whose probes are null, and then makes them their complement if asked so.
///
/// # Errors
/// As [`check_validity`], for the hit mask, too; [`Error::BatchTooLarge`](crate::Error::BatchTooLarge).
pub fn settle_hits(
    stream: &Stream,
    valid: Option<DeviceValidity<'_>>,
    count: usize,
    complement: bool,
    hits: &mut Buffer<u32>,
) -> Result<()> {
    check_validity(stream, valid, count)?;
    check_buffer(stream.device(), "the hit mask's buffer", count.div_ceil(32), hits)?;
    if count == 0 || valid.is_none() && !complement {
        return Ok(());
    }
    let offset = valid.map_or(0, |valid| valid.offset as u64);
    let (bits, count) = (valid.map(|valid| valid.bitmap), count as u64);
    if stream.device().kind() == DeviceKind::Host {
        if let (Ok(bits), Some(hits)) = (bits.map(|bits| bits.as_slice().ok_or(())).transpose(), hits.as_mut_slice()) {
            for (hits, index) in hits.iter_mut().zip(0..count.div_ceil(32)) {
                let valid = bits.map_or(u32::MAX, |bits| {
                    let (low, high, at) = words_of_bits(index, offset, count);
                    joined_bits(bits[low as usize], bits[high as usize], at)
                });
                *hits = masked(*hits, valid, index, count, complement);
            }
        }
        return Ok(());
    }
    let args = MaskHitsArgs {
        valid: optional(bits, stream)?,
        offset,
        count,
        hits: hits.write_on(stream)?,
        complement: complement.into(),
    };
    // SAFETY: both buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, count.div_ceil(32), 1, THREADS)?.run(calls::mask_hits(&args))? };
    Ok(())
}

/// Writes `miss` to the row of each probe whose bit is not set, as far as there is room: row `offsets[i]`, or row `i` without offsets.
///
/// # Errors
/// [`Error::OutputLength`](crate::Error::OutputLength) for a mask or offsets of fewer probes;
/// [`Error::BatchTooLarge`](crate::Error::BatchTooLarge); [`Error::Runtime`](crate::Error::Runtime) for buffers of another device
/// than the stream's.
pub fn put_misses<V: Value>(
    stream: &Stream,
    hits: &Buffer<u32>,
    count: usize,
    offsets: Option<&Buffer<u64>>,
    rows: &mut Buffer<V>,
    miss: V,
) -> Result<()> {
    check_buffer(stream.device(), "the hit mask's buffer", count.div_ceil(32), hits)?;
    check_buffer(stream.device(), "the rows' buffer", 0, rows)?;
    if let Some(offsets) = offsets {
        check_buffer(stream.device(), "the offsets' buffer", count, offsets)?;
    }
    if count == 0 || !V::IS_SOME {
        return Ok(());
    }
    if stream.device().kind() == DeviceKind::Host {
        if let (Some(hits), Some(rows)) = (hits.as_slice(), rows.as_mut_slice()) {
            let offsets = offsets.and_then(Buffer::as_slice);
            for probe in (0..count).filter(|probe| hits[probe / 32] >> (probe % 32) & 1 == 0) {
                let row = offsets.map_or(Some(probe), |offsets| usize::try_from(offsets[probe]).ok());
                if let Some(row) = row.and_then(|row| rows.get_mut(row)) {
                    *row = miss;
                }
            }
        }
        return Ok(());
    }
    let args = PutMissesArgs::<V::Word> {
        hits: hits.read_on(stream)?,
        count: count as u64,
        offsets: optional(offsets, stream)?,
        capacity: rows.len() as u64,
        rows: rows.write_on(stream)?.cast(),
        miss: miss.word(),
    };
    // SAFETY: the buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, count as u64, 1, THREADS)?.run(calls::put_misses(&args))? };
    Ok(())
}

/// What [`settle`] changes.
#[derive(Debug)]
pub struct Settled<'a> {
    /// In and out: the matches of each probe, which become rows.
    pub counts: &'a mut Buffer<u64>,
    /// Whether a probe without a match has one row.
    pub is_left: bool,
    /// In and out, if such a row is copied from any pair: where the matches of each probe begin, and in the first element of the
    /// other buffer where some pair is.
    pub cursors: Option<(&'a mut Buffer<u64>, &'a Buffer<u64>)>,
    /// Out: whether each probe has a match.
    pub hits: Option<&'a mut Buffer<u32>>,
}

/// Takes the matches from null probes, writes the hit mask, and gives each probe of a left join without a match a row.
///
/// # Errors
/// As [`put_misses`].
pub fn settle(stream: &Stream, valid: Option<DeviceValidity<'_>>, count: usize, out: Settled<'_>) -> Result<()> {
    let Settled { counts, is_left, cursors, hits } = out;
    check_validity(stream, valid, count)?;
    check_buffer(stream.device(), "the counts' buffer", count, counts)?;
    if let Some((cursors, any)) = &cursors {
        check_buffer(stream.device(), "the scratch memory", count, cursors)?;
        check_buffer(stream.device(), "the scratch memory", 1, any)?;
    }
    if let Some(hits) = &hits {
        check_buffer(stream.device(), "the hit mask's buffer", count.div_ceil(32), hits)?;
    }
    if count == 0 {
        return Ok(());
    }
    let offset = valid.map_or(0, |valid| valid.offset);
    let bits = valid.map(|valid| valid.bitmap);
    if stream.device().kind() == DeviceKind::Host {
        let bits = bits.and_then(Buffer::as_slice);
        let is_valid =
            |probe: usize| bits.is_none_or(|bits| bits[(offset + probe) / 32] >> ((offset + probe) % 32) & 1 != 0);
        let Some(counts) = counts.as_mut_slice() else { return Ok(()) };
        let counts = &mut counts[..count];
        // Before counts become rows.
        if let Some(hits) = hits.and_then(Buffer::as_mut_slice) {
            let words = hits.par_chunks_mut(TASK / 32).zip(counts.par_chunks(TASK)).enumerate();
            words.for_each(|(task, (words, counts))| {
                words[..counts.len().div_ceil(32)].fill(0);
                for (i, &found) in counts.iter().enumerate() {
                    words[i / 32] |= u32::from(found > 0 && is_valid(task * TASK + i)) << (i % 32);
                }
            });
        }
        let any = cursors.as_ref().and_then(|(_, any)| any.as_slice()).map_or(0, |any| any[0]);
        let mut cursors = cursors.and_then(|(cursors, _)| cursors.as_mut_slice());
        for (probe, rows) in counts.iter_mut().enumerate() {
            if *rows == 0 || !is_valid(probe) {
                *rows = is_left.into();
                if let Some(cursors) = &mut cursors {
                    cursors[probe] = any;
                }
            }
        }
        return Ok(());
    }
    let (cursors, any) = cursors.map_or((None, None), |(cursors, any)| (Some(cursors), Some(any)));
    let args = SettleArgs {
        counts: counts.write_on(stream)?,
        cursors: optional_mut(cursors, stream)?,
        any: optional(any, stream)?,
        valid: optional(bits, stream)?,
        offset: offset as u64,
        count: count as u64,
        hits: optional_mut(hits, stream)?,
        is_left: is_left.into(),
    };
    // SAFETY: the buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, count as u64, 1, THREADS)?.run(calls::settle(&args))? };
    Ok(())
}
