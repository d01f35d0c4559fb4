//! What is asked of shards: the question of a whole batch, and the same of a piece's bucket.

use crate::slots::{Found, Shape, write};
use lanetree_frame::fixed::Query;
use lanetree_frame::{AnyKey, Device, KeyWord, Launches, Result, Stream, Word};
use lanetree_simt::{GetBatch, Global, GlobalMut, Near, NeighborBatch, RankBatch};

/// A shard, for a router.
pub(crate) struct Shard<'a, K: AnyKey, V: Word> {
    pub(crate) device: &'a Device,
    pub(crate) launches: &'a dyn Launches<K, V>,
}

/// All of them, in the order of their keys.
pub(crate) type Shards<'i, K, V> = Vec<Shard<'i, K, V>>;

/// A batch's device and those of all shards, each once, and the number of each shard's.
pub(crate) fn numbered<K: AnyKey, V: Word>(home: &Device, shards: &[Shard<'_, K, V>]) -> (Vec<Device>, Vec<usize>) {
    let mut devices = vec![home.clone()];
    let mut numbers = Vec::with_capacity(shards.len());
    for shard in shards {
        let known = devices.iter().position(|device| device == shard.device);
        numbers.push(known.unwrap_or(devices.len()));
        devices.extend(known.is_none().then(|| shard.device.clone()));
    }
    (devices, numbers)
}

/// What is asked of a batch, and where the results go, in memory that the caller's stream may write; null where they are not wanted.
pub(crate) enum Question<'a, K: AnyKey, V> {
    Get {
        values: GlobalMut<V>,
        hits: GlobalMut<u32>,
        miss: V,
    },
    /// Of sets, which have no values.
    Contains {
        hits: GlobalMut<u32>,
    },
    Rank {
        ranks: GlobalMut<u64>,
        upper: bool,
        /// The pairs before each shard.
        before: &'a [u64],
    },
    /// The pair at or below (`upper`), or at or above. The values are null for sets.
    Neighbor {
        keys: GlobalMut<K::Bits>,
        values: GlobalMut<V>,
        hits: GlobalMut<u32>,
        miss: V,
        upper: bool,
        /// The pair that a shard's queries find where the shard has none.
        fallbacks: &'a [Option<(K, V)>],
    },
}

/// The queries of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Queries<W> {
    pub(crate) at: Global<W>,
    pub(crate) count: usize,
    pub(crate) is_sorted: bool,
    /// Whether other devices may write results where the question says, before work that comes later in the caller's stream.
    pub(crate) is_spread: bool,
}

impl<K: AnyKey, V: Word> Question<'_, K, V> {
    pub(crate) fn shape(&self) -> Shape {
        let key = K::Bits::BYTES;
        match self {
            Self::Get { hits, .. } => Shape { columns: [V::BYTES, 0], has_hits: !hits.is_null() },
            Self::Contains { .. } => Shape { columns: [0, 0], has_hits: true },
            Self::Rank { .. } => Shape { columns: [8, 0], has_hits: false },
            Self::Neighbor { values, .. } => {
                Shape { columns: [if values.is_null() { 0 } else { V::BYTES }, key], has_hits: true }
            }
        }
    }

    /// Whether it wants every result that a look-up writes in any case.
    pub(crate) fn wants_all(&self) -> bool {
        !matches!(self, Self::Get { values, .. } if values.is_null())
    }

    /// The same, of a shard's bucket of a piece, at an element of the columns.
    pub(crate) fn of_bucket(&self, stream: &Stream, found: &mut Found, first: usize) -> Result<Self> {
        let [column, second] = &mut found.columns;
        let hits = match self.shape().has_hits {
            true => after(found.hits.write_on(stream)?, first / 32),
            false => GlobalMut::null(),
        };
        Ok(match *self {
            Self::Get { miss, .. } => Self::Get { values: write(column, stream, first)?, hits, miss },
            Self::Contains { .. } => Self::Contains { hits },
            Self::Rank { upper, before, .. } => Self::Rank { ranks: write(column, stream, first)?, upper, before },
            Self::Neighbor { values, miss, upper, fallbacks, .. } => {
                let keys = write(second, stream, first)?;
                let values = if values.is_null() { values } else { write(column, stream, first)? };
                Self::Neighbor { keys, values, hits, miss, upper, fallbacks }
            }
        })
    }

    /// Asks one shard, of its own pairs alone.
    ///
    /// # Safety
    /// There are `count` queries at the address, which the stream may read, and as much room for results.
    pub(crate) unsafe fn ask(
        &self,
        shard: &Shard<'_, K, V>,
        stream: &Stream,
        is_sorted: bool,
        (queries, count): (Global<K::Bits>, usize),
    ) -> Result<()> {
        let count = count as u64;
        let query = match *self {
            Self::Get { values, hits, miss } => Query::Get(GetBatch { queries, count, values, hits, miss }),
            Self::Contains { hits } => {
                Query::Get(GetBatch { queries, count, values: GlobalMut::null(), hits, miss: V::MIN })
            }
            Self::Rank { ranks, upper, .. } => Query::Rank(RankBatch { queries, count, ranks, upper: upper.into() }),
            Self::Neighbor { keys, values, hits, miss, upper, .. } => {
                let (predecessor, near) = (upper.into(), Near::ANY);
                Query::Neighbor(NeighborBatch { queries, count, keys, values, hits, predecessor, miss, near })
            }
        };
        // SAFETY: the caller's contract.
        unsafe { shard.launches.launch(stream, is_sorted, &query) }
    }
}

/// The pointer `count` elements further on; null stays null.
pub(crate) fn after<T>(pointer: GlobalMut<T>, count: usize) -> GlobalMut<T> {
    if pointer.is_null() { pointer } else { pointer.byte_add((count * size_of::<T>()) as u64) }
}
