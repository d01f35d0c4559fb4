//! An index of a table, as runs: one over each part of the table's rows.

use crate::condition::Condition;
use crate::memory::{Memory, Statement};
use crate::packing::Packing;
use core::ops::{Bound, Range};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeListViewArray, RecordBatch, UInt64Array, UInt64Builder};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use lanetree::Device;
use lanetree_arrow::{ArrowIndex, Nulls};
use std::path::PathBuf;
use std::sync::Arc;

/// Of so many rows, or fewer, it is found out how many others have the same values.
const SAMPLE: usize = 256;

/// What an index is, whatever rows it has.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// The numbers of the columns.
    pub(crate) columns: Vec<usize>,
    /// Whether rows with equal values are refused.
    pub(crate) is_unique: bool,
    pub(crate) device: Device,
    /// The file that it is loaded from or saved to when it is made.
    pub(crate) file: Option<PathBuf>,
    /// Of which rows it is, if not of all.
    pub(crate) condition: Option<Condition>,
}

/// An index over one column of a table, or over several of them.
#[derive(Clone, Debug)]
pub(crate) struct TableIndex {
    pub(crate) definition: Arc<Definition>,
    /// How several columns are one key, in all runs.
    pub(crate) packing: Option<Arc<Packing>>,
    /// How many rows have the same values of its first column, of its first two, and so on up to all but the last, on the average: of some
    /// rows that it was built over.
    pub(crate) copies: Vec<f64>,
    /// One for each part of the rows.
    pub(crate) runs: Vec<Run>,
}

/// An index over one part of a table's rows, by their numbers in the part.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) index: Arc<ArrowIndex>,
    /// The places of rows that are removed, in the order of the index; ascending.
    pub(crate) dead: Arc<Vec<u64>>,
    _memory: Arc<Memory>,
}

impl TableIndex {
    /// Over a table's rows, which are one part; by their order if it is known and right.
    pub(crate) fn build(
        definition: Arc<Definition>,
        batch: &RecordBatch,
        order: Option<&UInt64Array>,
        statement: &Statement,
        table: &str,
    ) -> Result<Self> {
        let packing = match definition.columns.len() {
            1 => None,
            _ => Some(Arc::new(Packing::of(&own_columns(&definition, batch))?)),
        };
        let mut built = Self { definition, packing, copies: Vec::new(), runs: Vec::new() };
        let run = built.run_by(order, batch, statement, table)?;
        built.copies = built.copies_of_prefixes(batch, &run)?;
        built.runs.push(run);
        Ok(built)
    }

    fn copies_of_prefixes(&self, batch: &RecordBatch, run: &Run) -> Result<Vec<f64>> {
        let Some(packing) = &self.packing else { return Ok(Vec::new()) };
        let rows = batch.num_rows();
        let sample: UInt64Array = (0..rows as u64).step_by(rows.div_ceil(SAMPLE).max(1)).collect();
        let columns: Vec<ArrayRef> = own_columns(&self.definition, batch);
        let columns = columns.iter().map(|column| take(column, &sample, None)).collect::<Result<Vec<_>, _>>()?;
        let of_first = |count: usize| {
            let (firsts, lasts) = packing.probes(&columns[..count])?;
            let lists = run.lists(Bound::Included(&firsts), Bound::Included(&lasts), 0)?;
            let sizes = (0..lists.lists.len()).map(|row| lists.list(row).len()).filter(|size| *size > 0);
            // (A value of n rows is in the sample n times as often as one of one row.)
            let (rows, values) =
                sizes.fold((0.0, 0.0), |(rows, values), size| (rows + 1.0, values + 1.0 / size as f64));
            Ok(if rows > 0.0 { rows / values } else { 0.0 })
        };
        (1..columns.len()).map(of_first).collect()
    }

    /// A run over one more part, whose values [fit](Self::fits).
    pub(crate) fn run(&self, batch: &RecordBatch, statement: &Statement, table: &str) -> Result<Run> {
        self.run_by(None, batch, statement, table)
    }

    fn run_by(
        &self,
        order: Option<&UInt64Array>,
        batch: &RecordBatch,
        statement: &Statement,
        table: &str,
    ) -> Result<Run> {
        let keys = self.keys(batch)?;
        let (rows, key_bytes) = (batch.num_rows(), keys.to_data().get_slice_memory_size()?);
        // Keys and row numbers as they are and in order, the tree of them, and the order of the rows.
        let expected = 2 * (key_bytes + 8 * rows) + 24 * rows;
        let memory = statement.take(&format!("index {} of {table}", self.definition.name), expected)?;
        let device = &self.definition.device;
        let by_order = order.map(|order| ArrowIndex::build_ordered(device, &keys, order)).transpose();
        let index = match by_order.map_err(external)?.flatten() {
            Some(index) => index,
            None => ArrowIndex::build(device, &keys, Nulls::Skip).map_err(external)?,
        };
        memory.settle((index.bytes() + index.host_bytes()) as usize)?;
        Ok(Run { index: Arc::new(index), dead: Arc::default(), _memory: Arc::new(memory) })
    }

