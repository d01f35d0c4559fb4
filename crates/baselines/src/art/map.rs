//! The paper's way to a CuART: an adaptive radix tree, mapped node by node (its section 3.2.1).

use super::{Art, ArtRef};
use lanetree_kernels_cuart::layout::{
    Header, HostLeaves, Leaf8, Leaf16, Leaf32, Link, LinkType, N4, N16, N48, N256, Regions, device_leaf_units,
    table_index, table_len, write_device_leaf,
};

/// Where keys of more than 32 bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongLeaves {
    /// Into dynamically sized leaves.
    Device,
    /// Into leaves in main memory.
    Host,
}

/// The buffers of a CuART, as [`Regions`] that own them.
#[derive(Clone, Debug, Default)]
pub struct CuartBuffers {
    root: Link,
    len: u64,
    first: Link,
    n4: Vec<N4>,
    n16: Vec<N16>,
    n48: Vec<N48>,
    n256: Vec<N256>,
    leaf8: Vec<Leaf8>,
    leaf16: Vec<Leaf16>,
    leaf32: Vec<Leaf32>,
    device_leaves: Vec<[u64; 2]>,
    host_offsets: Vec<u64>,
    host_bytes: Vec<u8>,
    host_values: Vec<u64>,
    host_ranks: Vec<u64>,
    ranks8: Vec<u64>,
    order: Vec<Link>,
    table: Vec<Link>,
    table_bytes: u32,
}

impl CuartBuffers {
    /// Maps a tree: its nodes in pre-order, its leaves in the order of their keys, and a root table over 2 or
    /// 3 bytes, or none for 0. The nodes' types go by their numbers of children, whatever the tree has.
    ///
    /// # Panics
    /// For another number of bytes of the table.
    pub fn map(art: &Art, long: LongLeaves, table_bytes: u32) -> Self {
        assert!(matches!(table_bytes, 0 | 2 | 3), "a table over {table_bytes} bytes");
        let mut out = Self { len: art.len() as u64, ..Self::default() };
        let pairs: Vec<(&[u8], u64)> = art.iter().collect();
        let links: Vec<Link> =
            (0..).zip(&pairs).map(|(rank, &(key, value))| out.push_leaf(key, value, rank, long)).collect();
        out.push_nodes(art, &pairs, &links);
        if out.leaf8.len() == pairs.len() {
            out.ranks8.clear();
        }
        let one_length = pairs.windows(2).all(|pair| pair[0].0.len() == pair[1].0.len());
        match (pairs.first(), links.first()) {
            (Some((key, _)), Some(&first)) if one_length && LinkType::of_key(key.len()).is_some() => out.first = first,
            _ => out.order = links,
        }
        out.fill_table(&pairs, table_bytes);
        out
    }

    fn push_leaf(&mut self, key: &[u8], value: u64, rank: u64, long: LongLeaves) -> Link {
        let kind = LinkType::of_key(key.len()).unwrap_or(match long {
            LongLeaves::Device => LinkType::DeviceLeaf,
            LongLeaves::Host => LinkType::HostLeaf,
        });
        let index = match kind {
            LinkType::Leaf8 => {
                self.leaf8.push(Leaf8::new(key, value));
                self.ranks8.push(rank);
                self.leaf8.len() - 1
            }
            LinkType::Leaf16 => {
                self.leaf16.push(Leaf16::new(key, value, rank));
                self.leaf16.len() - 1
            }
            LinkType::Leaf32 => {
                self.leaf32.push(Leaf32::new(key, value, rank));
                self.leaf32.len() - 1
            }
            LinkType::DeviceLeaf => {
                let start = self.device_leaves.len();
                self.device_leaves.resize(start + device_leaf_units(key.len()), [0; 2]);
                write_device_leaf(&mut self.device_leaves[start..], key, value, rank);
                start
            }
            _ => {
                if self.host_offsets.is_empty() {
                    self.host_offsets.push(0);
                }
                self.host_bytes.extend_from_slice(key);
                self.host_offsets.push(self.host_bytes.len() as u64);
                self.host_values.push(value);
                self.host_ranks.push(rank);
                self.host_values.len() - 1
            }
        };
        Link::new(kind, key.len(), index as u64)
    }

