//! Point look-ups beside GRT's: by the keys' width (the paper's figure 11), by the tree's size (figure 10), and of
//! keys that begin alike (figure 12).

use super::changes::{LastWriters, written};
use super::data::{Data, keys};
use super::{Subject, len, queries, urls};
use crate::bench::error::Result;
use crate::bench::report::{Row, Section, Timing};
use crate::bench::session::Session;
use lanetree::cuart::RootTable;
use lanetree::{Cuart, DeviceKeys, Word};
use lanetree_baselines::Checksum;
use lanetree_baselines::art::Art;
use lanetree_baselines::grt::{Grt, Queries};
use rayon::prelude::*;

/// The most keys for which GRT is built: through a tree with pointers, by one thread.
const GRT: usize = 26 << 20;

/// Keys of the paper's figure 12: 15.4 Mi.
const URLS: usize = (154 << 20) / 10;

/// Queries of its batches.
const PAPERS_BATCH: usize = 1 << 15;

/// At the paper's size, by the keys' width.
pub(in crate::bench) fn by_width(session: &mut Session) -> Result<()> {
    let len = len(session);
    for width in [4, 8, 16, 32] {
        of_size(session, Data::new(width, len, session.seed), &[queries(session)])?;
    }
    Ok(())
}

/// Keys of 32 bytes, by the tree's size.
pub(in crate::bench) fn by_size(session: &mut Session) -> Result<()> {
    for size in session.plan.sizes.clone() {
        of_size(session, Data::new(32, 1 << size, session.seed), &[queries(session)])?;
    }
    Ok(())
}

/// Synthetic URLs, in the paper's batches of 2^15 and in large ones.
pub(in crate::bench) fn of_urls(session: &mut Session) -> Result<()> {
    let main = 1 << session.plan.main_size();
    let len = if session.plan.is_default && session.runs_kernels() { URLS.min(main) } else { main };
    let most = queries(session);
    let batches = if most > PAPERS_BATCH { vec![most, PAPERS_BATCH] } else { vec![most] };
    of_size(session, Data::urls(len.min(urls::MOST), session.seed), &batches)
}

fn of_size(session: &mut Session, data: Data, batches: &[usize]) -> Result<()> {
    let what = format!("CuART, n = {}, {} bytes", data.len, data.width);
    if !session.has_time(&what) {
        return Ok(());
    }
    of_words::<u64>(session, data, batches, true)?;
    let rates = of_words::<u32>(session, data, batches, false)?;
    if data.len <= GRT && session.runs_kernels() {
        grt(session, data, &batches.iter().copied().zip(rates).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Look-ups of values of some bits: the rates of those through the tree as built, by batch.
fn of_words<V: Word>(session: &mut Session, data: Data, batches: &[usize], without_table: bool) -> Result<Vec<f64>> {
    let subject = Subject::<V>::build(session, data)?;
    let rates = batches.iter().map(|&count| get(session, &subject, count, "get")).collect::<Result<_>>()?;
    if without_table && subject.stats.table_key_bytes > 0 && session.has_time("without the root table") {
        let bytes = data.all();
        let builder = Cuart::builder().root_table(RootTable::None);
        let tree = builder.build(&session.device, keys(data.width, &bytes), &data.values::<V>())?;
        let subject = Subject { stats: tree.stats(), tree, of_gathers: None, ..subject };
        batches.iter().try_for_each(|&count| get(session, &subject, count, "get, without root table").map(drop))?;
    }
    Ok(rates)
}

fn get<V: Word>(session: &mut Session, subject: &Subject<V>, count: usize, operation: &str) -> Result<f64> {
    let data = &subject.data;
    let batch = upload(session, data, count)?;
    let mut out = session.device.alloc::<V>(count)?;
    let on = subject.tree.on(&session.stream);
    let timing =
        session.time_on_stream(&mut out, |out| session.poison(out), |out| Ok(on.get(&batch, out, None, V::MIN)?))?;
    let expected = |query: usize| V::truncate(data.query(1, query) + 1);
    let checksum = session.check(&operation, "values", &out, out.len(), V::MIN, expected)?;
    let parts = ("cuart", operation.to_owned());
    let mut row = subject.row(session, Section::CuartLookups, parts, out.len(), timing, checksum);
    row.gathers_giga_per_second = subject.of_gathers;
    let rate = row.giga_per_second;
    session.push(row);
    Ok(rate)
}

/// The first queries, on the device.
fn upload(session: &Session, data: &Data, count: usize) -> Result<DeviceKeys> {
    let bytes = data.bytes(count, |query| data.query(1, query));
    Ok(DeviceKeys::upload(&session.device, keys(data.width, &bytes))?)
}

/// GRT's look-ups of the same queries, for each batch beside the rate of CuART's.
fn grt(session: &mut Session, data: Data, batches: &[(usize, f64)]) -> Result<()> {
    if !session.has_time("GRT") {
        return Ok(());
    }
    session.doing("building GRT");
    let bytes = data.all();
    let mut grt = {
        let mut order: Vec<usize> = (0..data.len).collect();
        order.par_sort_unstable_by_key(|&i| &bytes[i * data.width..][..data.width]);
        let pair = |i: usize| (&bytes[i * data.width..][..data.width], i as u64 + 1);
        Grt::<u32>::new(&session.device, &Art::new(order.into_iter().map(pair)))?
    };
    drop(bytes);
    batches.iter().try_for_each(|&(count, cuart)| grt_of_batch(session, &data, &mut grt, count, cuart))
}

fn grt_of_batch(session: &mut Session, data: &Data, grt: &mut Grt<u32>, count: usize, cuart: f64) -> Result<()> {
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
    push_grt(session, data, Section::CuartLookups, "get", (timing, checksum), (count, grt.bytes()), cuart);
    // Its updates of the same keys.
    if session.wants(Section::CuartUpdates) {
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
        session.poison(&mut out)?;
        grt.get(&session.stream, queries, &mut out, None, 0)?;
        session.stream.synchronize()?;
        let last = LastWriters::new(data, 1, count);
        let expected = |query| written(run, last.of(data.query(1, query)).expect("it is of the batch"));
        let checksum = session.check(&"GRT, update", "values", &out, count, 0, expected)?;
        push_grt(session, data, Section::CuartUpdates, "update", (timing, checksum), (count, grt.bytes()), 0.0);
    }
    Ok(())
}

fn push_grt(
    session: &mut Session,
    data: &Data,
    section: Section,
    operation: &str,
    (timing, checksum): (Timing, Checksum),
    (batch, bytes): (usize, u64),
    cuart: f64,
) {
    let mut row = Row::new(section, "grt", operation, batch, timing, checksum);
    row.device = session.device_name().into();
    row.keys = data.source().into();
    row.key = data.key_name();
    row.value = u32::NAME;
    row.n = data.len as u64;
    row.order = Some("random");
    row.hit_rate = Some(1.0);
    row.footprint_bytes = bytes;
    row.bytes_per_key = Some(bytes as f64 / data.len as f64);
    if cuart > 0.0 {
        row.ratio_to_baseline = Some(row.giga_per_second / cuart);
    }
    session.push(row);
}

/// GRT's updates too, for the figure of updates.
pub(super) fn with_grt(session: &mut Session, data: Data) -> Result<()> {
    if data.len <= GRT && session.runs_kernels() {
        grt(session, data, &[(queries(session), 0.0)])?;
    }
    Ok(())
}
