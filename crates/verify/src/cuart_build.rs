//! CuART trees that a device builds, from keys or again from leaves, against the host's: what is found in them, by
//! the host, is the same.

use super::answer::Answer;
use super::cases::Mode;
use super::compare::{Difference, Sabotage, items_differ};
use super::data;
use lanetree::cuart::{ChangeScratch, Regions, RootTable, UpdateEngine};
use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKeys, DeviceKind, Result, Stream, Word};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// What keys are, and how the tree comes about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Strings of this number of bytes, in ascending order.
    Strings(usize),
    U32,
    I32,
    U64,
    I64,
    /// Strings of this number of bytes in any order, some of them several times.
    Shuffled(usize),
    /// Strings of this number of bytes, 0 for any lengths, in a tree that is changed, and then compacted.
    Changed(usize),
}

impl Form {
    const ALL: [Self; 15] = [
        Self::Strings(8),
        Self::Strings(16),
        Self::Strings(32),
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::Strings(5),
        Self::Strings(27),
        Self::Shuffled(5),
        Self::Shuffled(8),
        Self::Changed(0),
        Self::Changed(5),
        Self::Changed(16),
        Self::Changed(27),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Strings(5) => "bytes5",
            Self::Strings(8) => "bytes8",
            Self::Strings(16) => "bytes16",
            Self::Strings(27) => "bytes27",
            Self::Strings(_) => "bytes32",
            Self::Shuffled(5) => "bytes5-shuffled",
            Self::Shuffled(_) => "bytes8-shuffled",
            Self::Changed(0) => "bytes-changed",
            Self::Changed(5) => "bytes5-changed",
            Self::Changed(16) => "bytes16-changed",
            Self::Changed(_) => "bytes27-changed",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
        }
    }

    /// None of strings of any lengths.
    fn width(self) -> Option<usize> {
        match self {
            Self::Changed(0) => None,
            Self::Strings(width) | Self::Shuffled(width) | Self::Changed(width) => Some(width),
            Self::U32 | Self::I32 => Some(4),
            Self::U64 | Self::I64 => Some(8),
        }
    }
}

/// A tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    form: Form,
    pub(crate) value: &'static str,
    table: RootTable,
    len: usize,
}

impl Spec {
    pub(crate) fn name(&self) -> String {
        let Self { value, len, .. } = self;
        let table = match self.table {
            RootTable::Auto => "auto",
            RootTable::None => "0",
            RootTable::TwoBytes => "2",
            RootTable::ThreeBytes => "3",
        };
        format!("build/{}-{value}/table-{table}/n{len}", self.keys())
    }

    pub(crate) fn keys(&self) -> &'static str {
        self.form.name()
    }
}

