//! Which join a look-up stands for, and where its columns come from.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use lanetree_arrow::Join;
use std::sync::Arc;

/// The join that an [`IndexLookupExec`](crate::IndexLookupExec) stands for.
#[derive(Debug)]
pub(crate) struct Shape {
    /// As SQL has it: of a left and a right side.
    pub(crate) join_type: JoinType,
    /// The side of the probes.
    pub(crate) probe_side: JoinSide,
    /// The schema without a projection.
    pub(crate) schema: SchemaRef,
    pub(crate) condition: On,
    /// The columns of the table on its side of the join.
    pub(crate) columns: Vec<usize>,
    /// What pairs are to meet in addition, each asked of those that meet the ones before it: over the columns of the input, and then all
    /// columns of the table.
    pub(crate) filters: Vec<PhysicalExprRef>,
}

/// Which rows of the table a probe of an [`IndexLookupExec`](crate::IndexLookupExec) matches. Expressions are over the input.
#[derive(Clone, Debug)]
pub enum On {
    /// Those whose value is the key.
    Equal {
        /// The key.
        key: PhysicalExprRef,
        /// The indexed column, over the table's side.
        indexed: Column,
    },
    /// Those whose values are the keys, of an index on several columns.
    AllEqual {
        /// The keys, of all columns of the index or of its first ones, in its order.
        keys: Vec<PhysicalExprRef>,
        /// The indexed columns, over the table's side.
        indexed: Vec<Column>,
    },
    /// The one whose value is the nearest to the key.
    AsOf {
        /// The key.
        key: PhysicalExprRef,
        /// Whether the value is not below the key; otherwise it is not above it.
        forward: bool,
    },
    /// Those whose values are between two keys, both included.
    Between {
        /// The smaller key.
        low: PhysicalExprRef,
        /// The larger one.
        high: PhysicalExprRef,
    },
}

impl On {
    /// How many columns are compared.
    pub(crate) fn keys(&self) -> usize {
        match self {
            Self::AllEqual { keys, .. } => keys.len(),
            Self::Equal { .. } | Self::AsOf { .. } | Self::Between { .. } => 1,
        }
    }
}

/// What is done with probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Returned with their rows.
    Pairs(Join),
    /// Returned by themselves if they are in the table, or if they are not.
    Filter { present: bool },
}

/// Where a column of the join comes from: a column of the input, or of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Probe(usize),
    Table(usize),
}

impl Kind {
    /// `None` for a join that returns rows of the table that no probe finds, or each row once.
    pub(crate) fn of(join_type: JoinType, probe_side: JoinSide) -> Option<Self> {
        use JoinType::*;
        Some(match (join_type, probe_side) {
            (Inner, _) => Kind::Pairs(Join::Inner),
            (Left, JoinSide::Left) | (Right, JoinSide::Right) => Kind::Pairs(Join::Left),
            (LeftSemi, JoinSide::Left) | (RightSemi, JoinSide::Right) => Kind::Filter { present: true },
            (LeftAnti, JoinSide::Left) | (RightAnti, JoinSide::Right) => Kind::Filter { present: false },
            _ => return None,
        })
    }
}

impl Shape {
    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::of(self.join_type, self.probe_side)
    }

    /// Whether a look-up can stand for the join: not for one that returns the probes alone, by their neighbours.
    pub(crate) fn is_lookup(&self) -> bool {
        match self.kind() {
            Some(Kind::Pairs(_)) => true,
            Some(Kind::Filter { .. }) => !matches!(self.condition, On::AsOf { .. }),
            None => false,
        }
    }

    /// Where column `at` of the join's schema comes from, given the number of columns of the input.
    pub(crate) fn source(&self, at: usize, probes: usize) -> Source {
        let from_table = |at: usize| Source::Table(self.columns[at]);
        match (self.kind(), self.probe_side) {
            (Some(Kind::Filter { .. }), _) => Source::Probe(at),
            (_, JoinSide::Left) => {
                if at < probes {
                    Source::Probe(at)
                } else {
                    from_table(at - probes)
                }
            }
            _ if at < self.columns.len() => from_table(at),
            _ => Source::Probe(at - self.columns.len()),
        }
    }
}

/// An expression over columns at other places; `None` if one has no place.
pub(crate) fn moved(expr: PhysicalExprRef, place: &dyn Fn(usize) -> Option<usize>) -> Result<Option<PhysicalExprRef>> {
    let mut has_places = true;
    let moved = expr.transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let Some(at) = place(column.index()) else {
            has_places = false;
            return Ok(Transformed::no(node));
        };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as PhysicalExprRef))
    });
    Ok(Some(moved.data()?).filter(|_| has_places))
}
