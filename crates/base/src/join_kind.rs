//! Which rows a join has.

use crate::Validity;
use lanetree_layout::Value;

/// Which rows a join has, as in SQL. A null probe has no match: it is in no row of an inner or a semi-join, and in one row of a left
/// or an anti-join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum JoinKind {
    /// A row for each match (the default).
    #[default]
    Inner,
    /// A row for each match, and one for each probe without a match. The row on the index's side of these is [`no_row`].
    Left,
    /// A row for each probe that has a match, of the probe's number alone (`EXISTS`).
    Semi,
    /// A row for each probe that has none, of the probe's number alone (`NOT EXISTS`).
    Anti,
}

impl JoinKind {
    /// Whether rows of the index's side are results.
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Inner | Self::Left)
    }

    /// How many rows a probe with `matches` matches has.
    pub fn rows(self, matches: u64) -> u64 {
        match self {
            Self::Inner => matches,
            Self::Left => matches.max(1),
            Self::Semi => matches.min(1),
            Self::Anti => u64::from(matches == 0),
        }
    }
}

/// What a join in host form is asked for: its kind, and which probes are null.
///
/// ```
/// use lanetree::{Device, Join, LaneTree, Validity, no_row};
///
/// # fn main() -> lanetree::Result<()> {
/// let index = LaneTree::build(&Device::host(), &[10_u64, 20, 30], &[1_u32, 2, 3])?;
/// // The last probe is null.
/// let (probes, validity) = ([30, 15, 10], Validity::new(&[0b011], 0, 3)?);
/// let left = index.join_as_many(&probes, &Join::left().valid(validity))?;
/// assert!(left.iter().eq([(0, 2), (1, no_row()), (2, no_row())]));
/// let anti = index.join_as_many(&probes, &Join::anti().valid(validity))?;
/// assert_eq!((anti.len(), anti.probes), (2, vec![1, 2]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Join<'a> {
    kind: JoinKind,
    valid: Option<Validity<'a>>,
}

impl<'a> Join<'a> {
    /// A join of this kind, without null probes.
    pub fn new(kind: JoinKind) -> Self {
        Self { kind, valid: None }
    }

    /// An inner join: a row for each match of a probe ([`JoinKind::Inner`]).
    pub fn inner() -> Self {
        Self::new(JoinKind::Inner)
    }

    /// A left join: also a row for each probe without a match ([`JoinKind::Left`]).
    pub fn left() -> Self {
        Self::new(JoinKind::Left)
    }

    /// A semi-join: one row for each probe that has a match ([`JoinKind::Semi`]).
    pub fn semi() -> Self {
        Self::new(JoinKind::Semi)
    }

    /// An anti-join: one row for each probe that has no match ([`JoinKind::Anti`]).
    pub fn anti() -> Self {
        Self::new(JoinKind::Anti)
    }

    /// Which probes are there, and which are null; there must be one bit per probe.
    #[must_use]
    pub fn valid(self, validity: impl Into<Option<Validity<'a>>>) -> Self {
        Self { valid: validity.into(), ..self }
    }

    /// Its kind.
    pub fn kind(&self) -> JoinKind {
        self.kind
    }

    /// Which probes are there, if any may be null.
    pub fn validity(&self) -> Option<Validity<'a>> {
        self.valid
    }
}

/// The row of the index's side in a row of a left join whose probe has no match: all bits are set, as in the value that a query
/// without a pair gets in device form unless it asks for another one. An index that stores this value cannot tell it from that;
/// in device form the hit mask can.
pub fn no_row<V: Value>() -> V {
    let mut row = V::default();
    bytemuck::bytes_of_mut(&mut row).fill(u8::MAX);
    row
}
