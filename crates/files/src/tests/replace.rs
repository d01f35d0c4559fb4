//! Saves that fail or are cut off.

use super::crash::{PowerCuts, failing};
use super::kinds::KINDS;
use crate::{Error, read_pairs, write_pairs};
use std::fs;

#[test]
fn after_a_power_cut_at_any_step_a_save_has_left_the_old_file_or_the_new_one() {
    for (kind, had_old) in KINDS.iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        if had_old {
            (kind.write_old)(&path);
        }
        let cuts = PowerCuts::begin(folder.path());
        (kind.write_new)(&path);
        let steps = super::crash::steps();
        let (mut old, mut new) = (0, 0);
        let states = cuts.each(|step, folder| {
            let (path, name) = (folder.join("index"), kind.name);
            match path.exists() {
                true if (kind.read)(&path).unwrap() == (kind.new)() => new += 1,
                true => {
                    assert!(had_old && (kind.read)(&path).unwrap() == (kind.old)(), "{name}, step {step}");
                    assert!(step < steps, "{name}: what was saved is there after a power cut");
                    old += 1;
                }
                false => assert!(!had_old && step < steps, "{name}, step {step}"),
            }
            // Whatever is there besides, the next save replaces.
            (kind.write_old)(&path);
            assert!((kind.read)(&path).unwrap() == (kind.old)());
            assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "{name}, step {step}: a temporary file is left");
        });
        assert!(states > 15 && new >= 2 && (old > 10 || !had_old), "{states} states, {old} old, {new} new");
    }
}

#[test]
fn a_save_that_fails_at_any_step_leaves_the_old_file_or_the_new_one() {
    for (kind, all_after) in KINDS.iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let (folder, name) = (tempfile::tempdir().unwrap(), kind.name);
        let path = folder.path().join("index");
        for step in 0.. {
            (kind.write_old)(&path);
            let (result, failed) = failing(step, all_after, || (kind.try_write_new)(&path));
            if !failed {
                assert!(step > 6);
                result.unwrap();
                break;
            }
            let Err(Error::Io { action, .. }) = result else { panic!("{name}, step {step}: {result:?}") };
            // Only the folder was not synced.
            let expected = if action == "syncing the folder" { (kind.new)() } else { (kind.old)() };
            assert!((kind.read)(&path).unwrap() == expected, "{name}, step {step}, {action}");
            let left = fs::read_dir(folder.path()).unwrap().count();
            // A disk that has gone takes no removals.
            assert!(left == 1 || all_after && left == 2, "{name}, step {step}, {action}: a temporary file is left");
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
                    let (keys, values) = read_pairs::<u64, u32>(path).unwrap();
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
    assert!(matches!(write_pairs(&path, &[1_u64], &[10_u32]), Err(Error::Io { .. })));
    assert_eq!(fs::read(&other).unwrap(), b"other");
}
