//! Atomic updates of trees with pointers by threads of the CPU: the last operation of each key stays.

use crate::bench::cuart::data::Data;
use crate::bench::cuart::writers::LastWriters;
use crate::bench::error::Result;
use crate::bench::session::Session;
use congee::Congee;
use core::cell::Cell;
use lanetree_base::parallel::*;
use lanetree_baselines::Checksum;
use lanetree_baselines::art::{Art, task};
use lanetree_record::Timing;
use rayon::ThreadPoolBuilder;

/// A tree's updates by a number of threads.
pub(crate) struct Measured {
    pub(crate) index: &'static str,
    pub(crate) threads: usize,
    pub(crate) timing: Timing,
    pub(crate) checksum: Checksum,
}

/// A tree that threads update at the same time.
trait Tree: Send {
    /// Operation `i` sets the value of its key to `first + i`, which is above all values before.
    fn update(&mut self, queries: &[u8], first: u32);

    fn get(&self, key: &[u8]) -> Option<u32>;
}

/// Ours: an atomic maximum in the leaf.
struct OfArt {
    art: Art,
    width: usize,
}

impl Tree for OfArt {
    fn update(&mut self, queries: &[u8], first: u32) {
        let (width, count) = (self.width, queries.len() / self.width);
        self.art.update_in_order(count, |i| &queries[i * width..][..width], |i| (first + i as u32, first + i as u32));
    }

    fn get(&self, key: &[u8]) -> Option<u32> {
        Some(self.art.get(key)? as u32)
    }
}

/// congee's, with optimistic locks: a maximum under the lock of the leaf's node.
struct OfCongee(Congee<usize, usize>);

fn number(key: &[u8]) -> usize {
    u64::from_be_bytes(key.try_into().expect("a key of 8 bytes")) as usize
}

impl Tree for OfCongee {
    fn update(&mut self, queries: &[u8], first: u32) {
        let len = task(queries.len() / 8);
        queries.par_chunks(8 * len).enumerate().for_each(|(part, queries)| {
            let guard = self.0.pin();
            for (key, value) in queries.chunks_exact(8).zip(first as usize + part * len..) {
                self.0.compute_if_present(&number(key), |old| Some(old.max(value)), &guard);
            }
        });
    }

    fn get(&self, key: &[u8]) -> Option<u32> {
        self.0.get(&number(key), &self.0.pin()).map(|value| value as u32)
    }
}

/// Batches of `count` updates, by each number of threads: of our tree with pointers, and, for keys of 8 bytes, of congee's.
pub(crate) fn measure(session: &mut Session, data: &Data, count: usize, threads: &[usize]) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    let (bytes, values) = data.sorted();
    let pairs = || bytes.chunks_exact(data.width).zip(values.iter().copied());
    if session.has_time("ART, updates on the CPU") {
        let art = Art::new(pairs().map(|(key, value)| (key, value.into())));
        of_tree(session, data, (count, threads), ("ART", &mut OfArt { art, width: data.width }), &mut all)?;
    }
    if data.width == 8 && session.has_time("congee, updates on the CPU") {
        let tree = Congee::<usize, usize>::default();
        let guard = tree.pin();
        for (key, value) in pairs() {
            tree.insert(number(key), value as usize, &guard).expect("there is memory");
        }
        drop(guard);
        of_tree(session, data, (count, threads), ("congee", &mut OfCongee(tree)), &mut all)?;
    }
    Ok(all)
}

fn of_tree(
    session: &Session,
    data: &Data,
    (count, threads): (usize, &[usize]),
    (index, tree): (&'static str, &mut dyn Tree),
    all: &mut Vec<Measured>,
) -> Result<()> {
    let queries = data.bytes(count, |query| data.query(1, query));
    let last = LastWriters::new(data, 1, count);
    let first = Cell::new(data.len as u32 + 1);
    for &threads in threads {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("the system has threads");
        let mut tree = &mut *tree;
        let timing = session.time_on_cpu(
            &mut tree,
            |_| first.set(first.get() + count as u32),
            |tree| {
                let first = first.get();
                pool.install(|| tree.update(&queries, first));
                Ok(())
            },
        )?;
        let found: Vec<u32> = queries.chunks_exact(data.width).map(|key| tree.get(key).unwrap_or(0)).collect();
        let first = first.get();
        let expected = |query: usize| first + last.of(data.query(1, query)).expect("it is of the batch") as u32;
        let checksum = session.check_slice(&index, "values", &found, 0..count, 0, expected)?;
        all.push(Measured { index, threads, timing, checksum });
    }
    Ok(())
}
