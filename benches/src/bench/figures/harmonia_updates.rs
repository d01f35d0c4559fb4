//! Batches on the device, of every kind: inserts, value updates, removals, and all of them in one batch.

use crate::bench::columns::power;
use crate::bench::data::{miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::keys::Keys;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::regular::fresh;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::harmonia::{BuildScratch, Builder, UpdateScratch};
use lanetree::{Buffer, Device, Harmonia, OpKind, UpdatePath};
use lanetree_base::parallel::*;

pub(crate) const FIGURE: Measurement = Measurement::new("harmonia-updates", Run::Alone(measure));

/// Operations of a batch, as powers of two below the number of keys.
const BELOW: [u32; 4] = [16, 10, 6, 4];

/// The part of each leaf that is filled.
const FILL: f64 = 0.7;

/// What a batch is of; kinds of operations are numbered as the device wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    Insert,
    Update,
    Remove,
    All,
}

impl Batch {
    const ALL: [Self; 4] = [Self::Insert, Self::Update, Self::Remove, Self::All];

    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Remove => "remove",
            Self::All => "all three",
        }
    }

    /// The kind of operation `i`.
    fn kind(self, i: usize) -> u32 {
        match self {
            Self::Insert => INSERT,
            Self::Update => UPDATE,
            Self::Remove => REMOVE,
            Self::All => (i % 3) as u32,
        }
    }
}

const INSERT: u32 = 0;
const UPDATE: u32 = 1;
const REMOVE: u32 = 2;

/// A tree, and the batch that it was changed by last.
struct State {
    tree: Harmonia<u64, u64>,
    scratch: UpdateScratch<u64, u64>,
    keys: Buffer<u64>,
    values: Buffer<u64>,
    /// Kinds of the operations, and of those that undo them.
    kinds: [Buffer<OpKind>; 2],
    words: Vec<u64>,
    round: u64,
    path: Option<UpdatePath>,
}

impl State {
    /// Undoes the last batch, if there was one, and makes the next.
    fn next(&mut self, session: &Session, keys: Keys<u64>, batch: Batch) -> Result<()> {
        if self.path.is_some() {
            let before: Vec<u64> = self.words.par_iter().map(|&key| value_of(key)).collect();
            self.values.copy_from(&before)?;
            let (keys, values, kinds) = (&self.keys, &self.values, &self.kinds[1]);
            self.tree.apply_on(&session.stream, lanetree::Batch::of_kinds(keys, values, kinds), &mut self.scratch)?;
        }
        self.round += 1;
        let (round, count, rank) = (self.round, self.words.len(), keys.shuffled(session.seed));
        fresh(session.seed, round, &mut self.words);
        self.words.par_iter_mut().enumerate().for_each(|(i, key)| {
            if batch.kind(i) != INSERT {
                *key = keys.key(rank(round, count, i));
            }
        });
        let values: Vec<u64> = (0..count).into_par_iter().map(|i| self.value(batch, i)).collect();
        self.keys.copy_from(&self.words)?;
        Ok(self.values.copy_from(&values)?)
    }

    /// What operation `i` writes.
    fn value(&self, batch: Batch, i: usize) -> u64 {
        let key = self.words[i];
        if batch.kind(i) == UPDATE { mix(key ^ self.round) } else { value_of(key) }
    }
}

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let keys = Keys::<u64>::new(size, session.seed_of(size));
        let (mut all, mut values) = (Vec::new(), Vec::new());
        keys.pairs_into(0..keys.len(), &mut all, &mut values);
        let pairs = (session.device.upload(&all)?, session.device.upload(&values)?);
        drop((all, values));
        for below in BELOW {
            for batch in Batch::ALL {
                let count = 1_usize << size.saturating_sub(below).max(3);
                of_batch(session, keys, (&pairs.0, &pairs.1), (batch, count))?;
            }
        }
        Ok(())
    })
}

/// Kinds of operations, on the device.
fn upload(device: &Device, kinds: &[u32]) -> Result<Buffer<OpKind>> {
    Ok(device.upload(&kinds.iter().copied().map(OpKind::from).collect::<Vec<_>>())?)
}

fn of_batch(
    session: &mut Session,
    keys: Keys<u64>,
    pairs: (&Buffer<u64>, &Buffer<u64>),
    (batch, count): (Batch, usize),
) -> Result<()> {
    let what = format!("{} of {}, {}", batch.name(), power(count as u64), keys.describe());
    if !session.has_time(&what) {
        return Ok(());
    }
    let device = &session.device;
    let builder = Builder::<u64, u64>::default().fill(FILL);
    let mut scratch = BuildScratch::for_sorted(device)?;
    let kinds: Vec<u32> = (0..count).map(|i| batch.kind(i)).collect();
    let undoing = |&kind: &u32| if kind == UPDATE { UPDATE } else { REMOVE - kind };
    let undoing: Vec<u32> = kinds.iter().map(undoing).collect();
    let mut state = State {
        tree: builder.build_sorted_on(&session.stream, pairs.0, pairs.1, keys.len(), &mut scratch)?,
        scratch: UpdateScratch::new(device, count)?,
        keys: device.alloc(count)?,
        values: device.alloc(count)?,
        kinds: [upload(device, &kinds)?, upload(device, &undoing)?],
        words: vec![0; count],
        round: 0,
        path: None,
    };
    let timing = session.time_prepared(
        &mut state,
        |state| state.next(session, keys, batch),
        |state| {
            // As a caller would: without kinds, all are inserts.
            let kinds = Some(&state.kinds[0]).filter(|_| batch != Batch::Insert);
            let State { tree, keys, values, scratch, .. } = state;
            state.path = Some(
                tree.apply_on(
                    &session.stream,
                    lanetree::Batch { kinds, ..lanetree::Batch::inserts(keys, values) },
                    scratch,
                )?
                .path,
            );
            Ok(())
        },
    )?;
    let found = state.tree.get_many(&state.words)?;
    let expected = |i: usize| if kinds[i] == REMOVE { miss() } else { state.value(batch, i) };
    let checksum = session.check_found(&what, &found, count, miss(), expected)?;
    let stats = state.tree.stats();
    let row = Row::new(FIGURE.name, "harmonia", batch.name(), count, timing, checksum)
        .on(session.device_name())
        .over(keys.len(), keys.name(), keys.name(), "uniform")
        .with("fanout", stats.fanout)
        .with("bytes_per_key", stats.bytes_per_key)
        .with("footprint_bytes", stats.bytes() + state.scratch.bytes() as u64);
    session.push(row.with("way", state.path.map(|path| format!("{path:?}").to_lowercase())));
    Ok(())
}
