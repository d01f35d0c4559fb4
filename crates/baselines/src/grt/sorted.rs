//! The same buffer as [`map`](super::map) makes of a tree, from sorted keys: each node is a run of keys that have more in
//! common than with the others. Sizes first, and then, by all threads, nodes and leaves at their places.

use super::map::{enter, leaf_words, word, write_leaf};
use core::ops::Range;
use lanetree_base::parallel::*;
use lanetree_kernels_baselines::layout::grt::{HERE_OFFSET, Header, NodeType};
use lanetree_layout::Word;
use lanetree_runtime::Result;

/// From this number of keys on, threads share what lies below a node.
const SHARED: usize = 1 << 12;

/// Keys, and what they are mapped to.
struct Pairs<'a, K, F> {
    key: &'a K,
    value: &'a F,
}

/// A node: its keys, from where it is linked, and what lies below it.
struct Node {
    prefix: Range<usize>,
    here: Option<usize>,
    /// The children's bytes and keys.
    children: Vec<(u8, Range<usize>)>,
}

/// The buffer, in words.
///
/// # Errors
/// As [`map`](super::map::map).
///
/// # Panics
/// If the keys do not ascend strictly.
pub(super) fn map<'k, V: Word>(
    len: usize,
    key: &(impl Fn(usize) -> &'k [u8] + Sync),
    value: &(impl Fn(usize) -> u64 + Sync),
) -> Result<Vec<u64>> {
    let descends = (1..len).into_par_iter().find_first(|&i| key(i - 1) >= key(i));
    assert!(descends.is_none(), "key {} of the sorted ones is not above the one before", descends.unwrap_or(0));
    (0..len).into_par_iter().try_for_each(|i| leaf_words(key(i)).map(drop))?;
    if len == 0 {
        return Ok(Vec::new());
    }
    let value = |i: usize| V::truncate(value(i)).widen();
    let pairs = Pairs { key, value: &value };
    let mut words = vec![0; pairs.words(0..len, 0)];
    pairs.fill(0..len, 0, &mut words, 0);
    Ok(words)
}

