//! Indexes in files: loaded if they are of the table's rows, built again if not, and never believed when they are damaged.

use crate::statements::run;
use crate::{Sessions, config, keys, rows, sorted, table, with_lookups};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use lanetree::Device;
use lanetree::files::{Contents, write_pairs};
use lanetree_datafusion::{IndexFile, IndexedTable};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const ROWS: usize = 3000;
const BUILT: &str = "built and saved: ";
const OTHER_ROWS: &str = "built and saved: the file was of other rows";
/// What answers of each index are compared by.
const QUERIES: [&str; 6] = [
    "SELECT * FROM t WHERE a BETWEEN 20 AND 70",
    "SELECT a FROM t WHERE s LIKE 'row 1%' ORDER BY s DESC LIMIT 9",
    "SELECT count(*), min(a), max(s) FROM t WHERE k IS NULL",
    "SELECT k, a FROM t WHERE k IS NOT NULL ORDER BY k, a LIMIT 40",
    "SELECT t.a, u.s FROM t JOIN t AS u ON t.k = u.k AND t.a = u.a WHERE t.a < 300",
    "SELECT count(DISTINCT k), count(k) FROM t",
];

/// A session with the same rows each time: keys that repeat, and nulls.
fn session(data_type: &DataType, seed: u64) -> SessionContext {
    let state = SessionStateBuilder::new().with_config(config()).with_default_features();
    let session = SessionContext::new_with_state(with_lookups(state).build());
    let (schema, batches) = table(&keys(&mut StdRng::seed_from_u64(seed), ROWS, 700, 0.1), data_type, true);
    session.register_table("t", Arc::new(MemTable::try_new(schema, vec![batches]).unwrap())).unwrap();
    session
}

async fn create(session: &SessionContext, columns: &str, file: &Path) -> Result<String, String> {
    run(session, &format!("CREATE INDEX ix ON t ({columns}) WITH (file = '{}')", file.display())).await
}

async fn check(session: &SessionContext, data_type: &DataType, seed: u64) {
    let plain = self::session(data_type, seed);
    for sql in QUERIES {
        let [found, expected] = [rows(session, sql).await.unwrap(), rows(&plain, sql).await.unwrap()];
        let in_order = |rows: Vec<String>| if sql.contains("ORDER BY") { rows } else { sorted(rows) };
        assert_eq!(in_order(found), in_order(expected), "{sql}");
    }
}

#[tokio::test]
async fn an_index_is_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let times = DataType::Timestamp(TimeUnit::Second, None);
    for (at, (columns, data_type)) in [
        ("k", DataType::Int64),
        ("a", DataType::Int64),
        ("s", DataType::Int64),
        ("k", DataType::Utf8),
        ("k", DataType::Decimal128(30, 0)),
        ("k", times.clone()),
        ("k, a", DataType::Int64),
        ("a, k", times),
    ]
    .into_iter()
    .enumerate()
    {
        let (file, columns) = (folder.path().join(at.to_string()), columns.to_owned());
        let said = create(&session(&data_type, 1), &columns, &file).await.unwrap();
        assert!(said.contains("built and saved: there was no file"), "{columns} {data_type}: {said}");
        let written = fs::read(&file).unwrap();
        let (again, before) = (session(&data_type, 1), fs::metadata(&file).unwrap().modified().unwrap());
        let said = create(&again, &columns, &file).await.unwrap();
        assert!(said.contains("| loaded |"), "{columns} {data_type}: {said}");
        check(&again, &data_type, 1).await;
        let shown = run(&again, "SHOW INDEXES").await.unwrap();
        assert!(shown.contains(&*file.display().to_string()), "{shown}");
        let kept = (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().modified().unwrap());
        assert_eq!(kept, (written, before), "a file that is loaded is not written");
        // A table of other rows has another order, except by columns that have the same values.
        let other = session(&data_type, 2);
        let said = create(&other, &columns, &file).await.unwrap();
        assert!(
            said.contains(if columns.starts_with('k') { OTHER_ROWS } else { "| loaded |" }),
            "{columns} {data_type}: {said}"
        );
        check(&other, &data_type, 2).await;
        // Changes of the table are in memory alone.
        let saved = fs::read(&file).unwrap();
        for sql in ["INSERT INTO t SELECT a + 10000, k, s FROM t WHERE a < 9", "DELETE FROM t WHERE a % 3 = 1"] {
            rows(&other, sql).await.unwrap();
        }
        assert!(fs::read(&file).unwrap() == saved, "{columns}");
    }
}

