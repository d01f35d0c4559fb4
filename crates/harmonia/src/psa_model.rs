//! What a sorted batch costs and saves on a tree, measured, and the decision that follows: for the papers' figures.

use super::Harmonia;
use super::launch;
use super::psa::{PsaScratch, QuerySort};
use crate::LookUpTuning;
use core::fmt;
use lanetree_frame::Result;
use lanetree_kernels_harmonia::{SCATTERED, ScatterArgs, calls};
use lanetree_layout::{Key, KeyWord, Word};
use lanetree_primitives::radix_argsort;
use lanetree_runtime::{Buffer, DeviceKind, Event, Stream};
use lanetree_simt::{Global, GlobalMut};

/// What sorting and looking up cost on a device, in nanoseconds per query: measured, for one tree and
/// batches of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PsaModel {
    /// Queries of the batches that were measured.
    pub queries: usize,
    /// The bits of [`Harmonia::psa_bits`].
    pub bits: u32,
    /// Lanes per query that [`GroupWidth::Auto`](super::GroupWidth::Auto) chooses for queries in random order, sorted
    /// by these bits, and sorted completely. Sorted queries that are dense enough are looked up by whole leaves
    /// instead.
    pub lanes: [u32; 3],
    /// Looking up queries in random order.
    pub random: f64,
    /// Looking up queries that are sorted by these bits.
    pub clustered: f64,
    /// Looking up sorted queries.
    pub sorted: f64,
    /// Sorting the batch by these bits.
    pub sort_bits: f64,
    /// Sorting the batch by all bits.
    pub sort_full: f64,
    /// Putting the results back into their places.
    pub scatter: f64,
}

/// A choice, and what it is based on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PsaPlan {
    /// What is predicted to be fastest.
    pub choice: QuerySort,
    /// Nanoseconds per query: without sorting, by the tree's bits, and by all bits.
    pub predicted: [f64; 3],
    /// What that follows from.
    pub model: PsaModel,
}

impl PsaModel {
    /// The fastest way with a batch in random order.
    pub fn plan(&self) -> PsaPlan {
        let partial = self.sort_bits + self.clustered + self.scatter;
        let predicted = [self.random, partial, self.sort_full + self.sorted + self.scatter];
        let choices = [QuerySort::None, QuerySort::TopBits(self.bits), QuerySort::Full];
        let best = (0..3).min_by(|&a, &b| predicted[a].total_cmp(&predicted[b])).unwrap_or(0);
        PsaPlan { choice: choices[best], predicted, model: *self }
    }
}

impl fmt::Display for PsaPlan {
    /// What was chosen, and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { choice, predicted: [none, partial, full], model } = self;
        let PsaModel { queries, bits, lanes, random, clustered, sorted, sort_bits, sort_full, scatter } = model;
        let lanes = lanes[1];
        write!(
            f,
            "queries are {choice}: of {queries} queries each takes {none:.4} ns unsorted, \
             {partial:.4} ns sorted by the top {bits} bits ({sort_bits:.4} to sort, {clustered:.4} to look up with \
             {lanes} lanes a query, \
             {scatter:.4} to put the result back), {full:.4} ns sorted by all ({sort_full:.4}, {sorted:.4}, \
             {scatter:.4}); a look-up in random order takes {random:.4} ns"
        )
    }
}

/// Runs of each measurement; the fastest counts.
const RUNS: usize = 3;

/// Times work in a stream.
struct Clock<'a> {
    stream: &'a Stream,
    start: Event,
    end: Event,
    queries: usize,
}

