//! The neighbours of keys in host memory, into columns.

use crate::errors::raise;
use crate::types::check_len;
use lanetree::bindings::parallel::*;
use lanetree::bindings::{Neighbors, Searches, TASK};
use lanetree::{AnyKey, FixedIndex, HostForm};
use pyo3::PyResult;
use std::borrow::Cow;
use std::ops::Range;

/// Where the neighbours of keys go: an element for each query.
pub(crate) struct Near<'a, K, V> {
    /// The neighbours' keys, if they are wanted.
    pub(crate) keys: Option<&'a mut [K]>,
    pub(crate) values: &'a mut [V],
    /// 1 where there is one, else 0.
    pub(crate) found: &'a mut [u8],
}

/// Takes what is found for a query, if there is something.
type Each<'a, I> = &'a mut dyn FnMut(usize, Option<(<I as FixedIndex>::Key, <I as FixedIndex>::Value)>);

/// What searches find for `count` queries, and `none` where there is nothing. `part` makes the queries of a range: of a task, if the tree
/// is on the CPU, else of all.
pub(crate) fn near<'q, I: FixedIndex>(
    tree: &I,
    count: usize,
    part: &(impl Fn(Range<usize>) -> Cow<'q, [I::Key]> + Sync),
    searches: &Searches<<I::Key as AnyKey>::Bits>,
    out: &mut Near<'_, I::Key, I::Value>,
    none: (I::Key, I::Value),
) -> PyResult<()> {
    for len in [out.keys.as_ref().map_or(count, |keys| keys.len()), out.values.len(), out.found.len()] {
        check_len(count, len)?;
    }
    // Without the tree on the CPU, its device's answers come in main memory, in pairs.
    let pairs = match tree.native() {
        Some(_) => Neighbors::new(),
        None => HostForm::neighbor_many(tree, &part(0..count), searches, |key, value| (key, value)).map_err(raise)?,
    };
    let answer = |task: usize, len: usize, each: Each<'_, I>| match tree.native() {
        Some(view) => searches.on_host(view, &part(task * TASK..task * TASK + len), each),
        None => pairs[task * TASK..].iter().take(len).enumerate().for_each(|(i, pair)| each(i, *pair)),
    };
    let columns = out.values.par_chunks_mut(TASK).zip(out.found.par_chunks_mut(TASK)).enumerate();
    match &mut out.keys {
        Some(keys) => keys.par_chunks_mut(TASK).zip(columns).for_each(|(keys, (task, (values, found)))| {
            answer(task, keys.len(), &mut |i, pair| {
                found[i] = u8::from(pair.is_some());
                (keys[i], values[i]) = pair.unwrap_or(none);
            });
        }),
        None => columns.for_each(|(task, (values, found))| {
            answer(task, found.len(), &mut |i, pair| {
                found[i] = u8::from(pair.is_some());
                values[i] = pair.unwrap_or(none).1;
            });
        }),
    }
    Ok(())
}
