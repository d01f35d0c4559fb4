//! Figures over little data, for tests.

use super::driver;
use super::error::Result;
use super::figure::{Figure, Request, Run};
use super::figures::{FIGURES, parts};
use super::machine;
use super::plan::{Plan, Scale};
use super::report::Report;
use super::row::Row;
use super::session::Session;
use core::error::Error;
use lanetree::{Device, DeviceKind};
use lanetree_record::Record;

/// A session of few runs over little data.
pub(crate) fn session(device: Device) -> Result<Session> {
    let plan = Plan { asked: vec![8], ..Plan::of(Scale { kind: DeviceKind::Emulated, quick: true }) };
    let report = Report::new(machine::of(&device)?, device.kind(), 1);
    Session::new(device, plan, false, None, report)
}

/// The names of all parts.
pub fn part_names() -> impl Iterator<Item = &'static str> {
    parts().map(|part| part.name)
}

/// Measures figures at a size, one after another, or parts together; with these queries, or those of the tests' plan.
///
/// # Errors
/// What ended it.
///
/// # Panics
/// At a name of no figure.
pub fn measured(
    device: Device,
    names: &[&str],
    size: u32,
    queries: Option<u32>,
) -> core::result::Result<Record<Row>, impl Error + use<>> {
    let named = |name: &&str| FIGURES.iter().find(|figure| figure.name == *name).expect("the name of a figure");
    let (parts, others): (Vec<&Figure>, Vec<&Figure>) =
        names.iter().map(named).partition(|figure| matches!(figure.run, Run::Part(_)));
    let mut session = session(device)?;
    session.plan.asked = vec![size];
    session.plan.queries = queries.unwrap_or(session.plan.queries);
    session.wants_ceilings = parts.iter().any(|part| part.with_ceilings);
    driver::parts(&mut session, &parts, None)?;
    for figure in others {
        driver::figure(&mut session, figure, &Request { sizes: vec![size], input: None }, None)?;
    }
    Ok::<_, super::error::Error>(session.finish().record)
}
