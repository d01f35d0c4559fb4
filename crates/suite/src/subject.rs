//! What is put through cases, as the cases see it.

use crate::{Answer, Change, Form, Numbered, Question};
use lanetree::{Device, Error, Op, Result, UpdateReport};

/// Pairs of an index.
pub type Pairs<K> = Vec<(K, u64)>;

/// An index and the ways to build it.
pub trait Family: Sync {
    /// What is built.
    type Subject: Subject;

    /// What it is called, in the list of indexes and in messages.
    fn name(&self) -> &str;

    /// In how many ways it is built, at least one.
    fn ways(&self) -> u8;

    /// Builds one on a device; any number chooses a way and other options.
    ///
    /// # Errors
    /// The index's own.
    fn build(
        &self,
        device: &Device,
        options: u8,
        pairs: &[(<Self::Subject as Subject>::Key, u64)],
    ) -> Result<Self::Subject>;

    /// Checks the rules that cannot be stated as a sequence of steps, for the index that `options` choose.
    ///
    /// # Errors
    /// The rule that is broken.
    fn contract(&self, _device: &Device, _options: u8) -> Result<(), String> {
        Ok(())
    }
}

/// What an index can do, as far as every index and every pair of indexes can. Values are 64 bits wide here, and small:
/// narrower ones hold them.
pub trait Subject: Sized {
    /// Its keys.
    type Key: Numbered;

    /// Whether keys have values. If not, all are 0 here.
    const HAS_VALUES: bool = true;

    /// How many pairs it says to have.
    fn size(&self) -> u64;

    /// All pairs in order.
    ///
    /// # Errors
    /// The index's own, here and below.
    fn pairs(&mut self) -> Result<Pairs<Self::Key>>;

    /// A batch of operations, all of them of one kind but for [`Change::Mixed`].
    ///
    /// # Errors
    /// The index's own.
    fn apply(&mut self, change: Change, ops: &[Op<Self::Key, u64>], form: Form) -> Result<Counts>;

    /// The answer to a batch of queries; `None` if it has no such call.
    fn ask(&self, question: &Question<Self::Key>, form: Form) -> Option<Result<Answer<Self::Key>>>;

    /// Brings it back to the state in which it was built.
    ///
    /// # Errors
    /// The index's own.
    fn restore_order(&mut self) -> Result<()> {
        Ok(())
    }

    /// Rebuilds it.
    ///
    /// # Errors
    /// The index's own.
    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    /// Checks the rules of its layout, where it has such a check: what is wrong in a node may not show in any answer yet.
    ///
    /// # Panics
    /// For the first rule that is broken.
    fn check_structure(&self) {}

    /// Whether a change fails if the device does.
    fn needs_device(&self) -> bool {
        true
    }

    /// Takes it to another device, or apart, and goes on with the result.
    ///
    /// # Errors
    /// The index's own.
    fn relocate(self) -> Result<Self> {
        Ok(self)
    }

    /// Whether it may give this error now to a call that is otherwise right, as its documentation says.
    fn may_refuse(&self, _error: &Error) -> bool {
        false
    }

    /// The device that may fail.
    fn device(&self) -> &Device;

    /// Whether it says that it is lost; `None` if it cannot say.
    fn is_lost(&self) -> Option<bool> {
        None
    }

    /// After a failed change: whether the change has been made all the same. Repairs what can be repaired.
    ///
    /// # Errors
    /// The index's own.
    fn settle(&mut self) -> Result<bool> {
        Ok(false)
    }
}

/// What a batch is said to have done; `None` where that is not said.
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

impl From<UpdateReport> for Counts {
    fn from(report: UpdateReport) -> Self {
        Self {
            inserted: Some(report.inserted),
            replaced: Some(report.replaced),
            removed: Some(report.removed),
            unmatched: Some(report.unmatched),
        }
    }
}
