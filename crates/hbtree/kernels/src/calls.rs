//! The choice of a kernel by its words.

use crate::{
    Descend, DescendArgs, DescendRegular, DescendRegularArgs, DescendRegularShared, DescendShared, Finish, FinishArgs,
    Narrow, NarrowArgs,
};
use lanetree_simt::{Call, Word, entry_by_words};

/// The descent with ballots: one thread per query.
pub fn descend<K: Word>(args: &DescendArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K => Descend<K>), args)
}

/// The descent with flags in shared memory: [`words`](crate::layout::words) threads per query.
pub fn descend_shared<K: Word>(args: &DescendArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K => DescendShared<K>), args)
}

/// The descent through a regular tree, with ballots: one thread per query.
pub fn descend_regular<K: Word>(args: &DescendRegularArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K => DescendRegular<K>), args)
}

/// The descent through a regular tree, with flags in shared memory: [`words`](crate::layout::words) threads per query.
pub fn descend_regular_shared<K: Word>(args: &DescendRegularArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K => DescendRegularShared<K>), args)
}

/// The search of leaves: one thread per query.
pub fn finish<K: Word, V: Word>(args: &FinishArgs<K, V>) -> Call<'_> {
    Call::new(entry_by_words!(K, V => Finish<K, V>), args)
}

/// The numbers of leaves: one thread per rank.
pub fn narrow(args: &NarrowArgs) -> Call<'_> {
    Call::of::<Narrow>(args)
}
