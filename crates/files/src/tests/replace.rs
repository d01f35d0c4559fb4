//! Saves that fail or are cut off.

use super::crash::{PowerCuts, failing};
use super::kinds::KINDS;
use crate::disk::temporary_name;
use crate::{Durability, Error, Load, Log, Save, read_pairs, read_strings, types_of, write_pairs};
use lanetree_frame::{Device, Op};
use lanetree_lane_tree::LaneTree;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

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
    symlink(&other, folder.path().join(temporary_name("pairs".as_ref()))).unwrap();
    assert!(matches!(write_pairs(&path, &[1_u64], &[10_u32]), Err(Error::Io { .. })));
    assert_eq!(fs::read(&other).unwrap(), b"other");
}

fn save(path: &Path, value: u32) -> crate::Result<()> {
    write_pairs(path, &[1_u64], &[value])
}

fn saved(path: &Path) -> u32 {
    read_pairs::<u64, u32>(path).unwrap().1[0]
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_save_keeps_the_mode_and_the_owner_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other, temporary] =
        ["pairs", "other", &temporary_name("pairs".as_ref())].map(|name| folder.path().join(name));
    fs::write(&other, "").unwrap();
    // What a crash has left has a mode, too.
    fs::write(&temporary, "of a crash").unwrap();
    fs::set_permissions(&temporary, Permissions::from_mode(0o640)).unwrap();
    save(&path, 1).unwrap();
    assert_eq!((saved(&path), mode(&path)), (1, mode(&other)), "a new file has the mode of new files");
    for kept in [0o600, 0o640, 0o664, 0o400] {
        fs::set_permissions(&path, Permissions::from_mode(kept)).unwrap();
        save(&path, kept).unwrap();
        assert_eq!((saved(&path), mode(&path)), (kept, kept), "{kept:o}");
    }
    // Only the superuser gives files away.
    if chown(&path, Some(12345), Some(54321)).is_ok() {
        save(&path, 5).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid(), mode(&path)), (12345, 54321, 0o400));
    }

    // Of a log, too.
    let log_at = folder.path().join("log");
    let mut log = Log::create(&log_at, &[1_u64], &[1_u32]).unwrap();
    log.append(&[Op::Insert(2, 2)], Durability::Synced).unwrap();
    for name in ["0.base", "0.log"] {
        fs::set_permissions(log_at.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    log.compact().unwrap();
    assert_eq!(["1.base", "1.log"].map(|name| mode(&log_at.join(name))), [0o600; 2]);
}

#[test]
fn a_save_over_a_link_replaces_the_file_that_it_leads_to() {
    let parent = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|name| parent.path().join(name));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    let (link, second, target) = (here.join("link"), here.join("second"), there.join("pairs"));
    symlink("../there/pairs", &second).unwrap();
    symlink("second", &link).unwrap();
    // It leads to nothing at first.
    for value in 0..3 {
        save(&link, value).unwrap();
        assert_eq!((saved(&target), saved(&link)), (value, value));
        assert!(
            fs::symlink_metadata(&link).unwrap().is_symlink() && fs::symlink_metadata(&second).unwrap().is_symlink()
        );
        assert_eq!([&here, &there].map(|folder| fs::read_dir(folder).unwrap().count()), [2, 1]);
    }
    let (ring, none) = (here.join("ring"), here.join("none"));
    symlink("ring", &ring).unwrap();
    symlink("no such folder/pairs", &none).unwrap();
    for path in [ring, none] {
        let error = save(&path, 9).unwrap_err();
        assert!(matches!(error, Error::Io { path: Some(_), .. }), "{error}");
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    }
}

#[test]
fn a_save_replaces_nothing_but_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let [path, socket] = ["folder", "socket"].map(|name| folder.path().join(name));
    fs::create_dir(&path).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [&path, &socket] {
        let error = save(path, 1).unwrap_err().to_string();
        assert!(error.contains(&format!("{path:?}: something else than a file is there")), "{error}");
    }
    assert!(path.is_dir() && !fs::metadata(&socket).unwrap().is_file());
}

#[test]
fn a_file_of_any_name_can_be_saved() {
    let folder = tempfile::tempdir().unwrap();
    for len in [1, 250, 251, 255] {
        let path = folder.path().join("n".repeat(len));
        save(&path, len as u32).unwrap();
        assert_eq!(saved(&path), len as u32);
    }
    let path = folder.path().join("n".repeat(256));
    let error = save(&path, 1).unwrap_err();
    assert!(matches!(&error, Error::Io { path: Some(named), .. } if *named == path), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "no temporary file is left");
}

#[test]
fn errors_of_a_file_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = (folder.path().join("pairs"), Device::host());
    let names = |error: Error, path: &PathBuf| {
        let (text, path) = (error.to_string(), format!("{path:?}"));
        assert!(text.contains(&path), "{text} does not name {path}");
    };
    let builder = LaneTree::<u64, u32>::builder;
    let tree = builder().build(&host, &[1, 2], &[1, 2]).unwrap();
    let all = || {
        vec![
            builder().load(&host, &path).unwrap_err(),
            read_pairs::<u64, u32>(&path).unwrap_err(),
            read_strings::<u32>(&path).unwrap_err(),
            crate::Contents::<u64, u32>::read(&path).unwrap_err(),
        ]
    };
    // No file; one that is none; one of other types; one of another kind.
    all().into_iter().chain([types_of(&path).unwrap_err()]).for_each(|error| names(error, &path));
    fs::write(&path, "short").unwrap();
    all().into_iter().chain([types_of(&path).unwrap_err()]).for_each(|error| names(error, &path));
    write_pairs(&path, &[1_i32], &[1_u64]).unwrap();
    all().into_iter().for_each(|error| names(error, &path));
    let (keys, values) = ((&[1_u64, 1]).into(), (&[1_u32, 2]).into());
    crate::Contents { keys, values, has_several: true, note: String::new() }.write(&path).unwrap();
    names(read_pairs::<u64, u32>(&path).unwrap_err(), &path);
    for step in 0.. {
        let (result, failed) = failing(step, true, || tree.save(&path));
        match result {
            Ok(()) => {
                assert!(!failed && step > 5);
                break;
            }
            Err(Error::Io { action: "syncing the folder", path: Some(named), .. }) => assert_eq!(named, folder.path()),
            Err(error) => names(error, &path),
        }
    }
    let path = folder.path().join("none").join("pairs");
    names(tree.save(&path).unwrap_err(), &folder.path().join("none"));
}
