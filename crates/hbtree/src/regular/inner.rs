//! The inner levels: nodes of several lines, with references.

use super::RegularOnDevice;
use super::leaves::{BigLeaves, grow};
use super::nodes::{
    Entry, children, fanout, first_child_line, last_lines, separators, upper_lines, write_last, write_upper,
};
use super::pool::{NONE, Pool};
use crate::line::{Leaf, Line, prefetch, slots};
use crate::node_search::{Below, Task};
use crate::options::{Descent, Pinning};
use crate::options::{MOST_IN_FLIGHT, Options};
use crate::structure;
use bytemuck::{Pod, Zeroable};
use core::marker::PhantomData;
use core::ops::Range;
use lanetree_frame::parallel::*;
use lanetree_frame::{Device, Result};
use lanetree_kernels_hbtree::layout;
use lanetree_layout::{Key, Word};
use lanetree_runtime::{GrantedPages, HostArray, Pages};

/// Inner levels in host memory. Nodes of the last level have the numbers of their big leaves; all others have numbers of
/// their own, whatever their level.
#[derive(Debug)]
pub struct RegularInner<B> {
    /// First fragments of nodes of the last level.
    pub(super) last: HostArray<Line>,
    /// Second fragments of these: the parents. The rest stands in the big leaves.
    pub(super) parents: HostArray<u32>,
    /// First fragments of all other nodes.
    pub(super) upper: HostArray<Line>,
    /// Second fragments of these.
    pub(super) facts: HostArray<Facts>,
    /// The numbers of the other nodes.
    pub(super) pool: Pool,
    /// Nodes of the last level, and one more than their largest number.
    pub(super) last_nodes: u64,
    pub(super) last_end: u32,
    pub(super) root: u32,
    pub(super) height: u32,
    words: PhantomData<B>,
}

/// The second fragment of a node: what a search does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Facts {
    /// Children.
    pub(super) size: u32,
    pub(super) parent: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
}

// SAFETY: all zeros are a value.
unsafe impl Zeroable for Facts {}
// SAFETY: words without padding; any bits are a value.
unsafe impl Pod for Facts {}

impl<B: Word> RegularInner<B> {
    /// The inner levels above the leaves of a build.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where main memory has no room.
    pub(super) fn build<V: Word>(leaves: &BigLeaves<B, V>, options: &Options) -> Result<Self> {
        let pages = options.inner_pages;
        // Children of a node; at least two, so that levels become smaller.
        let full = full::<B>(options.fill);
        let count = leaves.pool.end as usize;
        let (mut level_nodes, mut nodes) = (Vec::new(), count);
        while nodes > 1 {
            nodes = nodes.div_ceil(full);
            level_nodes.push(nodes);
        }
        let upper_nodes = level_nodes.iter().sum::<usize>();
        let room = Pool::room(upper_nodes as u64, u64::from(NONE)) as usize;
        let mut inner = Self {
            last: HostArray::zeroed(leaves.room() * last_lines::<B>(), pages)?,
            parents: HostArray::zeroed(leaves.room(), pages)?,
            upper: HostArray::zeroed(room * upper_lines::<B>(), pages)?,
            facts: HostArray::zeroed(room, pages)?,
            pool: Pool::of(upper_nodes as u32),
            last_nodes: count as u64,
            last_end: count as u32,
            root: 0,
            height: 1 + level_nodes.len() as u32,
            words: PhantomData,
        };
        let per_line = slots::<B, V>();
        let last: &mut [Line] = &mut inner.last[..count * last_lines::<B>()];
        let mut entries: Vec<Entry<B>> = last
            .par_chunks_mut(last_lines::<B>())
            .with_min_len(64)
            .enumerate()
            .map(|(number, node)| {
                let (leaf, size) = (leaves.leaf(number as u32), leaves.info(number as u32).size as usize);
                write_last(node, 0, size.div_ceil(per_line), |line| leaf[line].keys::<B, V>()[per_line - 1]);
                (size.checked_sub(1).map_or(B::MAX, |last| BigLeaves::<B, V>::pair(leaf, last).0), number as u32)
            })
            .try_collect()?;
        inner.parents[0] = NONE;
        let mut base = 0;
        for (level, &nodes) in level_nodes.iter().enumerate() {
            // Evenly, so that the last node is not smaller.
            let bound = |node: usize| (node as u64 * entries.len() as u64 / nodes as u64) as usize;
            let upper: &mut [Line] = &mut inner.upper[base * upper_lines::<B>()..][..nodes * upper_lines::<B>()];
            let above = upper
                .par_chunks_mut(upper_lines::<B>())
                .with_min_len(16)
                .enumerate()
                .map(|(node, lines)| {
                    let entries = &entries[bound(node)..bound(node + 1)];
                    write_upper(lines, entries);
                    (entries[entries.len() - 1].0, (base + node) as u32)
                })
                .try_collect()?;
            for node in 0..nodes {
                let (number, size) = (base + node, bound(node + 1) - bound(node));
                inner.facts[number] = Facts {
                    size: size as u32,
                    parent: NONE,
                    previous: if node > 0 { number as u32 - 1 } else { NONE },
                    next: if node + 1 < nodes { number as u32 + 1 } else { NONE },
                };
                for &(_, child) in &entries[bound(node)..bound(node + 1)] {
                    inner.set_parent(level == 0, child, number as u32);
                }
            }
            (entries, base) = (above, base + nodes);
        }
        inner.root = entries[0].1;
        Ok(inner)
    }