    /// The same index, counted for a statement.
    pub(crate) fn counted(&self, statement: &Statement, table: &str) -> Result<Self> {
        let mut new = self.clone();
        for run in &mut new.runs {
            let bytes = (run.index.bytes() + run.index.host_bytes()) as usize;
            let memory = statement.take(&format!("index {} of {table}", self.definition.name), bytes)?;
            *run = Run { _memory: Arc::new(memory), ..run.clone() };
        }
        Ok(new)
    }

    /// Whether rows have keys among those of the other runs.
    pub(crate) fn fits(&self, batch: &RecordBatch) -> Result<bool> {
        match &self.packing {
            Some(packing) => packing.fits(&own_columns(&self.definition, batch)),
            None => Ok(true),
        }
    }

    /// The key of each row; null for a row that is in no index.
    pub(crate) fn keys(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let keys = match &self.packing {
            Some(packing) => packing.keys(&own_columns(&self.definition, batch))?,
            None => batch.column(self.definition.columns[0]).clone(),
        };
        self.of_condition(keys, batch)
    }

    fn of_condition(&self, keys: ArrayRef, batch: &RecordBatch) -> Result<ArrayRef> {
        self.definition.condition.as_ref().map_or(Ok(keys.clone()), |condition| condition.keys(&keys, batch))
    }

    /// The key of each row that another row may not have; null for a row with a null.
    pub(crate) fn unique_keys(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        match &self.packing {
            Some(packing) => self.of_condition(packing.probes(&own_columns(&self.definition, batch))?.0, batch),
            None => self.keys(batch),
        }
    }

    /// How many rows of a run's own part have the values of an earlier one of them; those with a null have nobody's.
    pub(crate) fn repeated(&self, run: &Run, batch: &RecordBatch) -> Result<u64> {
        if run.index.is_unique() || self.packing.is_none() {
            return Ok(run.index.len() - run.index.keys_len());
        }
        let first = run.index.get(&self.unique_keys(batch)?).map_err(external)?;
        let is_repeated = |(row, first): (u64, Option<u64>)| first.is_some_and(|first| first != row);
        Ok((0..).zip(&first).filter(|pair| is_repeated(*pair)).count() as u64)
    }

    /// How many rows are in it.
    pub(crate) fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.index.len() - run.dead.len() as u64).sum()
    }

    /// Of main memory and of the device's.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.index.bytes() + run.index.host_bytes()).sum()
    }
}

fn own_columns(definition: &Definition, batch: &RecordBatch) -> Vec<ArrayRef> {
    definition.columns.iter().map(|column| batch.column(*column).clone()).collect()
}

impl Run {
    /// The same run when rows of these keys and these numbers are removed from its part.
    pub(crate) fn without(&self, keys: &dyn Array, rows: impl Iterator<Item = u64>) -> Result<Self> {
        let lists = self.lists(Bound::Included(keys), Bound::Included(keys), 0)?;
        let mut dead = Vec::with_capacity(self.dead.len() + keys.len());
        for (key, row) in rows.enumerate() {
            let own = lists.list(key);
            if lists.lists.is_null(key) {
                continue;
            }
            // The rows of one key ascend.
            let Ok(at) = lists.all()[own.clone()].binary_search(&row) else {
                return internal_err!("row {row} is not in its index");
            };
            dead.push((own.start + at) as u64);
        }
        dead.sort_unstable();
        dead.extend_from_slice(&self.dead);
        // Of two ascending runs.
        dead.sort();
        Ok(Self { dead: Arc::new(dead), ..self.clone() })
    }

    /// The part's rows in the order of their keys.
    pub(crate) fn order(&self) -> Result<UInt64Array> {
        let all = self.index.range_views(Bound::Unbounded, Bound::Unbounded).map_err(external)?;
        Ok(all.values().as_primitive::<UInt64Type>().clone())
    }

    /// The rows of each range of keys; numbers are from that of the part's first row on.
    pub(crate) fn lists(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>, first: u64) -> Result<RunLists> {
        let lists = self.index.range_views(starts, ends).map_err(external)?;
        Ok(RunLists { lists, dead: self.dead.clone(), first })
    }

