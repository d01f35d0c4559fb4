//! Logs: replayed, cut off, damaged and compacted.

use super::crash::{PowerCuts, failing, steps};
use super::damage::largest_allocation;
use super::killed::without_children;
use crate::Durability::{Synced, Unsynced};
use crate::{Compacted, Compaction, Durability, Error, Log, Opened, Result, Section};
use lanetree_frame::{Device, Op, apply_to_map};
use lanetree_lane_tree::LaneTree;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

type Map = BTreeMap<u64, u32>;
type Batch = Vec<Op<u64, u32>>;

fn open(folder: &Path) -> Result<Opened<u64, u32>> {
    Log::open(folder)
}

fn map(opened: &Opened<u64, u32>) -> Map {
    assert!(opened.keys.is_sorted_by(|a, b| a < b));
    opened.keys.iter().copied().zip(opened.values.iter().copied()).collect()
}

/// A base, and batches with which every state differs from all others.
fn base() -> Map {
    Map::from([(10, 1), (20, 2), (30, 3)])
}

fn batch(number: u32) -> Batch {
    let key = 1000 + u64::from(number);
    vec![
        Op::Insert(key, number),
        Op::Update(10, number + 100),
        Op::Update(5, 1),
        Op::Insert(20, number),
        Op::Remove(if number.is_multiple_of(2) { 20 } else { 40 }),
    ]
}

/// The pairs after `batches` batches.
fn after(batches: u32) -> Map {
    let mut map = base();
    for number in 0..batches {
        apply_to_map(&mut map, &batch(number));
    }
    map
}

fn create(folder: &Path) -> Result<Log<u64, u32>> {
    let (keys, values): (Vec<_>, Vec<_>) = base().into_iter().unzip();
    Log::create(folder, &keys, &values)
}

/// What is done to a log.
#[derive(Clone, Copy)]
enum Act {
    Append(Durability),
    Sync,
    Compact,
    /// The steps of a compaction while batches are appended.
    Begin,
    Run,
    Finish,
}

impl Act {
    /// Whether all batches are on disk after it.
    fn syncs(self) -> bool {
        !matches!(self, Self::Append(Unsynced) | Self::Begin | Self::Run)
    }
}

const SCRIPT: [Act; 21] = [
    Act::Append(Synced),
    Act::Append(Unsynced),
    Act::Append(Unsynced),
    Act::Append(Synced),
    Act::Append(Unsynced),
    Act::Sync,
    Act::Append(Unsynced),
    Act::Compact,
    Act::Append(Unsynced),
    Act::Append(Synced),
    Act::Compact,
    Act::Append(Synced),
    Act::Append(Unsynced),
    Act::Begin,
    Act::Append(Unsynced),
    Act::Run,
    Act::Append(Synced),
    Act::Append(Unsynced),
    Act::Finish,
    Act::Append(Unsynced),
    Act::Append(Synced),
];

/// How far a compaction has come.
#[derive(Default)]
struct Compacting(Option<Compaction<u64, u32>>, Option<Compacted<u64, u32>>);

fn act(log: &mut Log<u64, u32>, compaction: &mut Compacting, act: Act) -> Result<()> {
    match act {
        Act::Begin => log.begin_compaction().map(|begun| compaction.0 = Some(begun)),
        Act::Run => compaction.0.take().expect("it was begun").run().map(|compacted| compaction.1 = Some(compacted)),
        Act::Finish => log.finish_compaction(compaction.1.take().expect("it was run")),
        Act::Append(durability) => log.append(&batch(log.next_batch() as u32), durability).map(drop),
        Act::Sync => log.sync(),
        Act::Compact => log.compact(),
    }
}

