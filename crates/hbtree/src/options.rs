//! What can be chosen.

use crate::node_search::NodeSearch;
use core::time::Duration;
use lanetree_kernels_hbtree::layout;
use lanetree_layout::Word;
use lanetree_runtime::Pages;

/// Most queries that a thread has in flight.
pub const MOST_IN_FLIGHT: usize = 256;

/// Options of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Options {
    pub(crate) fanout: Fanout,
    pub(crate) fill: f64,
    pub(crate) inner_pages: Pages,
    pub(crate) leaf_pages: Pages,
    pub(crate) node_search: NodeSearch,
    pub(crate) in_flight: usize,
    pub(crate) pipeline: Pipeline,
    pub(crate) pinning: Pinning,
    pub(crate) update_method: UpdateMethod,
    pub(crate) device_updates: bool,
}

/// How the CPU descends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descent {
    /// How it searches a node.
    pub search: NodeSearch,
    /// Queries that a thread has in flight.
    pub in_flight: usize,
}

impl Options {
    /// How the CPU descends.
    pub(crate) fn descent(&self) -> Descent {
        Descent { search: self.node_search, in_flight: self.in_flight }
    }
}

/// Whether a device is to be able to read the leaves across the bus: they are pinned for it then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Pinning {
    /// The leaves stay as they are, and only the CPU reads them.
    #[default]
    None,
    /// If the system refuses it, only the CPU reads the leaves. [`Stats::pinned`](crate::Stats::pinned) says so.
    IfPossible,
    /// If the system refuses it, the build fails, or the batch of changes.
    Required,
}

/// The children of a node: one more than its separators, or as many, as in the paper's hybrid tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Fanout {
    /// One more than a line has separators: 9 for 64-bit keys, 17 for 32-bit keys (section 4.1).
    #[default]
    Full,
    /// As many as a line has separators: 8 or 16 (section 5.2). The last separator is always the largest word: the descent
    /// with flags in shared memory ([`DeviceSearch::Shared`](crate::DeviceSearch::Shared)) needs that.
    Words,
}

impl Fanout {
    /// Children of a node over keys of this width.
    pub(crate) fn children<B: Word>(self) -> u32 {
        match self {
            Self::Full => layout::words::<B>() + 1,
            Self::Words => layout::words::<B>(),
        }
    }
}

/// How the device searches a node. Both find the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum DeviceSearch {
    /// A lane for each separator, and a ballot.
    #[default]
    Ballot,
    /// A thread for each separator, flags in shared memory, and two barriers per level: the paper's (section 5.3, appendix
    /// D). The implicit tree must have [`Fanout::Words`](crate::Fanout::Words).
    Shared,
}

/// How buckets follow one another (section 5.4, figures 5 and 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Strategy {
    /// Each bucket after the one before.
    Sequential,
    /// The device has the next bucket while the CPU searches leaves.
    #[default]
    Pipelined,
    /// The device has the next two: their transfers overlap with its work.
    DoubleBuffered,
    /// The device has the next three (section 5.5).
    TripleBuffered,
}

impl Strategy {
    /// Buckets that the device has while the CPU searches the leaves of another.
    pub(crate) fn ahead(self) -> usize {
        match self {
            Self::Sequential => 0,
            Self::Pipelined => 1,
            Self::DoubleBuffered => 2,
            Self::TripleBuffered => 3,
        }
    }
}

/// How a bucket's queries get to the device, and its leaves back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Transfers {
    /// Buckets of at most 2^14 queries, which are mostly latency, are read and written by the kernel across the bus; larger
    /// ones, and those that are searched by [`DeviceSearch::Shared`](crate::DeviceSearch::Shared), are copied.
    #[default]
    Auto,
    /// Every bucket is copied, as in the paper (its steps 1 and 3, section 5.4).
    Copied,
}

/// How much of the descent is the CPU's (section 5.5): the levels above `depth` for all queries, and for a share of
/// them one level more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Split {
    /// Levels that the CPU descends: the paper's D.
    pub depth: u32,
    /// The share of queries, from 0 to 1, for which it descends another one: 1 - R in the paper.
    pub share: f64,
}

/// Who decides on the [`Split`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Balance {
    /// It is as given.
    #[default]
    Fixed,
    /// The discovery algorithm, by samples of the first large batches ([`Discovery`](crate::Discovery)); again when the load has changed.
    Live,
}

/// How many times a part of the work is done, to make it slower: every time but the first from the caches. 0 means 1.
#[cfg(feature = "papers")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Throttle {
    /// The CPU's work.
    pub cpu: u32,
    /// The device's descents: each launch.
    pub device: u32,
}

