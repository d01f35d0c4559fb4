//! Look-ups whose keys one lane compares, or several side by side, by the keys' width.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::subject::{Subject, len, queries};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;
use lanetree::cuart::Lanes;
use lanetree::{DeviceKeys, KeyWord};

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-lanes", Run::Alone(by_lanes));

/// Bytes of a key.
const WIDTHS: [usize; 5] = [8, 32, 64, 128, 256];

/// The most keys: of 256 bytes, a gibibyte.
const MOST: usize = 1 << 22;

const LANES: [(Lanes, &str); 4] = [
    (Lanes::One, "get, 1 lane"),
    (Lanes::Two, "get, 2 lanes"),
    (Lanes::Four, "get, 4 lanes"),
    (Lanes::Eight, "get, 8 lanes"),
];

/// By the keys' width and the lanes that compare them; the ratio is to one lane.
fn by_lanes(session: &mut Session, request: &Request) -> Result<()> {
    for width in WIDTHS {
        let data = Data::new(width, len(session, &request.sizes).min(MOST), session.seed);
        if session.has_time(format_args!("keys of {width} bytes")) {
            of_width(session, data)?;
        }
    }
    Ok(())
}

fn of_width(session: &mut Session, data: Data) -> Result<()> {
    let subject = Subject::<u32>::build(session, data)?;
    let bytes = data.bytes(queries(session).min(MOST), |query| data.query(1, query));
    let batch = DeviceKeys::upload(&session.device, keys(data.width, &bytes))?;
    let mut out = session.device.alloc::<u32>(batch.len())?;
    let mut baseline = None;
    for (lanes, name) in LANES {
        let on = || subject.tree.on(&session.stream).with_lanes(lanes);
        let expected = |query: usize| u32::truncate(data.query(1, query) + 1);
        let timing = session.time_call(&mut out, |out| on().miss(0).get(&batch, out))?;
        let checksum = session.check(&name, "values", &out, out.len(), 0, expected)?;
        let mut row = subject.row(session, FIGURE.name, name, batch.len(), timing, checksum);
        let baseline = *baseline.get_or_insert(row.giga_per_second);
        row.set("ratio_to_baseline", row.giga_per_second / baseline);
        session.push(row);
    }
    Ok(())
}