/// The trees of a run. The host has no kernels to verify.
pub(crate) fn specs(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Spec> {
    let (lens, tables): (&[usize], &[RootTable]) = match (mode, kind) {
        (_, DeviceKind::Host) => return Vec::new(),
        (_, DeviceKind::Emulated) => (&[0, 1, 2, 40, 3000], &[RootTable::TwoBytes, RootTable::None]),
        (Mode::Quick, _) => {
            (&[0, 1, 2, 40, 3000, 70_000], &[RootTable::TwoBytes, RootTable::Auto, RootTable::ThreeBytes])
        }
        (Mode::Full, _) => (
            &[0, 1, 2, 40, 3000, 70_000, 1 << 20, 1 << 22],
            &[RootTable::TwoBytes, RootTable::Auto, RootTable::ThreeBytes, RootTable::None],
        ),
    };
    let mut specs = Vec::new();
    for &len in lens.iter().filter(|&&len| len <= max_len) {
        for (turn, form) in Form::ALL.into_iter().enumerate() {
            for value in ["u32", "u64"] {
                let table = tables[(turn + len) % tables.len()];
                specs.push(Spec { form, value, table, len });
            }
        }
    }
    specs
}

/// The keys of a tree on the device, in their order.
fn on_device(form: Form, stream: &Stream, keys: &[Vec<u8>]) -> Result<DeviceKeys> {
    let device = stream.device();
    /// The keys as integers.
    macro_rules! integers {
        ($key:ty, $flip:expr) => {{
            let read = |key: &Vec<u8>| <$key>::from_be_bytes(key[..].try_into().expect("its width")) ^ $flip;
            DeviceKeys::encode(stream, &device.upload(&keys.iter().map(read).collect::<Vec<$key>>())?)
        }};
    }
    match form {
        Form::Strings(width) | Form::Shuffled(width) => {
            let mut words = vec![0_u64; (keys.len() * width).div_ceil(8)];
            for (to, from) in bytemuck::cast_slice_mut(&mut words).chunks_exact_mut(width).zip(keys) {
                to.copy_from_slice(from);
            }
            DeviceKeys::fixed(device.upload(&words)?, width, keys.len())
        }
        Form::Changed(_) => DeviceKeys::upload(device, &keys.iter().collect::<ByteKeysBuf>()),
        Form::U32 => integers!(u32, 0),
        Form::I32 => integers!(i32, i32::MIN),
        Form::U64 => integers!(u64, 0),
        Form::I64 => integers!(i64, i64::MIN),
    }
}

/// A tree that has come to these pairs by changes: half of the keys come later, others go.
fn changed<V: Word>(
    spec: &Spec,
    stream: &Stream,
    keys: &[Vec<u8>],
    values: &[V],
    rng: &mut data::Random,
) -> Result<Cuart<V>> {
    let device = stream.device();
    let mut others: BTreeSet<Vec<u8>> = keys.iter().step_by(3).map(|key| near(key, rng)).collect();
    others.insert(vec![1, 2, 3]);
    others.retain(|key| keys.binary_search(key).is_err());
    let before: ByteKeysBuf = keys.iter().step_by(2).chain(&others).collect();
    let builder = Cuart::builder().root_table(spec.table);
    let mut tree = builder.build(device, &before, &vec![V::MAX; before.len()])?;
    let mut scratch = ChangeScratch::for_inserts(device, keys.len().max(1), UpdateEngine::Auto)?;
    let now = on_device(spec.form, stream, keys)?;
    tree.insert_on(stream, &now, &device.upload(values)?, &mut scratch)?;
    tree.remove_on(stream, &DeviceKeys::upload(device, &others.iter().collect::<ByteKeysBuf>())?)?;
    Ok(tree)
}

/// Builds a tree on the device, and looks up its keys and others, on the host.
pub(crate) fn run<V: Word>(spec: &Spec, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Answer> {
    let mut rng = data::rng(seed, &spec.name());
    let mut keys = keys(spec, &mut rng);
    if let Form::Shuffled(_) = spec.form {
        keys.extend_from_within(..keys.len() / 3);
        keys.shuffle(&mut rng);
    }
    let values: Vec<V> = data::values(keys.len(), &mut rng);
    let expected: BTreeMap<Vec<u8>, V> = keys.iter().cloned().zip(values.iter().copied()).collect();
    let packed: ByteKeysBuf = keys.iter().collect();
    let host = Cuart::builder().root_table(spec.table).build(&Device::host(), &packed, &values)?;
    let stream = device.stream()?;
    let (tree, time) = if let Form::Changed(_) = spec.form {
        let mut tree = changed(spec, &stream, &keys, &values, &mut rng)?;
        let start = Instant::now();
        tree.compact()?;
        (tree, start.elapsed())
    } else {
        let (their_keys, their_values) = (on_device(spec.form, &stream, &keys)?, device.upload(&values)?);
        let start = Instant::now();
        let tree = Cuart::builder().root_table(spec.table).build_on(&stream, &their_keys, &their_values)?;
        (tree, start.elapsed())
    };
    let tree = tree.to_device(&Device::host())?;
    let fetched = tree.regions().expect("a tree of the host's");
    let mut found: Vec<Option<V>> = Vec::new();
    let others: Vec<Vec<u8>> = keys.iter().step_by((keys.len() / 5000).max(1)).map(|key| near(key, &mut rng)).collect();
    keys.extend(others);
    keys.extend([Vec::new(), vec![0; 8]]);
    for key in &keys {
        found.push(get(&fetched, key).map(V::truncate));
    }
    if let Some(value) = found.first_mut().filter(|_| sabotage.is_some()) {
        *value = value.map_or(Some(V::MIN), |value| Some(value.xor(V::truncate(1))));
    }
    let query = |i: usize| format!("{:?}", keys[i]);
    let mut difference = items_differ("values", &found, keys.len(), &|i| expected.get(&keys[i]).copied(), &query);
    let (own, other) = (host.regions().expect("a tree of the host's"), fetched);
    let shape = |tree: &Regions<'_>| {
        let entries = tree.table.iter().filter(|entry| !entry.is_none()).count();
        let nodes = [tree.n4.len(), tree.n16.len(), tree.n48.len(), tree.n256.len(), tree.table.len(), entries];
        let leaves = [tree.leaf8.len(), tree.leaf16.len(), tree.leaf32.len(), tree.device_leaves.len()];
        (nodes, leaves, tree.ranks8 == own.ranks8, tree.order == own.order)
    };
    if difference.is_none() && shape(&own) != shape(&other) {
        let (expected, actual) = (format!("{:?}", shape(&own)), format!("{:?}", shape(&other)));
        difference = Some(Difference {
            what: "nodes, leaves, table and order",
            index: 0,
            query: "all".into(),
            expected,
            actual,
        });
    }
    Ok(Answer { queries: keys.len(), time, difference })
}

/// A look-up as the layout's documentation has it.
fn get(tree: &Regions<'_>, key: &[u8]) -> Option<u64> {
    let (mut link, mut from) = tree.start(key);
    while link.kind().is_node() {
        let depth = tree.depth(link, from);
        if depth >= key.len() {
            link = tree.header(link).filter(|_| depth == key.len())?.here;
            break;
        }
        (link, from) = (tree.child(link, key[depth]), depth + 1);
    }
    tree.leaf(link).filter(|leaf| leaf.key == key).map(|leaf| leaf.value)
}

/// Distinct keys in ascending order, under which nodes have few children and many.
fn keys(spec: &Spec, rng: &mut data::Random) -> Vec<Vec<u8>> {
    let mut keys = BTreeSet::new();
    for _ in 0..4 * spec.len {
        if keys.len() == spec.len {
            break;
        }
        let len = spec.form.width().unwrap_or_else(|| match rng.random_range(0..40) {
            0 => rng.random_range(33..5000),
            1..4 => rng.random_range(17..60),
            _ => rng.random_range(0..17),
        });
        keys.insert((0..len).map(|_| byte(rng)).collect());
    }
    keys.into_iter().collect()
}

/// A byte: as likely any, one of 30, of 8 or of 2.
fn byte(rng: &mut data::Random) -> u8 {
    let below = [256, 30, 8, 2][rng.random_range(0..4)];
    (rng.next_u32() % below) as u8
}

/// A key like another, but for a byte or its end.
pub(crate) fn near(key: &[u8], rng: &mut data::Random) -> Vec<u8> {
    let mut key = key.to_vec();
    match rng.random_range(0..4) {
        0 => key.push(byte(rng)),
        1 => key.truncate(key.len().saturating_sub(1)),
        _ if key.is_empty() => {}
        _ => {
            let at = rng.random_range(0..key.len());
            key[at] = byte(rng);
        }
    }
    key
}
