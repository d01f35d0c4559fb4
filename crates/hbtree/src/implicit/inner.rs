//! The inner levels: lines of separators, level by level from the root.

use crate::implicit::{ImplicitOnDevice, PackedLeaves};
use crate::line::{Line, prefetch};
use crate::node_search::{Below, Task};
use crate::options::Descent;
use crate::structure;
use core::marker::PhantomData;
use core::ops::Range;
use lanetree_frame::parallel::*;
use lanetree_frame::{Device, Result};
use lanetree_layout::{Key, Word};
use lanetree_runtime::{GrantedPages, HostArray, Pages};

/// Inner levels in host memory.
#[derive(Debug)]
pub struct ImplicitInner<B> {
    nodes: HostArray<Line>,
    /// The number of nodes above each level, and of all nodes.
    levels: Vec<u32>,
    fanout: u32,
    words: PhantomData<B>,
}

impl<B: Word> ImplicitInner<B> {
    /// The inner levels above leaves that are all full but the last.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) where main memory has no room.
    pub(crate) fn build<V: Word>(leaves: &PackedLeaves<B, V>, fanout: u32, pages: Pages) -> Result<Self> {
        // Leaves are numbered by 32 bits, and there are fewer inner nodes.
        let mut counts = vec![leaves.lines().len() as u32];
        while counts[counts.len() - 1] > 1 {
            counts.push(counts[counts.len() - 1].div_ceil(fanout));
        }
        counts.reverse();
        let height = counts.len() - 1;
        let mut levels = vec![0];
        levels.extend(counts[..height].iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        let mut nodes = HostArray::zeroed(levels[height] as usize, pages)?;
        let lines = leaves.lines();
        for level in 0..height {
            // Leaves below a child of this level's.
            let span = u64::from(fanout).pow((height - 1 - level) as u32);
            let children = u64::from(counts[level + 1]);
            let level_nodes: &mut [Line] = &mut nodes[levels[level] as usize..levels[level + 1] as usize];
            level_nodes.par_iter_mut().with_min_len(256).enumerate().for_each(|(node, line)| {
                for (i, separator) in line.words_mut::<B>().iter_mut().enumerate() {
                    let child = node as u64 * u64::from(fanout) + i as u64;
                    let is_last = child + 1 >= children || i as u32 + 1 >= fanout;
                    // A child that is not its level's last one has full leaves below it only.
                    *separator = if is_last {
                        B::MAX
                    } else {
                        PackedLeaves::<B, V>::last_key(lines, ((child + 1) * span - 1) as usize)
                    };
                }
            });
        }
        Ok(Self { nodes, levels, fanout, words: PhantomData })
    }

    /// The number of nodes above each level, and of all.
    pub(crate) fn levels(&self) -> &[u32] {
        &self.levels
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.nodes
    }

    /// Children of a full node.
    pub(crate) fn children(&self) -> u32 {
        self.fanout
    }
}

impl<K: Key> structure::Inner<K> for ImplicitInner<K::Bits> {
    type OnDevice = ImplicitOnDevice<K::Bits>;

    fn height(&self) -> u32 {
        self.levels.len() as u32 - 1
    }

    fn fanout(&self) -> u32 {
        self.fanout
    }

    fn nodes(&self) -> u64 {
        self.nodes.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.nodes.bytes() as u64
    }

    fn pages(&self) -> GrantedPages {
        self.nodes.pages()
    }

    fn descend(&self, how: Descent, words: &[K::Bits], levels: Range<u32>, nodes: &mut [u32]) {
        how.search.run(Batch { tree: self, in_flight: how.in_flight, words, levels, nodes });
    }

    fn upload(&self, device: &Device) -> Result<ImplicitOnDevice<K::Bits>> {
        ImplicitOnDevice::upload(device, self)
    }
}

/// A batch that descends, `in_flight` queries at a time: the paper's algorithm 2.
struct Batch<'a, B> {
    tree: &'a ImplicitInner<B>,
    in_flight: usize,
    words: &'a [B],
    levels: Range<u32>,
    nodes: &'a mut [u32],
}

impl<B: Word> Task for Batch<'_, B> {
    type Out = ();

    #[inline(always)]
    fn run<S: Below>(self, search: S) {
        let all: &[Line] = &self.tree.nodes;
        let level = |level: u32| {
            let bounds = &self.tree.levels[level as usize..];
            &all[bounds[0] as usize..bounds[1] as usize]
        };
        let last = self.levels.end;
        for (words, nodes) in self.words.chunks(self.in_flight).zip(self.nodes.chunks_mut(self.in_flight)) {
            for at in self.levels.clone() {
                let lines = level(at);
                let next = if at + 1 < last { level(at + 1) } else { &[] };
                for (&word, node) in words.iter().zip(nodes.iter_mut()) {
                    let below = search.below(&lines[*node as usize], word);
                    *node = *node * self.tree.fanout + below;
                    if at + 1 < last {
                        prefetch(next, *node as usize);
                    }
                }
            }
        }
    }
}
