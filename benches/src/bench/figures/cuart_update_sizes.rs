//! Updates by batch, tree size and key length, with the paper's one hash table and without (its figures 15 and 16): kernels
//! alone, and from host memory as in the paper.

use crate::bench::cuart::beside_grt::PAPERS_THREADS;
use crate::bench::cuart::data::Data;
use crate::bench::cuart::engines::{Engine, measured};
use crate::bench::cuart::senders::engine_from_threads;
use crate::bench::cuart::subject::Subject;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::figures::cuart_updates_host;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::cuart::UpdateEngine;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-update-sizes", Run::Alone(by_size));

/// Sizes of the batches of figure 15, as powers of two; the fifth is the last that the paper's table has room for.
const BATCHES: [u32; 6] = [13, 15, 17, 19, 20, 22];

/// The batch of figure 16: 16 Ki, and of figure 17.
const PAPERS: [u32; 2] = [14, 15];

/// Bytes of the keys of figure 15; and of figure 16.
const WIDTH: usize = 16;
const WIDTHS: [usize; 4] = [4, 8, 16, 32];

const ENGINES: [Engine; 4] = [
    Engine::new(UpdateEngine::Auto, "update"),
    Engine::one_table(1 << 20, "update, one table of 2^20 (the paper's)"),
    Engine::large_table("update, one table of twice the batch"),
    Engine::new(UpdateEngine::HashTable, "update, hash table in pieces"),
];

/// Those that are also measured from host memory, and the largest batch then, as a power of two.
const FROM_HOST: [Engine; 2] = [
    Engine::one_table(1 << 20, "update from host memory, one table of 2^20 (the paper's)"),
    Engine::large_table("update from host memory, one table of twice the batch"),
];
const MOST_FROM_HOST: u32 = 20;

/// Of keys of 16 bytes by batch, and of each length in the paper's batches.
fn by_size(session: &mut Session, request: &Request) -> Result<()> {
    let most = session.plan.queries;
    for &size in &request.sizes {
        for width in WIDTHS {
            let what = format!("updates, 2^{size} keys of {width} bytes");
            if !session.has_time(&what) {
                continue;
            }
            let mut batches: Vec<u32> = if width == WIDTH { [&BATCHES[..], &PAPERS].concat() } else { PAPERS.to_vec() };
            batches.iter_mut().for_each(|batch| *batch = most.min(*batch));
            batches.sort_unstable();
            batches.dedup();
            let mut subject = Subject::<u32>::of(session, Data::new(width, 1 << size, session.seed))?;
            for &batch in &batches {
                measured(
                    session,
                    &mut subject,
                    (FIGURE.name, &ENGINES),
                    1 << batch,
                    |_, tree, stream, of, scratch| Ok(tree.update_on(stream, of.0, of.1, None, scratch)?),
                )?;
            }
            batches.retain(|&batch| batch <= MOST_FROM_HOST);
            if session.has_time(format_args!("{what}, from host memory")) {
                from_host(session, &mut subject, &batches)?;
            }
        }
    }
    Ok(())
}

/// End to end, by the paper's threads.
fn from_host(session: &mut Session, subject: &mut Subject<u32>, batches: &[u32]) -> Result<()> {
    let data = subject.data;
    for count in batches.iter().map(|&batch| 1 << batch) {
        for engine in &FROM_HOST {
            let (timing, checksum) =
                engine_from_threads(session, &data, (PAPERS_THREADS, count), &mut subject.tree, engine)?;
            let row = Row::new(cuart_updates_host::FIGURE.name, "cuart", engine.name, count, timing, checksum);
            let row = data.label::<u32>(row.on(session.device_name()));
            session.push(row.with("threads", PAPERS_THREADS));
        }
    }
    Ok(())
}
