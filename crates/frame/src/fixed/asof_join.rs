//! As-of joins: the rows of as-of look-ups, of which a probe may have two.

use super::{AsOf, FixedIndex, HostForm, Ties};
use lanetree_base::room::{push, with_room};
use lanetree_base::{Join, JoinRows, Result};

/// [`HostForm::asof_join_many`].
pub(super) fn asof_join<I: FixedIndex>(
    index: &I,
    probes: &[I::Key],
    how: &AsOf,
    join: &Join<'_>,
) -> Result<JoinRows<I::Value>> {
    if let Some(validity) = join.validity() {
        validity.check(probes.len())?;
    }
    let takes_both = how.takes_both();
    let firsts = index.asof_many(probes, &if takes_both { how.ties(Ties::Backward) } else { *how })?;
    let seconds = if takes_both { Some(index.asof_many(probes, &how.ties(Ties::Forward))?) } else { None };
    let mut out = JoinRows { offsets: with_room(probes.len() + 1)?, rows: with_room(probes.len())? };
    out.offsets.push(0);
    for (i, first) in firsts.into_iter().enumerate() {
        if let Some((key, value)) = first {
            push(&mut out.rows, value)?;
            if let Some((other, value)) = seconds.as_ref().and_then(|seconds| seconds[i])
                && other != key
            {
                push(&mut out.rows, value)?;
            }
        }
        out.offsets.push(out.rows.len() as u64);
    }
    out.of_kind(join)
}