    /// Writes the parent of a node, of the last level or of another one.
    pub(super) fn set_parent(&mut self, is_last: bool, node: u32, parent: u32) {
        if is_last {
            self.parents[node as usize] = parent;
        } else {
            self.facts[node as usize].parent = parent;
        }
    }

    /// The first fragment of a node above the last level.
    pub(super) fn upper_node(&self, node: u32) -> &[Line] {
        &self.upper[node as usize * upper_lines::<B>()..][..upper_lines::<B>()]
    }

    /// The children of a node above the last level, with their separators.
    pub(super) fn entries(&self, node: u32) -> Vec<Entry<B>> {
        let (lines, size) = (self.upper_node(node), self.facts[node as usize].size as usize);
        let children = children::<B>(lines)[..size].iter().map(|child| child.low());
        separators::<B>(lines)[..size].iter().copied().zip(children).collect()
    }

    /// Makes room for `last` nodes of the last level and `upper` nodes above it. The nodes are kept, also if this
    /// fails.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where main memory has no room.
    pub(super) fn reserve(&mut self, last: usize, upper: u64, pages: Pages) -> Result<()> {
        let last_used = self.last_end as usize;
        if last > self.parents.len() {
            grow(&mut self.last, last * last_lines::<B>(), last_used * last_lines::<B>(), pages, Pinning::None)?;
            // Last: it says how much room there is.
            grow(&mut self.parents, last, last_used, pages, Pinning::None)?;
        }
        if upper > self.facts.len() as u64 {
            let (room, used) = (Pool::room(upper + upper / 4, u64::from(NONE)) as usize, self.pool.end as usize);
            grow(&mut self.upper, room * upper_lines::<B>(), used * upper_lines::<B>(), pages, Pinning::None)?;
            grow(&mut self.facts, room, used, pages, Pinning::None)?;
        }
        Ok(())
    }

    /// Puts nodes of a level above the last one in the place of others, which are neighbours. Without others they are all
    /// there are.
    pub(super) fn splice(&mut self, members: &[u32], pieces: &[u32]) {
        let previous = members.first().map_or(NONE, |&first| self.facts[first as usize].previous);
        let next = members.last().map_or(NONE, |&last| self.facts[last as usize].next);
        let mut left = previous;
        for &piece in pieces.iter().chain((next != NONE).then_some(&next)) {
            if left != NONE {
                self.facts[left as usize].next = piece;
            }
            self.facts[piece as usize].previous = left;
            left = piece;
        }
        if next == NONE && left != NONE {
            self.facts[left as usize].next = NONE;
        }
    }
}

