//! CuART trees that a device builds, against the host's: what is found in them, by the host, is the same.

use super::cases::Mode;
use super::compare::{Difference, Sabotage, items_differ};
use super::data;
use super::harmonia::Answer;
use lanetree::cuart::{DeviceTree, FixedKeys, Regions, RootTable};
use lanetree::{ByteKeysBuf, Cuart, Device, DeviceKind, Error, Result, Word};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// What keys are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Strings of so many bytes.
    Strings(usize),
    U32,
    I32,
    U64,
    I64,
    U128,
    /// Strings of any length, above leaves that the host has made.
    Any,
}

impl Form {
    const ALL: [Self; 11] = [
        Self::Strings(8),
        Self::Strings(16),
        Self::Strings(32),
        Self::Any,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::U128,
        Self::Strings(5),
        Self::Strings(27),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Any => "bytes",
            Self::Strings(5) => "bytes5",
            Self::Strings(8) => "bytes8",
            Self::Strings(16) => "bytes16",
            Self::Strings(27) => "bytes27",
            Self::Strings(_) => "bytes32",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::U128 => "u128",
        }
    }

    fn width(self) -> Option<usize> {
        match self {
            Self::Any => None,
            Self::Strings(width) => Some(width),
            Self::U32 | Self::I32 => Some(4),
            Self::U64 | Self::I64 => Some(8),
            Self::U128 => Some(16),
        }
    }
}

/// A tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    form: Form,
    pub(super) value: &'static str,
    table: RootTable,
    len: usize,
}

impl Spec {
    pub(super) fn name(&self) -> String {
        let Self { value, len, .. } = self;
        let table = match self.table {
            RootTable::Auto => "auto",
            RootTable::None => "0",
            RootTable::TwoBytes => "2",
            RootTable::ThreeBytes => "3",
        };
        format!("build/{}-{value}/table-{table}/n{len}", self.keys())
    }

    pub(super) fn keys(&self) -> &'static str {
        self.form.name()
    }
}

