//! One scheduler and two executors, as processes on loopback; one executor is killed.

use ballista_core::config::BALLISTA_SHUFFLE_READER_FORCE_REMOTE_READ;
use ballista_core::extension::SessionConfigExt;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use lanetree::Device;
use lanetree_ballista::{Tables, client_context, session_state, write_sharded, write_table};
use lanetree_datafusion::Costs;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

/// The scale of TPC-H.
const SCALE: f64 = 0.01;
/// The partitions of shuffles, and the shards of tables that are in shards.
const PARTITIONS: usize = 4;

/// Joins of TPC-H's queries 3, 5, 10, 13, 14 and 22, and what they look up in: these tables are not restricted, as one that is would be
/// joined by hashes. Rows are in one order.
const QUERIES: [(&str, &[&str]); 6] = [
    (
        "SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority, c_mktsegment
         FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
         WHERE l_shipdate > DATE '1995-03-15'
         GROUP BY l_orderkey, o_orderdate, o_shippriority, c_mktsegment
         ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 20",
        &["table=orders@", "table=customer@"],
    ),
    (
        "SELECT n_name, count(*) AS lines, sum(l_extendedprice) AS price
         FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
              JOIN supplier ON l_suppkey = s_suppkey JOIN nation ON s_nationkey = n_nationkey
         WHERE l_orderkey BETWEEN 1000 AND 40000 GROUP BY n_name ORDER BY n_name",
        &["table=orders@", "table=customer@", "index=s_suppkey", "index=n_nationkey"],
    ),
    (
        "SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name
         FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
              JOIN nation ON c_nationkey = n_nationkey
         WHERE l_returnflag = 'R'
         GROUP BY c_custkey, c_name, c_acctbal, n_name ORDER BY revenue DESC, c_custkey LIMIT 20",
        &["table=orders@", "table=customer@", "index=n_nationkey"],
    ),
    (
        "SELECT o_orderpriority, count(*) AS lines, count(c_custkey) AS found
         FROM orders LEFT JOIN customer ON o_custkey + 700 = c_custkey GROUP BY o_orderpriority ORDER BY o_orderpriority",
        &["join_type=Left", "table=customer@"],
    ),
    (
        "SELECT p_mfgr, count(*) AS lines, sum(l_extendedprice * (1 - l_discount)) AS revenue
         FROM lineitem JOIN part ON l_partkey = p_partkey
         WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-12-01' GROUP BY p_mfgr ORDER BY p_mfgr",
        &["index=p_partkey"],
    ),
    (
        "SELECT o_orderpriority, count(*) AS orders FROM orders
         WHERE NOT EXISTS (SELECT 1 FROM customer WHERE c_custkey = o_custkey + 700)
         GROUP BY o_orderpriority ORDER BY o_orderpriority",
        &["Anti", "table=customer@"],
    ),
];

/// The query during which an executor is killed. No other one looks up in `partsupp`.
const KILLED: &str = "SELECT l_returnflag, count(*) AS pairs, sum(ps_availqty) AS quantity
     FROM lineitem JOIN partsupp ON l_partkey = ps_partkey GROUP BY l_returnflag ORDER BY l_returnflag";

/// Linux's flag of an `open` that does not wait.
const O_NONBLOCK: i32 = 0o4000;

/// A table: its name, schema and rows.
type Rows = (&'static str, SchemaRef, Vec<RecordBatch>);

/// Where a table is.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    /// In Parquet files, which all processes share.
    Parquet,
    /// In shards by a column.
    Shards(&'static str),
    /// In a replica for each process, with an index on a column.
    Replicas(&'static str),
}

/// The tables of TPC-H, and where they are here.
static TPCH: LazyLock<Vec<(Rows, Kept)>> = LazyLock::new(|| {
    fn rows(name: &'static str, batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>) -> Rows {
        let batches: Vec<_> = batches.map(Result::unwrap).collect();
        (name, batches[0].schema(), batches)
    }
    vec![
        (rows("lineitem", LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1))), Kept::Parquet),
        (rows("orders", OrderArrow::new(OrderGenerator::new(SCALE, 1, 1))), Kept::Shards("o_orderkey")),
        (rows("customer", CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1))), Kept::Shards("c_custkey")),
        (rows("part", PartArrow::new(PartGenerator::new(SCALE, 1, 1))), Kept::Replicas("p_partkey")),
        (rows("partsupp", PartSuppArrow::new(PartSuppGenerator::new(SCALE, 1, 1))), Kept::Shards("ps_partkey")),
        (rows("region", RegionArrow::new(RegionGenerator::new(SCALE, 1, 1))), Kept::Replicas("r_regionkey")),
        (rows("supplier", SupplierArrow::new(SupplierGenerator::new(SCALE, 1, 1))), Kept::Replicas("s_suppkey")),
        (rows("nation", NationArrow::new(NationGenerator::new(SCALE, 1, 1))), Kept::Replicas("n_nationkey")),
    ]
});

