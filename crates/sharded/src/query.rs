//! Shards as routers see them, and queries of parts of a batch.

use crate::slots::{BucketResults, Shape, write};
use lanetree_frame::fixed::{Neighbors, Query};
use lanetree_frame::{AnyKey, Device, KeyWord, Launches, Result, Stream, Word};
use lanetree_simt::{GetBatch, Global, GlobalMut, NeighborBatch, RankBatch};

/// A shard.
pub(crate) struct Shard<'a, K: AnyKey, V: Word> {
    pub(crate) device: &'a Device,
    pub(crate) launches: &'a dyn Launches<K, V>,
}

/// All shards of an index, in the order of their keys.
pub(crate) struct Shards<'a, K: AnyKey, V: Word> {
    pub(crate) all: Vec<Shard<'a, K, V>>,
    pub(crate) splitters: &'a [K],
    /// For each shard the number of pairs in the shards before it.
    pub(crate) before: &'a [u64],
    /// For neighbours: the pair that a query finds if its own shard has none.
    pub(crate) fallbacks: Neighbors<K, V>,
    /// False for sets: their kernels write no values.
    pub(crate) has_values: bool,
}

impl<K: AnyKey, V: Word> Shards<'_, K, V> {
    /// The distinct devices, the batch's first; and for each shard the number of its device.
    pub(crate) fn devices(&self, home: &Device) -> (Vec<Device>, Vec<usize>) {
        let mut devices = vec![home.clone()];
        let mut numbers = Vec::with_capacity(self.all.len());
        for shard in &self.all {
            let known = devices.iter().position(|device| device == shard.device);
            numbers.push(known.unwrap_or(devices.len()));
            devices.extend(known.is_none().then(|| shard.device.clone()));
        }
        (devices, numbers)
    }

    /// Whether a query wants all results that a look-up writes.
    pub(crate) fn wants_all(&self, query: &Query<K::Bits, V>) -> bool {
        !self.has_values || !matches!(query, Query::Get(batch) if batch.values.is_null())
    }

    /// The columns of results that a look-up writes.
    pub(crate) fn shape(&self, query: &Query<K::Bits, V>) -> Shape {
        let value = if self.has_values { V::BYTES } else { 0 };
        match query {
            Query::Get(batch) => Shape { columns: [value, 0], has_hits: !batch.hits.is_null() },
            Query::Rank(_) => Shape { columns: [8, 0], has_hits: false },
            Query::Neighbor(_) => Shape { columns: [value, K::Bits::BYTES], has_hits: true },
            Query::Locate(_) | Query::Gather(..) | Query::Aggregate(_) => not_routed(),
        }
    }
}

/// The queries of a batch, and their number.
pub(crate) fn queries_of<B, V>(query: &Query<B, V>) -> (Global<B>, usize) {
    let (queries, count) = match query {
        Query::Get(GetBatch { queries, count, .. })
        | Query::Rank(RankBatch { queries, count, .. })
        | Query::Neighbor(NeighborBatch { queries, count, .. }) => (*queries, *count),
        Query::Locate(_) | Query::Gather(..) | Query::Aggregate(_) => not_routed(),
    };
    (queries, count as usize)
}

/// A shard's queries of a piece, and where their results go: from an element of columns on.
pub(crate) struct Bucket<'a, B> {
    pub(crate) queries: Global<B>,
    pub(crate) count: usize,
    pub(crate) results: &'a mut BucketResults,
    pub(crate) first: usize,
}

impl<B: KeyWord> Bucket<'_, B> {
    /// A batch's query, for this bucket.
    pub(crate) fn query<V: Word>(self, query: &Query<B, V>, shape: Shape, stream: &Stream) -> Result<Query<B, V>> {
        let Self { queries, count, results, first } = self;
        let (count, [column, second]) = (count as u64, &mut results.columns);
        let hits = match shape.has_hits {
            true => after(results.hits.write_on(stream)?, first / 32),
            false => GlobalMut::null(),
        };
        let mut values = |bytes: usize| if bytes == 0 { Ok(GlobalMut::null()) } else { write(column, stream, first) };
        Ok(match *query {
            Query::Get(batch) => {
                Query::Get(GetBatch { queries, count, values: values(shape.columns[0])?, hits, ..batch })
            }
            Query::Rank(batch) => {
                Query::Rank(RankBatch { queries, count, ranks: write(column, stream, first)?, ..batch })
            }
            Query::Neighbor(batch) => {
                let (keys, values) = (write(second, stream, first)?, values(shape.columns[0])?);
                Query::Neighbor(NeighborBatch { queries, count, keys, values, hits, ..batch })
            }
            Query::Locate(_) | Query::Gather(..) | Query::Aggregate(_) => not_routed(),
        })
    }
}

fn not_routed() -> ! {
    unreachable!("ranges have a router of their own")
}

/// The pointer `count` elements further on; null stays null.
pub(crate) fn after<T>(pointer: GlobalMut<T>, count: usize) -> GlobalMut<T> {
    if pointer.is_null() { pointer } else { pointer.byte_add((count * size_of::<T>()) as u64) }
}
