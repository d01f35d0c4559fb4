//! Long keys on the CPU while the device looks up the others, in the paper's batches and by its threads (its figure 13).

use crate::bench::columns::{BATCH, KEYS, MS, N, OPERATION, RATE, RATIO, SPREAD, THREADS, WORDS};
use crate::bench::cuart::beside_grt::{PAPERS_BATCH, PAPERS_THREADS};
use crate::bench::cuart::data::Data;
use crate::bench::cuart::long::{Mixed, Packed, Tree, Way};
use crate::bench::cuart::measure::send_from_threads;
use crate::bench::cuart::subject::len;
use crate::bench::error::Result;
use crate::bench::figure::{Figure, Needs, Request, Run, Takes};
use crate::bench::row::Row;
use crate::bench::session::Session;
use crate::bench::table::{Clock, Table};

pub(crate) static FIGURE: Figure = Figure {
    name: "cuart-long-share",
    about: "CuART's paper, figure 13: a share of long keys on the CPU, 26 Mi keys, 8 threads",
    table: Some(&TABLE),
    needs: Needs::Kernels,
    takes: Takes::SIZES,
    run: Run::Alone(by_share),
    ..Figure::BASE
};

static TABLE: Table = Table {
    name: "cuart-long-share",
    title: "CuART: long keys on the CPU, short ones on the device, by their share (the paper's figure 13)",
    columns: &[
        OPERATION.headed("way"),
        WORDS,
        KEYS.headed("longer keys"),
        N,
        BATCH,
        THREADS,
        MS,
        SPREAD,
        RATE,
        RATIO.headed("x no long keys"),
    ],
    clock: Clock::Calls,
    notes: &[
        "By the CPU's clock, from ordinary host memory and back: threads that send batches at the same time; ms: the share",
        "of one batch in all that time. The same share of the queries as of the keys is longer, of 33 to 128 bytes. hybrid:",
        "the CPU looks these up; device leaves: all are on the device. The paper: 8 threads for the GPU and 56 for the CPU;",
        "about half the rate where 3 % of the keys are the CPU's.",
    ],
    summary: None,
};

/// The parts of the keys that are long, in per cent.
const SHARES: [u64; 4] = [0, 1, 3, 5];

/// Of each way those shares; device leaves for comparison only.
const WAYS: [(Way, &[u64]); 2] = [(Way::Hybrid, &SHARES), (Way::DeviceLeaves, &[0, 3])];

fn by_share(session: &mut Session, request: &Request) -> Result<()> {
    let data = Data::new(32, len(session, &request.sizes), session.seed);
    let count = PAPERS_BATCH.min(1 << session.plan.host_queries);
    for (way, shares) in WAYS {
        let mut baseline = None;
        for &share in shares {
            let mixed = Mixed { data, share, longer: (33, 128) };
            let what = way.name(&mixed);
            if !session.has_time(format_args!("{what}, longer keys: {}", mixed.name())) {
                continue;
            }
            let tree = Tree::build(session, &mixed, way)?;
            let pack = |batch: u64| mixed.pack(count, move |query| data.query(batch, query));
            let batches: Vec<Packed> = (1..=PAPERS_THREADS as u64).map(pack).collect();
            let (timing, checksum) = send_from_threads(session, &data, (&batches[..], count), what, |batch, out| {
                Ok(tree.get_many_into(batch.keys()?, out)?)
            })?;
            let row = Row::new(TABLE.name, "cuart", what, count, timing, checksum).on(session.device_name());
            let rate = row.giga_per_second;
            let ratio = rate / *baseline.get_or_insert(rate);
            let row = mixed.label(row, &tree).with("threads", PAPERS_THREADS).with("share", share as f64 / 100.0);
            session.push(row.with("ratio_to_baseline", ratio));
        }
    }
    Ok(())
}
