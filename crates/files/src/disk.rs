//! All that is done to a disk, step by step: tests stop after each step, or make it fail.

use crate::error::{Result, io_error};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Links that are followed from a path, at most: what Linux does.
const MOST_LINKS: usize = 40;

/// What is about to be done.
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look at steps"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    /// Creates an empty file, replacing an existing one.
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
fn try_write(file: &File, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
    before(Step::Write { path, at, bytes }).and_then(|()| file.write_all_at(bytes, at))
}

/// Returns when what was written to a file is on disk.
fn try_sync(file: &File, path: &Path) -> io::Result<()> {
    before(Step::Sync(path)).and_then(|()| file.sync_all())
}

/// [`try_write`].
pub(crate) fn write(file: &File, path: &Path, at: u64, bytes: &[u8]) -> Result<()> {
    try_write(file, path, at, bytes).map_err(io_error("writing the file", path))
}

/// [`try_sync`].
pub(crate) fn sync(file: &File, path: &Path) -> Result<()> {
    try_sync(file, path).map_err(io_error("syncing the file", path))
}

/// Cuts a file.
pub(crate) fn set_len(file: &File, path: &Path, len: u64) -> Result<()> {
    before(Step::SetLen { path, len }).and_then(|()| file.set_len(len)).map_err(io_error("cutting the file", path))
}

