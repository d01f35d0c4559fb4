//! The paper's figure 17: ranges.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::ranges::measure as of_length;
use crate::bench::hbtree::relative::{Relative, regular};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use lanetree::hbtree::{Builder, HbTree, Implicit, Structure};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-ranges", Run::Alone(measure)).summary(regular);

/// Pairs of a range, and the paper's ratio.
const LENGTHS: [(usize, Option<&str>); 7] = [
    (1, Some("> 1.8")),
    (2, Some("> 1.8")),
    (4, Some("> 1.8")),
    (8, Some("> 1.8")),
    (16, None),
    (32, Some("1.22")),
    (1024, None),
];

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let mut relative = Relative::default();
        of_tree(session, size, &HbTree::builder(), &mut relative)?;
        of_tree(session, size, &HbTree::builder().regular(), &mut relative)
    })
}

fn of_tree<L: Structure>(
    session: &mut Session,
    size: u32,
    builder: &Builder<u64, u64, L>,
    relative: &mut Relative,
) -> Result<()> {
    let device = session.device.clone();
    let Some(mut subject) = Subject::build(session, &device, size, builder)? else { return Ok(()) };
    for (length, paper) in LENGTHS {
        let what = format!("ranges of {length}, {}", subject.keys.describe());
        if length > subject.keys.len() {
            session.skip(format_args!("{what}: fewer keys than that"));
        } else if session.has_time(&what) {
            for (side, mut row) in of_length(session, &mut subject, FIGURE.name, length)? {
                relative.compare(length, &mut row);
                row.set("paper", paper.filter(|_| side == Side::Hybrid && L::NAME == Implicit::NAME));
                session.push(row);
            }
        }
    }
    Ok(())
}
