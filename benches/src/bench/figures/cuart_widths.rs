//! Look-ups by the keys' width, compared with GRT's (the paper's figure 11).

use crate::bench::cuart::data::Data;
use crate::bench::cuart::lookups::{self, of_data};
use crate::bench::cuart::subject::{len, queries};
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Request, Run, Takes};
use crate::bench::session::Session;

pub(crate) const FIGURE: Figure = Figure {
    name: "cuart-widths",
    about: "CuART's paper, figure 11: look-ups by the keys' width, compared with GRT's",
    table: Some(&lookups::TABLE),
    takes: Takes::SIZES,
    with_ceilings: true,
    run: Run::Alone(measure),
    ..Figure::BASE
};

/// At the paper's size.
fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let len = len(session, &request.sizes);
    for width in [4, 8, 16, 32] {
        of_data(session, Data::new(width, len, session.seed), &[queries(session)])?;
    }
    Ok(())
}