/// The trees of a run. The host has no kernels to verify.
pub(super) fn specs(mode: Mode, kind: DeviceKind, max_len: usize) -> Vec<Spec> {
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

/// What a case came to, and the kernels that it is sure to have run.
pub(super) struct Outcome {
    pub(super) answer: Answer,
    pub(super) kernels: Vec<String>,
}

/// Builds a tree on the device, and looks up its keys and others, on the host.
pub(super) fn run<V: Word>(spec: &Spec, device: &Device, seed: u64, sabotage: Option<Sabotage>) -> Result<Outcome> {
    let mut rng = data::rng(seed, &spec.name());
    let mut keys = keys(spec, &mut rng);
    let values: Vec<V> = data::values(keys.len(), &mut rng);
    let expected: BTreeMap<Vec<u8>, V> = keys.iter().cloned().zip(values.iter().copied()).collect();
    let packed: ByteKeysBuf = keys.iter().collect();
    let host = Cuart::builder().root_table(spec.table).build(&Device::host(), &packed, &values)?;
    let stream = device.stream()?;
    let on_device = device.upload(&values)?;
    let build = |keys: &FixedKeys<'_>| {
        let start = Instant::now();
        let tree = DeviceTree::build(&stream, keys, &on_device, values.len(), spec.table)?;
        Ok::<_, Error>((tree, start.elapsed()))
    };
    /// The keys as integers on the device.
    macro_rules! integers {
        ($key:ty, $flip:expr) => {{
            let read = |key: &Vec<u8>| <$key>::from_be_bytes(key[..].try_into().expect("its width")) ^ $flip;
            device.upload(&keys.iter().map(read).collect::<Vec<$key>>())?
        }};
    }
    let (tree, time) = match spec.form {
        Form::Any => {
            let start = Instant::now();
            (DeviceTree::above(&stream, &host, spec.table)?, start.elapsed())
        }
        Form::Strings(width) => {
            let mut words = vec![0_u64; (keys.len() * width).div_ceil(8)];
            for (to, from) in bytemuck::cast_slice_mut(&mut words).chunks_exact_mut(width).zip(&keys) {
                to.copy_from_slice(from);
            }
            build(&FixedKeys::strings(&device.upload(&words)?, width))?
        }
        Form::U32 => build(&FixedKeys::integers(&integers!(u32, 0)))?,
        Form::I32 => build(&FixedKeys::integers(&integers!(i32, i32::MIN)))?,
        Form::U64 => build(&FixedKeys::integers(&integers!(u64, 0)))?,
        Form::I64 => build(&FixedKeys::integers(&integers!(i64, i64::MIN)))?,
        Form::U128 => build(&FixedKeys::wide(&integers!(u128, 0)))?,
    };
    let fetched = tree.fetch()?;
    let mut found: Vec<Option<V>> = Vec::new();
    let others: Vec<Vec<u8>> =
        keys.iter().step_by((keys.len() / 5000).max(1)).map(|key| beside(key, &mut rng)).collect();
    keys.extend(others);
    keys.extend([Vec::new(), vec![0; 8]]);
    for key in &keys {
        found.push(get(&fetched.regions(), key).map(V::truncate));
    }
    if let Some(value) = found.first_mut().filter(|_| sabotage.is_some()) {
        *value = value.map_or(Some(V::MIN), |value| Some(value.xor(V::truncate(1))));
    }
    let query = |i: usize| format!("{:?}", keys[i]);
    let mut difference = items_differ("values", &found, keys.len(), &|i| expected.get(&keys[i]).copied(), &query);
    let (own, other) = (host.regions().expect("a tree of the host's"), fetched.regions());
    let shape = |tree: &Regions<'_>| {
        let entries = tree.table.iter().filter(|entry| !entry.is_none()).count();
        [tree.n4.len(), tree.n16.len(), tree.n48.len(), tree.n256.len(), tree.table.len(), entries]
    };
    if difference.is_none() && shape(&own) != shape(&other) {
        let (expected, actual) = (format!("{:?}", shape(&own)), format!("{:?}", shape(&other)));
        difference = Some(Difference { what: "nodes and table", index: 0, query: "all".into(), expected, actual });
    }
    let answer = Answer { queries: keys.len(), time, difference };
    Ok(Outcome { answer, kernels: kernels(spec, &own) })
}

/// The kernels that build such a tree.
fn kernels(spec: &Spec, tree: &Regions<'_>) -> Vec<String> {
    let mut kernels = Vec::new();
    if let (Some(width), 1..) = (spec.form.width(), tree.len) {
        let words = (width.div_ceil(8) as u32).next_power_of_two();
        kernels.push(format!("leaves_w{words}_{}", spec.value));
    }
    if tree.len > 1 {
        let all = ["boundaries", "intervals", "count_nodes", "number_nodes", "count_kinds", "place_nodes"];
        kernels.extend(all.map(String::from));
    }
    // Two levels of minima above the boundaries.
    if tree.len > 1 + 32 * 32 {
        kernels.push("level".into());
    }
    if tree.len > 0 && tree.table_bytes > 0 {
        kernels.push("table".into());
    }
    for (kind, nodes) in [(4, tree.n4.len()), (16, tree.n16.len()), (48, tree.n48.len()), (256, tree.n256.len())] {
        if nodes > 0 {
            kernels.push(format!("fill_n{kind}"));
        }
    }
    kernels.into_iter().map(|kernel| format!("cuart_build__{kernel}")).collect()
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
fn keys(spec: &Spec, rng: &mut StdRng) -> Vec<Vec<u8>> {
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
fn byte(rng: &mut StdRng) -> u8 {
    let below = [256, 30, 8, 2][rng.random_range(0..4)];
    (rng.next_u32() % below) as u8
}

/// A key like another, but for a byte or its end.
pub(super) fn beside(key: &[u8], rng: &mut StdRng) -> Vec<u8> {
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