    /// The first row of each key of some ranges that has a row, in the order of the keys.
    pub(crate) fn distinct(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>, first: u64) -> Result<Vec<u64>> {
        let lists = self.index.key_views(starts, ends).map_err(external)?;
        let lists = RunLists { lists, dead: self.dead.clone(), first };
        let live = (0..lists.lists.len()).map(|key| lists.live(lists.list(key)));
        Ok(live.filter(|live| !live.is_empty()).map(|live| lists.all()[live.start] + first).collect())
    }
}

/// The rows of ranges of keys, where a run's index has them.
#[derive(Clone)]
pub(crate) struct RunLists {
    pub(crate) lists: LargeListViewArray,
    dead: Arc<Vec<u64>>,
    /// The number of the part's first row.
    first: u64,
}

impl RunLists {
    pub(crate) fn slice(&self, first: usize, count: usize) -> Self {
        Self { lists: self.lists.slice(first, count), ..self.clone() }
    }

    /// The numbers of the part's rows, in the order of their keys.
    fn all(&self) -> &[u64] {
        let all: &UInt64Array = self.lists.values().as_primitive::<UInt64Type>();
        all.values()
    }

    /// The places of a range's rows; none for a null.
    pub(crate) fn list(&self, range: usize) -> Range<usize> {
        let start = self.lists.value_offset(range) as usize;
        start..start + self.lists.value_size(range) as usize
    }

    /// Those of places whose rows are not removed and follow each other: the first ones.
    pub(crate) fn live(&self, places: Range<usize>) -> Range<usize> {
        let mut start = places.start;
        let mut next = self.dead.partition_point(|dead| *dead < start as u64);
        while start < places.end && self.dead.get(next) == Some(&(start as u64)) {
            (start, next) = (start + 1, next + 1);
        }
        let end = self.dead.get(next).map_or(places.end, |dead| places.end.min(*dead as usize));
        start..end.max(start)
    }

    /// How many of the rows at these places are not removed.
    pub(crate) fn count(&self, places: &Range<usize>) -> usize {
        let below = |place: usize| self.dead.partition_point(|dead| *dead < place as u64);
        places.len() - (below(places.end) - below(places.start))
    }

    /// The rows at places, by their numbers in the table.
    pub(crate) fn rows(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        self.all()[places].iter().map(|row| row + self.first)
    }

    /// Appends the rows at places.
    pub(crate) fn append(&self, places: Range<usize>, rows: &mut UInt64Builder) {
        match self.first {
            0 => rows.append_slice(&self.all()[places]),
            _ => self.rows(places).for_each(|row| rows.append_value(row)),
        }
    }

    /// The last row that is not removed in front of a place, or the first one from it on.
    pub(crate) fn next_to(&self, place: usize, forward: bool) -> Option<u64> {
        let all = self.all().len();
        let at = if forward {
            Some(self.live(place..all)).filter(|live| !live.is_empty())?.start
        } else {
            let is_dead = |place: usize| self.dead.binary_search(&(place as u64)).is_ok();
            (0..place).rev().find(|place| !is_dead(*place))?
        };
        self.rows(at..at + 1).next()
    }

    /// The rows of all ranges together, which are disjoint and ascend; at most so many, from either end.
    pub(crate) fn ordered(&self, most: usize, descending: bool) -> Vec<u64> {
        let mut rows = Vec::new();
        for range in 0..self.lists.len() {
            let range = if descending { self.lists.len() - 1 - range } else { range };
            let mut places = self.list(range);
            while !places.is_empty() && rows.len() < most {
                let left = most - rows.len();
                if descending {
                    // From the last dead row up to the end.
                    let end = self.dead.partition_point(|dead| *dead < places.end as u64);
                    let start = end.checked_sub(1).map_or(0, |last| self.dead[last] as usize + 1).max(places.start);
                    let own = start.max(places.end.saturating_sub(left))..places.end;
                    rows.extend(self.rows(own).rev());
                    places.end = start.saturating_sub(1).max(places.start);
                } else {
                    let own = self.live(places.clone());
                    places.start = own.end;
                    rows.extend(self.rows(own).take(left));
                }
            }
        }
        rows
    }
}

/// The name of a column, or of several ones in parentheses.
pub(crate) fn names_of(schema: &SchemaRef, columns: &[usize]) -> String {
    let names: Vec<_> = columns.iter().map(|column| schema.field(*column).name().as_str()).collect();
    match names[..] {
        [name] => name.to_owned(),
        _ => format!("({})", names.join(", ")),
    }
}

pub(crate) fn external(error: lanetree_arrow::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
