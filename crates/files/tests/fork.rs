//! A log in a forked process. A test binary of its own, with one test: no other thread may hold a lock at the fork.
#![cfg(unix)]

use lanetree_files::{Durability, Error, Log};
use lanetree_frame::Op;

/// What a child that is done ends with.
const DONE: i32 = 42;

#[test]
fn a_child_does_not_write_where_its_parent_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::<u64, u32>::create(folder.path().join("log"), &[10], &[1]).unwrap();
    log.append(&[Op::Insert(20, 2)], Durability::Synced).unwrap();
    let parent = std::process::id();
    // SAFETY: the child calls the system and allocates, which the C library lets a forked child do, and ends without running what
    // the parent has registered.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_refused =
            |result: Result<_, Error>| matches!(result, Err(Error::Forked { process, .. }) if process == parent);
        let is_right = is_refused(log.append(&[Op::Insert(30, 3)], Durability::Unsynced).map(drop))
            && is_refused(log.sync())
            && is_refused(log.begin_compaction().map(drop))
            && is_refused(log.compact());
        // SAFETY: ends the process.
        unsafe { libc::_exit(if is_right { DONE } else { 1 }) };
    }
    assert!(child > 0, "no process");
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == DONE, "status {status}");
    log.append(&[Op::Insert(40, 4)], Durability::Synced).unwrap();
    drop(log);
    let opened = Log::<u64, u32>::open(folder.path().join("log")).unwrap();
    assert_eq!((opened.keys, opened.values, opened.replay.batches), (vec![10, 20, 40], vec![1, 2, 4], 2));
}
