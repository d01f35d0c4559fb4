//! The paper's choice of a thread group's width (section 4.2).

use super::Harmonia;
use lanetree_frame::Result;
use lanetree_kernels_harmonia::layout::inner_slot;
use lanetree_kernels_harmonia::{group_widths, slots_at_once};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_simt::WARP;
use std::collections::HashMap;

/// What a sample of queries says about each width of thread groups.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupProfile {
    /// The widths that were tried, the widest first.
    pub widths: Vec<WidthProfile>,
    /// The width that the model arrives at.
    pub chosen: u32,
}

/// What a sample of queries says about one width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WidthProfile {
    /// Lanes per query.
    pub lanes: u32,
    /// Average steps of a warp per inner level. A warp takes as many steps as the query of it that needs most; in a step, a
    /// group compares the slots that its lanes load at once.
    pub steps: f64,
}

/// Warps of queries in a sample: about a thousand queries, as in the paper.
const WARPS: usize = 31;

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Chooses the width of thread groups as the paper does: it starts with the widest, and halves the width as long as
    /// twice the queries per warp outweigh the additional steps per level, `2 * steps(wide) / steps(narrow) > 1`.
    ///
    /// Takes a batch in the order in which it will be looked up, and draws a sample of about a thousand queries, whole
    /// warps of them from all over the batch; fewer than 32 fill part of a warp. The model is of
    /// [`NodeReading::Stopping`](super::NodeReading::Stopping): nodes that are read whole take the same steps whatever the
    /// queries. It counts comparisons, and no memory accesses, which limit look-ups on today's cards;
    /// [`GroupWidth::Auto`](super::GroupWidth::Auto) uses measurements instead.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) from fetching the nodes on the sample's paths.
    pub fn profile_group_width(&self, queries: &[K]) -> Result<GroupProfile> {
        let fanout = self.fanout();
        let available = group_widths(fanout);
        let positions = self.positions(&sample(queries))?;
        let mut profile = GroupProfile { widths: Vec::new(), chosen: available[available.len() - 1] };
        for &lanes in available.iter().rev() {
            let steps = warp_steps(&positions, lanes, lanes * slots_at_once::<K::Bits>(fanout, lanes));
            if let Some(wider) = profile.widths.last() {
                let gain = f64::from(wider.lanes) / f64::from(lanes) * wider.steps / steps;
                if gain <= 1.0 {
                    profile.widths.push(WidthProfile { lanes, steps });
                    break;
                }
            }
            profile.widths.push(WidthProfile { lanes, steps });
            profile.chosen = lanes;
        }
        Ok(profile)
    }

    /// For each inner level, the separators that each query passes.
    fn positions(&self, sample: &[K]) -> Result<Vec<Vec<u32>>> {
        let fanout = self.fanout() as usize;
        let mut fetched: HashMap<u32, Vec<K::Bits>> = HashMap::new();
        let mut nodes = vec![0_u32; sample.len()];
        let mut levels = Vec::new();
        for _ in 0..self.shape.height {
            let mut level = Vec::with_capacity(sample.len());
            for (node, key) in nodes.iter_mut().zip(sample) {
                if !fetched.contains_key(node) {
                    let mut slots = vec![K::Bits::MIN; fanout];
                    self.inner.copy_range_to(inner_slot(fanout as u32, *node, 0) as usize, &mut slots)?;
                    fetched.insert(*node, slots);
                }
                let slots = &fetched[node];
                let passed = slots[..fanout - 1].iter().filter(|&&slot| slot < key.encode()).count() as u32;
                level.push(passed);
                *node = slots[fanout - 1].low() + passed;
            }
            levels.push(level);
        }
        Ok(levels)
    }
}

/// Whole warps from all over a batch.
fn sample<K: Copy>(queries: &[K]) -> Vec<K> {
    let warps = queries.chunks(WARP as usize);
    let step = warps.len().div_ceil(WARPS).max(1);
    warps.step_by(step).flatten().copied().collect()
}

