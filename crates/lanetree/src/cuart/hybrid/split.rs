//! Batches parted by the lengths of their keys.

use crate::byte_keys::{ByteKeys, ByteKeysBuf, Offsets};
use core::mem;
use core::ops::Range;
use lanetree_layout::Word;
use rayon::prelude::*;
use std::borrow::Cow;

/// Keys that a thread parts at a time: few, since the device waits for the last of them.
const TASK: usize = 1 << 10;

/// Which of the two trees has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Device,
    Host,
}

impl Home {
    const BOTH: [Self; 2] = [Self::Device, Self::Host];

    fn of(key_len: usize, max: usize) -> Self {
        if key_len <= max { Self::Device } else { Self::Host }
    }
}

/// Some keys of one home.
#[derive(Clone, Copy, Debug)]
struct Tally {
    keys: usize,
    bytes: usize,
    shortest: usize,
    longest: usize,
}

impl Tally {
    const NONE: Self = Self { keys: 0, bytes: 0, shortest: usize::MAX, longest: 0 };

    fn and(self, other: Self) -> Self {
        Self {
            keys: self.keys + other.keys,
            bytes: self.bytes + other.bytes,
            shortest: self.shortest.min(other.shortest),
            longest: self.longest.max(other.longest),
        }
    }

    fn and_key(self, len: usize) -> Self {
        self.and(Self { keys: 1, bytes: len, shortest: len, longest: len })
    }

    fn of_one_width(&self) -> bool {
        self.shortest >= self.longest
    }
}

/// A batch, and how many of its keys have which home.
pub(super) struct Split<'k> {
    keys: ByteKeys<'k>,
    max: usize,
    /// By home: the keys before each task, and at last all of them.
    before: Vec<[Tally; 2]>,
}

impl<'k> Split<'k> {
    /// Keys of up to `max` bytes are the device's.
    pub(super) fn new(keys: ByteKeys<'k>, max: usize) -> Self {
        let mut sum = [Tally::NONE; 2];
        if let Offsets::Fixed { width, len } = keys.offsets() {
            // Of one home: there is nothing to part.
            sum[Home::of(width, max) as usize].keys = len;
            return Self { keys, max, before: vec![sum] };
        }
        let tally = |task: usize| {
            let mut tallies = [Tally::NONE; 2];
            for index in task_range(task, keys.len()) {
                let len = keys.at(index).len();
                let tally = &mut tallies[Home::of(len, max) as usize];
                *tally = tally.and_key(len);
            }
            tallies
        };
        // One task is not worth a call of other threads.
        let tallies: Vec<_> = match keys.len().div_ceil(TASK) {
            tasks @ (0 | 1) => (0..tasks).map(tally).collect(),
            tasks => (0..tasks).into_par_iter().map(tally).collect(),
        };
        let mut before = Vec::with_capacity(tallies.len() + 1);
        for [device, host] in tallies {
            before.push(sum);
            sum = [sum[0].and(device), sum[1].and(host)];
        }
        before.push(sum);
        Self { keys, max, before }
    }

    /// The home of all keys; none where there are keys of both.
    pub(super) fn only(&self) -> Option<Home> {
        match self.total().map(|tally| tally.keys) {
            [_, 0] => Some(Home::Device),
            [0, _] => Some(Home::Host),
            _ => None,
        }
    }

    /// The keys of either home, in the batch's order; not copied where all have the same one.
    pub(super) fn parts(&self) -> [Part<'k>; 2] {
        Home::BOTH.map(|home| match self.only() {
            Some(only) if only == home => Part { keys: self.keys, picked: None },
            Some(_) => Part { keys: self.keys.slice(0..0), picked: None },
            None => {
                let is_here = |&index: &usize| self.home(index) == home;
                let places: Vec<usize> = (0..self.keys.len()).into_par_iter().filter(is_here).collect();
                Part { keys: self.keys, picked: Some((ByteKeysBuf::pick(self.keys, &places), places)) }
            }
        })
    }

    /// Copies the keys of either home, in parallel; [`Split::packed`] has them then. For a batch of keys of both.
    pub(super) fn pack<V: Word>(&self, scratch: &mut Scratch<V>) {
        debug_assert!(self.only().is_none());
        let total = self.total();
        let mut rests = Home::BOTH.map(|_| (&mut [][..], &mut [][..]));
        for ((rest, side), total) in rests.iter_mut().zip(&mut scratch.sides).zip(total) {
            side.reserve(total.keys, total.bytes);
            // Keys of one width need no offsets.
            let offsets = if total.of_one_width() { 0 } else { total.keys };
            *rest = (&mut side.bytes[..total.bytes], &mut side.offsets[1..=offsets]);
        }
        let mut tasks = Vec::with_capacity(self.before.len());
        for (task, pair) in self.before.windows(2).enumerate() {
            let writers = Home::BOTH.map(|home| {
                let ([before, end], rest) =
                    ([pair[0], pair[1]].map(|pair| pair[home as usize]), &mut rests[home as usize]);
                let (bytes, offsets) = mem::take(rest);
                let (bytes, bytes_behind) = bytes.split_at_mut(end.bytes - before.bytes);
                let (offsets, offsets_behind) = offsets.split_at_mut(offsets.len().min(end.keys - before.keys));
                *rest = (bytes_behind, offsets_behind);
                Writer { bytes, offsets, first: before.bytes, keys: 0, at: 0 }
            });
            tasks.push((task, writers));
        }
        tasks.into_par_iter().for_each(|(task, mut writers)| {
            for index in task_range(task, self.keys.len()) {
                let key = self.keys.at(index);
                writers[Home::of(key.len(), self.max) as usize].write(key);
            }
        });
    }

