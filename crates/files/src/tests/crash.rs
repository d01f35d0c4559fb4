//! Disks that fail, and power cuts, at every step.

use crate::disk::Step;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What a thread has done to disks.
#[derive(Default)]
struct Trace {
    steps: Vec<Done>,
    /// The number of the step that fails, and whether all after it fail, too.
    fails: Option<(usize, bool)>,
    /// The number of the step at which the process is killed.
    kills: Option<usize>,
}

thread_local! {
    static TRACE: RefCell<Trace> = RefCell::default();
}

/// A step, with what it needs to be done again.
#[derive(Clone, Debug)]
enum Done {
    Create(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    SetLen(PathBuf, u64),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    SyncFolder(PathBuf),
    Remove(PathBuf),
}

/// What the disk calls first in each step.
pub(crate) fn before(step: Step<'_>) -> io::Result<()> {
    TRACE.with_borrow_mut(|trace| {
        let number = trace.steps.len();
        if trace.kills == Some(number) {
            kill_in(step);
        }
        trace.steps.push(match step {
            Step::Create(path) => Done::Create(path.to_owned()),
            Step::Write { path, at, bytes } => Done::Write(path.to_owned(), at, bytes.to_vec()),
            Step::SetLen { path, len } => Done::SetLen(path.to_owned(), len),
            Step::Sync(path) => Done::Sync(path.to_owned()),
            Step::Rename { from, to } => Done::Rename(from.to_owned(), to.to_owned()),
            Step::SyncFolder(path) => Done::SyncFolder(path.to_owned()),
            Step::Remove(path) => Done::Remove(path.to_owned()),
        });
        match trace.fails {
            Some((first, _)) if number == first => Err(io::Error::other("this step was made to fail")),
            Some((first, true)) if number > first => Err(io::Error::other("the disk has gone")),
            _ => Ok(()),
        }
    })
}

/// Kills the process before a step that this thread does from here on; if it is a write, when half of it is done.
pub(crate) fn kill_at(step: usize) {
    TRACE.set(Trace { kills: Some(step), ..Trace::default() });
}

fn kill_in(step: Step<'_>) -> ! {
    if let Step::Write { path, at, bytes } = step {
        File::options().write(true).open(path).unwrap().write_all_at(&bytes[..bytes.len() / 2], at).unwrap();
    }
    // SAFETY: ends the process.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("nothing is done after this signal");
}

/// The number of steps since the last call of [`failing`] or [`PowerCuts::begin`].
pub(crate) fn steps() -> usize {
    TRACE.with_borrow(|trace| trace.steps.len())
}

/// Runs something in which a step fails. Returns the result, and whether there was such a step.
pub(crate) fn failing<T>(step: usize, all_after: bool, run: impl FnOnce() -> T) -> (T, bool) {
    TRACE.set(Trace { fails: Some((step, all_after)), ..Trace::default() });
    let result = run();
    let count = steps();
    TRACE.take();
    (result, count > step)
}

/// A file of a model of a disk.
#[derive(Clone, Default)]
struct Inode {
    /// What is on disk.
    synced: Vec<u8>,
    /// What has been written since.
    unsynced: Vec<Done>,
}

/// Which of the writes that were not synced have come to the disk.
#[derive(Clone, Copy, Debug)]
enum Kept {
    All,
    None,
    /// All but the last one, of which the first half has.
    Half,
    /// The last one alone: disks may write in any order.
    Last,
}

impl Inode {
    fn contents(&self, kept: Kept) -> Vec<u8> {
        let mut contents = self.synced.clone();
        let last = self.unsynced.len().wrapping_sub(1);
        for (i, step) in self.unsynced.iter().enumerate() {
            let part = match kept {
                Kept::All => (1, 1),
                Kept::None => (0, 1),
                Kept::Half => {
                    if i == last {
                        (1, 2)
                    } else {
                        (1, 1)
                    }
                }
                Kept::Last => {
                    if i == last {
                        (1, 1)
                    } else {
                        (0, 1)
                    }
                }
            };
            match step {
                _ if part.0 == 0 => {}
                Done::Write(_, at, bytes) => {
                    let (at, bytes) = (*at as usize, &bytes[..bytes.len() * part.0 / part.1]);
                    contents.resize(contents.len().max(at + bytes.len()), 0);
                    contents[at..][..bytes.len()].copy_from_slice(bytes);
                }
                Done::SetLen(_, len) => contents.resize(*len as usize, 0),
                _ => unreachable!("not a write"),
            }
        }
        contents
    }
}

/// The states in which a power cut, or the end of the process, may leave the disk.
pub(crate) struct PowerCuts {
    folder: PathBuf,
    inodes: Vec<Inode>,
    /// The names of files, as they are and as they are on disk.
    names: BTreeMap<PathBuf, usize>,
    synced: BTreeMap<PathBuf, usize>,
}

impl PowerCuts {
    /// Records what this thread does from here on. What the folder has is on disk.
    pub(crate) fn begin(folder: &Path) -> Self {
        let (mut inodes, mut names) = (Vec::new(), BTreeMap::new());
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            names.insert(path.clone(), inodes.len());
            inodes.push(Inode { synced: fs::read(path).unwrap(), unsynced: Vec::new() });
        }
        TRACE.take();
        Self { folder: folder.to_owned(), inodes, synced: names.clone(), names }
    }

    /// Calls `check` with a folder for each state after each step since the begin, and with the number of steps done. Returns
    /// the number of states.
    pub(crate) fn each(mut self, mut check: impl FnMut(usize, &Path)) -> usize {
        let steps = TRACE.take().steps;
        let mut states = 0;
        for number in 0..=steps.len() {
            let mut seen = BTreeSet::new();
            for names in [&self.names, &self.synced] {
                for kept in [Kept::All, Kept::None, Kept::Half, Kept::Last] {
                    let files: BTreeMap<_, _> =
                        names.iter().map(|(path, &inode)| (path, self.inodes[inode].contents(kept))).collect();
                    if !seen.insert(files.clone()) {
                        continue;
                    }
                    let folder = tempfile::tempdir().unwrap();
                    for (path, contents) in files {
                        fs::write(folder.path().join(path.strip_prefix(&self.folder).unwrap()), contents).unwrap();
                    }
                    check(number, folder.path());
                    states += 1;
                }
            }
            if let Some(step) = steps.get(number) {
                self.step(step.clone());
            }
        }
        TRACE.take();
        states
    }

    fn step(&mut self, step: Done) {
        match &step {
            Done::Create(path) => match self.names.get(path) {
                Some(&inode) => self.inodes[inode].unsynced.push(Done::SetLen(path.clone(), 0)),
                None => {
                    self.names.insert(path.clone(), self.inodes.len());
                    self.inodes.push(Inode::default());
                }
            },
            Done::Write(path, ..) | Done::SetLen(path, _) => self.inodes[self.names[path]].unsynced.push(step.clone()),
            Done::Sync(path) => {
                let inode = &mut self.inodes[self.names[path]];
                *inode = Inode { synced: inode.contents(Kept::All), unsynced: Vec::new() };
            }
            Done::Rename(from, to) => {
                let inode = self.names.remove(from).expect("there is such a file");
                self.names.insert(to.clone(), inode);
            }
            Done::SyncFolder(path) => {
                assert_eq!(path, &self.folder);
                self.synced = self.names.clone();
            }
            Done::Remove(path) => drop(self.names.remove(path)),
        }
    }
}
