//! Point look-ups, ranks and neighbours, in host form: slices in, vectors out.

use super::Harmonia;
use super::lookup::NeighborOutputs;
use super::native::TASK;
use super::streaming::copy_past_caches;
use crate::staging::Results;
use crate::{Error, Result};
use lanetree_kernels_harmonia::Side;
use lanetree_layout::{Key, Word};
use lanetree_runtime::DeviceKind;
use rayon::prelude::*;

impl<K: Key, V: Word> Harmonia<K, V> {
    /// The value of each key, `None` for a key that is not present. Returns when the results are complete.
    ///
    /// On a GPU a large batch is split into pieces, several of which are in flight at a time
    /// ([`Harmonia::get_many_pinned`] avoids the copies that this needs on the CPU). The memory for this is kept for
    /// the next batch.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the device has no room for the batch, or from its driver. [`Error::Lost`] after a batch of
    /// updates that failed half-way on the device.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut out = vec![None; keys.len()];
        self.get_many_into(keys, &mut out)?;
        Ok(out)
    }

    /// [`Harmonia::get_many`] into a slice with one element per key.
    ///
    /// # Errors
    /// As [`Harmonia::get_many`], and [`Error::OutputLength`].
    pub fn get_many_into(&self, keys: &[K], out: &mut [Option<V>]) -> Result<()> {
        check_output(keys.len(), out.len())?;
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                tree.get(keys, |i, value| out[i] = value);
            });
            return Ok(());
        }
        self.stage(
            keys,
            out,
            Results { arrays: [V::BYTES, 0], bits: 1 },
            |stream, queries, count, out| {
                // SAFETY: the lane's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.on(stream).launch_get(queries, count, out.arrays[0].cast(), out.found, V::MIN) }
            },
            |piece, out| {
                let values = piece.array::<V>(0);
                piece.place(out, |i| values[i]);
            },
        )
    }

    /// The value of each key, or `miss` for one that is not present, into a slice. Writes half the bytes that
    /// [`Harmonia::get_many_into`] writes. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`Harmonia::get_many_into`].
    pub fn get_many_or(&self, keys: &[K], miss: V, out: &mut [V]) -> Result<()> {
        check_output(keys.len(), out.len())?;
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                tree.get(keys, |i, value| out[i] = value.unwrap_or(miss));
            });
            return Ok(());
        }
        self.stage(
            keys,
            out,
            Results { arrays: [V::BYTES, 0], bits: 0 },
            |stream, queries, count, out| {
                // SAFETY: the lane's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.on(stream).launch_get(queries, count, out.arrays[0].cast(), out.found, miss) }
            },
            |piece, out| copy_past_caches(piece.array(0), out),
        )
    }

    /// The number of keys below each of `keys`: the rank that the key has, or would have if inserted.
    ///
    /// # Errors
    /// As [`Harmonia::get_many`].
    pub fn lower_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.rank_many(keys, Side::Lower)
    }

    /// The number of keys at or below each of `keys`.
    ///
    /// # Errors
    /// As [`Harmonia::get_many`].
    pub fn upper_bound_many(&self, keys: &[K]) -> Result<Vec<u64>> {
        self.rank_many(keys, Side::Upper)
    }

    fn rank_many(&self, keys: &[K], side: Side) -> Result<Vec<u64>> {
        let mut out = vec![0; keys.len()];
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                tree.rank(keys, side == Side::Upper, |i, rank| out[i] = rank);
            });
            return Ok(out);
        }
        self.stage(
            keys,
            &mut out,
            Results { arrays: [u64::BYTES, 0], bits: 0 },
            |stream, queries, count, out| {
                // SAFETY: the lane's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.on(stream).launch_rank(queries, count, out.arrays[0].cast(), side) }
            },
            |piece, out| copy_past_caches(piece.array(0), out),
        )?;
        Ok(out)
    }

    /// The last pair whose key is at or below each of `keys`: the key itself if it is present.
    ///
    /// # Errors
    /// As [`Harmonia::get_many`].
    pub fn predecessor_many(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.neighbor_many(keys, Side::Upper)
    }

    /// The first pair whose key is at or above each of `keys`: the key itself if it is present.
    ///
    /// # Errors
    /// As [`Harmonia::get_many`].
    pub fn successor_many(&self, keys: &[K]) -> Result<Vec<Option<(K, V)>>> {
        self.neighbor_many(keys, Side::Lower)
    }

    fn neighbor_many(&self, keys: &[K], side: Side) -> Result<Vec<Option<(K, V)>>> {
        let mut out = vec![None; keys.len()];
        if let Some(tree) = self.native() {
            keys.par_chunks(TASK).zip(out.par_chunks_mut(TASK)).for_each(|(keys, out)| {
                tree.neighbor(keys, side == Side::Upper, |i, pair| out[i] = pair);
            });
            return Ok(out);
        }
        self.stage(
            keys,
            &mut out,
            Results { arrays: [V::BYTES, K::Bits::BYTES], bits: 1 },
            |stream, queries, count, out| {
                let [values, keys] = out.arrays;
                let outputs = NeighborOutputs { keys: keys.cast(), values: values.cast(), found: out.found };
                // SAFETY: the lane's memory is for that many queries, and its pointers are for the stream.
                unsafe { self.on(stream).launch_neighbor(queries, count, outputs, V::MIN, side) }
            },
            |piece, out| {
                let (values, keys) = (piece.array::<V>(0), piece.array::<K::Bits>(1));
                // Results are in the caller's form, not ordered words.
                let key = |i: usize| K::decode(keys[i].xor(K::FLIP));
                piece.place(out, |i| (key(i), values[i]));
            },
        )?;
        Ok(out)
    }

    /// The tree for the CPU, if it is the CPU that searches it.
    pub(super) fn native(&self) -> Option<super::native::View<'_, K, V>> {
        if self.device().kind() == DeviceKind::Host { self.view() } else { None }
    }
}

fn check_output(keys: usize, out: usize) -> Result<()> {
    if out == keys {
        return Ok(());
    }
    Err(Error::OutputLength { what: "the output", expected: keys, found: out })
}
