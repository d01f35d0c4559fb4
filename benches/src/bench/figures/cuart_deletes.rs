//! Removals by the kernel of their own and by the engine of updates, and batches that mix updates and removals.

use crate::bench::cuart::data::{Data, keys};
use crate::bench::cuart::subject::{Subject, len};
use crate::bench::cuart::writers::LastWriters;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;
use lanetree::cuart::{ChangeScratch, UpdateEngine};
use lanetree::{Buffer, Cuart, DeviceKeys};
use lanetree_base::parallel::*;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-deletes", Run::Alone(deletes));

/// Sizes of the batches, as powers of two.
const BATCHES: [u32; 5] = [14, 15, 18, 20, 22];

/// The value of a removal; no key has it.
const NIL: u32 = u32::MAX;

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Removals, by their kernel.
    Remove,
    /// By the engine of updates: of this many operations one removes its key; 0 for none.
    Engine(usize),
}

const WAYS: [(Way, &str); 4] = [
    (Way::Remove, "remove"),
    (Way::Engine(1), "remove, engine of updates"),
    (Way::Engine(2), "update and remove, half each"),
    (Way::Engine(0), "update, the same engine"),
];

/// Of keys of 8, 16 and 32 bytes.
fn deletes(session: &mut Session, request: &Request) -> Result<()> {
    let len = len(session, &request.sizes);
    for width in [8, 16, 32] {
        let what = format!("removals, keys of {width} bytes");
        if !session.has_time(&what) {
            continue;
        }
        let mut subject = Subject::<u32>::of(session, Data::new(width, len, session.seed))?;
        let mut batches = BATCHES.map(|batch| batch.min(session.plan.queries)).to_vec();
        batches.dedup();
        for batch in batches {
            if session.has_time(format_args!("{what}, batch 2^{batch}")) {
                of_batch(session, &mut subject, 1 << batch)?;
            }
        }
    }
    Ok(())
}

/// A tree and a batch; what its operations write.
struct State<'a> {
    tree: &'a mut Cuart<u32>,
    batch: &'a DeviceKeys,
    /// The values that the tree was built with, of the batch's keys.
    first: Buffer<u32>,
    written: Buffer<u32>,
    inserting: ChangeScratch,
    scratch: ChangeScratch,
    removed: u64,
}

impl State<'_> {
    fn run(&mut self, session: &Session, way: Way) -> Result<()> {
        self.removed = match way {
            Way::Remove => self.tree.remove_on(&session.stream, self.batch)?,
            Way::Engine(_) => {
                self.tree.update_or_remove_on(&session.stream, self.batch, &self.written, NIL, &mut self.scratch)?
            }
        };
        Ok(())
    }

    /// Makes the tree what it was before the run.
    fn restore(&mut self, session: &Session) -> Result<()> {
        self.tree.insert_on(&session.stream, self.batch, &self.first, &mut self.inserting)?;
        Ok(session.stream.synchronize()?)
    }
}

fn of_batch(session: &mut Session, subject: &mut Subject<u32>, count: usize) -> Result<()> {
    let (data, device) = (subject.data, session.device.clone());
    let bytes = data.bytes(count, |query| data.query(1, query));
    let batch = DeviceKeys::upload(&device, keys(data.width, &bytes))?;
    let last = LastWriters::new(&data, 1, count);
    let first: Vec<u32> = (0..count).into_par_iter().map(|query| data.query(1, query) as u32 + 1).collect();
    let mut baseline = None;
    for (way, name) in WAYS {
        // What an operation writes, or `NIL`; of an updated value the highest bit is set.
        let written = |query: usize| match way {
            Way::Remove | Way::Engine(1) => NIL,
            Way::Engine(every) if every > 0 && query.is_multiple_of(every) => NIL,
            Way::Engine(_) => 1 << 31 | query as u32,
        };
        let values: Vec<u32> = (0..count).into_par_iter().map(written).collect();
        let mut state = State {
            tree: &mut subject.tree,
            batch: &batch,
            first: device.upload(&first)?,
            written: device.upload(&values)?,
            inserting: ChangeScratch::for_inserts(&device, count, UpdateEngine::Auto)?,
            scratch: ChangeScratch::for_updates(&device, count, UpdateEngine::HashTable)?.one_table(2 * count)?,
            removed: 0,
        };
        let timing =
            session.time_prepared(&mut state, |state| state.restore(session), |state| state.run(session, way))?;
        let removed = state.removed;
        let of_key = |key: u64| last.of(key).map(|query| written(query as usize));
        let keys_removed = (0..data.len as u64).into_par_iter().count_if(|&key| of_key(key) == Some(NIL)) as u64;
        session.expect(&name, "removed keys", removed, keys_removed)?;
        session.expect(&name, "len", state.tree.len(), data.len as u64 - keys_removed)?;
        let mut out = device.alloc::<u32>(count)?;
        session.poison(&mut out)?;
        state.tree.on(&session.stream).miss(NIL).get(&batch, &mut out)?;
        session.stream.synchronize()?;
        let expected = |query: usize| of_key(data.query(1, query)).expect("it is of the batch");
        let checksum = session.check(&name, "values", &out, count, NIL, expected)?;
        // The next way, and the next batch, find the tree as it was built.
        state.restore(session)?;
        let mut row = subject.row(session, FIGURE.name, name, count, timing, checksum);
        let baseline = *baseline.get_or_insert(row.giga_per_second);
        row.set("ratio_to_baseline", row.giga_per_second / baseline);
        session.push(row);
    }
    Ok(())
}