/// A folder that is open. Its files are reached by its descriptor, so they are the same ones after the folder was renamed,
/// whatever is at its path by then.
#[derive(Debug)]
pub(crate) struct Folder {
    file: File,
    /// Where it was when it was opened: for messages.
    path: PathBuf,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let opened = File::options().read(true).open(path).and_then(|file| match file.metadata()?.is_dir() {
            true => Ok(file),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        let file = opened.map_err(io_error("opening the folder", path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Nobody else may have locked it.
    pub(crate) fn try_lock(&self) -> Result<()> {
        let locked = self.file.try_lock().map_err(io::Error::from);
        locked.map_err(io_error("locking the log's folder, which may be open elsewhere,", &self.path))
    }

    /// Returns when the names in it are on disk.
    pub(crate) fn sync(&self) -> Result<()> {
        before(Step::SyncFolder(&self.path))
            .and_then(|()| self.file.sync_all())
            .map_err(io_error("syncing the folder", &self.path))
    }

    /// The one that has it.
    pub(crate) fn parent(&self) -> Result<Self> {
        let path = self.path.join("..");
        let file = self.openat(OsStr::new(".."), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        Ok(Self { file: file.map_err(io_error("opening the folder", &path))?, path })
    }

    fn openat(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        Ok(openat(&self.file, name, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Opens a file that is there.
    pub(crate) fn open_file(&self, name: &str, flags: OFlags) -> Result<File> {
        self.openat(name.as_ref(), flags, Mode::empty()).map_err(io_error("opening the file", self.path.join(name)))
    }

    /// A file that is there, if it begins with a magic; `None` otherwise, and for what is not a file.
    pub(crate) fn file_with(&self, name: &str, magic: [u8; 8]) -> Option<File> {
        // Not a pipe, which would wait, nor a file that is elsewhere.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = self.openat(name.as_ref(), flags, Mode::empty()).ok()?;
        let mut begin = [0; 8];
        let is_read = file.metadata().is_ok_and(|file| file.is_file()) && file.read_exact_at(&mut begin, 0).is_ok();
        (is_read && begin == magic).then_some(file)
    }

    /// Whether it has a file of this name. If that is not known, it may.
    pub(crate) fn may_have(&self, name: &str) -> bool {
        !matches!(self.stat(name.as_ref()), Ok(None))
    }

    /// The names in it.
    pub(crate) fn names(&self) -> Result<Vec<OsString>> {
        let read = || -> io::Result<Vec<OsString>> {
            let names = Dir::read_from(&self.file)?.map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
            names.map(|name| name.map(OsString::from_vec)).collect()
        };
        read().map_err(io_error("reading the folder", &self.path))
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let path = self.path.join(name.as_ref());
        self.remove_at(&path).map_err(io_error("removing the file", &path))
    }

    /// [`Folder::remove`], by the path of a file in this folder.
    fn remove_at(&self, path: &Path) -> io::Result<()> {
        before(Step::Remove(path))?;
        Ok(unlinkat(&self.file, name_of(path), AtFlags::empty())?)
    }

    /// What is known of a name; `None` if there is no such file.
    fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// An empty file of this path's name that this process alone writes.
    fn create_locked(&self, path: &Path, mode: Mode) -> io::Result<File> {
        let name = name_of(path);
        // Not by a link that somebody else has put there.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW;
        before(Step::Create(path))?;
        loop {
            let (file, is_new) = match self.openat(name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
                Ok(file) => (file, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match self.openat(name, flags, mode) {
                    Ok(file) => (file, false),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            };
            file.lock()?;
            // The process that had the lock may have renamed or removed the file meanwhile.
            let locked = fstat(&file)?;
            let is_named = |named: Stat| (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino);
            if !self.stat(name)?.is_some_and(is_named) {
                continue;
            }
            if is_new {
                return Ok(file);
            }
            // A crash has left it, with a mode that is not the one asked for.
            unlinkat(&self.file, name, AtFlags::empty())?;
        }
    }
}

/// The name of a file: its path has one.
fn name_of(path: &Path) -> &OsStr {
    path.file_name().expect("a path of a file in a folder")
}

/// Gives a file the mode of another one, and its owner and group as far as the system lets it.
fn make_like(file: &File, like: Stat) -> io::Result<()> {
    let own = fstat(file)?;
    let has_group = own.st_gid == like.st_gid || fchown(file, None, Some(like.st_gid)).is_ok();
    // Another group gets nothing of what that one may do.
    let kept = if has_group { Mode::RWXU | Mode::RWXG | Mode::RWXO } else { Mode::RWXU | Mode::RWXO };
    fchmod(file, Mode::from_raw_mode(like.st_mode) & kept)?;
    if own.st_uid != like.st_uid {
        // Only the superuser may.
        let _ = fchown(file, Some(like.st_uid), None);
    }
    Ok(())
}

/// Where the file of a path is, if links lead to it, whether it is there or not.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..=MOST_LINKS {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => path = folder_of(&path).join(fs::read_link(&path)?),
            _ => return Ok(path),
        }
    }
    Err(io::Error::from(Errno::LOOP))
}

/// The name under which a file is written. It is no longer than names may be, whatever the file's is; and the same for each save of
/// the file, since these take turns by it. Two files may share it: they take turns, too.
pub(crate) fn temporary_name(name: &OsStr) -> String {
    let mut hash = DefaultHasher::new();
    name.as_bytes().hash(&mut hash);
    format!(".lanetree-{:016x}.tmp", hash.finish())
}

/// A file that is written under another name, and then takes the place of the one at its path. Unless it does, it is removed.
pub(crate) struct Replacement {
    /// Locked as long as it is open.
    file: Option<File>,
    folder: Arc<Folder>,
    temporary: PathBuf,
    path: PathBuf,
}

impl Replacement {
    /// Of the file that a path leads to. It keeps its mode. Waits for another replacement of the same file.
    pub(crate) fn begin(path: &Path) -> Result<Self> {
        let failed = io_error("finding the file to be written", path);
        let target = resolved(path).map_err(&failed)?;
        let name = target.file_name().ok_or_else(|| {
            failed(io::Error::new(io::ErrorKind::InvalidInput, "the path ends without a name: add one"))
        })?;
        let folder = Folder::open(folder_of(&target))?;
        let like = folder.stat(name).map_err(&failed)?;
        if like.is_some_and(|found| FileType::from_raw_mode(found.st_mode) != FileType::RegularFile) {
            let other =
                io::Error::new(io::ErrorKind::InvalidInput, "something else than a file is there: take another path");
            return Err(failed(other));
        }
        let target = folder.path.join(name);
        Self::new(Arc::new(folder), target, like)
    }

    /// Of a file in a log's folder, whether it is there or not. It gets the mode of another one.
    pub(crate) fn begin_in(folder: &Arc<Folder>, name: &str, like: Option<&File>) -> Result<Self> {
        let path = folder.path.join(name);
        let like =
            like.map(fstat).transpose().map_err(|error| io_error("reading the mode for", &path)(error.into()))?;
        Self::new(folder.clone(), path, like)
    }

    fn new(folder: Arc<Folder>, path: PathBuf, like: Option<Stat>) -> Result<Self> {
        let temporary = folder.path.join(temporary_name(name_of(&path)));
        // Until it is like the other one, nobody else reads it.
        let mode = Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o666 });
        let file = folder.create_locked(&temporary, mode).map_err(io_error("creating a temporary file for", &path))?;
        let made = Self { file: Some(file), folder, temporary, path };
        if let (Some(file), Some(like)) = (&made.file, like) {
            make_like(file, like).map_err(io_error("setting the mode of a temporary file for", &made.path))?;
        }
        Ok(made)
    }

    /// Writes a part of it.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file.as_ref().expect("it is open");
        try_write(file, &self.temporary, at, bytes).map_err(io_error("writing the file", &self.path))
    }

    /// Returns when its contents are on disk, but not its name.
    pub(crate) fn sync(&self) -> Result<()> {
        let file = self.file.as_ref().expect("it is open");
        try_sync(file, &self.temporary).map_err(io_error("syncing the file", &self.path))
    }

    /// Puts it in place. Returns when it is on disk.
    pub(crate) fn commit(mut self) -> Result<File> {
        self.sync()?;
        let [from, to] = [&self.temporary, &self.path];
        before(Step::Rename { from, to })
            .and_then(|()| Ok(renameat(&self.folder.file, name_of(from), &self.folder.file, name_of(to))?))
            .map_err(io_error("renaming a temporary file to", to))?;
        let file = self.file.take().expect("it is open");
        self.folder.sync()?;
        Ok(file)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if self.file.is_some() {
            // If that fails, the next replacement does it.
            let _ = self.folder.remove_at(&self.temporary);
        }
    }
}
