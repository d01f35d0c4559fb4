//! Searches and updates in one stream (appendix B.3).

use crate::HbTree;
use crate::regular::Regular;
use crate::request::Request;
use crate::structure::Parts;
use core::fmt;
use lanetree_frame::{Error, UpdatePath, UpdateReport};
use lanetree_layout::{Key, Word};

/// What a stream of requests has found and done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mixed<V> {
    /// For each [`Request::Get`], in the order of the requests, the value that its key had then.
    pub found: Vec<Option<V>>,
    /// The sum of what the groups did. A key counts once in each group that changes it. The path is the one of the
    /// group that had to do most.
    pub report: UpdateReport,
    /// Requests that were done, all others came after them.
    pub done: usize,
}

/// A stream that has ended early: an error kept a group from being done. Nothing of this group was done, or of those after
/// it. What the groups before it have found and done stays.
#[derive(Debug)]
#[non_exhaustive]
pub struct Interrupted<V> {
    /// What was found and done before.
    pub before: Mixed<V>,
    /// The error.
    pub error: Box<Error>,
}

impl<V> fmt::Display for Interrupted<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "only the first {} requests were done: {}", self.before.done, self.error)
    }
}

impl<V: fmt::Debug> std::error::Error for Interrupted<V> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.error)
    }
}

impl<V> From<Interrupted<V>> for Error {
    fn from(interrupted: Interrupted<V>) -> Self {
        *interrupted.error
    }
}

/// Requests of a group: the paper's.
const GROUP: usize = 1 << 14;

/// How much a batch of this path does.
fn effort(path: UpdatePath) -> u32 {
    match path {
        UpdatePath::Unchanged => 0,
        UpdatePath::InPlace => 1,
        UpdatePath::Moved => 2,
        UpdatePath::Rebuilt => 3,
    }
}

fn in_groups<K: Key, V: Word>(
    parts: &mut Parts<K, V, Regular>,
    requests: &[Request<K, V>],
) -> Result<Mixed<V>, Interrupted<V>> {
    let mut all = Mixed { found: Vec::new(), report: UpdateReport::default(), done: 0 };
    for group in requests.chunks(GROUP) {
        match parts.mixed(group, &mut all.found) {
            Ok(report) => {
                let path = if effort(report.path) > effort(all.report.path) { report.path } else { all.report.path };
                all.report = UpdateReport { path, ..all.report.plus(&report) };
                all.done += group.len();
            }
            Err(error) => return Err(Interrupted { before: all, error: Box::new(error) }),
        }
    }
    Ok(all)
}

impl<K: Key, V: Word> HbTree<K, V, Regular> {
    /// Executes requests as if one after another: each get sees the effects of the requests before it.
    ///
    /// They are done in groups of 16 K, as in the paper. The keys of a group are found all at once, on the CPU. Then the
    /// requests of a key are played through in their order, from what the tree has of it; that answers the gets, and leaves
    /// one change. The changes of a group are a batch, which takes place as a whole or not at all. So threads need no locks,
    /// where the paper's lock a node for each request, and its gets see the changes in any order.
    ///
    /// ```
    /// use lanetree::hbtree::{HbTree, Request};
    /// use lanetree::Device;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tree = HbTree::builder().regular().build(&Device::host(), &[1_u64, 2], &[10_u64, 20])?;
    /// let requests = [Request::Get(2), Request::Remove(2), Request::Get(2), Request::Insert(3, 30), Request::Get(3)];
    /// let mixed = tree.mixed(&requests)?;
    /// assert_eq!(mixed.found, [Some(20), None, Some(30)]);
    /// assert_eq!((mixed.report.inserted, mixed.report.removed), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Interrupted`], with what was done before, and the error of the group that was not: as
    /// [`apply`](HbTree::apply).
    pub fn mixed(&mut self, requests: &[Request<K, V>]) -> Result<Mixed<V>, Interrupted<V>> {
        let outcome = self.parts.with_all_sent(|parts| in_groups(parts, requests));
        self.note_height();
        outcome
    }
}