#[tokio::test]
async fn one_other_value_makes_a_file_one_of_other_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index");
    create(&session(&DataType::Int64, 1), "k", &file).await.unwrap();
    for (sql, is_other) in [
        ("UPDATE t SET s = 'another' WHERE a = 5", false),
        ("UPDATE t SET k = coalesce(k, 0) + 50 WHERE a = 17", true),
        ("UPDATE t SET k = NULL WHERE a < 9", true),
        ("INSERT INTO t VALUES (-1, 5, 'more')", true),
        ("DELETE FROM t WHERE a = 2", true),
    ] {
        create(&session(&DataType::Int64, 1), "k", &file).await.unwrap();
        let changed = session(&DataType::Int64, 1);
        rows(&changed, "CREATE TABLE new AS SELECT * FROM t ORDER BY a").await.unwrap();
        rows(&changed, &sql.replace(" t ", " new ")).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let said = run(&changed, &format!("CREATE INDEX ON new (k) WITH (file = '{}')", file.display())).await.unwrap();
        assert!(said.contains(if is_other { OTHER_ROWS } else { "loaded" }), "{sql}: {said}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index");
    create(&session(&DataType::Int64, 1), "k", &file).await.unwrap();
    let whole = fs::read(&file).unwrap();
    let mut damaged: Vec<Vec<u8>> = (1017..whole.len())
        .step_by(1009)
        .chain([80, 140, 4092])
        .map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            bytes
        })
        .collect();
    damaged.extend([0, 200, 4096, whole.len() - 1].map(|len| whole[..len].to_vec()));
    for (number, bytes) in damaged.into_iter().enumerate() {
        fs::write(&file, bytes).unwrap();
        let session = session(&DataType::Int64, 1);
        let said = create(&session, "k", &file).await.unwrap();
        assert!(said.contains(BUILT) && !said.contains(OTHER_ROWS), "{number}: {said}");
        assert!(fs::read(&file).unwrap() == whole, "{number}");
    }
    // One that no longer says what it is may be another program's.
    let mut unknown = whole.clone();
    unknown[95] ^= 0x10;
    fs::write(&file, &unknown).unwrap();
    let refused = create(&session(&DataType::Int64, 1), "k", &file).await.unwrap_err();
    assert!(refused.contains("name one for the index alone"), "{refused}");
    assert!(fs::read(&file).unwrap() == unknown);
    fs::write(&file, &whole).unwrap();
    // Files with right checksums and wrong rows: two in the wrong order, one twice, one beyond all, one that is null.
    let contents = Contents::<u64, u64>::read(&file).unwrap();
    let (note, last) = (contents.note.clone(), contents.values.len() - 1);
    for change in [
        (|rows: &mut Vec<u64>, last| rows.swap(0, last)) as fn(&mut Vec<u64>, usize),
        |rows, _| rows.swap(0, 1),
        |rows, last| rows[last] = rows[last - 1],
        |rows, last| rows[last] = ROWS as u64,
        |rows, last| rows[last] = u64::MAX,
        |rows, _| rows[1] = (0..ROWS as u64).find(|row| !rows.contains(row)).unwrap(),
        |rows, last| rows.truncate(last),
        |rows, _| rows.clear(),
    ] {
        let mut wrong = contents.values.to_vec();
        change(&mut wrong, last);
        let keys: Vec<u64> = (0..wrong.len() as u64).collect();
        Contents { keys: keys.into(), values: wrong.into(), has_several: false, note: note.clone() }
            .write(&file)
            .unwrap();
        let session = session(&DataType::Int64, 1);
        let said = create(&session, "k", &file).await.unwrap();
        assert!(said.contains(OTHER_ROWS), "{said}");
        check(&session, &DataType::Int64, 1).await;
        assert!(fs::read(&file).unwrap() == whole);
    }
}

#[tokio::test]
async fn a_file_of_more_rows_than_the_table_has_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index");
    create(&session(&DataType::Int64, 1), "a", &file).await.unwrap();
    // Whoever reads its pairs finds that they are damaged.
    let mut bytes = fs::read(&file).unwrap();
    bytes[4096] ^= 1;
    fs::write(&file, bytes).unwrap();
    let small = session(&DataType::Int64, 1);
    rows(&small, "CREATE TABLE few AS SELECT * FROM t LIMIT 10").await.unwrap();
    for said in [OTHER_ROWS, "| loaded |"] {
        let table = format!("CREATE INDEX ON few (a) WITH (file = '{}')", file.display());
        let found = run(&small, &table).await.unwrap();
        assert!(found.contains(said), "{found}");
        run(&small, "DROP INDEX a").await.unwrap();
    }
}

/// The folder that [`changes_without_end`] writes to, in a process of its own.
const FOLDER: &str = "LANETREE_TEST_SAVED_FOLDER";

#[tokio::test]
#[ignore = "a part of another test, which ends it"]
async fn changes_without_end() {
    let folder = std::env::var(FOLDER).unwrap();
    let file = Path::new(&folder).join("index");
    for step in 0.. {
        // Other rows each time, so the file is written each time.
        let session = session(&DataType::Int64, step % 5);
        create(&session, "k", &file).await.unwrap();
        rows(&session, &format!("INSERT INTO t VALUES ({step}, 5, 'new')")).await.unwrap();
        fs::write(Path::new(&folder).join("steps"), step.to_string()).unwrap();
    }
}

