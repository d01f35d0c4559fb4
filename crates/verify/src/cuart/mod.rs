//! CuART on devices, against a sorted map: look-ups, updates, inserts and removals, batches of keys.

mod device_keys;
mod hybrid;
mod ranges;
mod strings;
mod subject;

use super::answer::Answer;
use super::cases::Mode;
use super::compare::{Difference, Sabotage};
use super::cuart_build::near;
use super::data;
use device_keys::Form;
use lanetree::cuart::{ChangeScratch, RootTable, UpdateEngine};
use lanetree::{Device, DeviceKind, Result, Word};
use rand::{Rng, RngExt};
use strings::Strings;
use subject::{Model, Subject};

/// What a tree goes through.
#[derive(Clone, Copy, Debug)]
enum Work {
    Get,
    Update(UpdateEngine),
    /// Inserts and removals; new values by an engine.
    Change(UpdateEngine),
    /// Look-ups of keys that come to the device in some way.
    Keys(Form),
    /// Everything, of a tree with its long keys on the CPU: keys of more than this number of bytes.
    Hybrid(usize),
}

/// A case: one tree, and what is done to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    work: Work,
    strings: Strings,
    pub(crate) value: &'static str,
    table: RootTable,
    len: usize,
}

impl Spec {
    pub(crate) fn name(&self) -> String {
        let (work, keys, value, len) = (self.operation(), self.keys(), self.value, self.len);
        let work = match self.work {
            Work::Update(engine) => format!("update/{}", format!("{engine:?}").to_lowercase()),
            Work::Change(engine) => format!("change/{}", format!("{engine:?}").to_lowercase()),
            Work::Hybrid(max) => format!("hybrid/max{max}"),
            Work::Get | Work::Keys(_) => work.to_owned(),
        };
        let table = match self.table {
            RootTable::Auto => "auto",
            RootTable::None => "0",
            RootTable::TwoBytes => "2",
            RootTable::ThreeBytes => "3",
        };
        format!("{work}/{keys}-{value}/table-{table}/n{len}")
    }

    pub(crate) fn keys(&self) -> &'static str {
        match self.work {
            Work::Keys(form) => form.name(),
            _ => self.strings.name(),
        }
    }

    pub(crate) fn operation(&self) -> &'static str {
        match self.work {
            Work::Get => "get",
            Work::Update(_) => "update",
            Work::Change(_) => "insert, remove",
            Work::Keys(_) => "keys",
            Work::Hybrid(_) => "hybrid",
        }
    }
}

const STRINGS: [Strings; 7] = [
    Strings::Width(8),
    Strings::Short,
    Strings::Width(16),
    Strings::Long,
    Strings::Width(4),
    Strings::InMainMemory,
    Strings::Width(32),
];

const ENGINES: [UpdateEngine; 5] =
    [UpdateEngine::Auto, UpdateEngine::HashTable, UpdateEngine::Stamps, UpdateEngine::Sequence, UpdateEngine::Sort];

