//! Host batches partitioned by shard, and results put into the batch's order.

use core::mem::MaybeUninit;
use core::ops::Range;
use lanetree_frame::parallel::*;
use lanetree_frame::room::with_room;
use lanetree_frame::{AnyKey, Result};
use std::borrow::Cow;

/// The most shards: their numbers fit into a byte, and a block's counts into a few cache lines.
pub(crate) const MAX_SHARDS: usize = 64;

/// Elements per task on the CPU.
const BLOCK: usize = 1 << 14;

/// The shard of a key: each splitter is the smallest key that the shard past it may hold.
pub(crate) fn shard_of<K: Ord>(splitters: &[K], key: &K) -> usize {
    splitters.partition_point(|splitter| splitter <= key)
}

/// How a batch is partitioned among the shards. Elements of one shard keep their order, so both directions follow one counter per
/// shard, and no positions are stored.
#[derive(Debug)]
pub(crate) struct Route {
    /// Elements of each shard.
    sizes: Vec<usize>,
    /// Elements of the batch.
    len: usize,
    arrangement: Arrangement,
}

#[derive(Debug)]
enum Arrangement {
    /// The shards' parts are adjacent, in the order of the shards: the batch is sorted, or of one shard.
    Cut,
    Scattered {
        /// Each element's shard.
        shards: Vec<u8>,
        /// For each block, the number of each shard's elements before it.
        starts: Vec<[usize; MAX_SHARDS]>,
    },
}

impl Route {
    /// Partitions `len` elements by their keys.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if main memory has no room for it.
    pub(crate) fn new<K: AnyKey>(splitters: &[K], len: usize, key: impl Fn(usize) -> K + Sync) -> Result<Self> {
        let count = splitters.len() + 1;
        let is_sorted = || (1..len).into_par_iter().with_min_len(BLOCK).all(|at| key(at - 1) <= key(at));
        if count == 1 || is_sorted() {
            let mut ends: Vec<usize> = splitters.iter().map(|splitter| first(len, |at| key(at) >= *splitter)).collect();
            ends.push(len);
            let sizes = ends.iter().scan(0, |before, &end| Some(end - core::mem::replace(before, end))).collect();
            return Ok(Self { sizes, len, arrangement: Arrangement::Cut });
        }
        let shard = |at| shard_of(splitters, &key(at)) as u8;
        let shards = (0..len).into_par_iter().with_min_len(BLOCK).map(shard).try_collect()?;
        let counts = |block: &[u8]| {
            let mut counts = [0; MAX_SHARDS];
            block.iter().for_each(|&shard| counts[usize::from(shard)] += 1);
            counts
        };
        let mut starts: Vec<[usize; MAX_SHARDS]> = shards.par_chunks(BLOCK).map(counts).try_collect()?;
        let mut sizes = vec![0; count];
        for block in &mut starts {
            for (size, start) in sizes.iter_mut().zip(block) {
                *size += core::mem::replace(start, *size);
            }
        }
        let arrangement =
            if sizes.contains(&len) { Arrangement::Cut } else { Arrangement::Scattered { shards, starts } };
        Ok(Self { sizes, len, arrangement })
    }

    /// A batch that consists of its shards' parts, one after another.
    pub(crate) fn of_parts(sizes: Vec<usize>) -> Self {
        Self { len: sizes.iter().sum(), sizes, arrangement: Arrangement::Cut }
    }