#[tokio::test]
async fn a_killed_process_leaves_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index");
    for (number, millis) in (0..12).map(|number| (number, 40 + 7 * number)) {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "saved::changes_without_end", "--ignored"]).env(FOLDER, folder.path());
        let mut child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !folder.path().join("steps").exists() {
            assert!(child.try_wait().unwrap().is_none(), "it has no end");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(folder.path().join("steps")).unwrap();
        // It is of the rows of some step, none of which has what was inserted.
        let whole = Contents::<u64, u64>::read(&file).unwrap();
        let mut loads = 0;
        for seed in 0..5 {
            let session = session(&DataType::Int64, seed);
            let said = create(&session, "k", &file).await.unwrap();
            assert!(said.contains("| loaded |") || said.contains(OTHER_ROWS), "{number}: {said}");
            loads += usize::from(said.contains("| loaded |"));
            check(&session, &DataType::Int64, seed).await;
            whole.write(&file).unwrap();
        }
        assert_eq!(loads, 1, "{number}");
    }
}

#[tokio::test]
async fn other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (text, pairs, short) = (folder.path().join("text"), folder.path().join("pairs"), folder.path().join("short"));
    fs::write(&text, "a text. ".repeat(2000)).unwrap();
    fs::write(&short, "PAR1").unwrap();
    write_pairs(&pairs, &[1_u64, 2], &[3_u64, 4]).unwrap();
    let narrow = folder.path().join("narrow");
    write_pairs(&narrow, &[1_u32], &[3_u64]).unwrap();
    let session = session(&DataType::Int64, 1);
    // Damaged ones of other programs, and what is left of one that may have been any program's.
    let [flipped, cut, begun, header, noted] =
        ["flipped", "cut", "begun", "header", "noted"].map(|name| folder.path().join(name));
    let whole = fs::read(&pairs).unwrap();
    let with_flip =
        |at: usize| whole.iter().enumerate().map(move |(i, byte)| byte ^ u8::from(i == at)).collect::<Vec<_>>();
    fs::write(&flipped, with_flip(4096)).unwrap();
    fs::write(&header, with_flip(80)).unwrap();
    fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    fs::write(&begun, b"LANETREE").unwrap();
    fs::write(&noted, "the order of the rows of an SQL index").unwrap();
    for file in [&text, &pairs, &short, &narrow, &flipped, &cut, &begun, &header, &noted] {
        let before = fs::read(file).unwrap();
        let refused = create(&session, "k", file).await.unwrap_err();
        assert!(refused.contains("is another program's file: name one for the index alone"), "{refused}");
        assert!(fs::read(file).unwrap() == before, "{}", file.display());
    }
    let refused = create(&session, "k", &folder.path().join("none/index")).await.unwrap_err();
    assert!(refused.contains("none"), "{refused}");
    let refused = create(&session, "k", folder.path()).await.unwrap_err();
    assert!(refused.contains(&*folder.path().display().to_string()), "{refused}");
    for (options, said) in [
        ("fillfactor = 70", "WITH (fillfactor = 70): an index has the option file = 'path' alone"),
        ("file = 5", "WITH (file = 5)"),
        ("file = 'a', fillfactor = 70", "an index has the option file = 'path' alone"),
    ] {
        let refused = run(&session, &format!("CREATE INDEX ON t (k) WITH ({options})")).await.unwrap_err();
        assert!(refused.contains(said), "{options}: {refused}");
    }
    let refused = run(&session, "EXPLAIN CREATE INDEX ON t (k) WITH (file = 'a')").await.unwrap_err();
    assert!(refused.contains("EXPLAIN takes none"), "{refused}");
    // Rows that are refused have no file, and the table has no index.
    let file = folder.path().join("unique");
    let sql = format!("CREATE UNIQUE INDEX ON t (k) WITH (file = '{}')", file.display());
    assert!(run(&session, &sql).await.unwrap_err().contains("is unique"));
    assert!(!file.exists() && !run(&session, "SHOW INDEXES").await.unwrap().contains("k"));
}

#[tokio::test]
async fn a_program_has_files_for_its_indexes() {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::host());
    let file = folder.path().join("index");
    for expected in [IndexFile::Built("there was no file".to_owned()), IndexFile::Loaded] {
        let sessions = Sessions::new();
        let (schema, batches) = table(&keys(&mut StdRng::seed_from_u64(3), 500, 90, 0.1), &DataType::Int64, true);
        let indexed = IndexedTable::new(&device, schema, &batches, "k").unwrap();
        assert_eq!(indexed.add_saved_index(&device, "by_s", &["s"], &file).unwrap(), expected);
        let refused = indexed.add_saved_index(&device, "by_s", &["s"], &file).unwrap_err().to_string();
        assert!(refused.contains("there is an index by_s"), "{refused}");
        sessions.lookups.register_table("t", Arc::new(indexed)).unwrap();
        let found = rows(&sessions.lookups, "SELECT a FROM t WHERE s = 'row 57'").await.unwrap();
        assert_eq!(found[3], "| 57 |");
    }
}
