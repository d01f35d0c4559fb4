//! Look-ups by the tree's size, compared with GRT's (the paper's figure 10).

use crate::bench::cuart::data::Data;
use crate::bench::cuart::lookups::{self, of_data};
use crate::bench::cuart::subject::queries;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;

pub(crate) const FIGURE: Measurement =
    Measurement::new("cuart-sizes", Run::Alone(measure)).columns(&[("gathers", lookups::GATHERS)]);

/// Of keys of 32 bytes.
fn measure(session: &mut Session, request: &Request) -> Result<()> {
    for &size in &request.sizes {
        of_data(session, Data::new(32, 1 << size, session.seed), &[queries(session)])?;
    }
    Ok(())
}
