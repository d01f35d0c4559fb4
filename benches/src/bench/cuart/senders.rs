//! Updates from host memory, by threads that send batches at the same time, each through a stream of its own.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::engines::Engine;
use crate::bench::cuart::measure::times;
use crate::bench::error::Result;
use crate::bench::session::Session;
use lanetree::{Buffer, Cuart, DeviceKeys, PinnedBuffer, Stream};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A batch on its way: what a sender hands to the tree in its stream.
pub(crate) struct Sent<'a> {
    pub(crate) thread: usize,
    pub(crate) keys: &'a DeviceKeys,
    pub(crate) values: &'a Buffer<u32>,
}

/// What came of it: the time of a batch among all of them, and what the tree should have now.
pub(crate) struct Updated<'a> {
    pub(crate) timing: Timing,
    what: &'static str,
    data: &'a Data,
    threads: usize,
    count: usize,
    /// For each key the value that was written last, or 0.
    last: Vec<u32>,
}

/// What a thread sends through.
struct Sender {
    stream: Stream,
    bytes: Vec<u8>,
    staged: (PinnedBuffer<u64>, PinnedBuffer<u32>),
    keys: DeviceKeys,
    values: Buffer<u32>,
}

impl Sender {
    fn new(session: &Session, data: &Data, thread: usize, count: usize) -> Result<Self> {
        let device = &session.device;
        let words = (count * data.width).div_ceil(8);
        Ok(Self {
            stream: device.stream()?,
            bytes: data.bytes(count, |query| data.query(thread as u64 + 1, query)),
            staged: (device.pinned(words)?, device.pinned(count)?),
            keys: DeviceKeys::fixed(device.alloc(words)?, data.width, count)?,
            values: device.alloc(count)?,
        })
    }

    /// Puts the batch on its way, with values from `first` on.
    fn send(&mut self, first: u32) -> Result<()> {
        let (keys, values) = &mut self.staged;
        bytemuck::cast_slice_mut::<u64, u8>(keys)[..self.bytes.len()].copy_from_slice(&self.bytes);
        values.iter_mut().zip(first..).for_each(|(value, number)| *value = number);
        self.keys.upload_from(&self.stream, keys)?;
        Ok(self.values.upload_async(&self.stream, 0, values, 0..values.len())?)
    }
}

/// The most operations that a thread sends in a run.
const MOST: usize = 1 << 24;

/// Times updates of a tree by an engine, as [`updates_from_threads`], and looks up what was written.
pub(crate) fn engine_from_threads(
    session: &Session,
    data: &Data,
    (threads, count): (usize, usize),
    tree: &mut Cuart<u32>,
    engine: &Engine,
) -> Result<(Timing, Checksum)> {
    let scratch = (0..threads).map(|_| engine.scratch(&session.device, count)).collect::<Result<Vec<_>>>()?;
    let state = Mutex::new((&mut *tree, scratch));
    let updated = updates_from_threads(
        session,
        data,
        (threads, count),
        engine.name,
        |stream, Sent { keys, values, thread }, after| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let (tree, scratch) = &mut *state;
            tree.update_on(stream, keys, values, None, &mut scratch[thread])?;
            after();
            Ok(())
        },
    )?;
    drop(state);
    let checksum = updated.check(session, |batch, out| Ok(tree.on(&session.stream).miss(0).get(batch, out)?))?;
    Ok((updated.timing, checksum))
}

/// Times updates: threads that each send a batch of their own again and again, with other values each time. `update`
/// launches a batch's updates in a stream, while it keeps other threads out, and calls its last argument before it lets
/// them in: this is the order of the batches.
pub(crate) fn updates_from_threads<'a>(
    session: &Session,
    data: &'a Data,
    (threads, count): (usize, usize),
    what: &'static str,
    update: impl Fn(&Stream, Sent<'_>, &mut dyn FnMut()) -> Result<()> + Sync,
) -> Result<Updated<'a>> {
    let times = times(session).min((MOST / count).max(1));
    let mut senders: Vec<Sender> =
        (0..threads).map(|thread| Sender::new(session, data, thread, count)).collect::<Result<_>>()?;
    // Of the last run: threads and first values.
    let order = Mutex::new(Vec::new());
    let clear = || order.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let mut run = 0;
    let timing = session.time_on_cpu(
        &mut senders,
        |_| clear(),
        |senders| {
            // No run writes what another one wrote.
            let before = run * threads;
            run += 1;
            let first_of = |thread: usize, time: usize| (((before + thread) * times + time) * count) as u32 + 1;
            thread::scope(|scope| {
                let send = |(thread, sender): (usize, &mut Sender)| -> Result<()> {
                    (0..times).try_for_each(|time| {
                        let first = first_of(thread, time);
                        sender.send(first)?;
                        let sent = Sent { thread, keys: &sender.keys, values: &sender.values };
                        update(&sender.stream, sent, &mut || {
                            order.lock().unwrap_or_else(PoisonError::into_inner).push((thread, first));
                        })?;
                        Ok(sender.stream.synchronize()?)
                    })
                };
                let all = senders.iter_mut().enumerate();
                let all: Vec<_> = all.map(|of| scope.spawn(move || send(of))).collect();
                all.into_iter().try_for_each(|sender| sender.join().expect("a thread that does not panic"))
            })
        },
    )?;
    let mut last = vec![0; data.len];
    for (thread, first) in order.into_inner().unwrap_or_else(PoisonError::into_inner) {
        for (query, value) in (0..count).zip(first..) {
            last[data.query(thread as u64 + 1, query) as usize] = value;
        }
    }
    let timing = Timing::of(timing.runs_ms.iter().map(|ms| ms / (times * threads) as f64).collect());
    Ok(Updated { timing, what, data, threads, count, last })
}

impl Updated<'_> {
    /// Looks up what was written.
    pub(crate) fn check(
        &self,
        session: &Session,
        get: impl Fn(&DeviceKeys, &mut Buffer<u32>) -> Result<()>,
    ) -> Result<Checksum> {
        let mut checksum = Checksum::default();
        for thread in 0..self.threads as u64 {
            let query = |query: usize| self.data.query(thread + 1, query);
            let bytes = self.data.bytes(self.count, query);
            let batch = DeviceKeys::upload(&session.device, keys(self.data.width, &bytes))?;
            let mut out = session.device.alloc::<u32>(self.count)?;
            session.poison(&mut out)?;
            get(&batch, &mut out)?;
            session.stream.synchronize()?;
            let expected = |i: usize| self.last[query(i) as usize];
            checksum = checksum.and(session.check(&self.what, "values", &out, self.count, 0, expected)?);
        }
        Ok(checksum)
    }
}
