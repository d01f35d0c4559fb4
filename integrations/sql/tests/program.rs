//! The program itself: files as tables, indexes, plans, and errors.

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

/// Runs it in a folder.
fn run(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_lanetree-sql"));
    program.current_dir(folder).args(arguments);
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that has its statements reads no input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> (String, String) {
    (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

/// Customers in Parquet, and orders in CSV.
fn tables() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let customers = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(0..1000)) as _),
        ("name", Arc::new(StringArray::from_iter_values((0..1000).map(|id| format!("customer {id}")))) as _),
    ])
    .unwrap();
    let file = File::create(folder.path().join("customers.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, customers.schema(), None).unwrap();
    writer.write(&customers).unwrap();
    writer.close().unwrap();
    fs::write(folder.path().join("orders.csv"), "customer,amount\n20,5\n10,7\n5000,11\n20,17\n").unwrap();
    folder
}

#[test]
fn a_join_of_files_goes_through_an_index() {
    let folder = tables();
    let statements = "
        CREATE INDEX ON customers (id);
        SELECT name, amount FROM orders JOIN customers ON customer = id ORDER BY amount;
        SELECT name FROM customers WHERE id BETWEEN 998 AND 2000;
        EXPLAIN SELECT name FROM customers WHERE id = 7;
    ";
    let output = run(folder.path(), &["customers.parquet", "orders.csv"], statements);
    let (printed, messages) = texts(&output);
    assert!(output.status.success(), "{messages}");
    let join = "\
+-------------+--------+
| name        | amount |
+-------------+--------+
| customer 20 | 5      |
| customer 10 | 7      |
| customer 20 | 17     |
+-------------+--------+
+--------------+
| name         |
+--------------+
| customer 998 |
| customer 999 |
+--------------+
";
    assert!(printed.starts_with(join), "{printed}");
    assert!(printed.contains("IndexedScanExec: index=id, rows=1"), "{printed}");
    assert!(messages.contains("3 rows, ") && messages.contains("2 rows, "), "{messages}");
}

#[test]
fn statements_of_arguments_run_in_order_over_named_tables() {
    let folder = tables();
    let statements = ["CREATE TABLE big AS SELECT * FROM o WHERE amount > 6", "SELECT count(*) AS n FROM big"];
    let output = run(folder.path(), &["-q", "o=orders.csv", "-c", statements[0], "-c", statements[1]], "");
    let (printed, messages) = texts(&output);
    assert_eq!(printed, "+---+\n| n |\n+---+\n| 3 |\n+---+\n", "{messages}");
    assert_eq!(messages, "");
}

#[test]
fn indexes_are_shown_and_dropped() {
    let folder = tables();
    let statements = "CREATE INDEX ON customers (id); CREATE UNIQUE INDEX named ON customers (name); SHOW INDEXES; DROP INDEX id; \
        EXPLAIN SELECT * FROM customers WHERE id = 7; SHOW INDEXES FROM customers";
    let (printed, messages) = texts(&run(folder.path(), &["-q", "customers.parquet"], statements));
    let shown = |line: &str| printed.matches(&format!("| datafusion.public.customers | {line} ")).count();
    assert_eq!((shown("id    | id      | false"), shown("named | name    | true ")), (1, 2), "{printed}{messages}");
    assert!(!printed.contains("index=id"), "{printed}{messages}");
}

#[test]
fn a_view_of_a_file_has_the_rows_that_are_inserted_into_its_index() {
    let folder = tables();
    let statements = "CREATE VIEW large AS SELECT * FROM orders WHERE amount > 6; CREATE INDEX ON orders (customer); \
        INSERT INTO orders VALUES (30, 40), (31, 1); DELETE FROM orders WHERE customer = 10; \
        SELECT customer FROM large ORDER BY customer";
    let (printed, messages) = texts(&run(folder.path(), &["-q", "orders.csv"], statements));
    assert!(printed.contains("| 20       |\n| 30       |\n| 5000     |\n"), "{printed}{messages}");
}

#[test]
fn changed_tables_are_listed_and_copied_to_files() {
    let folder = tables();
    let statements = "CREATE INDEX ON customers (id); DELETE FROM customers WHERE id >= 3; \
        UPDATE customers SET name = 'Ada' WHERE id = 2; SHOW TABLES; COPY customers TO 'c.parquet'; \
        COPY (SELECT name FROM customers WHERE id = 2) TO 'c.csv'";
    let (printed, messages) = texts(&run(folder.path(), &["-q", "customers.parquet"], statements));
    assert!(printed.contains("| public             | customers   | BASE TABLE |"), "{printed}{messages}");
    let sql = "SELECT count(*) AS n, max(id) AS m, min(name) AS s FROM c";
    let (printed, messages) = texts(&run(folder.path(), &["-q", "c.parquet", "-c", sql], ""));
    assert!(printed.contains("| 3 | 2 | Ada |"), "{printed}{messages}");
    assert_eq!(fs::read_to_string(folder.path().join("c.csv")).unwrap(), "name\nAda\n");
}

#[test]
fn an_index_is_loaded_from_its_file() {
    let folder = tables();
    let statements = "CREATE INDEX ON customers (name) WITH (file = 'by_name'); INSERT INTO customers VALUES (-1, 'customer 99'); \
        SELECT count(*) AS n FROM customers WHERE name LIKE 'customer 99%'";
    // What is inserted is in memory alone.
    for said in ["| built and saved: there was no file |", "| loaded |"] {
        let (printed, messages) = texts(&run(folder.path(), &["-q", "customers.parquet"], statements));
        assert!(printed.contains(said) && printed.contains("| 12 |"), "{printed}{messages}");
    }
}

#[test]
fn a_file_is_read_as_itself_whatever_its_name_is() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["a[1].csv", "a1.csv", "b*.csv", "b2.csv", "c?.csv", "c3.csv", "50%41.csv", "d e#f.csv", "{g,h}.tsv"];
    for (number, name) in names.into_iter().enumerate() {
        fs::write(folder.path().join(name), format!("number\n{number}\n")).unwrap();
    }
    for (number, name) in names.into_iter().enumerate() {
        let output = run(folder.path(), &["-q", &format!("t={name}"), "-c", "SELECT number FROM t"], "");
        let (printed, messages) = texts(&output);
        let expected = format!("+--------+\n| number |\n+--------+\n| {number}      |\n+--------+\n");
        assert_eq!(printed, expected, "{name}: {messages}");
    }
}

