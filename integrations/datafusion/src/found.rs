//! What was found for a batch of probes and is not returned yet.

use crate::contents::{Indexed, batch_of};
use crate::pairs::{PairFilter, Pairs};
use crate::runs::RunLists;
use crate::shape::Source;
use datafusion::arrow::array::{Array, ArrayBuilder, ArrayRef, BooleanArray, RecordBatch, UInt64Array, UInt64Builder};
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::error::Result;
use lanetree_arrow::Join;

/// A batch of the input, and its answers.
pub(crate) struct Found {
    probes: RecordBatch,
    answers: Answers,
    /// With a filter: the first probe that may not have been returned yet.
    next: u64,
}

pub(crate) enum Answers {
    /// Numbers of probes, from that of the batch's first one on, and of rows of the table.
    Pairs { first: u64, probes: UInt64Array, rows: UInt64Array },
    /// All rows of each probe.
    Lists(Lists),
    /// Which probes are returned, until they are.
    Mask(Option<BooleanArray>),
    /// So many pairs, nothing of which is returned but their number.
    Count(usize),
}

impl Answers {
    /// Those of `count` probes from one on; pairs of probes before that one were taken already.
    pub(crate) fn of(&mut self, first: usize, count: usize) -> Self {
        match self {
            Self::Pairs { probes, rows, .. } => {
                let end = probes.values().partition_point(|probe| *probe < (first + count) as u64);
                let (own, own_rows);
                (own, *probes) = split(probes, end);
                (own_rows, *rows) = split(rows, end);
                Self::Pairs { first: first as u64, probes: own, rows: own_rows }
            }
            Self::Lists(Lists { runs, join, .. }) => {
                Self::Lists(Lists::new(runs.iter().map(|run| run.slice(first, count)).collect(), *join))
            }
            Self::Mask(mask) => Self::Mask(mask.as_ref().map(|mask| mask.slice(first, count))),
            // Of all probes, for whoever asks first.
            Self::Count(pairs) => Self::Count(core::mem::take(pairs)),
        }
    }
}

/// The rows of each probe where the index has them: few probes may have very many, so pairs are made as they are returned.
pub(crate) struct Lists {
    runs: Vec<RunLists>,
    join: Join,
    next: Next,
}

/// Where the next pair is.
#[derive(Clone, Copy, Default)]
struct Next {
    probe: usize,
    run: usize,
    /// How many of the probe's places in the run were passed.
    passed: usize,
    /// Whether the probe has a row.
    is_found: bool,
}

/// How pairs become rows of the join.
pub(crate) struct Output {
    pub(crate) indexed: Indexed,
    pub(crate) sources: Vec<Source>,
    pub(crate) schema: SchemaRef,
    /// Of pairs; with one, probes without a row have no pair.
    pub(crate) filter: Option<PairFilter>,
    pub(crate) batch_size: usize,
}

impl Output {
    /// Whether nothing of the pairs is wanted but their number, which the index knows: a key that nearly all rows have costs no more than
    /// others.
    fn counts_alone(&self) -> bool {
        self.sources.is_empty() && self.filter.is_none()
    }
}

impl Found {
    pub(crate) fn new(probes: RecordBatch, answers: Answers) -> Self {
        Self { probes, answers, next: 0 }
    }

    /// The next batch of results, if there are more.
    pub(crate) fn next(&mut self, output: &Output) -> Result<Option<RecordBatch>> {
        if let Answers::Mask(mask) = &mut self.answers {
            let Some(mask) = mask.take() else { return Ok(None) };
            return self.chosen(&mask, output);
        }
        if let Answers::Lists(lists) = &self.answers
            && output.counts_alone()
        {
            self.answers = Answers::Count(lists.pairs());
        }
        if let Answers::Count(left) = &mut self.answers {
            let count = (*left).min(output.batch_size);
            *left -= count;
            return (count > 0).then(|| batch_of(&output.schema, Vec::new(), count)).transpose();
        }
        loop {
            let Some(mut pairs) = self.pairs(output.batch_size) else { return Ok(None) };
            let is_end = pairs.probes.is_empty();
            if let Some(filter) = &output.filter {
                let passing = filter.passing(pairs, &self.probes, &output.indexed)?;
                let end = is_end.then_some(self.probes.num_rows() as u64);
                pairs = filter.returned(passing, &mut self.next, end);
            }
            if !pairs.probes.is_empty() {
                return self.joined(&pairs, output).map(Some);
            }
            if is_end {
                return Ok(None);
            }
        }
    }

