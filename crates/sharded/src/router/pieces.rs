//! Batches in pieces: each piece is partitioned into buckets, looked up by the shards, and its results are put into order.

use super::{DeviceScratch, InFlight};
use crate::back::{Back, tiles};
use crate::query::Bucket;
use crate::slots::{BUCKET, Layout, read, reserve, reserve_pinned, words, write};
use core::ops::Range;
use lanetree_frame::{AnyKey, KeyWord, Result, Word};
use lanetree_kernels_sharded::{ScatterArgs, calls};
use lanetree_runtime::PeerPart;

/// A piece of a batch.
struct Piece {
    range: Range<usize>,
    number: usize,
    slot: usize,
}

/// A bucket with queries.
struct FilledBucket {
    shard: usize,
    device: usize,
    len: usize,
    /// Its first element on the batch's device.
    start: usize,
    /// Its first element on its shard's device.
    at: usize,
}

impl<K: AnyKey, V: Word> DeviceScratch<K, V> {
    /// Answers a batch piece by piece.
    ///
    /// # Safety
    /// As [`Router::run`].
    pub(super) unsafe fn run_pieces(&mut self, batch: &InFlight<'_, K, V>) -> Result<()> {
        let mut pieces: Vec<Piece> = (0..batch.count)
            .step_by(batch.piece)
            .map(|first| first..batch.count.min(first + batch.piece))
            .enumerate()
            .map(|(number, range)| Piece { range, number, slot: 0 })
            .collect();
        let layout = Layout::new(batch.piece.min(batch.count), batch.numbers);
        self.upload_bucket_starts(&layout, pieces.len())?;
        // A piece is partitioned well before the host reads its sizes. BucketResults go back as late as the slots allow, since the caller's
        // stream takes them in the order of the pieces.
        for number in 0..pieces.len() + batch.slots {
            let earlier = |steps: usize| number.checked_sub(steps).filter(|&number| number < pieces.len());
            let (done, partitioned) = (earlier(batch.slots), earlier(batch.slots / 2));
            // SAFETY: the caller's contract; a slot serves one piece until its results are back.
            unsafe {
                if let Some(piece) = done.map(|done| &pieces[done]) {
                    self.back(batch, piece, &layout)?;
                }
                if let Some(piece) = pieces.get_mut(number) {
                    piece.slot = self.next % batch.slots;
                    self.next = piece.slot + 1;
                    self.reserve_slots(self.next)?;
                    self.partition(batch, piece, &layout)?;
                }
                if let Some(piece) = partitioned.map(|partitioned| &pieces[partitioned]) {
                    self.look_up(batch, piece, &layout)?;
                }
            }
        }
        Ok(())
    }

    /// Uploads the start of each bucket, for each piece.
    fn upload_bucket_starts(&mut self, layout: &Layout, pieces: usize) -> Result<()> {
        let shards = layout.starts.len();
        let all = pieces * shards;
        reserve(&mut self.bucket_starts, all)?;
        reserve_pinned(&mut self.staged_bucket_starts, all)?;
        for of_piece in self.staged_bucket_starts[..all].chunks_mut(shards) {
            of_piece.iter_mut().zip(&layout.starts).for_each(|(to, &start)| *to = start as u32);
        }
        Ok(self.bucket_starts.upload_async(&self.stream, 0, &self.staged_bucket_starts, 0..all)?)
    }

    /// Puts a piece into its slot's buckets.
    ///
    /// # Safety
    /// As [`Router::run`].
    unsafe fn partition(&mut self, batch: &InFlight<'_, K, V>, piece: &Piece, layout: &Layout) -> Result<()> {
        let (key, shards, count) = (K::Bits::BYTES, layout.starts.len(), piece.range.len());
        let slot = &mut self.slots[piece.slot];
        reserve(&mut slot.keys, words(layout.end, key))?;
        reserve(&mut slot.positions, count)?;
        let stream = &slot.work;
        let queries = batch.queries.byte_add((piece.range.start * key) as u64);
        stream.wait(&batch.submitted)?;
        let starts = piece.number * shards..(piece.number + 1) * shards;
        slot.next.copy_from_buffer(stream, 0, &self.bucket_starts, starts)?;
        let (keys, positions) = (write(&mut slot.keys, stream, 0)?, slot.positions.write_on(stream)?);
        let next = slot.next.write_on(stream)?;
        let (tiles, count) = (tiles(stream, count)?, count as u64);
        // SAFETY: the caller's contract; each bucket can hold the whole piece.
        unsafe {
            let (splitters, flip, shards) = (self.splitters.device.read_on(stream)?, K::FLIP, shards as u32);
            let args = ScatterArgs { queries, count, splitters, next, keys, positions, shards, padding: 0, flip };
            tiles.run(calls::scatter(&args))?;
        }
        Ok(slot.next.download_async(stream, 0..shards, &mut slot.staged_next, 0)?)
    }

