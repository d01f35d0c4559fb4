//! Which work is ordered before which: one vector clock for each stream, and one for the CPU.
//!
//! Updated when work is queued, not when it runs, so that a missing wait is found whatever order the streams happen to
//! run in. All threads of the program count as one, since Rust's borrow rules order what they share.

use std::collections::BTreeMap;

/// A stream of a device: no two devices of the process have the same.
pub(super) type StreamId = usize;

/// Bits of a stream's number in its device; the device's number is above.
const STREAM_BITS: u32 = usize::BITS / 2;

/// The handle of a device with a number of its own.
pub(super) fn handle(device: usize, number: usize) -> usize {
    device << STREAM_BITS | number
}

/// A piece of work: its stream, and its number among all work of the stream's device.
pub(super) type Work = (StreamId, u64);

/// What is known to be done, of all devices.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// Of a device, all work up to a number, of whichever stream.
    floors: BTreeMap<usize, u64>,
    /// Of a stream, all work up to a number.
    streams: BTreeMap<StreamId, u64>,
}

impl Clock {
    fn floor(&self, stream: StreamId) -> u64 {
        self.floors.get(&(stream >> STREAM_BITS)).copied().unwrap_or(0)
    }

    pub(super) fn covers(&self, (stream, number): Work) -> bool {
        number <= self.floor(stream) || self.streams.get(&stream).is_some_and(|&known| number <= known)
    }

    pub(super) fn learn(&mut self, other: &Self) {
        for (&device, &number) in &other.floors {
            self.learn_all(device, number);
        }
        for (&stream, &number) in &other.streams {
            if number > self.floor(stream) {
                self.learn_work((stream, number));
            }
        }
    }

    pub(super) fn learn_work(&mut self, (stream, number): Work) {
        let known = self.streams.entry(stream).or_default();
        *known = number.max(*known);
    }

    /// All work of a device up to a number is done.
    pub(super) fn learn_all(&mut self, device: usize, number: u64) {
        let floor = self.floors.entry(device).or_default();
        *floor = number.max(*floor);
        let floor = *floor;
        self.streams.retain(|stream, known| stream >> STREAM_BITS != device || *known > floor);
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }
}

/// What has been done to a buffer since all work on it was last known to be done.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    writer: Option<Work>,
    /// Reads since then; the last one of each stream.
    readers: Vec<Work>,
    /// Copies of other devices that have come; the last one of each stream that has waited for them.
    come: Vec<Work>,
}

impl History {
    /// Work that a read or write would race with, if the reader or writer has the clock `clock`.
    pub(super) fn conflict(&self, clock: &Clock, writes: bool) -> Option<Work> {
        let readers = if writes { &self.readers[..] } else { &[] };
        self.writer.iter().chain(readers).copied().find(|&work| !clock.covers(work))
    }

    /// Whether there are copies of other devices that are not known to be done.
    pub(super) fn is_written_from_abroad(&self, clock: &Clock) -> bool {
        !self.come.iter().all(|&work| clock.covers(work))
    }

    pub(super) fn forget(&mut self, stream: StreamId) {
        self.writer.take_if(|work| work.0 == stream);
        self.readers.retain(|work| work.0 != stream);
        self.come.retain(|work| work.0 != stream);
    }

    /// Notes that a copy of another device has come.
    pub(super) fn note_from_abroad(&mut self, work: Work) {
        self.come.retain(|&(stream, _)| stream != work.0);
        self.come.push(work);
    }

    pub(super) fn note(&mut self, work: Work, writes: bool) {
        if writes {
            (self.writer, self.readers) = (Some(work), Vec::new());
        } else {
            self.readers.retain(|&(stream, _)| stream != work.0);
            self.readers.push(work);
        }
    }
}
