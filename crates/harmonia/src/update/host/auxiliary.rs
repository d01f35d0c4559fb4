//! Auxiliary nodes: leaves that a batch splits or merges, before the key region moves.
//!
//! The auxiliary node of a split leaf is the leaf, unchanged from then on, and a chain of the changes that come to it
//! later. A batch has one change per key, so a change need not be found again within the batch, and joining the chain
//! takes constant time, whether a leaf gets one insert or all of the batch's. The number of leaves that it is split
//! into is decided once, when the key region moves. The chains' links are in one array with an element per change, so
//! there is no allocation per node.
//!
//! The auxiliary node of merged leaves is their *run*: neighbours under one parent, whose pairs the movement combines.
//! Changes still go to the leaf of the run that the descent leads to.

use super::locks::LeafLock;
use crate::native::below;
use core::ops::Range;
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering::Relaxed};
use lanetree_frame::NetChange;
use lanetree_frame::Result;
use lanetree_kernels_harmonia::layout::Shape;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device};

/// The state of a leaf in a batch; zero bytes before the batch. Everything except the lock is read and written by the
/// thread that holds the leaf, like [`LeafRegion`](super::leaf::LeafRegion).
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct LeafState {
    pub(super) lock: LeafLock,
    /// [`SPLIT`], [`LOW`].
    status: AtomicU8,
    /// How many leaves before this one its run begins.
    joined: AtomicU8,
    /// How many more pairs there are than before the batch, including the chain's pairs.
    growth: AtomicI32,
    /// The head of the chain: one more than the index of a change; 0 for none.
    chain: AtomicU32,
}

/// The paper's status of a leaf that has been split: later changes go to the auxiliary node.
const SPLIT: u8 = 1;
/// The leaf is on a thread's list of leaves to merge.
const LOW: u8 = 2;

impl LeafState {
    pub(super) fn is_split(&self) -> bool {
        self.status.load(Relaxed) & SPLIT != 0
    }

    pub(super) fn split(&self) {
        self.status.store(self.status.load(Relaxed) | SPLIT, Relaxed);
    }

    /// Puts the leaf on the list of leaves to merge; returns whether it was not on it before.
    pub(super) fn list(&self) -> bool {
        let status = self.status.load(Relaxed);
        self.status.store(status | LOW, Relaxed);
        status & LOW == 0
    }

    pub(super) fn unlist(&self) {
        self.status.store(self.status.load(Relaxed) & !LOW, Relaxed);
    }

    pub(super) fn growth(&self) -> i32 {
        self.growth.load(Relaxed)
    }

    pub(super) fn grow(&self, by: i32) {
        self.growth.store(self.growth() + by, Relaxed);
    }

    /// Forgets the auxiliary node: the leaf is again just its slots.
    pub(super) fn unsplit(&self, growth: i32) {
        self.status.store(0, Relaxed);
        self.growth.store(growth, Relaxed);
    }

    pub(super) fn joined(&self) -> u8 {
        self.joined.load(Relaxed)
    }
}

/// The memory of a batch's auxiliary nodes. Zeroed; in large trees, parts without changes are never touched.
pub(super) struct Auxiliary {
    states: Buffer<[u32; 3]>,
    chains: Buffer<u32>,
}

impl Auxiliary {
    /// # Errors
    /// [`Runtime`](lanetree_frame::Error::Runtime) if there is no room.
    pub(super) fn new(leaves: u32, changes: usize) -> Result<Self> {
        // Not from the tree's pool, whose memory would have to be zeroed.
        let host = Device::host();
        Ok(Self { states: host.alloc_zeroed(leaves as usize)?, chains: host.alloc_zeroed(changes)? })
    }

    /// The leaves' states, and for each change the next one in its chain, counted like [`LeafState::chain`].
    pub(super) fn parts(&mut self) -> (&[LeafState], &[AtomicU32]) {
        const { assert!(size_of::<LeafState>() == size_of::<[u32; 3]>() && align_of::<LeafState>() == 4) };
        let states = self.states.as_mut_slice().expect("the host reaches its own memory");
        let chains = self.chains.as_mut_slice().expect("the host reaches its own memory");
        // SAFETY: both are borrowed mutably and only handed out as shared atomics, for which any bytes are
        // valid; sizes and alignments are the same.
        unsafe {
            (
                core::slice::from_raw_parts(states.as_ptr().cast(), states.len()),
                core::slice::from_raw_parts(chains.as_ptr().cast(), chains.len()),
            )
        }
    }
}

