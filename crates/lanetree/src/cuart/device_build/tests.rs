//! What a device builds against what the host does: the same nodes but for their numbers.

use super::{DeviceTree, FixedKeys, leaves, nodes};
use crate::cuart::RootTable;
use crate::{Buffer, ByteKeysBuf, Cuart, Device, Result, Stream};
use lanetree_layout::Key;
use lanetree_layout::cuart::{Kind, Link, Regions};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::collections::{BTreeSet, HashMap};

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
                Kind::N4 => (&self.host.n4[i].links, &self.device.n4[j].links),
                Kind::N16 => {
                    let (node, other) = (&self.host.n16[i], &self.device.n16[j]);
                    assert_eq!((node.keys, node.reserved), (other.keys, other.reserved));
                    (&node.links, &other.links)
                }
                Kind::N48 => {
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

fn compare(host: Regions<'_>, device: Regions<'_>) {
    Comparison { host, device, nodes: HashMap::new() }.walk();
}

/// Builds the nodes above the host's leaves, copied to a device.
fn check_nodes(device: &Device, keys: &BTreeSet<Vec<u8>>, table: RootTable) {
    let tree = on_host(keys, table);
    let fetched = DeviceTree::above(&device.stream().unwrap(), &tree, table).unwrap().fetch().unwrap();
    compare(tree.regions().unwrap(), fetched.regions());
}

/// Builds all of a tree from sorted keys of one width, which stand for these strings.
fn check_fixed(device: &Device, keys: &BTreeSet<Vec<u8>>, table: RootTable, fixed: &FixedKeys<'_>) {
    let tree = on_host(keys, table);
    let host = tree.regions().unwrap();
    let (stream, len) = (device.stream().unwrap(), keys.len());
    let values: Vec<u64> = (0..len as u64).map(|rank| rank + 7).collect();
    let values = device.upload(&values).unwrap();
    let built = leaves(&stream, fixed, &values, len).unwrap();
    let width = fixed.width();
    assert_eq!(built.first, if len > 0 { host.first } else { Link::new(Kind::of_key(width).unwrap(), width, 0) });
    assert_eq!(built.leaf8.as_slice().unwrap(), host.leaf8);
    assert_eq!(built.leaf16.as_slice().unwrap(), host.leaf16);
    assert_eq!(built.leaf32.as_slice().unwrap(), host.leaf32);
    let order = device.alloc(0).unwrap();
    // SAFETY: leaves of one kind, which follow the first one.
    let built = unsafe { nodes(&stream, &built.tree(len), &order, table) }.unwrap();
    let device = Regions {
        root: built.root,
        n4: built.n4.as_slice().unwrap(),
        n16: built.n16.as_slice().unwrap(),
        n48: built.n48.as_slice().unwrap(),
        n256: built.n256.as_slice().unwrap(),
        table: built.table.as_slice().unwrap(),
        table_bytes: built.table_bytes,
        ..host
    };
    compare(host, device);
}

fn words(device: &Device, bytes: &[u8]) -> Buffer<u64> {
    let mut words = vec![0_u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    device.upload(&words).unwrap()
}

fn check_strings(device: &Device, keys: &BTreeSet<Vec<u8>>, width: usize, table: RootTable) {
    let bytes = words(device, &keys.iter().flatten().copied().collect::<Vec<u8>>());
    check_fixed(device, keys, table, &FixedKeys::strings(&bytes, width));
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
            for len in [0, 1, 2, 40] {
                for bytes in [1, 2, 256] {
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

fn integers<K: Key + lanetree_layout::cuart::FixedKey>(device: &Device) {
    let mut rng = rng(K::WIDTH);
    for len in [1, 2, 300] {
        let keys: BTreeSet<K> = (0..len).map(|_| K::decode(lanetree_layout::Word::truncate(rng.next_u64()))).collect();
        let strings = keys.iter().map(|&key| {
            let mut string = vec![0; K::WIDTH];
            key.write(&mut string);
            string
        });
        let own: Vec<K> = keys.iter().copied().collect();
        let own = device.upload(&own).unwrap();
        check_fixed(device, &strings.collect(), RootTable::Auto, &FixedKeys::integers(&own));
    }
}

#[test]
fn trees_over_integers() {
    for device in devices() {
        integers::<u32>(&device);
        integers::<i32>(&device);
        integers::<u64>(&device);
        integers::<i64>(&device);
        let wide: BTreeSet<u128> = (0..300_u128).map(|i| (i << 100 | i << 3).wrapping_mul(12345)).collect();
        let own: Vec<u128> = wide.iter().copied().collect();
        let own = device.upload(&own).unwrap();
        let strings = wide.iter().map(|key| key.to_be_bytes().to_vec()).collect();
        check_fixed(&device, &strings, RootTable::Auto, &FixedKeys::wide(&own));
    }
}

#[test]
fn values_of_32_bits_use_the_low_half() {
    let device = Device::emulated();
    let (keys, values) = (device.upload(&[1_u32, 5]).unwrap(), device.upload(&[u32::MAX, 6]).unwrap());
    for (width, len) in [(4, 2), (3, 2), (0, 1)] {
        let strings = words(&device, b"abcdefgh");
        let keys = if width == 4 { FixedKeys::integers(&keys) } else { FixedKeys::strings(&strings, width) };
        let leaves = leaves(&device.stream().unwrap(), &keys, &values, len).unwrap();
        let found: Vec<u64> = leaves.leaf8.as_slice().unwrap().iter().map(|leaf| leaf.value).collect();
        assert_eq!(found, [u64::from(u32::MAX), 6][..len]);
    }
}

#[test]
fn keys_out_of_order_are_refused() {
    fn message<T>(result: Result<T>) -> String {
        result.err().expect("an error").to_string()
    }
    let device = Device::emulated();
    let stream: Stream = device.stream().unwrap();
    let values = device.upload(&[0_u64; 300]).unwrap();
    let mut keys: Vec<i32> = (-150..150).collect();
    let check =
        |keys: &[i32]| leaves(&stream, &FixedKeys::integers(&device.upload(keys).unwrap()), &values, keys.len());
    assert!(check(&keys).is_ok());
    keys[200] = keys[199];
    assert_eq!(message(check(&keys)), "keys[200] = 49 equals the one before it: keep one pair of a key");
    keys[100] = -70;
    assert_eq!(
        message(check(&keys)),
        "keys[101] = -49 is below keys[100] = -70: sort the pairs, or build without saying that they are sorted"
            .replace("keys[101] = -49 is below keys[100] = -70", "keys[100] = -70 is below keys[99] = -51")
    );
    let bytes = words(&device, b"abcabbabc");
    let strings = FixedKeys::strings(&bytes, 3);
    assert!(message(leaves(&stream, &strings, &values, 3)).starts_with("keys[1] = \"abb\" is below keys[0] = \"abc\""));
    assert_eq!(message(leaves(&stream, &strings, &values, 6)), "the keys has room for 5 elements, and 6 are needed");
    let none = words(&device, b"");
    let empty = FixedKeys::strings(&none, 0);
    assert!(leaves(&stream, &empty, &values, 1).is_ok());
    assert!(message(leaves(&stream, &empty, &values, 2)).starts_with("keys[1] = \"\" equals"));
    let wide = words(&device, &[0; 66]);
    assert_eq!(
        message(leaves(&stream, &FixedKeys::strings(&wide, 33), &values, 2)),
        "keys[0] has 33 bytes, and the index is to hold keys of at most 32"
    );
}
