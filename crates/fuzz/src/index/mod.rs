//! The indexes, each as one trait has them.

mod cuart;
mod harmonia;
mod hybrid;
mod mirrored;
mod numbers;
mod strings;

pub use cuart::CuartIndex;
pub use harmonia::HarmoniaIndex;
pub(crate) use harmonia::is_lost;
pub use hybrid::HybridIndex;
pub use mirrored::{MirroredCuart, MirroredHarmonia};
pub use numbers::Number;

use crate::model::Range;
use crate::{Change, Form, Side};
use core::fmt::Debug;
use lanetree::harmonia::Op;
use lanetree::{Device, Error, Result};

/// Pairs of an index.
pub type Pairs<K> = Vec<(K, u64)>;

/// The pair next to a key, if there is one.
pub type Neighbor<K> = Option<(K, u64)>;

/// What an index can do, as far as every index can. Values are 64 bits wide here, and small: narrower ones hold them.
pub trait Index: Sized {
    /// Its keys.
    type Key: Ord + Clone + Debug;

    /// The key that a number stands for. Different numbers may stand for the same key.
    fn key(number: u16) -> Self::Key;

    /// Builds one on a device. Options are chosen by a number.
    fn build(device: &Device, options: u8, pairs: &[(Self::Key, u64)]) -> Result<Self>;

    /// How many pairs it says to have.
    fn size(&self) -> u64;

    /// All pairs in order.
    fn pairs(&mut self) -> Result<Pairs<Self::Key>>;

    /// A batch of operations, all of them of one kind but for [`Change::Mixed`].
    fn apply(&mut self, change: Change, ops: &[Op<Self::Key, u64>], form: Form) -> Result<Counts>;

    /// The values of keys.
    fn get(&self, keys: &[Self::Key], form: Form) -> Result<Vec<Option<u64>>>;

    /// How many keys are below each, or not above.
    fn rank(&self, keys: &[Self::Key], side: Side, form: Form) -> Result<Vec<u64>>;

    /// The last pairs not above, or the first not below.
    fn neighbor(&self, keys: &[Self::Key], side: Side, form: Form) -> Result<Vec<Neighbor<Self::Key>>>;

    /// The pairs of ranges.
    fn range(&self, ranges: &[Range<Self::Key>], form: Form) -> Result<Vec<Pairs<Self::Key>>>;

    /// How many pairs ranges have.
    fn count(&self, ranges: &[Range<Self::Key>], form: Form) -> Result<Vec<u64>>;

    /// The pairs whose keys begin with each prefix; `None` where keys have none.
    fn prefix(&self, _prefixes: &[Self::Key]) -> Option<Result<Vec<Pairs<Self::Key>>>> {
        None
    }

    /// The first so many parts of a key, where it has any.
    fn cut(key: Self::Key, _len: usize) -> Self::Key {
        key
    }

    /// Whether a key begins with another.
    fn begins_with(_key: &Self::Key, _prefix: &Self::Key) -> bool {
        false
    }

    /// Brings it into order.
    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    /// Takes it to another device, or apart, and goes on with what comes of that.
    fn relocate(self) -> Result<Self> {
        Ok(self)
    }

    /// Whether it may give this error now to a call that nothing is wrong with, as its documentation says.
    fn may_refuse(&self, _error: &Error) -> bool {
        false
    }

    /// The devices that may fail.
    fn device(&self) -> &Device;

    /// After a failed change, whether the change has been made all the same; sets right what can be.
    fn settle(&mut self) -> Result<bool> {
        Ok(false)
    }
}

/// What a batch is said to have done; nothing where that is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that were not there, and are.
    pub inserted: Option<u64>,
    /// Keys that were there, and are.
    pub replaced: Option<u64>,
    /// Keys that were there, and are not.
    pub removed: Option<u64>,
    /// Keys that were not there, and are not.
    pub unmatched: Option<u64>,
}

impl Counts {
    /// Whether nothing that is said differs.
    pub(crate) fn agree(&self, expected: &Self) -> bool {
        let agree = |said: Option<u64>, expected: Option<u64>| said.is_none() || said == expected;
        agree(self.inserted, expected.inserted)
            && agree(self.replaced, expected.replaced)
            && agree(self.removed, expected.removed)
            && agree(self.unmatched, expected.unmatched)
    }
}

impl From<lanetree::harmonia::UpdateReport> for Counts {
    fn from(report: lanetree::harmonia::UpdateReport) -> Self {
        Self {
            inserted: Some(report.inserted),
            replaced: Some(report.replaced),
            removed: Some(report.removed),
            unmatched: Some(report.unmatched),
        }
    }
}
