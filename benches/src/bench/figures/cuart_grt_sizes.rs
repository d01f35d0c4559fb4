//! CuART and GRT the paper's way, end to end, by the tree's size (the paper's figure 10).

use crate::bench::cuart::beside_grt::{Asked, PAPERS_BATCH, PAPERS_THREADS, measure};
use crate::bench::cuart::data::Data;
use crate::bench::cuart::grt;
use crate::bench::cuart::subject::queries;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;
use lanetree::DeviceKind;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-grt-sizes", Run::Alone(by_size));

/// Of keys of 32 bytes, in batches of half the size of the other figures'.
fn by_size(session: &mut Session, request: &Request) -> Result<()> {
    let mut lens: Vec<usize> = request.sizes.iter().map(|&size| 1 << size).collect();
    if session.plan.is_default() && session.device.kind() == DeviceKind::Cuda {
        lens.push(grt::MOST);
    }
    let sent = (PAPERS_BATCH / 2).min(1 << session.plan.host_queries);
    for len in lens {
        let asked = Asked { from_host: vec![(PAPERS_THREADS, sent)], on_device: vec![queries(session)] };
        measure(session, &Data::new(32, len, session.seed), &asked)?;
    }
    Ok(())
}
