//! What was found for a batch of probes and is not returned yet.

use crate::contents::{Indexed, batch_of};
use crate::shape::Source;
use datafusion::arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BooleanArray, LargeListViewArray, RecordBatch, UInt64Array, UInt64Builder,
};
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use lanetree_arrow::Join;

/// A batch of the input, and its answers.
pub(crate) struct Found {
    pub(crate) probes: RecordBatch,
    pub(crate) answers: Answers,
}

pub(crate) enum Answers {
    /// Numbers of probes, from that of the batch's first one on, and of rows of the table.
    Pairs { first: u64, probes: UInt64Array, rows: UInt64Array },
    /// All rows of each probe.
    Lists(Lists),
    /// Which probes are returned, until they are.
    Mask(Option<BooleanArray>),
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
            Self::Lists(Lists { lists, join, .. }) => Self::Lists(Lists::new(lists.slice(first, count), *join)),
            Self::Mask(mask) => Self::Mask(mask.as_ref().map(|mask| mask.slice(first, count))),
        }
    }
}

/// The rows of each probe where the index has them: few probes may have very many, so pairs are made as they are returned.
pub(crate) struct Lists {
    lists: LargeListViewArray,
    join: Join,
    /// The probe and the number of its row that are next.
    next: (usize, usize),
}

/// How pairs become rows of the join.
pub(crate) struct Output {
    pub(crate) indexed: Indexed,
    pub(crate) sources: Vec<Source>,
    pub(crate) schema: SchemaRef,
    pub(crate) batch_size: usize,
}

impl Found {
    /// The next batch of results, if there are more.
    pub(crate) fn next(&mut self, output: &Output) -> Result<Option<RecordBatch>> {
        let (probes, rows) = match &mut self.answers {
            Answers::Pairs { first, probes, rows } => {
                let count = probes.len().min(output.batch_size);
                let (own, own_rows);
                (own, *probes) = split(probes, count);
                (own_rows, *rows) = split(rows, count);
                (if *first == 0 { own } else { own.unary(|probe| probe - *first) }, own_rows)
            }
            Answers::Lists(lists) => lists.next(output.batch_size),
            Answers::Mask(mask) => {
                let Some(mask) = mask.take() else { return Ok(None) };
                return self.chosen(&mask, output);
            }
        };
        if probes.is_empty() { Ok(None) } else { self.joined(&probes, &rows, output).map(Some) }
    }

    fn joined(&self, probes: &UInt64Array, rows: &UInt64Array, output: &Output) -> Result<RecordBatch> {
        let (batch, table) = (&self.probes, &output.indexed.contents.batch);
        // As with distinct values that are all there.
        let is_whole =
            probes.len() == batch.num_rows() && probes.values().iter().zip(0..).all(|(probe, at)| *probe == at);
        let column = |source: &Source| match *source {
            Source::Probe(at) if is_whole => Ok(batch.column(at).clone()),
            Source::Probe(at) => Ok(take(batch.column(at), probes, None)?),
            Source::Table(at) => Ok(take(table.column(at), rows, None)?),
        };
        let columns = output.sources.iter().map(column).collect::<Result<_>>()?;
        batch_of(&output.schema, columns, probes.len())
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

impl Lists {
    pub(crate) fn new(lists: LargeListViewArray, join: Join) -> Self {
        Self { lists, join, next: (0, 0) }
    }

    /// The next pairs of probes and rows, at most so many. With [`Join::Left`], a probe without rows has a null.
    fn next(&mut self, most: usize) -> (UInt64Array, UInt64Array) {
        let all: &UInt64Array = self.lists.values().as_primitive::<UInt64Type>();
        let (mut probes, mut rows) = (UInt64Builder::new(), UInt64Builder::new());
        let (mut probe, mut row) = self.next;
        while probe < self.lists.len() && rows.len() < most {
            let (offset, size) = (self.lists.value_offset(probe) as usize, self.lists.value_size(probe) as usize);
            let count = (size - row).min(most - rows.len());
            probes.append_value_n(probe as u64, count);
            rows.append_slice(&all.values()[offset + row..offset + row + count]);
            if size == 0 && self.join == Join::Left {
                probes.append_value(probe as u64);
                rows.append_null();
            }
            (probe, row) = if row + count == size { (probe + 1, 0) } else { (probe, row + count) };
        }
        self.next = (probe, row);
        (probes.finish(), rows.finish())
    }
}

/// The first `count` elements, and the others.
fn split(array: &UInt64Array, count: usize) -> (UInt64Array, UInt64Array) {
    (array.slice(0, count), array.slice(count, array.len() - count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Bound;
    use datafusion::arrow::array::Int64Array;
    use lanetree::Device;
    use lanetree_arrow::{ArrowIndex, Nulls};

    /// All pairs, at most so many at a time.
    fn pairs(lists: &LargeListViewArray, join: Join, most: usize) -> Vec<(u64, Option<u64>)> {
        let (mut lists, mut found) = (Lists::new(lists.clone(), join), Vec::new());
        loop {
            let (probes, rows) = lists.next(most);
            assert!(probes.len() == rows.len() && rows.len() <= most);
            if probes.is_empty() {
                return found;
            }
            found.extend(probes.values().iter().copied().zip(&rows));
        }
    }

    #[test]
    fn pairs_of_lists_are_those_of_the_index_however_many_are_made_at_a_time() {
        let column = Int64Array::from(vec![5, 7, 5, 5, 9, 7]);
        let index = ArrowIndex::build(&Device::host(), &column, Nulls::Skip).unwrap();
        let probes = Int64Array::from(vec![Some(5), Some(1), None, Some(7), Some(5), Some(10)]);
        let lists = index.range_views(Bound::Included(&probes), Bound::Included(&probes)).unwrap();
        for join in [Join::Inner, Join::Left] {
            let (of_probes, rows) = index.join(&probes, join).unwrap();
            let expected: Vec<_> = of_probes.values().iter().copied().zip(&rows).collect();
            for most in 1..10 {
                assert_eq!(pairs(&lists, join, most), expected, "{join:?} {most}");
            }
        }
    }
}
