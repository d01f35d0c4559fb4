//! A small index of each kind of file, for the tests of damage, power cuts and failing disks.

use crate::{Contents, FromFile, Load, Result, Save, Section, read_pairs, read_strings, write_pairs, write_strings};
use lanetree_cuart::Cuart;
use lanetree_frame::{ByteKeysBuf, Device};
use lanetree_hbtree::HbTree;
use std::path::Path;

/// What is read from a file, in one form for all kinds.
pub(crate) type Pairs = Vec<(Vec<u8>, u64)>;

/// A kind of file, with two indexes of it, one of which takes the place of the other.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) write_old: fn(&Path),
    /// Fails as the disk does.
    pub(crate) try_write_new: fn(&Path) -> Result<()>,
    pub(crate) write_new: fn(&Path),
    pub(crate) read: fn(&Path) -> Result<Pairs>,
    pub(crate) old: fn() -> Pairs,
    pub(crate) new: fn() -> Pairs,
    /// The sections, each of which takes 4 KiB, but for the table.
    sections: &'static [Section],
}

impl Kind {
    /// The section of a byte.
    pub(crate) fn section_at(&self, byte: usize) -> Section {
        self.sections.get(byte / 4096).copied().unwrap_or(Section::Table)
    }
}

const FIXED: &[Section] = &[Section::Header, Section::Keys, Section::Values];
const STRINGS: &[Section] = &[Section::Header, Section::KeyEnds, Section::Keys, Section::Values];
const OLD: (&[u64], &[u64]) = (&[1, 2, 3], &[10, 20, 30]);
const NEW: (&[u64], &[u64]) = (&[2, 4, 9], &[21, 41, 91]);
const OLD_STRINGS: (&[&str], &[u64]) = (&["", "car"], &[1, 2]);
const NEW_STRINGS: (&[&str], &[u64]) =
    (&["car", "cargo", "carpet, of more bytes than the others have together"], &[3, 4, 5]);

fn of_numbers(keys: &[u64], values: &[u64]) -> Pairs {
    keys.iter().map(|key| key.to_be_bytes().to_vec()).zip(values.iter().copied()).collect()
}

fn of_strings(keys: &[&str], values: &[u64]) -> Pairs {
    keys.iter().map(|key| key.as_bytes().to_vec()).zip(values.iter().copied()).collect()
}

fn strings(keys: &[&str]) -> ByteKeysBuf {
    keys.iter().collect()
}

fn hbtree(pairs: (&[u64], &[u64])) -> HbTree<u64, u64> {
    HbTree::build(&Device::host(), pairs.0, pairs.1).unwrap()
}

fn cuart(pairs: (&[&str], &[u64])) -> Cuart<u64> {
    Cuart::build(&Device::host(), &strings(pairs.0), pairs.1).unwrap()
}

macro_rules! kind {
    ($name:literal, $old:expr, $new:expr, $sections:ident, $pairs:expr, |$path:ident, $it:ident| $write:expr, $read:expr) => {
        Kind {
            name: $name,
            write_old: |$path| {
                let $it = $old;
                $write.unwrap()
            },
            try_write_new: |$path| {
                let $it = $new;
                $write
            },
            write_new: |$path| {
                let $it = $new;
                $write.unwrap()
            },
            read: $read,
            old: || $pairs($old.0, $old.1),
            new: || $pairs($new.0, $new.1),
            sections: $sections,
        }
    };
}

/// All of them.
pub(crate) const KINDS: &[Kind] = &[
    kind!("pairs", OLD, NEW, FIXED, of_numbers, |path, it| write_pairs(path, it.0, it.1), |path| {
        let (keys, values) = read_pairs::<u64, u64>(path)?;
        Ok(of_numbers(&keys, &values))
    }),
    kind!(
        "multimap",
        OLD,
        NEW,
        FIXED,
        of_numbers,
        |path, it| Contents { keys: it.0.into(), values: it.1.into(), has_several: true, note: String::new() }
            .write(path),
        |path| {
            let read = Contents::<u64, u64>::read(path)?;
            Ok(of_numbers(&read.keys, &read.values))
        }
    ),
    kind!("hbtree", OLD, NEW, FIXED, of_numbers, |path, it| hbtree(it).save(path), |path| {
        let pairs = HbTree::<u64, u64>::builder().load(&Device::host(), path)?.pairs()?;
        let (keys, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        Ok(of_numbers(&keys, &values))
    }),
    kind!(
        "strings",
        OLD_STRINGS,
        NEW_STRINGS,
        STRINGS,
        of_strings,
        |path, it| write_strings(path, &strings(it.0), it.1),
        |path| {
            let (keys, values) = read_strings::<u64>(path)?;
            Ok(keys.iter().map(<[u8]>::to_vec).zip(values).collect())
        }
    ),
    kind!("cuart", OLD_STRINGS, NEW_STRINGS, STRINGS, of_strings, |path, it| cuart(it).save(path), |path| {
        use lanetree_frame::OrderedIndex;
        Ok(Cuart::<u64>::load(&Device::host(), path)?.pairs()?)
    }),
];