    /// The blocks that tasks take.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.len.div_ceil(BLOCK)).map(|block| self.block(block))
    }

    fn block(&self, block: usize) -> Range<usize> {
        block * BLOCK..self.len.min((block + 1) * BLOCK)
    }

    /// Calls a function for each element of a block, with its position in the batch, its shard, and its position in the shard's part.
    pub(crate) fn each(&self, block: Range<usize>, mut each: impl FnMut(usize, usize, usize)) {
        match &self.arrangement {
            Arrangement::Cut => {
                let mut before = 0;
                for (shard, size) in self.sizes.iter().enumerate() {
                    let piece = block.start.max(before)..block.end.min(before + size);
                    piece.for_each(|at| each(at, shard, at - before));
                    before += size;
                }
            }
            Arrangement::Scattered { shards, starts } => {
                let mut next = starts[block.start / BLOCK];
                for at in block {
                    let next = &mut next[usize::from(shards[at])];
                    each(at, usize::from(shards[at]), *next);
                    *next += 1;
                }
            }
        }
    }

    /// A column of the batch, in a part for each shard.
    ///
    /// # Errors
    /// As [`Route::new`].
    pub(crate) fn split<'a, T: Copy + Send + Sync>(&self, column: &'a [T]) -> Result<Vec<Cow<'a, [T]>>> {
        assert_eq!(column.len(), self.len, "a column of the batch");
        let Arrangement::Scattered { shards, starts } = &self.arrangement else {
            let mut rest = column;
            let cut = |&size: &usize| {
                let part;
                (part, rest) = rest.split_at(size);
                Cow::Borrowed(part)
            };
            return Ok(self.sizes.iter().map(cut).collect());
        };
        let mut parts = self.sizes.iter().map(|&size| with_room::<T>(size)).collect::<Result<Vec<_>>>()?;
        let mut tasks: Vec<Vec<&mut [MaybeUninit<T>]>> =
            starts.iter().map(|_| Vec::with_capacity(parts.len())).collect();
        for (shard, part) in parts.iter_mut().enumerate() {
            let mut rest = &mut part.spare_capacity_mut()[..self.sizes[shard]];
            for (block, task) in tasks.iter_mut().enumerate() {
                let end = starts.get(block + 1).map_or(self.sizes[shard], |next| next[shard]);
                let part;
                (part, rest) = rest.split_at_mut(end - starts[block][shard]);
                task.push(part);
            }
        }
        tasks.into_par_iter().enumerate().for_each(|(block, mut parts)| {
            let (mut next, block) = ([0; MAX_SHARDS], self.block(block));
            for (&item, &shard) in column[block.clone()].iter().zip(&shards[block]) {
                let shard = usize::from(shard);
                parts[shard][next[shard]].write(item);
                next[shard] += 1;
            }
        });
        for (part, &size) in parts.iter_mut().zip(&self.sizes) {
            // SAFETY: a block writes as many elements as were counted in it, and the counts add up to the size.
            unsafe { part.set_len(size) };
        }
        Ok(parts.into_iter().map(Cow::Owned).collect())
    }

    /// The shards' results, in the batch's order.
    ///
    /// # Errors
    /// As [`Route::new`].
    pub(crate) fn merge<T: Copy + Send + Sync>(&self, mut parts: Vec<Vec<T>>) -> Result<Vec<T>> {
        assert!(parts.iter().map(Vec::len).eq(self.sizes.iter().copied()), "a result for each element");
        if let Some(only) = self.sizes.iter().position(|&size| size == self.len) {
            return Ok(parts.swap_remove(only));
        }
        let mut all = with_room(self.len)?;
        let out = &mut all.spare_capacity_mut()[..self.len];
        out.par_chunks_mut(BLOCK).enumerate().for_each(|(block, out)| {
            let block = self.block(block);
            self.each(block.clone(), |at, shard, own| {
                out[at - block.start].write(parts[shard][own]);
            });
        });
        // SAFETY: each element of each block has been written.
        unsafe { all.set_len(self.len) };
        Ok(all)
    }
}

/// The first number below `len` for which a condition holds that then holds for all larger ones; `len` if there is none.
pub(crate) fn first(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn batches_go_to_their_shards_and_come_back_in_order() {
        let mut random = StdRng::seed_from_u64(41);
        let many: Vec<u64> = (0..3 * BLOCK + 77).map(|_| random.random_range(0..100)).collect();
        let mut sorted = many.clone();
        sorted.sort_unstable();
        let one_shard: Vec<u64> = many.iter().map(|key| 30 + key % 10).collect();
        for splitters in [&[][..], &[50], &[0, 30, 40, 40, 99], &[200, 300]] {
            for keys in [&[][..], &[7], &[7, 7, 7], &[60, 3, 60], &many, &sorted, &one_shard] {
                let route = Route::new(splitters, keys.len(), |at| keys[at]).unwrap();
                let parts = route.split(keys).unwrap();
                for (shard, part) in parts.iter().enumerate() {
                    let own = keys.iter().copied().filter(|key| shard_of(splitters, key) == shard);
                    assert!(own.eq(part.iter().copied()), "shard {shard} of {splitters:?}");
                }
                let back = route.merge(parts.into_iter().map(Cow::into_owned).collect()).unwrap();
                assert_eq!(back, keys, "{splitters:?}");
            }
        }
    }
}