impl Clock<'_> {
    /// Nanoseconds per query of the fastest of a few runs.
    fn fastest(&self, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            self.start.record(self.stream)?;
            work()?;
            self.end.record(self.stream)?;
            self.stream.synchronize()?;
            best = best.min(f64::from(Event::elapsed_ms(&self.start, &self.end)?) * 1e6 / self.queries as f64);
        }
        Ok(best)
    }
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Measures what sorting a batch like `queries` costs and saves on this tree. Allocates what it needs, and waits
    /// for the stream many times; it takes about as long as 20 batches. `None` on the host, which does not sort, and
    /// without queries.
    ///
    /// # Errors
    /// As [`GetBySorting::get_by_sorting`](crate::GetBySorting::get_by_sorting).
    pub fn measure_psa(&self, stream: &Stream, queries: &Buffer<K>) -> Result<Option<PsaModel>> {
        let (device, count, width) = (self.device(), queries.len(), K::Bits::BITS);
        if device.kind() == DeviceKind::Host || count == 0 {
            return Ok(None);
        }
        let bits = self.psa_bits().max(1);
        let mut scratch = PsaScratch::<K, V>::new(device, count)?;
        let mut values = device.alloc::<V>(count)?;
        let clock = Clock { stream, start: device.event()?, end: device.event()?, queries: count };
        let sort = |bits: u32, scratch: &mut PsaScratch<K, V>| {
            clock.fastest(|| {
                let PsaScratch { keys, positions, sort, .. } = &mut *scratch;
                radix_argsort(stream, queries, count, width - bits..width, keys, positions, sort)
            })
        };
        let get = |order, keys: &Buffer<K>, values: &mut Buffer<V>| {
            clock.fastest(|| self.on(stream).order(order).miss(V::MIN).get(keys, values))
        };
        let sorts = [QuerySort::None, QuerySort::TopBits(bits), QuerySort::Full];
        let orders = sorts.map(|sort| sort.order::<K>());
        let mut lanes = [0; 3];
        for (lanes, order) in lanes.iter_mut().zip(orders) {
            *lanes = self.on(stream).order(order).group_width()?;
        }
        let random = get(orders[0], queries, &mut values)?;
        let sort_bits = sort(bits, &mut scratch)?;
        let clustered = get(orders[1], &scratch.keys, &mut scratch.values)?;
        let sort_full = sort(width, &mut scratch)?;
        let sorted = get(orders[2], &scratch.keys, &mut scratch.values)?;
        let args = ScatterArgs {
            values: scratch.values.read_on(stream)?,
            hits: Global::null(),
            positions: scratch.positions.read_on(stream)?,
            count: count as u64,
            out: values.write_on(stream)?,
            out_found: GlobalMut::null(),
        };
        let launch = launch::over(stream, count.div_ceil(SCATTERED) as u64, 1)?;
        // SAFETY: all memory was made here for this many queries, and lives until the stream has been waited for; the
        // positions are those that the sort has written, each below `count`.
        let scatter = clock.fastest(|| Ok(unsafe { launch.run(calls::scatter(&args)) }?))?;
        Ok(Some(PsaModel { queries: count, bits, lanes, random, clustered, sorted, sort_bits, sort_full, scatter }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_frame::Device;

    #[test]
    fn a_plan_says_why() {
        let model = PsaModel {
            queries: 1 << 20,
            bits: 16,
            lanes: [4, 2, 1],
            random: 1.0,
            clustered: 0.3,
            sorted: 0.1,
            sort_bits: 0.2,
            sort_full: 0.9,
            scatter: 0.1,
        };
        assert_eq!(model.plan().choice, QuerySort::TopBits(16));
        assert_eq!(PsaModel { random: 0.5, ..model }.plan().choice, QuerySort::None);
        assert_eq!(PsaModel { sort_full: 0.2, ..model }.plan().choice, QuerySort::Full);
        let text = model.plan().to_string();
        assert!(text.starts_with("queries are sorted by the top 16 bits: of 1048576 queries"), "{text}");
        assert!(text.contains("0.3000 to look up with 2 lanes a query, 0.1000 to put"), "{text}");
    }

    #[test]
    fn a_model_is_measured_where_there_are_kernels() {
        let device = Device::emulated();
        let tree = Harmonia::build(&device, &[1_u64, 2, 3], &[1_u32, 2, 3]).unwrap();
        let stream = device.stream().unwrap();
        let queries = device.upload(&[3_u64, 1, 9]).unwrap();
        let model = tree.measure_psa(&stream, &queries).unwrap().unwrap();
        assert_eq!((model.queries, model.bits), (3, 1));
        let host = Harmonia::build(&Device::host(), &[1_u64], &[1_u32]).unwrap();
        let queries = Device::host().upload(&[3_u64]).unwrap();
        assert!(host.measure_psa(&Device::host().stream().unwrap(), &queries).unwrap().is_none());
    }
}
