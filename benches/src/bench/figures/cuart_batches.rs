//! Batches of look-ups that begin and end in host memory: by their size, and by how many threads send them (the
//! paper's figures 8 and 9).

use crate::bench::bus::bus;
use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::measure::from_threads;
use crate::bench::cuart::subject::{Subject, len};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;
use lanetree::ByteKeys;
use lanetree_baselines::Checksum;
use lanetree_record::Timing;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-batches", Run::Alone(batches));

/// Sizes of the batches, as powers of two: the paper's, and one that is processed in pieces.
const BATCHES: [u32; 7] = [13, 14, 15, 16, 17, 20, 24];

/// Threads that send batches at the same time.
const SENDERS: [usize; 5] = [1, 2, 4, 8, 16];

/// The size of those batches, as a power of two: the paper's.
const SENT: u32 = 15;

/// By the size of the batch, and by the number of threads, of keys of 32 bytes.
fn batches(session: &mut Session, request: &Request) -> Result<()> {
    let data = Data::new(32, len(session, &request.sizes), session.seed);
    let subject = Subject::<u32>::build(session, data)?;
    let most = session.plan.host_queries;
    for batch in BATCHES.into_iter().filter(|&batch| batch <= most) {
        if session.has_time(format_args!("host batches of 2^{batch}")) {
            of_batch(session, &subject, 1 << batch)?;
        }
    }
    for threads in SENDERS.into_iter().filter(|_| SENT <= most) {
        if session.has_time(format_args!("host batches from {threads} threads")) {
            of_threads(session, &subject, threads, 1 << SENT)?;
        }
    }
    Ok(())
}

fn of_batch(session: &mut Session, subject: &Subject<u32>, count: usize) -> Result<()> {
    let data = subject.data;
    let bytes = data.bytes(count, |query| data.query(1, query));
    let bus = bus::<u8, u32>(session, bytes.len(), count)?;
    let mut out = vec![None; count];
    let timing = session.time_into(&mut out, |out| subject.tree.get_many_into(keys(data.width, &bytes), out))?;
    let found: Vec<u32> = out.iter().map(|value| value.unwrap_or(0)).collect();
    checked(session, subject, "get_many_into", &found, timing, bus)?;
    drop((out, found));

    let (mut pinned, mut out) = (session.device.pinned::<u8>(bytes.len())?, session.device.pinned::<u32>(count)?);
    pinned.copy_from_slice(&bytes);
    let timing = session.time_into(&mut out, |out| subject.tree.get_many_pinned(data.width, &pinned, 0, out, None))?;
    checked(session, subject, "get_many_pinned", &out, timing, bus)
}

/// Threads that each send a batch again and again; the time is that of a batch among all of them.
fn of_threads(session: &mut Session, subject: &Subject<u32>, threads: usize, count: usize) -> Result<()> {
    let data = &subject.data;
    let bus = bus::<u8, u32>(session, data.width * count, count)?;
    let send = |keys: ByteKeys<'_>, out: &mut [Option<u32>]| Ok(subject.tree.get_many_into(keys, out)?);
    let measured = from_threads(session, data, (threads, count), "get_many_into", send)?;
    push(session, subject, "get_many_into", Some(threads), count, measured, bus);
    Ok(())
}

/// A row, once its output was compared with what is right.
fn checked(
    session: &mut Session,
    subject: &Subject<u32>,
    operation: &str,
    out: &[u32],
    timing: Timing,
    bus: Option<f64>,
) -> Result<()> {
    let data = subject.data;
    let expected = |query: usize| data.query(1, query) as u32 + 1;
    let checksum = session.check_slice(&operation, "values", out, 0..out.len(), 0, expected)?;
    push(session, subject, operation, None, out.len(), (timing, checksum), bus);
    Ok(())
}

fn push(
    session: &mut Session,
    subject: &Subject<u32>,
    operation: &str,
    threads: Option<usize>,
    count: usize,
    (timing, checksum): (Timing, Checksum),
    bus: Option<f64>,
) {
    let mut row = subject.row(session, FIGURE.name, operation, count, timing, checksum);
    row.set("threads", threads);
    row.set("bytes_moved", (count * (subject.data.width + 4)) as u64);
    row.set("ceiling_giga_per_second", bus.map(|ms| count as f64 / ms / 1e6));
    session.push(row);
}