#[test]
fn a_log_replays_its_batches_and_goes_on() {
    let _alone = without_children();
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("log");
    let mut log = create(&folder).unwrap();
    assert!(matches!(open(&folder), Err(Error::Io { .. })), "it is open");
    for number in 0..3 {
        assert_eq!(log.append(&batch(number), Unsynced).unwrap(), u64::from(number));
    }
    drop(log);
    assert!(matches!(create(&folder), Err(Error::Io { .. })), "there is one");
    let mut opened = open(&folder).unwrap();
    assert_eq!(map(&opened), after(3));
    assert_eq!((opened.replay.batches, opened.replay.ops, opened.replay.torn.clone()), (3, 15, None));
    assert!(opened.log.batch_bytes() > 0);
    opened.log.compact().unwrap();
    assert_eq!((opened.log.batch_bytes(), opened.log.next_batch()), (0, 3));
    assert_eq!(opened.log.append(&batch(3), Synced).unwrap(), 3);
    assert_eq!(opened.log.append(&[], Synced).unwrap(), 4);
    drop(opened);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "the old files are removed");

    let host = Device::host();
    let (log, index, replay) = Log::load(&LaneTree::<u64, u32>::builder().fill(0.8), &host, &folder).unwrap();
    assert_eq!(index.pairs().unwrap(), after(4).into_iter().collect::<Vec<_>>());
    assert_eq!((replay.batches, log.next_batch()), (2, 5));
    drop(log);
    assert!(matches!(Log::<u64, u64>::open(&folder), Err(Error::Types { .. })));

    // Of a set.
    let folder = parent.path().join("set");
    let mut log = Log::create(&folder, &[1_u128, 2], &[(), ()]).unwrap();
    log.append(&[Op::Insert(7, ()), Op::Remove(1), Op::Update(9, ())], Synced).unwrap();
    drop(log);
    assert_eq!(Log::<u128, ()>::open(&folder).unwrap().keys, [2, 7]);
}

#[test]
fn after_a_power_cut_at_any_step_all_synced_batches_are_there() {
    let _alone = without_children();
    let folder = tempfile::tempdir().unwrap();
    let cuts = PowerCuts::begin(folder.path());
    let mut log = create(folder.path()).unwrap();
    // The least number of batches that are on disk after each number of steps; `None` before there is a log.
    let mut acknowledged = vec![(steps(), 0)];
    let mut begun = vec![(0, 0)];
    let (mut appended, mut compaction) = (0, Compacting::default());
    for next in SCRIPT {
        if let Act::Append(_) = next {
            begun.push((steps(), log.next_batch() as u32 + 1));
        }
        act(&mut log, &mut compaction, next).unwrap();
        appended = log.next_batch() as u32;
        if next.syncs() {
            acknowledged.push((steps(), appended));
        }
    }
    drop(log);
    let (mut with_torn, mut most) = (0, 0);
    let states = cuts.each(|step, folder| {
        let least = acknowledged.iter().rev().find(|at| at.0 <= step).map(|at| at.1);
        let latest = begun.iter().rev().find(|at| at.0 < step.max(1)).map_or(0, |at| at.1);
        let mut opened = match (open(folder), least) {
            (Ok(opened), _) => opened,
            (Err(Error::Io { .. }), None) => {
                drop(create(folder).unwrap());
                return;
            }
            (Err(error), _) => panic!("step {step}: {error}"),
        };
        with_torn += usize::from(opened.replay.torn.is_some());
        let batches = opened.log.next_batch() as u32;
        assert!(least.is_none_or(|least| batches >= least), "step {step}: {batches} batches, not {least:?}");
        assert!(batches <= latest, "step {step}: {batches} batches of {latest}");
        assert_eq!(map(&opened), after(batches), "step {step}");
        most = most.max(batches);
        // And it goes on.
        opened.log.append(&batch(batches), Synced).unwrap();
        drop(opened);
        let again = open(folder).unwrap();
        assert_eq!((map(&again), again.replay.torn), (after(batches + 1), None), "step {step}");
    });
    assert!(states > 80 && with_torn > 5 && most == appended, "{states} states, {with_torn} torn");
}