    /// The next pairs that were found, at most so many; `None` if no pairs were made.
    fn pairs(&mut self, most: usize) -> Option<Pairs> {
        Some(match &mut self.answers {
            Answers::Pairs { first, probes, rows } => {
                let count = probes.len().min(most);
                let (own, own_rows);
                (own, *probes) = split(probes, count);
                (own_rows, *rows) = split(rows, count);
                Pairs { probes: if *first == 0 { own } else { own.unary(|probe| probe - *first) }, rows: own_rows }
            }
            Answers::Lists(lists) => lists.next(most),
            Answers::Mask(_) | Answers::Count(_) => return None,
        })
    }

    fn joined(&self, pairs: &Pairs, output: &Output) -> Result<RecordBatch> {
        let columns = columns_of(&output.sources, &self.probes, pairs, &output.indexed)?;
        batch_of(&output.schema, columns, pairs.probes.len())
    }

    /// The probes of a mask.
    fn chosen(&self, mask: &BooleanArray, output: &Output) -> Result<Option<RecordBatch>> {
        let (batch, count) = (&self.probes, mask.true_count());
        if count == 0 {
            return Ok(None);
        }
        let column = |source: &Source| -> Result<ArrayRef> {
            match *source {
                Source::Probe(at) if count == batch.num_rows() => Ok(batch.column(at).clone()),
                Source::Probe(at) => Ok(filter(batch.column(at), mask)?),
                Source::Table(_) => internal_err!("such a join has no columns of the table"),
            }
        };
        batch_of(&output.schema, output.sources.iter().map(column).collect::<Result<_>>()?, count).map(Some)
    }
}

/// The columns of pairs.
pub(crate) fn columns_of(
    sources: &[Source],
    batch: &RecordBatch,
    pairs: &Pairs,
    indexed: &Indexed,
) -> Result<Vec<ArrayRef>> {
    let Pairs { probes, rows } = pairs;
    // As with distinct values that are all there.
    let is_whole = probes.len() == batch.num_rows() && probes.values().iter().zip(0..).all(|(probe, at)| *probe == at);
    let of_table = |source: &Source| if let Source::Table(at) = *source { Some(at) } else { None };
    let of_table: Vec<usize> = sources.iter().filter_map(of_table).collect();
    let mut of_table = indexed.contents.take(&of_table, rows)?.into_iter();
    let column = |source: &Source| match *source {
        Source::Probe(at) if is_whole => Ok(batch.column(at).clone()),
        Source::Probe(at) => Ok(take(batch.column(at), probes, None)?),
        Source::Table(_) => of_table.next().map_or_else(|| internal_err!("a column is missing"), Ok),
    };
    sources.iter().map(column).collect()
}

impl Lists {
    pub(crate) fn new(runs: Vec<RunLists>, join: Join) -> Self {
        Self { runs, join, next: Next::default() }
    }

    /// Which probes have a row.
    pub(crate) fn mask(&self) -> BooleanArray {
        let has_row = |probe: usize| self.runs.iter().any(|run| run.count(&run.list(probe)) > 0);
        (0..self.probes()).map(has_row).collect::<Vec<_>>().into()
    }

    /// How many pairs there are.
    fn pairs(&self) -> usize {
        let least = usize::from(self.join == Join::Left);
        let of_probe = |probe: usize| self.runs.iter().map(|run| run.count(&run.list(probe))).sum::<usize>().max(least);
        (0..self.probes()).map(of_probe).sum()
    }

    fn probes(&self) -> usize {
        self.runs.first().map_or(0, |run| run.lists.len())
    }

