//! Batches whose queries go straight to their shards' memory, by kernels, where devices reach each other's.
//!
//! A piece is [`Divide`](lanetree_kernels_sharded::Divide) on the batch's device, a search on each shard's, which reads the number of its
//! queries, and [`Expand`](lanetree_kernels_sharded::Expand), in the caller's stream. Buffers order them: the host waits for nothing,
//! and no kernel waits for another device's.

use super::finish::Finish;
use super::{DeviceScratch, InFlight};
use crate::back::tiles;
use crate::query::{Bucket, Shards};
use crate::slots::{Slot, read, reserve};
use core::ops::Range;
use lanetree_frame::{AnyKey, Device, DeviceKind, KeyWord, Result, Stream, Word};
use lanetree_kernels_sharded::{Amends, DivideArgs, ExpandArgs, MOST_DIRECT, RUN, TILE, calls, plane_words};
use lanetree_simt::{Global, GlobalMut};

/// Whether batches on a device go straight to some devices' memory, which are so many shards', and back.
pub(crate) fn are_in_reach<'d>(home: &Device, mut devices: impl Iterator<Item = &'d Device>, shards: usize) -> bool {
    let has_kernels = home.kind() != DeviceKind::Host;
    has_kernels && shards <= MOST_DIRECT as usize && devices.all(|device| home.reaches(device) && device.reaches(home))
}

/// Whether batches go straight to the shards, which are on these devices, the batch's first.
pub(super) fn is_direct<K: AnyKey, V: Word>(shards: &Shards<'_, K, V>, devices: &[Device]) -> bool {
    are_in_reach(&devices[0], devices.iter(), shards.all.len())
        && shards.all.iter().all(|shard| shard.launches.reads_counts())
}

/// A piece that was divided and looked up.
struct Divided<'a> {
    stream: &'a Stream,
    slot: &'a Slot,
    count: usize,
    shards: usize,
    has_hits: bool,
}

impl Finish for Divided<'_> {
    unsafe fn column<W: KeyWord>(
        &self,
        column: usize,
        amends: Amends<W>,
        out: GlobalMut<W>,
        out_hits: GlobalMut<u32>,
    ) -> Result<()> {
        let Self { stream, slot, count, shards, has_hits } = *self;
        let mut args = ExpandArgs {
            planes: slot.planes.read_on(stream)?,
            bases: slot.bases.read_on(stream)?,
            count: count as u64,
            results: [Global::null(); MOST_DIRECT as usize],
            hits: [Global::null(); MOST_DIRECT as usize],
            amends,
            out,
            out_hits,
            shards: shards as u32,
            // Keys of neighbours that there are not.
            has_hits_alone: u32::from(column == 1),
        };
        for (shard, inbox) in slot.inboxes[..shards].iter().enumerate() {
            args.results[shard] = inbox.results.columns[column].read_on_peer(stream)?.cast();
            if has_hits {
                args.hits[shard] = inbox.results.hits.read_on_peer(stream)?;
            }
        }
        // SAFETY: the caller's contract.
        Ok(unsafe { tiles(stream, count)?.run(calls::expand(&args)) }?)
    }
}