/// Writes what a process has of tables into a folder.
fn write(folder: &Path, tables: &[(Rows, Kept)]) {
    for ((name, schema, batches), kept) in tables {
        match kept {
            Kept::Parquet => {}
            Kept::Shards(column) => write_sharded(folder, name, schema, batches, column, PARTITIONS).unwrap(),
            Kept::Replicas(column) => write_table(folder, name, schema, batches, &[column]).unwrap(),
        }
    }
}

/// Writes the tables that are in Parquet files, four of each.
fn write_parquet(folder: &Path, tables: &[(Rows, Kept)]) {
    for ((name, schema, batches), _) in tables.iter().filter(|(_, kept)| *kept == Kept::Parquet) {
        fs::create_dir_all(folder.join(name)).unwrap();
        for (number, own) in batches.chunks(batches.len().div_ceil(4)).enumerate() {
            let file = File::create(folder.join(format!("{name}/{number}.parquet"))).unwrap();
            let mut writer = ArrowWriter::try_new(file, schema.clone(), None).unwrap();
            own.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.close().unwrap();
        }
    }
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(log: &Path, arguments: &[&str]) -> Process {
    let log = File::create(log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanetree-ballista"));
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    Process(command.spawn().unwrap())
}

/// Ports that are free now.
fn free_ports<const N: usize>() -> [String; N] {
    let listeners: Vec<_> = (0..N).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap().port().to_string()).collect();
    ports.try_into().unwrap()
}

async fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

struct Cluster {
    folder: TempDir,
    url: String,
    scheduler: Process,
    executors: [Process; 2],
}

impl Cluster {
    async fn start(tables: &[(Rows, Kept)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for replica in ["written", "of-scheduler", "of-client", "of-executor0", "of-executor1"] {
            fs::create_dir(path(replica)).unwrap();
        }
        write(&path("written"), tables);
        for file in fs::read_dir(path("written")).unwrap().map(|entry| entry.unwrap().path()) {
            // Who executes nothing needs the ranges of the shards, not their rows.
            let is_shard = file.extension().is_some_and(|end| end == "shard");
            let others = ["of-scheduler", "of-client"].into_iter().filter(|_| !is_shard);
            for replica in others.chain(["of-executor0", "of-executor1"]) {
                fs::copy(&file, path(replica).join(file.file_name().unwrap())).unwrap();
            }
        }
        write_parquet(folder.path(), tables);
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let ports = free_ports::<5>();
        let own = text(path("of-scheduler"));
        let scheduler = ["scheduler", "--tables", &own, "--port", &ports[0], "--executor-timeout", "3"];
        let scheduler = start(&path("scheduler.log"), &[&scheduler[..], &["--always-look-up", "yes"]].concat());
        let address = format!("127.0.0.1:{}", ports[0]);
        let executors = [0, 1].map(|number| {
            let [tables, work] = ["of", "work"].map(|what| text(path(&format!("{what}-executor{number}"))));
            fs::create_dir_all(&work).unwrap();
            let (port, grpc_port) = (&ports[1 + 2 * number], &ports[2 + 2 * number]);
            let places = ["executor", "--tables", &tables, "--work-dir", &work, "--scheduler", &address];
            let others = ["--port", port, "--grpc-port", grpc_port, "--vcores", "2", "--heartbeat", "1"];
            start(&path(&format!("executor{number}.log")), &[&places[..], &others[..]].concat())
        });
        let cluster = Self { url: format!("df://{address}"), folder, scheduler, executors };
        for number in 0..2 {
            let port = ports[1 + 2 * number].clone();
            wait_until("an executor", || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()).await;
        }
        cluster
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap()
    }

    fn logs(&self) -> String {
        ["scheduler", "executor0", "executor1"].map(|name| format!("{name}:\n{}\n", self.log(name))).concat()
    }

    /// The shards that an executor has opened.
    fn shards(&self, executor: &str) -> BTreeSet<String> {
        let log = self.log(executor);
        let opened = log.lines().filter_map(|line| line.strip_prefix("opened ")?.split_once(".shard: "));
        opened.map(|(shard, _)| shard.to_owned()).collect()
    }

    /// Puts pipes in place of the shards of a table: an executor that opens one waits until somebody writes into it.
    fn make_pipes(&self, executor: &str, table: &str) -> Vec<PathBuf> {
        let folder = fs::read_dir(self.folder.path().join(format!("of-{executor}"))).unwrap();
        let is_shard = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(&format!("{table}.")) && name.ends_with(".shard")
        };
        let shards: Vec<_> = folder.map(|entry| entry.unwrap().path()).filter(is_shard).collect();
        assert_eq!(shards.len(), PARTITIONS);
        for shard in &shards {
            fs::remove_file(shard).unwrap();
            assert!(Command::new("mkfifo").arg(shard).status().unwrap().success());
        }
        shards
    }

    /// Kills an executor when a task of it waits for one of these pipes.
    async fn kill_in_a_task<T>(&mut self, number: usize, pipes: &[PathBuf], job: &tokio::task::JoinHandle<T>) {
        // Only a pipe that somebody waits for can be opened to write without waiting. The executor goes on then, with an error; it is
        // killed before that gets anywhere.
        let is_waited_for = |pipe: &PathBuf| File::options().write(true).custom_flags(O_NONBLOCK).open(pipe).is_ok();
        let started = Instant::now();
        while !pipes.iter().any(is_waited_for) {
            assert!(!job.is_finished(), "the job was done before the executor was killed\n{}", self.logs());
            assert!(started.elapsed() < Duration::from_secs(120), "no task waits for a shard\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.executors[number].0.kill().unwrap();
        self.executors[number].0.wait().unwrap();
        assert!(!job.is_finished(), "{}", self.logs());
    }

    /// A client, whose results come from executors over the network even where their files could be read.
    async fn client(&self) -> SessionContext {
        let config = SessionConfig::new_with_ballista()
            .with_target_partitions(PARTITIONS)
            .set_str(BALLISTA_SHUFFLE_READER_FORCE_REMOTE_READ, "true");
        let tables = Tables::in_folder(self.folder.path().join("of-client"), &Device::host()).unwrap();
        let client = client_context(&self.url, &tables, config).await.unwrap();
        let lineitem = self.folder.path().join("lineitem");
        if lineitem.exists() {
            let options = ParquetReadOptions::default();
            client.register_parquet("lineitem", lineitem.to_str().unwrap(), options).await.unwrap();
        }
        client
    }

    /// The plans of the scheduler.
    async fn plan(&self, sql: &str) -> String {
        let tables = Tables::in_folder(self.folder.path().join("of-scheduler"), &Device::host()).unwrap();
        let config = SessionConfig::new_with_ballista().with_target_partitions(PARTITIONS);
        let planner = SessionContext::new_with_state(session_state(config, &tables, Costs::ALWAYS).unwrap());
        for name in tables.names().await.unwrap() {
            planner.register_table(&name, tables.provider(&name).unwrap()).unwrap();
        }
        let lineitem = self.folder.path().join("lineitem");
        let options = ParquetReadOptions::default();
        planner.register_parquet("lineitem", lineitem.to_str().unwrap(), options).await.unwrap();
        let plan = planner.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        displayable(&*plan).indent(false).to_string()
    }
}

async fn rows(context: &SessionContext, sql: &str) -> datafusion::error::Result<String> {
    Ok(pretty_format_batches(&context.sql(sql).await?.collect().await?)?.to_string())
}

/// The same tables in this process, without indexes.
fn one_process(tables: &[(Rows, Kept)]) -> SessionContext {
    let context = SessionContext::new();
    for ((name, schema, batches), _) in tables {
        let table = MemTable::try_new(schema.clone(), vec![batches.clone()]).unwrap();
        context.register_table(*name, Arc::new(table)).unwrap();
    }
    context
}

#[tokio::test(flavor = "multi_thread")]
async fn two_executors_answer_as_one_process_does_also_when_one_of_them_is_killed_in_a_task() {
    let alone = one_process(&TPCH);
    let mut cluster = Cluster::start(&TPCH).await;
    let client = cluster.client().await;

    let mut expected = Vec::new();
    for (sql, lookups) in QUERIES {
        let plan = cluster.plan(sql).await;
        assert!(plan.contains("LookupExec") && lookups.iter().all(|lookup| plan.contains(lookup)), "{plan}");
        expected.push(rows(&alone, sql).await.unwrap());
        match rows(&client, sql).await {
            Ok(found) => assert_eq!(found, expected[expected.len() - 1], "{plan}"),
            Err(error) => panic!("{error}\n{plan}\n{}", cluster.logs()),
        }
    }
    // Each executor has opened its own replicas, and half of the shards.
    let [own, others] = ["executor0", "executor1"].map(|name| {
        assert!(cluster.log(name).contains("opened part@"), "{}", cluster.logs());
        cluster.shards(name)
    });
    assert!(own.is_disjoint(&others) && own.len() == PARTITIONS && others.len() == PARTITIONS, "{own:?} {others:?}");

    // A new job, one of whose executors is killed in the middle of a task: while it waits for a shard, which is a pipe in place of a
    // file there.
    let pipes = cluster.make_pipes("executor0", "partsupp");
    let (sql, in_job) = (KILLED, client.clone());
    expected.push(rows(&alone, sql).await.unwrap());
    let job = tokio::spawn(async move { rows(&in_job, sql).await });
    cluster.kill_in_a_task(0, &pipes, &job).await;
    match tokio::time::timeout(Duration::from_secs(180), job).await {
        Ok(Ok(Ok(found))) => assert_eq!(Some(&found), expected.last()),
        other => panic!("{other:?}\n{}", cluster.logs()),
    }
    assert!(cluster.scheduler.0.try_wait().unwrap().is_none());
    // And the one that is left answers all, with all shards.
    for ((sql, _), expected) in QUERIES.iter().zip(&expected) {
        assert_eq!(&rows(&client, sql).await.unwrap(), expected);
    }
    assert_eq!(cluster.shards("executor1").len(), 3 * PARTITIONS);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_whose_table_has_other_rows_refuses_the_plan() {
    let mut tables = TPCH.clone();
    tables.retain(|((name, ..), _)| ["nation", "supplier"].contains(name));
    let cluster = Cluster::start(&tables).await;
    let client = cluster.client().await;
    let sql = "SELECT count(*) AS suppliers FROM supplier JOIN nation ON s_nationkey = n_nationkey";
    for ((name, _, batches), _) in &mut tables {
        if *name == "nation" {
            batches.iter_mut().for_each(|batch| *batch = batch.slice(0, batch.num_rows() - 1));
        }
    }
    for replica in ["of-executor0", "of-executor1"] {
        write(&cluster.folder.path().join(replica), &tables);
    }
    let error = rows(&client, sql).await.unwrap_err().to_string();
    assert!(error.contains("rejected by executor"), "{error}\n{}", cluster.logs());
    assert!(cluster.logs().contains("the plan is over nation@"), "{}", cluster.logs());
}

#[test]
fn the_demonstration_has_the_rows_of_its_tables() {
    let output = Command::new(env!("CARGO_BIN_EXE_lanetree-ballista")).arg("demo").output().unwrap();
    let (stdout, log) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    // The customers of orders by number, whose square modulo 1009 is the customer.
    let mut amounts = vec![(0, 0); 1000];
    for order in 0..10_000 {
        if let Some((orders, amount)) = amounts.get_mut(order * order % 1009) {
            (*orders, *amount) = (*orders + 1, *amount + order % 97);
        }
    }
    let (most, (orders, amount)) = amounts.iter().enumerate().max_by_key(|(_, (_, amount))| amount).unwrap();
    let row = stdout.lines().find(|line| line.starts_with("| customer ")).unwrap_or_else(|| panic!("{stdout}\n{log}"));
    let cells: Vec<_> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[2..4], [orders.to_string(), amount.to_string()], "{most}: {stdout}");
    assert_eq!(log.matches("opened customers.").count(), 4, "{log}");
}

fn sorted(rows: &str) -> Vec<&str> {
    let mut lines: Vec<_> = rows.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn all_queries_of_tpch_have_the_results_of_one_process() {
    let (alone, cluster) = (one_process(&TPCH), Cluster::start(&TPCH).await);
    let client = cluster.client().await;
    let queries = include_str!("../../../datafusion/tests/sql/tpch.sql").split(';');
    let queries: Vec<_> = queries.filter(|query| query.contains("SELECT")).collect();
    assert_eq!(queries.len(), 22);
    let mut in_shards = 0;
    for (number, query) in (1..).zip(queries) {
        let expected = rows(&alone, query).await.unwrap();
        let plan = cluster.plan(query).await;
        in_shards += usize::from(plan.contains("ShardedLookupExec"));
        match rows(&client, query).await {
            Ok(found) => assert_eq!(sorted(&found), sorted(&expected), "{number}\n{plan}"),
            Err(error) => panic!("{number}: {error}\n{plan}\n{}", cluster.logs()),
        }
    }
    // (Of a shard's join with a filtered table, the scheduler prefers to look up in that one, since here it always looks up.)
    assert!(in_shards >= 7, "{in_shards}");
}