#[test]
fn an_error_ends_it_after_what_went_before() {
    let folder = tables();
    let fails = |arguments: &[&str], input: &str, expected: &str| {
        let output = run(folder.path(), arguments, input);
        let (printed, messages) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{messages}");
        assert!(messages.contains(expected), "{messages}");
        printed
    };
    let printed = fails(&["orders.csv"], "SELECT 1 AS one; SELECT nothing FROM orders; SELECT 2 AS two", "nothing");
    assert!(printed.contains("one") && !printed.contains("two"), "{printed}");
    fails(&["none.csv"], "", "none.csv: No such file");
    fails(&["orders.csv"], "CREATE INDEX ON orders (place)", "no column place to index");
    fails(&["orders.csv"], "EXPLAIN CREATE INDEX ON orders (customer) WHERE amount > 5", "leave out WHERE");
    fails(&["orders.csv"], "CREATE INDEX ON orders (customer); DROP INDEX c", "no index c to drop");
    fails(&["--fast"], "", "no option --fast");
    fs::write(folder.path().join("bad.parquet"), "PAR1 and nothing else").unwrap();
    fails(&["bad.parquet"], "", "reading bad.parquet");
    fs::write(folder.path().join("table.txt"), "").unwrap();
    fails(&["table.txt"], "", "no known ending");
    let help = run(folder.path(), &["-h"], "");
    assert!(help.status.success() && texts(&help).0.contains("usage: lanetree-sql"));
    let version = texts(&run(folder.path(), &["--version"], "")).0;
    assert_eq!(version, format!("lanetree-sql {}\n", env!("CARGO_PKG_VERSION")));
}
