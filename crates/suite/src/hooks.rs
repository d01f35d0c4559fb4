//! What an index has in addition to [`OrderedIndex`].

use crate::{Answer, Change, Counts, Form, Numbered, Question, fixed};
use lanetree::hbtree::{HbTree, Regular};
use lanetree::{DeviceKind, Domain, Error, Key, KeyOf, Op, OrderedIndex, Result, Stream, Word};
use lanetree_frame::fixed::FixedIndex;

/// Calls that an index has in addition to the calls of [`OrderedIndex`]. `None` from a call: the index has no such call. Every
/// method has such a default.
pub trait Hooks<I: OrderedIndex<Domain: Domain<Key: Numbered>>>: Sized {
    /// What the calls need in addition to the index, such as scratch memory; any number chooses options.
    ///
    /// # Errors
    /// The index's own, here and below.
    fn start(index: &I, options: u8) -> Result<Self>;

    /// Whether the index answers in device form now, if it has that form.
    fn takes_buffers(&self, _index: &I) -> bool {
        true
    }

    /// Applies a batch of at least one operation in device form.
    fn apply(
        &mut self,
        _index: &mut I,
        _stream: &Stream,
        _change: Change,
        _ops: &[Op<KeyOf<I>, I::Value>],
    ) -> Option<Result<Counts>> {
        None
    }

    /// [`Subject::ask`](crate::Subject::ask) by a call that [`OrderedIndex`] does not have.
    fn ask(
        &self,
        _index: &I,
        _stream: &Stream,
        _question: &Question<KeyOf<I>>,
        _form: Form,
    ) -> Option<Result<Answer<KeyOf<I>>>> {
        None
    }

    /// [`Subject::check_structure`](crate::Subject::check_structure).
    fn check_structure(&self, _index: &I) {}

    /// [`Subject::needs_device`](crate::Subject::needs_device).
    fn needs_device(&self, _index: &I) -> bool {
        true
    }

    /// [`Subject::relocate`](crate::Subject::relocate).
    ///
    /// # Errors
    /// The index's own.
    fn relocate(index: I) -> Result<I> {
        Ok(index)
    }

    /// [`Subject::may_refuse`](crate::Subject::may_refuse), in addition to [`Error::NotCompact`], which any index may
    /// give after an insert or a removal.
    fn may_refuse(&self, _index: &I, _error: &Error) -> bool {
        false
    }
}

/// The hooks of an index that has only the calls of [`OrderedIndex`].
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<I: OrderedIndex<Domain: Domain<Key: Numbered>>> Hooks<I> for Plain {
    fn start(_: &I, _: u8) -> Result<Self> {
        Ok(Self)
    }
}

/// The hooks of regular HB+-trees: the check of their nodes.
#[derive(Clone, Copy, Debug)]
pub struct RegularHooks;

impl<K: Key + Numbered, V: Word> Hooks<HbTree<K, V, Regular>> for RegularHooks {
    fn start(_: &HbTree<K, V, Regular>, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn check_structure(&self, index: &HbTree<K, V, Regular>) {
        if index.device().kind() != DeviceKind::Cuda {
            index.check_structure();
        }
    }

    /// A tree whose device failed before is changed on the host, even if the device fails again to take its inner levels.
    fn needs_device(&self, index: &HbTree<K, V, Regular>) -> bool {
        index.stats().on_device.is_none_or(|state| state.is_ok())
    }
}

/// The hooks of any [`FixedIndex`].
#[derive(Clone, Copy, Debug)]
pub struct Fixed;

impl<I: FixedIndex<Key: Numbered, Value: Word>> Hooks<I> for Fixed {
    fn start(_: &I, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn ask(
        &self,
        index: &I,
        stream: &Stream,
        question: &Question<I::Key>,
        form: Form,
    ) -> Option<Result<Answer<I::Key>>> {
        fixed::ask_of_map(index, stream, question, form)
    }
}