#[test]
fn a_log_whose_disk_fails_at_any_step_loses_nothing_that_was_synced() {
    let _alone = without_children();
    for (all_after, compacts) in [(false, false), (false, true), (true, false), (true, true)] {
        for step in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let mut log = create(folder.path()).unwrap();
            let (mut least, mut compaction) = (0, Compacting::default());
            let (error, failed) = failing(step, all_after, || {
                for next in SCRIPT {
                    if let Err(error) = act(&mut log, &mut compaction, next) {
                        return Some(error);
                    }
                    least = log.next_batch() as u32;
                }
                None
            });
            // One that has been begun is given up.
            drop(compaction);
            let next = log.next_batch() as u32;
            if log.is_failed() {
                assert!(matches!(log.append(&batch(next), Synced), Err(Error::LogFailed { .. })));
                assert!(matches!(log.compact(), Err(Error::LogFailed { .. })));
            } else if error.is_some() {
                // It goes on: the step that failed can be done again.
                log.append(&batch(next), Synced).unwrap();
                if compacts {
                    log.compact().unwrap();
                }
                least = next + 1;
            }
            let was_failed = log.is_failed();
            drop(log);
            let opened = open(folder.path()).unwrap();
            let batches = opened.log.next_batch() as u32;
            // The process goes on, so what was not synced is there, too; and what failed may be.
            assert!(
                batches == least || was_failed && batches == least + 1,
                "step {step}: {batches} batches of {least}"
            );
            assert_eq!(map(&opened), after(batches), "step {step}");
            if !failed {
                assert!(step > 20 && error.is_none());
                break;
            }
        }
    }
}

/// The only file of batches in a folder.
fn batches_file(folder: &Path) -> std::path::PathBuf {
    folder.join("0.log")
}

/// A log of four batches, and where each begins.
fn four(folder: &Path, durability: Durability) -> (Vec<u8>, Vec<usize>) {
    let mut log = create(folder).unwrap();
    let mut starts = Vec::new();
    for number in 0..4 {
        starts.push(4096 + log.batch_bytes() as usize);
        log.append(&batch(number), durability).unwrap();
    }
    drop(log);
    (fs::read(batches_file(folder)).unwrap(), starts)
}

#[test]
fn a_damaged_middle_is_an_error_and_a_damaged_end_is_cut_off() {
    let _alone = without_children();
    for durability in [Synced, Unsynced] {
        let folder = tempfile::tempdir().unwrap();
        let (mut bytes, starts) = four(folder.path(), durability);
        for at in (0..4096).step_by(97).chain(4092..bytes.len()) {
            bytes[at] ^= 1 << (at % 8);
            fs::write(batches_file(folder.path()), &bytes).unwrap();
            let damaged = starts.iter().rposition(|&start| start <= at);
            match (damaged, open(folder.path())) {
                (None, Err(Error::Damaged { section: Section::LogHeader, .. } | Error::Unsupported { .. })) => {}
                // Only if all is on disk, the end is known to be what was damaged.
                (Some(number @ 0..3), Err(Error::Damaged { section, offset, .. })) if durability == Synced => {
                    assert_eq!(section, Section::Batch(number as u64), "byte {at}");
                    assert!((starts[number]..starts[number + 1]).contains(&(offset as usize)), "byte {at}: {offset}");
                    assert_eq!(fs::read(batches_file(folder.path())).unwrap(), bytes, "the file is as it was");
                }
                (Some(number), Ok(opened)) if durability == Unsynced || number == 3 => {
                    let torn = opened.replay.torn.as_ref().unwrap();
                    assert_eq!((torn.batch, torn.offset), (number as u64, starts[number] as u64));
                    assert_eq!(torn.offset + torn.bytes, bytes.len() as u64);
                    assert_eq!(map(&opened), after(number as u32));
                }
                (_, other) => panic!("byte {at}: {other:?}"),
            }
            bytes[at] ^= 1 << (at % 8);
        }
    }
}

#[test]
fn a_log_of_any_shorter_length_is_cut_off_at_a_batch() {
    let _alone = without_children();
    let folder = tempfile::tempdir().unwrap();
    let (bytes, starts) = four(folder.path(), Synced);
    for len in 0..bytes.len() {
        fs::write(batches_file(folder.path()), &bytes[..len]).unwrap();
        match open(folder.path()) {
            Err(Error::Damaged { section: Section::LogHeader, .. }) if len < 4096 => {}
            Ok(opened) if len >= 4096 => {
                let batches = opened.log.next_batch() as usize;
                assert_eq!(map(&opened), after(batches as u32));
                assert_eq!(opened.replay.torn.is_some(), len != starts[batches]);
                assert_eq!(fs::metadata(batches_file(folder.path())).unwrap().len(), starts[batches] as u64);
            }
            other => panic!("{len} bytes: {other:?}"),
        }
    }
}