/// Leaves that become one or several nodes: one leaf, or a run of merged ones.
pub(super) struct Run {
    pub(super) leaves: Range<u32>,
    /// Their pairs.
    pub(super) count: u64,
}

/// How many pairs the leaves have, and which are merged.
#[derive(Clone, Copy)]
pub(super) struct LeafTable<'a> {
    pub(super) shape: &'a Shape,
    /// Before the batch.
    pub(super) ranks: Option<&'a [u64]>,
    pub(super) states: &'a [LeafState],
    pub(super) chains: &'a [AtomicU32],
}

impl<'a> LeafTable<'a> {
    /// Pairs of a leaf before the batch.
    pub(super) fn before(&self, leaf: u32) -> u64 {
        match self.ranks {
            Some(ranks) => ranks[leaf as usize + 1] - ranks[leaf as usize],
            None => u64::from(self.shape.leaf_len(leaf)),
        }
    }

    /// Pairs of a leaf, its chain's included.
    pub(super) fn count(&self, leaf: u32) -> u64 {
        self.before(leaf).wrapping_add_signed(i64::from(self.states[leaf as usize].growth()))
    }

    /// Pairs in a leaf's own slots.
    pub(super) fn len(&self, leaf: u32) -> usize {
        // Full leaves only are split, and not written to afterwards.
        if self.states[leaf as usize].is_split() { self.shape.fanout as usize } else { self.count(leaf) as usize }
    }

    /// The run of which a leaf is part.
    pub(super) fn run(&self, leaf: u32) -> Run {
        let start = leaf - u32::from(self.states[leaf as usize].joined());
        let mut run = Run { leaves: start..start + 1, count: self.count(start) };
        while self.states.get(run.leaves.end as usize).is_some_and(|state| state.joined() != 0) {
            run.count += self.count(run.leaves.end);
            run.leaves.end += 1;
        }
        run
    }

    /// Joins two adjacent runs.
    pub(super) fn join(&self, left: Run, right: Run) -> Run {
        for leaf in right.leaves.clone() {
            // A run has no more leaves than a node has children: 128.
            self.states[leaf as usize].joined.store((leaf - left.leaves.start) as u8, Relaxed);
        }
        Run { leaves: left.leaves.start..right.leaves.end, count: left.count + right.count }
    }

    /// Lets a change join the chain of a split leaf.
    pub(super) fn chain(&self, leaf: u32, change: usize) {
        let head = &self.states[leaf as usize].chain;
        self.chains[change].store(head.load(Relaxed), Relaxed);
        // Batches have fewer than 2^31 changes.
        head.store(change as u32 + 1, Relaxed);
    }

    /// The changes in a leaf's chain, the last one first.
    fn chained(&self, leaf: u32) -> impl Iterator<Item = u32> + use<'a> {
        let chains = self.chains;
        let next = |word: &AtomicU32| word.load(Relaxed).checked_sub(1);
        core::iter::successors(next(&self.states[leaf as usize].chain), move |&change| next(&chains[change as usize]))
    }
}

/// The combined pairs of a run. The memory is reused for the next run.
#[derive(Default)]
pub(super) struct Pairs<K, V> {
    pub(super) keys: Vec<K>,
    pub(super) values: Vec<V>,
    chain: Vec<u32>,
}

impl<K: Word, V: Word> Pairs<K, V> {
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
    }

    /// Appends a leaf's pairs: `keys` and `values`, changed by its chain.
    pub(super) fn append(
        &mut self,
        table: &LeafTable<'_>,
        leaf: u32,
        changes: &[(K, NetChange<V>)],
        (mut keys, mut values): (&[K], &[V]),
    ) {
        self.chain.clear();
        self.chain.extend(table.chained(leaf));
        // A thread takes its changes in the order of their keys, but several threads may have alternated.
        self.chain.reverse();
        if !self.chain.is_sorted_by_key(|&change| changes[change as usize].0) {
            self.chain.sort_unstable_by_key(|&change| changes[change as usize].0);
        }
        for &change in &self.chain {
            let (key, change) = changes[change as usize];
            let before = below(keys, key) as usize;
            self.keys.extend_from_slice(&keys[..before]);
            self.values.extend_from_slice(&values[..before]);
            let replaced = usize::from(keys.get(before) == Some(&key));
            (keys, values) = (&keys[before + replaced..], &values[before + replaced..]);
            if let NetChange::Put(value) | NetChange::PutIfPresent(value) = change {
                self.keys.push(key);
                self.values.push(value);
            }
        }
        self.keys.extend_from_slice(keys);
        self.values.extend_from_slice(values);
    }
}