#[cfg(feature = "papers")]
impl Default for Throttle {
    fn default() -> Self {
        Self { cpu: 1, device: 1 }
    }
}

/// How a hybrid tree answers batches.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Pipeline {
    /// Most queries of a bucket: the paper's M. Batches of few buckets have smaller ones, so that all pipelines have some.
    pub bucket: usize,
    /// How buckets follow one another.
    pub strategy: Strategy,
    /// Pipelines side by side; 0: as many as the rayon pool has threads. One: all threads finish each bucket together, as in
    /// the paper.
    pub pipelines: usize,
    /// How the device searches nodes.
    pub device_search: DeviceSearch,
    /// How buckets cross the bus.
    pub transfers: Transfers,
    /// What of the descent is the CPU's.
    pub split: Split,
    /// Whether it is that, or found out by large batches.
    pub balance: Balance,
    /// Queries of a sample: enough to outweigh what a bucket costs by itself.
    pub sample: usize,
    /// For tests and measurements: how many times the work of the CPU and of the device is done over.
    #[cfg(feature = "papers")]
    pub throttle: Throttle,
    /// Most queries that the device answers alone at a time, reading their leaves across the bus, while the pipelines answer
    /// others; 0: none. It takes large batches, and pinned leaves: [`Builder::pinning`](crate::Builder::pinning).
    pub device_bucket: usize,
}

impl Pipeline {
    /// How many times the CPU's work is done: once but for the papers' figures.
    pub(crate) fn cpu_times(&self) -> u32 {
        #[cfg(feature = "papers")]
        return self.throttle.cpu.max(1);
        #[cfg(not(feature = "papers"))]
        1
    }

    /// How many times the device's.
    pub(crate) fn device_times(&self) -> u32 {
        #[cfg(feature = "papers")]
        return self.throttle.device.max(1);
        #[cfg(not(feature = "papers"))]
        1
    }
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            bucket: 1 << 14,
            strategy: Strategy::default(),
            pipelines: 0,
            device_search: DeviceSearch::default(),
            transfers: Transfers::default(),
            split: Split::default(),
            balance: Balance::default(),
            sample: 1 << 20,
            #[cfg(feature = "papers")]
            throttle: Throttle::default(),
            device_bucket: 1 << 22,
        }
    }
}

/// What a build has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BuildTimes {
    /// Laying out the leaves.
    pub leaves: Duration,
    /// Making the inner levels.
    pub inner: Duration,
    /// Sending the inner levels to the device.
    pub transfer: Duration,
}

/// How a batch of changes of a regular tree gets to the device (section 5.6). All have the same effect. With all of them a
/// task has all changes of a big leaf, so that no node is locked; and with all but [`UpdateMethod::Whole`] the device gets the
/// new nodes before the host does: so a device that fails leaves the host's tree as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum UpdateMethod {
    /// Asynchronous for batches of fewer than 64 K keys, synchronized for larger ones.
    #[default]
    Auto,
    /// All threads make new nodes, as many as there is pinned memory for, and then these are sent. The paper's method sends all
    /// nodes, always, and has changed them on the host before: [`UpdateMethod::Whole`].
    Asynchronous,
    /// Each thread sends the nodes that it has made while the others make more of them. The paper has one thread that makes
    /// nodes, and another that sends them one by one: [`UpdateMethod::Queue`]. Here they are sent by the hundred.
    Synchronized,
    /// The paper's synchronized method: a thread makes one new node after another and puts them into a queue, and
    /// another thread takes them out and sends each by itself. There to be compared with the other methods; it is
    /// slower.
    Queue,
    /// The paper's asynchronous method: the host changes its tree, and then all inner nodes are sent. Requests of
    /// [`HbTree::mixed`](crate::HbTree::mixed), of which inserts and removals alone are some, are done in groups of 16
    /// K, and the nodes are sent once, at its end. Until then the device has no copy. If it fails then, the batch has
    /// taken place, and the CPU answers alone ([`Stats::on_device`](crate::Stats::on_device) has the reason) until a
    /// later change sends the nodes again. There to be compared with the other methods.
    Whole,
}

/// What the last batch of changes of a regular tree has taken, by its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateTimes {
    /// Sorting the operations, and combining the operations of each key. With
    /// [`Builder::device_updates`](crate::Builder::device_updates) also the descent.
    pub fold: Duration,
    /// Finding the places of the keys: from the root on, or in leaves that the device has found.
    pub find: Duration,
    /// Finding out what changes, splits and merges among it.
    pub plan: Duration,
    /// Making room for new nodes on the host, if there is none.
    pub room: Duration,
    /// Making the nodes that the device is to have, and sending them.
    pub device: Duration,
    /// Writing leaves and nodes on the host.
    pub host: Duration,
}
