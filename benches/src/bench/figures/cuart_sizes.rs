//! Look-ups by the tree's size, compared with GRT's (the paper's figure 10).

use crate::bench::cuart::data::Data;
use crate::bench::cuart::lookups::{self, of_data};
use crate::bench::cuart::subject::queries;
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::session::Session;

pub(crate) const FIGURE: Figure = Figure {
    name: "cuart-sizes",
    about: "CuART's paper, figure 10: look-ups by the tree's size, keys of 32 bytes, compared with GRT's",
    table: Some(&lookups::TABLE),
    takes: Takes::SIZES,
    with_ceilings: true,
    run: Run::Alone(measure),
    ..Figure::BASE
};

/// Of keys of 32 bytes.
fn measure(session: &mut Session, request: &Request) -> Result<()> {
    for &size in &request.sizes {
        of_data(session, Data::new(32, 1 << size, session.seed), &[queries(session)])?;
    }
    Ok(())
}
