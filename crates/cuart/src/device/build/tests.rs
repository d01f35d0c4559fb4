//! What a device builds against what the host does: the same nodes but for their numbers.

use super::above;
use crate::Cuart;
use crate::RootTable;
use lanetree_frame::{Buffer, ByteKeysBuf, Device, DeviceKeys, DeviceNumber, Result, Stream, Word};
use lanetree_kernels_cuart::layout::{Link, LinkType, Regions};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, HashMap};

fn devices() -> [Device; 2] {
    [Device::emulated(), Device::emulated_with_seed(1)]
}

fn rng(seed: usize) -> StdRng {
    StdRng::seed_from_u64(seed as u64)
}

/// A tree of the host's, whose values are the ranks.
fn on_host(keys: &BTreeSet<Vec<u8>>, table: RootTable) -> Cuart<u64> {
    let keys: ByteKeysBuf = keys.iter().collect();
    let values: Vec<u64> = (0..keys.len() as u64).map(|rank| rank + 7).collect();
    Cuart::builder().root_table(table).build(&Device::host(), &keys, &values).unwrap()
}

/// A walk through both trees at once.
struct Comparison<'a> {
    host: Regions<'a>,
    device: Regions<'a>,
    /// The links to nodes on the device, without spans, by the host's.
    nodes: HashMap<u64, u64>,
}

fn without_span(link: Link) -> u64 {
    Link::new(link.kind(), 0, link.index()).bits()
}

impl Comparison<'_> {
    /// Whether two links lead to the same, once both trees have been walked.
    fn same(&self, host: Link, device: Link) {
        assert_eq!((host.kind(), host.span()), (device.kind(), device.span()));
        if host.kind().is_node() {
            assert_eq!(self.nodes[&without_span(host)], without_span(device));
        } else {
            assert_eq!(host, device);
        }
    }

    fn walk(&mut self) {
        let mut stack = vec![(self.host.root, self.device.root)];
        while let Some((host, device)) = stack.pop() {
            assert_eq!((host.kind(), host.span()), (device.kind(), device.span()));
            if !host.kind().is_node() {
                assert_eq!(host, device, "leaves have the same numbers");
                continue;
            }
            assert_eq!(self.host.header(host), self.device.header(device));
            let (i, j) = (host.index() as usize, device.index() as usize);
            let (links, others): (&[Link], &[Link]) = match host.kind() {
                LinkType::N4 => (&self.host.n4[i].links, &self.device.n4[j].links),
                LinkType::N16 => {
                    let (node, other) = (&self.host.n16[i], &self.device.n16[j]);
                    assert_eq!((node.keys, node.reserved), (other.keys, other.reserved));
                    (&node.links, &other.links)
                }
                LinkType::N48 => {
                    assert_eq!(self.host.n48[i].slots, self.device.n48[j].slots);
                    (&self.host.n48[i].links, &self.device.n48[j].links)
                }
                _ => (&self.host.n256[i].links, &self.device.n256[j].links),
            };
            stack.extend(links.iter().copied().zip(others.iter().copied()));
            assert_eq!(self.nodes.insert(without_span(host), without_span(device)), None);
        }
        assert_eq!(self.nodes.values().collect::<BTreeSet<_>>().len(), self.nodes.len(), "no node is linked twice");
        let counts = |tree: &Regions<'_>| [tree.n4.len(), tree.n16.len(), tree.n48.len(), tree.n256.len()];
        assert_eq!(counts(&self.host), counts(&self.device));
        assert_eq!(self.host.table_bytes, self.device.table_bytes);
        assert_eq!(self.host.table.len(), self.device.table.len());
        for (&host, &device) in self.host.table.iter().zip(self.device.table) {
            self.same(host, device);
        }
    }
}

/// Both trees have the same nodes, but for their numbers, above the same leaves.
pub(in crate::device) fn compare(host: Regions<'_>, device: Regions<'_>) {
    Comparison { host, device, nodes: HashMap::new() }.walk();
}

