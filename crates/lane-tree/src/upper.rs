//! The nodes above the lowest level, and the table above them.

use crate::node::node;
use lanetree_kernels_lane_tree::layout::{
    FORMAT_BITS, HALVES_CHILDREN, NODE_WORDS, Quantiser, TOP_BUCKETS, covered, exact_children, prefix, table_shifts,
};
use lanetree_layout::KeyWord;

/// A node, seen from above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child<K> {
    /// Its first key.
    pub(crate) first: K,
    /// Its last key.
    pub(crate) last: K,
}

/// The nodes above the lowest level, level by level.
#[derive(Debug)]
pub(crate) struct Upper<K> {
    pub(crate) nodes: Vec<u32>,
    /// The first key of each; if there are none, of the nodes of the lowest level.
    pub(crate) firsts: Vec<K>,
    /// Nodes of the highest level, which may be the lowest.
    pub(crate) top_count: u32,
    /// The number of the first of these.
    pub(crate) top_first: u32,
    /// Levels, the lowest included.
    pub(crate) height: u32,
    /// Formats of these levels.
    pub(crate) formats: u32,
}

impl<K: KeyWord> Upper<K> {
    /// The levels above nodes that have these formats, until there are at most `table_nodes`, a number
    /// of [`Options::on`](crate::options::Options::on) for them.
    pub(crate) fn new(mut children: Vec<Child<K>>, formats: u32, table_nodes: u32) -> Self {
        let mut upper = Self { nodes: Vec::new(), firsts: Vec::new(), top_count: 0, top_first: 0, height: 1, formats };
        while children.len() > table_nodes as usize {
            let below = children.len() as u32;
            let mut level = Vec::new();
            let mut start = 0;
            while start < children.len() {
                let (quantiser, count) = choose(&children[start..], upper.height);
                let part = &children[start..start + count];
                upper.formats |= (quantiser.format() as u32) << (FORMAT_BITS * upper.height);
                let firsts = part[1..].iter().map(|child| child.first);
                upper.nodes.extend(node(quantiser, upper.top_first + start as u32, firsts));
                level.push(Child { first: part[0].first, last: part[count - 1].last });
                start += count;
            }
            upper.firsts.extend(level.iter().map(|child| child.first));
            upper.top_first += below;
            upper.height += 1;
            children = level;
        }
        debug_assert_eq!(upper.nodes.len(), upper.firsts.len() * NODE_WORDS as usize);
        if upper.height == 1 {
            upper.firsts.extend(children.iter().map(|child| child.first));
        }
        upper.top_count = children.len() as u32;
        upper
    }
}

/// How the next node of a level is made, and how many children it has. Above the first level, nodes are exact: a node of so
/// many keys could rarely tell its children apart by 15 bits.
fn choose<K: KeyWord>(children: &[Child<K>], level: u32) -> (Quantiser, usize) {
    let most = HALVES_CHILDREN as usize;
    for count in [most, most.div_ceil(2)] {
        let part = &children[..count.min(children.len())];
        let next = children.get(part.len()).map_or((K::MIN, false), |next| (next.first, true));
        let quantiser = Quantiser::halves(part[0].first, covered(part[0].first, part[part.len() - 1].last, next));
        let mut neighbors = part.windows(2);
        if level == 1
            && part.len() > exact_children::<K>() as usize
            && neighbors.all(|pair| quantiser.place(pair[0].last) < quantiser.place(pair[1].first))
        {
            return (quantiser, part.len());
        }
    }
    (Quantiser::EXACT, children.len().min(exact_children::<K>() as usize))
}

/// The table above nodes.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) shifts: (u32, u32),
    /// The prefixes of the nodes' first keys.
    pub(crate) prefixes: Vec<u32>,
    pub(crate) buckets: Vec<u32>,
}

impl Table {
    /// That above nodes with these first keys.
    pub(crate) fn new<K: KeyWord>(firsts: &[K]) -> Self {
        let Some((&first, &last)) = firsts.first().zip(firsts.last()) else {
            return Self { shifts: (0, 0), prefixes: Vec::new(), buckets: vec![0; TOP_BUCKETS as usize] };
        };
        let shifts = table_shifts(first, last);
        let prefixes: Vec<u32> = firsts.iter().map(|&key| prefix(key, first, shifts.0)).collect();
        let upto = |most: u64| prefixes.partition_point(|&prefix| u64::from(prefix) <= most) as u32 - 1;
        let bounds = |bucket: u64| {
            let start = bucket << shifts.1;
            upto(start) | upto(start + ((1 << shifts.1) - 1)) << 16
        };
        Self { shifts, buckets: (0..u64::from(TOP_BUCKETS)).map(bounds).collect(), prefixes }
    }
}