    /// Looks up a piece's buckets, and copies remote results to the batch's device. Waits until the piece is partitioned.
    ///
    /// # Safety
    /// As [`Router::run`]; the piece was given to [`DeviceScratch::partition`].
    unsafe fn look_up(&mut self, batch: &InFlight<'_, K, V>, piece: &Piece, layout: &Layout) -> Result<()> {
        let (shape, key) = (batch.shape, K::Bits::BYTES);
        let slot = &mut self.slots[piece.slot];
        // The stream has nothing else to do yet.
        slot.work.synchronize()?;
        let sizes: Vec<usize> =
            slot.staged_next.iter().zip(&layout.starts).map(|(&end, &start)| end as usize - start).collect();
        let mut ends = vec![0; batch.devices.len()];
        let filled = |shard: usize| {
            let (device, len, start) = (batch.numbers[shard], sizes[shard], layout.starts[shard]);
            let at = if device == 0 { start } else { ends[device] };
            ends[device] = at + len.next_multiple_of(BUCKET);
            FilledBucket { shard, device, len, start, at }
        };
        let filled = (0..sizes.len()).filter(|&shard| sizes[shard] > 0).map(filled);
        let (local, mut remote): (Vec<FilledBucket>, Vec<FilledBucket>) = filled.partition(|bucket| bucket.device == 0);
        remote.sort_by_key(|bucket| bucket.device);
        let end = |buckets: &[FilledBucket]| buckets.iter().map(|bucket| bucket.start + bucket.len).max().unwrap_or(0);
        slot.local.reserve(end(&local), shape)?;
        slot.remote.reserve(end(&remote).saturating_sub(layout.remote), shape)?;
        // Buckets of other devices first: their copies overlap with the look-ups on this device.
        for buckets in remote.chunk_by(|one, other| one.device == other.device) {
            let device = buckets[0].device;
            slot.reserve_remote(device, &batch.devices[device], ends[device], key, shape)?;
            let Some(remote) = &mut slot.remote_slots[device] else { continue };
            let part = |bucket: &FilledBucket| PeerPart {
                from: &slot.keys,
                range: words(bucket.start, key)..words(bucket.start + bucket.len, key),
                stream: &slot.send,
                at: words(bucket.at, key),
            };
            remote.keys.copy_from_peers(&remote.stream, &buckets.iter().map(part).collect::<Vec<_>>())?;
            for &FilledBucket { shard, len: count, at: first, .. } in buckets {
                let queries = read(&remote.keys, &remote.stream, first)?;
                let bucket = Bucket { queries, count, results: &mut remote.results, first };
                let query = bucket.query(batch.query, shape, &remote.stream)?;
                // SAFETY: the bucket's queries, and memory for its results.
                unsafe { batch.shards.all[shard].launches.launch(&remote.stream, false, &query)? };
            }
        }
        let slots = &slot.remote_slots;
        let remote = || remote.iter().filter_map(|bucket| Some((slots.get(bucket.device)?.as_ref()?, bucket)));
        for (number, (column, bytes)) in slot.remote.columns.iter_mut().zip(shape.columns).enumerate() {
            let parts: Vec<PeerPart<'_, u64>> = remote()
                .map(|(remote, bucket)| PeerPart {
                    from: &remote.results.columns[number],
                    range: words(bucket.at, bytes)..words(bucket.at + bucket.len, bytes),
                    stream: &remote.stream,
                    at: words(bucket.start - layout.remote, bytes),
                })
                .collect();
            column.copy_from_peers(&slot.send, &parts)?;
        }
        if shape.has_hits {
            let parts: Vec<PeerPart<'_, u32>> = remote()
                .map(|(remote, bucket)| PeerPart {
                    from: &remote.results.hits,
                    range: bucket.at / 32..(bucket.at + bucket.len).div_ceil(32),
                    stream: &remote.stream,
                    at: (bucket.start - layout.remote) / 32,
                })
                .collect();
            slot.remote.hits.copy_from_peers(&slot.send, &parts)?;
        }
        for &FilledBucket { shard, len: count, start: first, .. } in &local {
            let queries = read(&slot.keys, &slot.work, first)?;
            let bucket = Bucket { queries, count, results: &mut slot.local, first };
            let query = bucket.query(batch.query, shape, &slot.work)?;
            // SAFETY: the bucket's queries, and memory for its results.
            unsafe { batch.shards.all[shard].launches.launch(&slot.work, false, &query)? };
        }
        Ok(())
    }

    /// Puts a piece's results into the batch's order, in the caller's stream.
    ///
    /// # Safety
    /// As [`Router::run`]; the piece was looked up.
    unsafe fn back(&self, batch: &InFlight<'_, K, V>, piece: &Piece, layout: &Layout) -> Result<()> {
        let (stream, slot, count) = (batch.stream, &self.slots[piece.slot], piece.range.len());
        let back = Back { stream, slot, count, remote: layout.remote, has_hits: batch.shape.has_hits };
        // SAFETY: the caller's contract.
        unsafe { self.finish(batch, &piece.range, &back) }
    }
}
