//! Keys of several distributions.

pub(crate) mod adversaries;
pub(crate) mod combinations;
pub(crate) mod inserts;

use super::data::{Data, mix};
use lanetree_base::parallel::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, LogNormal, Pareto};

/// How keys lie, if not uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Consecutive numbers.
    Dense,
    /// 2^10 clusters at random places, each with keys uniform in a 2^20th part of the key space.
    Clustered,
    /// Log-normal, sigma 2.
    LogNormal,
    /// Half of the keys in half of the key space, a quarter in an eighth, and so on: each half in a quarter of the last part.
    SkewedPrefix,
    /// Gaps of a Pareto distribution, shape 1.
    ParetoGaps,
    /// Runs of 64 consecutive numbers at random places.
    Runs,
    /// Gaps whose logarithm is uniform, from 1 to 2^24.
    LogUniformGaps,
}

impl Distribution {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Dense,
        Self::Clustered,
        Self::LogNormal,
        Self::SkewedPrefix,
        Self::ParetoGaps,
        Self::Runs,
        Self::LogUniformGaps,
    ];

    /// What tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Clustered => "clustered",
            Self::LogNormal => "log-normal",
            Self::SkewedPrefix => "skewed prefix",
            Self::ParetoGaps => "Pareto gaps",
            Self::Runs => "runs of 64",
            Self::LogUniformGaps => "log-uniform gaps",
        }
    }

    /// About `len` distinct keys of 64 bits; exactly as many unless some are equal.
    pub(crate) fn keys(self, len: usize, seed: u64) -> Data<u64> {
        let from_each = |key: &(dyn Fn(usize, &mut StdRng) -> u64 + Sync)| -> Vec<u64> {
            const PART: usize = 1 << 12;
            let parts = (0..len.div_ceil(PART)).into_par_iter();
            let part = |part: usize| {
                let mut rng = StdRng::seed_from_u64(mix(seed ^ part as u64));
                (part * PART..((part + 1) * PART).min(len)).map(|at| key(at, &mut rng)).collect::<Vec<_>>()
            };
            parts.flat_map_collect(part).expect("memory for the keys")
        };
        // Gaps, summed up.
        let from_gaps = |gap: &(dyn Fn(usize, &mut StdRng) -> u64 + Sync)| -> Vec<u64> {
            let mut keys = from_each(gap);
            let mut at = 0_u64;
            for key in &mut keys {
                at = at.saturating_add(*key);
                *key = at;
            }
            keys
        };
        let keys = match self {
            Self::Dense => (0..len as u64).map(|i| (1 << 40) + i).collect(),
            Self::Clustered => {
                from_each(&|_, rng| mix(seed ^ rng.random_range(0..1024)) >> 1 | rng.random_range(0..1 << 44))
            }
            Self::LogNormal => {
                let numbers = LogNormal::new(0.0, 2.0).expect("a deviation above 0");
                from_each(&|_, rng| (numbers.sample(rng) * (1_u64 << 48) as f64) as u64)
            }
            Self::SkewedPrefix => from_each(&|_, rng| {
                let depth = rng.random::<u64>().trailing_zeros().min(15);
                rng.random::<u64>() >> (2 * depth)
            }),
            Self::ParetoGaps => {
                let gaps = Pareto::new(1.0, 1.0).expect("a shape above 0");
                from_gaps(&|_, rng| (gaps.sample(rng) as u64).clamp(1, 1 << 34))
            }
            Self::Runs => from_each(&|at, _| (mix(seed ^ (at / 64) as u64) >> 1).wrapping_add(at as u64 % 64)),
            Self::LogUniformGaps => from_gaps(&|_, rng| (rng.random_range(0.0..24.0_f64)).exp2() as u64),
        };
        Data::distinct(keys, self.name().into())
    }
}
