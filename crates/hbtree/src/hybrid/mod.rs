//! A batch of queries through both: the device descends the inner levels, the CPU searches the leaves (section 5.4).
//!
//! A batch is split into buckets. A pipeline has some of them under way at a time; several threads have a pipeline each,
//! and none waits for another. With a single pipeline, all threads search the leaves of a bucket together, as in the
//! paper.

mod alone;
mod balance;
mod buckets;
mod descent;
mod pace;

pub(crate) use alone::WideSlot;
pub use balance::{Discovery, Sample};
pub(crate) use buckets::Slots;
pub(crate) use descent::DescentSlot;
pub(crate) use pace::Pace;

use crate::build::Options;
use crate::device::DeviceSearch;
use crate::structure::{Inner, Structure};
use buckets::Shape;
use lanetree_frame::Device;
use lanetree_layout::Key;
use std::sync::Mutex;

/// How buckets follow one another (section 5.4, figures 5 and 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
    fn ahead(self) -> usize {
        match self {
            Self::Sequential => 0,
            Self::Pipelined => 1,
            Self::DoubleBuffered => 2,
            Self::TripleBuffered => 3,
        }
    }
}

/// How much of the descent is the CPU's (section 5.5): the levels above `depth` for all queries, and for a share of
/// them one level more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Split {
    /// Levels that the CPU descends: the paper's D.
    pub depth: u32,
    /// The share of queries, from 0 to 1, for which it descends another one: 1 - R in the paper.
    pub share: f64,
}

/// Who decides on the [`Split`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Balance {
    /// It is as given.
    #[default]
    Fixed,
    /// The discovery algorithm, by samples of the first large batches ([`Discovery`]); again when the load has changed.
    Live,
}

/// How much slower a part is made: so many times its work is done.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Throttle {
    /// The CPU's work.
    pub cpu: u32,
    /// The device's descents.
    pub device: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { cpu: 1, device: 1 }
    }
}

/// How a hybrid tree answers batches.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// What of the descent is the CPU's.
    pub split: Split,
    /// Whether it is that, or found out by large batches.
    pub balance: Balance,
    /// Queries of a sample: enough to outweigh what a bucket costs by itself.
    pub sample: usize,
    /// For tests and measurements: how many times the work of the CPU and of the device is done over.
    #[doc(hidden)]
    pub throttle: Throttle,
    /// Most queries that the device answers alone at a time, reading their leaves across the bus, while the pipelines answer
    /// others; 0: none. It takes large batches, and pinned leaves: [`Builder::pinning`](crate::Builder::pinning).
    pub device_bucket: usize,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            bucket: 1 << 14,
            strategy: Strategy::default(),
            pipelines: 0,
            device_search: DeviceSearch::default(),
            split: Split::default(),
            balance: Balance::default(),
            sample: 1 << 18,
            throttle: Throttle::default(),
            device_bucket: 1 << 21,
        }
    }
}

/// The fewest queries of a bucket, unless the batch has fewer.
const SHORT_BUCKET: usize = 1 << 12;

/// Batches of so few queries are a single bucket.
const SHORT_BATCH: usize = 1 << 15;

impl Pipeline {
    /// The shape of a batch's way.
    fn shape(&self, queries: usize) -> Shape {
        let (bucket, ahead) = (self.bucket.min(queries).max(1), self.strategy.ahead());
        let pipelines = if self.pipelines == 0 { rayon::current_num_threads() } else { self.pipelines };
        if pipelines == 1 {
            return Shape { bucket, ahead, pipelines };
        }
        let even = queries.div_ceil(pipelines).next_multiple_of(32).max(SHORT_BUCKET);
        match queries {
            // All threads finish it together.
            ..=SHORT_BATCH if queries <= self.bucket => Shape { bucket, ahead, pipelines: 1 },
            _ => {
                let bucket = bucket.min(even);
                Shape { bucket, ahead, pipelines: pipelines.min(queries.div_ceil(bucket)) }
            }
        }
    }
}

/// The part of a bucket that is a share of it.
fn share_of(count: usize, share: f64) -> usize {
    ((count as f64 * share) as usize).min(count)
}

/// A copy of inner levels on a device.
pub(crate) type CopyOf<K, L> = <<L as Structure>::Inner<K> as Inner<K>>::OnDevice;

/// What a batch goes through.
pub(crate) struct Route<'a, K: Key, L: Structure> {
    pub(crate) device: &'a Device,
    pub(crate) inner: &'a L::Inner<K>,
    pub(crate) copy: &'a CopyOf<K, L>,
    pub(crate) options: &'a Options,
    pub(crate) discovery: &'a Mutex<Discovery>,
}
