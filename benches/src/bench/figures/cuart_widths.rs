//! Look-ups by the keys' width, compared with GRT's (the paper's figure 11).

use crate::bench::cuart::data::Data;
use crate::bench::cuart::lookups::of_data;
use crate::bench::cuart::subject::{len, queries};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-widths", Run::Alone(measure));

/// At the paper's size.
fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let len = len(session, &request.sizes);
    for width in [4, 8, 16, 32] {
        of_data(session, Data::new(width, len, session.seed), &[queries(session)])?;
    }
    Ok(())
}
