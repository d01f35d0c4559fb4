//! Saves that fail or are cut off.

use super::crash::{PowerCuts, failing};
use crate::{Error, read_pairs, write_pairs};
use std::fs;
use std::path::Path;

const OLD: (&[u64], &[u32]) = (&[1, 2, 3], &[10, 20, 30]);
const NEW: (&[u64], &[u32]) = (&[2, 4], &[21, 41]);

fn read(path: &Path) -> (Vec<u64>, Vec<u32>) {
    read_pairs(path).unwrap()
}

fn is(pairs: &(Vec<u64>, Vec<u32>), expected: (&[u64], &[u32])) -> bool {
    (&pairs.0[..], &pairs.1[..]) == expected
}

#[test]
fn after_a_power_cut_at_any_step_a_save_has_left_the_old_file_or_the_new_one() {
    for had_old in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs");
        if had_old {
            write_pairs(&path, OLD.0, OLD.1).unwrap();
        }
        let cuts = PowerCuts::begin(folder.path());
        write_pairs(&path, NEW.0, NEW.1).unwrap();
        let steps = super::crash::steps();
        let (mut old, mut new) = (0, 0);
        let states = cuts.each(|step, folder| {
            let path = folder.join("pairs");
            match path.exists() {
                true if is(&read(&path), NEW) => new += 1,
                true => {
                    assert!(had_old && is(&read(&path), OLD), "step {step}");
                    assert!(step < steps, "what was saved is there after a power cut");
                    old += 1;
                }
                false => assert!(!had_old && step < steps, "step {step}"),
            }
            // Whatever is there besides, the next save replaces.
            write_pairs(&path, OLD.0, OLD.1).unwrap();
            assert!(is(&read(&path), OLD));
            assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "step {step}: a temporary file is left");
        });
        assert!(states > 15 && new >= 2 && (old > 10 || !had_old), "{states} states, {old} old, {new} new");
    }
}

#[test]
fn a_save_that_fails_at_any_step_leaves_the_old_file_or_the_new_one() {
    for all_after in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs");
        for step in 0.. {
            write_pairs(&path, OLD.0, OLD.1).unwrap();
            let (result, failed) = failing(step, all_after, || write_pairs(&path, NEW.0, NEW.1));
            if !failed {
                assert!(step > 6);
                result.unwrap();
                break;
            }
            let Err(Error::Io { action, .. }) = result else { panic!("step {step}: {result:?}") };
            // Only the folder was not synced.
            let expected = if action == "syncing the folder" { NEW } else { OLD };
            assert!(is(&read(&path), expected), "step {step}, {action}");
            let left = fs::read_dir(folder.path()).unwrap().count();
            // A disk that has gone takes no removals.
            assert!(left == 1 || all_after && left == 2, "step {step}, {action}: a temporary file is left");
        }
    }
}

#[test]
fn saves_of_one_path_at_the_same_time_leave_one_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = &folder.path().join("pairs");
    let keys: Vec<u64> = (0..3000).collect();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let keys = &keys;
            scope.spawn(move || {
                for _ in 0..10 {
                    let len = 500 * (thread as usize + 1);
                    write_pairs(path, &keys[..len], &vec![thread; len]).unwrap();
                    let (keys, values) = read(path);
                    assert_eq!(keys.len(), 500 * (values[0] as usize + 1));
                    assert!(values.iter().all(|&value| value == values[0]));
                }
            });
        }
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_link_with_the_temporary_name_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("pairs"), folder.path().join("other"));
    fs::write(&other, "other").unwrap();
    std::os::unix::fs::symlink(&other, folder.path().join(".pairs.tmp")).unwrap();
    assert!(matches!(write_pairs(&path, OLD.0, OLD.1), Err(Error::Io { .. })));
    assert_eq!(fs::read(&other).unwrap(), b"other");
}
