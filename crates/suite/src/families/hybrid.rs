//! The tree with short keys on a device and long ones on the host: prefixes.

use crate::host::rows;
use crate::{Answer, Form, Hooks, Question};
use lanetree::cuart::{Hybrid, HybridBuilder};
use lanetree::{ByteKeysBuf, Result, Stream, Word};

/// Lengths up to which the device has a key: the longest, the shortest, and others.
pub fn hybrid_builders<V: Word>() -> Vec<HybridBuilder<V>> {
    [32, 8, 1, 13].map(|max| Hybrid::builder().max_device_key(max)).to_vec()
}

/// The prefixes of both trees.
#[derive(Clone, Copy, Debug)]
pub struct HybridHooks;

impl<V: Word> Hooks<Hybrid<V>> for HybridHooks {
    fn start(_: &Hybrid<V>, _: u8) -> Result<Self> {
        Ok(Self)
    }

    fn ask(
        &self,
        index: &Hybrid<V>,
        _: &Stream,
        question: &Question<Vec<u8>>,
        _: Form,
    ) -> Option<Result<Answer<Vec<u8>>>> {
        let Question::Prefix(prefixes) = question else { return None };
        let found = index.prefix_many(&prefixes.iter().collect::<ByteKeysBuf>());
        Some(found.map(|found| Answer::Rows(rows::<Hybrid<V>>(&found))))
    }
}