/// Children of an inner node that a build fills.
pub(super) fn full<B: Word>(fill: f64) -> usize {
    ((fanout::<B>() as f64 * fill) as usize).clamp(2, fanout::<B>())
}

impl<K: Key> structure::Inner<K> for RegularInner<K::Bits> {
    type OnDevice = RegularOnDevice<K::Bits>;

    fn height(&self) -> u32 {
        self.height
    }

    fn fanout(&self) -> u32 {
        layout::fanout::<K::Bits>()
    }

    fn nodes(&self) -> u64 {
        self.pool.len() + self.last_nodes
    }

    /// Without what is there to spare for leaves and was never touched.
    fn bytes(&self) -> u64 {
        let last = self.last_end as usize * (last_lines::<K::Bits>() * layout::LINE + size_of::<u32>());
        (last + self.upper.bytes() + self.facts.bytes()) as u64
    }

    fn pages(&self) -> GrantedPages {
        self.last.pages()
    }

    fn descend(&self, how: Descent, words: &[K::Bits], levels: Range<u32>, nodes: &mut [u32]) {
        how.search.run(Batch { tree: self, in_flight: how.in_flight.min(MOST_IN_FLIGHT), words, levels, nodes });
    }

    fn upload(&self, device: &Device) -> Result<RegularOnDevice<K::Bits>> {
        RegularOnDevice::upload(device, self, self.pool.end, self.last_end)
    }
}

/// A batch that descends, `in_flight` queries at a time. Each line is prefetched while the lines of the other queries
/// are searched.
struct Batch<'a, B> {
    tree: &'a RegularInner<B>,
    in_flight: usize,
    words: &'a [B],
    levels: Range<u32>,
    nodes: &'a mut [u32],
}

impl<B: Word> Task for Batch<'_, B> {
    type Out = ();

    #[inline(always)]
    fn run<S: Below>(self, search: S) {
        let width = const { layout::words::<B>() };
        let (upper, last): (&[Line], &[Line]) = (&self.tree.upper, &self.tree.last);
        let height = self.tree.height;
        // The nodes of a level, and the lines of each.
        let level = |at: u32| if at + 1 < height { (upper, upper_lines::<B>()) } else { (last, last_lines::<B>()) };
        for (words, nodes) in self.words.chunks(self.in_flight).zip(self.nodes.chunks_mut(self.in_flight)) {
            let mut slots = [0; MOST_IN_FLIGHT];
            for at in self.levels.clone() {
                if at == 0 {
                    nodes.fill(self.tree.root);
                }
                let (is_last, (lines, stride)) = (at + 1 == height, level(at));
                for ((&word, &mut node), slot) in words.iter().zip(nodes.iter_mut()).zip(&mut slots) {
                    let index = node as usize * stride;
                    *slot = search.below(&lines[index], word);
                    prefetch(lines, index + 1 + *slot as usize);
                    if !is_last {
                        // The index says which line has the reference, too.
                        prefetch(lines, index + const { first_child_line::<B>() } + *slot as usize);
                    }
                }
                for ((&word, node), slot) in words.iter().zip(nodes.iter_mut()).zip(&mut slots) {
                    let separators = *node as usize * stride + 1 + *slot as usize;
                    let child = *slot * width + search.below(&lines[separators], word);
                    if is_last {
                        *node = *node * const { layout::fanout::<B>() } + child;
                    } else {
                        *slot = child;
                    }
                }
                if is_last {
                    continue;
                }
                let (next, next_stride) = level(at + 1);
                for (node, &slot) in nodes.iter_mut().zip(&slots) {
                    let line = *node as usize * stride + const { first_child_line::<B>() } + (slot / width) as usize;
                    *node = lines[line].words::<B>()[(slot % width) as usize].low();
                    prefetch(next, *node as usize * next_stride);
                }
            }
        }
    }
}
