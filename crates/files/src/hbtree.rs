//! Files of HB+-trees. Each leaf holds keys and values together, so leaves are filled from a file, not mapped.

use crate::format::{Header, MAGIC, Reader, WINDOW, Writer, bytes_of};
use crate::{Load, ReadAt, Result, Save, of, reader_of};
use core::ops::Bound;
use lanetree_frame::{AnyKey, Device, Key, KeyRange, Word};
use lanetree_hbtree::{Builder, HbTree, Structure};
use std::path::Path;

/// A file of an HB+-tree is one of any index over its pairs. They are copied from the leaves window by window.
impl<K: Key + AnyKey, V: Word, L: Structure> Save<of::HbTree> for HbTree<K, V, L> {
    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut file = Writer::begin(path.as_ref(), Header::of::<K, V>(MAGIC, 0, self.len())?)?;
        let (mut window, mut start, mut saved) = (Default::default(), Bound::Unbounded, 0);
        while saved < self.len() {
            let range = KeyRange::new((start, Bound::Unbounded)).limit(WINDOW as u64);
            self.range_many_into([range], &mut window)?;
            let (keys, values) = window.get(0);
            file.push([bytes_of(keys), bytes_of(values)])?;
            saved += keys.len() as u64;
            start = keys.last().map_or(start, |&last| Bound::Excluded(last));
        }
        file.finish()
    }
}

impl<K: Key + AnyKey, V: Word, L: Structure> Load<of::HbTree> for Builder<K, V, L> {
    type Loaded = HbTree<K, V, L>;

    fn load_from(&self, device: &Device, file: &dyn ReadAt) -> Result<HbTree<K, V, L>> {
        let reader: Reader<'_> = reader_of::<K, V>(file)?;
        let mut pieces = self.in_pieces(device, reader.pairs() as u64)?;
        reader.each_window::<K, V>(|keys, values| Ok(pieces.push(keys, values)?))?;
        Ok(pieces.finish()?)
    }
}