/// Builds the nodes above the host's leaves, copied to a device.
fn check_nodes(device: &Device, keys: &BTreeSet<Vec<u8>>, table: RootTable) {
    let tree = on_host(keys, table);
    let copy = tree.parts().unwrap().to_device(device).unwrap();
    // SAFETY: the leaves of a tree, all on the device.
    let built = unsafe { above(&tree.options, &device.stream().unwrap(), copy.leaves, copy.first, copy.len) };
    let built = built.unwrap();
    compare(tree.regions().unwrap(), built.regions().unwrap());
}

/// Builds all of a tree from sorted keys of one width, which stand for these strings.
fn check_fixed(device: &Device, keys: &BTreeSet<Vec<u8>>, table: RootTable, fixed: &DeviceKeys) {
    let tree = on_host(keys, table);
    let values: Vec<u64> = (0..keys.len() as u64).map(|rank| rank + 7).collect();
    let values = device.upload(&values).unwrap();
    let built = Cuart::builder().root_table(table).build_on(&device.stream().unwrap(), fixed, &values).unwrap();
    let (host, own) = (tree.regions().unwrap(), built.regions().unwrap());
    assert_eq!((own.first, own.len), (host.first, host.len));
    assert_eq!(own.leaf8, host.leaf8);
    assert_eq!(own.leaf16, host.leaf16);
    assert_eq!(own.leaf32, host.leaf32);
    compare(host, own);
    assert_eq!(built.stats(), tree.stats());
}

fn words(device: &Device, bytes: &[u8]) -> Buffer<u64> {
    let mut words = vec![0_u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    device.upload(&words).unwrap()
}

/// Strings of one width.
fn strings<'a>(device: &Device, keys: impl IntoIterator<Item = &'a Vec<u8>>, width: usize) -> DeviceKeys {
    let bytes: Vec<u8> = keys.into_iter().flatten().copied().collect();
    DeviceKeys::fixed(words(device, &bytes), width, bytes.len().checked_div(width).unwrap_or(0)).unwrap()
}

fn check_strings(device: &Device, keys: &BTreeSet<Vec<u8>>, width: usize, table: RootTable) {
    check_fixed(device, keys, table, &strings(device, keys, width));
}

/// Keys of one width, whose bytes are below `bytes` but for one in 8.
fn random(len: usize, width: usize, bytes: u32, rng: &mut StdRng) -> BTreeSet<Vec<u8>> {
    let byte = |rng: &mut StdRng| {
        if rng.next_u32().is_multiple_of(8) { rng.next_u32() as u8 } else { (rng.next_u32() % bytes) as u8 }
    };
    let mut keys = BTreeSet::new();
    for _ in 0..4 * len {
        if keys.len() < len {
            keys.insert((0..width).map(|_| byte(rng)).collect());
        }
    }
    keys
}

#[test]
fn trees_over_keys_of_one_width() {
    for (seed, device) in devices().iter().enumerate() {
        for width in [1, 3, 4, 8, 12, 16, 20, 32] {
            for len in [0, 1, 2, 3, 17, 49, 300] {
                let mut rng = rng(1000 * width + len + seed);
                for bytes in [256, 2] {
                    check_strings(device, &random(len, width, bytes, &mut rng), width, RootTable::Auto);
                }
            }
        }
    }
}

#[test]
fn larger_trees_over_keys_of_one_width() {
    let device = Device::emulated();
    for (width, bytes) in [(4, 256), (8, 256), (8, 3), (16, 2), (32, 60)] {
        let keys = random(5000, width, bytes, &mut rng(width + bytes as usize));
        check_strings(&device, &keys, width, RootTable::TwoBytes);
    }
}

#[test]
fn a_table_is_chosen_as_the_host_does() {
    let device = Device::emulated();
    for len in [1 << 13, (1 << 13) - 1] {
        let keys = (0..len).map(|i: u32| [(i >> 5) as u8, (i << 3) as u8, 1, 2].to_vec()).collect();
        check_strings(&device, &keys, 4, RootTable::Auto);
    }
}

