//! Batches of look-ups that begin and end in host memory (the paper's figures 8 and 9).

use super::data::{Data, keys};
use super::{Subject, len};
use crate::bench::error::Result;
use crate::bench::host::bus;
use crate::bench::report::{Section, Timing};
use crate::bench::session::Session;

/// Sizes of the batches, as powers of two: the paper's, and one that is worked off in pieces.
const BATCHES: [u32; 7] = [13, 14, 15, 16, 17, 20, 24];

/// By the size of the batch, of keys of 32 bytes.
pub(in crate::bench) fn batches(session: &mut Session) -> Result<()> {
    let data = Data::new(32, len(session), session.seed);
    let subject = Subject::<u32>::build(session, data)?;
    let most = session.plan.host_queries;
    for batch in BATCHES.into_iter().filter(|&batch| batch <= most) {
        if session.has_time(format_args!("host batches of 2^{batch}")) {
            of_batch(session, &subject, 1 << batch)?;
        }
    }
    Ok(())
}

fn of_batch(session: &mut Session, subject: &Subject<u32>, count: usize) -> Result<()> {
    let data = subject.data;
    let bytes = data.bytes(count, |query| data.query(1, query));
    let bus = bus::<u8, u32>(session, bytes.len(), count)?;
    let mut out = vec![None; count];
    let timing = session.time_on_cpu(
        &mut out,
        |out| out.fill(None),
        |out| Ok(subject.tree.get_many_into(keys(data.width, &bytes), out)?),
    )?;
    let found: Vec<u32> = out.iter().map(|value| value.unwrap_or(0)).collect();
    push(session, subject, "get_many_into", &found, timing, bus)?;
    drop((out, found));

    let (mut pinned, mut out) = (session.device.pinned::<u8>(bytes.len())?, session.device.pinned::<u32>(count)?);
    pinned.copy_from_slice(&bytes);
    let timing = session.time_on_cpu(
        &mut out,
        |out| out.fill(0),
        |out| Ok(subject.tree.get_many_pinned(data.width, &pinned, out, None, 0)?),
    )?;
    push(session, subject, "get_many_pinned", &out, timing, bus)
}

/// A row, once its output was compared with what is right.
fn push(
    session: &mut Session,
    subject: &Subject<u32>,
    operation: &str,
    out: &[u32],
    timing: Timing,
    bus: Option<f64>,
) -> Result<()> {
    let data = subject.data;
    let expected = |query: usize| data.query(1, query) as u32 + 1;
    let checksum = session.check_slice(&operation, "values", out, 0, 0, expected)?;
    let parts = ("cuart", operation.to_owned());
    let mut row = subject.row(session, Section::CuartBatches, parts, out.len(), timing, checksum);
    row.bytes_moved = Some((out.len() * (data.width + 4)) as u64);
    row.ceiling_giga_per_second = bus.map(|ms| out.len() as f64 / ms / 1e6);
    session.push(row);
    Ok(())
}
