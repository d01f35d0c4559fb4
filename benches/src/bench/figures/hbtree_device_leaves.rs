//! Beyond the paper: buckets that the device answers alone, reading leaves across the bus.

use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::gathers::gathers;
use crate::bench::hbtree::plan::{at_each, device_buckets};
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use lanetree::hbtree::{HbTree, Pinning, Pipeline};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-device-leaves", Run::Alone(measure));

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let gathers = gathers(session, FIGURE.name, 16 << size)?;
        let device = session.device.clone();
        let builder = HbTree::<u64, u64>::builder().pinning(Pinning::IfPossible);
        let Some(mut subject) = Subject::build(session, &device, size, &builder)? else { return Ok(()) };
        if let Some(Err(why)) = &subject.stats.pinned {
            session.skip(format_args!("{}: {why}", subject.keys.describe()));
            return Ok(());
        }
        let mut baseline = None;
        for bucket in device_buckets(session) {
            let what = format!("buckets of {bucket} by the device alone");
            if !session.has_time(&what) {
                continue;
            }
            let mut pipeline = Pipeline::default();
            pipeline.device_bucket = bucket;
            subject.tree.set_pipeline(pipeline)?;
            let mut row = subject.look_up(session, FIGURE.name, Side::Hybrid, &what)?;
            let rate = *baseline.get_or_insert(row.giga_per_second);
            row.set("ratio_to_baseline", row.giga_per_second / rate);
            row.set("gathers_ratio", gathers.map(|most| row.giga_per_second / most));
            session.push(row);
        }
        Ok(())
    })
}
