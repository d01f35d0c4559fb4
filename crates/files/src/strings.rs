//! Files of byte strings.

use crate::format::{self, Reader};
use crate::{Error, Result, in_file};
use lanetree_frame::byte_keys::show;
use lanetree_frame::{ByteKeys, ByteKeysBuf, Value};
use std::path::Path;

/// Writes byte strings and their values to a file, as an index over them saves itself; otherwise like
/// [`write_pairs`](crate::write_pairs).
///
/// ```
/// use lanetree::files::{read_strings, types_of, write_strings};
/// use lanetree::ByteKeysBuf;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("words");
/// let words: ByteKeysBuf = ["", "car", "cargo"].into_iter().collect();
/// write_strings(&path, &words, &[1_u32, 2, 3])?;
/// assert_eq!(types_of(&path)?, ["bytes", "u32"]);
/// assert_eq!(read_strings::<u32>(&path)?, (words, vec![1, 2, 3]));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`write_pairs`](crate::write_pairs).
pub fn write_strings<'k, V: Value>(path: impl AsRef<Path>, keys: impl Into<ByteKeys<'k>>, values: &[V]) -> Result<()> {
    let keys = keys.into();
    if keys.len() != values.len() {
        return Err(lanetree_frame::Error::LengthMismatch { keys: keys.len(), values: values.len() }.into());
    }
    if let Some(index) = (1..keys.len()).find(|&index| keys.at(index) <= keys.at(index - 1)) {
        let [key, previous] = [index, index - 1].map(|index| show(keys.at(index)));
        return Err(Error::Index(match key == previous {
            true => lanetree_frame::Error::NotDistinct { index, key },
            false => lanetree_frame::Error::NotSorted { index, previous, key },
        }));
    }
    format::write_strings(path.as_ref(), keys, values)
}

/// Reads the byte strings of a file, in ascending order, and their values.
///
/// # Errors
/// As [`read_pairs`](crate::read_pairs).
pub fn read_strings<V: Value>(path: impl AsRef<Path>) -> Result<(ByteKeysBuf, Vec<V>)> {
    in_file(path, |file| Reader::of_strings::<V>(file)?.read_strings())
}

#[cfg(feature = "cuart")]
mod cuart {
    use crate::format::{self, Reader};
    use crate::{FromFile, Load, ReadAt, Result, Save, of};
    use lanetree_cuart::{Builder, Cuart};
    use lanetree_frame::{Device, DeviceKind, Word};
    use std::path::Path;

    /// A file of a CuART has its strings in order, whatever the tree has changed since its build.
    impl<V: Word> Save<of::Strings> for Cuart<V> {
        fn save(&self, path: impl AsRef<Path>) -> Result<()> {
            // A device gathers from its own leaves, by their ranks; the host follows links to all leaves.
            let has_all =
                self.device().kind() == DeviceKind::Host || self.is_compact() && self.stats().host_leaves == 0;
            let all = match has_all {
                true => self.range_many([..])?,
                false => self.to_device(&Device::host())?.range_many([..])?,
            };
            let (keys, values) = all.get(0);
            format::write_strings(path.as_ref(), keys, values)
        }
    }

    impl<V: Word> Load<of::Strings> for Builder<V> {
        type Loaded = Cuart<V>;

        fn load_from(&self, device: &Device, file: &dyn ReadAt) -> Result<Cuart<V>> {
            let (keys, values) = Reader::of_strings::<V>(file)?.read_strings::<V>()?;
            Ok(self.build_sorted(device, &keys, &values)?)
        }
    }

    impl<V: Word> FromFile for Cuart<V> {
        fn load_from(device: &Device, file: &dyn ReadAt) -> Result<Self> {
            Self::builder().load_from(device, file)
        }
    }
}