impl<K: AnyKey, V: Word> DeviceScratch<K, V> {
    /// Answers a batch piece by piece.
    ///
    /// # Safety
    /// As [`Router::run`](super::Router::run); the batch is direct.
    pub(super) unsafe fn run_direct(&mut self, batch: &InFlight<'_, K, V>) -> Result<()> {
        let piece = |first: usize| first..batch.count.min(first + batch.piece);
        let mut pieces: Vec<(usize, Range<usize>)> = Vec::new();
        let mut firsts = (0..batch.count).step_by(batch.piece);
        // A slot's last piece goes back just before its next one: the caller's stream takes pieces in their order, and what the slot is
        // given next waits for all that this stream has been given by then.
        for number in 0_usize.. {
            if let Some((slot, range)) = number.checked_sub(batch.slots).and_then(|done| pieces.get(done)) {
                let back = Divided {
                    stream: batch.stream,
                    slot: &self.slots[*slot],
                    count: range.len(),
                    shards: batch.numbers.len(),
                    has_hits: batch.shape.has_hits,
                };
                // SAFETY: the caller's contract; the piece was looked up.
                unsafe { self.finish(batch, range, &back)? };
            } else if number >= batch.slots {
                break;
            }
            let Some(range) = firsts.next().map(piece) else { continue };
            let slot = self.next % batch.slots;
            self.next = slot + 1;
            self.reserve_slots(self.next)?;
            // SAFETY: the caller's contract; a slot serves one piece until its results are back.
            unsafe {
                self.divide(batch, slot, &range)?;
                self.search(batch, slot, range.len())?;
            }
            pieces.push((slot, range));
        }
        Ok(())
    }

    /// Divides a piece's queries among the shards' boxes.
    ///
    /// # Safety
    /// As [`Router::run`](super::Router::run).
    unsafe fn divide(&mut self, batch: &InFlight<'_, K, V>, slot: usize, range: &Range<usize>) -> Result<()> {
        let (key, shards) = (K::Bits::BYTES, batch.numbers.len());
        let slot = &mut self.slots[slot];
        let of_piece = (range.len() as u64).div_ceil(TILE);
        reserve(&mut slot.planes, plane_words(of_piece, shards as u32) as usize)?;
        reserve(&mut slot.bases, of_piece as usize * MOST_DIRECT as usize)?;
        slot.reserve_inboxes(batch.devices, batch.numbers, room(range.len()), key, batch.shape)?;
        let stream = &slot.work;
        stream.wait(&batch.submitted)?;
        slot.next.fill_zero_range(stream, 0..shards)?;
        let mut boxes = [GlobalMut::null(); MOST_DIRECT as usize];
        for (to, inbox) in boxes.iter_mut().zip(&mut slot.inboxes) {
            *to = inbox.keys.write_on_peer(stream)?.cast();
        }
        let args = DivideArgs {
            queries: batch.queries.byte_add((range.start * key) as u64),
            count: range.len() as u64,
            splitters: self.splitters.device.read_on(stream)?,
            counts: slot.next.write_on(stream)?,
            planes: slot.planes.write_on(stream)?,
            bases: slot.bases.write_on(stream)?,
            boxes,
            shards: shards as u32,
            padding: 0,
            flip: K::FLIP,
        };
        // SAFETY: the caller's contract; each box has room for the whole piece.
        Ok(unsafe { tiles(stream, range.len())?.run(calls::divide(&args)) }?)
    }

    /// Looks up what a piece's shards have in their boxes.
    ///
    /// # Safety
    /// As [`Router::run`](super::Router::run); the piece was divided.
    unsafe fn search(&mut self, batch: &InFlight<'_, K, V>, slot: usize, len: usize) -> Result<()> {
        let Slot { work, next, inboxes, remote_slots, .. } = &mut self.slots[slot];
        for (shard, inbox) in inboxes.iter_mut().enumerate() {
            let remote = remote_slots.get(batch.numbers[shard]).and_then(Option::as_ref);
            let stream = remote.map_or(&*work, |remote| &remote.stream);
            let queries = read(&inbox.keys, stream, 0)?;
            let bucket = Bucket { queries, count: room(len), results: &mut inbox.results, first: 0 };
            let query = bucket.query(batch.query, batch.shape, stream)?;
            let count = next.read_on_peer(stream)?.skip(shard as u64);
            // SAFETY: the box's queries, and memory for their results.
            unsafe { batch.shards.all[shard].launches.launch_counted(stream, &query, count)? };
        }
        Ok(())
    }
}

/// The elements of a box that may have all queries of a piece.
fn room(piece: usize) -> usize {
    piece + piece.div_ceil(TILE as usize) * RUN as usize
}
