//! CuART and GRT the paper's way, end to end: by batch, by threads and by the keys' width (the paper's figures 8, 9 and
//! 11).

use crate::bench::cuart::beside_grt::{Asked, PAPERS_BATCH, PAPERS_THREADS, measure};
use crate::bench::cuart::data::Data;
use crate::bench::cuart::subject::{len, queries};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-grt", Run::Alone(by_batch_threads_and_width));

/// Sizes of the batches of figure 8, as powers of two.
const BATCHES: [u32; 5] = [13, 14, 15, 16, 17];

/// Threads of figure 9.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// Of keys of 32 bytes by batch and by threads, and of shorter ones as in figure 11.
fn by_batch_threads_and_width(session: &mut Session, request: &Request) -> Result<()> {
    let len = len(session, &request.sizes);
    let most = 1 << session.plan.host_queries;
    let sent = PAPERS_BATCH.min(most);
    let mut on_device = vec![sent, queries(session)];
    on_device.dedup();
    for width in [32, 16, 8, 4] {
        let mut from_host = vec![(PAPERS_THREADS, sent)];
        if width == 32 {
            from_host.extend(BATCHES.map(|batch| (PAPERS_THREADS, most.min(1 << batch))));
            from_host.extend(THREADS.map(|threads| (threads, sent)));
            from_host.sort_unstable();
            from_host.dedup();
        }
        let asked = Asked { from_host, on_device: on_device.clone() };
        measure(session, &Data::new(width, len, session.seed), &asked)?;
    }
    Ok(())
}