    /// The keys of a home, once they are packed, with room for what is found of each.
    pub(super) fn packed<'s, V>(&self, home: Home, side: &'s mut Side<V>) -> (ByteKeys<'s>, &'s mut [Option<V>]) {
        let Tally { keys, bytes, longest, .. } = self.total()[home as usize];
        let offsets = if self.total()[home as usize].of_one_width() {
            Offsets::Fixed { width: longest, len: keys }
        } else {
            Offsets::U64(&side.offsets[..=keys])
        };
        (ByteKeys::of_valid(offsets, &side.bytes[..bytes]), &mut side.found[..keys])
    }

    /// Puts what was found of either home's keys into the batch's order.
    pub(super) fn merge<V: Word>(&self, scratch: &Scratch<V>, out: &mut [Option<V>]) {
        out.par_chunks_mut(TASK).enumerate().for_each(|(task, out)| {
            let mut next = self.before[task].map(|tally| tally.keys);
            for (index, out) in task_range(task, self.keys.len()).zip(out) {
                let home = self.home(index) as usize;
                *out = scratch.sides[home].found[next[home]];
                next[home] += 1;
            }
        });
    }

    fn home(&self, index: usize) -> Home {
        Home::of(self.keys.at(index).len(), self.max)
    }

    fn total(&self) -> [Tally; 2] {
        self.before[self.before.len() - 1]
    }
}

fn task_range(task: usize, keys: usize) -> Range<usize> {
    task * TASK..keys.min((task + 1) * TASK)
}

/// Where a task's keys of one home go.
struct Writer<'s> {
    bytes: &'s mut [u8],
    /// Their ends; empty where they need none.
    offsets: &'s mut [u64],
    /// Bytes of the tasks before.
    first: usize,
    keys: usize,
    at: usize,
}

impl Writer<'_> {
    fn write(&mut self, key: &[u8]) {
        let end = self.at + key.len();
        self.bytes[self.at..end].copy_from_slice(key);
        if let Some(offset) = self.offsets.get_mut(self.keys) {
            *offset = (self.first + end) as u64;
        }
        (self.at, self.keys) = (end, self.keys + 1);
    }
}

/// The keys of one home, and where they are in their batch.
pub(super) struct Part<'k> {
    keys: ByteKeys<'k>,
    /// Where the home has not all of the keys, or none: those that it has, and their places.
    picked: Option<(ByteKeysBuf, Vec<usize>)>,
}

impl Part<'_> {
    pub(super) fn keys(&self) -> ByteKeys<'_> {
        self.picked.as_ref().map_or(self.keys, |(keys, _)| keys.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys().is_empty()
    }

    /// The place of a key in the batch.
    pub(super) fn place(&self, index: usize) -> usize {
        self.picked.as_ref().map_or(index, |(_, places)| places[index])
    }

    /// Its keys' values, of those of the batch's keys.
    pub(super) fn values<'v, V: Word>(&self, values: &'v [V]) -> Cow<'v, [V]> {
        match &self.picked {
            Some((_, places)) => {
                places.par_iter().with_min_len(TASK).map(|&place| values[place]).collect::<Vec<_>>().into()
            }
            None => values[..self.keys.len()].into(),
        }
    }
}

/// Memory for a batch of look-ups that is parted, by home.
pub(super) struct Scratch<V> {
    pub(super) sides: [Side<V>; 2],
}

/// Packed keys, and what is found of them. As long as any batch has needed.
pub(super) struct Side<V> {
    bytes: Vec<u8>,
    offsets: Vec<u64>,
    found: Vec<Option<V>>,
}

impl<V: Word> Scratch<V> {
    pub(super) fn new() -> Self {
        Self { sides: Home::BOTH.map(|_| Side { bytes: Vec::new(), offsets: Vec::new(), found: Vec::new() }) }
    }

    pub(super) fn bytes(&self) -> usize {
        let bytes = |side: &Side<V>| side.bytes.len() + size_of_val(&side.offsets[..]) + size_of_val(&side.found[..]);
        self.sides.iter().map(bytes).sum()
    }
}

impl<V: Word> Side<V> {
    fn reserve(&mut self, keys: usize, bytes: usize) {
        if self.bytes.len() < bytes {
            self.bytes = vec![0; bytes];
        }
        if self.found.len() < keys || self.offsets.is_empty() {
            (self.offsets, self.found) = (vec![0; keys + 1], vec![None; keys]);
        }
    }
}