/// The cases for a device. On the host, look-ups alone.
pub(crate) fn specs(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Spec> {
    use RootTable::{ThreeBytes, TwoBytes};
    let (gets, changes, crowd): (&[usize], &[usize], usize) = match (mode, kind) {
        (_, DeviceKind::Host) => (&[0, 1, 700], &[], 0),
        (_, DeviceKind::Emulated) => (&[0, 1, 700], &[0, 250], 10_500),
        (Mode::Quick, DeviceKind::Cuda) => (&[0, 1, 700, 1 << 16], &[0, 250, 20_000], 50_000),
        (Mode::Full, DeviceKind::Cuda) => (&[0, 1, 700, 1 << 16, 1 << 20], &[0, 250, 20_000, 1 << 18], 1 << 20),
    };
    // A table of three bytes takes an emulated device its time.
    let all = [TwoBytes, RootTable::None, ThreeBytes];
    let tables = if kind == DeviceKind::Cuda { &all[..] } else { &all[..2] };
    let mut specs = Vec::new();
    let mut turn = 0;
    let mut add = |work, strings, value, len| {
        specs.push(Spec { work, strings, value, table: tables[turn % tables.len()], len });
        turn += 1;
    };
    for strings in STRINGS {
        for value in ["u32", "u64"] {
            gets.iter().for_each(|&len| add(Work::Get, strings, value, len));
            // Nothing changes leaves that are not on the device.
            for &len in changes.iter().filter(|_| strings != Strings::InMainMemory) {
                for engine in ENGINES {
                    if engine == UpdateEngine::Sequence && (value == "u64" || strings.are_long()) {
                        continue;
                    }
                    add(Work::Update(engine), strings, value, len);
                    // On one engine or another, what comes before is the same.
                    if engine == UpdateEngine::Auto || len == 250 {
                        add(Work::Change(engine), strings, value, len);
                    }
                }
            }
        }
    }
    for form in Form::ALL {
        gets.iter().for_each(|&len| add(Work::Keys(form), Strings::Width(8), "u32", len));
    }
    for (max, value) in [(32, "u32"), (8, "u64"), (16, "u32"), (5, "u64")] {
        for &len in gets.iter().filter(|&&len| len <= 700 || len <= 1 << 16 && max == 32) {
            let work = Work::Hybrid(max);
            specs.push(Spec { work, strings: Strings::Long, value, table: tables[len % tables.len()], len });
        }
    }
    if kind != DeviceKind::Host {
        let (work, strings) = (Work::Change(UpdateEngine::Auto), Strings::Crowd);
        specs.push(Spec { work, strings, value: "u32", table: RootTable::None, len: crowd });
        specs.push(Spec { work, strings, value: "u64", table: ThreeBytes, len: crowd / 8 });
        let (work, strings) = (Work::Get, Strings::Short);
        specs.push(Spec { work, strings, value: "u32", table: ThreeBytes, len: 500 });
    }
    specs.retain(|spec| spec.len <= max_len);
    specs
}

/// Runs a case.
pub(crate) fn run<V: Word>(spec: &Spec, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let mut rng = data::rng(seed, &spec.name());
    if let Work::Keys(form) = spec.work {
        return device_keys::run::<V>(spec, form, &mut rng, device, sabotage);
    }
    if let Work::Hybrid(max) = spec.work {
        return hybrid::run::<V>(spec, max, &mut rng, device, sabotage);
    }
    let known: Vec<Vec<u8>> = (0..spec.len).map(|_| spec.strings.draw(&mut rng)).collect();
    // Trees that change begin with few of the keys.
    let first = if matches!(spec.work, Work::Change(_)) { known.len() / 10 } else { known.len() };
    let model: Model<V> = known[..first].iter().map(|key| (key.clone(), V::truncate(rng.next_u64()))).collect();
    let mut subject = Subject::new((spec.strings, spec.table), model, device, sabotage)?;
    let mut queries: Vec<Vec<u8>> = known.iter().flat_map(|key| [key.clone(), near(key, &mut rng)]).collect();
    queries.extend([vec![], vec![0], vec![255; 40], vec![0; 33], spec.strings.draw(&mut rng)]);
    let difference = match spec.work {
        Work::Get | Work::Keys(_) | Work::Hybrid(_) => gets(spec, &mut subject, &queries)?,
        Work::Update(engine) => updates(engine, &mut subject, &known, &queries, &mut rng)?,
        Work::Change(engine) => changes(spec, engine, &mut subject, &known, &queries, &mut rng)?,
    };
    Ok(subject.answer(difference))
}

fn gets<V: Word>(spec: &Spec, subject: &mut Subject<V>, queries: &[Vec<u8>]) -> Result<Option<Difference>> {
    let mut difference = subject.get_many(queries)?;
    if spec.strings != Strings::InMainMemory {
        // Larger batches would say no more.
        difference = difference.or(subject.ranges(&queries[..queries.len().min(2_000)])?);
    }
    // Three times, each in another packing; and strings of one width alone, which need no offsets.
    let width = queries.first().map_or(0, Vec::len);
    let of_one_width: Vec<Vec<u8>> = queries.iter().filter(|query| query.len() == width).cloned().collect();
    for batch in [queries, &of_one_width, queries, &of_one_width, &[]] {
        difference = difference.or(match spec.strings {
            Strings::InMainMemory => subject.get_pending(batch)?,
            _ => subject.get(batch)?,
        });
        if spec.strings != Strings::InMainMemory && subject.device.kind() != DeviceKind::Host {
            difference = difference.or(subject.locate(batch)?);
        }
    }
    Ok(difference)
}

/// Batches of updates: several of most keys, many of few keys, all of one key, none at all.
fn updates<V: Word>(
    engine: UpdateEngine,
    subject: &mut Subject<V>,
    known: &[Vec<u8>],
    queries: &[Vec<u8>],
    rng: &mut data::Random,
) -> Result<Option<Difference>> {
    let most = 2 * known.len() + 33;
    let mut scratch = ChangeScratch::for_updates(&subject.device, most, engine)?.order_from(most / 2)?;
    for turn in 0..9 {
        let different = match turn % 4 {
            0 => known.len(),
            1 => known.len().div_ceil(50),
            2 => 1.min(known.len()),
            _ => known.len().div_ceil(3),
        };
        let count = if turn == 4 { 0 } else { most - turn };
        // Without misses where batches are ordered, so that all strings may be of one width.
        let with_found = !(3..7).contains(&turn);
        let batch: Vec<Vec<u8>> = (0..count)
            .map(|i| match different {
                0 => &queries[i % queries.len()],
                _ if with_found && i % 9 == 4 => &queries[rng.random_range(0..queries.len())],
                _ => &known[rng.random_range(0..different)],
            })
            .cloned()
            .collect();
        // The numbers of operations end, and begin anew with the next batch.
        if turn == 1 || turn == 7 {
            subject.tree.skip_sequence(u32::MAX);
        }
        let values: Vec<V> = data::values(count, rng);
        let difference = subject.update(&batch, &values, &mut scratch, with_found)?;
        let difference = difference.or(subject.get(queries)?);
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}

/// Inserts and removals in alternation, and updates among removals.
fn changes<V: Word>(
    spec: &Spec,
    engine: UpdateEngine,
    subject: &mut Subject<V>,
    known: &[Vec<u8>],
    queries: &[Vec<u8>],
    rng: &mut data::Random,
) -> Result<Option<Difference>> {
    let device = subject.device.clone();
    // There is an engine that does not take longer ones.
    let short = |key: &&Vec<u8>| key.len() <= 32 || engine != UpdateEngine::Sequence;
    let all = queries;
    let queries: Vec<Vec<u8>> = all.iter().filter(short).cloned().collect();
    let most = (2 * known.len()).max(queries.len());
    let mut scratch = ChangeScratch::for_inserts(&device, most, engine)?;
    // New values that come in between, by another engine, change nothing for the next ones.
    let mut other = ChangeScratch::for_updates(&device, most, UpdateEngine::Stamps)?;
    let mut one_table = ChangeScratch::for_updates(&device, most, UpdateEngine::HashTable)?.one_table(most)?;
    for turn in 0..10 {
        let any = |count: usize, rng: &mut data::Random| -> Vec<Vec<u8>> {
            (0..count).map(|_| queries[rng.random_range(0..queries.len())].clone()).collect()
        };
        let batch = match turn {
            // Nodes grow, and strings of one width stay so.
            0 | 7 => known.to_vec(),
            1 => any(known.len(), rng),
            2 => any(most, rng),
            // All, and many of them more than once.
            3 => [&queries[..], known].concat().into_iter().take(most).collect(),
            4 => queries.to_vec(),
            // One key again and again; it may not be there any more.
            5 => vec![queries[rng.random_range(0..queries.len())].clone(); most / 3 + 1],
            6 | 8 => any(most / 2, rng),
            _ => (0..known.len() / 3).map(|_| spec.strings.draw(rng)).collect(),
        };
        let mut values: Vec<V> = data::values(batch.len(), rng);
        let difference = match turn {
            8 => {
                values.iter_mut().step_by(3).for_each(|value| *value = V::MAX);
                subject.update_or_remove(&batch, &values, &mut one_table)?
            }
            1 | 3 | 5 => subject.remove(&batch)?,
            6 => subject.update(&batch, &values, &mut other, true)?,
            _ => subject.insert(&batch, &values, &mut scratch)?,
        };
        let difference = difference.or(subject.get(all)?);
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}