    fn push_nodes(&mut self, art: &Art, pairs: &[(&[u8], u64)], links: &[Link]) {
        let mut rank = 0;
        // Each with the bytes of keys in front of it, and whose child it is by which byte.
        let mut stack: Vec<(ArtRef<'_>, usize, Link, Option<u8>)> = Vec::new();
        stack.extend(art.root().map(|root| (root, 0, Link::NONE, None)));
        while let Some((next, from, parent, byte)) = stack.pop() {
            let link = match next {
                ArtRef::Leaf(..) => {
                    rank += 1;
                    links[rank - 1]
                }
                ArtRef::Node(node) => {
                    let depth = from + node.prefix_len();
                    let children: Vec<_> = node.children().collect();
                    let bytes: Vec<u8> = children.iter().map(|&(byte, _)| byte).collect();
                    let none = vec![Link::NONE; bytes.len()];
                    let header = Header::new(pairs[rank].0, depth, Link::NONE);
                    let kind = LinkType::of_children(bytes.len());
                    let index = match kind {
                        LinkType::N4 => push(&mut self.n4, N4::new(header, &bytes, &none)),
                        LinkType::N16 => push(&mut self.n16, N16::new(header, &bytes, &none)),
                        LinkType::N48 => push(&mut self.n48, N48::new(header, &bytes, &none)),
                        _ => push(&mut self.n256, N256::new(header, &bytes, &none)),
                    };
                    let link = Link::new(kind, node.prefix_len(), index);
                    let below = children.into_iter().map(|(byte, child)| (child, depth + 1, link, Some(byte)));
                    stack.extend(below.rev());
                    stack.extend(node.here().map(|here| (here, depth, link, None)));
                    link
                }
            };
            self.set_link(parent, byte, link);
        }
    }

    /// Links a node to a child, or to the leaf of the key that ends there; the root to none.
    fn set_link(&mut self, parent: Link, byte: Option<u8>, link: Link) {
        let index = parent.index() as usize;
        let slot_of = |keys: &[u8], byte| keys.iter().position(|&key| key == byte).expect("a child's byte");
        macro_rules! set {
            ($nodes:ident, |$node:ident, $byte:ident| $slot:expr) => {{
                let $node = &mut self.$nodes[index];
                match byte {
                    Some($byte) => {
                        let slot = $slot;
                        $node.links[slot] = link;
                    }
                    None => $node.header.here = link,
                }
            }};
        }
        match parent.kind() {
            LinkType::N4 => set!(n4, |node, byte| slot_of(&node.header.keys4, byte)),
            LinkType::N16 => set!(n16, |node, byte| slot_of(&node.keys, byte)),
            LinkType::N48 => set!(n48, |node, byte| usize::from(node.slots[usize::from(byte)]) - 1),
            LinkType::N256 => set!(n256, |node, byte| usize::from(byte)),
            _ => self.root = link,
        }
    }

    /// Fills the table by following each beginning of keys down from the root.
    fn fill_table(&mut self, pairs: &[(&[u8], u64)], bytes: u32) {
        let mut table = vec![Link::NONE; table_len(bytes)];
        let tree = self.regions();
        for &(key, _) in pairs {
            let index = match (bytes, key) {
                (2, [a, b, ..]) => table_index(*a, *b, None),
                (3, [a, b, c, ..]) => table_index(*a, *b, Some(*c)),
                _ => continue,
            };
            let mut link = tree.root;
            while let Some(header) = tree.header(link)
                && (header.depth as usize) < bytes as usize
            {
                link = tree.child(link, key[header.depth as usize]);
            }
            table[index] = match tree.header(link) {
                Some(header) => Link::new(link.kind(), header.depth as usize - bytes as usize, link.index()),
                None => link,
            };
        }
        (self.table, self.table_bytes) = (table, bytes);
    }

    /// The buffers, to read.
    pub fn regions(&self) -> Regions<'_> {
        Regions {
            root: self.root,
            len: self.len,
            first: self.first,
            n4: &self.n4,
            n16: &self.n16,
            n48: &self.n48,
            n256: &self.n256,
            leaf8: &self.leaf8,
            leaf16: &self.leaf16,
            leaf32: &self.leaf32,
            device_leaves: &self.device_leaves,
            host_leaves: HostLeaves {
                offsets: &self.host_offsets,
                bytes: &self.host_bytes,
                values: &self.host_values,
                ranks: &self.host_ranks,
            },
            ranks8: &self.ranks8,
            order: &self.order,
            table: &self.table,
            table_bytes: self.table_bytes,
        }
    }
}

/// Appends a node, and tells its index.
fn push<T>(nodes: &mut Vec<T>, node: T) -> u64 {
    nodes.push(node);
    nodes.len() as u64 - 1
}
