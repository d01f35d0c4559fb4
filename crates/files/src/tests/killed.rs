//! A process that is killed in a save.

use super::crash::kill_at;
use super::kinds::KINDS;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::{env, fs};

/// Tells the child which kind of file it saves, where, and the step at which it is killed.
const CHILD: &str = "LANETREE_FILES_KILLED";

/// Until a child runs its own program it has all files of this process, locked ones too: whose log is closed and opened in that time
/// finds it open elsewhere.
static CHILDREN: RwLock<()> = RwLock::new(());

/// No process is started until this is dropped.
pub(crate) fn without_children() -> RwLockReadGuard<'static, ()> {
    CHILDREN.read().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_process_killed_at_any_step_of_a_save_leaves_the_old_file_or_the_new_one() {
    if let Ok(task) = env::var(CHILD) {
        let mut parts = task.splitn(3, ' ');
        let mut number = || parts.next().unwrap().parse::<usize>().unwrap();
        let (kind, step) = (&KINDS[number()], number());
        kill_at(step);
        return (kind.write_new)(Path::new(parts.next().unwrap()));
    }
    for ((number, kind), had_old) in KINDS.iter().enumerate().flat_map(|kind| [(kind, true), (kind, false)]) {
        let (mut old, mut new) = (0, 0);
        for step in 0.. {
            let (folder, name) = (tempfile::tempdir().unwrap(), kind.name);
            let path = folder.path().join("index");
            if had_old {
                (kind.write_old)(&path);
            }
            let mut child = Command::new(env::current_exe().unwrap());
            child.args(["--exact", &own_name(), "--test-threads=1"]);
            child.env(CHILD, format!("{number} {step} {}", path.display()));
            child.stdout(Stdio::piped()).stderr(Stdio::piped());
            let started = {
                let _alone = CHILDREN.write().unwrap_or_else(PoisonError::into_inner);
                child.spawn().unwrap()
            };
            let output = started.wait_with_output().unwrap();
            let is_killed = output.status.signal() == Some(libc::SIGKILL);
            assert!(is_killed || output.status.success(), "{name}, step {step}: {output:?}");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(is_killed || text.contains("1 passed"), "the child found no test: {text}");
            match path.exists() {
                true if (kind.read)(&path).unwrap() == (kind.new)() => new += 1,
                true => {
                    assert!(is_killed && had_old && (kind.read)(&path).unwrap() == (kind.old)(), "{name}, step {step}");
                    old += 1;
                }
                false => assert!(is_killed && !had_old, "{name}, step {step}"),
            }
            // What the child has left is neither locked nor in the way.
            (kind.write_old)(&path);
            assert!((kind.read)(&path).unwrap() == (kind.old)());
            assert_eq!(
                fs::read_dir(folder.path()).unwrap().count(),
                1,
                "{name}, step {step}: a temporary file is left"
            );
            if !is_killed {
                break;
            }
        }
        // The last step is that of the folder, after the file has its name; and one child lived.
        assert!(new == 2 && (old > 5 || !had_old), "{}: {old} old, {new} new", kind.name);
    }
}

/// The name of the test, as its thread has it.
fn own_name() -> String {
    std::thread::current().name().expect("tests run in threads of their names").to_owned()
}