#[test]
fn tables_of_every_size() {
    for device in devices() {
        for table in [RootTable::None, RootTable::TwoBytes, RootTable::ThreeBytes] {
            // Each takes 2^24 entries of the largest table.
            let (lens, bytes) = match table {
                RootTable::ThreeBytes => (&[0, 40][..], &[256][..]),
                _ => (&[0, 1, 2, 40][..], &[1, 2, 256][..]),
            };
            for &len in lens {
                for &bytes in bytes {
                    check_strings(&device, &random(len, 5, bytes, &mut rng(len)), 5, table);
                }
                check_nodes(&device, &variable(len, 4, &mut rng(len)), table);
            }
        }
    }
}

/// Nodes with every number of children, and all 256, at several depths.
#[test]
fn nodes_of_every_size() {
    let device = Device::emulated();
    let mut keys = BTreeSet::new();
    for children in 1..=256_u32 {
        for child in 0..children {
            keys.insert(
                [
                    vec![0; children as usize % 5],
                    vec![1 + (children % 5) as u8, (children / 5) as u8],
                    vec![7; children as usize % 16],
                    vec![(child * 255 / (children - 1).max(1)) as u8],
                ]
                .concat(),
            );
        }
    }
    check_nodes(&device, &keys, RootTable::TwoBytes);
    let mut full = BTreeSet::new();
    for depth in 0..8 {
        for byte in 0..=255 {
            let mut key = vec![9; 8];
            key[depth] = byte;
            full.insert(key);
        }
    }
    check_strings(&device, &full, 8, RootTable::ThreeBytes);
}

/// Strings that begin alike and with each other, of lengths up to some `longest` times 4.
fn variable(len: usize, longest: usize, rng: &mut StdRng) -> BTreeSet<Vec<u8>> {
    let parts =
        [&b""[..], b"\0", b"\0\0\0", b"\xff", b"\xff\xff", b"ab", b"abcabc", b"b", b"0123456789abcdefghijklmnop"];
    (0..len)
        .map(|_| {
            let parts = (0..rng.random_range(0..=longest)).map(|_| parts[rng.random_range(0..parts.len())]);
            parts.collect::<Vec<_>>().concat()
        })
        .collect()
}

#[test]
fn trees_over_strings() {
    for (seed, device) in devices().iter().enumerate() {
        for len in [0, 1, 2, 3, 17, 49, 300, 3000] {
            for longest in [1, 3, 8] {
                check_nodes(device, &variable(len, longest, &mut rng(len + longest + seed)), RootTable::Auto);
            }
        }
    }
}

#[test]
fn keys_that_differ_behind_long_spans() {
    let device = Device::emulated();
    let mut keys = BTreeSet::new();
    for len in [0, 1, 254, 255, 256, 4093, 4094, 4095, 4096, 5000, 70_000] {
        for end in [&b""[..], b"\0", b"x", b"xy"] {
            keys.insert([vec![b'a'; len], end.to_vec()].concat());
        }
    }
    check_nodes(&device, &keys, RootTable::ThreeBytes);
    // All alike at first: the root's own span is long.
    let far = keys.iter().map(|key| [vec![b'q'; 6000], key.clone()].concat()).collect();
    check_nodes(&device, &far, RootTable::TwoBytes);
}

fn integers<K: DeviceNumber>(device: &Device) {
    let mut rng = rng(K::WIDTH);
    for len in [1, 2, 300] {
        let strings = random(len, K::WIDTH, 256, &mut rng);
        let own: Vec<K> = strings.iter().map(|string| K::read(string)).collect();
        let own = DeviceKeys::encode(&device.stream().unwrap(), &device.upload(&own).unwrap()).unwrap();
        check_fixed(device, &strings, RootTable::Auto, &own);
    }
}

#[test]
fn trees_over_integers() {
    for device in devices() {
        integers::<u32>(&device);
        integers::<i32>(&device);
        integers::<u64>(&device);
        integers::<i64>(&device);
        integers::<u128>(&device);
    }
}

