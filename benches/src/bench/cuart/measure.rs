//! Look-ups of a tree's keys timed in two ways, for CuART and for what it is compared with: kernels alone, and from
//! host memory and back, by threads that send batches at the same time. Every value is checked.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::error::Result;
use crate::bench::session::Session;
use lanetree::{Buffer, ByteKeys, DeviceKeys, DeviceKind};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::thread;

/// Batches that a thread sends in a run, one after another.
pub(crate) fn times(session: &Session) -> usize {
    // The emulator's time means nothing.
    if session.device.kind() == DeviceKind::Emulated { 1 } else { 64 }
}

/// The first queries of batch 1, on the device.
pub(crate) fn upload(session: &Session, data: &Data, count: usize) -> Result<DeviceKeys> {
    let bytes = data.bytes(count, |query| data.query(1, query));
    Ok(DeviceKeys::upload(&session.device, keys(data.width, &bytes))?)
}

/// Times look-ups of a batch, queries and values on the device.
pub(crate) fn on_device(
    session: &Session,
    data: &Data,
    count: usize,
    what: &'static str,
    get: impl Fn(&DeviceKeys, &mut Buffer<u32>) -> Result<()>,
) -> Result<(Timing, Checksum)> {
    let batch = upload(session, data, count)?;
    let mut out = session.device.alloc::<u32>(count)?;
    let expected = |query: usize| data.query(1, query) as u32 + 1;
    let timing = session.time_call(&mut out, |out| get(&batch, out))?;
    let checksum = session.check(&what, "values", &out, count, 0, expected)?;
    Ok((timing, checksum))
}

/// Times look-ups from host memory and back, as [`send_from_threads`], of batches of keys of one width.
pub(crate) fn from_threads(
    session: &Session,
    data: &Data,
    (threads, count): (usize, usize),
    what: &'static str,
    send: impl Fn(ByteKeys<'_>, &mut [Option<u32>]) -> Result<()> + Sync,
) -> Result<(Timing, Checksum)> {
    let batches: Vec<Vec<u8>> =
        (1..=threads as u64).map(|batch| data.bytes(count, |query| data.query(batch, query))).collect();
    send_from_threads(session, data, (&batches[..], count), what, |batch, out| send(keys(data.width, batch), out))
}

/// Times look-ups from host memory and back: threads that each send a batch of their own again and again. A batch has
/// `count` queries. The time is per batch: the elapsed time over the number of batches of all threads.
pub(crate) fn send_from_threads<B: Sync>(
    session: &Session,
    data: &Data,
    (batches, count): (&[B], usize),
    what: &'static str,
    send: impl Fn(&B, &mut [Option<u32>]) -> Result<()> + Sync,
) -> Result<(Timing, Checksum)> {
    let (times, threads) = (times(session), batches.len());
    let mut outs = vec![vec![None; count]; threads];
    let timing = session.time_on_cpu(
        &mut outs,
        |outs| outs.iter_mut().for_each(|out| out.fill(None)),
        |outs| {
            thread::scope(|scope| {
                let send = |(batch, out): (&B, &mut Vec<Option<u32>>)| -> Result<()> {
                    (0..times).try_for_each(|_| send(batch, out))
                };
                let senders: Vec<_> = batches.iter().zip(outs).map(|pair| scope.spawn(move || send(pair))).collect();
                senders.into_iter().try_for_each(|sender| sender.join().expect("a thread that does not panic"))
            })
        },
    )?;
    let timing = Timing::of(timing.runs_ms.iter().map(|ms| ms / (times * threads) as f64).collect());
    let mut checksum = Checksum::default();
    for (batch, out) in (1..).zip(&outs) {
        let expected = |query: usize| data.query(batch, query) as u32 + 1;
        checksum = checksum.and(session.check_found(&what, out, count, 0, expected)?);
    }
    Ok((timing, checksum))
}
