//! Ordered queries on the host after changes in place, which leave the values in another order than the keys. The tree of keys knows how
//! many pairs are before each of its nodes, so pairs are found, and copied, by their ranks.
//!
//! A place without values stands for a rank here: what is made of the places of keys, such as spans, is made of these alike.

use crate::contents::Contents;
use crate::places::{TASK, slice, slice_mut};
use core::ops::ControlFlow;
use lanetree_frame::fixed::Side;
use lanetree_frame::parallel::*;
use lanetree_frame::room::zeroed;
use lanetree_frame::{Buffer, DeviceKind, Result};
use lanetree_kernels_multimap::layout::{begin, count, place};
use lanetree_layout::{AnyKey, Word};

impl<K: AnyKey, V: Word> Contents<K, V> {
    /// Whether ordered queries go by ranks.
    pub(crate) fn is_by_rank(&self) -> bool {
        !self.is_ordered() && self.keys.device().kind() == DeviceKind::Host
    }

    /// The numbers of pairs with keys below the first queries, or at or below them, as places without values.
    pub(crate) fn rank_places(
        &self,
        queries: &Buffer<K>,
        len: usize,
        side: Side,
        places: &mut Buffer<u64>,
    ) -> Result<()> {
        let places = &mut slice_mut(places)[..len];
        self.keys.weight_ranks(&slice(queries)[..len], side == Side::Upper, places)?;
        places.par_iter_mut().with_min_len(TASK).for_each(|at| *at = place(*at, 0));
        Ok(())
    }

    /// The values of a key on the host.
    pub(crate) fn run(&self, place: u64) -> &[V] {
        let (first, len) = (begin(place) as usize, count(place) as usize);
        match first.checked_sub(self.values.len()) {
            None => &slice(&self.values)[first..first + len],
            Some(first) => &self.more.as_ref().map_or(&[][..], slice)[first..first + len],
        }
    }

    /// The same, to be written: with room that they have, if more are asked for.
    pub(crate) fn run_mut(&mut self, place: u64) -> &mut [V] {
        let (first, len) = (begin(place) as usize, count(place) as usize);
        match first.checked_sub(self.values.len()) {
            None => &mut slice_mut(&mut self.values)[first..first + len],
            Some(first) => &mut self.more.as_mut().map_or(&mut [][..], slice_mut)[first..first + len],
        }
    }

    /// Copies values, and, if there is room for as many keys, their keys: of pairs from a rank on, as far as there are pairs. Returns
    /// how many these are.
    pub(crate) fn copy_from_rank(&self, rank: u64, keys: &mut [K], values: &mut [V]) -> usize {
        let mut done = 0;
        if !values.is_empty() {
            self.keys.each_from(rank, |key, place, skipped| {
                let run = &self.run(place)[skipped as usize..];
                let end = values.len().min(done + run.len());
                values[done..end].copy_from_slice(&run[..end - done]);
                if let Some(keys) = keys.get_mut(done..end) {
                    keys.fill(key);
                }
                done = end;
                if done < values.len() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        }
        done
    }

    /// Copies rows of pairs, each of so many from a rank on, one after the other, as far as there is room for values; of past the last
    /// pair, `miss`.
    pub(crate) fn copy_rows(
        &self,
        (begins, lens): (&[u64], &[u64]),
        miss: V,
        keys: Option<&mut [K]>,
        values: &mut [V],
    ) -> Result<()> {
        let mut ends = zeroed(lens.len())?;
        let mut total = 0_u64;
        ends.iter_mut().zip(lens).for_each(|(end, len)| {
            total = total.saturating_add(*len);
            *end = total;
        });
        let all = usize::try_from(total).unwrap_or(usize::MAX).min(values.len());
        let copy = |first: usize, mut keys: &mut [K], mut values: &mut [V]| {
            let mut row = ends.partition_point(|&end| end <= first as u64);
            let mut at = first as u64;
            while !values.is_empty() {
                let len = usize::try_from(ends[row] - at).unwrap_or(usize::MAX).min(values.len());
                let (own, others) = values.split_at_mut(len);
                let (own_keys, other_keys) = keys.split_at_mut(len.min(keys.len()));
                let rank = begins[row].saturating_add(lens[row] - (ends[row] - at));
                let copied = self.copy_from_rank(rank, own_keys, own);
                own[copied..].fill(miss);
                (values, keys, at, row) = (others, other_keys, at + len as u64, row + 1);
            }
        };
        let tasks = values[..all].par_chunks_mut(TASK);
        match keys {
            None => tasks.enumerate().for_each(|(task, values)| copy(task * TASK, &mut [], values)),
            Some(keys) => tasks.zip(keys[..all].par_chunks_mut(TASK)).enumerate().for_each(|(task, (values, keys))| {
                copy(task * TASK, keys, values);
            }),
        }
        Ok(())
    }
}
