//! A folder for temporary files that is in main memory.
//!
//! The tests of files and logs save thousands of small ones. On a disk each save waits until it is written: a minute and more, in
//! which both cores are idle.

use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Where Linux has a file system in main memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// What has to be free, in the file system and in main memory: several times what the steps of `ci` have in temporary files.
const ENOUGH: u64 = 4 << 30;

/// The folder, removed when dropped. None where there is no such file system, where it or the memory has too little room, and where no
/// program may be run from it: rustdoc runs the documentation's examples there.
pub(crate) struct Folder(Option<PathBuf>);

impl Folder {
    pub(crate) fn new() -> Self {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let space = process::stdout(Command::new("df").args(["-P", "-k", SHARED_MEMORY])).unwrap_or_default();
        let is_good = runs_programs(&mounts) && available(&memory).min(free(&space)) >= ENOUGH;
        Self(is_good.then(Self::create).and_then(Result::ok))
    }

    fn create() -> io::Result<PathBuf> {
        let folder = Path::new(SHARED_MEMORY).join(format!("lanetree-ci-{}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Lets a command's temporary files be there, if there is one; else where they are anyway.
    pub(crate) fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match &self.0 {
            Some(folder) => command.env("TMPDIR", folder),
            None => command,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            let _gone = fs::remove_dir_all(folder);
        }
    }
}

/// Whether the mounted file systems have one in main memory at [`SHARED_MEMORY`], from which programs may be run.
fn runs_programs(mounts: &str) -> bool {
    // Device, folder, type, options. The last one mounted is the one that is seen.
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.rfind(|fields| fields.get(1) == Some(&SHARED_MEMORY)).unwrap_or_default();
    matches!(mount[..], [_, _, "tmpfs", options, ..] if options.split(',').all(|option| option != "noexec"))
}

/// Bytes of main memory that programs can have, of Linux's description.
fn available(memory: &str) -> u64 {
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    kibibytes(line.and_then(|line| line.split_whitespace().next()))
}

/// Bytes that a file system has free, of what `df -P -k` says.
fn free(space: &str) -> u64 {
    kibibytes(space.lines().nth(1).and_then(|line| line.split_whitespace().nth(3)))
}

/// Bytes; none if there is no number.
fn kibibytes(number: Option<&str>) -> u64 {
    number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_from_a_file_system_in_memory_unless_its_options_forbid_it() {
        let on = |options: &str| format!("proc /proc proc rw 0 0\ntmpfs /dev/shm tmpfs {options} 0 0\n");
        assert!(runs_programs(&on("rw,nosuid,nodev,size=24684084k")));
        assert!(!runs_programs(&on("rw,nosuid,nodev,noexec,relatime,size=65536k")));
        assert!(!runs_programs(&format!("{}disk /dev/shm ext4 rw 0 0\n", on("rw"))));
        assert!(!runs_programs("tmpfs /tmp tmpfs rw 0 0\n") && !runs_programs(""));
    }

    #[test]
    fn room_is_read_in_bytes() {
        assert_eq!(available("MemTotal:  24684084 kB\nMemAvailable:   19000000 kB\n"), 19_000_000 << 10);
        let space = "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 65536 1536 64000 3% /dev/shm\n";
        assert_eq!(free(space), 64_000 << 10);
        assert_eq!((available(""), free("")), (0, 0));
    }

    #[test]
    fn a_folder_is_gone_with_its_owner() {
        let folder = Folder::new();
        let path = folder.0.clone();
        let command =
            folder.of(&mut Command::new("x")).get_envs().next().and_then(|(_, value)| value.map(PathBuf::from));
        assert_eq!(command, path);
        assert!(path.as_ref().is_none_or(|path| path.is_dir()));
        drop(folder);
        assert!(path.is_none_or(|path| !path.exists()));
    }
}