impl<'k, K: Fn(usize) -> &'k [u8] + Sync, F: Fn(usize) -> u64 + Sync> Pairs<'_, K, F> {
    /// The node of several keys that are linked at a depth.
    fn node(&self, keys: Range<usize>, depth: usize) -> Node {
        let (first, last) = ((self.key)(keys.start), (self.key)(keys.end - 1));
        let common = first[depth..].iter().zip(&last[depth..]).take_while(|(a, b)| a == b).count();
        let end = depth + common;
        let here = (first.len() == end).then_some(keys.start);
        let mut from = keys.start + usize::from(here.is_some());
        let mut children = Vec::new();
        while from < keys.end {
            let byte = (self.key)(from)[end];
            let to = self.end_of(byte, end, from..keys.end);
            children.push((byte, from..to));
            from = to;
        }
        Node { prefix: depth..end, here, children }
    }

    /// Where the keys end that have a byte at a place: at first in steps that double, since there may be few of them.
    fn end_of(&self, byte: u8, at: usize, keys: Range<usize>) -> usize {
        let has = |i: usize| (self.key)(i)[at] == byte;
        let (mut low, mut step) = (keys.start, 1);
        while low + step < keys.end && has(low + step) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step).min(keys.end);
        // `low` has it, and `high` has not, or is the end.
        while high - low > 1 {
            let middle = low.midpoint(high);
            if has(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Words of some keys' nodes and leaves.
    fn words(&self, keys: Range<usize>, depth: usize) -> usize {
        if keys.len() == 1 {
            return self.leaf_words(keys.start);
        }
        let is_shared = keys.len() >= SHARED;
        let Node { prefix, here, children } = self.node(keys, depth);
        let child = |(_, keys): &(u8, Range<usize>)| self.words(keys.clone(), prefix.end + 1);
        let below: usize =
            if is_shared { children.par_iter().map(child).sum() } else { children.iter().map(child).sum() };
        let own = word(NodeType::of_children(children.len()).node_bytes());
        own + here.map_or(0, |leaf| self.leaf_words(leaf)) + below
    }

    fn leaf_words(&self, leaf: usize) -> usize {
        leaf_words((self.key)(leaf)).expect("all keys are short enough")
    }

    /// Writes some keys' nodes and leaves to words that are theirs alone, the first of which is word `at` of the buffer.
    fn fill(&self, keys: Range<usize>, depth: usize, words: &mut [u64], at: usize) {
        if keys.len() == 1 {
            return write_leaf(words, (self.key)(keys.start), (self.value)(keys.start));
        }
        let (is_shared, first) = (keys.len() >= SHARED, keys.start);
        let Node { prefix, here, children } = self.node(keys, depth);
        let kind = NodeType::of_children(children.len());
        let (node, mut rest) = words.split_at_mut(word(kind.node_bytes()));
        let header = Header::node(kind, children.len(), prefix.len() as u32, &(self.key)(first)[prefix.clone()]);
        node[..2].copy_from_slice(&header);
        let mut next = at + node.len();
        let mut take = |len: usize| {
            let part;
            (part, rest) = core::mem::take(&mut rest).split_at_mut(len);
            let from = next;
            next += len;
            (part, from)
        };
        if let Some(leaf) = here {
            let (part, from) = take(self.leaf_words(leaf));
            node[word(HERE_OFFSET)] = 8 * from as u64;
            write_leaf(part, (self.key)(leaf), (self.value)(leaf));
        }
        let child = |(_, keys): &(u8, Range<usize>)| self.words(keys.clone(), prefix.end + 1);
        let sizes: Vec<usize> =
            if is_shared { children.par_iter().map(child).collect() } else { children.iter().map(child).collect() };
        let mut parts = Vec::with_capacity(children.len());
        for (slot, ((byte, keys), size)) in children.into_iter().zip(sizes).enumerate() {
            let (part, from) = take(size);
            node[enter(node, kind, slot, byte)] = 8 * from as u64;
            parts.push((keys, part, from));
        }
        let fill = |(keys, part, from): (Range<usize>, &mut [u64], usize)| self.fill(keys, prefix.end + 1, part, from);
        if is_shared {
            parts.into_par_iter().for_each(fill);
        } else {
            parts.into_iter().for_each(fill);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::art::Art;
    use crate::grt::map;

    fn same_as_of_the_tree(mut keys: Vec<Vec<u8>>) {
        keys.sort();
        keys.dedup();
        let value = |i: usize| u64::MAX - i as u64;
        let art = Art::new(keys.iter().zip(0..).map(|(key, i)| (key, value(i))));
        let key = |i: usize| &keys[i][..];
        assert_eq!(super::map::<u32>(keys.len(), &key, &value).unwrap(), map::map::<u32>(&art).unwrap());
        assert_eq!(super::map::<u64>(keys.len(), &key, &value).unwrap(), map::map::<u64>(&art).unwrap());
    }

    #[test]
    fn sorted_keys_are_mapped_as_their_tree() {
        same_as_of_the_tree(vec![]);
        same_as_of_the_tree(vec![vec![]]);
        let bytes = |i: u32| i.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
        // Enough for threads to share, with nodes of all sizes.
        same_as_of_the_tree((0..20_000).map(bytes).collect());
        let some = |i: u32| bytes(i)[..i as usize % 5].to_vec();
        same_as_of_the_tree((0..3000).map(|i| [&b"a prefix longer than a header's"[..], &some(i)].concat()).collect());
        same_as_of_the_tree((0..300).map(|len| vec![b'x'; len]).collect());
    }

    #[test]
    #[should_panic(expected = "key 2 of the sorted ones is not above the one before")]
    fn keys_that_do_not_ascend_are_refused() {
        let keys = ["a", "b", "b"];
        drop(super::map::<u32>(3, &|i| keys[i].as_bytes(), &|_| 0));
    }
}
