//! GRT compared with CuART: look-ups and updates of the same batches.

use crate::bench::cuart::data::Data;
use crate::bench::cuart::measure::{on_device, upload};
use crate::bench::cuart::writers::{LastWriters, written};
use crate::bench::error::Result;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{Device, DeviceKeys, Stream};
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::grt::{Grt, Queries};
use lanetree_record::Timing;

/// The name of the table of look-ups, CuART's and GRT's.
pub(crate) const LOOKUPS: &str = "cuart-lookups";

/// The most keys for which GRT is built: the paper's largest tree.
pub(crate) const MOST: usize = 144 << 20;

/// Look-ups of batches, each with the rate of CuART's.
pub(crate) fn beside_look_ups(session: &mut Session, data: &Data, batches: &[(usize, f64)]) -> Result<()> {
    let Some(grt) = build(session, data)? else { return Ok(()) };
    for &(count, cuart) in batches {
        let row = look_ups(session, data, &grt, count)?;
        let ratio = row.giga_per_second / cuart;
        session.push(row.with("ratio_to_baseline", ratio));
    }
    Ok(())
}

/// Look-ups and updates of a batch, the latter for the table `section`.
pub(crate) fn beside_updates(session: &mut Session, data: &Data, count: usize, section: &'static str) -> Result<()> {
    let Some(mut grt) = build(session, data)? else { return Ok(()) };
    let row = look_ups(session, data, &grt, count)?;
    session.push(row);
    let row = updates(session, data, &mut grt, count, section)?;
    session.push(row);
    Ok(())
}

/// None where there are no kernels, or too many keys, or no time.
fn build(session: &mut Session, data: &Data) -> Result<Option<Grt<u32>>> {
    if !session.runs_kernels() || data.len > MOST || !session.has_time("GRT") {
        return Ok(None);
    }
    session.doing("building GRT");
    let (bytes, values) = data.sorted();
    Ok(Some(of_sorted(session, data, &bytes, &values)?))
}

/// GRT of a tree's keys in ascending order.
pub(crate) fn of_sorted(session: &Session, data: &Data, bytes: &[u8], values: &[u32]) -> Result<Grt<u32>> {
    let key = |i: usize| &bytes[i * data.width..][..data.width];
    Ok(Grt::of_sorted(&session.device, data.len, key, |i| values[i].into())?)
}

/// The strings of a batch on the session's device.
///
/// # Safety
/// Nothing but the session's stream looks them up.
pub(crate) unsafe fn queries<'a>(session: &'a Session, batch: &DeviceKeys) -> Result<Queries<'a>> {
    // SAFETY: the caller's promise.
    unsafe { queries_on(&session.device, &session.stream, batch) }
}

/// The strings of a batch on a device, for a stream.
///
/// # Safety
/// Nothing but that stream looks them up.
pub(crate) unsafe fn queries_on<'a>(device: &'a Device, stream: &Stream, batch: &DeviceKeys) -> Result<Queries<'a>> {
    // SAFETY: as they are for the stream that looks them up, which is the caller's promise.
    Ok(unsafe { Queries::from_raw(batch.keys_ref(stream)?, batch.len(), device) })
}

/// Times look-ups of a batch on the device.
pub(crate) fn timed(session: &Session, data: &Data, grt: &Grt<u32>, count: usize) -> Result<(Timing, Checksum)> {
    on_device(session, data, count, "GRT, get", |batch, out| {
        // SAFETY: in the session's stream.
        Ok(grt.get(&session.stream, unsafe { queries(session, batch)? }, out, None, 0)?)
    })
}

fn look_ups(session: &Session, data: &Data, grt: &Grt<u32>, count: usize) -> Result<Row> {
    let (timing, checksum) = timed(session, data, grt, count)?;
    Ok(label(session, data, grt, Row::new(LOOKUPS, "grt", "get", count, timing, checksum)))
}

fn updates(session: &Session, data: &Data, grt: &mut Grt<u32>, count: usize, section: &'static str) -> Result<Row> {
    let batch = upload(session, data, count)?;
    // SAFETY: in the session's stream.
    let queries = unsafe { queries(session, &batch)? };
    let (mut run, mut host) = (0, vec![0; count]);
    let mut state = (&mut *grt, session.device.alloc::<u32>(count)?);
    let timing = session.time_on_stream(
        &mut state,
        |(_, values)| {
            run += 1;
            host.par_iter_mut().enumerate().for_each(|(query, value)| *value = written(run, query as u64));
            Ok(values.copy_from(&host)?)
        },
        |(grt, values)| Ok(grt.update(&session.stream, queries, values, None)?),
    )?;
    let mut out = session.device.alloc::<u32>(count)?;
    session.poison(&mut out)?;
    grt.get(&session.stream, queries, &mut out, None, 0)?;
    session.stream.synchronize()?;
    let last = LastWriters::new(data, 1, count);
    let expected = |query| written(run, last.of(data.query(1, query)).expect("it is of the batch"));
    let checksum = session.check(&"GRT, update", "values", &out, count, 0, expected)?;
    Ok(label(session, data, grt, Row::new(section, "grt", "update", count, timing, checksum)))
}

/// A row about the tree.
pub(crate) fn label(session: &Session, data: &Data, grt: &Grt<u32>, row: Row) -> Row {
    let bytes = grt.bytes();
    let row = data.label::<u32>(row.on(session.device_name())).with("footprint_bytes", bytes);
    row.with("bytes_per_key", bytes as f64 / data.len as f64)
}
