//! What pairs of probes and rows are to meet beside their keys.

use crate::contents::{Indexed, batch_of};
use crate::found::columns_of;
use crate::shape::{Kind, Shape, Source, moved};
use datafusion::arrow::array::{Array, AsArray, RecordBatch, UInt64Array, UInt64Builder};
use datafusion::arrow::compute::{filter, filter_record_batch};
use datafusion::arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::utils::collect_columns;
use lanetree_arrow::Join;
use std::sync::Arc;

/// The filters of a look-up.
pub(crate) struct PairFilter {
    /// Over the columns of `schema`, whose sources are these.
    conditions: Vec<PhysicalExprRef>,
    sources: Vec<Source>,
    schema: SchemaRef,
    kind: Kind,
}

/// Pairs of probes and rows of the table; of probes that are returned by themselves, the rows are null.
pub(crate) struct Pairs {
    pub(crate) probes: UInt64Array,
    pub(crate) rows: UInt64Array,
}

impl PairFilter {
    /// Those of a look-up; `None` if it returns all pairs that it finds.
    pub(crate) fn of(shape: &Shape, probes: &Schema, table: &Schema, kind: Kind) -> Result<Option<Self>> {
        if shape.filters.is_empty() {
            return Ok(None);
        }
        let mut columns: Vec<_> = shape.filters.iter().flat_map(collect_columns).map(|column| column.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        let place = |column: usize| columns.binary_search(&column).ok();
        let conditions = shape.filters.iter().map(|condition| moved(condition.clone(), &place));
        let Some(conditions) = conditions.collect::<Result<_>>()? else {
            return internal_err!("a column of a filter is missing");
        };
        let count = probes.fields().len();
        let sources = columns.iter().map(|&at| at.checked_sub(count).map_or(Source::Probe(at), Source::Table));
        let field = |source: &Source| match *source {
            Source::Probe(at) => probes.field(at).clone(),
            Source::Table(at) => table.field(at).clone(),
        };
        let sources: Vec<_> = sources.collect();
        let schema = Arc::new(Schema::new(sources.iter().map(field).collect::<Vec<_>>()));
        Ok(Some(Self { conditions, sources, schema, kind }))
    }

    /// Those of some pairs of a batch of probes that meet all conditions.
    pub(crate) fn passing(&self, pairs: Pairs, batch: &RecordBatch, indexed: &Indexed) -> Result<Pairs> {
        let columns = columns_of(&self.sources, batch, &pairs, indexed)?;
        let mut left = batch_of(&self.schema, columns, pairs.probes.len())?;
        let Pairs { mut probes, mut rows } = pairs;
        for condition in &self.conditions {
            if left.num_rows() == 0 {
                break;
            }
            let met = condition.evaluate(&left)?.into_array(left.num_rows())?;
            let Some(met) = met.as_boolean_opt() else {
                return internal_err!("the condition {condition} is {}", met.data_type());
            };
            let numbers = |all| -> Result<UInt64Array> { Ok(filter(all, met)?.as_primitive::<UInt64Type>().clone()) };
            (probes, rows) = (numbers(&probes)?, numbers(&rows)?);
            left = filter_record_batch(&left, met)?;
        }
        Ok(Pairs { probes, rows })
    }

    /// What is returned for pairs that pass, whose probes ascend, given the first probe that may not have been returned yet: with `end`,
    /// also for all probes in front of it that have no pair.
    pub(crate) fn returned(&self, passing: Pairs, next: &mut u64, end: Option<u64>) -> Pairs {
        let without_pair = matches!(self.kind, Kind::Pairs(Join::Left) | Kind::Filter { present: false });
        let (mut probes, mut rows) = (UInt64Builder::new(), UInt64Builder::new());
        let pairs = passing.probes.values().iter().copied().zip(passing.rows.iter());
        for (probe, row) in pairs.chain(end.map(|end| (end, None))) {
            let is_first = probe >= *next;
            if without_pair && is_first {
                (*next..probe).for_each(|probe| probes.append_value(probe));
                rows.append_nulls((probe - *next) as usize);
            }
            let is_returned = match self.kind {
                Kind::Pairs(_) => true,
                Kind::Filter { present } => present && is_first,
            };
            if is_returned && row.is_some() {
                probes.append_value(probe);
                rows.append_option(row);
            }
            *next = (*next).max(probe + u64::from(row.is_some()));
        }
        Pairs { probes: probes.finish(), rows: rows.finish() }
    }
}
