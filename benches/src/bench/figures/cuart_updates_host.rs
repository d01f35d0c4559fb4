//! Updates from host memory by several threads, compared with GRT's, and with atomic updates of trees with pointers on
//! the CPU (the paper's figure 17).

use crate::bench::cuart::beside_grt::{HostGrt, PAPERS_BATCH, PAPERS_THREADS};
use crate::bench::cuart::data::Data;
use crate::bench::cuart::engines::Engine;
use crate::bench::cuart::measure::from_threads;
use crate::bench::cuart::senders::{Sent, engine_from_threads, updates_from_threads};
use crate::bench::cuart::{cpu_updates, grt};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::cuart::UpdateEngine;
use lanetree::{ByteKeys, Cuart};
use lanetree_baselines::Checksum;
use lanetree_record::Timing;
use std::sync::{Mutex, PoisonError};

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-updates-host", Run::Alone(updates));

/// Operations of a batch on the CPU, as a power of two.
const ON_CPU: u32 = 20;

const ENGINES: [Engine; 2] =
    [Engine::new(UpdateEngine::Auto, "update"), Engine::one_table(1 << 20, "update, one table of 2^20 (the paper's)")];

/// Of keys of 8 and 16 bytes; the paper does not say which its figure has.
fn updates(session: &mut Session, request: &Request) -> Result<()> {
    for width in [16, 8] {
        let data = Data::new(width, 1 << main_of(&request.sizes), session.seed);
        if session.has_time(format_args!("updates from host memory, keys of {width} bytes")) {
            of_width(session, &data)?;
        }
    }
    Ok(())
}

fn of_width(session: &mut Session, data: &Data) -> Result<()> {
    session.doing(format_args!("building over {} keys of {} bytes", data.len, data.width));
    let device = session.device_name();
    let sent = (PAPERS_THREADS, PAPERS_BATCH.min(1 << session.plan.host_queries));
    let (bytes, values) = data.sorted();
    let mut tree = Cuart::builder().build_sorted(&session.device, ByteKeys::fixed(data.width, &bytes)?, &values)?;
    let send = |keys: ByteKeys<'_>, out: &mut [Option<u32>]| Ok(tree.get_many_into(keys, out)?);
    let measured = from_threads(session, data, sent, "get_many_into", send)?;
    let mut rows = Rows { data, look_ups: None };
    rows.push(session, ("cuart", "get_many_into", device), sent, measured);
    for engine in &ENGINES {
        let measured = engine_from_threads(session, data, sent, &mut tree, engine)?;
        rows.push(session, ("cuart", engine.name, device), sent, measured);
    }
    drop(tree);
    if session.has_time("GRT") {
        let mut host = HostGrt::new(grt::of_sorted(session, data, &bytes, &values)?);
        let send = |keys: ByteKeys<'_>, out: &mut [Option<u32>]| host.get_many_into(&session.device, keys, out);
        let measured = from_threads(session, data, sent, "GRT, get_many_into", send)?;
        rows.push(session, ("grt", "get_many_into", device), sent, measured);
        let state = Mutex::new(&mut host.grt);
        let measured =
            updates_from_threads(session, data, sent, "GRT, update", |stream, Sent { keys, values, .. }, after| {
                let mut grt = state.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: in the stream for which they are.
                grt.update(stream, unsafe { grt::queries_on(&session.device, stream, keys)? }, values, None)?;
                after();
                Ok(())
            })?;
        let checksum = measured.check(session, |batch, out| {
            // SAFETY: in the session's stream.
            Ok(host.grt.get(&session.stream, unsafe { grt::queries(session, batch)? }, out, None, 0)?)
        })?;
        rows.push(session, ("grt", "update", device), sent, (measured.timing, checksum));
    }
    drop((bytes, values));
    let count = 1 << ON_CPU.min(session.plan.host_queries);
    let all = rayon::current_num_threads();
    let mut threads = vec![1, PAPERS_THREADS.min(all), all];
    threads.dedup();
    for measured in cpu_updates::measure(session, data, count, &threads)? {
        let of = (measured.index, "update", "cpu");
        rows.push(session, of, (measured.threads, count), (measured.timing, measured.checksum));
    }
    Ok(())
}

/// Rows over the same keys.
struct Rows<'a> {
    data: &'a Data,
    /// The rate of the first row.
    look_ups: Option<f64>,
}

impl Rows<'_> {
    fn push(
        &mut self,
        session: &mut Session,
        (index, operation, device): (&'static str, &'static str, &'static str),
        (threads, count): (usize, usize),
        (timing, checksum): (Timing, Checksum),
    ) {
        let row = Row::new(FIGURE.name, index, operation, count, timing, checksum).on(device);
        let rate = row.giga_per_second;
        let ratio = rate / *self.look_ups.get_or_insert(rate);
        session.push(self.data.label::<u32>(row).with("threads", threads).with("ratio_to_baseline", ratio));
    }
}
