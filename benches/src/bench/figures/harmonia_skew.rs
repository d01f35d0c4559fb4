//! Keys and queries that are not uniform: what sorting the queries costs and gains then.

use crate::bench::data::{Batch, Data, Order, Permutation, generator};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::figures::harmonia_psa::{compare, ways};
use crate::bench::hbtree::plan::at_each;
use crate::bench::lane_tree::Distribution;
use crate::bench::session::Session;
use crate::bench::subject::Subject;
use lanetree_base::parallel::*;
use rand_distr::{Distribution as _, Zipf};

pub(crate) const FIGURE: Measurement = Measurement::new("harmonia-skew", Run::Alone(measure));

/// Keys that are not uniform.
const SKEWED: [Distribution; 2] = [Distribution::Clustered, Distribution::LogNormal];

/// The exponent of Zipf's law: that of the YCSB benchmark.
const EXPONENT: f64 = 0.99;

/// Draws of one generator.
const PART: usize = 1 << 12;

fn measure(session: &mut Session, request: &Request) -> Result<()> {
    at_each(session, request, |session, size| {
        let seed = session.seed_of(size);
        let skewed = SKEWED.into_iter().map(Some);
        for distribution in [None].into_iter().chain(skewed) {
            session.doing(format_args!("drawing 2^{size} keys"));
            let uniform = || Data::uniform(1 << size, seed);
            let subject =
                Subject::build(session, distribution.map_or_else(uniform, |keys| keys.keys(1 << size, seed)))?;
            for queries in ["uniform", "Zipf"] {
                let batch = batch(session, &subject.data, size, queries);
                let random = session.device.upload(&batch.queries)?;
                let ways = ways(session, &subject, &random)?;
                for row in compare(session, FIGURE.name, &subject, (&batch, &random), &ways)? {
                    session.push(row.with("queries", queries));
                }
            }
        }
        Ok(())
    })
}

/// Keys of the tree in random order.
fn batch(session: &Session, data: &Data<u64>, size: u32, queries: &str) -> Batch<u64> {
    let count = 1 << session.plan.queries;
    if queries == "uniform" {
        let sorted = data.sorted_batch(count, false, session.seed).expect("hits are always to be had");
        return sorted.ordered(Order::Random, session.seed);
    }
    let zipf = Zipf::new((1_u64 << size) as f64, EXPONENT).expect("the parameters are valid");
    // Keys that are often asked for are anywhere.
    let spread = Permutation::new(1 << size, session.seed ^ 0x21f);
    let mut ranks = vec![0_u32; count];
    ranks.par_chunks_mut(PART).enumerate().for_each(|(part, ranks)| {
        let mut rng = generator(session.seed ^ 0x21f, part);
        // Two keys may have become one.
        ranks.fill_with(|| (spread.image(zipf.sample(&mut rng) as usize - 1) % data.len()) as u32);
    });
    data.batch_of_ranks(ranks.into_iter().map(|rank| rank as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::session::tests::session;
    use lanetree::Device;
    use std::collections::BTreeMap;

    #[test]
    fn some_keys_are_asked_for_far_more_often_than_others() {
        let mut session = session(Device::host());
        session.plan.queries = 14;
        let data = Data::<u64>::uniform(1 << 10, 1);
        let most = |queries| {
            let mut counts = BTreeMap::<u64, usize>::new();
            batch(&session, &data, 10, queries)
                .queries
                .into_iter()
                .for_each(|key| *counts.entry(key).or_default() += 1);
            *counts.values().max().unwrap()
        };
        // Sixteen of each on average; the first of 1024 by Zipf's law is one in 7.7.
        assert!(most("uniform") < 50);
        assert!((1900..2400).contains(&most("Zipf")), "{}", most("Zipf"));
    }
}