/// Steps of a warp per level, on average over warps and levels, with groups that compare `slots` slots in a step; 1 for
/// a tree without inner nodes.
fn warp_steps(levels: &[Vec<u32>], lanes: u32, slots: u32) -> f64 {
    let queries = (WARP / lanes) as usize;
    let (mut steps, mut warps) = (0_u64, 0_u64);
    for level in levels {
        for warp in level.chunks(queries) {
            let most = warp.iter().max().copied().unwrap_or(0);
            steps += u64::from(most / slots + 1);
            warps += 1;
        }
    }
    if warps == 0 { 1.0 } else { steps as f64 / warps as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LookUpTuning;
    use lanetree_runtime::Device;

    #[test]
    fn the_model_narrows_while_it_gains() {
        let keys: Vec<u64> = (0..100_000).collect();
        let tree = Harmonia::builder().fanout(64).build(&Device::host(), &keys, &keys).unwrap();
        let sample: Vec<u64> = (0..1000).map(|i| i * 99_991 % 100_000).collect();
        let profile = tree.profile_group_width(&sample).unwrap();
        // More lanes never take more steps; and narrowing stops when it no longer gains.
        assert!(profile.widths.windows(2).all(|pair| pair[0].steps <= pair[1].steps), "{profile:?}");
        let gains = profile.widths.windows(2).map(|pair| 2.0 * pair[0].steps / pair[1].steps > 1.0);
        let gains: Vec<bool> = gains.collect();
        let (last, others) = gains.split_last().unwrap();
        assert!(others.iter().all(|&gains| gains), "{profile:?}");
        let chosen = profile.widths[profile.widths.len() - if *last { 1 } else { 2 }].lanes;
        assert_eq!(profile.chosen, chosen, "{profile:?}");
        // Queries that pass no separator take one step at any width, so the narrowest is enough.
        let profile = tree.profile_group_width(&[0; 100]).unwrap();
        let tried: Vec<(u32, f64)> = profile.widths.iter().map(|width| (width.lanes, width.steps)).collect();
        let all: Vec<(u32, f64)> = group_widths(64).iter().rev().map(|&lanes| (lanes, 1.0)).collect();
        assert_eq!((profile.chosen, tried), (group_widths(64)[0], all));
    }

    #[test]
    fn steps_are_those_of_the_slowest_query_of_a_warp() {
        // One level, 8 queries; at 8 lanes, 4 queries per warp.
        let level = vec![vec![0, 7, 8, 0, 1, 2, 3, 4]];
        assert_eq!(warp_steps(&level, 8, 8), (2.0 + 1.0) / 2.0);
        assert_eq!(warp_steps(&level, 8, 16), 1.0);
        assert_eq!(warp_steps(&level, 32, 32), (8.0) / 8.0);
    }

    #[test]
    fn a_sample_is_of_warps_from_all_of_the_batch() {
        let queries: Vec<u32> = (0..32 * 3100).collect();
        let sample = sample(&queries);
        assert_eq!(sample.len(), 31 * 32);
        assert!(
            sample.chunks(32).enumerate().all(|(i, warp)| warp[0] == 32 * 100 * i as u32 && warp[31] == warp[0] + 31)
        );
        assert_eq!((super::sample(&queries[..40]).len(), super::sample::<u32>(&[]).len()), (40, 0));
    }

    #[test]
    fn look_ups_that_stop_early_find_the_same() {
        let device = Device::emulated_with_seed(7);
        let stream = device.stream().unwrap();
        let keys: Vec<u64> = (1..5000).map(|i| i * 3).collect();
        let queries: Vec<u64> = (0..257).map(|i| i * 7919 % 15_100).chain([0, u64::MAX]).collect();
        for fanout in crate::FANOUTS {
            let tree = Harmonia::builder().fanout(fanout).build_sorted(&device, &keys, &keys).unwrap();
            let batch = device.upload(&queries).unwrap();
            for &lanes in group_widths(fanout) {
                let mut out = device.alloc::<u64>(queries.len()).unwrap();
                let on = tree.on(&stream).group(crate::GroupWidth::Lanes(lanes)).reading(crate::NodeReading::Stopping);
                on.miss(1).get(&batch, &mut out).unwrap();
                let is_there = |key: u64| key.is_multiple_of(3) && (3..15_000).contains(&key);
                let expected: Vec<u64> = queries.iter().map(|&key| if is_there(key) { key } else { 1 }).collect();
                assert_eq!(out.to_vec().unwrap(), expected, "fanout {fanout}, {lanes} lanes");
            }
        }
    }
}