/// Pairs in any order, of which of equal keys the last one stays.
fn check_any_order<V: Word>(device: &Device, width: usize, len: usize, rng: &mut StdRng) {
    let all: Vec<Vec<u8>> = random(len / 2 + 1, width, 256, rng).into_iter().collect();
    let keys: Vec<Vec<u8>> = (0..len).map(|_| all[rng.random_range(0..all.len())].clone()).collect();
    let values: Vec<V> = (0..len as u64).map(|i| V::truncate(i + 7)).collect();
    let last: BTreeMap<&Vec<u8>, V> = keys.iter().zip(values.iter().copied()).collect();
    let on_device =
        if width == 0 { DeviceKeys::fixed(words(device, b""), 0, len).unwrap() } else { strings(device, &keys, width) };
    let (stream, values) = (device.stream().unwrap(), device.upload(&values).unwrap());
    let built = Cuart::<V>::builder().root_table(RootTable::TwoBytes).build_on(&stream, &on_device, &values).unwrap();
    built.validate();
    assert_eq!(built.len(), last.len() as u64);
    let packed: ByteKeysBuf = keys.iter().collect();
    let expected: Vec<_> = keys.iter().map(|key| last.get(key).copied()).collect();
    assert_eq!(built.get_many(&packed).unwrap(), expected, "width {width}, {len} pairs");
    assert!(built.is_compact());
}

#[test]
fn narrow_keys_come_in_any_order() {
    for device in [Device::emulated(), Device::host()] {
        for width in 0..=8 {
            for len in [2, 3, 400] {
                let mut rng = rng(10 * width + len);
                check_any_order::<u32>(&device, width, len, &mut rng);
                check_any_order::<u64>(&device, width, len, &mut rng);
            }
        }
    }
}

#[test]
fn values_of_32_bits_use_the_low_half() {
    let device = Device::emulated();
    let values = device.upload(&[u32::MAX, 6]).unwrap();
    for (width, len) in [(4, 2), (3, 2), (0, 1)] {
        let keys = DeviceKeys::fixed(words(&device, b"abcdefgh"), width, len).unwrap();
        let tree = Cuart::builder().build_on(&device.stream().unwrap(), &keys, &values).unwrap();
        let found: Vec<u64> = tree.regions().unwrap().leaf8.iter().map(|leaf| leaf.value).collect();
        assert_eq!(found, [u64::from(u32::MAX), 6][..len]);
    }
}

#[test]
fn what_cannot_be_built_is_refused() {
    let device = Device::emulated();
    let stream: Stream = device.stream().unwrap();
    let values = device.upload(&[0_u64; 300]).unwrap();
    let refused = |keys: &DeviceKeys, values: &Buffer<u64>| {
        let built: Result<Cuart<u64>> = Cuart::builder().build_on(&stream, keys, values);
        built.expect_err("an error").to_string()
    };
    let check = |keys: &[u128]| {
        let packed: Vec<Vec<u8>> = keys.iter().map(|key| key.to_be_bytes().to_vec()).collect();
        refused(&strings(&device, &packed, 16), &values)
    };
    let mut keys: Vec<u128> = (0..300).map(|i| u128::from_be_bytes([b'a'; 16]) + i).collect();
    keys[200] = keys[199];
    assert!(check(&keys).starts_with("keys[200] = \"aaaaaaaaaaaaaab("), "{}", check(&keys));
    assert!(check(&keys).ends_with(": keep one pair per key"));
    keys[100] = u128::from_be_bytes([b'a'; 16]);
    let message = check(&keys);
    assert!(message.starts_with("keys[100] = \"aaaaaaaaaaaaaaaa\" is below keys[99] = "), "{message}");
    let wide = DeviceKeys::fixed(words(&device, &[0; 66]), 33, 2).unwrap();
    assert_eq!(
        refused(&wide, &values),
        "keys[0] has 33 bytes, but the index takes keys of at most 32: leave it out, or choose other `LongKeys`"
    );
    let two = strings(&device, &[vec![1], vec![2]], 1);
    let one = device.upload(&[1]).unwrap();
    assert_eq!(refused(&two, &one), "the values' buffer holds 1 element, but 2 are needed; allocate at least 2");
    let several: ByteKeysBuf = ["a", "bc"].into_iter().collect();
    let several = DeviceKeys::upload(&device, &several).unwrap();
    assert!(refused(&several, &values).starts_with("keys with offsets: "));
    assert!(refused(&two, &Device::emulated_with_seed(1).upload(&[1, 2]).unwrap()).contains("values"));
}
