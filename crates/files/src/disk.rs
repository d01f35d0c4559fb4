//! All that is done to a disk, step by step: tests stop after each step, or make it fail.

use crate::error::{Error, Result, io_error};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What is about to be done.
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look at steps"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    /// Creates an empty file, in place of one that is there.
    Create(&'a Path),
    Write {
        path: &'a Path,
        at: u64,
        bytes: &'a [u8],
    },
    SetLen {
        path: &'a Path,
        len: u64,
    },
    Sync(&'a Path),
    Rename {
        from: &'a Path,
        to: &'a Path,
    },
    SyncFolder(&'a Path),
    Remove(&'a Path),
}

#[cfg(not(test))]
fn before(_: Step<'_>) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use crate::tests::crash::before;

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes part of a file.
pub(crate) fn write(file: &File, path: &Path, at: u64, bytes: &[u8]) -> Result<()> {
    before(Step::Write { path, at, bytes })
        .and_then(|()| file.write_all_at(bytes, at))
        .map_err(io_error("writing the file"))
}

/// Cuts a file.
pub(crate) fn set_len(file: &File, path: &Path, len: u64) -> Result<()> {
    before(Step::SetLen { path, len }).and_then(|()| file.set_len(len)).map_err(io_error("cutting the file"))
}

/// Returns when what was written to a file is on disk.
pub(crate) fn sync(file: &File, path: &Path) -> Result<()> {
    before(Step::Sync(path)).and_then(|()| file.sync_all()).map_err(io_error("syncing the file"))
}

/// Returns when the names in a file's folder are on disk.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    before(Step::SyncFolder(folder))
        .and_then(|()| File::open(folder))
        .and_then(|folder| folder.sync_all())
        .map_err(io_error("syncing the folder"))
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> Result<()> {
    before(Step::Remove(path)).and_then(|()| fs::remove_file(path)).map_err(io_error("removing a file"))
}

/// A file that is written under another name, and then takes the place of the one at its path. Unless it does, it is removed.
pub(crate) struct Replacement {
    /// Locked as long as it is open.
    file: Option<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl Replacement {
    /// Waits for another one of the same path.
    pub(crate) fn begin(path: &Path) -> Result<Self> {
        let name = path.file_name().ok_or_else(|| Error::Io {
            action: "finding the name of the file",
            source: io::Error::new(io::ErrorKind::InvalidInput, "the path ends without a name"),
        })?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".tmp");
        let temporary = folder_of(path).join(hidden);
        let creating = io_error("creating a temporary file in the folder of the path");
        before(Step::Create(&temporary)).map_err(&creating)?;
        let file = create_locked(&temporary).map_err(&creating)?;
        Ok(Self { file: Some(file), temporary, path: path.to_owned() })
    }

    /// Writes a part of it.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        write(self.file.as_ref().expect("it is open"), &self.temporary, at, bytes)
    }

    /// Returns when its contents are on disk, but not its name.
    pub(crate) fn sync(&self) -> Result<()> {
        sync(self.file.as_ref().expect("it is open"), &self.temporary)
    }

    /// Puts it in place. Returns when it is on disk.
    pub(crate) fn commit(mut self) -> Result<File> {
        self.sync()?;
        before(Step::Rename { from: &self.temporary, to: &self.path })
            .and_then(|()| fs::rename(&self.temporary, &self.path))
            .map_err(io_error("renaming the file"))?;
        let file = self.file.take().expect("it is open");
        sync_folder(&self.path)?;
        Ok(file)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.file.is_some() {
            // If that fails, the next replacement overwrites it.
            let _ = remove(&self.temporary);
        }
    }
}

/// An empty file that this process alone writes.
fn create_locked(path: &Path) -> io::Result<File> {
    loop {
        // Not by a link that somebody else has put there.
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        file.lock()?;
        // Whoever had the lock may have renamed or removed the file meanwhile.
        let (locked, named) = (file.metadata()?, fs::symlink_metadata(path));
        match named {
            Ok(named) if (named.dev(), named.ino()) == (locked.dev(), locked.ino()) => {
                file.set_len(0)?;
                return Ok(file);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
}