#[test]
fn numbers_of_operations_that_the_file_has_no_bytes_for_allocate_nothing() {
    let _alone = without_children();
    let folder = tempfile::tempdir().unwrap();
    let (mut bytes, starts) = four(folder.path(), Synced);
    // The last batch: of the others it is an error.
    let start = starts[3];
    for count in [6, 1 << 16, u32::MAX] {
        bytes[start + 4..][..4].copy_from_slice(&count.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[start..][..28]);
        bytes[start + 28..][..4].copy_from_slice(&checksum.to_le_bytes());
        fs::write(batches_file(folder.path()), &bytes).unwrap();
        let allocated = largest_allocation(|| assert!(open(folder.path()).unwrap().replay.torn.is_some()));
        // A page of the system's for the names in a folder.
        assert!(allocated <= 1 << 16, "{allocated} bytes");
    }
}

fn op() -> impl Strategy<Value = Op<u64, u32>> {
    (0..40_u64, any::<u32>(), 0..3).prop_map(|(key, value, kind)| match kind {
        0 => Op::Insert(key, value),
        1 => Op::Update(key, value),
        _ => Op::Remove(key),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_log_has_the_pairs_of_a_map_to_which_the_same_was_done(
        base in prop::collection::btree_map(0..40_u64, any::<u32>(), 0..20),
        // Batches, after which the log is opened again or compacted.
        batches in prop::collection::vec((prop::collection::vec(op(), 0..30), 0..4), 0..8),
    ) {
        let _alone = without_children();
        let folder = tempfile::tempdir().unwrap();
        let (keys, values): (Vec<_>, Vec<_>) = base.iter().map(|(&key, &value)| (key, value)).unzip();
        let mut expected = base;
        let mut log = Log::create(folder.path(), &keys, &values).unwrap();
        for (ops, then) in batches {
            log.append(&ops, Unsynced).unwrap();
            apply_to_map(&mut expected, &ops);
            if then & 1 != 0 {
                log.compact().unwrap();
            }
            if then & 2 != 0 {
                drop(log);
                let opened = open(folder.path()).unwrap();
                prop_assert_eq!(map(&opened), expected.clone());
                log = opened.log;
            }
        }
        drop(log);
        prop_assert_eq!(map(&open(folder.path()).unwrap()), expected);
    }
}

#[test]
fn batches_are_appended_while_another_thread_compacts() {
    let _alone = without_children();
    let folder = tempfile::tempdir().unwrap();
    let mut log = create(folder.path()).unwrap();
    while log.next_batch() < 60 {
        let number = log.next_batch() as u32;
        log.append(&batch(number), Unsynced).unwrap();
        if number.is_multiple_of(5) {
            let compaction = log.begin_compaction().unwrap();
            assert!(format!("{compaction:?}").contains(&format!("up to batch {}", number + 1)));
            let worker = std::thread::spawn(|| compaction.run());
            assert!(matches!(log.begin_compaction(), Err(Error::CompactionBegun { .. })));
            assert!(matches!(log.compact(), Err(Error::CompactionBegun { .. })));
            for later in 1..=number % 3 {
                log.append(&batch(number + later), Unsynced).unwrap();
            }
            let before = log.next_batch() as u32;
            let compacted = worker.join().unwrap().unwrap();
            log.finish_compaction(compacted).unwrap();
            assert_eq!(log.next_batch() as u32, before);
        }
    }
    let (kept, batches) = (log.batch_bytes(), log.next_batch() as u32);
    drop(log);
    let mut opened = open(folder.path()).unwrap();
    assert_eq!((map(&opened), opened.log.batch_bytes()), (after(batches), kept));
    // One that is dropped changes nothing.
    let compacted = opened.log.begin_compaction().unwrap().run().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut other = create(elsewhere.path()).unwrap();
    assert!(matches!(other.finish_compaction(compacted), Err(Error::OtherLog { .. })));
    opened.log.append(&batch(batches), Synced).unwrap();
    drop(opened);
    assert_eq!(map(&open(folder.path()).unwrap()), after(batches + 1));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_log_whose_folder_was_renamed_leaves_the_log_at_its_old_path_alone() {
    let _alone = without_children();
    // A compaction before, about and after the rename.
    for begun in [None, Some(false), Some(true)] {
        let parent = tempfile::tempdir().unwrap();
        let [path, renamed] = ["a", "b"].map(|name| parent.path().join(name));
        let mut old = create(&path).unwrap();
        old.append(&batch(0), Synced).unwrap();
        let mut compacted = None;
        let mut begin = |old: &mut Log<u64, u32>| compacted = Some(old.begin_compaction().unwrap().run().unwrap());
        if begun == Some(true) {
            begin(&mut old);
        }
        fs::rename(&path, &renamed).unwrap();
        let mut new = Log::create(&path, &[7_u64], &[70_u32]).unwrap();
        new.append(&[Op::Insert(8, 80)], Synced).unwrap();
        if begun == Some(false) {
            begin(&mut old);
        }
        old.append(&batch(1), Synced).unwrap();
        match compacted {
            Some(compacted) => old.finish_compaction(compacted).unwrap(),
            None => old.compact().unwrap(),
        }
        old.append(&batch(2), Synced).unwrap();
        new.append(&[Op::Insert(9, 90)], Synced).unwrap();
        drop((old, new));
        assert_eq!(map(&open(&renamed).unwrap()), after(3), "{begun:?}");
        assert_eq!(map(&open(&path).unwrap()), Map::from([(7, 70), (8, 80), (9, 90)]), "{begun:?}");
        for (folder, generation) in [(path, 0), (renamed, 1)] {
            let mut names: Vec<std::ffi::OsString> =
                fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(
                names,
                ["base", "log"].map(|kind| std::ffi::OsString::from(format!("{generation}.{kind}"))),
                "{begun:?}"
            );
        }
    }
}

/// All files of a folder but the log's own ones.
fn others(folder: &Path, own: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let named = files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()));
    named.filter(|(name, _)| !own.contains(&&**name)).collect()
}

#[test]
fn a_log_is_not_created_beside_files_with_names_of_a_log() {
    let _alone = without_children();
    let parent = tempfile::tempdir().unwrap();
    let of_log = parent.path().join("log");
    let (batches, _) = four(&of_log, Synced);
    let texts: [(&str, &[u8]); 7] = [
        ("0.log", b"of a user"),
        ("0.base", b"of a user"),
        ("7.log", b""),
        ("2024.log", b"LANETREE"),
        ("3.base", b"LANETLOG"),
        // Batches whose base has got lost.
        ("0.log", &batches),
        ("4.log", &batches[..4096]),
    ];
    for (name, text) in texts {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        let error = create(folder.path()).unwrap_err();
        assert!(matches!(&error, Error::Io { path: Some(path), .. } if path.ends_with(name)), "{error}");
        assert!(error.to_string().contains("move it to another folder"), "{error}");
        assert_eq!(others(folder.path(), &[]), [(name.to_owned(), text.to_vec())].into());
    }
    let error = create(&of_log).unwrap_err();
    assert!(error.to_string().contains("0.base\": the folder has a log: open it"), "{error}");
    // What a create that was cut off has left.
    let folder = tempfile::tempdir().unwrap();
    fs::write(batches_file(folder.path()), &batches[..4096]).unwrap();
    assert_eq!(create(folder.path()).unwrap().next_batch(), 0);
}

#[test]
fn a_log_leaves_other_files_of_its_folder_alone() {
    let _alone = without_children();
    let folder = tempfile::tempdir().unwrap();
    let unlike = ["+5.base", "007.base", "5.base.bak", "5", ".log", "-1.log", "5.Base", "18446744073709551615.base"];
    for name in unlike {
        fs::write(folder.path().join(name), name).unwrap();
    }
    drop(create(folder.path()).unwrap());
    // Names of a log's files, which come after it was created.
    let alike = ["2024.log", "7.log"];
    for name in alike {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let expected = unlike.into_iter().chain(alike).map(|name| (name.to_owned(), name.into())).collect();
    let mut opened = open(folder.path()).unwrap();
    assert_eq!((map(&opened), others(folder.path(), &["0.base", "0.log"])), (after(0), expected));
    let expected = others(folder.path(), &["0.base", "0.log"]);
    opened.log.append(&batch(0), Synced).unwrap();
    // A file whose name the compaction needs.
    for name in ["1.log", "1.base"] {
        let path = folder.path().join(name);
        fs::write(&path, "of a user").unwrap();
        let error = opened.log.compact().unwrap_err();
        assert!(error.to_string().contains(&format!("{name}\": the log needs this name")), "{error}");
        assert!(!opened.log.is_failed());
        assert_eq!(fs::read(&path).unwrap(), b"of a user");
        fs::remove_file(path).unwrap();
    }
    opened.log.append(&batch(1), Synced).unwrap();
    opened.log.compact().unwrap();
    drop(opened);
    assert_eq!(map(&open(folder.path()).unwrap()), after(2));
    assert_eq!(others(folder.path(), &["1.base", "1.log"]), expected);
    // A base that is not one: the log is not opened as if it were not there, since it could be the log's own, damaged.
    fs::write(folder.path().join("2024.base"), "of a user").unwrap();
    let before = others(folder.path(), &[]);
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(&error, Error::Damaged { path: Some(path), .. } if path.ends_with("2024.base")), "{error}");
    assert_eq!(others(folder.path(), &[]), before);
}

#[test]
fn numbers_after_which_there_are_none_are_damage() {
    let _alone = without_children();
    let folder = tempfile::tempdir().unwrap();
    let (mut bytes, _) = four(folder.path(), Synced);
    for number in [1_u64 << 63, u64::MAX - 3, u64::MAX] {
        bytes[80..88].copy_from_slice(&number.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..4092]);
        bytes[4092..4096].copy_from_slice(&checksum.to_le_bytes());
        fs::write(batches_file(folder.path()), &bytes).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert!(matches!(error, Error::Damaged { section: Section::LogHeader, offset: 80, .. }), "{error}");
        assert!(error.to_string().contains("below 9223372036854775808"), "{error}");
        assert_eq!(fs::read(batches_file(folder.path())).unwrap(), bytes);
    }
    // The last number of a base: there is none for the next one.
    let folder = tempfile::tempdir().unwrap();
    drop(create(folder.path()).unwrap());
    let last = (1_u64 << 63) - 1;
    for kind in ["base", "log"] {
        fs::rename(folder.path().join(format!("0.{kind}")), folder.path().join(format!("{last}.{kind}"))).unwrap();
    }
    let mut opened = open(folder.path()).unwrap();
    opened.log.append(&batch(0), Synced).unwrap();
    assert!(opened.log.compact().unwrap_err().to_string().contains("no number is left"));
    opened.log.append(&batch(1), Synced).unwrap();
    drop(opened);
    assert_eq!(map(&open(folder.path()).unwrap()), after(2));
}