    /// The next pairs of probes and rows, at most so many. With [`Join::Left`], a probe without rows has a null.
    fn next(&mut self, most: usize) -> Pairs {
        let (mut probes, mut rows) = (UInt64Builder::new(), UInt64Builder::new());
        let (mut next, count) = (self.next, self.probes());
        while next.probe < count && rows.len() < most {
            let Some(run) = self.runs.get(next.run) else {
                if !next.is_found && self.join == Join::Left {
                    probes.append_value(next.probe as u64);
                    rows.append_null();
                }
                next = Next { probe: next.probe + 1, ..Next::default() };
                continue;
            };
            let places = run.list(next.probe);
            let live = run.live(places.start + next.passed..places.end);
            if live.is_empty() {
                (next.run, next.passed) = (next.run + 1, 0);
                continue;
            }
            let own = live.start..live.end.min(live.start + (most - rows.len()));
            probes.append_value_n(next.probe as u64, own.len());
            (next.passed, next.is_found) = (own.end - places.start, true);
            run.append(own, &mut rows);
        }
        self.next = next;
        Pairs { probes: probes.finish(), rows: rows.finish() }
    }
}

/// The first `count` elements, and the others.
fn split(array: &UInt64Array, count: usize) -> (UInt64Array, UInt64Array) {
    (array.slice(0, count), array.slice(count, array.len() - count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Statement;
    use crate::runs::{Definition, TableIndex};
    use core::ops::Bound;
    use datafusion::arrow::array::Int64Array;
    use lanetree::Device;
    use std::sync::Arc;

    /// All pairs, at most so many at a time.
    fn pairs(runs: &[RunLists], join: Join, most: usize) -> Vec<(u64, Option<u64>)> {
        let (mut lists, mut found) = (Lists::new(runs.to_vec(), join), Vec::new());
        loop {
            let Pairs { probes, rows } = lists.next(most);
            assert!(probes.len() == rows.len() && rows.len() <= most);
            if probes.is_empty() {
                return found;
            }
            found.extend(probes.values().iter().copied().zip(&rows));
        }
    }

    #[test]
    fn a_number_of_pairs_is_taken_once() {
        let mut answers = Answers::Count(5);
        let taken: Vec<_> = (0..3).map(|first| answers.of(first, 1)).collect();
        assert!(matches!(taken[..], [Answers::Count(5), Answers::Count(0), Answers::Count(0)]));
    }

    #[test]
    fn pairs_of_lists_are_those_of_the_index_however_many_are_made_at_a_time() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![5, 7, 5, 5, 9, 7]));
        let batch = RecordBatch::try_from_iter([("k", column)]).unwrap();
        let (name, columns, device) = ("k".to_owned(), vec![0], Device::host());
        let definition = Arc::new(Definition { name, columns, is_unique: false, device, file: None, condition: None });
        let index = TableIndex::build(definition, &batch, None, &Statement::default(), "t").unwrap();
        let run = &index.runs[0];
        let probes = Int64Array::from(vec![Some(5), Some(1), None, Some(7), Some(5), Some(10)]);
        let of_run = |run: &crate::runs::Run, first| {
            run.lists(Bound::Included(&probes), Bound::Included(&probes), first).unwrap()
        };
        for join in [Join::Inner, Join::Left] {
            let (of_probes, rows) = run.index.join(&probes, join).unwrap();
            let expected: Vec<_> = of_probes.values().iter().copied().zip(&rows).collect();
            // The rows of 5, of which the second one is removed, and the row of 9, which no probe asks for.
            let less = run.without(&Int64Array::from(vec![5, 9]), [2, 4].into_iter()).unwrap();
            let without: Vec<_> = expected.iter().copied().filter(|(_, row)| *row != Some(2)).collect();
            for (run, pairs) in [(run, &expected), (&less, &without)] {
                assert_eq!(Lists::new(vec![of_run(run, 0)], join).pairs(), pairs.len(), "{join:?}");
            }
            for most in 1..10 {
                assert_eq!(pairs(&[of_run(run, 0)], join, most), expected, "{join:?} {most}");
                assert_eq!(pairs(&[of_run(&less, 0)], join, most), without, "{join:?} {most}");
            }
            // Each probe's rows of the first part, and then those of the second one.
            let both = pairs(&[of_run(&less, 0), of_run(run, 6)], Join::Inner, 4);
            let of_five: Vec<_> = both.iter().filter(|(probe, _)| *probe == 0).map(|(_, row)| row.unwrap()).collect();
            assert_eq!(of_five, [0, 3, 6, 8, 9]);
            assert_eq!(
                Lists::new(vec![of_run(&less, 0)], join).mask().iter().flatten().filter(|found| *found).count(),
                3
            );
        }
    }
}
