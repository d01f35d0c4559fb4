//! Files of multi-maps: sorted pairs, in which a key may occur several times.

use crate::disk::Replacement;
use crate::format::{self, Header, MAGIC, Reader, SEVERAL};
use crate::{FromFile, ReadAt, Result, Save, of};
use lanetree_frame::room::with_room;
use lanetree_frame::{AnyKey, Device, Word};
use lanetree_multimap::MultiMap;
use std::path::Path;

/// A file of a multi-map has all pairs in order, with the values of a key in theirs.
impl<K: AnyKey, V: Word> Save<of::MultiMap> for MultiMap<K, V> {
    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let header = Header::of::<K, V>(MAGIC, SEVERAL, self.len())?;
        let (mut keys, mut values) = (with_room(self.len() as usize)?, with_room(self.len() as usize)?);
        for pair in self {
            let (key, value) = pair?;
            keys.push(key);
            values.push(value);
        }
        let file = Replacement::begin(path.as_ref())?;
        format::write(file, header, [format::bytes_of(&keys), format::bytes_of(&values)])?.commit().map(drop)
    }
}

/// Loads files of indexes, too.
impl<K: AnyKey, V: Word> FromFile for MultiMap<K, V> {
    fn load_from(device: &Device, file: &dyn ReadAt) -> Result<Self> {
        let (keys, values) = Reader::new::<K, V>(file)?.to_vecs::<K, V>()?;
        Ok(Self::build_sorted(device, &keys, &values)?)
    }
}