#[test]
fn errors_of_a_log_name_its_files() {
    let _alone = without_children();
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("log");
    let names = |error: Error, path: &Path| {
        let (text, path) = (error.to_string(), format!("{path:?}"));
        assert!(text.contains(&path), "{text} does not name {path}");
    };
    names(open(&folder).unwrap_err(), &folder);
    names(create(&parent.path().join("none").join("log")).unwrap_err(), &parent.path().join("none").join("log"));
    fs::create_dir(&folder).unwrap();
    names(open(&folder).unwrap_err(), &folder);
    let mut log = create(&folder).unwrap();
    names(open(&folder).unwrap_err(), &folder);
    let compacted = log.begin_compaction().unwrap().run().unwrap();
    names(log.compact().unwrap_err(), &folder);
    let elsewhere = tempfile::tempdir().unwrap();
    names(create(elsewhere.path()).unwrap().finish_compaction(compacted).unwrap_err(), &folder);
    for (step, all_after) in [(0, false), (1, true)] {
        let error = failing(step, all_after, || log.append(&batch(0), Synced)).0.unwrap_err();
        names(error, &folder.join("0.log"));
    }
    assert!(log.is_failed());
    names(log.append(&batch(0), Synced).unwrap_err(), &folder);
    drop(log);
    for name in ["0.log", "0.base"] {
        let (path, kept) = (folder.join(name), fs::read(folder.join(name)).unwrap());
        names(Log::<i64, u32>::open(&folder).unwrap_err(), &folder.join("0.base"));
        fs::write(&path, &kept[..100]).unwrap();
        names(open(&folder).unwrap_err(), &path);
        fs::remove_file(&path).unwrap();
        names(open(&folder).unwrap_err(), if name == "0.log" { &path } else { &folder });
        fs::write(&path, kept).unwrap();
    }
}
