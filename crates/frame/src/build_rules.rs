//! What a build does with rows whose key is null, or is another row's, too.

use crate::domain::{Domain, picked};
use lanetree_base::room::with_room;
use lanetree_base::{Duplicates, Error, Nulls, Result, Validity};

/// What [`IndexBuilder::build_by`](crate::IndexBuilder::build_by) does with rows whose key is null, or is another row's, too. By
/// default no key is null, and the last row of a key is kept.
///
/// ```
/// use lanetree::{BuildRules, Device, Duplicates, Error, IndexBuilder, LaneTree, Nulls, Validity};
///
/// # fn main() -> lanetree::Result<()> {
/// let (device, builder) = (Device::host(), LaneTree::<u64, u32>::builder());
/// let (keys, rows) = ([7, 5, 0, 7], [0, 1, 2, 3]);
/// // The third key is null.
/// let rules = BuildRules::default().validity(Validity::new(&[0b1011], 0, 4)?, Nulls::Skip);
/// let index = builder.build_by(&device, &keys, &rows, &rules.duplicates(Duplicates::First))?;
/// assert_eq!(index.pairs()?, [(5, 1), (7, 0)]);
///
/// let refused = builder.build_by(&device, &keys, &rows, &rules.duplicates(Duplicates::Refuse));
/// assert!(matches!(refused, Err(Error::RepeatedKey { index: 3, first: 0, .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildRules<'a> {
    validity: Option<Validity<'a>>,
    nulls: Nulls,
    duplicates: Duplicates,
}

impl<'a> BuildRules<'a> {
    /// Which keys are null, and what to do with their rows.
    #[must_use]
    pub fn validity(self, validity: Validity<'a>, nulls: Nulls) -> Self {
        Self { validity: Some(validity), nulls, ..self }
    }

    /// What a build does with rows of equal keys: keep one of them, or fail.
    #[must_use]
    pub fn duplicates(self, duplicates: Duplicates) -> Self {
        Self { duplicates, ..self }
    }
}

/// Builds by rules. `build` builds an index of the rows that are left, and says how many pairs it has: fewer than rows if there are
/// equal keys, of which it keeps the last row.
pub(crate) fn build_by<D: Domain, V: Copy, I>(
    keys: D::Batch<'_>,
    values: &[V],
    rules: &BuildRules<'_>,
    build: impl Fn(D::Batch<'_>, &[V]) -> Result<(u64, I)>,
) -> Result<I> {
    let len = D::len(keys);
    if values.len() != len {
        return Err(Error::LengthMismatch { keys: len, values: values.len() });
    }
    let mut kept = None;
    if let Some(validity) = rules.validity {
        validity.check(len)?;
        match (validity.nulls().next(), rules.nulls) {
            (None, _) => {}
            (Some(index), Nulls::Refuse) => return Err(Error::NullKey { index }),
            (Some(_), Nulls::Skip) => kept = Some(validity.valid()?),
        }
    }
    let build_rows = |rows: &[usize]| {
        let (keys, values) = (D::pick(keys, rows)?, picked(values, rows)?);
        build(D::batch(&keys), &values)
    };
    let (pairs, index) = match &kept {
        None => build(keys, values),
        Some(rows) => build_rows(rows),
    }?;
    if rules.duplicates == Duplicates::Last || pairs == kept.as_ref().map_or(len, Vec::len) as u64 {
        return Ok(index);
    }
    // Its memory is free for what follows.
    drop(index);
    let mut rows = match kept {
        Some(rows) => rows,
        None => {
            let mut rows = with_room(len)?;
            rows.extend(0..len);
            rows
        }
    };
    if rules.duplicates == Duplicates::First {
        rows.reverse();
        return Ok(build_rows(&rows)?.1);
    }
    rows.sort_unstable_by(|&first, &second| D::compare(keys, first, second).then(first.cmp(&second)));
    let is_same = |first, second| D::compare(keys, first, second).is_eq();
    let repeats = rows.windows(2).filter(|pair| is_same(pair[0], pair[1])).map(|pair| pair[1]);
    let index = repeats.min().expect("an index has fewer pairs than rows where keys are equal");
    let first = rows.partition_point(|&row| D::compare(keys, row, index).is_lt());
    Err(Error::RepeatedKey { index, first: rows[first], key: D::show(keys, index) })
}
