//! The nodes above the lowest level, and the table above them.

use crate::node::node;
use lanetree_kernels_lane_tree::layout::{
    FORMAT_BITS, HALVES_CHILDREN, NODE_WORDS, Prefixes, Quantiser, TABLE_ENTRIES, covered, exact_children,
};
use lanetree_kernels_lane_tree::{CROWDED_SAMPLES, crowded_samples};
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
        let next = children.get(part.len()).map(|next| next.first);
        let quantiser = Quantiser::halves(part[0].first, covered(part[0].first, part[part.len() - 1].last, next));
        let mut neighbors = part.windows(2);
        if level == 1
            && part.len() > exact_children::<K>() as usize
            && neighbors.all(|pair| quantiser.quantise(pair[0].last) < quantiser.quantise(pair[1].first))
        {
            return (quantiser, part.len());
        }
    }
    (Quantiser::EXACT, children.len().min(exact_children::<K>() as usize))
}

/// The gap between nodes that is to be left out of the distances of [`Prefixes`], as these have it, if the nodes' first keys are so
/// that this takes shorter ones.
pub(crate) fn gap<K: KeyWord>(firsts: &[K]) -> Option<(K, K)> {
    let wide = |key: K| u128::from(key.parts()[0]) | u128::from(key.parts()[1]) << 64;
    let (origin, last) = (wide(*firsts.first()?), wide(*firsts.last()?));
    let (before, split) =
        firsts.windows(2).map(|pair| (wide(pair[0]), wide(pair[1]))).max_by_key(|pair| pair.1 - pair.0)?;
    let (below, above) = (before - origin + 1, last - split);
    let (distance, _) =
        (0..u128::BITS - 32).filter_map(|shift| Some((below.checked_next_multiple_of(1 << shift)?, shift))).find(
            |&(distance, shift)| distance.checked_add(above).is_some_and(|most| most >> shift <= u128::from(u32::MAX)),
        )?;
    let gap = (split - origin).checked_sub(distance).filter(|&gap| gap > 0)?;
    let word = |wide: u128| K::from_parts([wide as u64, (wide >> 64) as u64]);
    Some((word(split), word(gap)))
}

/// The table above nodes.
#[derive(Debug)]
pub(crate) struct Table<K> {
    pub(crate) prefixes: Prefixes<K>,
    pub(crate) table_shift: u32,
    /// The prefixes of the nodes' first keys.
    pub(crate) of_nodes: Vec<u32>,
    pub(crate) entries: Vec<u32>,
}

impl<K: KeyWord> Table<K> {
    /// That above nodes with these first keys.
    pub(crate) fn new(firsts: &[K]) -> Self {
        let Some((&first, &last)) = firsts.first().zip(firsts.last()) else {
            let entries = vec![0; TABLE_ENTRIES as usize];
            return Self { prefixes: Prefixes::default(), table_shift: 0, of_nodes: Vec::new(), entries };
        };
        let (mut prefixes, mut table_shift) = Prefixes::new(first, last, K::MIN, K::MIN);
        if crowded_samples(firsts.len() as u32, |node| prefixes.of(firsts[node as usize])) >= CROWDED_SAMPLES
            && let Some((split, gap)) = gap(firsts)
        {
            (prefixes, table_shift) = Prefixes::new(first, last, split, gap);
        }
        let of_nodes: Vec<u32> = firsts.iter().map(|&key| prefixes.of(key)).collect();
        let upto = |most: u64| of_nodes.partition_point(|&prefix| u64::from(prefix) <= most) as u32 - 1;
        let bounds = |entry: u64| {
            let start = entry << table_shift;
            upto(start) | upto(start + ((1 << table_shift) - 1)) << 16
        };
        Self { prefixes, table_shift, entries: (0..u64::from(TABLE_ENTRIES)).map(bounds).collect(), of_nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(at: u64) -> u64 {
        (at ^ at >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Prefixes ascend with the words, and lead back to a key that is at most a first key, by less than the shift.
    fn hold<K: KeyWord>(firsts: &[K], words: &[K]) -> Table<K> {
        let table = Table::new(firsts);
        let prefixes = table.prefixes;
        let mut words = [firsts, words].concat();
        words.sort_unstable();
        assert!(words.windows(2).all(|pair| prefixes.of(pair[0]) <= prefixes.of(pair[1])), "{prefixes:?}");
        for &first in firsts {
            let rough = prefixes.first(prefixes.of(first));
            assert!(rough <= first && first.wrapping_sub(rough).significant_bits() <= prefixes.shift, "{prefixes:?}");
        }
        table
    }

    #[test]
    fn nodes_of_two_clusters_have_prefixes_of_their_own() {
        let near = |at: u64| 3 * at + mix(at) % 3;
        let sentinel = (0..500).map(near).chain([u64::MAX]).collect::<Vec<_>>();
        let low_sentinel = (0..500).map(|at| if at == 0 { 0 } else { u64::MAX - 1600 + near(at) }).collect();
        let ends = (0..500).map(|at| if at < 250 { near(at) } else { u64::MAX - 1600 + near(at) }).collect();
        // Clusters that take more than 32 bits.
        let wide = (0..500).map(|at| if at < 100 { near(at) << 29 } else { (1 << 63) + (near(at) << 26) }).collect();
        for firsts in [sentinel, low_sentinel, ends, wide] {
            let words = firsts.iter().flat_map(|&first| [first.wrapping_sub(1), first.wrapping_add(1), mix(first)]);
            let table = hold(&firsts, &words.collect::<Vec<_>>());
            assert!(table.prefixes.gap > 0, "{:?}", table.prefixes);
            assert!(table.of_nodes.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", table.prefixes);
            let firsts: Vec<u128> = firsts.iter().map(|&first| u128::from(first) << 60).collect();
            let words: Vec<u128> = firsts.iter().map(|&first| first ^ u128::from(mix(first as u64)) << 50).collect();
            assert!(hold(&firsts, &words).prefixes.gap > 0);
        }
    }

    #[test]
    fn a_gap_is_left_out_only_if_that_helps() {
        let uniform: Vec<u64> = (0..500).map(|at| at << 54 | mix(at) >> 10).collect();
        assert_eq!(hold(&uniform, &[0, u64::MAX]).prefixes.gap, 0);
        // Gaps that double: the largest one is half of all.
        let powers: Vec<u64> = (0..64).map(|at| 1 << at).collect();
        hold(&powers, &(0..1000).map(mix).collect::<Vec<_>>());
        assert_eq!(gap::<u64>(&[]), None);
        assert_eq!(gap(&[7_u64]), None);
        assert_eq!(gap(&[7_u64, 8]), None);
        assert_eq!(gap(&[0, u64::MAX]), Some((u64::MAX, u64::MAX - 1)));
        assert_eq!(gap(&[u128::MIN, u128::MAX]), Some((u128::MAX, u128::MAX - 1)));
    }
}
