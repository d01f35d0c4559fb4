//! The files of a log: a base and a file of batches, of each generation.

use super::{LOG_MAGIC, NUMBERS};
use crate::disk::{Folder, Replacement};
use crate::error::{Error, Result, io_error};
use crate::format::{ALIGNMENT, Header, MAGIC, len_of};
use crate::reader_of;
use lanetree_frame::{AnyKey, Value};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A file of a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Base,
    Batches,
}

impl Kind {
    const fn parts(self) -> (&'static str, [u8; 8]) {
        match self {
            Self::Base => ("base", MAGIC),
            Self::Batches => ("log", LOG_MAGIC),
        }
    }

    pub(super) fn name(self, generation: u64) -> String {
        format!("{generation}.{}", self.parts().0)
    }

    /// What a log gives this name to, if it gives it to anything.
    fn of(name: &OsStr) -> Option<(u64, Self)> {
        let name = name.to_str()?;
        let generation = name.split_once('.')?.0.parse().ok().filter(|&generation: &u64| generation < NUMBERS)?;
        let kind = [Self::Base, Self::Batches].into_iter().find(|kind| kind.name(generation) == name)?;
        Some((generation, kind))
    }

    /// The file of this name, if a log may have written it: it begins as such a file does.
    pub(super) fn own(self, folder: &Folder, generation: u64) -> Option<File> {
        folder.file_with(&self.name(generation), self.parts().1)
    }
}

/// The files in a folder that have names of a log's files.
pub(super) fn files(folder: &Folder) -> Result<impl Iterator<Item = (u64, Kind)>> {
    Ok(folder.names()?.into_iter().filter_map(|name| Kind::of(&name)))
}

/// The newest generation that has a base.
pub(super) fn newest(folder: &Folder) -> Result<Option<u64>> {
    Ok(files(folder)?.filter(|file| file.1 == Kind::Base).map(|file| file.0).max())
}

/// Nothing in a folder would be overwritten, or taken for part of a log that is created there.
pub(super) fn check_has_none(folder: &Folder) -> Result<()> {
    let mut found = None;
    for (generation, kind) in files(folder)? {
        match (kind, kind.own(folder, generation)) {
            (Kind::Base, Some(_)) => {
                let exists = io::Error::new(io::ErrorKind::AlreadyExists, "the folder has a log: open it");
                let base = folder.path().join(kind.name(generation));
                return Err(io_error("creating a log beside the base", base)(exists));
            }
            // A create that was cut off has left it.
            (Kind::Batches, Some(file)) if generation == 0 && len_of(&file)? == ALIGNMENT => {}
            _ => found = Some(kind.name(generation)),
        }
    }
    found.map_or(Ok(()), |name| Err(is_taken(folder, &name)))
}

/// A compaction overwrites nothing but what one that failed has left.
pub(super) fn check_is_free(folder: &Folder, generation: u64) -> Result<()> {
    if generation >= NUMBERS {
        let none = "no number is left for a new base: create a log from the pairs in another folder";
        return Err(io_error("compacting the log", folder.path())(io::Error::new(io::ErrorKind::InvalidData, none)));
    }
    let [base, batches] = [Kind::Base, Kind::Batches].map(|kind| kind.name(generation));
    if folder.may_have(&base) {
        return Err(is_taken(folder, &base));
    }
    if folder.may_have(&batches) && Kind::Batches.own(folder, generation).is_none() {
        return Err(is_taken(folder, &batches));
    }
    Ok(())
}

fn is_taken(folder: &Folder, name: &str) -> Error {
    let why = "the log needs this name, but the file is not the log's: move it to another folder";
    io_error("writing the file", folder.path().join(name))(io::Error::new(io::ErrorKind::AlreadyExists, why))
}

/// Removes what a compaction, complete or not, has left. If that fails, the next open tries again.
pub(super) fn remove_others(folder: &Folder, generation: u64) {
    for (other, kind) in files(folder).into_iter().flatten() {
        if other != generation && kind.own(folder, other).is_some() {
            let _ = folder.remove(kind.name(other));
        }
    }
}

/// A base that is open, and its path for messages.
pub(super) struct Base {
    pub(super) file: File,
    path: PathBuf,
}

impl Base {
    pub(super) fn open(folder: &Folder, generation: u64) -> Result<Self> {
        let name = Kind::Base.name(generation);
        Ok(Self { file: folder.open_file(&name, OFlags::RDONLY)?, path: folder.path().join(name) })
    }

    pub(super) fn read<K: AnyKey, V: Value>(&self) -> Result<(Vec<K>, Vec<V>)> {
        let read = || reader_of::<K, V>(&self.file)?.to_vecs();
        read().map_err(|error| error.in_file(&self.path))
    }
}

/// A generation's file of batches, the first of which has the number `first`. It gets the mode of another one.
pub(super) fn begin<K: AnyKey, V: Value>(
    folder: &Arc<Folder>,
    (generation, first): (u64, u64),
    like: Option<&File>,
    batches: &[u8],
) -> Result<File> {
    let header = Header::of::<K, V>(LOG_MAGIC, 0, first)?;
    let mut file = Replacement::begin_in(folder, &Kind::Batches.name(generation), like)?;
    file.write(0, &header.encode(0))?;
    if !batches.is_empty() {
        file.write(ALIGNMENT, batches)?;
    }
    file.commit()
}
