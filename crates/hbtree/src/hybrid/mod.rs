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
#[cfg(feature = "papers")]
mod stages;

pub(crate) use alone::WideSlot;
pub use balance::{Discovery, Sample};
pub(crate) use buckets::Slots;
pub(crate) use descent::DescentSlot;
pub(crate) use pace::Pace;
#[cfg(feature = "papers")]
pub use stages::StageTimes;

use crate::options::{Options, Pipeline};
use crate::structure::{CopyOf, Structure};
use buckets::Shape;
use lanetree_frame::Device;
use lanetree_layout::Key;
use lanetree_runtime::PinnedBuffer;
use std::sync::Mutex;

/// The fewest queries of a bucket, unless the batch has fewer.
const SHORT_BUCKET: usize = 1 << 12;

/// Batches of so few queries are a single bucket.
const SHORT_BATCH: usize = 1 << 15;

impl Shape {
    /// The shape of the way of a batch.
    fn of(pipeline: &Pipeline, queries: usize) -> Self {
        let (bucket, ahead) = (pipeline.bucket.min(queries).max(1), pipeline.strategy.ahead());
        let pipelines = if pipeline.pipelines == 0 { lanetree_runtime::threads() } else { pipeline.pipelines };
        if pipelines == 1 {
            return Shape { bucket, ahead, pipelines };
        }
        let even = queries.div_ceil(pipelines).next_multiple_of(32).max(SHORT_BUCKET);
        match queries {
            // All threads finish it together.
            ..=SHORT_BATCH if queries <= pipeline.bucket => Shape { bucket, ahead, pipelines: 1 },
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

/// What a batch goes through.
pub(crate) struct Route<'a, K: Key, L: Structure> {
    pub(crate) device: &'a Device,
    pub(crate) inner: &'a L::Inner<K>,
    pub(crate) copy: &'a CopyOf<K, L>,
    pub(crate) options: &'a Options,
    pub(crate) discovery: &'a Mutex<Discovery>,
    /// All queries of the batch, if the caller has them in pinned memory.
    pub(crate) pinned: Option<&'a PinnedBuffer<K>>,
}
