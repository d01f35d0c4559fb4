//! The paper's figure 12: queries that are not uniform.

use crate::bench::data::{generator, miss};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::hbtree::lookups::measure_ranks;
use crate::bench::hbtree::plan::at_each;
use crate::bench::hbtree::subject::{Side, Subject};
use crate::bench::session::Session;
use lanetree::hbtree::HbTree;
use lanetree_base::parallel::*;
use rand::RngExt;
use rand::rngs::StdRng;
use rand_distr::{Distribution as _, Gamma, Normal, Zipf};

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-distributions", Run::Alone(measure));

/// What queries are drawn from.
#[derive(Clone, Copy)]
enum Queries {
    Uniform,
    Normal(Normal<f64>),
    Gamma(Gamma<f64>),
    /// Of ranks, the first of which is 1.
    Zipf(Zipf<f64>),
}

/// What gamma's numbers are divided by: of 2^30 of them, one is above that with a probability of 5 %. It is drawn again.
const GAMMA_MOST: f64 = 90.0;

impl Queries {
    /// All distributions, over `len` keys.
    fn all(len: usize) -> [(&'static str, Self, Option<&'static str>); 4] {
        let is_valid = "the parameters are valid";
        [
            ("uniform", Self::Uniform, None),
            ("normal", Self::Normal(Normal::new(0.5, 0.125_f64.sqrt()).expect(is_valid)), Some("1.1")),
            ("gamma", Self::Gamma(Gamma::new(3.0, 3.0).expect(is_valid)), Some("1.1")),
            ("Zipf", Self::Zipf(Zipf::new(len as f64, 2.0).expect(is_valid)), Some("2.2")),
        ]
    }

    /// The rank of a key.
    fn draw(&self, len: usize, rng: &mut StdRng) -> u32 {
        loop {
            let number = match self {
                Self::Uniform => rng.random::<f64>(),
                Self::Normal(normal) => normal.sample(rng),
                Self::Gamma(gamma) => gamma.sample(rng) / GAMMA_MOST,
                Self::Zipf(zipf) => (zipf.sample(rng) - 1.0) / len as f64,
            };
            if (0.0..1.0).contains(&number) {
                return (number * len as f64) as u32;
            }
        }
    }
}

/// Draws of one generator.
const PART: usize = 1 << 12;

/// Batches of ranks that the runs take in turns.
const BATCHES: usize = 2;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let device = session.device.clone();
        let Some(mut subject) = Subject::<u64>::build(session, &device, size, &HbTree::builder())? else {
            return Ok(());
        };
        let len = subject.keys.len();
        let mut baselines = [None; 2];
        for (name, queries, paper) in Queries::all(len) {
            session.doing(format_args!("drawing {name} queries"));
            let mut ranks = vec![0_u32; BATCHES << session.plan.queries];
            ranks.par_chunks_mut(PART).enumerate().for_each(|(part, ranks)| {
                let mut rng = generator(session.seed ^ 0xd15, part);
                ranks.fill_with(|| queries.draw(len, &mut rng));
            });
            let rank = |round: u64, count: usize, i: usize| ranks[round as usize % BATCHES * count + i] as usize;
            for (&side, baseline) in Side::all(session).iter().zip(&mut baselines) {
                subject.set_side(side)?;
                let what = format!("{name} queries, {}", subject.keys.describe());
                let get = |queries: &[u64], out: &mut [u64]| Ok(subject.tree.get_many_or(queries, miss(), out)?);
                let measured =
                    measure_ranks(session, &what, &subject.keys, (1 << session.plan.queries, rank), get, |value| {
                        value
                    })?;
                let mut row = subject.row(session, FIGURE.name, side, "get_many_or", measured);
                let rate = *baseline.get_or_insert(row.giga_per_second);
                row.set("order", name);
                row.set("ratio_to_baseline", row.giga_per_second / rate);
                row.set("paper", paper.filter(|_| side == Side::Hybrid));
                session.push(row);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_distributed_as_they_are_called() {
        let len = 1 << 20;
        let mut rng = generator(1, 0);
        let mut below = |queries: Queries, rank: u32| {
            (0..10_000).filter(|_| queries.draw(len, &mut rng) < rank).count() as f64 / 1e4
        };
        let [uniform, normal, gamma, zipf] = Queries::all(len).map(|(_, queries, _)| queries);
        let is_near = |found: f64, right: f64| (found - right).abs() < 0.02;
        assert!(is_near(below(uniform, 1 << 18), 0.25));
        // Cut off at 1.414 standard deviations: of 0.843, the part below -0.707 has 0.240 - 0.079.
        assert!(is_near(below(normal, 1 << 18), 0.161 / 0.843));
        // The median is 2.674 thetas.
        assert!(is_near(below(gamma, (2.674 * 3.0 / GAMMA_MOST * len as f64) as u32), 0.5));
        // 6 / pi^2 of all ask for the first key.
        assert!(is_near(below(zipf, 1), 0.608));
    }
}
