//! GRT beside CuART: look-ups and updates of the same batches.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::writers::{LastWriters, written};
use crate::bench::error::Result;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::DeviceKeys;
use lanetree_baselines::art::Art;
use lanetree_baselines::grt::{Grt, Queries};
use rayon::prelude::*;

/// The name of the table of look-ups, CuART's and GRT's.
pub(crate) const LOOKUPS: &str = "cuart-lookups";

/// The most keys for which GRT is built: through a tree with pointers, by one thread.
const MOST: usize = 26 << 20;

/// The first queries, on the device.
pub(crate) fn upload(session: &Session, data: &Data, count: usize) -> Result<DeviceKeys> {
    let bytes = data.bytes(count, |query| data.query(1, query));
    Ok(DeviceKeys::upload(&session.device, keys(data.width, &bytes))?)
}

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
    let bytes = data.all();
    let mut order: Vec<usize> = (0..data.len).collect();
    order.par_sort_unstable_by_key(|&i| &bytes[i * data.width..][..data.width]);
    let pair = |i: usize| (&bytes[i * data.width..][..data.width], i as u64 + 1);
    Ok(Some(Grt::new(&session.device, &Art::new(order.into_iter().map(pair)))?))
}

fn look_ups(session: &Session, data: &Data, grt: &Grt<u32>, count: usize) -> Result<Row> {
    let batch = upload(session, data, count)?;
    let device = session.device.clone();
    // SAFETY: the strings of the batch, on the session's device, as they are for the stream that looks them up.
    let queries = unsafe { Queries::from_raw(batch.keys_ref(&session.stream)?, count, &device) };
    let mut out = session.device.alloc::<u32>(count)?;
    let timing = session.time_on_stream(
        &mut out,
        |out| session.poison(out),
        |out| Ok(grt.get(&session.stream, queries, out, None, 0)?),
    )?;
    let expected = |query: usize| data.query(1, query) as u32 + 1;
    let checksum = session.check(&"GRT, get", "values", &out, count, 0, expected)?;
    Ok(label(session, data, grt, Row::new(LOOKUPS, "grt", "get", count, timing, checksum)))
}

fn updates(session: &Session, data: &Data, grt: &mut Grt<u32>, count: usize, section: &'static str) -> Result<Row> {
    let batch = upload(session, data, count)?;
    let device = session.device.clone();
    // SAFETY: as for look-ups.
    let queries = unsafe { Queries::from_raw(batch.keys_ref(&session.stream)?, count, &device) };
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

fn label(session: &Session, data: &Data, grt: &Grt<u32>, row: Row) -> Row {
    let bytes = grt.bytes();
    let row = data.label::<u32>(row.on(session.device_name())).with("footprint_bytes", bytes);
    row.with("bytes_per_key", bytes as f64 / data.len as f64)
}
