//! Which work is ordered before which: one vector clock for each stream, and one for the CPU.
//!
//! Updated when work is queued, not when it runs, so that a missing wait is found whatever order the streams happen to
//! run in. All threads of the program count as one, since Rust's borrow rules order what they share.

use std::collections::BTreeMap;

/// A stream of the device.
pub(super) type StreamId = usize;

/// A piece of work: its stream, and its number among all work of the device.
pub(super) type Work = (StreamId, u64);

/// What is known to be done.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// All work up to this number, of whichever stream.
    floor: u64,
    /// Of a stream, all work up to a number.
    streams: BTreeMap<StreamId, u64>,
}

impl Clock {
    pub(super) fn covers(&self, (stream, number): Work) -> bool {
        number <= self.floor || self.streams.get(&stream).is_some_and(|&known| number <= known)
    }

    pub(super) fn learn(&mut self, other: &Self) {
        self.floor = self.floor.max(other.floor);
        for (&stream, &number) in &other.streams {
            self.learn_work((stream, number));
        }
        let floor = self.floor;
        self.streams.retain(|_, number| *number > floor);
    }

    pub(super) fn learn_work(&mut self, (stream, number): Work) {
        let known = self.streams.entry(stream).or_default();
        *known = number.max(*known);
    }

    /// All work up to a number is done.
    pub(super) fn learn_all(&mut self, number: u64) {
        self.floor = number;
        self.streams.clear();
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
