//! Look-ups of keys that begin alike, compared with GRT's (the paper's figure 12).

use crate::bench::cuart::data::Data;
use crate::bench::cuart::lookups::of_data;
use crate::bench::cuart::subject::queries;
use crate::bench::cuart::urls;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::session::Session;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-urls", Run::Alone(measure));

/// Keys of the paper's figure: 15.4 Mi.
const PAPERS: usize = (154 << 20) / 10;

/// Queries of its batches.
const PAPERS_BATCH: usize = 1 << 15;

/// In the paper's batches of 2^15, and in large ones.
fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let main = 1 << main_of(&request.sizes);
    let len = if session.plan.is_default() && session.runs_kernels() { PAPERS.min(main) } else { main };
    let most = queries(session);
    let batches = if most > PAPERS_BATCH { vec![most, PAPERS_BATCH] } else { vec![most] };
    of_data(session, Data::urls(len.min(urls::MOST), session.seed), &batches)
}
